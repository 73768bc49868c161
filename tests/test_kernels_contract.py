"""What every op promises alike: what it takes, on which platform, behind which of JAX's functions."""

import inspect

import jax
import jax.numpy as jnp
import kernel_calls
import numpy as np
import pytest
from conftest import needs_libtpu
from kernel_calls import FLOATS, NAMES, OPS
from sweeps import daily

from course_lib import chips, compiler, grid
from course_lib.grid import jaxprs
from course_lib.kernels import block_sparse, elementwise, linear, linear_int8, matmul, norm, reduce, scale_add, softmax
from course_lib.kernels.dispatch import launch

CASES = [(name, dtype, rank) for name, op in OPS.items() for dtype in op.dtypes for rank in op.ranks]
SHAPES = {0: (), 1: (200,), 2: (12, 200), 3: (2, 6, 200)}
EMPTY = [
    (name, shape)
    for name, op in OPS.items()
    for shape in [(0,), (0, 200), (12, 0), (0, 6, 200), (2, 0, 200), (2, 6, 0)]
    if len(shape) in op.ranks
]


def functions(name):
    """The op and its reference, each a function of the first array."""
    family, op = name.split()[0].split(".")
    module = vars(kernel_calls.module(family))

    def calling(function):
        def of(x):
            k = jnp.shape(x)[-1] if jnp.ndim(x) else 1
            dtype = x.dtype if hasattr(x, "dtype") and x.dtype in FLOATS else jnp.float32
            w = jnp.cos(jnp.arange(k * 130.0)).reshape(k, 130).astype(dtype) / 4
            call = OPS[name].call if function is module[op] else OPS[name].call.replace(", precision='high'", "")
            return eval(f"f({call})", kernel_calls.names(family, x, w) | {"f": function})

        return of

    return calling(module[op]), calling(module.get(f"{op}_reference") or module["reference"])


def squares(fn):
    return lambda x: sum(jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in jax.tree.leaves(fn(x)))


def transformed(fn, name, dtype):
    """Functions of an array that has two axes more than the op wants: by what JAX makes of the op."""
    found = {
        "itself": lambda x: fn(x[0, 0]),
        "vmap": lambda x: jax.vmap(fn, out_axes=-1)(x[0]),
        "vmap of vmap": lambda x: jax.vmap(jax.vmap(fn), 1)(x),
    }
    if dtype in FLOATS and name != "matmul_one_block.matmul_one_block":
        found |= {
            "grad": lambda x: jax.grad(squares(fn))(x[0, 0]),
            "vmap of grad": lambda x: jax.vmap(jax.grad(squares(fn)))(x[0]),
        }
    return lambda x: {what: make(x) for what, make in found.items()}


def array(name, dtype, rank):
    return jnp.asarray(
        np.random.default_rng(0).integers(-40, 40, (2, 3, *SHAPES[rank])) / (16, 1)[dtype == "int32"], dtype
    )


def kernels_in(fn, *args, chip="v5e") -> int:
    with chips.chip(chip).target():
        return jax.jit(fn).trace(*args).lower(lowering_platforms=("tpu",)).as_text().count("tpu_custom_call")


@pytest.mark.parametrize(
    "name, dtype, rank",
    daily(
        *[(name, "bfloat16", 1) for name in NAMES if 1 in OPS[name].ranks],
        *[(name, "float32", 2) for name in NAMES if 1 not in OPS[name].ranks],
        of=CASES,
        one_in=6,
    ),
)
def test_on_a_cpu_it_is_the_reference_and_for_a_tpu_a_kernel(name, dtype, rank):
    ours, theirs = (transformed(fn, name, dtype) for fn in functions(name))
    x = array(name, dtype, rank)
    got, want = jax.jit(lambda x: (ours(x), theirs(x)))(x)  # one program takes XLA less than two
    for found, wanted in zip(*map(jax.tree.leaves, (got, want)), strict=True):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        found, wanted = np.float32(found), np.float32(wanted)
        near = (1e-4, 3e-2)[dtype == "bfloat16"]
        np.testing.assert_allclose(found, wanted, rtol=near, atol=near * max(1e-3, np.abs(wanted).max()))
    assert kernels_in(ours, x) >= len(got)


@pytest.mark.parametrize("name", daily(*NAMES, of=OPS))
def test_a_rule_tells_the_results_that_plain_jax_has(name):
    """Their shapes and dtypes are not found by tracing plain JAX, and are the same."""
    for dtype in OPS[name].dtypes:
        fn = transformed(functions(name)[0], name, dtype)
        jaxpr = jax.make_jaxpr(fn)(array(name, dtype, OPS[name].ranks[-1]))
        launches = [eqn for eqn in jaxprs.equations(jaxpr) if eqn.primitive is launch.PRIMITIVE]
        assert len(launches) >= 3
        for eqn in launches:
            traced = jax.make_jaxpr(eqn.params["op"].run_plain)(*(operand.aval for operand in eqn.invars))
            assert [result.aval for result in eqn.outvars] == traced.out_avals, eqn.params["op"].name


@needs_libtpu
@pytest.mark.parametrize(
    "name, dtype, rank",
    daily(
        ("elementwise.add", "bfloat16", 1),
        ("scale_add.scale_add", "bfloat16", 1),
        ("reduce.sum_over", "bfloat16", 1),
        ("matmul_pipeline.matmul_pipelined", "float32", 2),
        ("grouped_swiglu.grouped_swiglu", "bfloat16", 2),  # of 12 rows, which no tile of registers divides
        of=CASES,
        one_in=6,
    ),
)
def test_it_compiles(name, dtype, rank):
    report = compiler.compile_tpu(
        transformed(functions(name)[0], name, dtype), array(name, dtype, rank), simulate=False
    )
    assert report.ok, report.error


@needs_libtpu
@pytest.mark.parametrize("chip", ["v4", "v5p", "v6e"])
@pytest.mark.parametrize("name, dtype, rank", daily(("activations.gelu", "bfloat16", 1), of=CASES, one_in=8))
def test_it_compiles_for_other_chips(name, dtype, rank, chip):
    fn, x = functions(name)[0], array(name, dtype, rank)
    report = compiler.compile_tpu(jax.vmap(fn), x[0], chip=chip, simulate=False)
    assert report.ok, report.error


@needs_libtpu
@pytest.mark.parametrize("name", daily("activations.relu", "norm.rms_norm", of=OPS))
def test_it_compiles_in_a_program_of_64_bits(name):
    """Where a plain number in a kernel or an index map would be one of 64 bits, which the compiler does not take."""
    fn, x = functions(name)[0], jnp.ones(SHAPES[OPS[name].ranks[-1]])
    gradient = fn if name == "matmul_one_block.matmul_one_block" else jax.grad(squares(fn))
    with jax.enable_x64(True):
        report = compiler.compile_tpu(lambda x: (fn(x), gradient(x)), x, simulate=False)
        assert jax.jit(lambda x: jax.tree.leaves(fn(x))[0])(x).dtype.itemsize <= 4
    assert report.ok, report.error


MANY = ["elementwise.add", "scale_add.scale_add", "softmax.softmax", "softmax.softmax down", "norm.rms_norm_residual"]


@pytest.mark.parametrize("name", [*MANY, "linear.linear", "linear_int8.linear_int8"])
def test_mapped_rows_are_the_rows_of_one_array(name):
    """So a function of one example, mapped, takes no longer than the same of a batch: the blocks are the same."""
    fn, rank = functions(name)[0], OPS[name].ranks[-1]
    x = jnp.ones((3, *SHAPES[rank]))
    fns = [jax.vmap(fn), fn] if name != "softmax.softmax down" else [jax.vmap(fn), lambda x: softmax.softmax(x, 1)]
    grids = []
    for each in fns:
        walk = grid.walk(each, x)
        grids.append((walk.calls[0].grid, [operand.block_shape for operand in walk.calls[0].operands]))
    assert grids[0] == grids[1]


@pytest.mark.parametrize("in_axes", [(0, None), (None, 1)])
def test_one_of_two_vectors_is_mapped(in_axes):
    """The other is repeated; the scalar beside them is mapped or not, and so is its gradient."""
    args = jnp.ones((20, 200), jnp.bfloat16), jnp.arange(200.0, dtype=jnp.bfloat16)
    args = args if in_axes[1] is None else (args[1], args[0].T)

    def mapped(x, y):
        return jax.vmap(lambda x, y: scale_add.scale_add(y[7], x, y), in_axes)(x, y)

    wide = [
        jnp.broadcast_to(a if axis is None else jnp.moveaxis(a, axis, 0), (20, 200))
        for a, axis in zip(args, in_axes, strict=True)
    ]
    np.testing.assert_array_equal(mapped(*args), wide[1][:, 7:8] * wide[0] + wide[1])
    gradient = jax.grad(lambda x, y: mapped(x, y).astype(jnp.float32).sum(), argnums=(0, 1))
    assert kernels_in(lambda *args: (mapped(*args), gradient(*args)), *args) >= 2


@pytest.mark.parametrize(
    "name, shape",
    daily(
        *[(name, shape) for name, shape in EMPTY if shape == (2, 0, 200) or "matmul" in name],
        ("norm.layer_norm", (12, 0)),
        ("reduce.sum_over", (12, 0)),
        ("reduce.max_over", (12, 0)),
        of=EMPTY,
    ),
)
def test_of_nothing_it_makes_what_jax_makes(name, shape):
    op, reference = functions(name)
    x = jnp.zeros(shape)
    if "max_over" in name and (not shape[-1] or "all" in name):
        with pytest.raises(ValueError, match="max_over: x has shape .* nothing has no maximum"):
            op(x)
        return

    def all_of(fn):
        gradient = [] if name == "matmul_one_block.matmul_one_block" else [jax.grad(squares(fn))]
        return lambda x: [*(f(x) for f in (fn, *gradient)), jax.vmap(fn)(x[None][:0])]

    jax.tree.map(np.testing.assert_array_equal, jax.jit(all_of(op))(x), jax.jit(all_of(reference))(x))
    assert kernels_in(all_of(op), x) == 0, "a block of nothing is no block"


@pytest.mark.parametrize("m, k, n", [(0, 4, 3), (4, 0, 3), (4, 3, 0)])
@pytest.mark.parametrize("op", ["matmul", "linear"])
def test_products_with_an_empty_side_are_zero(op, m, k, n):
    fn = {"matmul": matmul.matmul, "linear": linear.linear}[op]
    x, y = jnp.ones((m, k)), jnp.ones((k, n))
    np.testing.assert_array_equal(fn(x, y), x @ y)
    both = jax.grad(lambda x, y: fn(x, y).sum(), argnums=(0, 1))
    assert [g.shape for g in both(x, y)] == [x.shape, y.shape]
    assert kernels_in(both, x, y) == 0


NO_ARRAYS = {"a list": [1.0], "None": None, "a number": 2.0, "text": "x", "text in NumPy": np.array(["x"])}
NO_ARRAYS["a description"] = jax.ShapeDtypeStruct((2,), jnp.float32)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_array_is_refused_by_name(name):
    for what, value in NO_ARRAYS.items():
        family, op = name.split()[0].split(".")
        fn = getattr(kernel_calls.module(family), op)
        arrays = [
            p
            for p in inspect.signature(fn).parameters.values()
            if "Array" in str(p.annotation) and p.name not in ("eps", "segments", "scales")
        ]
        int8 = {"q"} if op == "linear_int8" else set()
        kinds = dict.fromkeys(int8, jnp.int8) | dict.fromkeys(("lengths", "table"), jnp.int32)
        given = {p.name: jnp.ones((2, 2), kinds.get(p.name, jnp.float32)) for p in arrays}
        more = {"dtype": jnp.bfloat16} if op == "cast" else {}
        if family == "block_sparse":
            more["pattern"] = block_sparse.from_mask([[True]])
        for wrong in given:
            if (wrong, value) in (("a", 2.0), ("b", None), ("bias", None)):
                continue
            with pytest.raises(TypeError, match=f"^{op}: {wrong} is "):
                fn(**{**given, wrong: value}, **more)
            assert what


@pytest.mark.parametrize("name", NAMES)
def test_other_dtypes_are_refused_by_name(name):
    """Here as on a TPU, whose compiler has no f16 and no arithmetic on bytes; f64 where JAX has been given it."""
    fn, op = functions(name)[0], name.split()[0].split(".")[1]
    for dtype in ("float16", "uint8", "complex64", "bool", "uint32", "float8_e4m3fn"):
        with pytest.raises(
            ValueError, match=rf"^{op}: ([xyqa]|values) is {dtype}; it may be .*\. Try \1\.(astype|real)"
        ):
            fn(jnp.ones(SHAPES[2], dtype))
    with jax.enable_x64(True), pytest.raises(ValueError, match=f"^{op}: ([xqa]|values) is float64; it may be float32"):
        fn(jnp.ones(SHAPES[2], "float64"))


@pytest.mark.parametrize("name", NAMES)
def test_arrays_of_numpy_are_arrays(name):
    fn = functions(name)[0]
    x = np.ones(SHAPES[2])  # float64, which JAX makes float32
    jax.tree.map(np.testing.assert_array_equal, fn(x), fn(jnp.asarray(x)))


def test_a_scalar_beside_integers_is_one():
    x = jnp.arange(5)
    with pytest.raises(ValueError, match=r"scale_add: a is float32, and x and y are int32, .* Try x.astype"):
        scale_add.scale_add(2.7, x, x)
    np.testing.assert_array_equal(scale_add.scale_add(2, x, x), 3 * x)
    with pytest.raises(TypeError, match="scale_add: a is 'two'; it must be an array"):
        scale_add.scale_add("two", x, x)


def test_an_axis_is_no_bool():
    with pytest.raises(ValueError, match="sum_over: axis is True and x has shape"):
        reduce.sum_over(jnp.ones((2, 3)), True)


def test_f16_is_refused_where_it_is_not_the_first_array():
    half = jnp.ones(4, jnp.float16)
    with pytest.raises(
        ValueError, match=r"rms_norm: weight is float16; .* Try weight.astype\(jnp.bfloat16\), or jnp.float32"
    ):
        norm.rms_norm(jnp.ones((2, 4)), half)
    with pytest.raises(ValueError, match="quantize: w is float16"):
        linear_int8.quantize(half[None])


def test_products_of_int8_on_a_v4_are_plain_jax():
    """Its MXU has none; nor does it write parts of a register of int8, as the end of a vector is."""
    x = jnp.ones((128, 128), jnp.int8)
    with pytest.warns(
        UserWarning, match="matmul: plain JAX instead of the kernel, which needs a TPU v5, and this is a v4"
    ):
        assert kernels_in(matmul.matmul, x, x, chip="v4") == 0
    assert kernels_in(matmul.matmul, x, x, chip="v5p") == 1

    def to_int8(x):
        return elementwise.cast(x, jnp.int8)

    with pytest.warns(UserWarning, match="cast: plain JAX instead of the kernel"):
        assert kernels_in(to_int8, jnp.ones(300), chip="v4") == 0
    assert kernels_in(to_int8, jnp.ones((3, 300)), chip="v4") == 1
    assert kernels_in(lambda x: elementwise.cast(x, jnp.float32), to_int8(jnp.ones(300)), chip="v4") == 1
