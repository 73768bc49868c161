"""RMSNorm with the residual that a transformer adds before it: ``s = x + residual`` and ``rms_norm(s)``, both returned.

Cost   FLOPs 5 * M * N, of the gradient about 13 * M * N;  HBM bytes 4 * M * N * itemsize, either way
VMEM   bm * N * (8 * itemsize + 8), of the gradient bm * N * (8 * itemsize + 12)

The kernels are those of RMSNorm, with an addition in front; ``kernel.launch`` runs them.
"""

from course_lib.arrays import Array, Float
from course_lib.kernels.norm.kernel import Block, Row, _gradient_kernel, _rms_norm_kernel, rms_norm_reference


def rms_norm_residual_reference(
    x: Float[Array, "*shape N"], residual: Float[Array, "*shape N"], weight: Float[Array, " N"], eps=1e-6
) -> tuple[Float[Array, "*shape N"], Float[Array, "*shape N"]]:
    """Return what ``rms_norm_residual`` must compute."""
    return normed_and_sum(x + residual, weight, eps)


def normed_and_sum(s, weight, eps) -> tuple[Array, Array]:
    """Return the results of ``rms_norm_residual`` as a function of the sum, which is all that its gradient needs."""
    return rms_norm_reference(s, weight, eps), s


def _rms_norm_residual_kernel(
    x_ref: Block, residual_ref: Block, weight_ref: Row, o_ref: Block, s_ref: Block, *, eps, axis, inside=None
) -> None:
    s_ref[...] = x_ref[...] + residual_ref[...]
    _rms_norm_kernel(s_ref, weight_ref, o_ref, eps=eps, axis=axis, inside=inside)


def _residual_gradient_kernel(
    s_ref: Block,
    g_ref: Block,  # the gradient of the normalized result
    gs_ref: Block,  # the gradient of s itself
    weight_ref: Row,
    ds_ref: Block,
    dweight_ref: Row,
    **how,
) -> None:
    _gradient_kernel(s_ref, g_ref, weight_ref, ds_ref, dweight_ref, gs_ref=gs_ref, **how)
