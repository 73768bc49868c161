# %% [markdown]
# # Exercises 7: Tiled matmul
#
# You write four kernels, choose blocks for four shapes, answer four questions about sums, repair a kernel with four
# mistakes, and explain one result, all of it without a TPU.
#
# Come here from [lesson 7](../notebooks/07_tiled_matmul.ipynb). About 60 minutes.
# Short of time? Do 07.1, 07.2, 07.5 and 07.7. Want more? 07.9 and 07.10, 75 minutes, begin with an empty cell.

# %%
# FIRST CELL

# %%
import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

# %% [markdown]
# ## 07.1 Few rows: accumulate in the output
#
# *Difficulty 2 of 5. 8 minutes, 14 lines. Fast track.*
#
# Write `few_rows(x, y)`, the matmul of a bfloat16 x[M, K] with few rows and a bfloat16 y[K, N], with a float32 result.
# All M rows are in one block, while N and K are cut into blocks of 128, which divide them, so the grid needs only two
# axes. Accumulate in `o_ref`, without scratch, and decide first which axis of the grid must go last.


# %% answer="07.1"
def few_rows(x, y):
    """Return x[M, K] @ y[K, N], of bfloat16, as float32[M, N]; 128 divides K and N."""
    ### BEGIN SOLUTION

    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    (m, k), n = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        grid=(n // 128, k // 128),
        in_specs=[
            pl.BlockSpec((m, 128), lambda j, k: (0, k)),
            pl.BlockSpec((128, 128), lambda j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((m, 128), lambda j, k: (0, j)),
    )(x, y)
    ### END SOLUTION


# %% check="07.1"
checks.check("07.1", few_rows)

# %%
# checks.hint("07.1")

# %% [markdown]
# ## 07.2 An accumulator in scratch, and a factor for each column
#
# *Difficulty 2 of 5. 6 minutes, 8 lines. Fast track.*
#
# `scaled(x, y, s)` multiplies two bfloat16 matrices and then scales each column by a factor of its own, from s, which
# is float32[1, N]. The call is given: it returns bfloat16, has a float32 scratch, and has K as the last axis of its
# grid. Write the kernel so that it rounds only once.


# %% answer="07.2"
def scaled_kernel(x_ref, y_ref, s_ref, o_ref, acc_ref):
    """Write (x @ y) * s in bfloat16; acc_ref accumulates in float32 along grid axis 2."""
    ### BEGIN SOLUTION

    @pl.when(pl.program_id(2) == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def store():
        o_ref[...] = (acc_ref[...] * s_ref[...]).astype(o_ref.dtype)

    ### END SOLUTION


# %% given="07.2"
def scaled(x, y, s):
    (m, k), n = x.shape, y.shape[1]
    bm = min(m, 32)
    return pl.pallas_call(
        scaled_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, 128), k // 128),
        in_specs=[
            pl.BlockSpec((bm, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
            pl.BlockSpec((1, 128), lambda i, j, k: (0, j)),
        ],
        out_specs=pl.BlockSpec((bm, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, 128), jnp.float32)],
    )(x, y, s)


# %% check="07.2"
checks.check("07.2", scaled)

# %%
# checks.hint("07.2")

# %% [markdown]
# ## 07.3 Predict: what a sum can hold
#
# *Difficulty 3 of 5. 7 minutes, 4 lines.*
#
# Answer A and B with a plain number, and C with text such as `"12,345 cycles"`.
#
# - **A** If a bfloat16 sum begins at 0, and 1 is added to it again and again, at which value does it stop growing?
# - **B** int8 values go from -128 to 127, and int32 ends at 2,147,483,647. What is the smallest K for which the matmul
#   of two int8 matrices can exceed the range of int32?
# - **C** A float32 matmul of 1024 x 1024 x 1024 has `precision="highest"`. How many cycles are the matrix units busy,
#   if they do 65,536 bfloat16 multiply-adds per cycle?
# - **D** Three passes split x into x1 + x2 and y into y1 + y2. Which of the four products do they leave out: `"x1 y1"`,
#   `"x1 y2"`, `"x2 y1"` or `"x2 y2"`?

# %% answer="07.3"
held = {"A": None, "B": None, "C": None, "D": None}
### BEGIN SOLUTION
held |= {
    "A": 256,  # 257 needs nine bits, and the tie rounds to 256
    "B": 131072,  # -128 times -128 is 2**14, and 2**31 is one too large
    "C": "98,304 cycles",  # six passes of 16,384 cycles
    "D": "x2 y2",  # the smallest of the four
}
### END SOLUTION

# %% check="07.3"
checks.check("07.3", held)

# %%
# checks.hint("07.3")

# %% [markdown]
# ## 07.4 The two matmuls of a gradient
#
# *Difficulty 3 of 5. 7 minutes, 14 lines.*
#
# A layer computed `x @ w` in the forward pass, and g[M, N] arrives in the backward pass. The gradients are two matmuls,
# `g @ w.T` with the shape of x, and `x.T @ g` with the shape of w. Write both, with bfloat16 operands and float32
# results. All arrays are small, so use no grid and one block for each of them. Transpose nothing outside the kernels,
# because that may be a copy in HBM. You may write one kernel with two outputs, or two kernels.


# %% answer="07.4"
def gradients(x, w, g):
    """Return g @ w.T and x.T @ g, in float32, for x[M, K], w[K, N] and g[M, N]."""
    ### BEGIN SOLUTION

    def kernel(x_ref, w_ref, g_ref, dx_ref, dw_ref):
        columns, rows = (((1,), (1,)), ((), ())), (((0,), (0,)), ((), ()))
        x, w, g = x_ref[...], w_ref[...], g_ref[...]
        dx_ref[...] = jax.lax.dot_general(g, w, columns, preferred_element_type=jnp.float32)
        dw_ref[...] = jax.lax.dot_general(x, g, rows, preferred_element_type=jnp.float32)

    out = [jax.ShapeDtypeStruct(a.shape, jnp.float32) for a in (x, w)]
    return pl.pallas_call(kernel, out_shape=out)(x, w, g)
    ### END SOLUTION


# %% check="07.4"
checks.check("07.4", gradients)

# %%
# checks.hint("07.4")

# %% [markdown]
# ## 07.5 Configure only: blocks for four shapes
#
# *Difficulty 3 of 5. 12 minutes, 4 lines. Fast track.*
#
# The kernel of the lesson's opening is given, with 16 MiB of VMEM, and you choose its blocks. For each of these
# bfloat16 matmuls M x K x N, the time, predicted (compiler), may be at most 1.15 times that of the best blocks that our
# search has found:
#
# - 512 x 8192 x 2048,
# - 16 x 4096 x 4096,
# - 4096 x 256 x 4096,
# - 1024 x 1024 x 1024.
#
# The judges also call your function with smaller sizes, all of which are powers of two and at least 16, and each block
# size must divide its axis. The check compiles four matmuls, so give it half a minute.


# %% answer="07.5"
def blocks(m, k, n):
    """Return (bm, bk, bn) for x[m, k] @ y[k, n]."""
    ### BEGIN SOLUTION
    if k <= 512:  # an output block has few steps, so make it large
        return min(m, 1024), k, min(n, 1024)
    return min(m, 512), min(k, 4096 if m <= 16 else 2048), min(n, 512)
    ### END SOLUTION


# %% given="07.5"
def product_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def product(x, y):
    (m, k), n = x.shape, y.shape[1]
    bm, bk, bn = blocks(m, k, n)
    return pl.pallas_call(
        product_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, k // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


# %% check="07.5"
checks.check("07.5", blocks)

# %%
# checks.hint("07.5")

# %% [markdown]
# ## 07.6 Repair: four mistakes
#
# *Difficulty 3 of 5. 8 minutes, 4 lines to change.*
#
# `broken(x, y)` should multiply two bfloat16 matrices and round the result once. It has four mistakes. Copy it into the
# answer cell as `mended` and check it. Then mend what the verdict names, and check again. Keep the blocks: 32 divides
# M, and 128 divides K and N.


# %% given="07.6-broken"
def broken(x, y):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        acc_ref[...] += jnp.dot(
            x_ref[...], y_ref[...], preferred_element_type=jnp.float32
        ).astype(acc_ref.dtype)

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    (m, depth), n = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(depth // 128, m // 32, n // 128),
        in_specs=[
            pl.BlockSpec((32, 128), lambda k, i, j: (i, k)),
            pl.BlockSpec((128, 128), lambda k, i, j: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 128), lambda k, i, j: (j, i)),
        scratch_shapes=[pltpu.VMEM((32, 128), jnp.bfloat16)],
    )(x, y)


# %% answer="07.6"
def mended(x, y):
    """Return x[M, K] @ y[K, N], of bfloat16, summed in float32 and rounded once."""
    ### BEGIN SOLUTION

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    (m, depth), n = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // 32, n // 128, depth // 128),
        in_specs=[
            pl.BlockSpec((32, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)],
    )(x, y)
    ### END SOLUTION


# %% check="07.6"
checks.check("07.6", mended)

# %%
# checks.hint("07.6")

# %% [markdown]
# ## 07.7 A ragged K, and a transposed y
#
# *Difficulty 3 of 5. 8 minutes, 12 lines. Fast track.*
#
# `against_rows(x, y)` is `x @ y.T` of bfloat16 x[M, K] and y[N, K], for any sizes. The call is given; it cuts K, and
# the rows of y, into blocks of 128. Write the kernel, whose argument `depth` is K.


# %% answer="07.7"
def against_rows_kernel(x_ref, y_ref, o_ref, acc_ref, *, depth):
    """Write x @ y.T; acc_ref accumulates along grid axis 2, and K has ``depth`` elements."""
    ### BEGIN SOLUTION

    @pl.when(pl.program_id(2) == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    def inside(block):
        column = jax.lax.broadcasted_iota(jnp.int32, block.shape, 1)
        left = depth - 128 * pl.program_id(2)
        return jnp.where(column < left, block, jnp.zeros_like(block))

    acc_ref[...] += jax.lax.dot_general(
        inside(x_ref[...]),
        inside(y_ref[...]),
        (((1,), (1,)), ((), ())),
        preferred_element_type=jnp.float32,
    )

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    ### END SOLUTION


# %% given="07.7"
def against_rows(x, y):
    (m, depth), n = x.shape, y.shape[0]
    return pl.pallas_call(
        functools.partial(against_rows_kernel, depth=depth),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, 32), pl.cdiv(n, 128), pl.cdiv(depth, 128)),
        in_specs=[
            pl.BlockSpec((32, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (j, k)),
        ],
        out_specs=pl.BlockSpec((32, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)],
    )(x, y)


# %% check="07.7"
checks.check("07.7", against_rows)

# %%
# checks.hint("07.7")

# %% [markdown]
# ## 07.8 Explain: which block size, and why
#
# *No points. 4 minutes, two or three sentences.*
#
# Somebody has a slow matmul of 4096 x 4096 matrices in blocks of (1024, 1024, 128). They double bk to 2048, "since
# larger blocks are better", and nothing changes. Which of the three block sizes should be larger, what does a longer bk
# gain, and what limits both? Write your answer, and run both cells, so that the check shows ours. Then judge yours:
# below your text, add `checks.assess("07.8", "yes")`, or `"partly"`, or `"no"`.

# %% answer="07.8"
why = None
### BEGIN SOLUTION
why = """bn should be larger: all of x is copied once for each block of columns, N / bn times,
and all of y M / bm times. bk is in neither count while it is less than K, so it does not
change the bytes that HBM has to deliver. A longer bk makes fewer steps, each of which has an
overhead of 300 to 500 cycles. Both end where two buffers of each block and the accumulator
no longer fit into VMEM."""
checks.assess("07.8", "yes")
### END SOLUTION

# %% check="07.8"
checks.check("07.8", why)

# %%
# checks.hint("07.8")

# %% [markdown]
# ## 07.9 From an empty cell: a float32 matmul from bfloat16 ones
#
# *Difficulty 4 of 5. 30 minutes, 30 lines. Further.*
#
# Write `careful(x, y)`, the matmul of float32 matrices x[M, K] and y[K, N], from bfloat16 matmuls alone and without
# `precision=`. Every dot in your kernel takes bfloat16 operands. The relative error of the result (root mean square)
# may be at most 0.00003; that of one pass is some 0.002. M, K and N may have any size, and K is long, so cut it into
# blocks and mask those that extend past its end. The blocks may not grow with any of the three axes.

# %% answer="07.9"
careful = None
### BEGIN SOLUTION


def careful(x, y):
    (m, depth), n = x.shape, y.shape[1]
    bm, bk, bn = 32, 128, 128

    def two_parts(block, axis):
        place = jax.lax.broadcasted_iota(jnp.int32, block.shape, axis)
        block = jnp.where(place < depth - bk * pl.program_id(2), block, 0)
        leading = block.astype(jnp.bfloat16)
        return leading, (block - leading.astype(jnp.float32)).astype(jnp.bfloat16)

    def dot(a, b):
        return jnp.dot(a, b, preferred_element_type=jnp.float32)

    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        x1, x2 = two_parts(x_ref[...], 1)
        y1, y2 = two_parts(y_ref[...], 0)
        o_ref[...] += dot(x2, y1) + dot(x1, y2) + dot(x1, y1)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(depth, bk)),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
    )(x, y)


### END SOLUTION

# %% check="07.9"
checks.check("07.9", careful)

# %%
# checks.hint("07.9")

# %% [markdown]
# ## 07.10 Golf: 4096 x 4096 x 4096
#
# *Difficulty 5 of 5. 45 minutes, 60 lines. Further.*
#
# Write `fast(x, y)`, a matmul of bfloat16 matrices that accumulates in float32, in as few cycles as possible, predicted
# (compiler), for 4096 x 4096 x 4096. You may write any kernel that is faster than the one in the lesson's *Room*, where
# blocks of (512, 4096, 512) take 1,075,003 cycles. The matrix units alone need 1,048,576 of these, so find out what the
# rest is spent on. The judges call `fast` with small sizes, powers of two from 128 on, so limit your blocks to the size
# of the arrays. If your kernel needs more than 16 MiB of VMEM, ask for it with `vmem_limit_bytes`. A check may take
# half a minute, because a long step is a long program.

# %% answer="07.10"
fast = None
### BEGIN SOLUTION


def fast(x, y):
    (m, depth), n = x.shape, y.shape[1]
    bm, bk, bn = min(m, 512), min(depth, 512), min(n, 512)
    rows, columns, pieces = m // bm, n // bn, depth // bk
    steps = rows * columns

    def kernel(x_hbm, y_hbm, o_hbm, xs, ys, out, acc, piece_sem, x_sem, y_sem, o_sem):
        def piece_of_x(c):
            at = pl.ds(pl.multiple_of(c * bk, bk), bk)
            return pltpu.make_async_copy(
                x_hbm.at[pl.ds(0, bm), at], xs.at[0, :, at], piece_sem.at[0, c]
            )

        def piece_of_y(c):
            at = pl.ds(pl.multiple_of(c * bk, bk), bk)
            return pltpu.make_async_copy(
                y_hbm.at[at, pl.ds(0, bn)], ys.at[0, at], piece_sem.at[1, c]
            )

        def strip_of_x(i):
            return pltpu.make_async_copy(x_hbm.at[pl.ds(i * bm, bm)], xs.at[i], x_sem.at[i])

        def strip_of_y(j):
            return pltpu.make_async_copy(
                y_hbm.at[:, pl.ds(j * bn, bn)], ys.at[j], y_sem.at[j]
            )

        def block_out(t):
            i, j = t // columns, t % columns
            to = o_hbm.at[pl.ds(i * bm, bm), pl.ds(j * bn, bn)]
            return pltpu.make_async_copy(out.at[t % 2], to, o_sem.at[t % 2])

        for c in range(pieces):
            piece_of_x(c).start()
            piece_of_y(c).start()
        for j in range(1, columns):
            strip_of_y(j).start()
        for i in range(1, rows):
            strip_of_x(i).start()

        def product_of_pieces(c):
            piece_of_x(c).wait()
            piece_of_y(c).wait()
            at = pl.ds(pl.multiple_of(c * bk, bk), bk)
            return jnp.dot(xs[0, :, at], ys[0, at], preferred_element_type=jnp.float32)

        acc[...] = product_of_pieces(0)

        @pl.loop(1, pieces)
        def first_block(c):
            acc[...] += product_of_pieces(c)

        out[0] = acc[...].astype(out.dtype)
        block_out(0).start()

        @pl.loop(1, steps)
        def other_blocks(t):
            i, j = t // columns, t % columns

            @pl.when(i == 0)
            def new_columns():
                strip_of_y(j).wait()

            @pl.when(j == 0)
            def new_rows():
                strip_of_x(i).wait()

            @pl.when(t >= 2)
            def buffer_is_free():
                block_out(t - 2).wait()

            product = jnp.dot(xs[i], ys[j], preferred_element_type=jnp.float32)
            out[t % 2] = product.astype(out.dtype)
            block_out(t).start()

        for t in range(max(steps - 2, 0), steps):
            block_out(t).wait()

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        in_specs=[anywhere, anywhere],
        out_specs=anywhere,
        scratch_shapes=[
            pltpu.VMEM((rows, bm, depth), x.dtype),
            pltpu.VMEM((columns, depth, bn), y.dtype),
            pltpu.VMEM((2, bm, bn), x.dtype),
            pltpu.VMEM((bm, bn), jnp.float32),
            pltpu.SemaphoreType.DMA((2, pieces)),
            pltpu.SemaphoreType.DMA((rows,)),
            pltpu.SemaphoreType.DMA((columns,)),
            pltpu.SemaphoreType.DMA((2,)),
        ],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=100 * 2**20),
    )(x, y)


### END SOLUTION

# %% check="07.10"
checks.check("07.10", fast)

# %%
# checks.hint("07.10")

# %% [markdown]
# <!-- next -->
