"""The last part of the page that ``python -m course_lib.kernels grouped_swiglu`` prints, behind kernel.py.

Left to the library: checks of arguments, meshes, blocks of one's own. Elsewhere than on a TPU the reference runs.
"""

import functools

import jax
from jax import Array, lax

from course_lib.kernels.grouped.page import gradients, launch_options, multiply, usual_blocks
from course_lib.kernels.grouped.visits import visits_of
from course_lib.kernels.grouped_swiglu.kernel import launch_swiglu, reference, swiglu_gradients


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def grouped_swiglu(x: Array, w_gate: Array, w_up: Array, sizes: Array, precision: str = "highest") -> Array:
    """Return the gated products of x (T, K), both weights (E, K, N) and sizes (E,): on a TPU by the kernel."""
    (t, k), n = x.shape, w_up.shape[2]
    bm, bn = map(min, usual_blocks(k, x.dtype, 2), (t, n))

    def on_tpu(x, w_gate, w_up, sizes):
        visits = visits_of(sizes, t, bm, of_matrices=False)
        return launch_swiglu(x, w_gate, w_up, visits, (bm, bn), **launch_options(x, precision))

    return lax.platform_dependent(x, w_gate, w_up, sizes, tpu=on_tpu, default=reference)


def _backward(precision, saved, g):
    product, both = (functools.partial(fn, precision=precision) for fn in (multiply, gradients))
    on_tpu = functools.partial(swiglu_gradients, multiply=product, gradients=both)
    plain = lambda *args: jax.vjp(lambda *arrays: reference(*arrays, args[3]), *args[:3])[1](args[4])  # noqa: E731
    return *lax.platform_dependent(*saved, g, tpu=on_tpu, default=plain), None


grouped_swiglu.defvjp(lambda *args: (grouped_swiglu(*args), args[:4]), _backward)
