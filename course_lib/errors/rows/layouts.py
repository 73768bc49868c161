"""Values that the compiler finds no layout for: booleans, reshapes across lanes, gathers past a register."""

from course_lib.errors.row import Row

_LANES = 128
# Operations that give a value another layout, as the compiler names them.
_MOVES = r"\"(?:tpu|vector)\.(?:\w*reshape|shape_cast|transpose|bitcast_vreg|\w*rotate|concatenate|relayout|gather)\""
_OF_BOOLEANS = r"[^\n]*: \(vector<(?:\d+x)+i1>"
_COMPARE_LAST = (
    "change the layout of the values first, then compare: jnp.arange(48)[:, None] < 37, rather than (jnp.arange(48) < "
    "37)[:, None]. A mask can also travel as integers: mask.astype(jnp.int32).reshape(8, 256) > 0."
)


def _reshaped(old: str, dtype: str, new: str) -> dict[str, str] | None:
    """Describe the reshape of vector<24x96xf32> to vector<8x288xf32>, say, and find another way to write it."""
    before, after = ([int(size) for size in sizes.strip("x").split("x")] for sizes in (old, new))
    rows, lanes = (1, *before)[-2:]
    wide = after[-1]
    if len(before) == 2 and len(after) == 1:
        cure = (
            f"for one axis, join the rows: jnp.concatenate([x[i] for i in range({before[0]})]); or reshape it outside"
        )
    elif len(before) == len(after) == 2 and wide % lanes == 0:
        parts = wide // lanes
        cure = (
            f"join the rows by hand, v = x.reshape({after[0]}, {parts}, {lanes}) and jnp.concatenate([v[:, i] for i in "
            f"range({parts})], axis=1); or reshape it outside"
        )
    elif len(before) == len(after) == 2 and lanes % wide == 0:
        parts = lanes // wide
        cure = (
            f"cut the lanes by hand, jnp.stack([x[:, {wide} * i : {wide} * (i + 1)] for i in range({parts})], axis=1)"
            f".reshape({after[0]}, {wide}); or reshape it outside"
        )
    else:
        cure = "reshape it outside"
    return {"old": _shape(before), "new": _shape(after), "cure": f"{cure} the kernel, before or after pallas_call."}


def _shape(sizes: list[int]) -> str:
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(map(str, sizes))})"


def _gathered(axis: str, shape: str) -> dict[str, str]:
    """Say how far a gather reaches in one register along this axis, and how to cut it."""
    sizes = [int(size) for size in shape.strip("x").split("x")]
    lanes = int(axis) == len(sizes) - 1
    n, unit = (_LANES, "lanes") if lanes else (8, "rows")
    part = f"x[:, :{n}]" if lanes else f"x[:{n}]"
    return {
        "size": str(sizes[int(axis)]),
        "axis": axis,
        "reach": f"{n} {unit}",
        "next": (
            f"gather from each {n} {unit} separately, jnp.take_along_axis({part}, i % {n}, {axis}) and so on, and "
            f"choose between them with jnp.where(i < {n}, ...); split wide indices into pieces of {n}, too. Or "
            "multiply by a matrix of zeros and ones."
        ),
    }


ROWS = (
    Row(
        "booleans-chosen",
        r"Mosaic failed to compile.*?\"select_n:\".*?\"arith\.extsi\"" + _OF_BOOLEANS,
        "The kernel chooses between booleans{where}: jnp.where(mask, a, b), where a and b are booleans as well. The "
        "compiler can select only numbers.",
        "write it with logical operators, (mask & a) | (~mask & b).",
        "06",
    ),
    Row(
        "booleans",
        r"Mosaic failed to compile.*?(?:i1 transpose is not supported|involved:\s*%\d+ = "
        + _MOVES
        + _OF_BOOLEANS
        + ")",
        "The kernel changes the layout of booleans{where}, by a reshape, a new axis, a roll, a transpose or a "
        "concatenation. The TPU's compiler cannot relayout booleans in registers.",
        _COMPARE_LAST,
        "06",
    ),
    Row(
        "booleans-made",
        r"changeBitwidth when src bitwidth and dst bitwidth differs too much",
        "The layout of booleans computed in the kernel{where} is changed afterwards, by a reshape or a roll. The "
        "TPU's compiler cannot relayout booleans in registers.",
        _COMPARE_LAST,
        "06",
    ),
    Row(
        "booleans-abort",
        r"WorkerDied: the compiler's process .*?; its last words: [^\n]*Check failed: rem == 0",
        "The compiler aborted: an internal check failed while it laid out booleans that get another shape or a new "
        "axis{where}.",
        _COMPARE_LAST,
        "06",
    ),
    Row(
        "reshape-across-lanes",
        r"unsupported shape cast.*?\(vector<(?P<old>(?:\d+x)+)(?P<dtype>(?!i1>)\w+)>\) -> "
        r"vector<(?P<new>(?:\d+x)+)(?P=dtype)>",
        "The kernel reshapes {old} to {new}{where}, which moves values from lane to lane. The TPU's compiler does not "
        "support this reshape.",
        "{cure}",
        "06",
        _reshaped,
    ),
    Row(
        "gather-past-a-register",
        r"Multiple source vregs along gather dimension.*?dimensions = array<i32: (?P<axis>\d+)>.*?"
        r": \(vector<(?P<shape>(?:\d+x)+)\w+>",
        "jnp.take_along_axis gathers along axis {axis}, which has {size} elements{where}. On a TPU one gather covers "
        "one register: {reach}.",
        "{next}",
        "06",
        _gathered,
    ),
    Row(
        "gather-bits",
        r"Gather indices and result have different bitwidths.*?: \(vector<(?:\d+x)+(?P<dtype>\w+)>",
        "jnp.take_along_axis gathers {dtype} values by 32-bit indices{where}. A TPU can gather only values that are "
        "as wide as their indices.",
        "gather 32 bits and cast back: jnp.take_along_axis(x.astype(jnp.float32), i, 1).astype(x.dtype).",
        "06",
    ),
    Row(
        "gather-one-axis",
        r"Mosaic failed to compile.*?\"tpu\.dynamic_gather\"[^\n]*: \(vector<(?P<n>\d+)x\w+>, vector<\d+xi32>\)",
        "The kernel picks elements of a one-axis array of length {n} by an array of indices{where}. A TPU can gather "
        "only from arrays with two axes.",
        "give both a second axis of 8 rows, and take one row: with x8 = jnp.broadcast_to(x, (8, x.size)) and i8 "
        "alike, jnp.take_along_axis(x8, i8, 1)[0]. One gather covers 128 lanes; for a longer array, take 128 at a "
        "time.",
        "06",
    ),
)
