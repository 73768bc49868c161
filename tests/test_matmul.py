"""The matrix products: every shape and dtype by all four judges; gradients; blocks; complaints."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from conftest import needs_libtpu
from sweeps import daily

from course_lib import chips, compiler, cost, grid
from course_lib.kernels import linear, matmul
from course_lib.kernels.common import chip as this_chip
from course_lib.kernels.common import layouts
from course_lib.kernels.matmul import Blocks, reference
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul.blocks import Problem
from course_lib.kernels.matmul_one_block import matmul_one_block
from course_lib.kernels.matmul_pipeline import matmul_pipelined

SMALL = Blocks(bm=128, bk=128, bn=128)
DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "int8": jnp.int8}


def pair(m, k, n, dtype=jnp.float32, transposed=(False, False)):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(m, k)) * 20, rng.normal(size=(k, n)) * 20
    return jnp.asarray(x.T if transposed[0] else x, dtype), jnp.asarray(y.T if transposed[1] else y, dtype)


WHOLE = itertools.product([(1, 1, 1), (7, 13, 200), (129, 257, 1)], DTYPES)


@pytest.mark.parametrize("shape, dtype", daily(((7, 13, 200), "f32"), of=WHOLE))
def test_whole_reductions_by_four_judges(shape, dtype):
    accepted(matmul.matmul, reference, *pair(*shape, DTYPES[dtype]))


@pytest.mark.parametrize("dtype", daily("int8", of=DTYPES))
def test_reductions_in_blocks_with_ragged_edges_by_four_judges(dtype):
    accepted(functools.partial(matmul.matmul, blocks=SMALL), reference, *pair(136, 300, 140, DTYPES[dtype]))


BY_COLUMNS = {"x": (128, 200, 384), "y": (100, 256, 136), "both": (128, 200, 260), "the result": (200, 300, 140)}


@pytest.mark.parametrize("which, dtype", daily(("both", "bf16"), of=itertools.product(BY_COLUMNS, ["f32", "bf16"])))
def test_matrices_that_xla_stores_by_columns_by_four_judges(which, dtype):
    """Taken and returned as they lie: by the rest of the program too, if there is one."""
    x, y = pair(*BY_COLUMNS[which], DTYPES[dtype])
    found = {"x": x.shape, "y": y.shape, "the result": (x.shape[0], y.shape[1])}
    stored = {name for name, shape in found.items() if layouts.is_by_columns(shape)}
    assert ({"x", "y"} if which == "both" else {which}) <= stored
    accepted(functools.partial(matmul.matmul, blocks=SMALL), reference, x, y)


@needs_libtpu
@pytest.mark.parametrize("shape", [(640, 1920, 1080), (130, 4097, 515), (4096, 300, 104)], ids=str)
def test_no_matrix_is_copied_in_front_of_the_kernel_or_behind_it(shape):
    m, k, n = shape
    x, y = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((m, k), (k, n)))
    report = compiler.compile_tpu(matmul.matmul, x, y, simulate=False)
    assert [op.kind for op in report.ops] == ["kernel"], report


@pytest.mark.parametrize(
    "shape, by_columns",
    [((96, 200), False), ((104, 200), True), ((1000, 127), False), ((1000, 120), True), ((64, 64), False)]
    + [((4, 1000), False), ((1000, 1), True), ((768, 50257), True), ((3, 20, 200), False), ((1000,), False)],
)
def test_which_matrices_xla_stores_by_columns(shape, by_columns):
    """As its compiled programs have it."""
    assert layouts.is_by_columns(shape) == by_columns


@pytest.mark.parametrize("transposed", daily([False, True], of=[[False, True], [True, False], [True, True]]), ids=str)
def test_operands_stored_transposed_by_four_judges(transposed):
    def product(x, y):
        return matmul.matmul_transposed(x, y, transpose_x=transposed[0], transpose_y=transposed[1], blocks=SMALL)

    want = functools.partial(matmul.matmul_transposed_reference, transpose_x=transposed[0], transpose_y=transposed[1])
    accepted(product, want, *pair(130, 140, 90, jnp.bfloat16, transposed))


@needs_libtpu
@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)), ids=str)
def test_no_operand_is_turned_in_hbm(transposed):
    x, y = (jax.ShapeDtypeStruct((512, 512), jnp.bfloat16) for _ in range(2))
    product = functools.partial(matmul.matmul_transposed, transpose_x=transposed[0], transpose_y=transposed[1])
    report = compiler.compile_tpu(product, x, y, simulate=False)
    assert [op.kind for op in report.ops] == ["kernel"], report


def test_the_precision_asked_for_stands_in_the_kernel():
    """On a chip it makes the difference between three decimal digits and seven; the simulators do not show it."""
    x, y = pair(64, 300, 64)
    levels = []
    for precision in ("highest", "high", "default"):
        walk = grid.walk(functools.partial(matmul.matmul, precision=precision), x, y)
        (dot,) = [eqn for eqn in grid.equations(walk.calls[0].kernel) if eqn.primitive.name == "dot_general"]
        levels.append(dot.params["precision"][0])
    assert levels == [jax.lax.Precision.HIGHEST, jax.lax.Precision.HIGH, jax.lax.Precision.DEFAULT]


@needs_libtpu
def test_one_three_and_six_passes_stand_in_the_program():
    """By the rows that go through the MXU. How exact each is: docs/kernels.md, as products of bf16 numbers show."""
    x, rows = jax.ShapeDtypeStruct((256, 256), jnp.float32), {}
    whole = Blocks(bm=256, bk=256, bn=256)
    for level in ("default", "high", "highest"):
        report = compiler.compile_tpu(functools.partial(matmul.matmul, precision=level, blocks=whole), x, x)
        told = [line for bundle in report.listing for line in bundle.instructions if "vmatmul" in line]
        rows[level] = sum(16 if "bf16" in line else 8 for line in told)
    assert rows["high"] == 3 * rows["default"] and rows["highest"] == 6 * rows["default"] > 0


@needs_libtpu
def test_three_passes_compile_forwards_and_backwards_for_all_products():
    x, w, b = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((300, 700), (700, 260), (260,)))

    def step(x, w, b):
        y = linear.linear(x, w, b, activation="gelu", precision="high")
        return jnp.sum(y * matmul.matmul(x, w, precision="high"))

    report = compiler.compile_tpu(jax.grad(step, (0, 1, 2)), x, w, b, simulate=False)
    assert report.ok, report.error


def test_three_passes_by_split_operands_keep_five_digits():
    """What "high" is: each operand as two bf16 numbers, and three of their four products, summed in f32."""
    x, y = (v / 20 for v in pair(64, 1024, 64))
    want = np.asarray(x, np.float64) @ np.asarray(y, np.float64)

    def parts(a):
        high = a.astype(jnp.bfloat16)
        return high, (a - high.astype(jnp.float32)).astype(jnp.bfloat16)

    def error(*pairs):
        total = sum(jnp.dot(a, b, preferred_element_type=jnp.float32) for a, b in pairs)
        return np.abs(total - want).max() / np.abs(want).max()

    (xh, xl), (yh, yl) = parts(x), parts(y)
    assert 1e-3 < error((xh, yh)) < 5e-3
    assert 1e-6 < error((xh, yl), (xl, yh), (xh, yh)) < 1e-5
    for level in ("high", "highest"):  # here, on a CPU, both are f32
        found = matmul.matmul(x, y, precision=level)
        np.testing.assert_allclose(found, want, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)), ids=str)
def test_gradients(transposed):
    x, y = pair(9, 20, 7, jnp.float32, transposed)

    def loss(product):
        return jax.jit(jax.grad(lambda x, y: (product(x, y) ** 2).sum(), argnums=(0, 1)))

    got = loss(functools.partial(matmul.matmul_transposed, transpose_x=transposed[0], transpose_y=transposed[1]))(x, y)
    want = loss(lambda x, y: (x.T if transposed[0] else x) @ (y.T if transposed[1] else y))(x, y)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4)


def test_the_gradient_is_made_of_kernels():
    """One product forward, two backward."""
    x, y = pair(70, 130, 90)
    gradient = jax.value_and_grad(lambda x, y: matmul.matmul(x, y).sum(), argnums=(0, 1))
    assert [call.name for call in grid.walk(gradient, x, y).calls] == ["matmul"] * 3
    both = jax.grad(lambda x, y: matmul.matmul(x, y).sum(), argnums=(0, 1))
    accepted(both, jax.grad(lambda x, y: reference(x, y).sum(), argnums=(0, 1)), x, y)


def test_under_jit_and_vmap_on_a_cpu():
    x, y = pair(4, 30, 8)
    batch = jnp.stack([x, 2 * x])
    np.testing.assert_allclose(
        jax.jit(jax.vmap(matmul.matmul, (0, None)))(batch, y), jnp.stack([x @ y, 2 * x @ y]), rtol=1e-5
    )


@pytest.mark.sweep  # every day every op under vmap is its reference: test_kernels_contract.py
def test_under_vmap_by_four_judges():
    x, y = pair(20, 30, 9)
    accepted(jax.vmap(matmul.matmul, (0, None)), jax.vmap(reference, (0, None)), jnp.stack([x, 2 * x, -x]), y)


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (4, 3, 0)], ids=str)
def test_empty_arrays(shape):
    x, y = pair(*shape)
    np.testing.assert_array_equal(matmul.matmul(x, y), np.zeros((shape[0], shape[2])))


FORMS = {"pipeline": matmul_pipelined, "one block": matmul_one_block}


@pytest.mark.parametrize(
    "form, dtype",
    daily(("one block", "bf16"), of=itertools.product(FORMS, ["f32", "bf16"])),
)
def test_the_other_two_forms_by_four_judges(form, dtype):
    accepted(FORMS[form], reference, *pair(70, 130, 90, DTYPES[dtype]))


def test_the_pipeline_in_blocks_by_four_judges_and_its_gradient():
    x, y = pair(256, 384, 128, jnp.bfloat16)
    accepted(functools.partial(matmul_pipelined, blocks=SMALL), reference, x, y)

    def gradient(product):
        return jax.grad(lambda x, y: product(x, y).astype(jnp.float32).sum(), argnums=(0, 1))(x, y)

    got, want = gradient(matmul_pipelined), gradient(reference)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.astype(np.float32), w.astype(np.float32), rtol=0.02)


def test_every_form_moves_the_bytes_its_docstring_says():
    m, n, k, size = 384, 512, 640, 4
    x, y = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((m, k), (k, n)))
    out = m * n
    for blocks, elements in {
        Blocks(bm=128, bk=128, bn=128): m * k * (n // 128) + k * n * (m // 128),
        Blocks(bm=128, bk=640, bn=256): m * k + k * n * (m // 128),
        Blocks(bm=128, bk=640, bn=512): m * k + k * n,
    }.items():
        walk = grid.walk(functools.partial(matmul.matmul, blocks=blocks), x, y)
        assert cost.hbm_bytes(walk) == (elements + out) * size
        counted = matmul_blocks.vmem_bytes((blocks.bm, blocks.bk, blocks.bn), Problem(m=m, k=k, n=n, dtype=x.dtype))
        stays = blocks.bk == k and blocks.bn == n  # y has one buffer then; the choice of blocks counts two
        assert cost.vmem_bytes(walk) == counted - stays * k * n * size
    assert cost.hbm_bytes(grid.walk(matmul_one_block, x, y)) == (m * k + k * n + out) * size


@pytest.mark.parametrize(
    "shape, ours",
    [((777, 777, 777), (160, 777, 777)), ((640, 1920, 1080), (640, 1920, 384)), ((1024,) * 3, (512, 1024, 512))],
    ids=str,
)
def test_blocks_cut_ragged_sizes_into_equal_parts(shape, ours):
    """777 rows are five blocks of 160; 1080 columns, which are nine tiles, three blocks of 384."""
    problem = matmul_blocks.problem("matmul", *(jax.ShapeDtypeStruct(s, jnp.bfloat16) for s in (shape[:2], shape[1:])))
    assert matmul_blocks.chosen(None, problem) == ours
    assert matmul_blocks.candidates(problem)[0] == matmul_blocks.fastest(problem)


def test_rows_along_lanes_go_by_128():
    """x is stored by columns: its rows are the last axis of what the kernel sees."""
    x, y = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((1024, 100), (100, 1024)))
    assert layouts.is_by_columns(x.shape)
    assert matmul.blocks_for(x, y).bm % 128 == 0
    with pytest.raises(ValueError, match=r"bm=136.* is not legal for float32: .*bm of 128"):
        jax.eval_shape(functools.partial(matmul.matmul, blocks=Blocks(bm=136, bk=128, bn=128)), x, y)


SHAPES = [(1, 4096, 4096), (300, 700, 130), (4096, 4096, 4096), (100_000, 64, 64), (128, 100_000, 128), (16384,) * 3]


@pytest.mark.parametrize("chip", chips.NAMES)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_chosen_blocks_fit_every_chip(chip, dtype):
    with chips.chip(chip).target():
        for m, k, n in SHAPES:
            problem = Problem(m=m, k=k, n=n, dtype=jnp.dtype(dtype), passes=6 if dtype == jnp.float32 else 1)
            assert matmul_blocks.vmem_bytes(matmul_blocks.fastest(problem), problem) <= this_chip.vmem_bytes()


@needs_libtpu
@pytest.mark.parametrize(
    "chip, dtype",
    daily(("v4", "f32"), ("v6e", "bf16"), of=itertools.product(["v4", "v5e", "v5p", "v6e", "tpu7x"], ["f32", "bf16"])),
)
def test_chosen_blocks_compile_on_every_chip(chip, dtype):
    """Large enough that the default is not simply everything."""
    x, y = (jax.ShapeDtypeStruct(shape, DTYPES[dtype]) for shape in ((1500, 1300), (1300, 1100)))
    report = compiler.compile_tpu(matmul.matmul, x, y, chip=chip, simulate=False)
    assert report.ok, report


@needs_libtpu
def test_the_model_of_time_agrees_with_the_compiler():
    """Deterministic: predicted cycles of the compiler against seconds of the model, over blocks good and bad."""
    problem = Problem(m=512, k=1024, n=512, dtype=jnp.dtype(jnp.bfloat16))
    x, y = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((512, 1024), (1024, 512)))
    ratios = []
    for blocks in (Blocks(bm=512, bk=1024, bn=512), Blocks(bm=256, bk=1024, bn=256), Blocks(bm=256, bk=256, bn=512)):
        report = compiler.compile_tpu(functools.partial(matmul.matmul, blocks=blocks), x, y)
        ratios.append(matmul_blocks.seconds((blocks.bm, blocks.bk, blocks.bn), problem) / report.seconds)
    assert 0.8 < min(ratios) and max(ratios) < 1.5, ratios


@pytest.mark.parametrize(
    "change, says",
    [
        ({"x": jnp.zeros((3, 4, 5))}, "x has shape (3, 4, 5); it must have two axes"),
        ({"y": jnp.zeros((5, 2))}, "the reduction is 4 long in x, shape (3, 4), and 5 in y, shape (5, 2)"),
        ({"y": jnp.zeros((4, 2), jnp.bfloat16)}, "x is float32 and y bfloat16"),
        (
            {"x": jnp.zeros((3, 4), jnp.int32), "y": jnp.zeros((4, 2), jnp.int32)},
            "x is int32; it may be float32, bfloat16 or int8",
        ),
        ({"precision": "higher"}, "matmul: precision is 'higher'; it may be 'default' (one pass of the MXU), 'high'"),
    ],
)
def test_bad_input_gets_one_clear_error(change, says):
    arguments = {"x": jnp.zeros((3, 4)), "y": jnp.zeros((4, 2))} | change
    with pytest.raises(ValueError) as error:
        matmul.matmul(arguments.pop("x"), arguments.pop("y"), **arguments)
    assert says in str(error.value)


def test_blocks_that_no_vmem_holds_are_refused_with_the_sizes():
    x = jax.ShapeDtypeStruct((8192, 8192), jnp.float32)
    with pytest.raises(ValueError, match=r"needs 1280.0 MiB of VMEM, and the chip has 128.0 MiB. Try smaller ones"):
        jax.eval_shape(functools.partial(matmul.matmul, blocks=Blocks(bm=8192, bk=4096, bn=8192)), x, x)


def test_arrays_that_do_not_fit_one_block_are_refused():
    x = jax.ShapeDtypeStruct((8192, 8192), jnp.float32)
    with pytest.raises(ValueError, match="768.0 MiB, and the chip has 128 MiB of VMEM. Try matmul.matmul"):
        jax.eval_shape(matmul_one_block, x, x)


def test_a_pipeline_refuses_blocks_that_do_not_divide():
    with pytest.raises(ValueError, match=r"does not divide \(M, K, N\) = \(200, 300, 140\)"):
        matmul_pipelined(*pair(200, 300, 140), blocks=SMALL)
