"""What ``make bench`` compares on a GPU: each kernel and shape with XLA's version, and with other libraries.

XLA's matmuls are cuBLAS's, unless XLA writes a fusion of its own. All implementations of a row take the same arguments
and return what ``plain`` does. It is the row's definition, and runs in f32 to give the correct result.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import kernel_rows
from kernel_rows import OURS, TOKAMAX, XLA, Load

from course_lib.kernels import activations
from course_lib.kernels.activations import ACTIVATIONS
from course_lib.kernels.elementwise import mosaic_gpu as elementwise_gpu
from course_lib.kernels.matmul import mosaic_gpu as matmul_gpu
from course_lib.kernels.norm import mosaic_gpu as norm_gpu

TRITON = "ours, by Triton"  # the kernels for Ampere and Ada
ROW_WISE = "softmax", "RMSNorm", "LayerNorm", "gelu"
COPY = "copy"  # the row whose bandwidth the other memory-limited rows are compared with


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One kernel at one shape. ``args`` are ShapeDtypeStructs; ``choices`` are our blocks to try with --tune.

    ``least`` has the work that any implementation must do, if ``plain`` does more: a half, if half of the scores count.
    """

    kernel: str
    shape: str
    args: tuple[jax.ShapeDtypeStruct, ...]
    plain: Callable
    least: Callable | None = None
    implementations: dict[str, Load]
    choices: dict[object, Load] = dataclasses.field(default_factory=dict)

    @property
    def dtype(self) -> str:
        return {"bfloat16": "bf16", "float32": "f32"}[self.args[0].dtype.name]


def rows() -> list[Row]:
    """Return every row, in table order: first those limited by memory bandwidth, starting with a copy."""
    import gpu_attention_rows

    return [
        _copy(8192, 8192),
        *(_row_wise(kernel, 8192, 8192) for kernel in ROW_WISE),
        *(_row_wise(kernel, 8192, 4096, dtype="f32") for kernel in ROW_WISE),
        *(_matmul(*sizes) for sizes in kernel_rows.MATMULS),
        *(_linear(4096, 1024, 4096, activation) for activation in kernel_rows.GELUS),
        *(_linear(8192, 4096, 4096, activation) for activation in kernel_rows.GELUS),
        *(_gradients(4096, 4096, 4096, activation) for activation in kernel_rows.GELUS),
        *gpu_attention_rows.rows(),
    ]


def _copy(*shape: int) -> Row:
    return Row(
        kernel=COPY,
        shape=_words(shape),
        args=(_array(*shape),),
        plain=jnp.copy,
        implementations={XLA: lambda: jnp.copy},
    )


def _row_wise(kernel: str, *shape: int, dtype: str = "bf16") -> Row:
    of_models = kernel_rows.row_wise_of_a_model("", kernel, shape, dtype)
    plain = _in_f32(of_models.implementations[XLA]())
    others = {}
    if kernel.endswith("Norm"):
        others[TOKAMAX] = _tokamax_norm(centred=kernel == "LayerNorm")
    return Row(
        kernel=kernel,
        shape=_words(shape),
        args=of_models.args,
        plain=plain,
        implementations=_by_triton_too({OURS: of_models.implementations[OURS], XLA: lambda: plain}) | others,
        choices={blocks: functools.partial(_blocks_of, kernel, blocks) for blocks in _choices(kernel)},
    )


def _in_f32(fn: Callable) -> Callable:
    """Return ``fn`` computed in f32 and rounded once, as our kernels do; in bf16 its error was up to six times ours."""

    def rounded_once(x, *vectors):
        return fn(*(array.astype(jnp.float32) for array in (x, *vectors))).astype(x.dtype)

    return rounded_once


def _choices(kernel: str) -> list:
    if kernel in ACTIVATIONS:
        return [elementwise_gpu.Blocks(elements=elements) for elements in (512, 1024, 2048, 4096, 8192)]
    return [norm_gpu.Blocks(rows=rows) for rows in (1, 2, 4, 8, 16)]


def _blocks_of(kernel: str, blocks) -> Callable:
    if kernel in ACTIVATIONS:
        return functools.partial(elementwise_gpu.pointwise, functools.partial(_activated, kernel), blocks=blocks)
    op = {"softmax": norm_gpu.softmax, "RMSNorm": norm_gpu.rms_norm, "LayerNorm": norm_gpu.layer_norm}[kernel]
    return functools.partial(op, blocks=blocks)


def _activated(name: str, x: jax.Array) -> jax.Array:
    return activations.apply(name, x.astype(jnp.float32))


def _by_triton_too(implementations: dict[str, Load]) -> dict[str, Load]:
    return {OURS: implementations[OURS], TRITON: implementations[OURS], **implementations}


def _matmul(m: int, k: int, n: int) -> Row:
    return Row(
        kernel="matmul",
        shape=_words((m, k, n)),
        args=(_array(m, k), _array(k, n)),
        plain=jnp.matmul,
        implementations=_by_triton_too(
            {
                OURS: kernel_rows.matmul(m, k, n).implementations[OURS],
                XLA: lambda: jnp.matmul,
                "Pallas ops": _pallas_ops_matmul,
            }
        ),
        choices={blocks: functools.partial(_with_blocks, blocks) for blocks in BLOCKS},
    )


def _linear(m: int, k: int, n: int, activation: str) -> Row:
    of_tpu = kernel_rows.linear(m, k, n, activation)
    return _as_there(of_tpu, kernel_rows.plain_linear(activation))


def _gradients(m: int, k: int, n: int, activation: str) -> Row:
    of_tpu = kernel_rows.linear_and_gradients(m, k, n, activation)
    return _as_there(of_tpu, kernel_rows.with_gradients(kernel_rows.plain_linear(activation)))


def _as_there(row: kernel_rows.Row, plain: Callable) -> Row:
    given = {"kernel": row.kernel, "shape": row.shape, "args": row.args}
    return Row(plain=plain, implementations=_by_triton_too(row.implementations), **given)


# Tiles and stages that fit into a Hopper's shared memory.
BLOCKS = tuple(
    matmul_gpu.Blocks(bn=bn, bk=bk, stages=stages, snake=snake)
    for bn, bk, stages in ((256, 64, 4), (256, 64, 3), (128, 64, 6), (128, 128, 3), (64, 64, 8), (64, 128, 4))
    for snake in (8, 16)
)


def _with_blocks(blocks: matmul_gpu.Blocks) -> Callable:
    return lambda x, y: matmul_gpu.product(x, y, blocks=blocks)[0]


def _pallas_ops_matmul() -> Callable:
    """Load the JAX wheel's example kernel for Hopper, with tiles as large as ours."""
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as example

    config = example.TuningConfig(
        tile_m=64,
        tile_n=256,
        tile_k=64,
        max_concurrent_steps=4,
        epi_tile_m=64,
        epi_tile_n=64,
        grid_minor_dim=0,
        grid_tile_width=8,
        wg_dimension=example.MatmulDimension.M,
    )
    return lambda x, y: example.matmul(x, y, None, config)


def _tokamax_norm(centred: bool) -> Load:
    def load() -> Callable:
        import tokamax

        def norm(x, weight, bias=None):
            return tokamax.layer_norm(x, weight, bias, subtract_mean=centred, implementation="triton")

        return norm

    return load


def _array(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


def _words(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
