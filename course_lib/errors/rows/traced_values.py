"""Values that are known only when the kernel runs, and arrays that are not among its refs."""

from course_lib.errors.row import Row


def _length(fn, fn2, fn3, fn4) -> dict[str, str]:
    """Return the name of the function, and that of its argument for the length."""
    name = next(group for group in (fn, fn2, fn3, fn4) if group not in (None, "?"))
    return {"name": name, "length": {"repeat": "total_repeat_length", "bincount": "length"}.get(name, "size")}


ROWS = (
    Row(
        "numpy-in-kernel",
        r"TracerArrayConversionError",
        "A NumPy function was given a value that is known only when the kernel runs.",
        "use the function of the same name in jax.numpy: jnp.add, not np.add.",
        "01",
    ),
    Row(
        "length-of-a-result",
        r"ConcretizationTypeError.*?(?:compiling jnp\.(?P<fn>repeat), the total number|"
        r"of jnp\.(?P<fn2>bincount)\. To avoid this error, pass a static `length`|"
        r"size argument of jnp\.(?P<fn3>\w+) must be|make jnp\.(?P<fn4>\w+)\(\) compatible with JIT)",
        "The length of the result of jnp.{name} depends on values known only when it runs, which jit does not allow.",
        "give it the length, as large as it can get: jnp.{name}(..., {length}=...).",
        "15",
        more=_length,
    ),
    Row(
        "truth-of-an-array",
        r"truth value of an array with more than one element is ambiguous",
        "An array of several elements is used where Python needs one truth value: in `if`, `and`, `or`, `not`, or in "
        "a comparison like a < b < c.",
        "combine arrays with & and |, with each comparison in parentheses: (a >= 0) & (a < n); choose with jnp.where.",
        "08",
    ),
    Row(
        "number-in-kernel",
        r"ConcretizationTypeError",
        "The kernel asked for a plain Python number (float(), int(), .item()) from a value known only when it runs.",
        "compute with the value itself; value.astype(dtype) changes its dtype.",
        "01",
    ),
    Row(
        "waited-for",
        r"'block_until_ready' method is not available on traced array",
        "The function waits for its result, .block_until_ready(), while it is traced: nothing has run yet.",
        "remove it here; for a timing, wait where the function is called.",
        "01",
    ),
    Row(
        "slice-of-a-value",
        r"It was made for the end of a slice|Array slice indices must have static start/stop/step",
        "The kernel takes a slice [a:b] with an end that is known only when it runs, but the size must be known "
        "before.",
        "take the whole block, or a fixed size from a start, pl.ds(start, 128), and select the valid elements with "
        "jnp.where.",
        "04",
    ),
    Row(
        "traced-if",
        r"TracerBoolConversionError",
        "The kernel used `if` (or `while`, `and`, `or`, `min`) on a value that is known only when it runs.",
        "use jnp.where to choose between values, or @pl.when(condition) to run a piece of the kernel. In a condition, "
        "write `a and b` as (a) & (b), with these parentheses.",
        "08",
    ),
    Row(
        "for-range",
        r"TracerIntegerConversionError",
        "The kernel used a value that is known only when it runs as a Python integer: in range(), or as the index of "
        "a list.",
        "loop with jax.lax.fori_loop(0, n, body, None); look values up in a ref, which accepts such an index.",
        "08",
    ),
    Row(
        "dynamic-size",
        r"AssertionError: DShapedArray\(",
        "The kernel takes a slice whose size is known only when it runs. Only the start may be such a value.",
        "take a fixed size, pl.ds(start, 128), and select the valid elements with jnp.where.",
        "08",
    ),
    Row(
        "boolean-index",
        r"NonConcreteBooleanIndexError",
        "The kernel picks elements with an array of booleans. Their number is known only when it runs, but shapes "
        "must be known before.",
        "keep the shape and select: jnp.where(mask, x, 0).",
        "08",
    ),
    Row(
        "captured",
        r"captures constants (?P<what>\[.*?\])\. You should",
        "The kernel uses an array that is not one of its refs, {what}: one from outside, or one built from constants. "
        "On the chip the kernel has no address to read it from.",
        "pass it to pallas_call as one more input, with a ref of its own; jnp.full and iota can be made inside.",
        "01",
    ),
    Row(
        "leaked",
        r"UnexpectedTracerError: .*?with type (?P<value>.+?) wrapped in",
        "A value from inside a kernel, {value}, was stored in a list or a variable outside and used afterwards. It "
        "exists only while the kernel is traced.",
        "a kernel passes values on only through its output refs: add an output for it, or a scratch buffer.",
        "01",
    ),
)
