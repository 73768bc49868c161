# %% [markdown]
# # Lesson 1: Hello, kernel
#
# *45 minutes, then 53 for the exercises. The "Further" part is optional and not counted in these times. You need NumPy,
# a little JAX, and five minutes with the page "Start here". You do not need a TPU; with one, your kernels run on it.*
#
# The kernel below adds two vectors and gets every element of the result right, yet a TPU refuses to run it.
#
# You do not have to understand the code yet. Look at it, and write down which line you suspect. In half an hour you
# will get the answer from the compiler of a TPU v5e, the chip that Colab offers for free.
#
# ```python
# def add_kernel(x_ref, y_ref, o_ref):
#     o_ref[...] = x_ref[...] + y_ref[...]
#
# # x and y are float32 vectors of 1000 elements
# block = pl.BlockSpec((100,), lambda i: (i,))
# add = pl.pallas_call(add_kernel, out_shape=x, grid=(10,),
#                      in_specs=[block, block], out_specs=block)
# add(x, y)
# ```
#
# After this lesson you can
# - write a kernel and call it,
# - say what a Ref is and how it differs from an array,
# - run a kernel in four ways: in the simulator, through the compiler of a chip that you do not have, on a chip, and
#   inside a Keras layer,
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
# When you write `x + y` in JAX, a compiler named XLA writes the program that moves the data and adds it. A **kernel**
# is such a program that you write yourself, and Pallas is the part of JAX in which you write it. That is worth the
# trouble when you know something about your problem that the compiler cannot know. Adding vectors is not such a case,
# because XLA does it just as well, but a small example is the best place to learn the basics.
#
# > **kernel**: a program that you write for the chip and that works on data in the chip's small memory.


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
# The cell above has three parts.
#
# - `add_kernel` does the arithmetic, on data that already lies close to the arithmetic units. It returns nothing;
#   instead, it writes its result to memory.
# - `out_shape` promises the shape and dtype of the result, because memory for it has to be reserved beforehand. An
#   array of that shape and dtype will do as well.
# - `pl.pallas_call` turns these two into a function of arrays, which can be jitted like any other.

# %%
jax.jit(add_vectors)(x, y)

# %% [markdown]
# ## What is a Ref?
#
# The arguments of the kernel are not arrays, as a `print` inside a kernel shows. JAX traces a kernel once, like any
# jitted function, so the `print` runs once and shows the stand-ins that JAX traces with.


# %%
def curious_kernel(x_ref, y_ref, o_ref):
    print("x_ref      is", jax.typeof(x_ref))
    print("x_ref[...] is", jax.typeof(x_ref[...]))
    o_ref[...] = x_ref[...] + y_ref[...]


curious = pl.pallas_call(curious_kernel, out_shape=x)
curious(x, y)

# %% [markdown]
# `x_ref` is a **Ref**, a place in memory. The expression `x_ref[...]` reads everything in that place into registers and
# gives you a **value**. You compute with values, and you write the results back to Refs. On a TPU, the place is in
# VMEM, a small memory on the chip itself. Your arrays live in HBM, the large memory beside the chip, which the
# arithmetic units cannot use directly.
#
# > **Ref**: a place in memory that a kernel may read and write; not an array.
# >
# > **HBM**: the large memory beside the chip, where arrays live.
# >
# > **VMEM**: the small memory on the chip, which holds the data that a kernel works on.
# >
# > **register**: one of the few places from which the arithmetic units take their operands. A vector register holds 8
# > rows of 128 elements of 32 bits.
#
# What happens if you forget the `[...]`? JAX's message comes from deep inside the library, so the judges show you a
# translation of it, which the next cell gets from `errors.explain`.


# %%
def forgetful_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref + y_ref


try:
    pl.pallas_call(forgetful_kernel, out_shape=x)(x, y)
except Exception as error:
    print("JAX says:  ", error)
    print("We say:    ", errors.explain(error))

# %% [markdown]
# ## First way to run a kernel: the simulator
#
# If the first cell printed "no TPU here", the kernels above ran on your own machine, in JAX's **TPU simulator**, which
# is slow but strict. It fills memory with NaN before your kernel starts, and it raises an error if the kernel reads or
# writes outside an array. The next kernel writes only half of its output.


# %%
def half_kernel(x_ref, y_ref, o_ref):
    o_ref[:4] = x_ref[:4] + y_ref[:4]


pl.pallas_call(half_kernel, out_shape=x)(x, y)

# %% [markdown]
# Nothing has written the other half of the output, so it holds whatever was in memory before. On a chip, that might be
# an old result, which could even happen to be right. The simulator's NaN makes the mistake visible.

# %% [markdown]
# ## Second way: the compiler of a chip that is not here
#
# `libtpu` is the library that drives a TPU, and its compiler runs even where there is no TPU. `compile_tpu` starts this
# compiler, compiles your kernel for a v5e and returns the compiler's report. The clock of a v5e ticks 1.5 times per
# nanosecond, and its HBM delivers 820 bytes per nanosecond. Before you run the cell, guess how many ticks the kernel
# takes if two vectors of 4096 elements go in and one comes out.

# %% tags=["outputs-not-stored"]
n = 4096
vector = jax.ShapeDtypeStruct((n,), jnp.float32)  # the compiler needs no values

report = compiler.compile_tpu(add_vectors, vector, vector)
print(report)

# %% [markdown]
# The cycles are *predicted (compiler)*: they come from another simulator, which is part of the compiler and counts
# cycles instead of computing results. The line *HBM* gives the number of bytes that the kernel moves between HBM and
# VMEM. You can check it yourself: two vectors go in, one comes out, and each element takes four bytes. You can ignore
# the other lines for now.
#
# > **cycle**: one tick of the chip's clock, of which a v5e has 1.5 per nanosecond.
# >
# > **bundle**: one instruction word of the chip, which tells all of its units what to do in one cycle.
# >
# > **spill**: a value that is kept in VMEM for a while because no register is free.
# >
# > **predicted (compiler)**: counted by the simulator that is part of the TPU's compiler, without timing a chip.

# %%
v5e = chips.chip("v5e")
in_and_out = 3 * 4 * n
at_full_speed = in_and_out / v5e.hbm_bandwidth * v5e.clock_hz
print(f"bytes to move                {in_and_out:>8,}")
print(f"bytes moved, by the report   {report.hbm_bytes:>8,}")
print(f"cycles for them at {v5e.hbm_bandwidth / 1e9:.0f} GB/s  {at_full_speed:>8,.0f}")
print(f"cycles, predicted (compiler) {report.cycles:>8,}")

# %% [markdown]
# The prediction is many times the number of cycles that these bytes need at full speed, although nothing is wrong with
# the kernel. A copy from HBM arrives some time after it is requested, and a kernel that needs all of its data at once
# can do nothing until then. For vectors this short, it spends nearly all of its time on that wait. Lesson 3 compares
# kernels with what the machine allows, and lesson 5 shows how a kernel can work while it waits.
#
# ## Third way: on a chip
#
# On a TPU, the same function runs unchanged, and if the first cell printed "kernels run on the chip", all of the
# kernels above ran there. Otherwise you still have the first two ways, and this course needs no more.

# %%
device = jax.devices()[0]
where = "kernels run on the chip" if device.platform == "tpu" else "no TPU here"
print(f"{where}: the default device is {device.platform}")

# %% [markdown]
# ## A grid: the kernel sees one block at a time
#
# So far, every array was in VMEM as a whole, which is possible only up to a certain size. A v5e has 128 MiB of VMEM, of
# which one kernel may use 16 MiB unless it asks for more, and the two vectors below take 256 MiB each.

# %%
huge = jax.ShapeDtypeStruct((64 * 1024 * 1024,), jnp.float32)
print(compiler.compile_tpu(add_vectors, huge, huge))

# %% [markdown]
# The table below shows how much VMEM each array needs. An array may also come to VMEM piece by piece, and such a piece
# is called a block. Type a smaller block for `x_ref`, `y_ref` and `o_ref`, and find one that fits. The table gives two
# buffers to every array that is larger than its block, and you will soon see why.

# %%
viz.vmem_table(add_vectors, huge, huge)

# %% [markdown]
# So the solution is to cut the arrays into blocks and to run the kernel once for each block.
#
# > **block**: the piece of an array that a kernel sees at once.
# >
# > **grid**: the number of times a kernel runs, along one axis or several. With `grid=(4,)`, it runs four times, one
# > run after another.
# >
# > **step**: one run of a kernel, at one point of its grid.
# >
# > **BlockSpec**: the shape of the blocks of an array, and its index map.
# >
# > **index map**: a function from the index of a step to the number of the block that the step works on.


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


# Without print, a report is shown as pictures.
compiler.compile_tpu(add_in_large_blocks, huge, huge)

# %% [markdown]
# Now the kernel fits: it runs in 256 steps, each of which needs three blocks of 1 MiB. VMEM holds two buffers for each
# of the three, so that the next block can arrive while the kernel works on the current one.
#
# The report gives two times, which differ because each of them leaves something out.
#
# - The time for the *cycles* comes from the compiler's simulator, which knows how long a copy takes to arrive. It does
#   not know that all copies share one memory, so it lets two copies run as fast as one.
# - The time for the *bytes* is what HBM needs for them at full speed. It accounts for the shared memory, but not for
#   any waiting.
#
# Neither is enough alone, so the report predicts the longer of the two. Here that is the time for the bytes, which is
# why the report says *bound by HBM*. For now, you need only the first bar of the picture, which shows that most of the
# cycles go into waiting for copies and few of them into adding.
#
# The next picture compares the long vectors with the short ones. It plots floating-point operations (FLOPs) per second
# against FLOPs per byte moved, a ratio that is the same for both. The slanted line is the speed that HBM allows, and
# the flat line is the speed at which the chip can multiply matrices. The long vectors come near the slanted line, while
# the short ones stay far below both lines because of the wait that you saw above. No kernel that adds two vectors gets
# above the slanted line, whoever writes it. The points come from our own model, which lets copies reach a little less
# than the full speed, so its times differ from the compiler's. Lesson 3 explains the dashed line.

# %%
viz.three_roofs(
    {
        "64 Mi elements": roofline.predict(add_in_large_blocks, huge, huge),
        "4096 elements": roofline.predict(add_vectors, vector, vector),
    }
)

# %% [markdown]
# > **predicted (model)**: computed not by the compiler but by our own model, which is fitted to published timings and
# > built in lesson 3.
#
# Do blocks help the short vectors, too?

# %%
print(compiler.compile_tpu(add_in_blocks, vector, vector))

# %% [markdown]
# The kernel has not changed, and it moves as many bytes as before, but the compiler predicts that it is slower. Each of
# the four steps has to wait for its own copies, and the step before it hides only a part of this wait. Blocks save
# VMEM, but for vectors this short they cost time.
#
# You can step through the grid below: press *Play*, click a block, or click into the picture and use the arrow keys.
# The block that the current step sees is dark blue. Pallas copies the blocks of `x` and `y` from HBM to VMEM before
# each step, and it copies the block of `o` back after the step. The text under the picture counts the bytes.

# %%
viz.grid_player(add_in_blocks, vector, vector)

# %% [markdown]
# `grid.walk` reads the `pallas_call` out of your function and lists, for every step, which block of each operand is in
# VMEM and whether it had to be copied. The player draws this list, and the next cell adds up the copies.

# %%
for row in cost.traffic(grid.walk(add_in_blocks, vector, vector)):
    print(f"{row.name:6} {row.direction:>3}  {row.copies} copies  {row.bytes:,} bytes")

# %% [markdown]
# The next cell gives `y` the index map `lambda i: (i // 2,)`, so that two steps in a row see the same block. Will
# Pallas copy that block twice? Write down yes or no, then run the cell and read, at each step, what the picture says
# below `y_ref`, between HBM and VMEM.


# %% tags=["predict"]
def add_with_a_lazy_y(x, y):
    block = pl.BlockSpec((1024,), lambda i: (i,))
    lazy = pl.BlockSpec((1024,), lambda i: (i // 2,))
    return pl.pallas_call(
        add_kernel, out_shape=x, grid=(4,), in_specs=[block, lazy], out_specs=block
    )(x, y)


viz.grid_player(add_with_a_lazy_y, vector, vector)

# %% tags=["predict"]
for row in cost.traffic(grid.walk(add_with_a_lazy_y, vector, vector)):
    print(f"{row.name:6} {row.direction:>3}  {row.copies} copies  {row.bytes:,} bytes")

# %% [markdown]
# Pallas copies it only once, because a block stays in VMEM while its index stays the same from one step to the next.
# The order of the grid therefore decides how often an array is fetched, which is the subject of lesson 4.
#
# ## The suspect
#
# Pallas also has a plain interpreter, which you choose with `interpret=True`. Tutorials and collections of puzzles
# often check a kernel with nothing else, so does this interpreter find the mistake in the kernel at the top of this
# page? In the next cell, the `with` line turns off the simulator, which would otherwise run the kernel.


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
# The interpreter has no objection, so we ask the four judges, up to the first that refuses. The *numbers* judge
# compares the result with plain JAX, and the *simulator* judge fills memory with NaN and keeps the chip's order of
# steps. The *races* judge lets two cores share the work, and the *compiler* judge asks whether a v5e accepts the
# kernel.

# %%
for verdict in judges.judge(add_in_hundreds, jnp.add, a, b):
    print(verdict)

# %% [markdown]
# Three judges pass the kernel, but the compiler refuses it because of its blocks. If you suspected the line with the
# 100, you were right. A block of one dimension may be the whole array, a multiple of 1024, or a power of two that fills
# at least one row of 128 elements. It may also be larger than its array, as a block of 1024 would be here. These sizes
# come from the chip's vector registers:

# %%
rows, lanes = v5e.sublanes, v5e.lanes
print(f"a vector register of a v5e: {rows} x {lanes} = {rows * lanes} elements of 32 bits")

# %% [markdown]
# The opposite happens as well: the compiler may accept a kernel that is wrong. In the next kernel, the index map counts
# elements where it should count blocks.


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
# The last line of the verdict has one mark for each output block. If a block lies past the end of an array, the
# interpreter moves it back into the array. Steps 1, 2 and 3 therefore all worked on the last block, which is the only
# reason why that block is right. A v5e does not move such a block; it halts.
#
# The last suspect, `fold`, adds the second half of a vector to the first half. Steps 0, 1 and 2 write output blocks 0,
# 1 and 2, and then steps 3, 4 and 5 come back to these blocks and add to them. The kernel uses two functions that are
# new to you.
#
# > **`pl.program_id`**: the index of the current step along one axis of the grid. `pl.program_id(0)` is the `i` of the
# > index maps.
# >
# > **`pl.when`**: runs the function below it only in the steps where a condition holds.
#
# Which judge, if any, will refuse this kernel? Write down your answer, and remember that the numbers judge uses the
# plain interpreter.


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
# When the grid comes back to an output block, that block has already left VMEM for HBM, and it is never copied in
# again. The plain interpreter does copy it in, so the numbers judge passes a kernel that a chip would get wrong. The
# compiler sees nothing illegal, and only the simulator notices that the kernel added to what another block had left in
# the buffer. That is why there are four judges, and why right numbers under `interpret=True` do not make a kernel
# right.
#
# ## Fourth way: inside a Keras layer
#
# Most kernels are written for a model. The first cell of this page has chosen JAX as the backend of Keras
# (`KERAS_BACKEND=jax`), so a layer may call any JAX function, including one that runs a kernel. The next cell tries a
# layer that does nothing else.

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
# To learn the shape of the output, Keras traces `call` once with a batch of unknown size, and a kernel cannot be traced
# that way. You avoid this by telling Keras the shape in `compute_output_shape`. The decorator in the next cell lets
# Keras find the class again when it loads a model.

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
# Does the layer survive saving and loading?

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
# The course's library has this layer for any shape, as `course_lib.frameworks.keras.Add`. The kernel behind it, in
# `course_lib/kernels/elementwise`, is this lesson's kernel with a grid and gradients. Where that kernel cannot run, the
# layer uses plain JAX.

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel ends with <code>return x_ref[...] + y_ref[...]</code>. What happens?</summary>
# Pallas refuses the kernel while tracing it, because a kernel returns nothing and writes to its output Refs
# instead.</details>
#
# <details><summary>2. Your kernel has the right numbers with <code>interpret=True</code>. What do you know?</summary>
# You know that the arithmetic is right. You do not know whether the blocks are legal and fit into VMEM, whether the
# chip allows the order in which they are visited, or whether two cores could share the work.</details>
#
# <details><summary>3. A grid has 4 steps, and the index map of <code>y</code> is <code>lambda i: (0,)</code>. How often
# is <code>y</code> copied?</summary>
# It is copied once, before the first step, because its index never changes.</details>
#
# <details><summary>4. Which is legal for a float32 vector of 4096: a block of 100, of 512, of 1024, of 1536?</summary>
# 512 is legal as a power of two from 128 up, and 1024 as a multiple of 1024, while 100 and 1536 are neither.</details>
#
# <details><summary>5. The report says "predicted (compiler)". Who predicts, and what is it worth?</summary>
# The simulator inside the TPU's compiler predicts the cycles. The predicted time is those cycles divided by the clock,
# or the time to move the bytes, whichever is longer. Such a prediction is good for comparing two versions of a kernel,
# but a claim of speed needs a chip.</details>

# %% [markdown]
# The next cell checks the answer to question 4.


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
# Open [the exercises of lesson 1](../exercises/01_hello_kernel.ipynb). The first exercise is the kernel that you have
# just seen, with one line missing.

# %% [markdown]
# ## Further
#
# No exercise needs what follows.
#
# ### The family
#
# Pallas is one language with several compilers behind it. The table gives their status according to the [Pallas
# changelog](https://docs.jax.dev/en/latest/pallas/CHANGELOG.html) of JAX 0.11 and 0.12.
#
# | name | you write for | status in JAX 0.11 and 0.12 |
# |---|---|---|
# | Pallas TPU (Mosaic TPU) | the TensorCore of a TPU v4 or later: this course | current |
# | Pallas SparseCore | the SparseCores that some TPUs have, for gathers and scatters; a v5e has none | current |
# | Pallas Mosaic GPU | NVIDIA GPUs, Hopper and Blackwell above all | current |
# | Pallas Triton | NVIDIA GPUs from Ampere on | deprecated since JAX 0.11 |
#
# They all have Refs, grids, and either `pallas_call` or the newer `pl.kernel`, but they make no promise that a kernel
# for one of them is fast, or even legal, on another.
#
# TPUs differ from one another, too, and the next cell prints what JAX knows of their cores. That is not everything:
# according to Google's page on SparseCores, the v4 has some as well.

# %%
print("      TensorCores      SparseCores")
for version in map(pltpu.ChipVersion, ("v4", "v5e", "v5p", "v6e", "7x", "8i", "8t")):
    sparse = pltpu.get_tpu_info_for_chip(version, 1).sparse_core
    cores = version.num_physical_tensor_cores_per_chip
    joined = "as one device" if version.supports_megacore else ""
    print(f"{version!s:5} {cores}  {joined:14} {sparse.num_cores if sparse else 'none'}")

# %% [markdown]
# What runs where? We have tried the first row of this table, and on an H100 the [library's own GPU
# kernels](../docs/gpu.md). The other entries follow from what the packages need.
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
# a single line, `make_kernel_from_pallas(add_vectors, lambda x, y: [(x.shape, x.dtype)])`. An earlier line matters
# more: `jax_import_guard()` must run before JAX is imported, because otherwise JAX locks the TPU and the program hangs.
# The latest release of PyTorch/XLA that we know of is 2.9, of November 2025. Google has announced that TorchTPU, a
# beta, accepts Pallas kernels too, and lesson 17 connects kernels to PyTorch.
#
# **A little history**, as the JAX team tells it in "Pallas: Custom Kernels in JAX" (November 2025), begins with
# OpenAI's Triton, which showed that GPU kernels can be written in Python. The project jax-triton let JAX call such
# kernels. At the same time JAX got Refs, which are memory that can be written to, unlike JAX's functional arrays. The
# first Pallas put the two together, as a kernel language that was made of Refs and compiled by Triton. TPUs and newer
# GPUs then got compilers of their own, both called Mosaic. The name comes from the myth, in which Pallas is a daughter
# of Triton. It turned out that Triton was named after the nucleus of tritium, but the joke stayed.
#
# **Where to read on.** The [Pallas documentation](https://docs.jax.dev/en/latest/pallas/index.html) has a part for TPUs
# and one for GPUs. JAX keeps example kernels in its folder
# [jax/experimental/pallas/ops](https://github.com/jax-ml/jax/tree/main/jax/experimental/pallas/ops), and
# [Tokamax](https://github.com/openxla/tokamax) is a library of kernels for production.
#
# Tutorials on Pallas age fast: `pl.load`, `pl.store` and `pl.dot` are gone, and so is much of what a page from 2024
# tells you. The last cell shows what happens if you use the first of these names today.

# %%
try:
    pl.load
except AttributeError as error:
    print(errors.explain(error))

# %% [markdown]
# <!-- next -->
