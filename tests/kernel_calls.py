"""Every op of every family, and its arguments: in Python, of a matrix X, a weight W and a bias B, all f32."""

CALLS = {
    "activations": {"relu": "X", "gelu": "X", "gelu_tanh": "X", "silu": "X"},
    "attention": {"flash_attention": "X, 2 * X, X"},
    "block_sparse": {
        "dsd": "X[None], from_mask([[False], [True]]), W",
        "sdd": "X, W, from_mask([[True]])",
    },
    "elementwise": {"add": "X, X", "subtract": "X, X", "multiply": "X, X", "cast": "X, jnp.bfloat16"},
    "grouped": {"grouped_matmul": "X, jnp.stack([W, -W]), jnp.array([X.shape[0] // 3, 3], jnp.int32)"},
    "grouped_swiglu": {
        "grouped_swiglu": "X, jnp.stack([W, -W]), jnp.stack([-W, W]) / 2, jnp.array([X.shape[0] // 3, 3], jnp.int32)"
    },
    "linear": {"linear": "X, W, B, activation='gelu'"},
    "linear_int8": {"linear_int8": "X, *quantize(W), B, activation='silu'"},
    "matmul": {"matmul": "X, W", "matmul_transposed": "X, W.T, transpose_y=True"},
    "matmul_one_block": {"matmul_one_block": "X, W"},
    "matmul_pipeline": {"matmul_pipelined": "X, W"},
    "norm": {"rms_norm": "X, X[0]", "layer_norm": "X, X[0], X[1]", "rms_norm_residual": "X, 2 * X, X[0]"},
    "paged_attention": {
        "paged_attention": "X[:,None], jnp.stack([jnp.tile(W.T[:16], 2)] * 3)[:, None], "
        "jnp.full(X.shape[0], 9, jnp.int32), jnp.ones((X.shape[0], 2), jnp.int32)"
    },
    "reduce": {"sum_over": "X, 0", "max_over": "X"},
    "scale_add": {"scale_add": "jnp.float32(2), X, X"},
    "scan": {"cumsum": "X"},
    "softmax": {"softmax": "X"},
}
