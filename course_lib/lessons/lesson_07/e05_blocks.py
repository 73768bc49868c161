"""Block sizes for four shapes of a matmul."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, text, vocabulary
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit, described

MOST = 1.15  # times what the best blocks take
BEST = {  # (m, k, n): within 1 % of the fastest found, powers of two that fit into 16 MiB, libtpu 0.0.48
    (512, 8192, 2048): (512, 2048, 512),
    (16, 4096, 4096): (16, 4096, 512),
    (4096, 256, 4096): (1024, 256, 1024),
    (1024, 1024, 1024): (512, 1024, 512),
}
AXES = ("m", "k", "n")
FEW_ROWS = 32  # up to this many rows are one block, and y, copied once, is nearly all of the bytes


def _small() -> list[tuple]:
    """Return sizes for the judges that run a kernel: powers of two, which blocks divide."""
    sizes = ({"M": 64, "K": 512, "N": 256}, {"M": 16, "K": 256, "N": 128}, {"M": 128, "K": 128, "N": 512})
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), sizes)


def _reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype)


def with_blocks(blocks):
    """Return the matmul in the learner's blocks. Raise Unfit for blocks that such an array cannot have."""
    shapes = [(*x.shape, y.shape[1]) for x, y in _small()]
    chosen = [(shape, blocks(*shape)) for shape in (*shapes, *BEST)]
    if any(sizes is not None for _, sizes in chosen):
        for shape, sizes in chosen:
            _divide(shape, sizes)

    def product(x, y):
        sizes = blocks(*x.shape, y.shape[1])
        return None if sizes is None else in_blocks(x, y, sizes)

    return product


def in_blocks(x, y, sizes):
    """Return x @ y computed in blocks (bm, bk, bn), with the kernel that the exercise gives."""

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    (m, depth), n, (bm, bk, bn) = x.shape, y.shape[1], sizes
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


def _divide(shape: tuple[int, int, int], sizes: object) -> None:
    call = f"blocks{shape}"
    if not isinstance(sizes, (tuple, list)) or len(sizes) != 3 or any(type(size) is not int for size in sizes):
        raise Unfit(
            f"{call} returned {described(sizes)}; it should return (bm, bk, bn), three whole numbers.",
            "divide with //, so that the sizes stay whole numbers.",
        )
    for axis, length, size in zip(AXES, shape, sizes, strict=True):
        if size < 1 or length % size:
            raise Unfit(
                f"{call} returned b{axis} = {size}, which does not divide {axis} = {length}.",
                f"return min({axis}, ...) of a power of two, which does.",
            )


def report(shape: tuple[int, int, int], sizes) -> compiler.Report:
    """Return the compiler's report on a matmul of this shape in these blocks."""
    m, k, n = shape
    x, y = jax.ShapeDtypeStruct((m, k), jnp.bfloat16), jax.ShapeDtypeStruct((k, n), jnp.bfloat16)
    return compiler.compile_tpu(lambda x, y: in_blocks(x, y, sizes), x, y)


def _near_the_best(blocks):
    for shape, best in BEST.items():
        sizes = tuple(blocks(*shape))
        said = f"For {' x '.join(map(str, shape))} blocks returned {sizes}"
        try:
            ours, theirs = report(shape, best), report(shape, sizes)
        except compiler.Unavailable:
            return None
        if not theirs.ok:
            raise Unfit(
                f"{said}. {theirs.error.what}",
                "make the largest of its blocks smaller.",
                headline="the compiler refuses some of its blocks.",
            )
        ratio = theirs.seconds / ours.seconds
        if ratio > MOST:
            why, next = _why(shape, sizes, theirs)
            return (
                f"{said}. That takes {text.duration(theirs.seconds)}, {vocabulary.COMPILER}, {ratio:.2f} times as "
                f"long as the best blocks that we have found. {why}",
                next,
            )
    return None


def _why(shape, sizes, theirs) -> tuple[str, str]:
    """Return (what takes the time, what to try)."""
    (m, k, n), (bm, bk, bn) = shape, sizes
    steps = (m // bm) * (k // bk) * (n // bn)
    if steps < 4:
        return (
            f"With {steps} step{'s' if steps > 1 else ''} there is little work to hide a copy, and nothing hides the "
            "first and the last one.",
            "make bm and bn smaller, so that there are four steps or more.",
        )
    if m <= FEW_ROWS:
        return (
            f"It has {steps:,} steps, and HBM has to deliver {text.size(theirs.hbm_bytes)} in all of them.",
            f"{m} rows are few, so the bytes of y bind, however it is cut. Make bk and bn long: few, but large copies.",
        )
    if theirs.hbm_seconds > 0.9 * theirs.seconds:
        often = f"all of x is copied {_times(n // bn if bk < k else 1)} and all of y {_times(m // bm)}"
        return (
            f"Its {text.size(theirs.hbm_bytes)} of HBM traffic set the time: {often}.",
            "find out which of bm, bk and bn decide the bytes, and which only the number of steps.",
        )
    waits = theirs.step.get("waiting for copies", 0)
    return (
        f"It has {steps:,} steps, and each waits {waits:,.0f} cycles for copies.",
        "take fewer steps. Which of bm, bk and bn can be larger, and which of them costs no bytes?",
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


EXERCISE = Exercise(
    id="07.5",
    title="Configure only: blocks for four shapes",
    kind="configure",
    defines="blocks",
    cases=_small,
    reference=_reference,
    build=with_blocks,
    also=(_near_the_best,),
    hints=(
        "All of x is copied n / bn times, and all of y m / bm times. For each shape, which of the two is large, and "
        "how often would you copy it?",
        "Every step has an overhead of a few hundred cycles, and nothing hides the first copy and the last one. So "
        "take few steps, but not too few.",
        "If k is long, 512 x 2048 x 512 fits, cut down to the array. If k is short, a step is short too, so take 1024 "
        "along m and n. If all three are 1024, bm = bn = 512 leaves four steps or more.",
    ),
    points=3,
)
