"""Failures of operations, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from provoke import INDICES, SMEM, Shape, X, add, call, compiled, computing, matmul, of_two, prefetching

from course_lib import errors


def kernel_fetches_rows(indices_ref, x_ref, o_ref):
    def body(row, carry):
        o_ref[pl.ds(row, 1)] = x_ref[pl.ds(indices_ref[row], 1)]

    jax.lax.fori_loop(0, 32, body, None)


def kernel_chooses_rows(indices_ref, x_ref, o_ref):
    rows = jax.lax.broadcasted_iota(jnp.int32, (32, 256), 1)
    o_ref[...] = (indices_ref[...] == rows).astype(jnp.float32) @ x_ref[...]


def kernel_slices_and_writes_at_a_value(x_ref, o_ref):
    start = pl.multiple_of(x_ref[0, 0].astype(jnp.int32), 8)
    o_ref[pl.ds(start, 8)] = x_ref[pl.ds(start, 8)]


def multiplied(dtype=jnp.float32, out=jnp.float32, **how):
    """What the compiler says to a product of two matrices."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=out, **how)

    x, y = Shape((128, 256), dtype), Shape((256, 128), dtype)
    return compiled(of_two(kernel, Shape((128, 128), out)), x, y)


def taking_by_default(precision):
    def kernel(x_ref, y_ref, o_ref):
        with jax.default_matmul_precision(precision):
            o_ref[...] = jnp.dot(x_ref[...], y_ref[...])

    square = Shape((128, 128), jnp.float32)
    return compiled(of_two(kernel, square), square, square)


def sums_up_rows(indices_ref, x_ref, o_ref):
    rows = jax.lax.broadcasted_iota(jnp.int32, (8, 256), 0)
    o_ref[...] = (indices_ref[...] == rows).astype(jnp.float32) @ x_ref[...]


PRESETS = jax.lax.DotAlgorithmPreset
ONE_PRECISION = "asks for a precision that a TPU kernel does not support"
ALGORITHM = jax.lax.DotAlgorithm(jnp.float32, jnp.float32, jnp.float32, 1, 1, 1, False)
FAILURES = {
    "reshape-size": (
        compiled(call(computing(lambda x: x.reshape(64, 128)))),
        "An array of (256, 512), with 131,072 elements, cannot be reshaped to (64, 128), which has 8,192.",
    ),
    "contraction": (
        compiled(of_two(matmul), X, X),
        "The shapes of a matmul do not fit: the contracted axes have 512 elements on the left and 256 on the right.",
    ),
    "precision": (multiplied(precision=PRESETS.BF16_BF16_F32_X3), f"{ONE_PRECISION} (line "),
    "precision, another": (multiplied(precision=PRESETS.F32_F32_F32), "a jax.lax.DotAlgorithmPreset, or its name."),
    "precision, by its name": (multiplied(precision="TF32_TF32_F32"), "a jax.lax.DotAlgorithmPreset, or its name."),
    "precision, by default": (taking_by_default("BF16_BF16_F32_X3"), "a jax.lax.DotAlgorithmPreset, or its name."),
    "precision, one for each side": (multiplied(precision=("high", "default")), "does not support (line "),
    "precision, an algorithm": (multiplied(precision=ALGORITHM), "a jax.lax.DotAlgorithm."),
    "precision-of-narrow": (
        multiplied(jnp.bfloat16, precision="highest"),
        'The kernel multiplies bf16 matrices with precision="high" or "highest" (`dot_general` in kernel, line ',
    ),
    "precision-of-narrow, high": (multiplied(jnp.bfloat16, precision="high"), "multiplies bf16 matrices with"),
    "precision-of-narrow, integers": (
        multiplied(jnp.int8, jnp.int32, precision="highest"),
        "multiplies i8 matrices with",
    ),
    "broadcast": (
        compiled(of_two(add), X, Shape((256, 256), jnp.float32)),
        "Arrays of shapes (256, 512), (256, 256) are used in one operation, but they cannot be broadcast together.",
    ),
    "broadcast, of a row": (
        compiled(of_two(add), X, Shape((256,), jnp.float32)),
        "Arrays of shapes (256, 512), (256,) are used in one operation, but they cannot be broadcast together.",
    ),
    "gather": (compiled(call(computing(lambda x: x[jnp.arange(256) // 2]))), "picks elements by an array of indices"),
    "gather, from a ref": (
        compiled(call(lambda x, o: o.__setitem__(..., x[jnp.arange(256)]))),
        "picks elements by an array of indices",
    ),
    "strided": (
        compiled(call(lambda x, o: o.__setitem__(slice(0, 128), x[::2]))),
        "The kernel takes a strided slice, such as x[::2] (`get` in <lambda>, line ",
    ),
    "strided, of a value": (
        compiled(call(lambda x, o: o.__setitem__((slice(None), slice(0, 256)), x[...][:, ::2]))),
        "The kernel takes a strided slice, such as x[::2] (`slice` in <lambda>, line ",
    ),
    "compiler-refused": (
        compiled(call(computing(lambda x: x + x)), Shape((256, 512), jnp.float8_e4m3fn)),
        "The TPU's compiler cannot translate this kernel (`add` in <lambda>, line ",
    ),
    "empty": (
        compiled(call(computing(lambda x: jax.lax.associative_scan(jnp.add, x)))),
        "A value in the kernel has no elements (`slice` in <lambda>, line ",
    ),
    "unimplemented, with a cure of its own": (
        compiled(call(computing(lambda x: jnp.cumsum(x, axis=0)))),
        "does not support `cumsum` inside",
    ),
    "unimplemented, within a jnp function": (
        compiled(call(computing(jnp.sort))),
        "does not support `sort` inside a kernel (line ",
    ),
    "unimplemented, backwards": (
        compiled(call(computing(lambda x: x[::-1]))),
        "does not support `rev` inside a kernel (line ",
    ),
    "unimplemented, a slice of a value": (
        compiled(call(computing(lambda x: jax.lax.dynamic_slice(x, (pl.program_id(0), 0), x.shape)), grid=(1,))),
        "does not support `dynamic_slice` inside a kernel (line ",
    ),
    "unimplemented, indices that repeat": (
        compiled(call(computing(lambda x: x.at[jnp.arange(256) // 2].add(1.0)))),
        "does not support `scatter-add` inside a kernel (line ",
    ),
}
CURES = {
    "broadcast": compiled(call(computing(lambda x: x / x.sum(axis=1, keepdims=True) + x[:, 0][:, None]))),
    "cumsum": compiled(call(computing(lambda x: jnp.tril(jnp.ones((256, 256))) @ x))),
    "dynamic_slice": compiled(call(kernel_slices_and_writes_at_a_value)),
    "erfc": compiled(call(computing(lambda x: jax.nn.gelu(x, approximate=True) + jax.scipy.special.erf(x)))),
    "gather, by rows": compiled(
        of_two(kernel_fetches_rows, Shape((32, 512), jnp.float32), in_specs=[SMEM, pl.BlockSpec()]), INDICES, X
    ),
    "gather, by a product": compiled(
        of_two(kernel_chooses_rows, Shape((32, 512), jnp.float32)), Shape((32, 1), jnp.int32), X
    ),
    "gather, by scalar prefetch": compiled(prefetching(lambda i, indices_ref: (indices_ref[i], 0)), INDICES, X),
    "reduce_prod": compiled(
        call(computing(lambda x: x + jnp.exp(jnp.sum(jnp.log(x), axis=1, keepdims=True)))),
    ),
    "scatter": compiled(
        call(computing(lambda x: jnp.where(jax.lax.broadcasted_iota(jnp.int32, x.shape, 0) == 3, 0.0, x)))
    ),
    "scatter-add": compiled(of_two(sums_up_rows, Shape((8, 512), jnp.float32)), Shape((1, 256), jnp.int32), X),
    "precision, in words": multiplied(precision="high"),
    "precision, the highest": multiplied(precision="highest"),
    "precision, the same on both sides": multiplied(precision=("highest", "highest")),
    "precision, by default": taking_by_default("highest"),
    "precision-of-narrow": multiplied(jnp.bfloat16),
    "precision-of-narrow, integers": multiplied(jnp.int8, jnp.int32),
    "compiler-refused": compiled(
        call(computing(lambda x: (2 * x.astype(jnp.float32)).astype(x.dtype))), Shape((256, 512), jnp.float8_e4m3fn)
    ),
    "strided": compiled(
        call(lambda x, o: o.__setitem__(slice(0, 128), x[...].reshape(128, 2, 512)[:, 0])),
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize("cure", CURES)
def test_a_cure_compiles(cure):
    provoke.assert_compiles(CURES[cure])


def test_an_operation_the_tpu_lacks_gets_a_cure_of_its_own():
    assert "triangular matrix" in FAILURES["unimplemented, with a cure of its own"][0]().next


def test_a_program_that_breaks_a_rule_of_the_compiler():
    text = (
        'MLIRError: Verification failed:\nerror: "mul:"("mul/mul"(callsite("kernel"("cell.py":3:4 to :9)))): bad\n'
        "VerificationError: Pallas encountered an internal verification error. Please file a bug at https://a.b. Error "
        "details: 'arith.mulf' op requires the same type for all operands\n see current operation: %7"
    )
    assert errors.explain(text).what == (
        "The TPU's compiler cannot translate this kernel (`mul` in kernel, line 3): 'arith.mulf' op requires the same "
        "type for all operands."
    )


@pytest.mark.parametrize(
    ("types", "says", "not_says"),
    [
        ("(vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>", (), ("32 bits", "multiples", "float32")),
        ("(vector<16x100xf32>) -> vector<16x100xf32>", ("multiples of (8, 128)",), ("32 bits",)),
        ("(vector<5x128xi32>) -> vector<5x128xi32>", ("multiples of (8, 128)",), ("32 bits",)),
        ("(vector<16x128xbf16>) -> vector<16x128xbf16>", ("cast to 32 bits",), ("multiples",)),
        ("(vector<256xf32>) -> vector<256xf32>", (), ("32 bits", "multiples")),
        ("", (), ("32 bits", "multiples")),
    ],
)
def test_the_last_advice_names_nothing_that_holds_already(types, says, not_says):
    operation = f'The MLIR operation involved:\n  %3 = "tpu.unheard_of"(%2) : {types}\n' if types else ""
    text = f"Mosaic failed to compile TPU kernel with HLO name `run.1`: it has no such thing.\n\n{operation}"
    told = errors.explain(text)
    assert told.name == "compiler-refused" and told.what.endswith("cannot translate this kernel: it has no such thing.")
    assert all(word in told.next for word in says) and not any(word in told.next for word in not_says), told.next


def test_a_subscript_that_the_kernel_itself_gets_wrong_is_not_a_precision():
    told = compiled(call(computing(lambda x, none=None: x * none[0])))()
    assert told.name == "" and "'NoneType' object is not subscriptable" in told.what
