"""The exercises of lesson 4, Grids and BlockSpecs."""

import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import cost, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.explain import Explain
from course_lib.checks.kinds.find import Find
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several
from course_lib.checks.unfit import Unfit, described

TITLE = "Grids and BlockSpecs"

# 04.3: the blocks that nobody takes, with the arrays they are for.
SURGERY = {
    "a": ("f32[64,512]", (8, 100)),
    "b": ("f32[6,256]", (4, 128)),
    "c": ("bf16[64,256]", (14, 128)),
    "d": ("f32[16,4,256]", (8, None, 256)),
    "e": ("f32[4096]", (1000,)),
}

_DICT = f"a dict with the keys {', '.join(SURGERY)}"
_RETURN_DICT = 'end the function with return {"a": (8, ...), "b": ...}, and a block for each of the five.'
_WHAT_IS_LEGAL = (
    "the last size is a multiple of 128, the one before of 8, or it is the whole axis; None counts as 1. For a vector "
    "it is a multiple of 1024, a power of two from 128 on (float32), or the whole axis."
)

# 04.4: the blocks along each axis, and the bytes of a block of x, of w and of the output.
BLOCKS = {"b": 3, "i": 4, "j": 5}
X_BYTES, W_BYTES, O_BYTES = 64 * 384 * 2, 384 * 128 * 2, 64 * 128 * 4


def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def add_kernel(x_ref, r_ref, o_ref):
    o_ref[...] = x_ref[...] + r_ref[...]


def double_kernel(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]


def product_kernel(x_ref, w_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)


def _listed(call: str, value: object, *wanted: str) -> list:
    """``value`` as the list of things that ``wanted`` names; names that end in "map" are functions. Raises Unfit."""
    names = ", ".join(wanted)
    if not isinstance(value, tuple | list) or len(value) != len(wanted):
        raise Unfit(
            f"{call} returned {described(value)}; asked for are {len(wanted)} things: {names}.",
            f'end the function with "return {names}".',
        )
    for name, thing in zip(wanted, value, strict=True):
        if name.endswith("map") != callable(thing):
            want = "a function, such as lambda i: (i, 0)" if name.endswith("map") else "a tuple of integers"
            raise Unfit(
                f"{call}: in the place of {name} stands {described(thing)}; {name} is {want}.",
                f"return, in this order: {names}.",
            )
    return list(value)


def _reversible() -> list[tuple]:
    """Rows that 8 divides, so that a block taken out of the end is a whole one; columns of every kind."""
    return arguments(("x: f32[M,N]",), ({"M": 64, "N": 256}, {"M": 40, "N": 130}, {"M": 8, "N": 384}))


def _reverse(x):
    return x.reshape(-1, 8, x.shape[1])[::-1].reshape(x.shape)


def _call_reverse(configure):
    for (x,) in _reversible():
        _, block, *_ = _listed(f"configure{x.shape}", configure(*x.shape), "grid", "block", "x_map", "o_map")
        _eight_rows(f"configure{x.shape}", x, block)

    def reverse(x):
        steps, block, x_map, o_map = configure(*x.shape)
        specs = [pl.BlockSpec(block, index_map) for index_map in (x_map, o_map)]
        return pl.pallas_call(copy_kernel, out_shape=x, grid=steps, in_specs=specs[:1], out_specs=specs[1])(x)

    return reverse


def _eight_rows(call: str, x: object, block: object) -> None:
    """Raises Unfit for blocks of another height than the eight rows that stay together, where x has more than eight."""
    rows = block[0] if isinstance(block, tuple | list) and block else None
    if isinstance(rows, int) and rows != 8 < x.shape[0]:
        raise Unfit(
            f"{call}: a block of {tuple(block)} has {rows} {'row' if rows == 1 else 'rows'}. Eight rows stay together.",
            "an index map moves whole blocks, and the order inside a block stays: how many rows has a block then?",
        )


def _whole_blocks() -> list[tuple]:
    """Whole blocks of (8, 128), since whole blocks are what changes places: 3 x 4, 2 x 3, 5 x 1."""
    sizes = ({"M": 24, "N": 512, "R": 384}, {"M": 16, "N": 384, "R": 256}, {"M": 40, "N": 128, "R": 640})
    return arguments(("x: f32[M,N]", "r: f32[1,R]"), sizes)


def _transpose_blocks(x, r):
    down, across = x.shape[1] // 128, x.shape[0] // 8
    blocks = x.reshape(across, 8, down, 128).transpose(2, 1, 0, 3)
    return blocks.reshape(8 * down, 128 * across) + r


def _call_transpose(index_maps):
    x_map, r_map, o_map = _listed("index_maps()", index_maps(), "x_map", "r_map", "o_map")

    def transpose(x, r):
        down, across = x.shape[1] // 128, x.shape[0] // 8
        return pl.pallas_call(
            add_kernel,
            out_shape=jax.ShapeDtypeStruct((8 * down, 128 * across), x.dtype),
            grid=(down, across),
            in_specs=[pl.BlockSpec((8, 128), x_map), pl.BlockSpec((1, 128), r_map)],
            out_specs=pl.BlockSpec((8, 128), o_map),
        )(x, r)

    return transpose


def _copy_in_blocks(x, block):
    steps = tuple(n if b is None else pl.cdiv(n, b) for n, b in zip(x.shape, block, strict=True))
    spec = pl.BlockSpec(block, lambda *step: step)
    return pl.pallas_call(copy_kernel, out_shape=x, grid=steps, in_specs=[spec], out_specs=spec)(x)


def _blocks(legal_blocks) -> dict[str, tuple]:
    """The learner's five blocks, lists made tuples. Raises Unfit for what is no block of the right number of axes."""
    blocks = legal_blocks()
    if not isinstance(blocks, dict):
        raise Unfit(f"legal_blocks() returned {described(blocks)}; asked for is {_DICT}.", _RETURN_DICT)
    if missing := [name for name in SURGERY if name not in blocks]:
        raise Unfit(f"legal_blocks() has no block for {', '.join(missing)}; asked for is {_DICT}.", _RETURN_DICT)
    if strange := [key for key in blocks if key not in SURGERY]:
        raise Unfit(f"legal_blocks() has the key {strange[0]!r:.40}; asked for is {_DICT}.", _RETURN_DICT)
    for name, (array, sick) in SURGERY.items():
        block, axes = blocks[name], "1 axis" if len(sick) == 1 else f"{len(sick)} axes"
        if not isinstance(block, tuple | list) or len(block) != len(sick):
            raise Unfit(
                f"{name}: its block is {described(block)}; {array} has {axes}.",
                f"give one size for each axis, as in the block {sick} that it had"
                + ("; a tuple of one has a comma." if len(sick) == 1 else "."),
            )
        if wrong := [b for b in block if b is not None and (type(b) is not int or b < 1)]:
            raise Unfit(f"{name}: {wrong[0]!r:.40} is no size of a block.", "a size is an integer above 0, or None.")
    return {name: tuple(blocks[name]) for name in SURGERY}


def _refused_sizes(legal_blocks) -> list[str]:
    """What a TPU has against the blocks, one text for each that it does not take."""
    said = []
    for x, (name, block) in zip(_surgery_arrays()[0], _blocks(legal_blocks).items(), strict=True):
        where = {x.ndim - 1: "last axis", x.ndim - 2: "axis before the last"} if x.ndim > 1 else {0: "only axis"}
        sizes = [1 if size is None else size for size in block]
        for axis, size in enumerate(sizes):
            if not cost.is_legal_size(size, x.shape[axis], axis=axis, rank=x.ndim, dtype=x.dtype):
                said.append(f"{name}: {block} has {block[axis]} on the {where[axis]}, of {x.shape[axis]}.")
    return said


def _call_surgery(legal_blocks):
    blocks = _blocks(legal_blocks)
    if said := _refused_sizes(legal_blocks):
        raise Unfit(f"No TPU takes {'this' if len(said) == 1 else 'these'}. {' '.join(said)}", _WHAT_IS_LEGAL)

    def copy_all(*arrays):
        return tuple(_copy_in_blocks(x, blocks[name]) for name, x in zip(SURGERY, arrays, strict=True))

    return copy_all


def _surgery_arrays() -> list[tuple]:
    """The five arrays of the task: their shapes are what the blocks must fit."""
    return arguments(tuple(f"{name}: {array}" for name, (array, _) in SURGERY.items()), ({},))


def _smallest_change(legal_blocks):
    """One size may differ from the block that was given, and no legal size may be nearer to it."""
    for x, (name, block) in zip(_surgery_arrays()[0], _blocks(legal_blocks).items(), strict=True):
        array, sick = SURGERY[name]
        changed = [axis for axis in range(len(sick)) if block[axis] != sick[axis]]
        if len(changed) > 1:
            return (
                f"{name}: from {sick} to {block} are {len(changed)} changes. One is enough.",
                "which one of its sizes was refused? Leave the others as they were.",
            )
        (axis,) = changed
        was = sick[axis] or 1
        legal = cost.legal_sizes(x.shape[axis], axis=axis, rank=x.ndim, dtype=x.dtype, even=False)
        if abs(block[axis] - was) > min(abs(size - was) for size in legal):
            return (
                f"{name}: {block} is legal for {array}, but there is a legal size nearer to {was} than {block[axis]}.",
                "list what is legal on that axis: the multiples around it, and the whole axis.",
            )


def batched(order):
    """The product of 04.4 with the grid axes in this order."""
    b, i, j = (order.index(letter) for letter in "bij")

    def call(x, w):
        return pl.pallas_call(
            product_kernel,
            out_shape=jax.ShapeDtypeStruct((3, 256, 640), jnp.float32),
            grid=tuple(BLOCKS[letter] for letter in order),
            in_specs=[
                pl.BlockSpec((None, 64, 384), lambda *at: (at[b], at[i], 0)),
                pl.BlockSpec((384, 128), lambda *at: (0, at[j])),
            ],
            out_specs=pl.BlockSpec((None, 64, 128), lambda *at: (at[b], at[i], at[j])),
        )(x, w)

    return call


def _moved(order: str) -> int:
    x, w = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((3, 256, 384), (384, 640)))
    return cost.hbm_bytes(grid.walk(batched(order), x, w))


def _copies(order: str, uses: str) -> int:
    """How often a block is copied whose index map uses these axes: up to the last of them, from the first."""
    return math.prod(BLOCKS[letter] for letter in order[: max(map(order.index, uses)) + 1])


def _predict(order: str) -> Predict:
    steps = math.prod(BLOCKS.values())
    x, w = _copies(order, "bi"), _copies(order, "j")
    value = x * X_BYTES + w * W_BYTES + steps * O_BYTES
    near = {
        x * X_BYTES + w * W_BYTES: "That is what comes in. Where does the output go?",
        x + w + steps: "That is how many blocks are copied. How many bytes has each?",
        x * X_BYTES + w * W_BYTES + steps * O_BYTES // 2: "x and w are bfloat16. What is the output?",
        2 * (x * X_BYTES + w * W_BYTES) + steps * O_BYTES: "The output is float32. What are x and w?",
        steps
        * (X_BYTES + W_BYTES + O_BYTES): "That would be a copy of everything at every step. Which block stands still "
        "from one step to the next?",
        12 * X_BYTES + 5 * W_BYTES + 60 * O_BYTES: "That would be every block once. A block that is left and wanted "
        "again is copied again.",
    }
    for other in ("bij", "jbi", "bji"):
        moved = _copies(other, "bi") * X_BYTES + _copies(other, "j") * W_BYTES + steps * O_BYTES
        near[moved] = f"That is the number of another order. {_asked_of(order, other)}"
    near.pop(value, None)
    return Predict(value=value, unit="bytes", near=near, why="counted on the grid.", proof=lambda: _moved(order))


def _asked_of(order: str, other: str) -> str:
    """A question that tells ``order`` from ``other``: where the fastest axis is the same, it is about the rest."""
    if order[2] == other[2]:
        return (
            f"In that one {order[2]} runs fastest as well, and x is copied as often. How often does j change when "
            f"{order[0]} comes first?"
        )
    return f'In "{order}" {order[2]} runs fastest: which of x and w gets a new block at every step then?'


def _product_sizes() -> list[tuple]:
    """Rows that 8 divides and columns that 128 divides: the blocks are given, and 04.8 is about edges.

    The rows are many enough for the other order to move a quarter of the bytes at each size.
    """
    sizes = (
        {"M": 64, "K": 256, "N": 1280},
        {"M": 72, "K": 130, "N": 640},
        {"M": 128, "K": 256, "N": 256},
    )
    return arguments(("x: f32[M,K]", "w: f32[K,N]"), sizes)


def _call_strips(order):
    _listed("order(8, 10)", order(8, 10), "grid", "x_map", "w_map", "o_map")

    def strips(x, w):
        down, across = x.shape[0] // 8, w.shape[1] // 128
        steps, x_map, w_map, o_map = order(down, across)
        return pl.pallas_call(
            product_kernel,
            out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), jnp.float32),
            grid=steps,
            in_specs=[pl.BlockSpec((8, x.shape[1]), x_map), pl.BlockSpec((w.shape[0], 128), w_map)],
            out_specs=pl.BlockSpec((8, 128), o_map),
        )(x, w)

    return strips


def _given_order(down, across):
    return (down, across), lambda i, j: (i, 0), lambda i, j: (0, j), lambda i, j: (i, j)


def _quarter(x, w) -> int:
    return cost.hbm_bytes(grid.walk(_call_strips(_given_order), x, w)) // 4


def _boxes() -> list[tuple]:
    """Boxes that blocks of (2, 8, 128) divide: the map is the subject, not the edge."""
    return arguments(
        ("x: f32[A,B,C]",), ({"A": 4, "B": 24, "C": 256}, {"A": 2, "B": 8, "C": 384}, {"A": 6, "B": 16, "C": 128})
    )


def _call_box(index_map):
    if not callable(index_map):
        raise Unfit(f"What you handed to check is {described(index_map)}.", "hand over the function block_of_step.")

    def double_box(x):
        block = pl.BlockSpec((2, 8, 128), index_map)
        steps = (x.shape[0] // 2, x.shape[1] // 8, x.shape[2] // 128)
        return pl.pallas_call(double_kernel, out_shape=x, grid=steps, in_specs=[block], out_specs=block)(x)

    return double_box


def _folds() -> list[tuple]:
    """Rows that 8 divides, since blocks of eight rows are added; columns of every kind."""
    return arguments(("x: f32[M,N]",), ({"M": 32, "N": 256}, {"M": 24, "N": 300}, {"M": 16, "N": 100}))


def _fold(x):
    return x.reshape(-1, 8, x.shape[1]).sum(axis=0)


def _in_the_same_blocks(fold):
    call = grid.walk(fold, *_folds()[0]).calls[0]
    shape = tuple(int(n) for n in call.inputs[0].block_shape)
    if shape != (8, 128):
        return (
            f"The blocks of {call.inputs[0].name} are {shape}; asked for are those of fold_broken, (8, 128).",
            "keep the blocks, and change the order in which the grid visits them.",
        )


ROW_MAX = """\
def row_max_kernel(x_ref, o_ref):
    o_ref[...] = jnp.max(x_ref[...], axis=1, keepdims=True)


def row_max(x):
    rows, columns = x.shape
    x_block = pl.BlockSpec((8, columns), lambda i: (i, 0))
    o_block = pl.BlockSpec((8, 1), lambda i: (i, 0))
    return pl.pallas_call(
        row_max_kernel,
        out_shape=jax.ShapeDtypeStruct((rows, 1), x.dtype),
        grid=(rows // 8,),
        in_specs=[x_block],
        out_specs=o_block,
    )(x)
"""


EXERCISES = (
    Exercise(
        id="04.1",
        title="Configure only: the blocks in reverse",
        kind="configure",
        defines="configure",
        cases=_reversible,
        reference=_reverse,
        build=_call_reverse,
        hints=(
            "One step for each eight rows. Step 0 writes the first output block: which block of x does it read?",
            "Blocks are counted from 0, so the last of n blocks has number n - 1. A block of (8, columns) spans all "
            "columns, and so is legal for any number of them.",
            "(rows // 8,), (8, columns), then lambda i: (rows // 8 - 1 - i, 0) for x and lambda i: (i, 0) for the "
            "output.",
        ),
        points=1,
    ),
    Exercise(
        id="04.2",
        title="Index maps only: transpose the blocks, add a row",
        kind="configure",
        defines="index_maps",
        cases=_whole_blocks,
        reference=_transpose_blocks,
        build=_call_transpose,
        hints=(
            "Begin with the output: its map is in the docstring. And r: along which axis of the output does it lie? "
            "Which letter counts the blocks there?",
            "A map takes (i, j) and may return them in another order. r has one row of blocks, so the first number of "
            "its block is always 0.",
            "For x lambda i, j: (j, i); for r, whose second number is the column of the output, lambda i, j: (0, j).",
        ),
        points=1,
    ),
    Exercise(
        id="04.3",
        title="Surgery: five blocks that no TPU takes",
        kind="configure",
        defines="legal_blocks",
        cases=_surgery_arrays,
        reference=lambda *arrays: arrays,
        build=_call_surgery,
        also=(_smallest_change,),
        hints=(
            "Of the last two sizes, the one before last goes with the rows of a register and the last with its lanes. "
            "Which of the two is at fault in each block?",
            "A whole axis is always legal, and so it may be the nearest size. A None among the last two counts as 1.",
            "The last but one is a multiple of 8, for bfloat16 too: 14 lies between 8 and 16. A vector wants a "
            "multiple of 1024, or a power of two: what is nearest to 1000?",
        ),
        points=2,
    ),
    Exercise(
        id="04.4",
        title="Predict: three orders, three numbers",
        kind="several",
        defines="moved",
        asks=Several(
            parts={order: _predict(order) for order in ("bij", "jbi", "bji")},
            why="an operand is copied once for each change of its block.",
        ),
        hints=(
            "First the bytes of one block of x, of w and of the output. Then how many blocks of each are copied in "
            "all. Multiply, then add.",
            "Multiply the grid's sizes from the first axis down to the last one that the index map uses. x uses b and "
            "i, w uses j, the output uses all three.",
            'In "bij": x 3 * 4 = 12 copies of 49,152 bytes, w 3 * 4 * 5 = 60 of 98,304, the output 60 of 32,768.',
        ),
        points=2,
    ),
    Exercise(
        id="04.5",
        title="Reorder: a quarter of the traffic",
        kind="configure",
        defines="order",
        cases=_product_sizes,
        reference=lambda x, w: jnp.dot(x, w, preferred_element_type=jnp.float32),
        build=_call_strips,
        budget=judges.Budget(hbm_bytes=_quarter),
        hints=(
            "Which operand is fetched again and again, and which of the two would be cheaper to fetch so often?",
            "A block stays in VMEM while the last axis runs, if its index map does not use that axis. Which of i and j "
            "does w not use?",
            "Let j come first: the grid is (across, down), and every index map begins lambda j, i: and returns what it "
            "returned.",
        ),
        points=1,
    ),
    Exercise(
        id="04.6",
        title="Repair: an index map from a collection of puzzles",
        kind="repair",
        defines="block_of_step",
        cases=_boxes,
        reference=lambda x: 2 * x,
        build=_call_box,
        hints=(
            "Pallas multiplies what an index map returns by the block's sizes. What is left for the map to say?",
            "At step (1, 0, 0) the second pair of sheets is wanted, which is block 1 on that axis.",
            "One line does it: return (i, j, k)",
        ),
        points=1,
    ),
    Exercise(
        id="04.7",
        title="Repair: a sum that is gone when you come back",
        kind="repair",
        defines="fold",
        cases=_folds,
        reference=_fold,
        also=(_in_the_same_blocks,),
        hints=(
            "Write down the output's block at each step of fold_broken for two columns of blocks. When is it left, and "
            "when visited again?",
            "The axis along which the output's block stays the same goes last: the grid is (columns, rows), in blocks. "
            "What becomes of the index maps, and of the condition in the kernel?",
            "Both maps begin lambda j, k: and return what they returned; the kernel asks for pl.program_id(1) now, "
            "since the reduction is axis 1.",
        ),
        points=2,
    ),
    Exercise(
        id="04.8",
        title="Row sums with a ragged edge",
        kind="write",
        defines="row_sum_kernel",
        judged="row_sums",
        inputs=("x: f32[M,N]",),
        sizes=({"M": 16, "N": 384}, {"M": 16, "N": 300}, {"M": 21, "N": 130}, {"M": 5, "N": 64}),
        reference=lambda x: jnp.sum(x, axis=1, keepdims=True),
        hints=(
            "Three things: set o_ref to zero at the first step of axis 1; choose what lies inside; add its row sums.",
            "jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1) counts the columns of the block from 0. This step's "
            "block begins at column 128 * pl.program_id(1) of the array.",
            "jnp.where(column < columns, x_ref[...], 0), then jnp.sum(..., axis=1, keepdims=True), added to o_ref.",
        ),
        points=2,
    ),
    Exercise(
        id="04.9",
        title="Find the line",
        kind="find",
        defines="line",
        listing=ROW_MAX,
        inputs=("x: f32[M,N]",),
        sizes=({"M": 20, "N": 256}, {"M": 16, "N": 384}, {"M": 13, "N": 130}),
        reference=lambda x: jnp.max(x, axis=1, keepdims=True),
        asks=Find(
            line=12,
            fixed="        grid=(pl.cdiv(rows, 8),),",
            function="row_max",
            refused_by="numbers",
            near={
                2: "What hangs over the end are rows of their own: they do no harm to the maximum of another row.",
                7: "The block spans every column, and 8 rows are legal for any number of rows. A last block that hangs "
                "over does no harm.",
                8: "One column out, all of that axis: legal, and block i goes with block i of x.",
                11: "One number for each row, whether 8 divides them or not.",
            },
            why="20 rows need three steps, and 20 // 8 is 2.",
        ),
        hints=(
            "With 16 rows it is right. What is different about 20?",
            "How many blocks of 8 rows does it take to cover 20, and how many does the kernel visit?",
            "// rounds down. pl.cdiv rounds up.",
        ),
        points=1,
    ),
    Exercise(
        id="04.10",
        title="Explain: two reasons for an order",
        kind="explain",
        defines="why",
        asks=Explain(
            model="To be right: all steps that visit one output block must follow one another, because a block that "
            "is left goes back to HBM and is not fetched again. So the axes that choose the output block come first "
            "and the reduction comes last. To be fast: a block whose index does not change is not copied again. So the "
            "axes that the most expensive operand does not use come last, as far as the first rule leaves a choice.",
            look_for=(
                "consecutive visits of an output block, and that a block that was left is not fetched again",
                "the skipped copy of an input whose index stands still",
                "that the first is about right and wrong, the second about bytes",
            ),
        ),
        hints=(
            "One reason has to do with outputs, the other with inputs.",
            "What happens to an output block when the grid moves on? And to an input block when it does not?",
            "One sentence on the reduction axis, one on the operand that costs most, one on which rule comes first.",
        ),
        points=0,
    ),
)
