"""The last part of the page that ``python -m course_lib.kernels grouped`` prints, behind kernel.py.

Left to the library: checks of arguments, meshes, blocks for any shape and chip. Elsewhere the reference runs.
"""

import functools

import jax
import jax.numpy as jnp
from jax import Array, lax

from course_lib.kernels.grouped.kernel import Blocks, launch, launch_gradient, reference
from course_lib.kernels.grouped.visits import visits_of


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def grouped_matmul(
    x: Array, w: Array, sizes: Array, transpose_w: bool = False, blocks: Blocks | None = None, precision="highest"
) -> Array:
    """Return ``x_e @ w[e]`` for x (T, K), w (E, K, N), or (E, N, K), and sizes (E,): on a TPU by the kernel."""
    sizes_of = blocks and (blocks.bm, blocks.bn)
    on_tpu = functools.partial(multiply, transpose_w=transpose_w, blocks=sizes_of, precision=precision)
    return lax.platform_dependent(
        x, w, sizes, tpu=on_tpu, default=functools.partial(reference, transpose_w=transpose_w)
    )


def multiply(x, w, sizes, *, transpose_w=False, blocks=None, precision):
    """Return the grouped product, on a TPU."""
    (t, k), n = x.shape, w.shape[1 if transpose_w else 2]
    bm, bn = map(min, blocks or usual_blocks(k, x.dtype), (t, n))
    visits, how = visits_of(sizes, t, bm, of_matrices=False), launch_options(x, precision)
    return launch(x, w, visits, (bm, bn), transpose_w=transpose_w, **how)


def gradients(x, w, sizes, g, *, transpose_w=False, precision):
    """Return dx, which is a grouped product as well, and dw, on a TPU."""
    dx, how = multiply(g, w, sizes, transpose_w=not transpose_w, precision=precision), launch_options(x, precision)
    x, g = (g, x) if transpose_w else (x, g)
    usual = (512, 2048, 1024) if x.dtype == jnp.bfloat16 else (512, 512, 512)
    blocks = tuple(map(min, usual, (*x.shape, g.shape[1])))
    return dx, launch_gradient(x, g, visits_of(sizes, len(x), blocks[0], of_matrices=True), blocks, w.dtype, **how)


def usual_blocks(k: int, dtype, matrices: int = 1) -> tuple[int, int]:
    """Return bm and bn such that a step is at most 2**30 multiplications; one in f32 counts as six."""
    return 512, max(128, min(1024, 2**21 // (k * matrices * (1 if dtype == jnp.bfloat16 else 6)) // 128 * 128))


def launch_options(x: Array, precision: str):
    """Return the precision of f32 on the MXU, and the VMEM to request."""
    return {"precision": lax.Precision(precision) if x.dtype == jnp.float32 else None, "vmem": 64 << 20}


def _backward(transpose_w, _, precision, saved, g):
    x, w, sizes = saved
    how = {"transpose_w": transpose_w}
    on_tpu = functools.partial(gradients, **how, precision=precision)
    plain = lambda x, w, sizes, g: jax.vjp(lambda x, w: reference(x, w, sizes, **how), x, w)[1](g)  # noqa: E731
    return *lax.platform_dependent(x, w, sizes, g, tpu=on_tpu, default=plain), None


grouped_matmul.defvjp(lambda *args: (grouped_matmul(*args), args[:3]), _backward)
