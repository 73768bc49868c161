# %% [markdown]
# # Lesson 10: Backward kernels
#
# *60 minutes, then 72 for the exercises. What stands under "Further" is not counted, and no exercise needs it. You need
# lesson 1 for its Keras layer, lesson 3 for the roofs, lesson 4 for the order of steps, lesson 7 for the tiled product and
# lesson 9 for what is done to a block before it leaves. A TPU is not needed: one adds that the layer trains on it.*
#
# Here is a layer in one kernel: `relu(x @ w + b)`. Below it JAX is asked for two derivatives. `jax.jvp` changes the inputs a
# little and says how the output moves. `jax.grad` says how a loss moves with each input. Run the three cells.

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

ROWS, COLUMNS = 64, 128  # of a block


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
# One derivative comes out right and the other not at all. Both are made of the same slopes. JAX knows the slope of every
# operation in this kernel, or the first answer would be wrong.
#
# **Which of these must become something else on the way back?** Write it down: the product, the maximum, a read such as
# `w_ref[...]`, the write to `y_ref[...]`, the grid, an index map. At the end you will have written the kernels that are
# missing. For this layer they will not beat XLA; here you can check every number. Attention is where they win (lesson 13).
#
# After this lesson you can
# - say over which axis each gradient is a sum, from an index map,
# - decide by bytes and FLOPs what to keep for the way back,
# - write dx, dw and db as kernels, and tie them to the forward kernel,
# - find out which of your gradients is wrong, and why,
# - train the layer in Keras, beside the layer it replaces.
#
# ## What was read is added to
#
# A derivative is a table of slopes: how much each output moves with each input. `jax.jvp` multiplies it by a change of the
# inputs. `jax.grad` goes through it the other way: it begins with a number for each output, and ends with one for each input.
#
# > **cotangent**: an array in the shape of a result that says how much a loss moves with each of its numbers. The gradient
# > of an input is a cotangent too, in the shape of that input.
# >
# > **vjp**: the product of a cotangent of the result with the slopes, which gives the cotangents of the inputs.
# > `jax.vjp(f, x)` returns `f(x)` and the function that does it.
#
# What becomes of a read? The function below reads number 0 three times, number 1 never, number 2 once. **Predict first:**
# each number that it returns has a cotangent of 1. What are the cotangents of x?


# %% tags=["predict"]
def reads(x):
    return x[jnp.array([0, 0, 0, 2])]


read, pull_back = jax.vjp(reads, jnp.array([5.0, 6.0, 7.0]))
print("read:      ", read)
print("gradient:  ", pull_back(jnp.ones(4))[0])

# %% [markdown]
# Three reads of one number have become three additions to one number. A kernel reads blocks, and the same holds: **the
# gradient of a block is a sum over all steps that read it.** Which steps are those? The ones among which the index map
# returns the same block. In the maps of this lesson you can read that off: it is the axes that they leave out. (A map such
# as `i // 2` leaves none out, and is a sum over pairs.)
#
# **Predict first:** `forward` runs on 3 x 3 steps, i for rows and j for columns. Over which axis is each of dx, dw and db
# a sum?

# %% tags=["predict"]
call = grid.walk(forward, x, w, b).calls[0]
for operand in call.operands[:3]:
    steps = operand.indices.reshape(*call.grid, -1)
    stays = [letter for n, letter in enumerate("ij") if (np.diff(steps, axis=n) == 0).all()]
    print(
        f"{operand.name}: the map leaves out {stays[0]}, so its gradient is a sum over {stays[0]}"
    )

# %% [markdown]
# Rows are the batch. So dw and db are sums over the batch, and dx is a sum over the columns of the result.
#
# Now we do what a rule would do: transpose the kernel, and leave its grid as it is. Here is dw for the product alone,
# without relu. g is the cotangent of the result. Where the forward kernel read block (0, j) of w, this one adds to block
# (0, j) of dw. **Guess:** which of the four judges refuses it, and why?


# %% tags=["predict"]
def transposed(x, g):
    """dw = x.T @ g on the grid of the forward kernel."""

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
# The numbers are right, and a chip may get them wrong: nobody promises otherwise. Lesson 4 has the reason: the sum of an
# output block that is left and come back to may be lost. Step (0, 0) adds to block (0, 0) of dw, step (0, 1) to another,
# and only step (1, 0) comes back.
#
# The cure is lesson 7's: the axis of the sum goes last. For dw that is i, for dx it is j. **No order of one grid suits
# both, as long as a block of each sum has to leave VMEM.** So each gets a kernel with a grid of its own. (Where all of dw
# fits into VMEM it may stay there: that is 10.10.)
#
# ## A gradient without a backward kernel
#
# You tell JAX the way back with `jax.custom_vjp`. It takes two functions. One runs forward and returns the result, and what
# the way back will need. The other takes that and the cotangent g of the result, and returns a cotangent for each input.
#
# > **`jax.custom_vjp`**: says how a function's gradient is computed, in place of JAX's own rules.
# >
# > **residual**: an array that is kept from the way forward for the way back.
#
# What does the second function compute? Call z = x w + b, so that y = relu(z). Where z is above 0 its cotangent dz is g,
# elsewhere 0. And z > 0 exactly where y > 0, so y will do. dx and dw you can find by shapes alone: dx is [M, K], from
# dz[M, N] and w[K, N], and there is one way to make it. For db shapes do not decide where M = N; the index map of b does:
# it leaves out the rows. **Write down all three** before you read the cell.


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
    """dx, dw and db of a loss in which every number of the result counts differently."""
    return jax.vjp(fn, *args)[1](g)


pairs = zip(gradients(dense_guide, x, w, b), gradients(dense_in_jax, x, w, b), strict=True)
for name, (ours, theirs) in zip(("dx", "dw", "db"), pairs, strict=True):
    print(f"{name} {ours.shape!s:10} right: {bool(jnp.allclose(ours, theirs, atol=1e-3))}")

# %% [markdown]
# The error is gone. This is how a public guide makes its layer trainable, with these residuals and these lines ("Define a
# Custom TPU/GPU Kernel", Keras, December 2025; it has no bias). The guide says that you must supply a second kernel. It
# does not itself: all three lines are plain JAX, which XLA compiles. **A kernel needs a way back. The way back need not
# be a kernel.**
#
# Write one where it saves something. (For this layer it does not: "The train step, compiled", under *Further*.) What the
# slope is at z = 0, where relu has its kink, somebody has to choose. Keras and `jax.nn.relu` take 0, and so does `y > 0`.
#
# ## Save or recompute?
#
# relu is told from y, and y is kept anyway, for the next layer reads it. Other activations need z itself, silu for
# example: z times the sigmoid of z. Two ways are open.
#
# - **Save:** the forward kernel writes z beside y. On the way back it is read.
# - **Recompute:** nothing more is kept. On the way back the product is made once more, x and w being there.
#
# An arrow in the picture is as wide as its bytes. The time of the product comes after it. Read the right column upwards.
# **Look for** what is marked as kept: that memory stays taken until the way back has read it. (y is not marked: this way back
# does not read it.)

# %%
M, K, N = 2048, 512, 2048


def in_bfloat16(*shape):
    return 2 * int(np.prod(shape))  # bytes


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
                viz.Stage("z again, dz", reads={"g": Y, "x": X, "w": W}, writes={"dz": Y}),
                *rest,
            ],
        ),
    },
    chip="v5e",
)

# %% [markdown]
# Saving writes z and reads it: 2 M N numbers. Recomputing costs 2 M K N FLOPs, and x and w are read once more. Which is
# faster? Lesson 3 has both roofs. With bfloat16 numbers and large M and N:
#
# 4 M N / bandwidth = 2 M K N / peak
#
# M and N drop out. It is a rule of thumb: it adds times up, as if no copy ran beside the product. **For which K are both equal
# on a v5e?** Compute it, then run the cell.

# %%
v5e = chips.chip("v5e")
peak = v5e.bf16_flops
print(
    f"K = {2 * peak / v5e.hbm_bandwidth:.0f}, twice the ridge point of {peak / v5e.hbm_bandwidth:.0f}"
)

# %% [markdown]
# > **recompute**: to make an array again on the way back, in place of keeping it.
#
# Below that K recomputing is faster *and* keeps nothing. Above it you pay time for memory, and memory decides: there are as
# many z as there are layers. (*Further* asks the compiler.) For relu the question has one answer: keep y. It is there anyway.
#
# ## dw and db: the batch innermost
#
# Now relu's way back in kernels. First dx. A block of rows of dz is all that a block of rows of dx needs, so let the
# kernel make dz where it stands, and never write it.


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
# All columns lie in one block here, so the sum over j is inside the product. Exercise 10.1 cuts the columns into blocks.
#
# Then dw, with the axis of its sum last: the grid is (j, i). db is a sum over the same axis of the same dz. Read the
# kernel, then answer: **what is `there` for?**


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
# In the forward kernel and in dx, rows past the end spoil only rows past the end, which nobody keeps. Here every row goes
# into every number of dw: a batch of 150 rows in blocks of 64 has a last block of 22. What lies past the end is garbage, and
# 0 times garbage may be NaN. So both are masked, as in lesson 7. `y > 0` is no mask: past the end of y may lie any number.
#
# ## A judge for gradients
#
# All parts are there. The assembly is the guide's, but for its last two lines.


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
# Is it right? `judges.judge_gradient` asks the four judges about the way back, and compares it with the gradient of plain
# JAX. The batch has 70 rows, and the bias is 0. `pre` says what z is: with it more mistakes are known by name.


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
# Now for mistakes. Each function below is a way back with one slip that people make. **Before you run the cell**, say for
# each: which of dx, dw and db is wrong, and how would you notice in training?
#
# 1. Somebody wants the slope at 0 to be 1, and writes `y >= 0`.
# 2. Only whole blocks of rows are summed.


# %%
def with_way_back(backward):
    @jax.custom_vjp
    def layer(x, w, b):
        return forward(x, w, b)

    layer.defvjp(dense_forward, backward)
    return layer


def greater_or_equal(residuals, g):
    x, w, y = residuals
    taken = (y >= 0).astype(y.dtype)  # 1 where this layer lets g through
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
# The first is the one to remember. relu's y is never below 0, so `y >= 0` holds everywhere: the slope is gone. Both leave a
# gradient that points roughly downhill. What does the loss do then? A plot below has both.
#
# ## A layer that trains
#
# Lesson 1 put a kernel into a Keras layer. `fit` asks for gradients, so now it needs `dense`. This is the guide's layer,
# with a bias, and with `compute_output_shape`, which the guide leaves out. `fn` is `dense`, until we try others.

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
# Ones teach nothing. Here are 150 flowers: Fisher's irises, four measurements each, and three species. A batch is 75 of them,
# a block of 64 rows and a ragged one of 11. The twin is `keras.layers.Dense` with the same weights at the start. Two more
# layers train with the slips. **Guess** the order of the four losses after 20 epochs.

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
print("more than 9 of 10 flowers are told right:", fused["accuracy"][-1] > 0.9)
print(
    f"losses apart by less than 1 %: {abs(fused['loss'][-1] / unfused['loss'][-1] - 1) < 0.01}"
)
viz.plot_picture(
    fig,
    "The line of our kernels runs along the middle of the thick one. The two with slips fall as "
    "well.",
)

# %% [markdown]
# Same network, same start, same order of flowers: the curves agree. The slips' curves fall as well. One ends
# higher, the other so near that no plot would show it: the judge did.
#
# Is it worth it? For this layer, no: with Dense XLA writes a faster train step (*Further*). So write the way back in plain
# JAX first; it is your reference anyway. Replace it by kernels where it has to make a large array that your way forward never
# made, as in attention. `course_lib.frameworks.keras.FusedDense` goes on from here: any shape, five activations, z saved or
# recomputed, blocks that it chooses. Exercise 10.5 adds mixed precision, and files.
#
# ## The guess
#
# Of your six: the product and the maximum have slopes that JAX knows. A **read** becomes an addition; the maps say how
# often. A write becomes a read, of g. The **grid** decides whether those additions survive: in the order of the forward grid
# they are torn apart, and you have seen the simulator say so. So the way back is not this kernel in reverse but other
# kernels, with other grids: j last for dx, i last for dw and db. Somebody has to choose them, and what to keep. You have, and
# `fit` has trained with them.

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel's map for s is <code>lambda i, j: (i, 0)</code>. Over which axis is ds a sum, and where does that axis
# go?</summary>
# Over j, the axis that the map leaves out. It goes last in the grid of the kernel that makes ds.</details>
#
# <details><summary>2. Why does the kernel for dx not mask the rows past the end, and the kernel for dw does?</summary>
# In dx a garbage row makes a garbage row, past the end. In dw every row is added into every number.</details>
#
# <details><summary>3. What does relu's way back need of the way forward, and what does silu's?</summary>
# relu's: x, w, and y. silu's: x, w, and z; or b, to make z again.</details>
#
# <details><summary>4. K is 256, the activation is silu, the chip is a v6e. Save z or recompute?</summary>
# Recompute: 2 M K N / peak is less than a quarter of 4 M N / bandwidth, far from where the two cross, and nothing is
# kept.</details>
#
# <details><summary>5. Your loss falls, but more slowly than the twin's. What do you do first?</summary>
# Compare each gradient with that of plain JAX, one by one. With a missing slope or a lost block the loss falls all the
# same.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 10](../exercises/10_backward_kernels.ipynb). In the first five you write the layer that you
# can take to work: its gradients in blocks, for any batch, in float32 and bfloat16, and the class around it.
#
# ## Further
#
# No exercise needs what follows.
#
# ### The train step, compiled
#
# Here the kernels ran in the simulator. On a v5e a whole step of `fit` would be one program: way forward, way back, and
# Adam. The compiler can say what it makes of that. Here is a larger network, with several layers in turn. The cell is folded;
# `train_step` in it is `fit`'s step as one function.
#
# **Predict:** which is the fastest? You know what lesson 9 found about bias and relu.

# %% tags=["folded", "predict"]
from course_lib import compiler


def train_step(layer):
    """One step of ``fit`` for two layers, and what it takes, as shapes."""
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
    ("way back in JAX", functools.partial(FusedDenseTrainable, fn=dense_guide), (256, 512)),
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
print("Here, take", min(found, key=found.get))

# %% [markdown]
# Five kernels, and not six: the data of the first layer has no gradient that anybody asks for.
#
# XLA wins, and with larger blocks we come near. (Of XLA's own code no published time was at hand to check the simulator
# with, so read "near" and not a percentage.) "way back in JAX" is the guide's way, a kernel forward and plain JAX back: for
# this layer it does as well as our kernels. For work, run this cell with the shapes of your network, and take the fastest.
# Our layer wants multiples of its blocks and knows relu alone.
#
# ### Save or recompute, asked of the compiler
#
# The pencil said 480: at K = 512 saving is a little faster. Does the compiler agree? The next cell is folded. It has three
# kernels: `layer` writes z where it is told to, `dz_saved` reads it, `dz_again` computes it. If you open it, read three lines:
# `out_refs[1][...] = z`, the slope in `dz_saved`, the slope in `dz_again`. The rest is lesson 7's grid.

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
    """Copies, in bytes, and products one after the other, in us: predicted (model)."""
    return 1e6 * (copied / v5e.hbm_bandwidth + products * 2 * M * K * N / peak)


inputs, result = [(M, K), (K, N), (1, N)], (M, N)
saved = us(functools.partial(layer, keep=True), *inputs) + us(dz_saved, result, result)
again = us(functools.partial(layer, keep=False), *inputs) + us(dz_again, *inputs, result)
print(f"K = {K}, in us   compiler   model")
print(f"save {saved:19.1f} {added_up(X + W + 5 * Y, 1):7.1f}")
print(f"recompute {again:14.1f} {added_up(2 * (X + W) + 3 * Y, 2):7.1f}")

# %% [markdown]
# dx and dw are left out, the same in both. "model" is the pencil's way: copies and products, one after the other, and saving is
# ahead. The compiler takes less both times: some copies run beside products. Recomputing gains more by it, and comes out
# ahead. So the crossing lies higher than by pencil.
#
# ### At the kink
#
# At z = 0 any slope from 0 to 1 would do for relu. Guess what JAX takes, for `jnp.maximum(z, 0)` and for `jax.nn.relu(z)`.

# %% tags=["predict"]
print("jnp.maximum at 0:", jax.grad(lambda z: jnp.maximum(z, 0.0))(0.0))
print("jax.nn.relu at 0:", jax.grad(jax.nn.relu)(0.0))

# %% [markdown]
# They differ. A z of exactly 0 is rare, until a bias starts at 0 and a row of x is empty: then all of them are. Say which you
# mean.
#
# ### A one-step kernel, and a kernel with scratch
#
# Is a grid to blame then, and a kernel of one step could be differentiated? JAX has no rule for that either; and where a
# kernel keeps scratch, not even `jax.jvp` has one.

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
# JAX has a check too. `check_grads` moves all inputs at once, in one random direction, and compares how the result moves
# with what the gradient says. That is one number for all three gradients. Here is one more slip: db sums over the other axis.
# The batch has as many rows as there are columns, so the shapes fit. **Guess** whether `check_grads` sees it, when x is around
# 1 and around 30, and whether it does if only b is moved.


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
large = 30 * one[0], *one[1:]  # x as somebody measured it, in millimetres say
print("our layer, x around 30:  ", sees(dense, *large))
print("the slip, x around 1:    ", sees(wrong, *one))
print("the slip, x around 30:   ", sees(wrong, *large))
print("the same, b alone moved: ", sees(functools.partial(wrong, *large[:2]), large[2]))
print(judged(wrong, rows=128)[-1])

# %% [markdown]
# With large x the gradient of w is large, and the wrong gradient of b is lost beside it, here: the direction is drawn, and
# another may show it. (The tolerance is wide because relu's kink disturbs finite differences.) So compare gradients one by
# one, as the judge does.
#
# ### Under jit, vmap and remat
#
# > **remat**: JAX's word for recomputing residuals; `jax.checkpoint(f)` is f with remat.
#
# A `custom_vjp` is an ordinary function for JAX. Three transformations matter in training. `jax.jit` compiles. `jax.vmap`
# adds an axis. `jax.checkpoint` throws the residuals away and runs the way forward again on the way back. (Run here, its
# gradient is refused: the simulator's callbacks stand in the way. On a chip there are none, and the judge needs none.)
#
# **Predict first:** a gradient of `dense` runs three kernels. How many does it run under `jax.checkpoint`? And what does
# `jax.vmap` over two batches do to the grid of the forward kernel, (3, 3)?


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
# A function with a `custom_vjp` has a gradient, and loses `jvp`. And a gradient of a gradient asks for the way back of
# the *way back*, which is made of kernels without one. The smallest cure: make the backward rule a `custom_vjp` of its
# own, whose gradient is that of plain JAX.


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
    y = dense_twice(
        x, w, b
    )  # and not forward: this line is differentiated, the second time
    return y, (x, w, y)


dense_twice.defvjp(twice_forward, lambda kept, g: back(*kept, g))


def second(fn):
    once = jax.grad(lambda w: loss(fn)(x, w, b))
    return jax.grad(lambda w: (once(w) ** 2).sum())(w)


print("jvp of dense:             ", works(lambda: jax.jvp(dense, (x, w, b), changes)))
print("second gradient of dense: ", works(lambda: second(dense)))
ours, theirs = second(dense_twice), second(dense_in_jax)
print(
    "with a cure:               right",
    np.allclose(ours, theirs, rtol=1e-3, atol=1e-3 * jnp.abs(theirs).max()),
)

# %% [markdown]
# ### The gradient that nobody asked for
#
# The data of the first layer has no gradient that anybody uses. In plain JAX the compiler drops what is not used. Does it
# drop a kernel? dx and dw are kernels of their own here, so it does. One kernel for both could not be split.

# %%
for name, of in [("all of dx, dw, db", (0, 1, 2)), ("dw and db alone", (1, 2))]:
    compiled = compiler.compile_tpu(
        jax.grad(loss(dense), argnums=of), x, w, b, simulate=False
    )
    print(f"{name:18} {sum(op.kind == 'kernel' for op in compiled.ops)} kernels")

# %% [markdown]
# The library's layer is `course_lib.frameworks.keras.FusedDense`. Its dx kernel makes dz for dw on the way; where the
# data asks for no gradient it knows beforehand, by `symbolic_zeros=True` of `defvjp`. Its argument `residuals` is this
# lesson's question, "save" or "recompute".
#
# <!-- next -->
