# %% [markdown]
# # Lesson 10: Backward kernels
#
# *60 minutes, then 72 for the exercises. The "Further" part is optional and not counted in these times. You
# need lesson 1 for its Keras layer, lesson 3 for the two roofs, lesson 4 for the order of grid steps, lesson
# 7 for the tiled matmul and lesson 9 for work on a block before it is written back. You do not need a TPU;
# with one, the layer also trains on it.*
#
# Below is a layer in one kernel, `relu(x @ w + b)`, and then JAX is asked for two of its derivatives.
# `jax.jvp` takes a small change of each input and says how the output changes. `jax.grad` says how much a
# loss changes with each input. Run the three cells and compare the two answers.

# %%
# FIRST CELL

# %%
import functools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.experimental import pallas as pl

from course_lib import chips, datasets, errors, grid, judges, viz

ROWS, COLUMNS = 64, 128  # the size of a block


def forward_kernel(x_ref, w_ref, b_ref, y_ref):
    z = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32) + b_ref[...]
    y_ref[...] = jnp.maximum(z, 0)


def forward(x, w, b):
    (m, k), n = x.shape, w.shape[1]
    bm, bn = min(ROWS, m), min(COLUMNS, n)
    return pl.pallas_call(
        forward_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn)),
        in_specs=[
            pl.BlockSpec((bm, k), lambda i, j: (i, 0)),
            pl.BlockSpec((k, bn), lambda i, j: (0, j)),
            pl.BlockSpec((1, bn), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
    )(x, w, b.reshape(1, n))


# %%
def dense_in_jax(x, w, b):
    return jax.nn.relu(x @ w + b)


keys = jax.random.split(jax.random.key(0), 6)
shapes = (192, 128), (128, 384), (384,)
x, w, b = (jax.random.normal(key, s) for key, s in zip(keys[:3], shapes, strict=True))
changes = tuple(jax.random.normal(key, s) for key, s in zip(keys[3:], shapes, strict=True))

moved = jax.jvp(forward, (x, w, b), changes)[1]
expected = jax.jvp(dense_in_jax, (x, w, b), changes)[1]
print("jax.jvp of the kernel is right:", bool(jnp.allclose(moved, expected, atol=1e-3)))

# %%
try:
    jax.grad(lambda w: forward(x, w, b).sum())(w)
except ValueError as error:
    print("JAX says:  ", str(error)[:94])
    print("We say:    ", errors.explain(error))

# %% [markdown]
# The first derivative comes out right and the second fails, although both are made of the same slopes. JAX
# must know the slope of every operation in this kernel, because otherwise the first answer would be wrong.
#
# The gradients are computed in the backward pass. **Which parts of the forward kernel must be replaced by something
# else there?** Write down your answer for each: the matmul, the maximum, a read such as `w_ref[...]`, the write to
# `y_ref[...]`, the grid, an index map. By the end of the lesson you will have written the missing kernels. For this
# layer they will not beat XLA, but you can check every value. Lesson 13 does the same for attention, where kernels pay
# off.
#
# After this lesson you can
# - read from an index map over which axis each gradient is a sum,
# - decide from bytes and FLOPs what to keep for the backward pass,
# - write kernels for dx, dw and db, and tie them to the forward kernel,
# - find out which of your gradients is wrong, and why,
# - train the layer in Keras, next to the layer that it replaces.
#
# ## The gradient of a read
#
# The derivative of a function is a table of slopes, which says for each output how much it changes with each input.
# `jax.jvp` multiplies this table by a change of the inputs and gets the change of the outputs. `jax.grad` goes through
# the table in the other direction: it begins with a value for each output and ends with a value for each input.
#
# > **cotangent**: an array in the shape of a result that says how much a loss changes with each of its
# > elements. The gradient with respect to an input is a cotangent too, in the shape of that input.
# >
# > **vjp**: the product of a cotangent of the result with the slopes, which gives the cotangents of the
# > inputs. `jax.vjp(f, x)` returns `f(x)` and the function that computes this product.
#
# What becomes of a read in the backward pass? The function below reads element 0 three times, element 1 never, and
# element 2 once. **Predict first:** if each element that it returns has a cotangent of 1, what are the cotangents of x?


# %% tags=["predict"]
def reads(x):
    return x[jnp.array([0, 0, 0, 2])]


read, pull_back = jax.vjp(reads, jnp.array([5.0, 6.0, 7.0]))
print("read:      ", read)
print("gradient:  ", pull_back(jnp.ones(4))[0])

# %% [markdown]
# Three reads of one element have become three additions to one element. A kernel reads blocks, and the same
# holds for them: **the gradient of a block is a sum over all steps that read it.** Those are the steps for
# which the index map returns the same block. For the maps in this lesson you can see at once which steps they
# are, because the sum runs over the axis that the map leaves out. (A map such as `i // 2` leaves no axis out,
# and its gradient is a sum over pairs of steps.)
#
# **Predict first:** `forward` runs on 3 x 3 steps, where i counts the blocks of rows and j the blocks of
# columns. Over which axis is each of dx, dw and db a sum?

# %% tags=["predict"]
call = grid.walk(forward, x, w, b).calls[0]
for operand in call.operands[:3]:
    steps = operand.indices.reshape(*call.grid, -1)
    stays = [letter for n, letter in enumerate("ij") if (np.diff(steps, axis=n) == 0).all()]
    print(
        f"{operand.name}: the map leaves out {stays[0]}, so its gradient is a sum over {stays[0]}"
    )

# %% [markdown]
# The rows are the batch, so dw and db are sums over the batch, while dx is a sum over the columns of the result.
#
# Suppose that we keep the grid and only turn each read into an addition, as an automatic rule might. Below is dw for
# the matmul alone, without the relu, where g is the cotangent of the result. At each step where the forward kernel read
# block (0, j) of w, this kernel adds to block (0, j) of dw. **Guess:** which of the four judges refuses it, and why?


# %% tags=["predict"]
def transposed(x, g):
    """Return dw = x.T @ g, computed on the grid of the forward kernel."""

    def kernel(x_ref, g_ref, dw_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            dw_ref[...] = jnp.zeros_like(dw_ref)

        dw_ref[...] += jnp.dot(x_ref[...].T, g_ref[...], preferred_element_type=jnp.float32)

    (m, k), n = x.shape, g.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((k, n), x.dtype),
        grid=(m // ROWS, n // COLUMNS),
        in_specs=[
            pl.BlockSpec((ROWS, k), lambda i, j: (i, 0)),
            pl.BlockSpec((ROWS, COLUMNS), lambda i, j: (i, j)),
        ],
        out_specs=pl.BlockSpec((k, COLUMNS), lambda i, j: (0, j)),
    )(x, g)


g = jax.random.normal(jax.random.key(1), (192, 384))
for verdict in judges.judge(transposed, lambda x, g: x.T @ g, x, g):
    print(verdict)

# %% [markdown]
# The values are right here, but a chip may get them wrong. Lesson 4 gave the reason: if the grid leaves an output block
# and comes back to it, the sum in that block may be lost. Step (0, 0) adds to block (0, 0) of dw, step (0, 1) adds to
# another block, and only step (1, 0) comes back to the first.
#
# The remedy is that of lesson 7: put the axis of the sum last. For dw this is i, and for dx it is j. **So no order of a
# single grid suits both, unless one of the two sums can stay in VMEM as a whole.** In this lesson dx and dw each get a
# kernel with a grid of its own; in exercise 10.10 all of dw stays in VMEM.
#
# ## A gradient without a backward kernel
#
# With `jax.custom_vjp` you tell JAX how to compute the backward pass, in the form of two functions. The first
# one runs the forward pass and returns the result, together with whatever the backward pass will need. The
# second one takes those arrays and the cotangent g of the result, and returns a cotangent for each input.
#
# > **`jax.custom_vjp`**: says how a function's gradient is computed, in place of JAX's own rules.
# >
# > **residual**: an array that the forward pass keeps for the backward pass.
#
# What does the second function compute? Let z = x w + b, so that y = relu(z). The cotangent dz of z is g where z is
# above 0, and 0 elsewhere. Because z > 0 exactly where y > 0, we can use y instead of z. You can find dx and dw from
# the shapes alone: dx is [M, K], and there is only one way to get that shape from dz[M, N] and w[K, N]. For db, ask the
# index map of b, because the shapes are ambiguous if M = N. **Write down all three** before you read the cell.


# %% tags=["predict"]
@jax.custom_vjp
def dense_guide(x, w, b):
    return forward(x, w, b)


def guide_forward(x, w, b):
    y = forward(x, w, b)
    return y, (x, w, y)


def guide_backward(residuals, g):
    x, w, y = residuals
    dz = g * (y > 0)
    return dz @ w.T, x.T @ dz, dz.sum(axis=0)


dense_guide.defvjp(guide_forward, guide_backward)


def gradients(fn, *args):
    """Return dx, dw and db of a loss that weights each element of the result differently."""
    return jax.vjp(fn, *args)[1](g)


pairs = zip(gradients(dense_guide, x, w, b), gradients(dense_in_jax, x, w, b), strict=True)
for name, (ours, theirs) in zip(("dx", "dw", "db"), pairs, strict=True):
    print(f"{name} {ours.shape!s:10} right: {bool(jnp.allclose(ours, theirs, atol=1e-3))}")

# %% [markdown]
# The error is gone. A public guide makes its layer trainable in the same way, with these residuals and these
# lines ("Define a Custom TPU/GPU Kernel", Keras, December 2025; its layer has no bias). The guide says that
# you must supply a second kernel, but it does not write one: all three lines are plain JAX, which XLA
# compiles. **A kernel needs a backward pass, but the backward pass need not be a kernel.**
#
# Write a backward kernel where it saves something. (For this layer it does not, as "The train step, compiled"
# under *Further* shows.) One choice remains: relu has a kink at z = 0, so somebody has to decide what its
# slope is there. Keras and `jax.nn.relu` take 0, and so does `y > 0`.
#
# ## Save or recompute?
#
# The slope of relu follows from y, which is kept anyway because it is the x of the next layer. Other activations need z
# itself, for example silu, which is z times the sigmoid of z. The backward pass can get z in two ways:
#
# - **Save:** the forward kernel writes z as well as y, and the backward pass reads it.
# - **Recompute:** nothing more is kept, and the backward pass computes the matmul once more from x and w.
#
# In the picture, the width of an arrow shows how many bytes are moved. Read the right column upwards. The time of the
# matmuls is not in the picture; we add it afterwards. **Look for** the arrays that are kept, which are orange, because
# they take memory until the backward pass has read them. (y is not marked, because this backward pass does not read
# it.)

# %%
M, K, N = 2048, 512, 2048


def in_bfloat16(*shape):
    return 2 * int(np.prod(shape))  # bytes of an array in bfloat16


X, W, Y = in_bfloat16(M, K), in_bfloat16(K, N), in_bfloat16(M, N)
rest = [
    viz.Stage("dx = dz @ w.T", reads={"dz": Y, "w": W}, writes={"dx": X}),
    viz.Stage("dw = x.T @ dz", reads={"x": X, "dz": Y}, writes={"dw": W}),
]
viz.gradient_flow(
    {
        "save z": (
            [
                viz.Stage(
                    "y = silu(x @ w + b)", reads={"x": X, "w": W}, writes={"y": Y, "z": Y}
                )
            ],
            [viz.Stage("dz", reads={"g": Y, "z": Y}, writes={"dz": Y}), *rest],
        ),
        "recompute z": (
            [viz.Stage("y = silu(x @ w + b)", reads={"x": X, "w": W}, writes={"y": Y})],
            [
                viz.Stage(
                    "recompute z, dz", reads={"g": Y, "x": X, "w": W}, writes={"dz": Y}
                ),
                *rest,
            ],
        ),
    },
    chip="v5e",
)

# %% [markdown]
# Saving writes z and reads it, which moves 2 M N elements. Recomputing costs 2 M K N FLOPs, and reads x and w
# once more. Which is faster depends on the two roofs of lesson 3. With bfloat16 elements and large M and N,
# the two times are equal if
#
# 4 M N / bandwidth = 2 M K N / peak
#
# M and N cancel, so only K is left. The equation is a rule of thumb, because it adds up the times as if no
# copy ran beside the matmul. **For which K are both equal on a v5e?** Compute it, then run the cell.

# %%
v5e = chips.chip("v5e")
peak = v5e.bf16_flops
print(
    f"K = {2 * peak / v5e.hbm_bandwidth:.0f}, twice the ridge point of {peak / v5e.hbm_bandwidth:.0f}"
)

# %% [markdown]
# > **recompute**: to compute an array again in the backward pass instead of keeping it.
#
# Below that K, recomputing is faster *and* saves the memory for z. Above it, recomputing saves memory but costs time,
# and you have to weigh one against the other: every layer has a z of its own to keep. (Under *Further* we ask the
# compiler.) For relu there is nothing to weigh: keep y, because it is there anyway.
#
# ## dw and db: the batch innermost
#
# Now we write the backward pass of the relu layer as kernels, beginning with dx. A block of rows of dx needs only the
# same block of rows of dz, so the kernel computes this block of dz in VMEM and never writes it to HBM.


# %%
def dx_kernel(g_ref, y_ref, w_ref, dx_ref):
    dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
    dx_ref[...] = jnp.dot(dz, w_ref[...].T, preferred_element_type=jnp.float32)


def grad_x(w, y, g):
    (m, n), k = g.shape, w.shape[0]
    bm = min(ROWS, m)
    rows = pl.BlockSpec((bm, n), lambda i: (i, 0))
    return pl.pallas_call(
        dx_kernel,
        out_shape=jax.ShapeDtypeStruct((m, k), g.dtype),
        grid=(pl.cdiv(m, bm),),
        in_specs=[rows, rows, pl.BlockSpec((k, n), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((bm, k), lambda i: (i, 0)),
    )(g, y, w)


# %% [markdown]
# Here a block has all columns, so the sum over j takes place inside the matmul. Exercise 10.1 cuts the
# columns into blocks.
#
# The next kernel computes dw, and the axis of its sum goes last, so the grid is (j, i). The same kernel also
# returns db, because db sums the same dz over the same axis. Read the kernel, then answer: **what is `there` for?**


# %%
def grad_w(x, y, g):
    (m, k), n = x.shape, g.shape[1]
    bm, bn = min(ROWS, m), min(COLUMNS, n)

    def kernel(x_ref, y_ref, g_ref, dw_ref, db_ref):
        i = pl.program_id(1)

        @pl.when(i == 0)
        def zero():
            dw_ref[...] = jnp.zeros_like(dw_ref)
            db_ref[...] = jnp.zeros_like(db_ref)

        def there(block):
            return i * bm + jax.lax.broadcasted_iota(jnp.int32, block.shape, 0) < m

        x, g = x_ref[...], g_ref[...]
        x = jnp.where(there(x), x, 0)
        dz = jnp.where(there(g) & (y_ref[...] > 0), g, 0)
        dw_ref[...] += jnp.dot(x.T, dz, preferred_element_type=jnp.float32)
        db_ref[...] += jnp.sum(dz, axis=0, keepdims=True)

    block = pl.BlockSpec((bm, bn), lambda j, i: (i, j))
    dw, db = pl.pallas_call(
        kernel,
        out_shape=[
            jax.ShapeDtypeStruct((k, n), x.dtype),
            jax.ShapeDtypeStruct((1, n), x.dtype),
        ],
        grid=(pl.cdiv(n, bn), pl.cdiv(m, bm)),
        in_specs=[pl.BlockSpec((bm, k), lambda j, i: (i, 0)), block, block],
        out_specs=[
            pl.BlockSpec((k, bn), lambda j, i: (0, j)),
            pl.BlockSpec((1, bn), lambda j, i: (0, j)),
        ],
    )(x, y, g)
    return dw, db[0]


# %% [markdown]
# In the forward kernel and in dx, garbage rows past the end of the batch spoil only result rows past the end, which
# nobody keeps. In dw, however, every row contributes to every element, and a batch of 150 rows in blocks of 64 has a
# last block of 22 rows with garbage past their end. It would not be enough to mask one of x and dz, because 0 times
# garbage may be NaN, so the kernel masks both, as in lesson 7. `y > 0` is no mask, because y may hold any value past
# the end.
#
# ## A judge for gradients
#
# Now we can put the parts together. We do it as the guide does, except that `dense_backward` calls our kernels.


# %%
@jax.custom_vjp
def dense(x, w, b):
    return forward(x, w, b)


def dense_forward(x, w, b):
    y = forward(x, w, b)
    return y, (x, w, y)


def dense_backward(residuals, g):
    x, w, y = residuals
    dw, db = grad_w(x, y, g)
    return grad_x(w, y, g), dw, db


dense.defvjp(dense_forward, dense_backward)

# %% [markdown]
# Are the gradients right? `judges.judge_gradient` runs the four judges on the backward pass, and compares the gradients
# with those of plain JAX. We give it a batch of 70 rows and a bias of 0. The argument `pre` computes z, which lets the
# judge recognize more mistakes by name.


# %%
def before_relu(x, w, b):
    return x @ w + b


def judged(fn, rows=70):
    few = x[:rows], w[:, :128], jnp.zeros(128)
    return judges.judge_gradient(
        fn, dense_in_jax, *few, pre=before_relu, activation=jax.nn.relu
    )


for verdict in judged(dense):
    print(verdict)

# %% [markdown]
# What does the judge say about mistakes? Each function below is a backward pass with one slip that people make.
# **Before you run the cell**, say for each: which of dx, dw and db is wrong, and how would you notice it in training?
#
# 1. Somebody wants the slope at 0 to be 1, and writes `y >= 0`.
# 2. Somebody sums only the whole blocks of rows.


# %%
def with_way_back(backward):
    @jax.custom_vjp
    def layer(x, w, b):
        return forward(x, w, b)

    layer.defvjp(dense_forward, backward)
    return layer


def greater_or_equal(residuals, g):
    x, w, y = residuals
    taken = (y >= 0).astype(y.dtype)  # 1 wherever this layer passes g on
    return dense_backward((x, w, taken), g)


def whole_blocks(residuals, g):
    x, w, y = residuals
    block = min(ROWS, len(x))
    whole = len(x) // block * block
    dw, db = grad_w(x[:whole], y[:whole], g[:whole])
    return grad_x(w, y, g), dw, db


for slip, rows in [(greater_or_equal, 64), (whole_blocks, 70)]:
    print(f"{slip.__name__}\n{judged(with_way_back(slip), rows)[-1]}\n")

# %% [markdown]
# The first slip is the one to remember. The y of relu is never below 0, so `y >= 0` holds everywhere and the slope
# is lost. Both slips leave a gradient that points roughly downhill. A plot below shows what the loss does then.
#
# ## A layer that trains
#
# Lesson 1 put a kernel into a Keras layer. Training with `fit` needs gradients, so the layer now calls
# `dense`, which has them. This is the guide's layer with a bias, and with `compute_output_shape`, which the
# guide leaves out. The argument `fn` is `dense` until we try other functions.

# %%
import keras


class FusedDenseTrainable(keras.layers.Layer):
    def __init__(self, units, fn=dense, **kwargs):
        super().__init__(**kwargs)
        self.units, self.fn = units, fn

    def build(self, input_shape):
        self.w = self.add_weight(shape=(input_shape[-1], self.units))
        self.b = self.add_weight(shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        return self.fn(inputs, *map(keras.ops.convert_to_tensor, (self.w, self.b)))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)


model = keras.Sequential([keras.Input((256,)), FusedDenseTrainable(128)])
model.compile(optimizer="adam", loss="mse")
history = model.fit(np.ones((256, 256)), np.ones((256, 128)), batch_size=128, verbose=0)
print(
    "the guide's training, on ones, has run; its loss is finite:",
    bool(np.isfinite(history.history["loss"][0])),
)

# %% [markdown]
# A network learns nothing from ones, so here are 150 flowers, Fisher's irises, with four measurements each
# and three species. A batch is 75 of them, which makes one block of 64 rows and a ragged one of 11. We
# compare our layer with its twin, a `keras.layers.Dense` that starts with the same weights. Two more layers
# train with the slips. **Guess** the order of the four losses after 20 epochs.

# %% tags=["predict"]
flowers, species = datasets.irises()


def trained(layer, start=None):
    model = keras.Sequential([keras.Input((4,)), layer, keras.layers.Dense(3)])
    if start is not None:
        model.set_weights(start)
    start = model.get_weights()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
    fitted = model.fit(flowers, species, batch_size=75, epochs=20, shuffle=False, verbose=0)
    return fitted.history, start


keras.utils.set_random_seed(0)
unfused, start = trained(keras.layers.Dense(16, "relu"))
fused, _ = trained(FusedDenseTrainable(16), start)
epochs = range(1, 21)
plt.rcParams.update(viz.PLOT_STYLE)
fig, ax = plt.subplots()
ax.plot(
    epochs,
    np.round(unfused["loss"], 2),
    color="gray",
    linewidth=6,
    alpha=0.5,
    label="Dense",
)
ax.plot(epochs, np.round(fused["loss"], 2), label="our kernels")
for slip, style in [(greater_or_equal, "--"), (whole_blocks, ":")]:
    wrong, _ = trained(FusedDenseTrainable(16, with_way_back(slip)), start)
    ax.plot(epochs, np.round(wrong["loss"], 2), style, label=slip.__name__)
    print(
        f"{slip.__name__:17} {wrong['loss'][-1] / unfused['loss'][-1]:.1f} times the loss of Dense"
    )
ax.set(title="150 irises", xlabel="epoch", ylabel="loss", xticks=[1, 5, 10, 15, 20])
ax.legend()
print("more than 9 of 10 flowers are classified correctly:", fused["accuracy"][-1] > 0.9)
print(
    f"the losses differ by less than 1 %: {abs(fused['loss'][-1] / unfused['loss'][-1] - 1) < 0.01}"
)
viz.plot_picture(
    fig,
    "The curve of our kernels runs along the middle of the thick one. The curves of the two "
    "slips fall as well.",
)

# %% [markdown]
# The network, the initial weights and the order of the flowers are the same, and so are the curves of our layer and of
# Dense. The curves of the two slips fall as well. One of them ends higher, but the other ends so near to Dense that the
# plot does not show the mistake. The judge did find it.
#
# Are these kernels worth writing? For this layer they are not, because XLA makes a faster train step from Dense
# (*Further*). So write the backward pass in plain JAX first, since you need it as a reference anyway. Replace it with
# kernels where it has to build a large array that your forward pass never built, as in attention. The library's
# `course_lib.frameworks.keras.FusedDense` extends this layer: it takes any shape and five activations, saves or
# recomputes z, and chooses its blocks. Exercise 10.5 adds mixed precision, and saving to files.
#
# ## The guess
#
# Of your six, the **matmul** becomes two matmuls, and the **maximum** becomes a mask on g. A **read** becomes an
# addition, the **index map** says which steps add to the same block, and the **write** becomes a read of g. The
# **grid** decides whether the sums survive: on the forward grid, steps for other blocks come between the additions to a
# block of dw, and the running sum is lost. So the backward pass is not the forward kernel in reverse. It consists of
# other kernels with other grids, where j goes last for dx, and i goes last for dw and db. Somebody has to choose these
# grids, and what to keep. You have seen how, and `fit` has trained with such kernels.

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel's map for s is <code>lambda i, j: (i, 0)</code>. Over which axis is ds a sum, and where
# does that axis go?</summary>
# It is a sum over j, the axis that the map leaves out. In the grid of the kernel that computes ds,
# j goes last.</details>
#
# <details><summary>2. Why does the kernel for dw mask the rows past the end, while the kernel for dx does
# not?</summary>
# In dw every row is added to every element, whereas in dx a garbage row only spoils a row past the end.</details>
#
# <details><summary>3. What does the backward pass of relu need from the forward pass, and what does that of
# silu need?</summary>
# For relu it needs x, w and y. For silu it needs x, w and z, or x, w and b if it recomputes z.</details>
#
# <details><summary>4. K is 256, the activation is silu, and the chip is a v6e. Do you save z or recompute it?</summary>
# Recompute it: 2 M K N / peak is less than a quarter of 4 M N / bandwidth, so K is far below the point where both are
# equal, and you do not have to keep z.</details>
#
# <details><summary>5. Your loss falls, but more slowly than the twin's. What do you do first?</summary>
# Compare each gradient with that of plain JAX, one by one. The loss falls even if a slope is missing or a block is
# lost.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 10](../exercises/10_backward_kernels.ipynb). In the first five you write a layer that
# you can take to work: its gradients in blocks, for any batch size, in float32 and bfloat16, and the class around them.
#
# ## Further
#
# No exercise needs what follows.
#
# ### The train step, compiled
#
# So far the kernels ran in the simulator. On a v5e, a whole step of `fit` would be one program with the forward pass,
# the backward pass, and Adam, and the compiler can predict how long that program takes. The folded cell builds a larger
# network, puts four different layers into it in turn, and compiles the step for each. Its `train_step` returns the step
# of `fit` as one function.
#
# **Predict:** which is the fastest? Remember what lesson 9 found about bias and relu.

# %% tags=["folded", "predict"]
from course_lib import compiler


def train_step(layer):
    """Return one step of ``fit`` for a model with two such layers, and its arguments' shapes."""
    ends = keras.layers.Dense(3)
    model = keras.Sequential([keras.Input((256,)), layer(512), layer(256), ends])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)

    def loss(weights, state, x, y):
        prediction, state = model.stateless_call(weights, state, x, training=True)
        return model.compute_loss(x, y, prediction), state

    def step(weights, state, moments, x, y):
        slopes = jax.value_and_grad(loss, has_aux=True)
        (value, state), gradient = slopes(weights, state, x, y)
        weights, moments = model.optimizer.stateless_apply(moments, gradient, weights)
        return value, weights, state, moments

    parts = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
    )
    shapes = [[jax.ShapeDtypeStruct(v.shape, v.dtype) for v in part] for part in parts]
    x, y = (jax.ShapeDtypeStruct((256, n), jnp.float32) for n in (256, 3))
    return step, (*shapes, x, y)


found = {}
for name, layer_of, sizes in [
    ("keras.layers.Dense", lambda units: keras.layers.Dense(units, "relu"), (64, 128)),
    ("our kernels", FusedDenseTrainable, (64, 128)),
    ("in larger blocks", FusedDenseTrainable, (256, 512)),
    ("backward in JAX", functools.partial(FusedDenseTrainable, fn=dense_guide), (256, 512)),
]:
    ROWS, COLUMNS = sizes
    step, shapes = train_step(layer_of)
    report = compiler.compile_tpu(step, *shapes)
    kernels = sum(op.kind == "kernel" for op in report.ops)
    found[name] = report.seconds
    print(
        f"{name:18} {report.seconds * 1e6:5.1f} us, {report.hbm_bytes / 1e6:4.1f} MB, "
        f"{kernels} kernels, predicted (compiler)"
    )
ROWS, COLUMNS = 64, 128
print("fastest here:", min(found, key=found.get))

# %% [markdown]
# There are five kernels and not six, because nobody asks for the gradient with respect to the data, which is
# the input of the first layer.
#
# XLA wins, and larger blocks bring our kernels closer to its time. (We had no published time of XLA's own code to check
# the simulator with, so do not rely on the percentages.) "backward in JAX" is what the guide does, a forward kernel
# with a backward pass in plain JAX. For this layer it does as well as our kernels. For your own work, run this cell
# with the shapes of your network, and take the fastest. Keep in mind that our dx kernel holds all of w in VMEM, and
# that the layer knows only relu.
#
# ### Save or recompute, according to the compiler
#
# By the rule of thumb the two are equal at K = 480, so at K = 512 saving is a little faster. Does the compiler agree?
# The next cell, which is folded, has three kernels: `layer` also writes z if `keep` is set, `dz_saved` reads z, and
# `dz_again` recomputes it. If you open the cell, read three lines: `out_refs[1][...] = z`, the slope in `dz_saved`, and
# the slope in `dz_again`. The rest is the grid of lesson 7.

# %% tags=["folded"]
BM, BN = 512, 1024


def silu_slope(z):
    s = jax.nn.sigmoid(z)
    return s * (1 + z * (1 - s))


def pre_activation(x_ref, w_ref, b_ref):
    return jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32) + b_ref[...]


def specs(k):
    block = pl.BlockSpec((BM, BN), lambda j, i: (i, j))
    ins = [
        pl.BlockSpec((BM, k), lambda j, i: (i, 0)),
        pl.BlockSpec((k, BN), lambda j, i: (0, j)),
        pl.BlockSpec((1, BN), lambda j, i: (0, j)),
    ]
    return block, ins


def layer(x, w, b, keep):
    def kernel(x_ref, w_ref, b_ref, *out_refs):
        z = pre_activation(x_ref, w_ref, b_ref)
        out_refs[0][...] = (z * jax.nn.sigmoid(z)).astype(x.dtype)
        if keep:
            out_refs[1][...] = z.astype(x.dtype)

    (m, k), n = x.shape, w.shape[1]
    block, ins = specs(k)
    out = jax.ShapeDtypeStruct((m, n), x.dtype)
    return pl.pallas_call(
        kernel,
        out_shape=[out] * (1 + keep),
        grid=(n // BN, m // BM),
        in_specs=ins,
        out_specs=[block] * (1 + keep),
    )(x, w, b)


def dz_saved(z, g):
    def kernel(z_ref, g_ref, dz_ref):
        slope = silu_slope(z_ref[...].astype(jnp.float32))
        dz_ref[...] = (g_ref[...].astype(jnp.float32) * slope).astype(g.dtype)

    (m, n), (block, _) = g.shape, specs(0)
    return pl.pallas_call(
        kernel,
        out_shape=g,
        grid=(n // BN, m // BM),
        in_specs=[block, block],
        out_specs=block,
    )(z, g)


def dz_again(x, w, b, g):
    def kernel(x_ref, w_ref, b_ref, g_ref, dz_ref):
        slope = silu_slope(pre_activation(x_ref, w_ref, b_ref))
        dz_ref[...] = (g_ref[...].astype(jnp.float32) * slope).astype(g.dtype)

    (m, n), (block, ins) = g.shape, specs(x.shape[1])
    return pl.pallas_call(
        kernel,
        out_shape=g,
        grid=(n // BN, m // BM),
        in_specs=[*ins, block],
        out_specs=block,
    )(x, w, b, g)


# %%
def us(fn, *shapes):
    arrays = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes]
    return compiler.compile_tpu(fn, *arrays).seconds * 1e6


def added_up(copied, products):
    """Return the us of copies (in bytes) and matmuls one after the other: predicted (model)."""
    return 1e6 * (copied / v5e.hbm_bandwidth + products * 2 * M * K * N / peak)


inputs, result = [(M, K), (K, N), (1, N)], (M, N)
saved = us(functools.partial(layer, keep=True), *inputs) + us(dz_saved, result, result)
again = us(functools.partial(layer, keep=False), *inputs) + us(dz_again, *inputs, result)
print(f"K = {K}, in us   compiler   model")
print(f"save {saved:19.1f} {added_up(X + W + 5 * Y, 1):7.1f}")
print(f"recompute {again:14.1f} {added_up(2 * (X + W) + 3 * Y, 2):7.1f}")

# %% [markdown]
# The times leave out dx and dw, which are the same in both. In the column "model", which is the rule of thumb,
# saving is ahead. The compiler predicts less for both, because some copies run beside the matmuls. Recomputing
# gains more from that, and comes out ahead. So the two are equal at a larger K than the rule of thumb says.
#
# ### At the kink
#
# At z = 0, any slope from 0 to 1 would do for relu. Guess which slope JAX takes for `jnp.maximum(z, 0)`, and
# which for `jax.nn.relu(z)`.

# %% tags=["predict"]
print("jnp.maximum at 0:", jax.grad(lambda z: jnp.maximum(z, 0.0))(0.0))
print("jax.nn.relu at 0:", jax.grad(jax.nn.relu)(0.0))

# %% [markdown]
# The two differ, and that can matter. A z of exactly 0 is rare in general, but if the bias starts at 0 and a row of x
# is all zeros, then every z in that row is 0. So say in your code which slope you mean.
#
# ### A one-step kernel, and a kernel with scratch
#
# Is it the grid that JAX cannot differentiate, so that a kernel of one step would work? No, JAX has no rule
# for that kernel either, and if a kernel uses scratch, not even `jax.jvp` works.

# %%
from jax.experimental.pallas import tpu as pltpu


def doubled(x, scratch):
    def kernel(x_ref, o_ref, *kept):
        place = kept[0] if kept else o_ref
        place[...] = 2 * x_ref[...]
        o_ref[...] = place[...]

    room = [pltpu.VMEM(x.shape, x.dtype)] if scratch else []
    return pl.pallas_call(kernel, out_shape=x, scratch_shapes=room)(x)


def works(derivative):
    try:
        derivative()
        return "works"
    except Exception as error:
        return f"{type(error).__name__}"


tile = jnp.ones((8, 128))
for scratch in (False, True):
    fn = functools.partial(doubled, scratch=scratch)
    forwards = works(lambda fn=fn: jax.jvp(fn, (tile,), (tile,)))
    backwards = works(lambda fn=fn: jax.vjp(fn, tile))
    print(f"scratch: {scratch!s:5}  jvp: {forwards:20} vjp: {backwards}")

# %% [markdown]
# ### JAX's own check
#
# JAX has a check too: `check_grads` changes all inputs at once, in one random direction, and compares the
# change of the result with the change that the gradient predicts. So it checks all three gradients by a
# single value. Here is one more slip, where db is a sum over the wrong axis. The batch has as many rows as
# there are columns, so the shapes fit. **Guess** whether `check_grads` sees the slip when x is around 1 and
# when it is around 30. Does it see the slip if only b is changed?


# %% tags=["predict"]
from jax.test_util import check_grads


def other_axis(residuals, g):
    x, w, y = residuals
    dx, dw, _ = dense_backward(residuals, g)
    return dx, dw, jnp.where(y > 0, g, 0).sum(axis=1)


def sees(fn, *args):
    try:
        check_grads(jax.jit(fn), args, order=1, modes=["rev"], rtol=0.02)
        return "no objection"
    except AssertionError:
        return "objects"


wrong = with_way_back(other_axis)
one = x[:128], w[:, :128], b[:128]
large = 30 * one[0], *one[1:]  # as if x had been measured in smaller units
print("our layer, x around 30:  ", sees(dense, *large))
print("the slip, x around 1:    ", sees(wrong, *one))
print("the slip, x around 30:   ", sees(wrong, *large))
print("the slip, only b changed:", sees(functools.partial(wrong, *large[:2]), large[2]))
print(judged(wrong, rows=128)[-1])

# %% [markdown]
# With a large x, the gradient with respect to w is large. The error in db is small beside it, and `check_grads`
# does not notice it here. The direction is random, and another one may reveal the error. (The tolerance is wide,
# because the kink of relu disturbs finite differences.) So compare the gradients one by one, as the judge does.
#
# ### Under jit, vmap and remat
#
# > **remat**: JAX's word for recomputing residuals; `jax.checkpoint(f)` is f with remat.
#
# For JAX, a `custom_vjp` is an ordinary function, and three transformations matter in training. `jax.jit` compiles the
# function, and `jax.vmap` adds an axis. `jax.checkpoint` discards the residuals and runs the forward pass again as part
# of the backward pass. (If you run the gradient of a checkpointed kernel here, JAX refuses it because of the
# simulator's callbacks. On a chip there are none, and the judge does not need them.)
#
# **Predict first:** a gradient of `dense` runs three kernels. How many does it run under `jax.checkpoint`?
# And what does `jax.vmap` over two batches do to the grid of the forward kernel, which is (3, 3)?


# %% tags=["predict"]
def loss(fn):
    return lambda *args: (fn(*args) ** 2).sum()


for name, fn in [("dense", dense), ("jax.checkpoint(dense)", jax.checkpoint(dense))]:
    gradient = jax.jit(jax.grad(loss(fn), argnums=(0, 1, 2)))
    calls = [call.name for call in grid.walk(gradient, x, w, b).calls]
    print(f"{name:22} {len(calls)} kernels: {', '.join(calls)}")

batches = jnp.stack([x, -x])
mapped = jax.vmap(dense, in_axes=(0, None, None))
print("jax.vmap               grid", grid.walk(mapped, batches, w, b).calls[0].grid)

few = batches[:, :64], w[:, :128], b[:128]
for name, fn, reference, args in [
    ("checkpoint", jax.checkpoint(dense), dense_in_jax, (few[0][0], *few[1:])),
    ("vmap", mapped, jax.vmap(dense_in_jax, (0, None, None)), few),
]:
    said = judges.judge_gradient(fn, reference, *args, judges=("numbers",))[-1]
    print(f"{name:10} {said}")

# %% [markdown]
# ### What a custom_vjp takes away
#
# A function with a `custom_vjp` has a gradient, but it loses its `jvp`. A gradient of a gradient fails too,
# because it asks for the backward pass of the *backward pass*, which consists of kernels that have none. The
# smallest fix is to make the backward rule a `custom_vjp` of its own, whose gradient is that of plain JAX.


# %%
@jax.custom_vjp
def back(x, w, y, g):
    return dense_backward((x, w, y), g)


def back_in_jax(x, w, y, g):
    dz = jnp.where(y > 0, g, 0)
    return dz @ w.T, x.T @ dz, dz.sum(axis=0)


back.defvjp(
    lambda *args: (back(*args), args),
    lambda args, cotangents: jax.vjp(back_in_jax, *args)[1](tuple(cotangents)),
)


@jax.custom_vjp
def dense_twice(x, w, b):
    return forward(x, w, b)


def twice_forward(x, w, b):
    # Call dense_twice and not forward, because the second gradient differentiates this line.
    y = dense_twice(x, w, b)
    return y, (x, w, y)


dense_twice.defvjp(twice_forward, lambda kept, g: back(*kept, g))


def second(fn):
    once = jax.grad(lambda w: loss(fn)(x, w, b))
    return jax.grad(lambda w: (once(w) ** 2).sum())(w)


print("jvp of dense:             ", works(lambda: jax.jvp(dense, (x, w, b), changes)))
print("second gradient of dense: ", works(lambda: second(dense)))
ours, theirs = second(dense_twice), second(dense_in_jax)
print(
    "the same of dense_twice:   right",
    np.allclose(ours, theirs, rtol=1e-3, atol=1e-3 * jnp.abs(theirs).max()),
)

# %% [markdown]
# ### The gradient that nobody asked for
#
# Nobody uses the gradient of the first layer with respect to the data. In plain JAX the compiler drops what is not
# used. Does it also drop a kernel? Here it does, because dx and dw come from separate kernels. If one kernel computed
# both, the compiler could not split it.

# %%
for name, of in [("all of dx, dw, db", (0, 1, 2)), ("only dw and db", (1, 2))]:
    compiled = compiler.compile_tpu(
        jax.grad(loss(dense), argnums=of), x, w, b, simulate=False
    )
    print(f"{name:18} {sum(op.kind == 'kernel' for op in compiled.ops)} kernels")

# %% [markdown]
# In the library's layer, `course_lib.frameworks.keras.FusedDense`, the dx kernel also writes dz, which the dw kernel
# then reads. Through `symbolic_zeros=True` of `defvjp`, the layer learns beforehand whether anybody asks for the
# gradient with respect to the data. The layer's argument `residuals` is this lesson's choice, "save" or "recompute".
#
# <!-- next -->
