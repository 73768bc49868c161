"""The number of rows per grid step of a memory-bound addition."""

import numbers

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import chips, compiler, cost, grid, text, vocabulary
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit, described

LARGE = ((2048, 512), (2048, 2048), (2048, 8192))
MOST = 1.1  # times as long as the bytes alone


def _small() -> list[tuple]:
    """Return sizes for the judges that run a kernel: powers of two, which blocks divide."""
    return arguments(("x: f32[M,N]", "y: f32[M,N]"), ({"M": 64, "N": 512}, {"M": 16, "N": 1024}, {"M": 32, "N": 128}))


def adding(block_rows):
    """Return the addition with the learner's blocks. Raise Unfit for a row count that no block can have."""
    small = [x.shape for x, _ in _small()]
    chosen = [(shape, block_rows(*shape)) for shape in (*small, *LARGE)]
    if any(rows is not None for _, rows in chosen):
        for shape, rows in chosen:
            _divides(shape, rows)

    def added(x, y):
        def kernel(x_ref, y_ref, o_ref):
            o_ref[...] = x_ref[...] + y_ref[...]

        rows = block_rows(*x.shape)
        if rows is None:
            return None
        block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
        return pl.pallas_call(
            kernel, out_shape=x, grid=(x.shape[0] // rows,), in_specs=[block, block], out_specs=block
        )(x, y)

    return added


def _divides(shape: tuple[int, int], rows: object) -> None:
    call = f"block_rows{shape}"
    if isinstance(rows, bool) or not isinstance(rows, numbers.Integral) or rows < 1:
        raise Unfit(
            f"{call} returned {described(rows)}; it should return a whole number of rows.",
            "divide with //, so that the result is a whole number.",
        )
    if rows < 8:
        raise Unfit(
            f"{call} returned {rows}, but a block needs at least 8 rows, which take {text.size(32 * shape[1])} here.",
            "give a block more bytes, so that it has 8 rows even where the rows are long.",
        )
    if shape[0] % rows:
        raise Unfit(
            f"{call} returned {rows}, which does not divide the {shape[0]} rows.",
            "return min(rows, ...) of a power of two, which does.",
        )


def _near_the_floor(block_rows):
    """Demand that the large additions fit into VMEM and take, by the compiler, little more than their bytes."""
    added, limit = adding(block_rows), chips.chip("v5e").scoped_vmem_bytes
    for shape in LARGE:
        x, rows = jax.ShapeDtypeStruct(shape, jnp.float32), block_rows(*shape)
        size = text.size(4 * rows * shape[1])
        said = f"For {shape[0]} x {shape[1]} block_rows returned {rows}, which makes blocks of {size}"
        needs = cost.vmem_bytes(grid.walk(added, x, x))
        if needs > limit:
            return (
                f"{said}. Their six buffers take {text.size(needs)}, but a kernel gets {text.size(limit)}.",
                "return fewer rows where there are more columns.",
            )
        try:
            report = compiler.compile_tpu(added, x, x)
        except compiler.Unavailable:
            return None
        if report.seconds is not None and report.seconds > MOST * report.hbm_seconds:
            return (
                f"{said}. That takes {text.duration(report.seconds)}, {vocabulary.COMPILER}, "
                f"{report.seconds / report.hbm_seconds:.2f} times as long as its bytes alone, because a step waits "
                f"{report.step['waiting for copies']:,.0f} cycles for copies.",
                "move more bytes in a step, because it is the size of a block that counts, not its number of rows.",
            )
    return None


EXERCISE = Exercise(
    id="05.5",
    title="Configure only: how many rows a step?",
    kind="configure",
    defines="block_rows",
    cases=_small,
    reference=lambda x, y: x + y,
    build=adding,
    also=(_near_the_floor,),
    hints=(
        "With too few rows, a step waits for the latency of its copies. With too many, the six buffers do not fit. How "
        "many bytes may a block have?",
        "A block of n bytes needs 6 n bytes of VMEM, of which there are 16 MiB. With two buffers, the bytes decide the "
        "time from a few hundred KiB a block on. The rows of a block are its bytes over 4 * columns.",
        "min(rows, 2**19 // (4 * columns)) makes blocks of 512 KiB.",
    ),
    points=2,
)
