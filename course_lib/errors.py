"""Raw failures of JAX, Pallas, the simulator and the compiler -> what happened, why, what to do, which lesson.

One table; tests/test_errors.py provokes every row for real. A failure that is not in the table keeps its own
words: the last line that says something.
"""

import dataclasses
import re
import textwrap

WRITTEN = ("01",)  # lessons a reader can turn to; a test compares with notebooks/


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """``what`` happened, ``cure``: the next thing to try, ``lesson``: where it is taught ("" if nowhere yet)."""

    name: str  # the row of the table, "" if none fits
    what: str
    cure: str = ""
    lesson: str = ""

    @property
    def advice(self) -> str:
        """The cure, and the lesson that teaches it if it is written."""
        return self.cure + (f" (lesson {self.lesson})" if self.lesson in WRITTEN else "")

    def __str__(self) -> str:
        return folded(self.what + (f"\nNext: {self.advice}" if self.cure else ""))


@dataclasses.dataclass(frozen=True)
class _Row:
    name: str
    pattern: str  # searched in the raw text; its named groups fill the sentences
    what: str
    cure: str
    lesson: str = ""


_ROWS = (
    _Row(
        "block-2d",
        r"last two dimensions of your block shape are divisible by 8 and 128.*?"
        r"[Bb]lock spec for (?P<ref>.+?) in .*?has block shape (?P<block>\([^)]*\)), array shape (?P<array>\([^)]*\))",
        "The block {block} of {ref} is not legal for an array of shape {array}: its last two sizes must be multiples "
        "of 8 and 128, or the whole axis.",
        "round each of the last two block sizes up to a multiple of (8, 128), or take the whole axis.",
        "04",
    ),
    _Row(
        "block-1d",
        r"rank 1 block shapes.*?[Bb]lock spec for (?P<ref>.+?) in .*?has block shape (?P<block>\([^)]*\)), "
        r"array shape (?P<array>\([^)]*\))",
        "The block {block} of {ref} is not legal for an array of shape {array}: a one-dimensional block is the whole "
        "array, a multiple of 1024, or a power of two that fills at least one row of 128 lanes.",
        "take a block of 1024, or a multiple of it.",
        "04",
    ),
    _Row(
        "block-outside",
        r"IndexError: Out-of-bounds block index (?P<block>\([^)]*\)) for (?P<role>input|output) \"(?P<ref>[^\"]+)\" "
        r"in iteration (?P<step>\([^)]*\))",
        "At step {step} the index map of {ref} asked for block {block}, which lies outside the array.",
        "an index map returns block numbers, counted in blocks from 0, not element numbers. Call it yourself, with the "
        "first and the last step.",
        "04",
    ),
    _Row(
        "read-outside",
        r"IndexError: Out-of-bounds read of (?P<where>.*)",
        "The kernel read outside a buffer: {where}",
        "check the start and the size of the slice you read against the shape of the ref.",
        "08",
    ),
    _Row(
        "revisit",
        r"Revisited block (?P<block>[\[(].*?[\])]) of output (?P<output>\d+) in iteration (?P<step>\([^)]*\)). "
        r"The block was previously visited in iterations (?P<before>\([^)]*\))",
        "The block {block} of output {output} left VMEM after step {before}, and the grid came back to it at step "
        "{step}: what it held is gone.",
        "order the grid so that all steps of one output block follow each other; a reduction axis goes last.",
        "04",
    ),
    _Row(
        "race",
        r"RACE DETECTED",
        "Two cores touched the same memory with nothing to order them.",
        'an axis marked "parallel" may be split over cores: mark an axis so only if no two of its steps share a block.',
        "16",
    ),
    _Row(
        "vmem",
        r"Scoped allocation with size (?P<size>[\d.]+[KMG]) and limit (?P<limit>[\d.]+[KMG]) exceeded",
        "The kernel needs {size} of VMEM, and a kernel may use {limit}.",
        "make the blocks smaller; remember that every block is held twice, so that one can be copied while the other "
        "is worked on.",
        "05",
    ),
    _Row(
        "vmem-physical",
        r"Ran out of memory in memory space vmem\.? Used (?P<size>[\d.]+[KMG]) of (?P<limit>[\d.]+[KMG]) vmem",
        "The kernel needs {size} of VMEM, and the chip has {limit}.",
        "make the blocks smaller: give the call a grid and a BlockSpec, so that only a block at a time is in VMEM.",
        "05",
    ),
    _Row(
        "vmem-buffer",
        r"Allocation \(size=(?P<size>\d+)\) would exceed memory \(size=(?P<limit>\d+)\).*?space=vmem",
        "One buffer alone needs {size} bytes of VMEM, and the chip has {limit}.",
        "make the blocks smaller: give the call a grid and a BlockSpec, so that only a block at a time is in VMEM.",
        "05",
    ),
    _Row(
        "time-limit",
        r"WorkerDied: the compiler gave no answer within (?P<limit>[\d.]+) s",
        "The compiler gave no answer within {limit} s and was stopped.",
        "look for a loop whose length depends on data, or try a smaller array; compile_tpu(..., time_limit_s=) waits "
        "longer.",
    ),
    _Row(
        "crash",
        r"WorkerDied: the compiler's process (?P<how>.*?) \(it may use (?P<limit>[\d.]+) GiB",
        "The compiler crashed on this kernel: its process {how}. It may use {limit} GiB of memory.",
        "try a smaller array or block; if a small one crashes it too, you have found a bug in the compiler, and "
        "this notebook is none the worse for it.",
    ),
    _Row(
        "forgot-ellipsis",
        r"AttributeError: 'AbstractRef' object has no attribute|"
        r"TypeError: \w+ requires ndarray or scalar arguments, got <class '[\w.]*Tracer'>|"
        r"unsupported operand type\(s\) for [^:]+: '\w*Tracer' and '\w*Tracer'|Cannot store a Ref into another Ref|"
        r"traced array with shape Ref<|"
        r"a Ref can't be passed where an array is expected",
        "The kernel did arithmetic on a Ref. A Ref is a place in memory, not a value.",
        "read it first: x_ref[...] is the whole block as a value.",
        "01",
    ),
    _Row(
        "kernel-returns",
        r"The kernel function .* (?:should return None|must return None).*|"
        r"should return None\. It returns",
        "The kernel returned a value. A kernel returns nothing: it writes into its output refs.",
        "write o_ref[...] = value, and remove the return.",
        "01",
    ),
    _Row(
        "store-dtype",
        r"Invalid dtype for `swap`\. Ref dtype: (?P<ref>\w+)\. Value dtype: (?P<value>\w+)",
        "The kernel wrote {value} values into a ref of {ref}.",
        "cast before you write, value.astype(o_ref.dtype), or give out_shape the dtype you mean.",
        "01",
    ),
    _Row(
        "store-shape",
        r"Invalid shape for `swap`\. .*?Expected shape: (?P<place>\([^)]*\))\. Value shape: (?P<value>\([^)]*\))",
        "The kernel wrote a value of shape {value} to a place of shape {place}.",
        "print value.shape and o_ref.shape in the kernel: they are known while it is traced.",
        "01",
    ),
    _Row(
        "captured",
        r"captures constants (?P<what>\[.*?\])\. You should",
        "The kernel uses an array that is none of its refs, {what}: one from outside, or one it makes from numbers. On "
        "the chip it has no address the kernel could read.",
        "pass it to pallas_call as one more input, with a ref of its own; jnp.full and iota can be made inside.",
        "01",
    ),
    _Row(
        "index-map-arity",
        r"TypeError: (?P<who>[^\n]*?)\(\) takes (?P<takes>\d+) positional arguments? but (?P<given>\d+) w\w+ given",
        "{who} takes {takes} and was given {given} arguments.",
        "a kernel gets one ref for each input, output and scratch buffer; an index map one number for each grid axis; "
        "a method gets self as well.",
        "04",
    ),
    _Row(
        "missing-refs",
        r"TypeError: (?P<who>[^\n]*?)\(\) missing (?P<n>\d+) required positional arguments?: (?P<names>[^\n]*)",
        "{who} wants more arguments than it was given: {names}.",
        "a kernel gets one ref for each input, output and scratch buffer; an index map one number for each grid axis; "
        "pallas_call wants a kernel and out_shape.",
        "01",
    ),
    _Row(
        "index-map-results",
        r"Index map function .* must return (?P<want>\d+) values? to match .*?Currently returning (?P<got>\d+) values?",
        "An index map returned {got} numbers for a block with {want} axes.",
        "return one block number for each axis of the block.",
        "04",
    ),
    _Row(
        "alignment",
        r"E2003: \w+: cannot statically prove that index in dimension (?P<axis>\d+) is a multiple of (?P<n>\d+)",
        "The kernel slices axis {axis} at a start that the compiler cannot prove to be a multiple of {n}; registers "
        "are filled whole.",
        "promise it, pl.multiple_of(start, {n}), if it is true; or let a BlockSpec do the slicing.",
        "06",
    ),
    _Row(
        "scalar-store",
        r"Cannot store scalars to VMEM",
        "The kernel writes a single number to VMEM. The vector unit writes whole registers there.",
        "write a whole block at a time, o_ref[...] = value; jnp.full makes a block of one number.",
        "01",
    ),
    _Row(
        "numpy-in-kernel",
        r"TracerArrayConversionError",
        "A NumPy function was given a value that is known only when the kernel runs.",
        "use the function of the same name in jax.numpy: jnp.add, not np.add.",
        "01",
    ),
    _Row(
        "number-in-kernel",
        r"ConcretizationTypeError",
        "The kernel asked for a plain Python number (float(), int(), .item()) from a value known only when it runs.",
        "go on computing with the value itself; value.astype(dtype) changes its type.",
        "01",
    ),
    _Row(
        "assigned-into-value",
        r"JAX arrays are immutable",
        "The kernel assigned into a value. Values never change; only what lies behind a ref does.",
        "give the result a name of its own, tmp = 2 * tmp, and write it to an output ref.",
        "01",
    ),
    _Row(
        "not-a-tuple",
        r"'int' object is not iterable",
        "There is an integer where a tuple of integers should be: a shape, a block, or what an index map returns.",
        "write (1024,) for one axis; the comma makes it a tuple.",
        "01",
    ),
    _Row(
        "out-shape",
        r"Invalid out_shape type",
        "out_shape is neither an array nor a shape with a dtype.",
        "out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)",
        "01",
    ),
    _Row(
        "keras-no-call",
        r"does not have a `call(?:\(\))?` method implemented",
        "The layer has no call method, so it computes nothing.",
        "write call(self, inputs); inputs is one list of two arrays.",
        "01",
    ),
    _Row(
        "not-an-array",
        r"returned a value of type <class '(?P<type>(?!.*[fF]unction')[\w.]+)'>.*which is not a valid JAX type",
        "The result holds something that is no array: {type}.",
        "return the array alone.",
        "01",
    ),
    _Row(
        "returned-function",
        r"TypeError: function .* returned a value of type <class '[\w.]*[fF]unction'>.*not a valid JAX type",
        "The result is a function, not an array: pl.pallas_call(...) makes a function.",
        "call it with the arrays: pl.pallas_call(kernel, out_shape=...)(x, y).",
        "01",
    ),
    _Row(
        "keras-shape",
        r"does not have a `compute_output_shape` method",
        "Keras asked the layer for the shape of its output, and it has no compute_output_shape to say it.",
        "define compute_output_shape(self, input_shape); for a sum it returns input_shape[0].",
        "01",
    ),
    _Row(
        "unknown-batch",
        r"shape polymorphism for Pallas does not support dynamically-shaped blocks",
        "A kernel was traced with an axis of unknown size, and Pallas has none such. Keras does that, once, with the "
        "batch, to learn the shape of a layer's output.",
        "tell Keras the shape: define compute_output_shape(self, input_shape).",
        "01",
    ),
    _Row(
        "keras-kwargs",
        r"__init__\(\) got an unexpected keyword argument '(?P<name>name|dtype|trainable)'",
        "The layer's __init__ does not take {name}=, which Keras gives every layer.",
        "take **kwargs in __init__ and pass them on: super().__init__(**kwargs).",
        "01",
    ),
    _Row(
        "missing-argument",
        r"TypeError: missing a required argument: (?P<name>'\w+')",
        "A function wants an argument it was not given: {name}. A Keras layer gets all its inputs in one argument.",
        "write call(self, inputs): inputs is one list of two arrays.",
        "01",
    ),
    _Row(
        "traced-if",
        r"TracerBoolConversionError",
        "The kernel used `if` (or `while`, `and`, `or`) on a value that is known only when it runs.",
        "use jnp.where to choose between values, or @pl.when(condition) to run a piece of the kernel.",
        "08",
    ),
    _Row(
        "unimplemented",
        r"Unimplemented primitive in Pallas TPU lowering for \w+: (?P<op>\w+)",
        "The TPU has no way to do `{op}` inside a kernel.",
        "write it with operations the TPU has, or do it outside the kernel.",
        "06",
    ),
    _Row(
        "old-name",
        r"AttributeError: (?P<what>(?:module '(?:jax\.experimental\.pallas|jaxlib)[^']*' has no attribute '\w+'|"
        r"pl\.\w+ was deprecated).*)",
        "That name is gone from Pallas: {what}",
        "the tutorial you follow may be old. x_ref[...] reads, o_ref[...] = v writes, jnp.dot multiplies.",
        "01",
    ),
)


def folded(text: str) -> str:
    """``text`` in lines of at most 94 characters: JupyterLab would break longer ones in mid-word."""
    return "\n".join(textwrap.fill(line, 94, subsequent_indent=_indent(line)) for line in text.splitlines())


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def explain(error: BaseException | str) -> Explanation:
    """The row of the table that fits ``error`` (an exception, or the text of one), filled in."""
    text = _tidy(error if isinstance(error, str) else raw_text(error))
    for row in _ROWS:
        if match := re.search(row.pattern, text, re.DOTALL):
            found = {name: _readable(value.strip()) for name, value in match.groupdict(default="?").items()}
            what, cure = row.what.format(**found), row.cure.format(**found)
            return Explanation(name=row.name, what=what, cure=cure, lesson=row.lesson)
    return Explanation(name="", what=_last_words(text))


def raw_text(error: BaseException) -> str:
    """The exception and those it was raised from, as "Type: message" lines, innermost first."""
    chain, lines = error, []
    while chain is not None and len(lines) < 8:
        if type(chain).__name__ != "JaxStackTraceBeforeTransformation":  # repeats the one it points to
            lines.append(f"{type(chain).__name__}: {chain}")
        chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)
    return "\n".join(reversed(lines))


def _readable(value: str) -> str:
    return f"{int(value):,}" if value.isdigit() else value


def _tidy(text: str) -> str:
    """Say (8, 128), [0:8, 0:128] and input 0 where JAX says Blocked(block_size=8), slice(0, 8, 1) and args[0]."""
    text = re.sub(r"Blocked\(block_size=(\d+)\)", r"\1", text)
    text = re.sub(r" at /\S+?:\d+", "", text)  # whose machine it was says nothing
    text = re.sub(r"\b[\w.]+<locals>\.", "", text)
    keras = r"Exception encountered when calling .*?\n\s*(?:\x1b\[\dm)?(.*?)(?:\x1b\[0m)?\s*\n\s*Arguments received.*"
    text = re.sub(keras, r"\1", text, flags=re.DOTALL)
    text = text.replace("Squeezed()", "None")
    text = re.sub(r"slice\((-?\d+), (-?\d+), 1\)", r"\1:\2", text)
    text = re.sub(r"\(((?:-?\d+:-?\d+(?:, |,)?)+)\)", lambda m: f"[{m[1].rstrip(',')}]", text)
    return re.sub(r"\bargs\[(\d+)\]", r"input \1", text)


def _last_words(text: str) -> str:
    """The last line that names an error, else the first line; at most 300 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"^[A-Za-z_.]*(?:Error|Exception|NotImplemented)\w*: ", line)]
    return (named or lines or ["no message"])[-1 if named else 0][:300]
