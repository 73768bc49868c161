# %% [markdown]
# # Exercises 10: Backward kernels
#
# You build a layer that trains, in four steps: two gradients in blocks, the custom_vjp that ties them to the forward
# kernel, and the class. Then come one set of values to predict, one repair and one choice. Nothing here needs a TPU.
#
# Come here from [lesson 10](../notebooks/10_backward_kernels.ipynb). About 72 minutes. Short of time? Do 10.2, 10.4 and
# 10.5. Want more? 10.3, 10.9 and 10.10, 72 minutes, are marked *Further*, and the last two begin with an empty cell.
#
# In all exercises on the dense layer, x is [M, K], w is [K, N] and b is [N], and both y = relu(x @ w + b) and
# its cotangent g are [M, N]. As in the lesson, dz is the cotangent of x @ w + b: it is g where y > 0, and 0
# elsewhere. K and N are multiples of 128, while M, the batch size, can be anything.

# %%
# FIRST CELL

# %%
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import jax.numpy as jnp
import keras
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

SIDE = 128  # the rows, the columns and the depth of a block


def product(a, b, axis_of_a, axis_of_b):
    """Return the sum of a * b over one axis of each, in float32: lesson 7's matmul, for operands stored transposed."""
    dimensions = (((axis_of_a,), (axis_of_b,)), ((), ()))
    precision = "highest" if a.dtype == jnp.float32 else None
    return jax.lax.dot_general(
        a, b, dimensions, precision=precision, preferred_element_type=jnp.float32
    )


# %% [markdown]
# ## 10.1 dx in blocks
#
# *Difficulty 2 of 5. 10 minutes, 9 lines.*
#
# `grad_x(w, y, g)` returns the cotangent of x, which is dz @ w.T. The call is given, and its grid is (i, k,
# j): i and k choose the block of dx, and j runs over the columns of g, which are the axis of the sum. Write
# the kernel, which computes dz from g and y, accumulates in `acc_ref`, and rounds only once, when the block
# is done. `product(a, b, 1, 1)` is a @ b.T.


# %% answer="10.1"
def dx_kernel(g_ref, y_ref, w_ref, dx_ref, acc_ref):
    """Write dx block (i, k): the sum over j of dz block (i, j) @ w block (k, j) transposed."""
    ### BEGIN SOLUTION
    j = pl.program_id(2)

    @pl.when(j == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    dz = jnp.where(y_ref[...] > 0, g_ref[...], 0).astype(w_ref.dtype)
    acc_ref[...] += product(dz, w_ref[...], 1, 1)

    @pl.when(j == pl.num_programs(2) - 1)
    def store():
        dx_ref[...] = acc_ref[...].astype(dx_ref.dtype)

    ### END SOLUTION


# %% given="10.1"
def grad_x(w, y, g):
    (m, n), k = g.shape, w.shape[0]
    bm = min(SIDE, m)
    of_y = pl.BlockSpec((bm, SIDE), lambda i, k, j: (i, j))
    return pl.pallas_call(
        dx_kernel,
        out_shape=jax.ShapeDtypeStruct((m, k), w.dtype),
        grid=(pl.cdiv(m, bm), k // SIDE, n // SIDE),
        in_specs=[of_y, of_y, pl.BlockSpec((SIDE, SIDE), lambda i, k, j: (k, j))],
        out_specs=pl.BlockSpec((bm, SIDE), lambda i, k, j: (i, k)),
        scratch_shapes=[pltpu.VMEM((bm, SIDE), jnp.float32)],
    )(g, y, w)


# %% check="10.1"
checks.check("10.1", grad_x)

# %%
# checks.hint("10.1")

# %% [markdown]
# ## 10.2 dw: a sum over the batch
#
# *Difficulty 3 of 5. 15 minutes, 30 lines. Fast track.*
#
# `grad_w(x, y, g)` returns x.T @ dz. Write both the kernel and the call, with a grid of three axes and blocks of at
# most 128 x 128. The kernel may use 640 KiB of VMEM. Over which axis is the sum, and where in the grid does that axis
# go? `product(a, b, 0, 0)` is a.T @ b. The check uses M = 300 and M = 640, and x may be bfloat16, but the sums are kept
# in float32 all the same.


# %% answer="10.2"
def grad_w(x, y, g):
    """Return dw[K, N] = x.T @ dz, in the dtype of x."""
    ### BEGIN SOLUTION
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref, acc_ref):
        i = pl.program_id(2)

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        x = jnp.where(there, x_ref[...], 0).astype(x_ref.dtype)
        dz = jnp.where(there & (y_ref[...] > 0), g_ref[...], 0).astype(x_ref.dtype)
        acc_ref[...] += product(x, dz, 0, 0)

        @pl.when(i == pl.num_programs(2) - 1)
        def store():
            dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, j))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((k, n), x.dtype),
        grid=(n // SIDE, k // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, k)), of_y, of_y],
        out_specs=pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (k, j)),
        scratch_shapes=[pltpu.VMEM((SIDE, SIDE), jnp.float32)],
    )(x, y, g)
    ### END SOLUTION


# %% check="10.2"
checks.check("10.2", grad_w)

# %%
# checks.hint("10.2")

# %% [markdown]
# ## 10.3 db in the same kernel
#
# *Difficulty 3 of 5. 12 minutes, 10 lines more. Further.*
#
# db is the sum of the rows of dz, and the kernel of 10.2 already has dz in VMEM. `grad_w_b(x, y, g)` returns (dw, db)
# from one kernel. Begin with a copy of 10.2, and answer two questions. First, the same block of dz is computed once for
# every block of rows of dw: at which of these steps do you add it to db? Second, which order of the first two axes of
# the grid lets a block of db stay in VMEM until it is done? The check counts bytes, so db must not cause any further
# reads of y and g. db[N] has the dtype of x, and is summed in float32.


# %% answer="10.3"
def grad_w_b(x, y, g):
    """Return dw[K, N] = x.T @ dz and db[N], the sum of the rows of dz, in the dtype of x."""
    ### BEGIN SOLUTION
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref, db_ref, acc_ref, rows_ref):
        kk, i = pl.program_id(1), pl.program_id(2)
        last = pl.num_programs(2) - 1

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        x = jnp.where(there, x_ref[...], 0).astype(x_ref.dtype)
        dz = jnp.where(there & (y_ref[...] > 0), g_ref[...], 0).astype(x_ref.dtype)
        acc_ref[...] += product(x, dz, 0, 0)

        @pl.when(i == last)
        def store():
            dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

        @pl.when((kk == 0) & (i == 0))
        def zero_rows():
            rows_ref[...] = jnp.zeros_like(rows_ref)

        @pl.when(kk == 0)
        def add_rows():
            rows_ref[...] += jnp.sum(dz.astype(jnp.float32), axis=0, keepdims=True)

        @pl.when((kk == 0) & (i == last))
        def store_rows():
            db_ref[...] = rows_ref[...].astype(db_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, j))
    dw, db = pl.pallas_call(
        kernel,
        out_shape=[
            jax.ShapeDtypeStruct((k, n), x.dtype),
            jax.ShapeDtypeStruct((1, n), x.dtype),
        ],
        grid=(n // SIDE, k // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, k)), of_y, of_y],
        out_specs=[
            pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (k, j)),
            pl.BlockSpec((1, SIDE), lambda j, k, i: (0, j)),
        ],
        scratch_shapes=[
            pltpu.VMEM((SIDE, SIDE), jnp.float32),
            pltpu.VMEM((1, SIDE), jnp.float32),
        ],
    )(x, y, g)
    return dw, db.reshape(n)
    ### END SOLUTION


# %% check="10.3"
checks.check("10.3", grad_w_b)

# %%
# checks.hint("10.3")

# %% [markdown]
# ## 10.4 Tie them together
#
# *Difficulty 3 of 5. 9 minutes, 12 lines. Fast track.*
#
# `forward_pass` is given, and computes relu(x @ w + b) in blocks. Write `fused_dense(x, w, b)`, which returns
# the same and has a gradient. It needs `jax.custom_vjp`, a forward rule, a backward rule, and `defvjp`. All
# arithmetic of the backward pass must be in kernels: use those of 10.1 and 10.2, and `grad_b`, which is
# given. If you have not solved those two, one simple kernel for each gradient will do, because the check does
# not ask for blocks here. It checks each of dx, dw and db in float32 and bfloat16 for a ragged batch. It also
# checks rows of zeros with a bias of zero, where z is 0 and the slope has to be 0.


# %% given="10.4"
def forward_pass(x, w, b):
    """Return relu(x @ w + b) in the dtype of x, from 128 x 128 blocks, summed in float32."""
    (m, k), n = x.shape, w.shape[1]
    bm = min(SIDE, m)

    def kernel(x_ref, w_ref, b_ref, y_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += product(x_ref[...], w_ref[...], 1, 0)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            z = acc_ref[...] + b_ref[...].astype(jnp.float32)
            y_ref[...] = jnp.maximum(z, 0).astype(y_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, bm), n // SIDE, k // SIDE),
        in_specs=[
            pl.BlockSpec((bm, SIDE), lambda i, j, k: (i, k)),
            pl.BlockSpec((SIDE, SIDE), lambda i, j, k: (k, j)),
            pl.BlockSpec((1, SIDE), lambda i, j, k: (0, j)),
        ],
        out_specs=pl.BlockSpec((bm, SIDE), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, SIDE), jnp.float32)],
    )(x, w, b.reshape(1, n))


# %% given="10.4-grad-b"
def grad_b(y, g):
    """Return db[N], the sum of the rows of dz, in the dtype of y."""
    m, n = g.shape

    def kernel(y_ref, g_ref, db_ref, acc_ref):
        i = pl.program_id(1)

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        dz = jnp.where(there & (y_ref[...] > 0), g_ref[...], 0).astype(jnp.float32)
        acc_ref[...] += jnp.sum(dz, axis=0, keepdims=True)

        @pl.when(i == pl.num_programs(1) - 1)
        def store():
            db_ref[...] = acc_ref[...].astype(db_ref.dtype)

    block = pl.BlockSpec((SIDE, SIDE), lambda j, i: (i, j))
    db = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1, n), y.dtype),
        grid=(n // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[block, block],
        out_specs=pl.BlockSpec((1, SIDE), lambda j, i: (0, j)),
        scratch_shapes=[pltpu.VMEM((1, SIDE), jnp.float32)],
    )(y, g)
    return db.reshape(n)


# %% answer="10.4"
fused_dense = None
### BEGIN SOLUTION


@jax.custom_vjp
def fused_dense(x, w, b):
    return forward_pass(x, w, b)


def fused_forward(x, w, b):
    y = forward_pass(x, w, b)
    return y, (x, w, y)


def fused_backward(residuals, g):
    x, w, y = residuals
    return grad_x(w, y, g), grad_w(x, y, g), grad_b(y, g)


fused_dense.defvjp(fused_forward, fused_backward)
### END SOLUTION

# %% check="10.4"
checks.check("10.4", fused_dense)

# %%
# checks.hint("10.4")

# %% [markdown]
# ## 10.5 The layer to take to work
#
# *Difficulty 4 of 5. 18 minutes, 20 lines. Fast track.*
#
# `FusedDense(units)` is a Keras layer around `fused_dense`. It has two weights, `kernel` and `bias`, which
# start as those of `keras.layers.Dense` do ("glorot_uniform" and "zeros"). It takes any batch size and any
# number of leading axes, and its `compute_output_shape` tells Keras the shape of the output. It also takes
# the policy "mixed_bfloat16", under which the weights stay float32 and the layer computes in
# `self.compute_dtype`. A model with the layer can be saved and loaded.
#
# The check trains it on the irises, padded to 128 columns, next to `keras.layers.Dense` with the same initial weights.
# The losses have to agree within 2 %. Then the check saves and loads the model, and compiles the train step for a v5e.
#
# `keras.ops.cast(self.kernel, dtype)` gives you the weight as an array. Call it in `call`, every time,
# because Keras passes in the weights of the current step by way of `self.kernel`.


# %% answer="10.5"
@keras.saving.register_keras_serializable("lesson_10")
class FusedDense(keras.layers.Layer):
    """A Keras layer for relu(x @ kernel + bias), with kernels for both passes."""

    ### BEGIN SOLUTION
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.start = keras.initializers.get("glorot_uniform")

    def build(self, input_shape):
        shape = (input_shape[-1], self.units)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.start)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        w = keras.ops.cast(self.kernel, self.compute_dtype)
        b = keras.ops.cast(self.bias, self.compute_dtype)
        rows = inputs.reshape(-1, inputs.shape[-1])
        return fused_dense(rows, w, b).reshape(*inputs.shape[:-1], self.units)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}

    ### END SOLUTION


# %% check="10.5"
checks.check("10.5", FusedDense)

# %%
# checks.hint("10.5")

# %% [markdown]
# ## 10.6 Predict: save z, or recompute it?
#
# *Difficulty 2 of 5. 8 minutes, 5 lines.*
#
# A layer with silu has M = 8192 rows, K = 1024 and N = 4096, and all its arrays are bfloat16. Its backward
# pass needs z, either saved or recomputed. Use the peak and the HBM bandwidth of the data sheets, which
# `chips.chip("v5e")` also has: 197 TFLOP/s and 820 GB/s for a v5e, 920 TFLOP/s and 1640 GB/s for a v6e.
#
# - **A** How much memory does z take between the forward and the backward pass? Answer as text, with a unit of memory.
# - **B** How long does it take on a v5e to write z and to read it, at full bandwidth? Answer as text, in us; an error
#   of up to 2 % is accepted.
# - **C** How long does the matmul that recomputes z take on a v5e, at the peak?
# - **D** Which is therefore faster on a v5e, `"save"` or `"recompute"`?
# - **E** And which is faster on a v6e?

# %% answer="10.6"
kept = {"A": None, "B": None, "C": None, "D": None, "E": None}
### BEGIN SOLUTION
kept |= {
    "A": "64 MiB",  # 8192 x 4096 elements of 2 bytes
    "B": "164 us",  # twice that amount, at 820 GB/s
    "C": "349 us",  # 2 x 8192 x 1024 x 4096 FLOPs, at 197 TFLOP/s
    "D": "save",
    "E": "recompute",  # because twice its ridge point is above K
}
### END SOLUTION

# %% check="10.6"
checks.check("10.6", kept)

# %%
# checks.hint("10.6")

# %% [markdown]
# ## 10.7 Repair: scale, shift, relu
#
# *Difficulty 3 of 5. 9 minutes, 8 lines.*
#
# `scaled_broken(x, s, b)` computes relu(x * s + b), where s and b have one element for each column. Its
# forward pass is right, and its gradient runs and has the right shapes, but the gradient is wrong in three
# places. Write `scaled_back` with all three repaired.


# %% given="10.7-broken"
def scaled_forward(x, s, b):
    def kernel(x_ref, s_ref, b_ref, y_ref):
        y_ref[...] = jnp.maximum(x_ref[...] * s_ref[...] + b_ref[...], 0)

    (m, n), column = x.shape, pl.BlockSpec((1, SIDE), lambda i, j: (0, j))
    block = pl.BlockSpec((64, SIDE), lambda i, j: (i, j))
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(m // 64, n // SIDE),
        in_specs=[block, column, column],
        out_specs=block,
    )(x, s.reshape(1, n), b.reshape(1, n))


def scaled_back_broken(x, s, y, g):
    def kernel(x_ref, s_ref, y_ref, g_ref, dx_ref, ds_ref, db_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)
            db_ref[...] = jnp.zeros_like(db_ref)

        dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
        dx_ref[...] = dz * s_ref[...]
        ds_ref[...] += jnp.sum(dz * y_ref[...], axis=0, keepdims=True)
        db_ref[...] += jnp.sum(g_ref[...], axis=0, keepdims=True)

    (m, n), column = x.shape, pl.BlockSpec((1, SIDE), lambda i, j: (0, j))
    block, row = (
        pl.BlockSpec((64, SIDE), lambda i, j: (i, j)),
        jax.ShapeDtypeStruct((1, n), x.dtype),
    )
    dx, ds, db = pl.pallas_call(
        kernel,
        out_shape=[x, row, row],
        grid=(m // 64, n // SIDE),
        in_specs=[block, column, block, block],
        out_specs=[block, column, column],
    )(x, s.reshape(1, n), y, g)
    return dx, ds.reshape(n), db.reshape(n)


@jax.custom_vjp
def scaled_broken(x, s, b):
    return scaled_forward(x, s, b)


def scaled_rule(x, s, b):
    y = scaled_forward(x, s, b)
    return y, (x, s, y)


scaled_broken.defvjp(scaled_rule, lambda kept, g: scaled_back_broken(*kept, g))


# %% answer="10.7"
def scaled_back(x, s, y, g):
    """Return (dx, ds, db) of relu(x * s + b), from one kernel."""
    ### BEGIN SOLUTION

    def kernel(x_ref, s_ref, y_ref, g_ref, dx_ref, ds_ref, db_ref):
        @pl.when(pl.program_id(1) == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)
            db_ref[...] = jnp.zeros_like(db_ref)

        dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
        dx_ref[...] = dz * s_ref[...]
        ds_ref[...] += jnp.sum(dz * x_ref[...], axis=0, keepdims=True)
        db_ref[...] += jnp.sum(dz, axis=0, keepdims=True)

    (m, n), column = x.shape, pl.BlockSpec((1, SIDE), lambda j, i: (0, j))
    block, row = (
        pl.BlockSpec((64, SIDE), lambda j, i: (i, j)),
        jax.ShapeDtypeStruct((1, n), x.dtype),
    )
    dx, ds, db = pl.pallas_call(
        kernel,
        out_shape=[x, row, row],
        grid=(n // SIDE, m // 64),
        in_specs=[block, column, block, block],
        out_specs=[block, column, column],
    )(x, s.reshape(1, n), y, g)
    return dx, ds.reshape(n), db.reshape(n)
    ### END SOLUTION


# %% given="10.7"
@jax.custom_vjp
def scaled(x, s, b):
    return scaled_forward(x, s, b)


scaled.defvjp(scaled_rule, lambda kept, g: scaled_back(*kept, g))

# %% check="10.7"
checks.check("10.7", scaled)

# %%
# checks.hint("10.7")

# %% [markdown]
# ## 10.8 Choose: a weight that was read too early
#
# *Difficulty 2 of 5. 3 minutes, 1 line.*
#
# Somebody finds it wasteful to ask for the weights at each call. Their layer reads them once, in `build`, as
# `self.w = self.kernel.value + 0`, and `call` returns `inputs @ self.w`. The model is compiled with sgd and
# fitted. What happens? The options are `"trains"`, `"weights stay"`, `"weights stay, and a warning"` and
# `"error"`. Before you answer, think of the three losses that `fit` prints, and write down whether the second
# and the third are larger than, equal to or smaller than the one before.

# %% given="10.8"
checks.listing("10.8")

# %% answer="10.8"
happens = None
### BEGIN SOLUTION
happens = "weights stay"
### END SOLUTION

# %% check="10.8"
checks.check("10.8", happens)

# %%
# checks.hint("10.8")

# %% [markdown]
# ## 10.9 From an empty cell: a norm and its gradient
#
# *Difficulty 5 of 5. 35 minutes, 50 lines. Further.*
#
# `rms_norm(x, s)` divides each row of x[M, N] by the square root of the mean of its squares, with 1e-6 added
# to the mean under the root, and then multiplies the columns by s[N]. Write it together with its gradients
# with respect to x and s, with all arithmetic in kernels. N is a multiple of 128, M can be anything, and all
# arrays are float32. Let r be the factor of a row, which is one over the root, and let h = g * s. Then
#
# - dx = r h - x r^3 (the mean over the row of h x)
# - ds = the sum over the rows of g x r
#
# Decide first whether you keep r, or only x and s. And which of the two gradients is a sum over steps?

# %% answer="10.9"
rms_norm = None
### BEGIN SOLUTION
EPSILON = 1e-6


def factor(x):
    return jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPSILON)


def norm_kernel(x_ref, s_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = x * factor(x) * s_ref[...]


def norm_call(x, s):
    (m, n), bm = x.shape, min(64, x.shape[0])
    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        norm_kernel,
        out_shape=x,
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole],
        out_specs=block,
    )(x, s.reshape(1, n))


def norm_back(x, s, g):
    (m, n), bm = x.shape, min(64, x.shape[0])

    def kernel(x_ref, s_ref, g_ref, dx_ref, ds_ref):
        i = pl.program_id(0)

        @pl.when(i == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)

        there = i * bm + jax.lax.broadcasted_iota(jnp.int32, (bm, n), 0) < m
        x, g = jnp.where(there, x_ref[...], 0), jnp.where(there, g_ref[...], 0)
        r, h = factor(x), g * s_ref[...]
        dx_ref[...] = r * h - x * (r * r * r) * jnp.mean(h * x, axis=1, keepdims=True)
        ds_ref[...] += jnp.sum(g * x * r, axis=0, keepdims=True)

    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    dx, ds = pl.pallas_call(
        kernel,
        out_shape=[x, jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole, block],
        out_specs=[block, whole],
    )(x, s.reshape(1, n), g)
    return dx, ds.reshape(n)


@jax.custom_vjp
def rms_norm(x, s):
    return norm_call(x, s)


rms_norm.defvjp(lambda x, s: (norm_call(x, s), (x, s)), lambda kept, g: norm_back(*kept, g))
### END SOLUTION

# %% check="10.9"
checks.check("10.9", rms_norm)

# %%
# checks.hint("10.9")

# %% [markdown]
# ## 10.10 Golf: the whole backward pass
#
# *Difficulty 4 of 5. 25 minutes, 30 lines. Further.*
#
# `all_back(x, w, y, g)` returns (dx, dw, db) of relu(x @ w + b) in float32. It should move as few **bytes** between HBM
# and the chip as you can. The bytes are counted for M = 512, K = 256, N = 384, and operations outside the kernels count
# as well. M, K and N are multiples of 128, and db is [N]. You may use 3 MiB of VMEM. **Par** is 4,500,000 bytes. If one
# kernel computes dx and another computes dw and db, both read y and g, and the total is above par.

# %% answer="10.10"
all_back = None
### BEGIN SOLUTION


def all_back_kernel(x_ref, w_ref, y_ref, g_ref, dx_ref, dw_ref, db_ref):
    @pl.when(pl.program_id(0) == 0)
    def zero():
        dw_ref[...] = jnp.zeros_like(dw_ref)
        db_ref[...] = jnp.zeros_like(db_ref)

    dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
    dx_ref[...] = product(dz, w_ref[...], 1, 1)
    dw_ref[...] += product(x_ref[...], dz, 0, 0)
    db_ref[...] += jnp.sum(dz, axis=0, keepdims=True)


def all_back(x, w, y, g):
    (m, k), n = x.shape, w.shape[1]
    rows, whole = (lambda i: (i, 0)), (lambda i: (0, 0))
    dx, dw, db = pl.pallas_call(
        all_back_kernel,
        out_shape=[x, w, jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(m // SIDE,),
        in_specs=[
            pl.BlockSpec((SIDE, k), rows),
            pl.BlockSpec((k, n), whole),
            pl.BlockSpec((SIDE, n), rows),
            pl.BlockSpec((SIDE, n), rows),
        ],
        out_specs=[
            pl.BlockSpec((SIDE, k), rows),
            pl.BlockSpec((k, n), whole),
            pl.BlockSpec((1, n), whole),
        ],
    )(x, w, y, g)
    return dx, dw, db.reshape(n)


### END SOLUTION

# %% check="10.10"
checks.check("10.10", all_back)

# %%
# checks.hint("10.10")

# %% [markdown]
# ## Where next
#
# You have a layer that computes in your kernels, trains, and can be saved. It needs multiples of 128 for features
# and units, knows only relu, and SIDE = 128 is not a good block size. `course_lib.frameworks.keras.FusedDense`
# extends it: it takes any shape and other activations, saves or recomputes z, and chooses its blocks. The table
# under "The train step, compiled" in the lesson shows how to find out whether a kernel is worth it for your
# network. Lesson 11 is about why a kernel is slow, and about choosing its blocks.
#
# <!-- next -->
