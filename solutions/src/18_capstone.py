# %% [markdown]
# # Exercises 18: Capstone
#
# Choose one of these projects and take it from its contract to a kernel that is near its ideal. Each states what is
# computed, at which sizes, and what the judges check; the lesson says how to specify, predict, build and tune. Cycles
# and times are *predicted (compiler)*, and those of 18.8 *predicted (model)*.
#
# Come here from [lesson 18](../notebooks/18_capstone.ipynb). One project is enough: 18.7 is the shortest, with about 40
# minutes, and the others take one to two hours each.

# %%
# FIRST CELL

# %%
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def largest_of(sizes, length):
    """Return the first of the sizes that divides a length."""
    return next(size for size in sizes if length % size == 0)


# %% [markdown]
# ## 18.1 Project: a linear recurrence
#
# *Difficulty 3 of 5. 60 minutes, 60 lines. Further.*
#
# `recurrence(a, b)` gets two arrays float32[T, D] and returns h, of the same shape, with `h[t] = a[t] * h[t - 1] + b[t]`
# down the rows; `h[-1]` is 0. T and D may be any sizes, |a| is at most 1, and where a is 0 the recurrence starts over.
# The gradient with respect to a and b is judged as well: with `dh[t] = g[t] + a[t + 1] * dh[t + 1]`, it is `db = dh` and
# `da[t] = dh[t] * h[t - 1]`. Both directions are kernels of yours. The score is that of the forward kernel for T =
# 4,096 and D = 2,048, in cycles.


# %% answer="18.1"
recurrence = None
### BEGIN SOLUTION


def forward_kernel(a_ref, b_ref, h_ref, last_ref):
    """Compute a block of rows of h, after the row in last_ref."""

    @pl.when(pl.program_id(1) == 0)
    def begin():
        last_ref[...] = jnp.zeros_like(last_ref)

    def row(t, h):
        at = pl.ds(t, 1)
        h = a_ref[at] * h + b_ref[at]
        h_ref[at] = h
        return h

    last_ref[...] = lax.fori_loop(0, h_ref.shape[0], row, last_ref[...], unroll=8)


def backward_kernel(a_ref, h_ref, above_ref, g_ref, da_ref, db_ref, next_ref, *, rows):
    """Compute a block of rows of da and db; next_ref holds a * dh of the row below."""
    size = h_ref.shape[0]
    block = pl.num_programs(1) - 1 - pl.program_id(1)

    @pl.when(pl.program_id(1) == 0)
    def begin():
        next_ref[...] = jnp.zeros_like(next_ref)

    def row(k, after):
        t = size - 1 - k
        at, inside = pl.ds(t, 1), block * size + t < rows
        dh = g_ref[at] + after
        db_ref[at] = dh
        return jnp.where(inside, a_ref[at] * dh, 0)  # past the end all is garbage

    next_ref[...] = lax.fori_loop(0, size, row, next_ref[...], unroll=8)
    t = lax.broadcasted_iota(jnp.int32, h_ref.shape, 0)
    above = jnp.where(block == 0, 0, above_ref[7:])
    da_ref[...] = db_ref[...] * jnp.where(t == 0, above, pltpu.roll(h_ref[...], 1, 0))


def in_blocks(shape):
    """Return (rows, columns) of a block and the grid: blocks of columns, and the rows of each."""
    rows, columns = min(256, pl.cdiv(shape[0], 8) * 8), min(1024, shape[1])
    return (rows, columns), (pl.cdiv(shape[1], columns), pl.cdiv(shape[0], rows))


def forward(a, b):
    block, grid = in_blocks(a.shape)
    spec = pl.BlockSpec(block, lambda j, i: (i, j))
    return pl.pallas_call(
        forward_kernel,
        out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype),
        grid=grid,
        in_specs=[spec, spec],
        out_specs=spec,
        scratch_shapes=[pltpu.VMEM((1, block[1]), jnp.float32)],
    )(a, b)


def backward(kept, g):
    a, h = kept
    (size, columns), grid = in_blocks(a.shape)
    last = grid[1] - 1
    spec = pl.BlockSpec((size, columns), lambda j, i: (last - i, j))
    above = pl.BlockSpec(
        (8, columns), lambda j, i: (jnp.maximum((last - i) * (size // 8) - 1, 0), j)
    )
    return pl.pallas_call(
        functools.partial(backward_kernel, rows=a.shape[0]),
        out_shape=[jax.ShapeDtypeStruct(a.shape, a.dtype)] * 2,
        grid=grid,
        in_specs=[spec, spec, above, spec],
        out_specs=[spec, spec],
        scratch_shapes=[pltpu.VMEM((1, columns), jnp.float32)],
    )(a, h, h, g)


@jax.custom_vjp
def recurrence(a, b):
    """Return h with h[t] = a[t] * h[t - 1] + b[t]."""
    return forward(a, b)


def keep(a, b):
    h = forward(a, b)
    return h, (a, h)


recurrence.defvjp(keep, backward)


### END SOLUTION

# %% check="18.1"
checks.check("18.1", recurrence)

# %%
# checks.hint("18.1")

# %% [markdown]
# ## 18.3 Project: weights of four bits
#
# *Difficulty 3 of 5. 60 minutes, 30 lines. Further.*
#
# `w4a16(x, q, s)` multiplies x, bfloat16[M, K], by weights of four bits. q is int4[K, N], and s, bfloat16[K / 128, N],
# has a scale for every 128 rows of q: weight (k, n) is `q[k, n] * s[k // 128, n]`. The result is bfloat16[M, N]. M is at
# most 64, as in decoding; K is a multiple of 512 and N of 256. The score is that of M = 16, K = 4,096 and N = 14,336, in
# cycles.


# %% answer="18.3"
w4a16 = None
### BEGIN SOLUTION
GROUP = 128  # rows of q that share a scale


def w4a16_kernel(x_ref, q_ref, s_ref, o_ref):
    """Multiply by all rows of a block of columns, a group at a time."""
    total = jnp.zeros(o_ref.shape, jnp.float32)
    for g in range(s_ref.shape[0]):
        rows = slice(g * GROUP, (g + 1) * GROUP)
        w = q_ref[rows, :].astype(jnp.bfloat16)
        part = jnp.dot(x_ref[:, rows], w, preferred_element_type=jnp.float32)
        total += part * s_ref[g : g + 1, :].astype(jnp.float32)
    o_ref[...] = total.astype(o_ref.dtype)


def w4a16(x, q, s):
    """Return x @ (q * s)."""
    (m, k), n = x.shape, q.shape[1]
    block = largest_of((1024, 512, 256), n)
    return pl.pallas_call(
        w4a16_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(n // block,),
        in_specs=[
            pl.BlockSpec((m, k), lambda j: (0, 0)),
            pl.BlockSpec((k, block), lambda j: (0, j)),
            pl.BlockSpec((k // GROUP, block), lambda j: (0, j)),
        ],
        out_specs=pl.BlockSpec((m, block), lambda j: (0, j)),
    )(x, q, s)


### END SOLUTION

# %% check="18.3"
checks.check("18.3", w4a16)

# %%
# checks.hint("18.3")

# %% [markdown]
# ## 18.5 Project: a linear layer and its cross-entropy
#
# *Difficulty 5 of 5. 120 minutes, 110 lines. Further.*
#
# `cross_entropy(x, w, y)` gets x, bfloat16[T, D], w, bfloat16[D, V], and the labels y, int32[T]. With the logits `z = x
# @ w`, it returns `logsumexp(z[t]) - z[t, y[t]]` for each row, float32[T]. The logits must not be written to HBM. T is a
# multiple of 8, at most 4,096, D is a multiple of 128, and V may be any size; T times D is at most 4,194,304. The
# gradients with respect to x and w are judged as well: with `dz = g * (softmax(z) - onehot(y))`, they are `dz @ w.T` and
# `x.T @ dz`, in bfloat16, and dz may be rounded to bfloat16 before these matmuls. The score is that of the forward kernel
# for T = 2,048, D = 1,024 and V = 32,768, in cycles.


# %% answer="18.5"
cross_entropy = None
### BEGIN SOLUTION
CHUNK = 256  # rows that are multiplied while the exponentials of others are computed


def columns_of(shape, block):
    """Return the column numbers of a block of logits in the whole array."""
    return block * shape[1] + lax.broadcasted_iota(jnp.int32, shape, 1)


def loss_kernel(
    x_ref, w_ref, y_ref, loss_ref, lse_ref, label_ref, m_ref, l_ref, z_ref, *, columns
):
    """Add a block of columns of the logits to the running maximum, sum and label's logit."""
    v = pl.program_id(0)

    @pl.when(v == 0)
    def begin():
        label_ref[...] = y_ref[...].T
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        z_ref[...] = jnp.zeros_like(z_ref)

    rows, width = x_ref.shape[0], w_ref.shape[1]
    for start in range(0, rows, CHUNK):
        at = slice(start, min(start + CHUNK, rows))
        z = jnp.dot(x_ref[at], w_ref[...], preferred_element_type=jnp.float32)
        column = columns_of(z.shape, v)
        if columns % width:
            z = jnp.where(column < columns, z, -jnp.inf)
        m = jnp.maximum(m_ref[at], jnp.max(z, axis=1, keepdims=True))
        l_ref[at] = l_ref[at] * jnp.exp(m_ref[at] - m) + jnp.sum(
            jnp.exp(z - m), axis=1, keepdims=True
        )
        m_ref[at] = m
        is_label = column == label_ref[at]
        z_ref[at] += jnp.sum(jnp.where(is_label, z, 0), axis=1, keepdims=True)

    @pl.when(v == pl.num_programs(0) - 1)
    def end():
        lse = m_ref[...] + jnp.log(l_ref[...])
        lse_ref[...] = lse.T
        loss_ref[...] = (lse - z_ref[...]).T


def gradient_kernel(
    x_ref,
    w_ref,
    y_ref,
    lse_ref,
    g_ref,
    dx_ref,
    dw_ref,
    label_ref,
    l_ref,
    of_row_ref,
    sum_ref,
    dz_ref,
    *,
    columns,
):
    """Compute dz of a block of columns, its dw, and what it adds to dx."""
    v = pl.program_id(0)

    @pl.when(v == 0)
    def begin():
        label_ref[...] = y_ref[...].T
        l_ref[...] = lse_ref[...].T
        of_row_ref[...] = g_ref[...].T
        sum_ref[...] = jnp.zeros_like(sum_ref)

    rows, width = x_ref.shape[0], w_ref.shape[1]
    w = w_ref[...]
    if columns % width:  # garbage times 0 would be NaN
        w = jnp.where(columns_of(w.shape, v) < columns, w, 0)
    for start in range(0, rows, CHUNK):
        at = slice(start, min(start + CHUNK, rows))
        z = jnp.dot(x_ref[at], w, preferred_element_type=jnp.float32)
        column = columns_of(z.shape, v)
        dz = jnp.exp(z - l_ref[at]) - (column == label_ref[at]).astype(jnp.float32)
        dz = jnp.where(column < columns, dz * of_row_ref[at], 0).astype(jnp.bfloat16)
        dz_ref[at] = dz
        sum_ref[at] += lax.dot_general(
            dz, w, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
    dw = lax.dot_general(
        x_ref[...],
        dz_ref[...],
        (((0,), (0,)), ((), ())),
        preferred_element_type=jnp.float32,
    )
    dw_ref[...] = dw.astype(dw_ref.dtype)

    @pl.when(v == pl.num_programs(0) - 1)
    def end():
        dx_ref[...] = sum_ref[...].astype(dx_ref.dtype)


def over_columns(kernel, x, w, *rows, out_shape, out_specs, scratch):
    """Run a kernel on blocks of 512 columns of w, with all of x and of the rows in VMEM."""
    (t, d), width = x.shape, min(512, pl.cdiv(w.shape[1], 128) * 128)
    return pl.pallas_call(
        functools.partial(kernel, columns=w.shape[1]),
        out_shape=out_shape,
        grid=(pl.cdiv(w.shape[1], width),),
        in_specs=[
            pl.BlockSpec((t, d), lambda v: (0, 0)),
            pl.BlockSpec((d, width), lambda v: (0, v)),
            *[pl.BlockSpec((1, t), lambda v: (0, 0))] * len(rows),
        ],
        out_specs=out_specs(width),
        scratch_shapes=scratch(width),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=110 << 20),
    )(x, w, *(row.reshape(1, t) for row in rows))


def loss_and_lse(x, w, y):
    t = x.shape[0]
    column = pltpu.VMEM((t, 1), jnp.float32)
    loss, lse = over_columns(
        loss_kernel,
        x,
        w,
        y,
        out_shape=[jax.ShapeDtypeStruct((1, t), jnp.float32)] * 2,
        out_specs=lambda width: [pl.BlockSpec((1, t), lambda v: (0, 0))] * 2,
        scratch=lambda width: [pltpu.VMEM((t, 1), jnp.int32), column, column, column],
    )
    return loss.reshape(t), lse.reshape(t)


@jax.custom_vjp
def cross_entropy(x, w, y):
    """Return logsumexp(x @ w) - (x @ w)[y] for each row."""
    return loss_and_lse(x, w, y)[0]


def cross_entropy_forward(x, w, y):
    loss, lse = loss_and_lse(x, w, y)
    return loss, (x, w, y, lse)


def cross_entropy_backward(kept, g):
    x, w, y, lse = kept
    t, d = x.shape
    column = pltpu.VMEM((t, 1), jnp.float32)
    dx, dw = over_columns(
        gradient_kernel,
        x,
        w,
        y,
        lse,
        g,
        out_shape=[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, w)],
        out_specs=lambda width: [
            pl.BlockSpec((t, d), lambda v: (0, 0)),
            pl.BlockSpec((d, width), lambda v: (0, v)),
        ],
        scratch=lambda width: [
            pltpu.VMEM((t, 1), jnp.int32),
            column,
            column,
            pltpu.VMEM((t, d), jnp.float32),
            pltpu.VMEM((t, width), jnp.bfloat16),
        ],
    )
    return dx, dw, None


cross_entropy.defvjp(cross_entropy_forward, cross_entropy_backward)


### END SOLUTION

# %% check="18.5"
checks.check("18.5", cross_entropy)

# %%
# checks.hint("18.5")

# %% [markdown]
# ## 18.6 Project: decoding with latent attention
#
# *Difficulty 4 of 5. 75 minutes, 50 lines. Further.*
#
# In `mla_decode(q, c, n)`, q is bfloat16[B, H, 576], the cache c is bfloat16[B, T, 576], and n is int32[B]. All heads
# read the same rows of c: a row is a key, and its first 512 elements are the value that belongs to it. With `p =
# softmax(q[b] @ c[b].T / sqrt(192))` over the first n[b] rows, the result is `p @ c[b, :, :512]` for each b,
# bfloat16[B, H, 512]. n[b] is at least 1, and the rows from n[b] on hold finite garbage. H is a multiple of 8 and T of
# 256. Sums are in float32, and p may be rounded to bfloat16 before the second matmul. The score is that of B = 16, H =
# 16 and T = 4,096 with full caches, in cycles.


# %% answer="18.6"
mla_decode = None
### BEGIN SOLUTION
OF_VALUE, SCALE = 512, 192**-0.5


def mla_kernel(n_ref, q_ref, c_ref, o_ref, m_ref, l_ref, acc_ref):
    """Add a block of tokens, which lie along the lanes, to the running softmax of all heads."""
    b, t = pl.program_id(0), pl.program_id(1)
    size = c_ref.shape[1]

    @pl.when(t == 0)
    def begin():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(t * size < n_ref[b])
    def tokens():
        s = jnp.dot(q_ref[...], c_ref[...], preferred_element_type=jnp.float32) * SCALE
        token = t * size + lax.broadcasted_iota(jnp.int32, s.shape, 1)
        s = jnp.where(token < n_ref[b], s, -jnp.inf)
        m = jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
        p, shrink = jnp.exp(s - m), jnp.exp(m_ref[...] - m)
        m_ref[...] = m
        l_ref[...] = l_ref[...] * shrink + jnp.sum(p, axis=1, keepdims=True)
        acc_ref[...] = acc_ref[...] * shrink + lax.dot_general(
            p.astype(jnp.bfloat16),
            c_ref[:OF_VALUE, :],
            (((1,), (1,)), ((), ())),
            preferred_element_type=jnp.float32,
        )

    @pl.when(t == pl.num_programs(1) - 1)
    def end():
        o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)


def mla_decode(q, c, n):
    """Return attention of each q over the first n tokens of its cache."""
    (batch, heads, width), length = q.shape, c.shape[1]
    size = largest_of((2048, 1024, 512, 256), length)

    def block_of(b, t, n_ref):
        return b, 0, jnp.minimum(t, (n_ref[b] - 1) // size)

    return pl.pallas_call(
        mla_kernel,
        out_shape=jax.ShapeDtypeStruct((batch, heads, OF_VALUE), q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(batch, length // size),
            in_specs=[
                pl.BlockSpec((None, heads, width), lambda b, t, n_ref: (b, 0, 0)),
                pl.BlockSpec((None, width, size), block_of),
            ],
            out_specs=pl.BlockSpec((None, heads, OF_VALUE), lambda b, t, n_ref: (b, 0, 0)),
            scratch_shapes=[
                pltpu.VMEM((heads, 1), jnp.float32),
                pltpu.VMEM((heads, 1), jnp.float32),
                pltpu.VMEM((heads, OF_VALUE), jnp.float32),
            ],
        ),
    )(n, q, jnp.swapaxes(c, 1, 2))  # as XLA stores c, because 576 is no multiple of 128


### END SOLUTION

# %% check="18.6"
checks.check("18.6", mla_decode)

# %%
# checks.hint("18.6")

# %% [markdown]
# ## 18.7 Project: int8 with a scale for each row
#
# *Difficulty 2 of 5. 40 minutes, 25 lines. Further.*
#
# `quantize(x)` gets x, bfloat16[M, N], and returns q, int8[M, N], and s, float32[M]. s is the largest `|x|` of a row
# divided by 127, and q is `x / s`, rounded to the nearest integer. A row of zeros has the scale 0, and its q are 0. M
# and N are multiples of 128. The score is that of an 8,192 x 4,096 array, in cycles.


# %% answer="18.7"
quantize = None
### BEGIN SOLUTION


def quantize_kernel(x_ref, q_ref, s_ref):
    """Quantize a block of whole rows."""
    x = x_ref[...].astype(jnp.float32)
    largest = jnp.max(jnp.abs(x), axis=1, keepdims=True)
    s_ref[...] = (largest / 127).T
    times = 127 / jnp.where(largest == 0, 1, largest)
    q_ref[...] = jnp.round(x * times).astype(jnp.int8)


def quantize(x):
    """Return x as int8, and the scale of each row."""
    m, n = x.shape
    rows = largest_of((256, 128), m)
    q, s = pl.pallas_call(
        quantize_kernel,
        out_shape=[
            jax.ShapeDtypeStruct((m, n), jnp.int8),
            jax.ShapeDtypeStruct((1, m), jnp.float32),
        ],
        grid=(m // rows,),
        in_specs=[pl.BlockSpec((rows, n), lambda i: (i, 0))],
        out_specs=[
            pl.BlockSpec((rows, n), lambda i: (i, 0)),
            pl.BlockSpec((1, rows), lambda i: (0, i)),
        ],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 << 20),
    )(x)
    return q, s.reshape(m)


### END SOLUTION

# %% check="18.7"
checks.check("18.7", quantize)

# %%
# checks.hint("18.7")

# %% [markdown]
# ## 18.8 Project: a collective matmul
#
# *Difficulty 5 of 5. 90 minutes, 50 lines. Further.*
#
# `matmul_reduce_scatter(x, w)` says what each device of a ring of n does. It has x, bfloat16[n * M, K], and w,
# bfloat16[K, N], and returns float32[M, N]: the rows `pl.ds(me * M, M)` of `x @ w`, summed over all devices. M is a
# multiple of 16, K and N are multiples of 128, and n is 4 in the check. The score is in nanoseconds, *predicted
# (model)*, for M = 512, K = 4,096 and N = 2,048. The model runs small arrays in their place. It multiplies the bytes of
# copies between devices, and takes every element that the core stores for the result of a matmul at the MXUs' peak.


# %% given="18.8"
VMEM = pl.BlockSpec(memory_space=pltpu.VMEM)


def neighbors():
    """Return this device's index on the ring, and those of its right and left neighbor."""
    n, me = lax.axis_size("d"), lax.axis_index("d")
    return me, lax.rem(me + 1, n), lax.rem(me + n - 1, n)


def enter_together():
    """Wait until both neighbors have entered the kernel."""
    _, right, left = neighbors()
    barrier = pltpu.get_barrier_semaphore()
    for device in (left, right):
        pl.semaphore_signal(barrier, 1, device_id={"d": device})
    pl.semaphore_wait(barrier, 2)


# %% answer="18.8"
matmul_reduce_scatter = None
### BEGIN SOLUTION


def matmul_reduce_scatter(x, w):
    """Return this device's rows of the sum of all devices' x @ w."""
    n = lax.axis_size("d")
    rows, columns = x.shape[0] // n, w.shape[1]
    half, size = rows // 2, 128
    # Half of the rows travel to the right (way 0) and half to the left, in pieces of 128 columns.
    pieces = [(way, k) for k in range(columns // size) for way in (0, 1)]

    def kernel(x_ref, w_ref, o_ref, sum_ref, in_ref, send_sem, recv_sem):
        me, *ways = neighbors()
        enter_together()

        def product(step, way, k):
            """Return what this device adds to the piece that it sends in a step."""
            whose = lax.rem(me + (step + 1) * (n - 1, 1)[way], n)
            own = x_ref[pl.ds(whose * rows + way * half, half)]
            part = w_ref[:, k * size : (k + 1) * size]
            return jnp.dot(own, part, preferred_element_type=jnp.float32)

        def copy(step, way, k):
            return pltpu.make_async_remote_copy(
                sum_ref.at[way, k],
                in_ref.at[step, way, k],
                send_sem.at[way, k],
                recv_sem.at[step, way, k],
                device_id={"d": ways[way]},
            )

        for way, k in pieces:
            sum_ref[way, k] = product(0, way, k)
            copy(0, way, k).start()
        for step in range(1, n):
            for way, k in pieces:
                copy(step - 1, way, k).wait()
                total = in_ref[step - 1, way, k] + product(step, way, k)
                if step < n - 1:
                    sum_ref[way, k] = total
                    copy(step, way, k).start()
                else:
                    o_ref[pl.ds(way * half, half), pl.ds(k * size, size)] = total

    each = (2, columns // size)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, columns), jnp.float32),
        in_specs=[VMEM, VMEM],
        out_specs=VMEM,
        scratch_shapes=[
            pltpu.VMEM((*each, half, size), jnp.float32),
            pltpu.VMEM((n - 1, *each, half, size), jnp.float32),
            pltpu.SemaphoreType.DMA(each),
            pltpu.SemaphoreType.DMA((n - 1, *each)),
        ],
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )(x, w)


### END SOLUTION

# %% check="18.8"
checks.check("18.8", matmul_reduce_scatter)

# %%
# checks.hint("18.8")

# %% [markdown]
# <!-- next -->
