# %% [markdown]
# # Lesson 7: Tiled matmul
#
# *60 minutes, then 60 for the exercises. What stands under "Further" is not counted, and no exercise needs it. You need
# lesson 1, lesson 4, and of lesson 5 the buffers and the VMEM; lesson 3 helps with the roofs. A TPU adds one thing: on it
# you see what a float32 product in one pass really is.*
#
# Below is one kernel, a product in blocks of `bm` x `bk` and `bk` x `bn`, and three choices of these three numbers. Each
# makes 512 steps of the same work out of a product of 4096 x 4096 matrices. Run the three cells.

# %%
# FIRST CELL

# %%
# You know this kernel from lesson 4; only CUTS, at the end, is new.
import functools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import bench, chips, compiler, cost, grid, judges, viz


def in_scratch_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def product(x, y, bm, bk, bn, limit=None):
    (m, depth), n = x.shape, y.shape[1]
    return pl.pallas_call(
        in_scratch_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit),
    )(x, y)


def product_in_jax(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype)


CUTS = {"A": (1024, 1024, 128), "B": (1024, 128, 1024), "C": (512, 512, 512)}
for name, (bm, bk, bn) in CUTS.items():
    steps = (4096 // bm) * (4096 // bk) * (4096 // bn)
    print(f"{name}: {steps} steps, in each {bm * bk * bn:,} pairs multiplied and added")

# %%
square = jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16)


def compiled(bm, bk, bn, limit=None, fn=product):
    call = functools.partial(fn, bm=bm, bk=bk, bn=bn, limit=limit)
    return compiler.compile_tpu(call, square, square, time_limit_s=60)


reports = {name: compiled(*blocks) for name, blocks in CUTS.items()}
xla = compiler.compile_tpu(product_in_jax, square, square, time_limit_s=60)
for report in sorted(reports.values(), key=lambda report: report.seconds):
    print(f"one of the three: {report.seconds * 1e6:6.0f} us, predicted (compiler)")
print(f"XLA's own product: {xla.seconds * 1e6:5.0f} us, predicted (compiler)")

# %% [markdown]
# One of them takes nearly twice as long as the others. **Which? And which of the three numbers must not be small?** Write
# down a letter and a name. XLA is faster than all three: can this kernel catch up, with three other numbers?
#
# After this lesson you can
# - say where the sum of a product belongs, in the output or in scratch,
# - choose blocks by bytes, steps and room,
# - make all three axes ragged,
# - multiply operands that are stored transposed,
# - say how exact a product of float32 is.
#
# ## K into the grid
#
# A block with all of K grows with K, so K is cut as well, and gets the last axis of the grid. Below is the same product with
# its sum in `o_ref`. **Predict,** for the grid (3, 2, 3): how often is `o_ref` set to zero, how often is something added, how
# often does it go back to HBM? Then press Play: the lane below VMEM counts the parts of the sum in `o_ref`.


# %% tags=["predict"]
def in_output_kernel(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(2) == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] += product.astype(o_ref.dtype)


def in_output(x, y, bm, bk, bn, out=jnp.float32, limit=None):
    (m, depth), n = x.shape, y.shape[1]
    return pl.pallas_call(
        in_output_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), out),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit),
    )(x, y)


x = jax.random.normal(jax.random.key(0), (48, 384), jnp.bfloat16)
y = jax.random.normal(jax.random.key(1), (384, 256), jnp.bfloat16)
in_small_blocks = functools.partial(in_output, bm=16, bk=128, bn=128)
viz.grid_player(in_small_blocks, x, y)

# %% tags=["predict"]
for row in cost.traffic(grid.walk(in_small_blocks, x, y)):
    print(f"{row.name} {row.copies} copies {row.direction}")

# %% [markdown]
# Six times zero, eighteen times added, six times stored: once for each output block. While k runs, the sum stays. So k is
# last.
#
# ## Where the sum belongs
#
# The output above is float32. A bfloat16 keeps 8 binary digits, so a bfloat16 `o_ref` rounds the sum at each step. The
# kernel of the opening adds in a float32 scratch and rounds once. Lesson 4 compared the two in 32 steps. **What is the
# difference in one step?** And how does each error go on from there? Sketch two curves.

# %% tags=["predict"]
deep_x = jax.random.normal(jax.random.key(2), (16, 4096), jnp.bfloat16)
deep_y = jax.random.normal(jax.random.key(3), (4096, 128), jnp.bfloat16)
exact = np.asarray(deep_x, np.float64) @ np.asarray(deep_y, np.float64)


def relative_error(result, exact):
    difference = np.asarray(result, np.float64) - exact
    return np.sqrt(np.mean(difference**2) / np.mean(exact**2))


plt.rcParams.update(viz.PLOT_STYLE)
steps = (1, 2, 8, 32)
fig, axes = plt.subplots()
for name, kernel in (
    ("the sum in a bfloat16 o_ref", functools.partial(in_output, out=jnp.bfloat16)),
    ("the sum in a float32 scratch", product),
):
    calls = [functools.partial(kernel, bm=16, bk=4096 // n, bn=128) for n in steps]
    found = [relative_error(call(deep_x, deep_y), exact) for call in calls]
    axes.plot(steps, [100 * error for error in found], "o-", label=name)
    print(f"{name:29} {found[0]:.2%} in 1 step, {found[-1]:.2%} in 32")
axes.set_xscale("log", base=2)
axes.set(xlabel="steps over K = 4096", ylabel="error, % of the numbers")
axes.set_xticks(steps, labels=steps)
axes.set_ylim(bottom=0)
axes.legend()
viz.plot_picture(
    fig, "One line rises with the steps, for each step rounds the sum; one is flat."
)

# %% [markdown]
# In one step both round once, and are equally good. So the rounding of the sum is to blame, not the products.
#
# > **Add in `o_ref` if the output has the dtype of the sum. If it is narrower, add in a scratch of that dtype, and write
# > `o_ref` once, in the last step.**
#
# ## Which of the three numbers?
#
# Now the opening. The steps have the same work, so look at what they copy. Both maps use k, the last axis, so a block of x
# and one of y come at every step. **With pencil,** for `A`: how often is all of x copied, and all of y?


# %%
def times_copied(m, n, bm, bn):
    """How often all of x, and all of y, is copied, if K is cut."""
    return n // bn, m // bm


print("             x times  y times   MiB in all   the report says   its HBM alone")
for name, (bm, bk, bn) in CUTS.items():
    x_times, y_times = times_copied(4096, 4096, bm, bn)
    mib = 32 * (x_times + y_times + 1)
    report = reports[name]
    print(
        f"{name} {bm:4} {bk:4} {bn:4} {x_times:4} {y_times:8} {mib:12}",
        f"{report.hbm_bytes / 2**20:17.0f} {report.hbm_seconds * 1e6:11.0f} us",
    )
for name, report in reports.items():
    print(
        f"{name}: {report.seconds * 1e6:5.0f} us, predicted (compiler); binds: {report.bound}"
    )

# %% [markdown]
# > **While K is cut, x is copied N / bn times, y M / bm times, and bk is in neither.**
#
# `A` has bn = 128, and copies x 32 times. So it waits for HBM. `B` has bk = 128, as small a number, and pays nothing for it
# in bytes.
#
# To be sure, an experiment. Twice the bk or twice the bn: either way `A` has half as many steps, each with twice the work.
# **What does the rule say of the two?**

# %% tags=["predict"]
print("predicted (compiler)")
for name, report in (
    ("A, (1024, 1024, 128)", reports["A"]),
    ("bk twice, (1024, 2048, 128)", compiled(1024, 2048, 128)),
    ("bn twice, (1024, 1024, 256)", compiled(1024, 1024, 256)),
):
    print(f"{name:28} {report.hbm_bytes / 2**20:5.0f} MiB {report.seconds * 1e6:6.0f} us")

# %% [markdown]
# A longer bk changes nothing, a longer bn nearly halves the time. So it was the bytes, and not the number of steps.
#
# ## What a step costs beside its products
#
# `B` and `C` copy less than HBM could bring in their time. But they are still far from what the matrix units could do: a
# v5e has four of 128 x 128, which multiply and add 65,536 pairs a cycle. (A v6e has two of 256 x 256: twice as many.) For a
# step of `C` that makes 2048 cycles, and it takes some 300 more. **Predict:** with half of `C`'s bk, and with twice its bk,
# how many more are they: half and twice as many, or about as many?

# %% tags=["predict"]
print("cycles of a step, predicted (compiler)")
print("       bm    bk    bn   MXUs alone    all   beside the products   steps")
by_depth = {256: compiled(512, 256, 512), 512: reports["C"], 1024: compiled(512, 1024, 512)}
for name, bm, bk, bn, report in (
    ("", 512, 256, 512, by_depth[256]),
    ("C", 512, 512, 512, reports["C"]),
    ("", 512, 1024, 512, by_depth[1024]),
    ("B", 1024, 128, 1024, reports["B"]),
):
    steps = 4096**3 // (bm * bk * bn)
    alone, whole = bm * bk * bn / 65536, report.cycles / steps
    print(
        f"{name:3} {bm:5} {bk:5} {bn:5} {alone:12.0f} {whole:6.0f} {whole - alone:21.0f}",
        f"{steps:7}",
    )

# %% [markdown]
# A step costs 300 to 500 cycles beside its products, a short one no less than a long one. In lesson 3, with blocks of 128, a
# step waited for its copies. Here that is the smaller part: with index maps that stand still most of the cycles stay
# (*Further* shows it).
# So make few steps: a longer bk.
# That costs no bytes. What it costs is room.
#
# `B` is not the fastest, though it copies least: copies that hide behind the products are no gain, and a step of `B` costs
# some 100 cycles more than one of `C`. (Is it the sum, loaded and stored at each step? *Further* takes it away and looks.)
#
# ## Room
#
# Two buffers for each operand, and the sum: **2 (bm bk + bk bn + bm bn) times the size of a number, and 4 bm bn.** For
# bfloat16 and blocks of 1024 along all axes: **how much is that?** Does it fit into 16 MiB? Write down a number and a yes
# or a no. In the table you can change the sizes; the compiler has the last word below it.

# %% tags=["predict"]
in_large_blocks = functools.partial(product, bm=1024, bk=1024, bn=1024)
viz.vmem_table(in_large_blocks, square, square)

# %% tags=["predict"]
report = compiler.compile_tpu(in_large_blocks, square, square, simulate=False)
print(f"counted: {cost.vmem_bytes(grid.walk(in_large_blocks, square, square)) / 2**20} MiB")
print(report.error)

# %% [markdown]
# Counted it fits to the last byte, and the compiler refuses it: it wants some room for itself. So leave some, or ask for
# more: with `vmem_limit_bytes=64 * 2**20` blocks may be longer. The longest bk is K itself: **all of K in one block,** and one
# step along k. **Predict,** for bm = bn = 512: how often is x copied now?

# %% tags=["predict"]
MIB = 2**20
whole_k = compiled(512, 4096, 512, limit=64 * MIB)
print(
    "  bm    bk    bn  steps   HBM MiB   VMEM MiB     us     cycles, predicted (compiler)"
)
for (bm, bk, bn), report in (
    ((512, 512, 512), reports["C"]),
    ((512, 1024, 512), by_depth[1024]),
    ((512, 4096, 512), whole_k),
):
    steps = (4096 // bm) * (4096 // bk) * (4096 // bn)
    print(
        f"{bm:4} {bk:5} {bn:5} {steps:6} {report.hbm_bytes / MIB:9.0f}",
        f"{report.vmem_bytes / MIB:10.2f} {report.seconds * 1e6:6.0f} {report.cycles:10,}",
    )
print(
    f"{'XLA (bytes at least)':22} {xla.hbm_bytes / MIB:10.0f} {xla.seconds * 1e6:17.0f}",
    f"{xla.cycles:10,}",
)

# %% [markdown]
# With all of K in one block x is copied once: its map names only i, so it stays while j runs. And there are few steps. So
# (512, 4096, 512) is a little ahead of XLA's own product. (Of XLA's operations a report counts every array once: how XLA
# cuts them it does not say.) The course's library, `course_lib/kernels/matmul`, came to this choice by a search.
#
# It is no rule for all shapes: at K = 65,536 two buffers for each of the two strips would take 256 MiB.
#
# **The opening is answered.** `A` it was, and bn. While K is cut, bm and bn decide the bytes, and bk only the number of
# steps; room ends all three. And yes, the kernel of the opening can be where XLA is. *A good place for a break.*
#
# Three things remain, which this product does not have and your next one may: odd sizes, operands the wrong way round, and
# float32.
#
# ## Ragged on all three axes
#
# What hangs over M or N ends in rows and columns of the output that do not exist, and is dropped. What hangs over K is
# *added up*. Lesson 4 said: choose with `jnp.where`. Here `left` is how much of K is left at this step: of a K of 300, in
# blocks of 128, that is 300, 172, 44. **Which of four kernels are right:** no mask, one for x, one for y, both?


# %%
def within(block, axis, left):
    """The block, with zeros from index ``left`` of an axis on."""
    place = jax.lax.broadcasted_iota(jnp.int32, block.shape, axis)
    return jnp.where(place < left, block, jnp.zeros_like(block))


# product(), with blocks that hang over, and masks
def ragged_product(x, y, masks):
    (m, depth), n = x.shape, y.shape[1]
    bm, bk, bn = 32, 128, 128

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        left = depth - bk * pl.program_id(2)
        x, y = x_ref[...], y_ref[...]
        if "x" in masks:
            x = within(x, 1, left)
        if "y" in masks:
            y = within(y, 0, left)
        acc_ref[...] += jnp.dot(x, y, preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(depth, bk)),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


ragged_x = jax.random.normal(jax.random.key(4), (40, 300), jnp.bfloat16)
ragged_y = jax.random.normal(jax.random.key(5), (300, 200), jnp.bfloat16)
for masks in ("", "x", "y", "xy"):
    call = functools.partial(ragged_product, masks=masks)
    verdict = judges.judge(call, product_in_jax, ragged_x, ragged_y)[-1]
    says = (
        "all four judges pass"
        if verdict.passed
        else f"refused by the judge of {verdict.judge}"
    )
    print(f"masked: {' and '.join(masks) or 'nothing':8} {says}")

# %% [markdown]
# Only with both. Past the end lies anything, and zero times NaN is NaN: a masked x does not help against garbage in y.
#
# ## Operands the wrong way round
#
# A gradient needs `x @ y.T` and `x.T @ y`. If y is transposed before the kernel, an operation of its own may copy it in
# HBM. Inside the kernel `y_ref[...].T` will do, or
#
# > **dot_general**: a product that names the axes which meet. `jax.lax.dot_general(x, y, axes)` takes as axes ((of x), (of
# > y)), and then the batch axes, none here: `(((1,), (0,)), ((), ()))` is the plain product.
#
# **What is `x @ y.T`? And `x.T @ y`?** What is left of x comes first in the result, then what is left of y.

# %% tags=["predict"]
x, y = jnp.ones((2, 3)), jnp.ones((4, 3))
last = jax.lax.dot_general(x, y, (((1,), (1,)), ((), ())))
print(f"the last axes meet:  {x.shape} and {y.shape} make {last.shape}, as x @ y.T does")
x, y = jnp.ones((3, 2)), jnp.ones((3, 4))
first = jax.lax.dot_general(x, y, (((0,), (0,)), ((), ())))
print(f"the first axes meet: {x.shape} and {y.shape} make {first.shape}, as x.T @ y does")

# %% [markdown]
# In a kernel that costs a few percent (*Further* shows it). Mind the index maps: for `x @ y.T` the axis of y that counts the
# output's columns is its first.
#
# ## How exact is a product of float32?
#
# The matrix units of a v5e multiply bfloat16 numbers and add in float32. JAX's page on
# [writing TPU kernels](https://docs.jax.dev/en/latest/pallas/tpu/details.html) says of 32-bit operands that they "will be
# rounded to bfloat16 unless float32 precision is requested": in the dot, with `precision="high"` or `"highest"`. How can a
# unit of bfloat16 do better? Split each float32 number into its leading bits and what these leave over. Two parts each make
# four products, and `"high"` leaves out the one that is too small to matter. `"highest"` makes six of the nine that three
# parts each have.
#
# > **pass**: one product of bfloat16 matrices on the matrix units. A product of float32 takes one, three or six.
#
# So what does a kernel owe? The precision of its reference. If the reference names none, a chip rounds both alike. If it says
# `"highest"`, or adds without a product, a kernel whose product names no precision is wrong on a chip, and the checks of this
# course refuse it.
#
# Below the passes are spelled out in plain JAX. A bfloat16 keeps 8 binary digits, two parts keep 16. **Predict:** about what
# is the relative error of one pass, and of three? Do the errors rise with K?


# %% tags=["predict"]
def parts(a, count):
    """``count`` bfloat16 numbers, held in float32, that add up to nearly a."""
    found = []
    for _ in range(count):
        found.append(a.astype(jnp.bfloat16).astype(jnp.float32))
        a = a - found[-1]
    return found


def in_order(x, y):
    """x @ y, added up in tiles that are 128 deep, as the MXU is. Products of bfloat16 are exact in float32, so that
    nothing but the order of the sum decides its last digits: this one is the same on every CPU."""
    tiles = 0
    for k in range(128):
        tiles += x[:, k::128].T[:, :, None] * y[k::128, None, :]
    return sum(tiles)


def in_passes(x, y, passes):
    """x @ y of bfloat16 parts: 1, 3 or 6 products, the smallest added first."""
    count = {1: 1, 3: 2, 6: 3}[passes]
    xs, ys = parts(x, count), parts(y, count)
    pairs = [(i, j) for i in range(count) for j in range(count) if i + j < count]
    return sum(in_order(xs[i], ys[j]) for i, j in sorted(pairs, key=sum, reverse=True))


def error_at(depth, passes, dtype):
    x = jax.random.normal(jax.random.key(6), (64, depth), dtype).astype(jnp.float32)
    y = jax.random.normal(jax.random.key(7), (depth, 64), dtype).astype(jnp.float32)
    exact = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    error = relative_error(in_passes(x, y, passes), exact)
    return float(f"{error:.0e}")


LEVELS = {
    "bf16 operands": (1, jnp.bfloat16, None),
    "f32, one pass": (1, jnp.float32, None),
    "f32, three passes": (3, jnp.float32, "high"),
    "f32, six passes": (6, jnp.float32, "highest"),
}
depths = (128, 1024, 8192)
error_curves = {
    name: {depth: error_at(depth, passes, dtype) for depth in depths}
    for name, (passes, dtype, _) in LEVELS.items()
}
for name, curve in error_curves.items():
    print(
        f"{name:18} relative error {curve[128]:.0e} at K = 128, {curve[8192]:.0e} at 8192"
    )


# %% tags=["predict"]
def dot_at(precision):
    """One product of 512 x 512 x 512 in each of 64 steps, all on the same blocks."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(
            x_ref[...], y_ref[...], precision=precision, preferred_element_type=jnp.float32
        )

    stays = pl.BlockSpec((512, 512), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((512, 512), jnp.float32),
        grid=(64,),
        in_specs=[stays, stays],
        out_specs=stays,
    )


by_level = {}
for name, (_, dtype, precision) in LEVELS.items():
    factor = jax.ShapeDtypeStruct((512, 512), dtype)
    by_level[name] = compiler.compile_tpu(
        dot_at(precision), factor, factor, time_limit_s=60
    )
cycles = {name: round(report.cycles / 64) for name, report in by_level.items()}
viz.precision_explorer(error_curves, cycles=cycles)

# %% [markdown]
# In one pass the rounding of the operands is the whole error; operands that *are* bfloat16 lose nothing in the product.
# Three passes are 500 times better than one, and six are as good as float32 itself. They take nearly three and six times
# as long. The errors of one and three passes do not rise with K: with random signs the sums grow as their errors do.
#
# That one pass rounds to bfloat16 is the page's word: the rounding is inside the unit, and no program shows it. On your
# machine the judges and the simulator multiply in float32. **A kernel that needs more than three digits of float32 must ask
# for it**, or it is right here and wrong there.
#
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A bfloat16 product of 2048 x 8192 x 1024 (M, K, N), blocks bm = 512, bk = 1024, bn = 256. How often is all
# of x copied, and all of y? How many MiB of y is that?</summary>
# x 1024 / 256 = 4 times, y 2048 / 512 = 4 times: 4 times 16 MiB.</details>
#
# <details><summary>2. And how much VMEM do these blocks need, with a float32 scratch and a bfloat16 output?</summary>
# 2 (512 x 1024 + 1024 x 256 + 512 x 256) x 2 bytes = 3.5 MiB, and 0.5 MiB for the sum: 4 MiB, and what the compiler wants
# for itself.</details>
#
# <details><summary>3. The output is float32, and a bias is to be added at the end. Where do you add up?</summary>
# In <code>o_ref</code>: it has the dtype of the sum, and in the last step the bias is added to it as well.</details>
#
# <details><summary>4. K = 1000 and bk = 256. A colleague masks x, since zero times anything is zero. What is missing?</summary>
# Zero times NaN is NaN, and past the end lies anything. y as well.</details>
#
# <details><summary>5. A float32 product agrees with NumPy to six digits in every judge, and to three on a chip. Why?</summary>
# One pass: the matrix units round to bfloat16. The interpreters multiply in float32. Ask for
# <code>precision="highest"</code>, and pay six passes.</details>

# %% [markdown]
# Questions 1 and 2, for those who like to see it:

# %%
x, y = (jax.ShapeDtypeStruct(s, jnp.bfloat16) for s in ((2048, 8192), (8192, 1024)))
walk = grid.walk(functools.partial(product, bm=512, bk=1024, bn=256), x, y)
for row in cost.traffic(walk):
    print(f"{row.name:6} {row.bytes / MIB:4.0f} MiB")
print(f"VMEM {cost.vmem_bytes(walk) / MIB} MiB")

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 7](../exercises/07_tiled_matmul.ipynb). The first one is a product of few rows.
#
# ## Further
#
# No exercise needs what follows.
#
# ### One block
#
# The simplest product has no grid: both matrices and the result are in VMEM, each as one block. **Predict, with pencil:**
# three bfloat16 matrices of N x N, 16 MiB of VMEM. For N = 256, 512, 1024, 2048, 4096: which fit? And when N doubles, by
# what factor does the *program* grow?


# %% tags=["predict"]
def one_block(x, y):
    def kernel(x_ref, y_ref, o_ref):
        product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = product.astype(o_ref.dtype)

    return pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype)
    )(x, y)


def square_of(n):
    return jax.ShapeDtypeStruct((n, n), jnp.bfloat16)


print("   N   MiB counted   bundles of program")
for n in (256, 512, 1024, 2048, 4096):
    operands = square_of(n), square_of(n)
    counted = cost.vmem_bytes(grid.walk(one_block, *operands)) / 2**20
    words = f"{n:4} {counted:13.3f}"
    if n <= 1024:
        report = compiler.compile_tpu(one_block, *operands, simulate=False)
        words += f" {report.bundles:20,}"
    print(words)

# %% [markdown]
# 2048 does not fit into 16 MiB. One can ask for more with `vmem_limit_bytes` (lesson 5), and a v5e has 128 MiB. 4096 needs
# 96 MiB, and what the compiler wants for itself. Two reasons remain not to.
#
# - The program is written out in full: with every doubling of N it grows about eightfold, as the work does. At 4096 it
#   would have a million bundles.
# - Nothing hides the copies. All of x and y must be there before the first product, and the result leaves after the last.
#
# ### What is in the price of a step?
#
# Many will say: the sum, which is loaded, added to and stored at each step. Take it away: let each product overwrite the one
# before. Or the copies: take them away with index maps that do not move. (Both results are wrong, the steps are the same.)
# **Predict:** of the 300 cycles that a step of `C` has beside its products, how many go with the sum, and how many with the
# copies? And is it the sum of `B`, four times as large, that makes its steps dearer?


# %% tags=["predict"]
def overwriting_kernel(x_ref, y_ref, o_ref, acc_ref):  # = where in_scratch_kernel has +=
    acc_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


# product() with another kernel, or with index maps that stand still
def varied(x, y, bm, bk, bn, limit=None, kernel=in_scratch_kernel, moves=1):
    (m, depth), n = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i * moves, k * moves)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k * moves, j * moves)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


overwriting = functools.partial(varied, kernel=overwriting_kernel)
standing_still = functools.partial(varied, moves=0)
print("cycles of a step beside its products, predicted (compiler)")
print("    as it is   overwritten   standing still")
for name in "BC":
    took = [
        report.cycles / 512 - 2048
        for report in (
            reports[name],
            compiled(*CUTS[name], fn=overwriting),
            compiled(*CUTS[name], fn=standing_still),
        )
    ]
    print(f"{name} {took[0]:9.0f} {took[1]:13.0f} {took[2]:16.0f}")

# %% [markdown]
# Most of it stays, whichever one takes away; `B`'s larger sum is nearly free. Adding needs other units than multiplying, and
# goes on beside it. So the cure is not a cheaper sum but fewer steps.
#
# ### Is scratch dearer?
#
# **Guess** before you run the cell: blocks of 512, a product of 4096, float32 out with the sum in `o_ref`, or bfloat16 out
# with scratch. Which is faster, which moves more bytes, which takes more VMEM?

# %% tags=["predict"]
print("                              us    HBM MiB   VMEM MiB   predicted (compiler)")
for name, report in (
    ("o_ref, float32 out", compiled(512, 512, 512, fn=in_output)),
    ("scratch, bfloat16 out", reports["C"]),
):
    print(
        f"{name:24} {report.seconds * 1e6:7.0f} {report.hbm_bytes / 2**20:9.0f}",
        f"{report.vmem_bytes / 2**20:10.2f}",
    )

# %% [markdown]
# Nearly the same. A float32 output has 32 MiB more to move; scratch is one block more in VMEM, and the output's two blocks
# are half as large. So the choice is about being right.
#
# ### Under the roofs
#
# All of them under the roofs of lesson 3. **Look for one thing:** which of them touches a roof, and which roof?

# %%
chip = chips.chip("v5e")
flops = 2 * 4096**3
points = {**reports, "all of K": whole_k, "XLA (bytes at least)": xla}
fig, axes = plt.subplots()
bend = chip.bf16_flops / chip.hbm_bandwidth
roof = np.array([80.0, bend, 2000.0])
height = np.minimum(chip.bf16_flops, roof * chip.hbm_bandwidth) / 1e12
axes.loglog(roof, height, color="gray", label="the roofs of a v5e")
for mark, (name, report) in zip("osD^v", points.items(), strict=True):
    place = flops / report.hbm_bytes, flops / report.seconds / 1e12
    axes.plot(*place, mark, label=name)
    print(
        f"{name:20} {place[0]:5.0f} FLOPs/byte {place[1]:4.0f} TFLOP/s, predicted (compiler)"
    )
axes.legend(loc="lower right")
axes.set(xlabel="FLOPs/byte", ylabel="TFLOP/s, predicted (compiler)", ylim=(60, 240))
axes.set_xticks([100, 200, 500, 1000], labels=[100, 200, 500, 1000])
axes.set_yticks([75, 100, 150, 200], labels=[75, 100, 150, 200])
axes.minorticks_off()
viz.plot_picture(
    fig,
    "A lies on the slope, the HBM roof. The others lie under the flat roof, by the price of "
    "their steps: B and C well below it, all of K and XLA close to it.",
)

# %% [markdown]
# ### What comes out of a product
#
# `preferred_element_type` names the dtype in which `jnp.dot` adds up and comes out. A matrix unit adds in 32 bits. What if
# one does not ask for it? **For each row guess** what the compiler says, and what the plain JAX of this machine makes of
# 256 products of 10 and 10.


# %% tags=["predict"]
def dot_of(dtype, preferred):
    def kernel(x_ref, y_ref, o_ref):
        product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=preferred)
        o_ref[...] = product.astype(o_ref.dtype)

    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((256, 256), jnp.int32))
    tens = jnp.full((256, 256), 10, dtype)
    return (
        compiler.compile_tpu(call, tens, tens, simulate=False),
        jnp.dot(tens, tens, preferred_element_type=preferred)[0, 0],
    )


for dtype, preferred in (
    (jnp.bfloat16, None),
    (jnp.bfloat16, jnp.float32),
    (jnp.int8, None),
    (jnp.int8, jnp.int32),
):
    report, ten_tens = dot_of(dtype, preferred)
    names = [jnp.dtype(d).name if d else "not named" for d in (dtype, preferred)]
    says = "compiles" if report.ok else "refused"
    print(
        f"{names[0]:9} {names[1]:10} {says:9} 256 * 100 = {ten_tens}, as {ten_tens.dtype}"
    )

# %% [markdown]
# Left out, the product comes in the dtype of its operands. For int8 25,600 does not fit into eight bits, and nobody says a
# word on a CPU: what is left is the rest modulo 256. The TPU's compiler refuses both. **Always name it: float32 for
# floats, int32 for int8.**
#
# ### int8
#
# A product of int8 adds up in int32 and is exact. How many cycles does the product of 512 x 512 x 512 take?


# %%
def int8_dot():
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.int32)

    stays = pl.BlockSpec((512, 512), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((512, 512), jnp.int32),
        grid=(64,),
        in_specs=[stays, stays],
        out_specs=stays,
    )


factor = jax.ShapeDtypeStruct((512, 512), jnp.int8)
report = compiler.compile_tpu(int8_dot(), factor, factor)
print(
    f"int8: {report.cycles / 64:,.0f} cycles, bfloat16: {cycles['bf16 operands']:,}",
    end=" ",
)
print("(predicted (compiler))")
print(f"the data sheet says {chip.int8_ops / chip.bf16_flops:.1f} times as many operations")

# %% [markdown]
# About half, on a v5e: not every TPU multiplies int8 faster. What the numbers mean, a scale for each column say, stands
# beside the product: lesson 9 has it.
#
# ### What a transposed operand costs
#
# Three ways to write `x @ y.T`: `y.T` before the kernel, `y_ref[...].T` inside, and `dot_general`. **Guess:** which costs
# how much more than a plain product?


# %% tags=["predict"]
def strips(kernel, x_axis, y_axis):
    """x @ y in blocks of 512; ``x_axis``, ``y_axis``: which axis of x and of y has the results' rows, columns."""

    def call(x, y):
        m, n = x.shape[x_axis], y.shape[y_axis]
        x_block = (512, x.shape[1]) if x_axis == 0 else (x.shape[0], 512)
        y_block = (y.shape[0], 512) if y_axis == 1 else (512, y.shape[1])
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
            grid=(m // 512, n // 512),
            in_specs=[
                pl.BlockSpec(x_block, lambda i, j: (i, 0) if x_axis == 0 else (0, i)),
                pl.BlockSpec(y_block, lambda i, j: (0, j) if y_axis == 1 else (j, 0)),
            ],
            out_specs=pl.BlockSpec((512, 512), lambda i, j: (i, j)),
        )(x, y)

    return call


def plain_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def turned_inside_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], y_ref[...].T, preferred_element_type=jnp.float32)


def last_axes_kernel(x_ref, y_ref, o_ref):
    axes = (((1,), (1,)), ((), ()))  # the last of x meets the last of y; no batch
    o_ref[...] = jax.lax.dot_general(
        x_ref[...], y_ref[...], axes, preferred_element_type=jnp.float32
    )


def first_axes_kernel(x_ref, y_ref, o_ref):
    axes = (((0,), (0,)), ((), ()))
    o_ref[...] = jax.lax.dot_general(
        x_ref[...], y_ref[...], axes, preferred_element_type=jnp.float32
    )


matrix = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
plain = strips(plain_kernel, 0, 1)
for name, call in (
    ("x @ y", plain),
    ("x @ y.T, before the kernel", lambda x, y: plain(x, y.T)),
    ("x @ y.T, inside", strips(turned_inside_kernel, 0, 0)),
    ("x @ y.T, dot_general", strips(last_axes_kernel, 0, 0)),
    ("x.T @ y, dot_general", strips(first_axes_kernel, 1, 1)),
):
    report = compiler.compile_tpu(call, matrix, matrix)
    others = ", ".join(f"{op.kind} {op.cycles:,}" for op in report.ops if op.cycles)
    print(f"{name:27} {report.cycles:6,} cycles, predicted (compiler): {others}")
    told = [told for bundle in report.listing for told in bundle.instructions]
    pushed = sum("vmatpush" in each and ".xpose" in each for each in told)
    before = sum("vxpose" in each for each in told)
    print(f"{'':27} turned by the push: {pushed} instructions, before it: {before}")
    for note in report.notes:
        if "lie in VMEM" in note:
            print(f"{'':27} the report's note: {note.partition(':')[0]}")

# %% [markdown]
# Before the kernel y.T is a copy here, an operation of its own. (The kernel after it is quicker: XLA keeps
# operands as small as these in VMEM, says the note.) In `dot_general` and inside there is no such thing. For `x @ y.T` y is turned
# as it is pushed into the matrix unit, which costs next to nothing; for `x.T @ y` x is turned before, by instructions of
# their own, which costs a few percent. The two ways inside are equal to the cycle.

# %% [markdown]
# ### Passes in the program
#
# That the compiler makes one, three and six passes can be counted. One `vmatmul` multiplies a register: 8 rows of float32,
# or 16 of bfloat16.

# %%
for name, report in by_level.items():
    rows = sum(
        (16 if "bf16" in told else 8)
        for bundle in report.listing
        for told in bundle.instructions
        if "vmatmul" in told
    )
    print(
        f"{name:18} {rows // 8192:2} times the rows of one product; {cycles[name]:6,} cycles"
    )

# %% [markdown]
# ### Blocks by search
#
# The rules give candidates; the compiler decides between them. `bench.autotune` compiles each and keeps the order. Here are
# some for a shape that is all K: 512 x 8192 x 2048. **Guess the order** before you run the cell.

# %% tags=["predict"]
rows, columns = (
    jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((512, 8192), (8192, 2048))
)


def product_in(x, y, *, blocks):
    return product(x, y, *blocks)


choices = [
    (256, 512, 512),
    (512, 512, 512),
    (512, 2048, 512),
    (512, 256, 2048),
]
print(bench.autotune(product_in, rows, columns, candidates=choices))

# %% [markdown]
# All of M in one block, so that y, the large one, is copied once; then few steps.
#
# ### The article's program beside `pallas_call`
#
# Lesson 5 has the program of the JAX team's article: `pl.kernel`, `emit_pipeline`, blocks of 512, the sum in the output.
# Here is the same pipeline and, beside it, `pallas_call` with the same body and blocks. Which is faster?


# %%
def article(x, y):
    (m, depth), n = x.shape, y.shape[1]

    @pl.kernel(
        out_type=jax.ShapeDtypeStruct((m, n), jnp.float32),
        mesh=pltpu.TensorCoreMesh(axis_name="x", num_cores=1),
    )
    def kernel(x_hbm, y_hbm, o_hbm):
        pltpu.emit_pipeline(
            in_output_kernel,
            in_specs=[
                pl.BlockSpec((512, 512), lambda i, j, k: (i, k)),
                pl.BlockSpec((512, 512), lambda i, j, k: (k, j)),
            ],
            out_specs=pl.BlockSpec((512, 512), lambda i, j, k: (i, j)),
            grid=(m // 512, n // 512, depth // 512),
        )(x_hbm, y_hbm, o_hbm)

    return kernel(x, y)


peak_us = flops / chip.bf16_flops * 1e6
for name, report in (
    ("pl.kernel, emit_pipeline", compiler.compile_tpu(article, square, square)),
    ("pallas_call", compiled(512, 512, 512, fn=in_output)),
):
    us = report.seconds * 1e6
    print(f"{name:25} {us:4.0f} us, {peak_us / us:.0%} of the peak, predicted (compiler)")

# %% [markdown]
# The article says that a kernel as simple as this reaches 90 % and more with well chosen blocks. With 512 along all axes it
# does not quite, in neither form; with all of K in one block you have seen 97 %.
#
# ### On a chip
#
# All three precisions, in a kernel that runs here. On a machine without a TPU you see float32 three times. On a TPU, by the
# page and by the parts, it should be what the picture above says. Nobody has run this cell there yet: you may be the first.


# %%
def float32_product(precision):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], precision=precision)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32))


wide = jax.random.normal(jax.random.key(8), (128, 1024))
tall = jax.random.normal(jax.random.key(9), (1024, 128))
exact = np.asarray(wide, np.float64) @ np.asarray(tall, np.float64)
for precision in (None, "high", "highest"):
    error = relative_error(float32_product(precision)(wide, tall), exact)
    print(f"{precision!s:8}", f"{error:.0e}" if error > 1e-6 else "as good as float32")

# %% [markdown]
# ### A precision from outside
#
# JAX's page also says that the lowering knows `jax.default_matmul_precision`. Does it reach into a kernel that does not name
# a precision?

# %%
factor = jax.ShapeDtypeStruct((512, 512), jnp.float32)
for level in ("bfloat16", "float32"):
    with jax.default_matmul_precision(level):
        report = compiler.compile_tpu(dot_at(None), factor, factor, time_limit_s=60)
    print(f"{level:8} {report.cycles / 64:7,.0f} cycles, predicted (compiler)")

# %% [markdown]
# It does. So the same kernel may be five times dearer in somebody else's program. (And a bfloat16 kernel is refused there,
# if it names no precision.) Where the digits matter, write the precision into the kernel.
#
# <!-- next -->
