"""A matmul in blocks that are too small, to repair."""

import functools

import jax.numpy as jnp

from course_lib import chips, cost, grid, judges, roofline, text, vocabulary
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit
from course_lib.lessons.lesson_03.product import MI, in_blocks, square

PRODUCTS = ({"M": 512, "K": 1024, "N": 512}, {"M": 256, "K": 512, "N": 1024})
LARGE = (8192, 8192, 8192)  # m, k, n
MOST_TIMES = 1.5  # limit on the ratio to XLA's own matmul (compiler), and to the arithmetic of the large one (model)


def with_blocks(choose_blocks):
    """Return the matmul with the learner's blocks."""
    each = [(size["M"], size["K"], size["N"]) for size in PRODUCTS] + [LARGE]
    chosen = [choose_blocks(*sizes) for sizes in each]
    if any(blocks is not None for blocks in chosen):
        for blocks, sizes in zip(chosen, each, strict=True):
            _three_sizes(blocks, sizes)

    def product(x, y):
        blocks = choose_blocks(*x.shape, y.shape[1])
        return None if blocks is None else in_blocks(x, y, *blocks)

    return product


def _three_sizes(blocks: object, sizes: tuple[int, int, int]) -> None:
    """Raise Unfit unless ``blocks`` are three sizes that divide the axes."""
    call = f"choose_blocks{sizes}"
    good = isinstance(blocks, tuple | list) and len(blocks) == 3 and all(type(b) is int and b > 0 for b in blocks)
    if not good:
        raise Unfit(
            f"{call} returned {blocks!r:.60}; it has to return three whole numbers above 0: bm, bk and bn.",
            "return all three, with commas between them: return 128, 128, 128 works, although it is slow.",
        )
    for name, axis, block, size in zip(("bm", "bk", "bn"), "mkn", blocks, sizes, strict=True):
        if size % block:
            raise Unfit(
                f"{call} returned {name}={block}, which does not divide {axis}={size}, so the last block overhangs.",
                f"choose a divisor of {size}; min({size}, ...) helps where an axis is short.",
            )


def serve_a_large_product(choose_blocks):
    """Demand that the blocks for a matmul of 8192 fit into the VMEM that one kernel may use, and are large enough."""
    blocks, limit = choose_blocks(*LARGE), chips.chip("v5e").scoped_vmem_bytes
    product, of = functools.partial(in_blocks, bm=blocks[0], bk=blocks[1], bn=blocks[2]), square(LARGE[0])
    returned = f"For a matmul of 8192 choose_blocks returned {tuple(blocks)}"
    needs = cost.vmem_bytes(grid.walk(product, *of))
    if needs > limit:
        return (
            f"{returned}. They take {needs / MI:,.1f} MiB of VMEM, but a kernel may use only {limit / MI:.0f}.",
            "give each size a limit: min(m, ...). VMEM holds each block of x, y and the result twice.",
        )
    predicted = roofline.predict(product, *of)
    if predicted.seconds > MOST_TIMES * predicted.compute_s:
        return (
            f"{returned}. The kernel then takes {text.duration(predicted.seconds)}, {vocabulary.MODEL}, which is "
            f"{predicted.seconds / predicted.compute_s:.1f} times the arithmetic. Its {predicted.steps:,} grid steps "
            f"cost {text.duration(predicted.steps_s)}, and its copies {text.duration(predicted.memory_s)}.",
            "larger blocks mean fewer steps and fewer bytes.",
        )
    return None


def _products() -> list[tuple]:
    """Return sizes that blocks of 128 and more divide; lesson 8 handles overhanging blocks."""
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), PRODUCTS)


def _reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype)


EXERCISE = Exercise(
    id="03.9",
    title="Repair: right, and far from its roof",
    kind="repair",
    defines="choose_blocks",
    cases=_products,
    reference=_reference,
    build=with_blocks,
    also=(serve_a_large_product,),
    budget=judges.Budget(times_reference=MOST_TIMES),
    hints=(
        "Which roof is the kernel under? Count the grid steps, and multiply them by 0.33 us.",
        "Larger blocks mean fewer steps and fewer bytes. VMEM holds each block twice, and a kernel may use 16 MiB.",
        "min(512, m), min(1024, k), min(512, n) is one good answer.",
    ),
    points=2,
)
