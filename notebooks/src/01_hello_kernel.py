# %% [markdown]
# # Lesson 1: Hello, kernel
#
# *45 minutes, then 53 for the exercises. You need NumPy, a little JAX, and five minutes with *Start here*. You need no
# TPU. If you have one, your kernels run on it.*
#
# Below stands a kernel that adds two vectors. Every number it computes is right. A TPU refuses to run it.
#
# You need not understand it yet. Look at it, and write down which line you suspect. In half an hour the compiler of a
# TPU v5e, the chip that Colab lends for free, will answer, on the machine you are sitting at.
#
# ```python
# def add_kernel(x_ref, y_ref, o_ref):
#     o_ref[...] = x_ref[...] + y_ref[...]
#
# # x and y: 1000 numbers each, float32
# block = pl.BlockSpec((100,), lambda i: (i,))
# add = pl.pallas_call(add_kernel, out_shape=x, grid=(10,),
#                      in_specs=[block, block], out_specs=block)
# add(x, y)
# ```
#
# After this lesson you can
# - write a kernel and call it,
# - say what a Ref is, and what it is not,
# - run a kernel four ways: simulated, compiled for a chip that is not there, on a chip, inside a Keras layer,
# - read what the judges say.

# %%
# FIRST CELL

# %%
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, compiler, cost, errors, grid, judges, roofline, viz

# %% [markdown]
# ## A kernel in three lines
#
# `x + y` on a TPU works without you: XLA, the compiler behind `jax.jit`, writes the program that moves the data and
# adds it. A **kernel** is that program, written by you, and Pallas is the part of JAX you write it in. Why would you?
# Because now and then you know something about your problem that the compiler cannot know. This lesson's kernel is
# one XLA writes just as well; the point is to learn the moves on something small.
#
# > **kernel**: a program for the chip, written by you, that works on data in the chip's small memory.


# %%
def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def add_vectors(x, y):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(add_kernel, out_shape=out)(x, y)


x = jnp.arange(8.0)
y = 10 * jnp.arange(8.0)
add_vectors(x, y)

# %% [markdown]
# Three things happened.
#
# - `add_kernel` says what to do with memory that is close to the arithmetic units. It returns nothing: it writes.
# - `out_shape` promises the shape and dtype of the result, because somebody has to reserve room for it beforehand. Any
#   array of that shape and dtype will do as a promise, too.
# - `pl.pallas_call` turns the two into a function of arrays.
#
# It can be jitted like any other function of arrays.

# %%
jax.jit(add_vectors)(x, y)

# %% [markdown]
# ## What is a Ref?
#
# The kernel's arguments are not arrays. Let us look: a kernel is traced once, like any jitted function, so a `print`
# in it runs once, with stand-ins for the real things.


# %%
def curious_kernel(x_ref, y_ref, o_ref):
    print("x_ref      is", jax.typeof(x_ref))
    print("x_ref[...] is", jax.typeof(x_ref[...]))
    o_ref[...] = x_ref[...] + y_ref[...]


curious = pl.pallas_call(curious_kernel, out_shape=x)
curious(x, y)

# %% [markdown]
# `x_ref` is a **Ref**: a place in memory. `x_ref[...]` is a **value**: what lies there, read into registers. You
# compute with values, and you write them back to places. On a TPU the place is VMEM, a small memory on the chip itself.
# The large memory beside it, HBM, is where your arrays live; nothing can be computed on directly there.
#
# > **Ref**: a place in memory that a kernel may read and write; not an array.
# >
# > **HBM**: the large memory beside the chip, where arrays live.
# >
# > **VMEM**: the small memory on the chip. What a kernel works on lies there.
# >
# > **register**: one of the few places from which the arithmetic units take their operands. A vector register holds 8 rows
# > of 128 numbers of 32 bits.
#
# What happens to someone who forgets the `[...]`? The raw message comes from deep inside JAX. The judges translate.


# %%
def forgetful_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref + y_ref


try:
    pl.pallas_call(forgetful_kernel, out_shape=x)(x, y)
except Exception as error:
    print("JAX says:  ", error)
    print("We say:    ", errors.explain(error))

# %% [markdown]
# ## Run it, first way: the simulator
#
# The cells above ran where you are. If the first cell printed "no TPU here", they ran in JAX's **TPU simulator**: slow,
# but strict. It fills memory with NaN before your kernel starts, and it raises when you leave an array. Watch what it
# makes of a kernel that writes half of its output.


# %%
def half_kernel(x_ref, y_ref, o_ref):
    o_ref[:4] = x_ref[:4] + y_ref[:4]


pl.pallas_call(half_kernel, out_shape=x)(x, y)

# %% [markdown]
# Nobody wrote the other half, so it is whatever was there. On a chip that would be an old result, perhaps the right one,
# perhaps not. The simulator makes the mistake visible. A real TPU has no reason to put NaN there.

# %% [markdown]
# ## Second way: the compiler of a chip that is not here
#
# `libtpu` is the library that drives a TPU. Its compiler needs no TPU to run. `compile_tpu` hands it your kernel, for a
# v5e, in a process of its own, and reads back what it says. A v5e ticks 1.5 times in a nanosecond, and HBM brings 820
# bytes in one. Before you run the cell, guess: how many ticks for two vectors of 4096 numbers in, and one out?

# %% tags=["outputs-not-stored"]
n = 4096
vector = jax.ShapeDtypeStruct((n,), jnp.float32)  # the compiler needs no values

report = compiler.compile_tpu(add_vectors, vector, vector)
print(report)

# %% [markdown]
# *Predicted (compiler)* means: nobody held a stopwatch. The cycles come from a simulator that is part of the compiler.
# Where the report says HBM, it counts what the kernel moves between HBM and VMEM. That you can count yourself: two
# vectors in, one out, four bytes a number.
#
# > **cycle**: one tick of the chip's clock; a v5e has 1.5 of them in a nanosecond.
# >
# > **bundle**: one instruction word of the chip: what all its units are told in one cycle.
# >
# > **spill**: a value that found no free register and is kept in VMEM meanwhile.
# >
# > **predicted (compiler)**: counted by the simulator that is part of the TPU's compiler. No chip was timed.

# %%
v5e = chips.chip("v5e")
in_and_out = 3 * 4 * n
at_full_speed = in_and_out / v5e.hbm_bandwidth * v5e.clock_hz
print(f"bytes to move                {in_and_out:>8,}")
print(f"bytes moved, by the report   {report.hbm_bytes:>8,}")
print(f"cycles for them at {v5e.hbm_bandwidth / 1e9:.0f} GB/s  {at_full_speed:>8,.0f}")
print(f"cycles, predicted (compiler) {report.cycles:>8,}")

# %% [markdown]
# So the kernel is predicted to take many times the cycles that its bytes take at full speed. Nothing is wrong with the
# kernel. A copy from HBM has to be asked for before it can arrive, and in a single step nothing hides that wait. With few
# numbers it is nearly all there is. Lesson 3 compares a kernel with what the machine allows. Lesson 5 hides the wait.
#
# ## Third way: on a chip
#
# The same function, unchanged. If the first cell printed "kernels run on the chip", you have done this all along. If not,
# the first two ways are what you have, and this course is written for that.

# %%
device = jax.devices()[0]
where = "kernels run on the chip" if device.platform == "tpu" else "no TPU here"
print(f"{where}: the default device is {device.platform}")

# %% [markdown]
# ## A grid: the kernel sees one block at a time
#
# So far all of both arrays was in VMEM at once. That ends at some size, and the compiler knows which. A v5e has 128 MiB of
# VMEM, and one kernel may use 16 of them unless it asks for more. Here are two vectors of 256 MiB each.

# %%
huge = jax.ShapeDtypeStruct((64 * 1024 * 1024,), jnp.float32)
print(compiler.compile_tpu(add_vectors, huge, huge))

# %% [markdown]
# The table shows who needs the room. Type a smaller block for `x_ref`, `y_ref` and `o_ref`. It is no longer the whole
# array, so it comes piece by piece, and the table gives it two buffers. Find a block that fits.

# %%
viz.vmem_table(add_vectors, huge, huge)

# %% [markdown]
# So the way out is to cut the arrays into blocks and to let the kernel run once for each.
#
# > **block**: the piece of an array that a kernel sees at once.
# >
# > **grid**: how often a kernel runs, along one axis or several: `grid=(4,)` is four runs, one after another.
# >
# > **step**: one run of a kernel, at one place of its grid.
# >
# > **BlockSpec**: how large the blocks of an array are, and its index map.
# >
# > **index map**: a function from the number of a step to the number of the block that belongs to it.


# %%
def add_in_blocks(x, y, size=1024):
    block = pl.BlockSpec((size,), lambda i: (i,))
    return pl.pallas_call(
        add_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.size // size,),
        in_specs=[block, block],
        out_specs=block,
    )(x, y)


def add_in_large_blocks(x, y):
    return add_in_blocks(x, y, size=256 * 1024)


# Without print, a report shows itself in pictures.
compiler.compile_tpu(add_in_large_blocks, huge, huge)

# %% [markdown]
# 256 steps, and it fits: three blocks of 1 MiB, each held twice, so that the next one can arrive while this one is worked
# on.
#
# The report gives two times, and they differ. Both are right, but they know different things.
#
# - The *cycles* come from the simulator. It knows how long a copy takes to answer. It does not know that all copies share
#   one memory, and lets two of them run as fast as one.
# - The *bytes* at the full speed of HBM know the shared memory, and nothing of waiting.
#
# Neither is enough alone, so the longer one is the prediction. Here it is the bytes: *bound by HBM*. Of the picture
# you need only the first bar for now. Nearly all of the time goes into waiting for copies. Adding is not the work.
#
# Both vectors in one picture. The slanted line is as fast as HBM can bring the numbers, the flat one as fast as the chip
# can multiply matrices. The long vectors come near the slanted line. The short ones lie far below either line, because of
# the wait you saw above. Nothing that adds two vectors gets above the slanted line, whoever writes it. The points are
# from our own model, which lets copies reach a little less than the full speed, so its times differ from the compiler's.
# The dashed line is explained in lesson 3.

# %%
viz.three_roofs(
    {
        "64 Mi numbers": roofline.predict(add_in_large_blocks, huge, huge),
        "4096 numbers": roofline.predict(add_vectors, vector, vector),
    }
)

# %% [markdown]
# > **predicted (model)**: computed by our own model, fitted on published timings, and not by the compiler. Lesson 3 builds
# > it.
#
# Does cutting help the small vectors too?

# %%
print(compiler.compile_tpu(add_in_blocks, vector, vector))

# %% [markdown]
# The kernel did not change, and it moves as many bytes as before. By prediction it got slower: each of the four steps has
# copies of its own to wait for, and only some of that waiting hides behind the step before. Blocks buy room; at a size
# like this they cost time.
#
# Here is the grid, to step through: press *Play*, or click into the picture and use the arrow keys, or click a block. Dark
# blue is the block that the current step sees. Before each step, Pallas copies the blocks of `x` and `y` from HBM to
# VMEM; after it, the block of `o` goes back. The table below counts the bytes.

# %%
viz.grid_player(add_in_blocks, vector, vector)

# %% [markdown]
# The player draws what `grid.walk` finds: it reads the `pallas_call` out of your function and lists, for every step,
# which block of which operand is there, and whether it had to be copied. The same list, as a table:

# %%
for row in cost.traffic(grid.walk(add_in_blocks, vector, vector)):
    print(f"{row.name:6} {row.direction:>3}  {row.copies} copies  {row.bytes:,} bytes")

# %% [markdown]
# Now an experiment. Give `y` the index map `lambda i: (i // 2,)`: two steps in a row see the same block. Will Pallas copy
# it twice? Say yes or no, then run the cell, and read at each step what stands between HBM and VMEM under `y_ref`.


# %%
def add_with_a_lazy_y(x, y):
    block = pl.BlockSpec((1024,), lambda i: (i,))
    lazy = pl.BlockSpec((1024,), lambda i: (i // 2,))
    return pl.pallas_call(
        add_kernel, out_shape=x, grid=(4,), in_specs=[block, lazy], out_specs=block
    )(x, y)


viz.grid_player(add_with_a_lazy_y, vector, vector)

# %%
for row in cost.traffic(grid.walk(add_with_a_lazy_y, vector, vector)):
    print(f"{row.name:6} {row.direction:>3}  {row.copies} copies  {row.bytes:,} bytes")

# %% [markdown]
# A block whose index stays the same stays in VMEM. That rule is worth a lesson of its own (lesson 4), because the order
# of a grid decides how often an array is fetched.
#
# ## The suspect
#
# Back to the kernel at the top of this page. Pallas has a plain interpreter too, `interpret=True`, and the public
# collections of Pallas puzzles that we know check answers with nothing else. Does it see anything wrong? Without the
# `with` line the simulator would run the kernel. The line turns it off.


# %%
def add_in_hundreds(x, y, interpret=False):
    block = pl.BlockSpec((100,), lambda i: (i,))
    return pl.pallas_call(
        add_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(10,),
        in_specs=[block, block],
        out_specs=block,
        interpret=interpret,
    )(x, y)


a, b = jnp.arange(1000.0), jnp.ones(1000)
with pltpu.force_tpu_interpret_mode(None):
    result = add_in_hundreds(a, b, interpret=True)
print("interpret=True gives the right numbers:", bool((result == a + b).all()))

# %% [markdown]
# It has no objection. Now the four judges. *Numbers* compares with plain JAX. *Simulator* fills memory with NaN and keeps
# the chip's order of steps. *Races* lets two cores share the work. *Compiler* asks whether a v5e takes it. The first that
# refuses speaks.

# %%
for verdict in judges.judge(add_in_hundreds, jnp.add, a, b):
    print(verdict)

# %% [markdown]
# Three judges pass it. The compiler does not. If you suspected the 100, you were right. A block in one dimension may be
# the whole array, or a multiple of 1024, or a power of two that fills at least one row of 128. It may be larger than the
# array, as 1024 is here. Those numbers are the shape of the chip's vector registers:

# %%
rows, lanes = v5e.sublanes, v5e.lanes
print(f"a vector register of a v5e: {rows} x {lanes} = {rows * lanes} numbers of 32 bits")

# %% [markdown]
# The reverse happens too: a kernel that the compiler takes, and that is wrong. This index map counts elements where it
# should count blocks.


# %%
def add_with_element_offsets(x, y):
    block = pl.BlockSpec((1024,), lambda i: (1024 * i,))
    return pl.pallas_call(
        add_kernel, out_shape=x, grid=(4,), in_specs=[block, block], out_specs=block
    )(x, y)


c, d = jnp.arange(4096.0), jnp.ones(4096)
print("compiles for a v5e:", compiler.compile_tpu(add_with_element_offsets, c, d).ok)
for verdict in judges.judge(add_with_element_offsets, jnp.add, c, d):
    print(verdict)

# %% [markdown]
# The map has one mark for each block. Why is the last block right? The interpreter moves a block that lies past the end back
# into the array, so steps 1, 2 and 3 all worked on the last one. A v5e does not move it: it halts.
#
# The last suspect adds the second half of a vector to the first. Steps 0, 1 and 2 write output blocks 0, 1 and 2. Steps
# 3, 4 and 5 come back to them and add. Two words are new.
#
# > **`pl.program_id`**: the number of the current step on one axis of the grid. `pl.program_id(0)` is the `i` of the index
# > maps.
# >
# > **`pl.when`**: runs the function below it only at the steps where a condition holds.
#
# What do you expect: is the plain interpreter content? Is the compiler? Write down who refuses.


# %% tags=["predict"]
def fold_kernel(x_ref, o_ref):
    @pl.when(pl.program_id(0) < 3)
    def write():
        o_ref[...] = x_ref[...]

    @pl.when(pl.program_id(0) >= 3)
    def add():
        o_ref[...] += x_ref[...]


def fold(x, interpret=False):
    return pl.pallas_call(
        fold_kernel,
        out_shape=jax.ShapeDtypeStruct((3072,), x.dtype),
        grid=(6,),
        in_specs=[pl.BlockSpec((1024,), lambda i: (i,))],
        out_specs=pl.BlockSpec((1024,), lambda i: (i % 3,)),
        interpret=interpret,
    )(x)


long = jnp.arange(6144.0)
folded = long[:3072] + long[3072:]
with pltpu.force_tpu_interpret_mode(None):
    result = fold(long, interpret=True)
print("interpret=True gives the right numbers:", bool((result == folded).all()))
print("compiles for a v5e:                    ", compiler.compile_tpu(fold, long).ok)
for verdict in judges.judge(fold, lambda x: x[:3072] + x[3072:], long):
    print(verdict)

# %% [markdown]
# By the time the kernel comes back the blocks have left VMEM for HBM, and an output block is never copied in again. The
# numbers judge uses the plain interpreter, which does fetch it again. So it passes a kernel that a chip would get wrong.
# Only the simulator sees that the kernel added to what another block had left in that place. That is why there are four
# judges, and why right numbers under `interpret=True` are not yet a right kernel.
#
# ## Fourth way: inside a Keras layer
#
# A kernel is written to be used in a model. The first cell has chosen JAX for Keras, with KERAS_BACKEND=jax, so a layer may
# call any JAX function, a kernel too. What happens if it does no more than that?

# %%
import keras


class Bare(keras.layers.Layer):
    def call(self, inputs):
        return add_vectors(*inputs)


try:
    Bare()([keras.Input((128,)), keras.Input((128,))])
except Exception as error:
    print(errors.explain(error))

# %% [markdown]
# Keras traces `call` once with a batch of unknown size, only to learn the shape of the output, and a kernel cannot be
# traced so. The way out is to tell Keras the shape: `compute_output_shape`. The decorator lets Keras find the class again
# when it loads a model.

# %%


@keras.saving.register_keras_serializable("lesson_01")
class PallasAddLayer(keras.layers.Layer):
    def call(self, inputs):
        x, y = inputs
        return add_vectors(x, y)

    def compute_output_shape(self, input_shape):
        return input_shape[0]


left, right = keras.Input((128,)), keras.Input((128,))
model = keras.Model([left, right], PallasAddLayer()([left, right]))

ones = jnp.ones((4, 128))
print(model.predict([ones, 2 * ones], verbose=0)[:, :4])

# %% [markdown]
# Does it survive saving and loading?

# %%
import pathlib
import tempfile

with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "model.keras"
    model.save(path)
    again = keras.models.load_model(path)

print(
    "same answers after loading:", bool((again.predict([ones, ones], verbose=0) == 2).all())
)

# %% [markdown]
# The library has this layer for any shape, `course_lib.frameworks.keras.Add`. The kernel behind it is in
# `course_lib/kernels/elementwise`: this lesson's kernel with a grid, gradients, and plain JAX where there is no TPU.

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel ends with <code>return x_ref[...] + y_ref[...]</code>. What happens?</summary>
# Pallas refuses it while tracing. A kernel returns nothing; it writes to its output refs.</details>
#
# <details><summary>2. Your kernel has the right numbers with <code>interpret=True</code>. What do you know?</summary>
# That the arithmetic is right. Not that the blocks are legal, that blocks are visited in an order the chip allows, that
# two cores could share the work, or that it all fits into VMEM.</details>
#
# <details><summary>3. A grid of 4 steps, and the index map of <code>y</code> is <code>lambda i: (0,)</code>. How often is
# <code>y</code> copied?</summary>
# Once, before the first step. Its index never changes.</details>
#
# <details><summary>4. Which is legal for a float32 vector of 4096: a block of 100, of 512, of 1024, of 1536?</summary>
# 512 (a power of two from 128 up) and 1024 (a multiple of 1024). Not 100 and not 1536.</details>
#
# <details><summary>5. The report says "predicted (compiler)". Who predicts, and what is it worth?</summary>
# The cycles come from the simulator inside the TPU's compiler; the time is those cycles over the clock, or the time to
# move the bytes, whichever is longer. Good for comparing two versions of a kernel; a claim of speed needs a chip.</details>

# %% [markdown]
# Question 4, for those who like to see it:


# %%
def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


for size in (100, 512, 1024, 1536):
    block = pl.BlockSpec((size,), lambda i: (i,))
    steps = pl.cdiv(n, size)
    copy = pl.pallas_call(
        copy_kernel, out_shape=vector, grid=(steps,), in_specs=[block], out_specs=block
    )
    answer = "compiles" if compiler.compile_tpu(copy, vector).ok else "refused"
    print(f"a block of {size:4}: {answer}")

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 1](../exercises/01_hello_kernel.ipynb). The first one is the kernel you have just seen,
# with one line missing.

# %% [markdown]
# ## Further
#
# What follows is for reading on. No exercise needs it.
#
# ### The family
#
# Pallas is one language with several compilers behind it. The status is that of the
# [Pallas changelog](https://docs.jax.dev/en/latest/pallas/CHANGELOG.html) of JAX 0.11 and 0.12.
#
# | name | you write for | status in JAX 0.11 and 0.12 |
# |---|---|---|
# | Pallas TPU (Mosaic TPU) | the TensorCore of a TPU v4 or later: this course | current |
# | Pallas SparseCore | the SparseCores that some TPUs have, for gathers and scatters; a v5e has none | current |
# | Pallas Mosaic GPU | NVIDIA GPUs, Hopper and Blackwell above all | current |
# | Pallas Triton | NVIDIA GPUs from Ampere on | deprecated since JAX 0.11 |
#
# They share Refs, grids and `pallas_call` or its younger sister `pl.kernel`, and they share no promise that a kernel
# for one is fast, or even legal, on another.
#
# And the TPUs among themselves? This is what JAX knows of their cores. Google's page on SparseCores has the v4 as well.

# %%
print("      TensorCores      SparseCores")
for version in map(pltpu.ChipVersion, ("v4", "v5e", "v5p", "v6e", "7x", "8i", "8t")):
    sparse = pltpu.get_tpu_info_for_chip(version, 1).sparse_core
    cores = version.num_physical_tensor_cores_per_chip
    joined = "as one device" if version.supports_megacore else ""
    print(f"{version!s:5} {cores}  {joined:14} {sparse.num_cores if sparse else 'none'}")

# %% [markdown]
# What runs where? We have tried the first row only. The others follow from what the packages need.
#
# | you have | simulator | v5e compiler | your kernels on a chip |
# |---|---|---|---|
# | a laptop with Linux, Intel or AMD | yes | yes | |
# | a Mac, or Linux on Arm | yes | no build of libtpu | |
# | Colab with its free TPU v5e-1 | yes | yes | yes, TPU kernels |
# | Colab with its free T4 GPU | yes | yes | no: older than Ampere |
# | an H100, H200 or B200 | yes | yes | GPU kernels (lesson 17) |
#
# **PyTorch** can call the same kernel. In the documentation of PyTorch/XLA ("Custom Kernels via Pallas") the wrapper is
# one line, `make_kernel_from_pallas(add_vectors, lambda x, y: [(x.shape, x.dtype)])`. One line before it matters more:
# `jax_import_guard()` must run before JAX is imported, or the program hangs on a TPU, which JAX has locked. PyTorch/XLA had
# its last release, 2.9, in November 2025. TorchTPU, a beta of Google's, takes Pallas kernels too. Lesson 17 builds the bridge.
#
# **A little history**, after "Pallas: Custom Kernels in JAX" by the JAX team, November 2025. OpenAI's Triton showed that GPU
# kernels can be written in Python. The project jax-triton let JAX call them. At the same time JAX grew Refs: memory that may
# be written to, which its functional arrays cannot. A kernel language made of Refs, with Triton behind it, was the first
# Pallas. TPUs and newer GPUs got compilers of their own, both called Mosaic. In the myth Pallas is a daughter of Triton. The
# name Triton turned out to mean the nucleus of tritium, and the joke stayed.
#
# **Where to read on.** The [Pallas documentation](https://docs.jax.dev/en/latest/pallas/index.html) has a part for TPUs
# and one for GPUs; JAX keeps example kernels in its folder
# [jax/experimental/pallas/ops](https://github.com/jax-ml/jax/tree/main/jax/experimental/pallas/ops);
# [Tokamax](https://github.com/openxla/tokamax) is a library of kernels for production.
#
# Tutorials age fast here. `pl.load`, `pl.store` and `pl.dot` are gone, and so is much of what a page from 2024 tells you.
# What the first of them gives today:

# %%
try:
    pl.load
except AttributeError as error:
    print(errors.explain(error))

# %% [markdown]
# <!-- next -->
