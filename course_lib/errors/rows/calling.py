"""Calls of pallas_call, and what the kernel and the function around it return."""

from course_lib.errors.row import Row


def _too_many(who: str, takes: str, given: str) -> dict[str, str]:
    """Say how many arguments were given, and where they may come from."""
    if who.endswith(".__init__"):
        next = "check the parameters of __init__: it needs one for each argument, after self."
    elif "." in who:
        next = "count the parameters of the method: self comes first."
    elif "kernel" in who:
        next = f"give {who} one parameter for each input, output and scratch buffer, in this order."
    else:
        next = (
            "count them: a kernel gets one ref for each input, output and scratch buffer; an index map gets one index "
            "for each grid axis, then the prefetched refs; the body of a fori_loop gets the index and the carried "
            "value."
        )
    return {"given": f"{given} argument{'' if given == '1' else 's'}", "next": next}


def _too_few(who: str, names: str, **_) -> dict[str, str]:
    """Say who should pass the missing argument."""
    first = names.partition(" ")[0].strip("',")
    if who == "pallas_call":
        next = "write pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)), and call that with x."
    elif who.endswith(".__init__"):
        next = f"give {first} a default in __init__, {first}=..., or pass it where the object is created."
    elif "." in who:
        next = "count the parameters of the method: the caller passes all but self."
    elif "kernel" in who or "_ref'" in names:
        next = (
            f"write no brackets after {who}: pl.pallas_call({who}, ...) calls it itself, with one ref for each input, "
            "output and scratch buffer, in this order. Count those."
        )
    else:
        next = (
            "count them: a kernel gets one ref for each input, output and scratch buffer; an index map gets one index "
            "for each grid axis."
        )
    return {"next": next}


ROWS = (
    Row(
        "kernel-returns",
        r"The kernel function .* (?:should return None|must return None).*|"
        r"should return None\. It returns|traced for pallas_call kernel returned a value of type",
        "The kernel returned a value. A kernel returns nothing: it writes into its output refs.",
        "write o_ref[...] = value, and remove the return.",
        "01",
    ),
    Row(
        "kernel-none",
        r"cannot create weak reference to 'NoneType' object",
        "pallas_call was given None instead of a kernel.",
        "pass the function itself, pl.pallas_call(kernel, ...), because kernel(...) calls it, and a kernel returns "
        "None.",
        "01",
    ),
    Row(
        "scratch-shapes",
        r"object has no attribute 'get_ref_aval'|'AbstractRef' object is not iterable",
        "scratch_shapes is not a list of memories, each with its shape and dtype.",
        "write scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)].",
        "07",
    ),
    Row(
        "aliases",
        r"input_output_aliases contains the mapping .*? referring to input\[(?P<input>\d+)\] with abstract value "
        r"(?P<one>\S+) and to output(?:\[\d+\])? with a different abstract value (?P<other>\S+?)\.?(?:\n|$)",
        "input_output_aliases gives an output the memory of input {input}, but they differ: the input is {one}, the "
        "output {other}.",
        "only arrays of the same shape and dtype can share memory; the numbers count inputs and outputs from 0.",
        "12",
    ),
    Row(
        "arrays-to-pallas-call",
        r"TypeError: pallas_call\(\) (?:takes 2 positional arguments but \d+ were given|"
        r"got multiple values for argument 'out_shape')",
        "pallas_call takes a kernel and out_shape, and everything else by keyword. It returns a function, which takes "
        "the arrays.",
        "write pl.pallas_call(kernel, out_shape=...)(x, y).",
        "01",
    ),
    Row(
        "too-many-arguments",
        r"TypeError: (?P<who>[^\n]*?)\(\) takes (?P<takes>\d+) positional arguments? but (?P<given>\d+) w\w+ given",
        "{who} was given {given}, but takes {takes}.",
        "{next}",
        "04",
        _too_many,
    ),
    Row(
        "too-few-arguments",
        r"TypeError: (?P<who>[^\n]*?)\(\) missing (?P<n>\d+) required positional arguments?: (?P<names>[^\n]*)",
        "{who} needs more arguments than it was given: {names}.",
        "{next}",
        "01",
        _too_few,
    ),
    Row(
        "not-a-tuple",
        r"'int' object is not iterable(?!, in the code itself)",
        "An integer is where a tuple of integers should be: a shape, a block shape, or the result of an index map.",
        "write (1024,) for one axis; the comma makes it a tuple.",
        "01",
    ),
    Row(
        "out-shape",
        r"Invalid out_shape type",
        "out_shape is neither an array nor a shape with a dtype.",
        "write out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype).",
        "01",
    ),
    Row(
        "not-an-array",
        r"returned a value of type <class '(?P<type>(?!.*[fF]unction')[\w.]+)'>.*which is not a valid JAX type",
        "The result contains something that is not an array: {type}.",
        "return only the array.",
        "01",
    ),
    Row(
        "returned-function",
        r"TypeError: function .* returned a value of type <class '[\w.]*[fF]unction'>.*not a valid JAX type",
        "The result is a function, not an array: pl.pallas_call(...) returns a function.",
        "call it with the arrays: pl.pallas_call(kernel, out_shape=...)(x, y).",
        "01",
    ),
    Row(
        "compiler-params",
        r"TypeError: unhashable type: 'dict'(?!, in the code itself)",
        "A dict is where JAX needs an immutable value. Old tutorials pass one as compiler_params.",
        "write compiler_params=pltpu.CompilerParams(...).",
        "16",
    ),
)
