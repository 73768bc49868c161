"""What happens to five kernels of a TPU on an A100."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several

OPTIONS = ("right", "a race", "out of bounds", "refused")
_SAYS = {"numbers": "out of bounds", "races": "a race", "compiler": "refused"}  # by the judge that refuses


def row_maxima(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.max(x_ref[...], axis=1, keepdims=True)

    return _in_rows(kernel, x, columns=1)


def column_sums(x):
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def clear():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, x.shape[1]), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, x.shape[1]), lambda i: (0, 0)),
    )(x)


def doubled(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    block = pl.BlockSpec((512,), lambda i: (i,))
    return pl.pallas_call(kernel, out_shape=x, grid=(2,), in_specs=[block], out_specs=block)(x)


def squared(x):
    def kernel(x_ref, o_ref, copy_ref):
        copy_ref[...] = x_ref[...]
        o_ref[...] = copy_ref[...] * copy_ref[...]

    return _in_rows(kernel, x, scratch_shapes=[pltpu.VMEM((8, x.shape[1]), x.dtype)])


def wide(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    return _in_rows(kernel, x)


def _in_rows(kernel, x, columns: int | None = None, **more):
    """Return a kernel's result, row block by row block, with so many columns, or as many as x."""
    columns = columns or x.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], columns), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, columns), lambda i: (i, 0)),
        **more,
    )(x)


KERNELS = {  # kernel, reference, shape of x
    "row_maxima": (row_maxima, lambda x: x.max(axis=1, keepdims=True), (64, 256)),
    "column_sums": (column_sums, lambda x: x.reshape(-1, 8, x.shape[1]).sum(axis=0), (64, 256)),
    "doubled": (doubled, lambda x: 2 * x, (1000,)),
    "squared": (squared, lambda x: x * x, (64, 256)),
    "wide": (wide, lambda x: x + 1, (64, 384)),
}
RIGHT = {
    "row_maxima": "right",
    "column_sums": "a race",
    "doubled": "out of bounds",
    "squared": "refused",
    "wide": "refused",
}
_FITS = "Do 512 divide 1,000? What does the second block read and write?"
_POWER = "How many elements has a block, and which numbers of elements does Triton take?"
_SCRATCH = "Nothing passes from one step to the next here. But what would Triton put VMEM into?"
ASKS = {
    "row_maxima": {
        "a race": "Which two blocks would write the same element? Each has rows of its own.",
        "out of bounds": "8 divides 64, and a block has all 256 columns. Which element would lie outside?",
        "refused": "Which part would not lower? Are its blocks' sizes powers of two, and does it use scratch?",
    },
    "column_sums": {
        "right": "On a TPU the eight steps run one after another. Does anything order them on a GPU?",
        "out of bounds": "8 divides 64, and a block has all 256 columns. What do the eight blocks share?",
        "refused": "pl.when and += lower. What do the eight blocks share?",
    },
    "doubled": {
        "right": _FITS,
        "a race": f"Each block has elements of its own. {_FITS}",
        "refused": f"512 is a power of two, so it lowers. {_FITS}",
    },
    "squared": {
        "right": _SCRATCH,
        "a race": f"Each block has rows, and scratch, of its own. {_SCRATCH}",
        "out of bounds": "8 divides 64, and a block has all 256 columns. What else is different on a GPU?",
    },
    "wide": {
        "right": _POWER,
        "a race": f"Each block has rows of its own. {_POWER}",
        "out of bounds": f"8 divides 64, and a block has all 384 columns. {_POWER}",
    },
}


@functools.cache
def happens(name: str) -> str:
    """Return the option of the judge of an A100 that refuses a kernel; "right" if none does."""
    fn, reference, shape = KERNELS[name]
    x = jnp.sin(jnp.arange(float(functools.reduce(int.__mul__, shape)))).reshape(shape)
    last = judges.judge_gpu(fn, reference, x, chip="a100")[-1]
    return "right" if last.passed is not False else _SAYS[last.judge]


def _asked(name: str) -> Choose:
    return Choose(
        options=OPTIONS,
        right=RIGHT[name],
        wrong=ASKS[name],
        why="the judges of an A100 agree.",
        proof=lambda: happens(name),
        next='look at its steps as blocks that all run at the same time, or ask judges.judge_gpu with chip="a100".',
    )


EXERCISE = Exercise(
    id="17.5",
    title="What needs porting?",
    kind="several",
    defines="unported",
    asks=Several(parts={name: _asked(name) for name in KERNELS}, why="shared blocks, ragged edges, scratch and sizes."),
    hints=(
        "On a GPU the blocks of a grid run at the same time, and behind an array lies another one.",
        "Check four things for each kernel: do two blocks write the same memory, does the last block end where the "
        "array ends, is there scratch, and is each size of a block a power of two?",
        "column_sums adds up over the grid, doubled has a ragged edge, squared has scratch, and 384 is 3 * 128.",
    ),
    points=2,
)
