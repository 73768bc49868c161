"""Exercise 03.9, Repair: a product in blocks that are too small."""

import jax.numpy as jnp

from course_lib import chips, cost, grid
from course_lib.checks.inputs import arguments
from course_lib.checks.lesson_03.product import MI, in_blocks, square
from course_lib.checks.unfit import Unfit

PRODUCTS = ({"M": 512, "K": 1024, "N": 512}, {"M": 256, "K": 512, "N": 1024})
LARGE = (8192, 8192, 8192)  # m, k, n


def with_blocks(choose_blocks):
    """The product with the learner's blocks."""
    for sizes in (*((size["M"], size["K"], size["N"]) for size in PRODUCTS), LARGE):
        if (blocks := choose_blocks(*sizes)) is not None:
            _three_sizes(blocks, sizes)

    def product(x, y):
        blocks = choose_blocks(*x.shape, y.shape[1])
        return None if blocks is None else in_blocks(x, y, *blocks)

    return product


def _three_sizes(blocks: object, sizes: tuple[int, int, int]) -> None:
    """Refuse what are no sizes of blocks that divide the axes."""
    call = f"choose_blocks{sizes}"
    good = isinstance(blocks, tuple | list) and len(blocks) == 3 and all(type(b) is int and b > 0 for b in blocks)
    if not good:
        raise Unfit(
            f"{call} returned {blocks!r:.60}; asked for are three whole numbers: bm, bk and bn.",
            "write return bm, bk, bn.",
        )
    for name, axis, block, size in zip(("bm", "bk", "bn"), "mkn", blocks, sizes, strict=True):
        if size % block:
            raise Unfit(
                f"{call} returned {name}={block}, which does not divide {axis}={size}: the last block would hang over.",
                f"choose a divisor of {size}; min({size}, ...) helps where an axis is short.",
            )


def fit_a_large_product(choose_blocks):
    """Whether the blocks for a product of 8192 fit into what one kernel may use of VMEM."""
    blocks, limit = choose_blocks(*LARGE), chips.chip("v5e").scoped_vmem_bytes
    needs = cost.vmem_bytes(grid.walk(lambda x, y: in_blocks(x, y, *blocks), *square(LARGE[0])))
    if needs > limit:
        return (
            f"For a product of 8192 choose_blocks returned {tuple(blocks)}: that takes {needs / MI:,.1f} MiB of VMEM, "
            f"and a kernel may use {limit / MI:.0f}.",
            "give each size a limit: min(m, ...). Blocks of x, y and the result are held twice.",
        )


def products() -> list[tuple]:
    """Sizes that blocks of 128 and more divide: overhanging blocks are the subject of lesson 8."""
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), PRODUCTS)


def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype)
