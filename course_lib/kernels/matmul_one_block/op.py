"""``matmul_one_block`` for callers: arguments checked, on meshes, and plain JAX where there is no TPU."""

from jax import lax

from course_lib.arrays import Array, Num
from course_lib.kernels.common import arguments, symbolic
from course_lib.kernels.common.chip import vmem_bytes
from course_lib.kernels.common.products import dot, generation_of, precision_of, product_dtype
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul_one_block.kernel import launch


def matmul_one_block(
    x: Num[Array, "M K"], y: Num[Array, "K N"], *, precision: lax.PrecisionLike = "highest", layout: Layout = None
) -> Num[Array, "M N"]:
    """Return ``x @ y``, both f32, both bf16, or both int8 (result: int32); not differentiable. As ``matmul.matmul``.

    Raises ValueError if shapes or dtypes do not fit, or the arrays do not fit into VMEM.
    """
    x, y = arguments.arrays("matmul_one_block", arguments.FACTORS, x=x, y=y)
    level = precision_of("matmul_one_block", x.dtype, precision)
    _check_fits(x, y)
    plain = fixed(_plain, precision=level)
    if 0 in (*x.shape, *y.shape):
        return plain(x, y)
    rule = "m k, k n -> m n +k"
    (x, y), cuts = sharding.ready("matmul_one_block", rule, (x, y), layout)
    how = {"tpu": fixed(_on_tpu, precision=level), "dtypes": (product_dtype(x.dtype),), "since": generation_of(x.dtype)}
    return Op(name="matmul_one_block", rule=rule, plain=plain, **how)(x, y, cuts=cuts)


def _check_fits(x: Array, y: Array) -> int:
    """Return the bytes that x, y and the result take. Raises ValueError if VMEM has less."""
    problem = matmul_blocks.problem("matmul_one_block", x, y)
    if not all(map(symbolic.is_known, (*x.shape, *y.shape))):
        raise ValueError(
            f"matmul_one_block: x has shape {x.shape} and y {y.shape}; whole arrays are its blocks, so all "
            "sizes must be known. Try matmul.matmul."
        )
    m, k, n = problem.m, problem.k, problem.n
    needs = (m * k + k * n) * problem.dtype.itemsize + m * n * problem.out_itemsize
    if needs > vmem_bytes():
        raise ValueError(
            f"matmul_one_block: x, y and the result take {needs / 2**20:.1f} MiB, and the chip has "
            f"{vmem_bytes() / 2**20:.0f} MiB of VMEM. Try matmul.matmul, which cuts them into blocks."
        )
    return needs


def _plain(x: Array, y: Array, *, precision) -> Array:
    return dot(x, y, precision=precision).astype(product_dtype(x.dtype))


def _on_tpu(x: Array, y: Array, *, precision) -> Array:
    limit = min(vmem_bytes(), 2 * _check_fits(x, y) + (16 << 20))
    return launch(x, y, precision=precision, vmem_limit_bytes=limit)
