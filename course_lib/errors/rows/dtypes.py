"""Dtypes that a TPU, or one of its units, does not have."""

from course_lib.errors.row import Row

ROWS = (
    Row(
        "product-dtype",
        r"Expected matmul acc to be 32-bit.*?: \(vector<(?:\d+x)+(?P<dtype>\w+)>[^\n]* -> "
        r"vector<(?:\d+x)+(?P<product>\w+)>",
        "The kernel multiplies {dtype} matrices and asks for a result in {product}{where}. The matrix unit "
        "accumulates in 32 bits.",
        "ask for 32 bits: jnp.dot(x, y, preferred_element_type=jnp.float32), jnp.int32 for integers. Cast after the "
        "whole reduction.",
        "07",
    ),
    Row(
        "factor-dtype",
        r"Bad lhs/rhs type: 'vector<(?:\d+x)+(?P<dtype>\w+)>'",
        "The kernel multiplies matrices of {dtype}{where}, which the matrix unit does not support.",
        "use bf16, f32 or, for integers, int8 with preferred_element_type=jnp.int32.",
        "07",
    ),
    Row(
        "small-integers",
        r"Only vector<i16> and vector<i32> are supported, but got 'i(?P<bits>\d+)'",
        "The kernel does arithmetic on {bits}-bit integers{where}. The vector unit of this chip supports 16 and 32 "
        "bits.",
        "compute in int32, x_ref[...].astype(jnp.int32), and cast back when you write.",
        "06",
    ),
    Row(
        "float16",
        r"Invalid vector type for load.*?xf16",
        "The kernel reads float16 values{where}, but the TPU's vector unit does not support that type.",
        "use bfloat16, the TPU's own 16-bit type, or float32; cast before pallas_call.",
        "06",
    ),
    Row(
        "64-bit",
        r"While rewriting computation to not contain X\{64\|128\} element types|64-bit types are not supported",
        "The kernel uses 64-bit values. A TPU kernel supports at most 32 bits.",
        "turn jax_enable_x64 off, or cast to float32 or int32 before pallas_call.",
        "06",
    ),
    Row(
        "64-bit-index-map",
        r"failed to legalize operation 'func\.return'.*?\([^()\n]*\bi64\b[^()\n]*\) -> \(\)",
        "jax_enable_x64 is on: it turned the Python integers that an index map returns into 64-bit integers, which "
        "the compiler does not support.",
        'turn it off, jax.config.update("jax_enable_x64", False), at least around this call.',
        "06",
    ),
    Row(
        "complex",
        r"failed to verify 'elementType': VectorElementTypeInterface",
        "The kernel uses values of a type that TPU registers cannot hold{where}, such as complex numbers.",
        "keep the real and the imaginary parts in two float arrays.",
        "06",
    ),
    Row(
        "float-count",
        r"'tpu\.iota' op result #0 must be vector of integer",
        "The kernel counts 0, 1, 2, ... in floats{where}: jnp.arange with a float dtype, or jnp.linspace. The TPU "
        "counts in integers.",
        "write jnp.arange(n).astype(jnp.float32).",
        "06",
    ),
)
