"""Every op with a batch of unknown size, as jax.export has them: the kernel, with blocks planned without it."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax import export
from jax.extend.mlir import refine_polymorphic_shapes
from kernel_calls import OPS
from sweeps import daily
from test_kernels_contract import functions, squares

from course_lib import chips, compat, grid
from course_lib.compiler.child import service
from course_lib.kernels import (
    attention,
    block_sparse,
    elementwise,
    grouped,
    linear,
    matmul,
    norm,
    reduce,
    scan,
    softmax,
)
from course_lib.kernels.common import symbolic

WHOLE = ["matmul_one_block.matmul_one_block", "matmul_pipeline.matmul_pipelined"]  # blocks of which divide the arrays
MEET = ["attention.flash_attention", "attention.flash_attention in a window"]  # along the rows of a matrix
GROUPED = ["grouped.grouped_matmul", "grouped_swiglu.grouped_swiglu"]  # whose list of visits is as long as rows ask for
IN_SMEM = ["paged_attention.paged_attention"]  # whose lengths and table lie there
PATTERNS = [name for name in OPS if name.startswith("block_sparse")]  # whose blocks divide the arrays
ACROSS = ("down", "between", "around", "all")  # where elements of a batch meet, or there is a third axis
BATCHED = [
    name
    for name in OPS
    if name not in WHOLE + MEET + GROUPED + IN_SMEM + PATTERNS and not any(word in name.split() for word in ACROSS)
]
ROW = 200


def exported(fn, shape: str, *others, platforms=("tpu",)):
    """``fn`` of an array of the shape that the text says, whose letters are sizes nobody knows."""
    of = jax.ShapeDtypeStruct(export.symbolic_shape(shape), jnp.float32)
    with chips.chip("v5e").target():
        return export.export(jax.jit(fn), platforms=platforms)(of, *others)


def kernels_in(program) -> int:
    return program.mlir_module().count("tpu_custom_call")


@pytest.mark.parametrize("name", BATCHED)
def test_one_program_for_cpu_and_tpu(name):
    op = functions(name)[0]
    program = exported(op, f"b, {ROW}", platforms=("cpu", "tpu"))
    assert kernels_in(program) >= 1
    x = jnp.cos(jnp.arange(5.0 * ROW)).reshape(5, ROW)
    for got, want in zip(*map(jax.tree.leaves, (program.call(x), op(x))), strict=True):
        np.testing.assert_allclose(np.float32(got), np.float32(want), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    daily("elementwise.add", "softmax.softmax", "norm.layer_norm", "reduce.sum_over", "linear.linear", of=BATCHED),
)
def test_the_kernel_with_planned_blocks_is_the_reference(name, monkeypatch):
    """With the blocks of a batch that is not known, larger than what there is, in the TPU simulator."""
    op, reference = functions(name)
    x = jnp.cos(jnp.arange(5.0 * ROW)).reshape(5, ROW)
    monkeypatch.setattr(symbolic, "is_known", lambda size: size != len(x))
    traced = grid.trace(op, x)
    rows = [operand.block_shape[0] for operand in grid.walk(op, x).calls[0].operands if operand.shape == x.shape]
    assert rows and min(rows) > len(x)
    got = jax.jit(lambda x: grid.run(traced, compat.interpret_params(), x))(x)
    for found, want in zip(got, jax.tree.leaves(reference(x)), strict=True):
        np.testing.assert_allclose(np.float32(found), np.float32(want), rtol=1e-4, atol=1e-4)


ONE = block_sparse.Pattern(jnp.int32([1]), jnp.int32([3]), (2, 10))
BESIDE = {
    "softmax over rows": (lambda x: softmax.softmax(x, 0), "200, b"),
    "softmax over matrices": (lambda x: softmax.softmax(x, 0), "6, b, 200"),
    "sum over one": (lambda x: reduce.sum_over(x, 1), "b, 6, 200"),
    "sum over one, of columns": (lambda x: reduce.sum_over(x, 1), "6, 200, b"),
    "columns beside blocks": (lambda x: block_sparse.dsd(jnp.ones((1, 16, 20)), ONE, x), "200, b"),
    "sum over two": (lambda x: reduce.sum_over(x, (0, 2)), "6, b, 200"),
    "cumsum over rows": (lambda x: scan.cumsum(x, 0), "200, b"),
    "cumsum over matrices": (lambda x: scan.cumsum(x, 0), "6, b, 200"),
}


@pytest.mark.parametrize("fn, shape", BESIDE.values(), ids=BESIDE)
def test_an_op_along_another_axis_takes_what_lies_beside_it(fn, shape):
    assert kernels_in(exported(fn, shape)) >= 1


PROGRAMS = {name: (functions(name)[0], f"b, {ROW}") for name in BATCHED} | BESIDE


@needs_libtpu
@pytest.mark.parametrize(
    "name, size", daily(("matmul.matmul", 5), of=[(n, size) for n in PROGRAMS for size in (1, 5, 300)])
)
def test_it_compiles_once_the_size_is_known(name, size):
    fn, shape = PROGRAMS[name]
    sizes = [size if letter == "b" else int(letter) for letter in shape.split(", ")]
    program = exported(fn, shape)
    with chips.chip("v5e").target():
        lowered = jax.jit(program.call).trace(jnp.zeros(sizes)).lower(lowering_platforms=("tpu",))
    module = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(module)
    known = refine_polymorphic_shapes(
        mlir_module=module.getvalue(), enable_shape_assertions=True, validate_static_shapes=True, enable_shardy=True
    )
    limits = {"time_limit_s": 120, "memory_bytes": 8 << 30}
    answer = service.compile_module(chips.chip("v5e").topology, known, simulate=False, **limits)
    assert answer["ok"], answer["error"]


@pytest.mark.parametrize("shape", ["b", "b, 6, 200", "6, b", "8*b, 200", "b, c"])
def test_an_elementwise_op_takes_any_axis(shape):
    program = exported(jax.value_and_grad(lambda x: elementwise.multiply(x, x).sum()), shape)
    assert kernels_in(program) >= 2


@pytest.mark.parametrize("shape", [f"b, 6, {ROW}", f"b, 6, c, {ROW}", "b, 40, 16"])
@pytest.mark.parametrize("op", [reduce.sum_over, softmax.softmax])
def test_a_known_axis_between_unknown_ones(op, shape):
    program = exported(lambda x: op(x, 1), shape, platforms=("cpu", "tpu"))
    assert kernels_in(program) >= 1
    sizes = [int(size) if size.strip().isdigit() else 5 for size in shape.split(",")]
    x = jnp.cos(jnp.arange(float(np.prod(sizes)))).reshape(sizes)
    np.testing.assert_allclose(program.call(x), op(x, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["linear.linear", "reduce.sum_over", "norm.layer_norm", "scan.cumsum", *WHOLE, *MEET, *GROUPED, *PATTERNS]
)
def test_a_mapped_axis_may_be_unknown(name):
    assert kernels_in(exported(jax.vmap(functions(name)[0]), f"b, 16, {ROW}")) >= 1


AROUND = {
    "softmax along rows of a matrix": (lambda x: softmax.softmax(x, 0), "21, b"),
    "and between others": (jax.grad(lambda x: (softmax.softmax(x, 1) ** 2).sum()), "b, 6, 9, 200"),
    "a sum between others": (lambda x: reduce.sum_over(x, 1), "b, 6, 200"),
    "heads of a batch": (lambda x: attention.flash_attention(x, x[:, :3], x[:, :3]), "b, 6, 9, 200"),
    "two sums, one beside it": (lambda x: reduce.sum_over(x, (0, 2)), "6, b, 200"),
    "an eps that is traced": (lambda x: norm.rms_norm(x, jnp.ones(200), jnp.float32(0.5)), "b, 200"),
}


@pytest.mark.parametrize("name", daily("and between others", "heads of a batch", "two sums, one beside it", of=AROUND))
def test_any_axis_but_the_one_that_is_gone_along(name):
    fn, shape = AROUND[name]
    program = exported(fn, shape, platforms=("cpu", "tpu"))
    assert kernels_in(program) >= 1
    known = tuple(5 if size == "b" else int(size) for size in shape.split(", "))
    x = jnp.cos(jnp.arange(float(np.prod(known)))).reshape(known)
    np.testing.assert_allclose(program.call(x), fn(x), rtol=1e-5, atol=1e-5)


EIGHT = block_sparse.from_mask(jnp.eye(4))
MEETING = {
    "K of a product": (lambda x: matmul.matmul(x, x.T), "8, k", "matmul.*k elements"),
    "rows of groups": (
        lambda x: grouped.grouped_matmul(x, jnp.ones((2, 8, 8)), jnp.int32([3, 4])),
        "n, 8",
        "grouped_matmul.*n elements",
    ),
    "K of blocks of a product": (lambda x: block_sparse.sdd(x, x.T, EIGHT), "8, k", "sdd.*k elements"),
    "columns of groups": (
        lambda x: grouped.grouped_matmul(jnp.ones((8, 8)), jnp.stack([x, 2 * x]), jnp.int32([3, 4])),
        "8, n",
        "grouped_matmul.*n elements",
    ),
    "how many blocks": (
        lambda x: block_sparse.sdd(
            jnp.ones((16, 8)), jnp.ones((8, 16)), block_sparse.Pattern(x[:, 0].astype(int), x[:, 1].astype(int), (2, 2))
        ),
        "z, 8",
        "sdd.*z elements",
    ),
    "positions": (lambda x: attention.flash_attention(x, x, x), "n, 8", "flash_attention.*n elements"),
    "a row": (softmax.softmax, "8, n", "softmax.*n elements"),
    "rows that are added": (lambda x: reduce.sum_over(x, 0), "b, 8", "sum_over.*b elements"),
    "rows that are summed up": (lambda x: scan.cumsum(x, 0), "b, 8", "cumsum.*b elements"),
    "the gradient of a weight": (
        lambda x: jax.grad(lambda w: squares(lambda x: linear.linear(x, w))(x))(jnp.ones((8, 8))),
        "b, 8",
        "gradient of linear.*b elements",
    ),
    "the same of a norm": (
        lambda x: jax.grad(lambda w: squares(lambda x: norm.rms_norm(x, w))(x))(jnp.ones(8)),
        "b, 8",
        "gradient of rms_norm.*b elements",
    ),
}


@pytest.mark.parametrize("fn, shape, says", MEETING.values(), ids=MEETING)
def test_plain_jax_where_elements_meet_along_it(fn, shape, says):
    with pytest.warns(UserWarning, match=f"{says} is\\.") as warned:
        program = exported(fn, shape, platforms=("cpu", "tpu"))
    assert len(warned) == 1
    x = jnp.cos(jnp.arange(64.0)).reshape(8, 8)
    np.testing.assert_allclose(program.call(x), fn(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", WHOLE)
def test_where_blocks_are_arrays_all_sizes_must_be_known(name):
    with pytest.raises(ValueError, match=r"x has shape \(b, 200\) and y .* sizes must be known. Try matmul.matmul"):
        exported(functions(name)[0], f"b, {ROW}")
