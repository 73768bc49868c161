# %% [markdown]
# # Exercises 16: Many cores, many chips
#
# You decide which axes two cores may share, write kernels that copy to other chips, and repair three of them. Nothing
# here needs a TPU: the protocol judge follows what each device does in a simulated run, and says what can go wrong in
# any run. Times between chips are *predicted (model)*.
#
# Come here from [lesson 16](../notebooks/16_many_cores_many_chips.ipynb). About 88 minutes.
# Short of time? Do 16.3 and 16.5. Want more? 16.9 and 16.10, 115 minutes, are a reduce-scatter from an empty cell and
# a collective matmul to tune.

# %%
# FIRST CELL

# %%
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

HBM, VMEM = pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec(memory_space=pltpu.VMEM)
DMA = pltpu.SemaphoreType.DMA
COLLECTIVE = pltpu.CompilerParams(collective_id=0)


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


# %% [markdown]
# In 16.2 to 16.7, 16.9 and 16.10, a function describes what one device of a ring of four does with its own parts of
# the arrays. The check calls it in a `jax.shard_map` over the mesh axis `"d"`.
#
# ## 16.1 Which axes may two cores share?
#
# *Difficulty 2 of 5. 10 minutes, 5 answers.*
#
# The grid of each of these kernels has two axes, i and j, and a comment says which blocks step (i, j) reads and
# writes. All blocks have the same shape. The scratch `first_ref` holds one block, and the scratch `above_ref` holds
# one block for each j. Which axes may be marked `"parallel"` if the kernel must remain right on two cores? Answer for
# each kernel with `"neither"`, `"only i"`, `"only j"` or `"i and j"`.


# %% given="16.1"
def scaled(x_ref, o_ref):  # x: block (i, j), o: block (i, j)
    o_ref[...] = 3 * x_ref[...]


def row_sums(x_ref, o_ref):  # x: block (i, j), o: block (i, 0)
    @pl.when(pl.program_id(1) == 0)
    def clear():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def total(x_ref, o_ref):  # x: block (i, j), o: block (0, 0)
    @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
    def clear():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def minus_first(x_ref, o_ref, first_ref):  # x: block (i, j), o: block (i, j)
    @pl.when(pl.program_id(1) == 0)
    def keep():
        first_ref[...] = x_ref[...]

    o_ref[...] = x_ref[...] - first_ref[...]


def largest_above(x_ref, o_ref, above_ref):  # x: block (i, j), o: block (i, j)
    j = pl.program_id(1)

    @pl.when(pl.program_id(0) == 0)
    def begin():
        above_ref[j] = x_ref[...]

    above_ref[j] = jnp.maximum(above_ref[j], x_ref[...])
    o_ref[...] = above_ref[j]


# %% answer="16.1"
shared = {
    "scaled": None,
    "row_sums": None,
    "total": None,
    "minus_first": None,
    "largest_above": None,
}
### BEGIN SOLUTION
shared |= {
    "scaled": "i and j",
    "row_sums": "only i",
    "total": "neither",
    "minus_first": "only i",
    "largest_above": "only j",
}
### END SOLUTION

# %% check="16.1"
checks.check("16.1", shared)

# %%
# checks.hint("16.1")

# %% [markdown]
# ## 16.2 Swap with a partner
#
# *Difficulty 2 of 5. 12 minutes, 9 lines.*
#
# Devices 0 and 1 swap their x, and so do devices 2 and 3. Write the kernel; the call is given. Each device exchanges
# data only with its partner, so the partner's signal is all that its barrier needs (`enter_together` waits for two).


# %% answer="16.2"
def swap_kernel(x_ref, o_ref, send_sem, recv_sem):
    """Give x to the partner, and receive the partner's x in o."""
    ### BEGIN SOLUTION
    me = lax.axis_index("d")
    partner = me + 1 - 2 * lax.rem(me, 2)
    barrier = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(barrier, 1, device_id={"d": partner})
    pl.semaphore_wait(barrier, 1)
    copy = pltpu.make_async_remote_copy(
        x_ref, o_ref, send_sem, recv_sem, device_id={"d": partner}
    )
    copy.start()
    copy.wait()
    ### END SOLUTION


# %% given="16.2"
def swapped(x):
    return pl.pallas_call(
        swap_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[HBM],
        out_specs=HBM,
        scratch_shapes=[DMA, DMA],
        compiler_params=COLLECTIVE,
    )(x)


# %% check="16.2"
checks.check("16.2", swapped)

# %%
# checks.hint("16.2")

# %% [markdown]
# ## 16.3 An all-gather
#
# *Difficulty 3 of 5. 20 minutes, 24 lines. Fast track.*
#
# Write `gathered(x)`, with the kernel in it. x has shape [M, K], and the result has shape [n * M, K]: the rows of
# device 0 first, then those of device 1, and so on, on all n devices. Pass rows on to the *left*, in n - 1 steps.
# `pl.ds(start, M)` selects M rows of a ref, and `lax.axis_size("d")` returns n as a Python integer.


# %% answer="16.3"
def gathered(x):
    """Return the rows of all devices."""
    ### BEGIN SOLUTION
    n, (rows, columns) = lax.axis_size("d"), x.shape

    def gather_kernel(x_ref, o_ref, own_sem, send_sem, recv_sem):
        me, _, left = neighbors()
        own = pltpu.make_async_copy(x_ref, o_ref.at[pl.ds(me * rows, rows)], own_sem)
        own.start()
        enter_together()
        own.wait()
        for step in range(n - 1):
            part = o_ref.at[pl.ds(lax.rem(me + step, n) * rows, rows)]
            copy = pltpu.make_async_remote_copy(
                part, part, send_sem, recv_sem.at[step], device_id={"d": left}
            )
            copy.start()
            copy.wait()

    return pl.pallas_call(
        gather_kernel,
        out_shape=jax.ShapeDtypeStruct((n * rows, columns), x.dtype),
        in_specs=[HBM],
        out_specs=HBM,
        scratch_shapes=[DMA, DMA, DMA((n - 1,))],
        compiler_params=COLLECTIVE,
    )(x)
    ### END SOLUTION


# %% check="16.3"
checks.check("16.3", gathered)

# %%
# checks.hint("16.3")

# %% [markdown]
# ## 16.4 Repair: who has entered?
#
# *Difficulty 2 of 5. 6 minutes, 1 line.*
#
# `halves_kernel_broken` sends the upper half of x to the right and the lower half to the left. So the upper half of a
# device's result comes from its left neighbor, and the lower half from its right neighbor. The values are right in
# nearly every simulated run, but one line is wrong. Write the kernel again with this line repaired.


# %% given="16.4"
def halves_kernel_broken(x_ref, o_ref, send_sem, recv_sem):
    _, right, left = neighbors()
    barrier = pltpu.get_barrier_semaphore()
    for _ in range(2):
        pl.semaphore_signal(barrier, 1, device_id={"d": right})
    pl.semaphore_wait(barrier, 2)
    half, copies = x_ref.shape[0] // 2, []
    for way, device in enumerate((right, left)):
        part = pl.ds(way * half, half)
        copies.append(
            pltpu.make_async_remote_copy(
                x_ref.at[part],
                o_ref.at[part],
                send_sem.at[way],
                recv_sem.at[way],
                device_id={"d": device},
            )
        )
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.wait()


# %% answer="16.4"
def halves_kernel(x_ref, o_ref, send_sem, recv_sem):
    """Give the upper half of x to the right, and the lower half to the left."""
    ### BEGIN SOLUTION
    _, right, left = neighbors()
    barrier = pltpu.get_barrier_semaphore()
    for device in (left, right):
        pl.semaphore_signal(barrier, 1, device_id={"d": device})
    pl.semaphore_wait(barrier, 2)
    half, copies = x_ref.shape[0] // 2, []
    for way, device in enumerate((right, left)):
        part = pl.ds(way * half, half)
        copies.append(
            pltpu.make_async_remote_copy(
                x_ref.at[part],
                o_ref.at[part],
                send_sem.at[way],
                recv_sem.at[way],
                device_id={"d": device},
            )
        )
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.wait()
    ### END SOLUTION


# %% given="16.4-call"
def halves(x):
    return pl.pallas_call(
        halves_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[HBM],
        out_specs=HBM,
        scratch_shapes=[DMA((2,)), DMA((2,))],
        compiler_params=COLLECTIVE,
    )(x)


# %% check="16.4"
checks.check("16.4", halves)

# %%
# checks.hint("16.4")

# %% [markdown]
# ## 16.5 Repair: which copy has arrived?
#
# *Difficulty 2 of 5. 8 minutes, 1 line. Fast track.*
#
# `add_left_kernel_broken` adds the left neighbor's x to its own. It starts four copies of a quarter of the rows each,
# and adds each quarter when it has arrived. One line is wrong, so write the kernel again with this line repaired.
# (All four copies share one send semaphore. Is that wrong, too?)


# %% given="16.5"
def add_left_kernel_broken(x_ref, o_ref, in_ref, send_sem, recv_sem):
    _, right, _ = neighbors()
    enter_together()
    rows = x_ref.shape[0] // 4

    def copy(quarter):
        part, arrives = pl.ds(quarter * rows, rows), recv_sem.at[0]
        return pltpu.make_async_remote_copy(
            x_ref.at[part], in_ref.at[part], send_sem, arrives, device_id={"d": right}
        )

    for quarter in range(4):
        copy(quarter).start()
    for quarter in range(4):
        copy(quarter).wait_recv()
        part = pl.ds(quarter * rows, rows)
        o_ref[part] = x_ref[part] + in_ref[part]
    for quarter in range(4):
        copy(quarter).wait_send()


# %% answer="16.5"
def add_left_kernel(x_ref, o_ref, in_ref, send_sem, recv_sem):
    """Add the left neighbor's x to x, each quarter as soon as it has arrived."""
    ### BEGIN SOLUTION
    _, right, _ = neighbors()
    enter_together()
    rows = x_ref.shape[0] // 4

    def copy(quarter):
        part, arrives = pl.ds(quarter * rows, rows), recv_sem.at[quarter]
        return pltpu.make_async_remote_copy(
            x_ref.at[part], in_ref.at[part], send_sem, arrives, device_id={"d": right}
        )

    for quarter in range(4):
        copy(quarter).start()
    for quarter in range(4):
        copy(quarter).wait_recv()
        part = pl.ds(quarter * rows, rows)
        o_ref[part] = x_ref[part] + in_ref[part]
    for quarter in range(4):
        copy(quarter).wait_send()
    ### END SOLUTION


# %% given="16.5-call"
def add_left(x):
    return pl.pallas_call(
        add_left_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[VMEM],
        out_specs=VMEM,
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), DMA, DMA((4,))],
        compiler_params=COLLECTIVE,
    )(x)


# %% check="16.5"
checks.check("16.5", add_left)

# %%
# checks.hint("16.5")

# %% [markdown]
# ## 16.6 Repair: still on its way
#
# *Difficulty 3 of 5. 8 minutes, 1 line.*
#
# `spread_kernel_broken` returns x / 2, plus a quarter of the left neighbor's x and an eighth of the right one's. It
# scales x in a buffer and sends it from there. The values are wrong in some simulated runs, and a chip halts when the
# kernel ends. Write the kernel again with one line changed, and leave the scratch as it is.


# %% given="16.6"
def spread_kernel_broken(x_ref, o_ref, scaled_ref, in_ref, send_sem, recv_sem):
    _, right, left = neighbors()
    enter_together()
    o_ref[...] = x_ref[...] / 2
    for way, (device, weight) in enumerate(((right, 0.25), (left, 0.125))):
        scaled_ref[...] = weight * x_ref[...]
        copy = pltpu.make_async_remote_copy(
            scaled_ref,
            in_ref.at[way],
            send_sem,
            recv_sem.at[way],
            device_id={"d": device},
        )
        copy.start()
        copy.wait_recv()
        o_ref[...] += in_ref[way]


# %% answer="16.6"
def spread_kernel(x_ref, o_ref, scaled_ref, in_ref, send_sem, recv_sem):
    """Add half of x, a quarter of the left neighbor's, and an eighth of the right one's."""
    ### BEGIN SOLUTION
    _, right, left = neighbors()
    enter_together()
    o_ref[...] = x_ref[...] / 2
    for way, (device, weight) in enumerate(((right, 0.25), (left, 0.125))):
        scaled_ref[...] = weight * x_ref[...]
        copy = pltpu.make_async_remote_copy(
            scaled_ref,
            in_ref.at[way],
            send_sem,
            recv_sem.at[way],
            device_id={"d": device},
        )
        copy.start()
        copy.wait()
        o_ref[...] += in_ref[way]
    ### END SOLUTION


# %% given="16.6-call"
def spread(x):
    return pl.pallas_call(
        spread_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[VMEM],
        out_specs=VMEM,
        scratch_shapes=[
            pltpu.VMEM(x.shape, x.dtype),
            pltpu.VMEM((2, *x.shape), x.dtype),
            DMA,
            DMA((2,)),
        ],
        compiler_params=COLLECTIVE,
    )(x)


# %% check="16.6"
checks.check("16.6", spread)

# %%
# checks.hint("16.6")

# %% [markdown]
# ## 16.7 Both ways
#
# *Difficulty 3 of 5. 18 minutes, 30 lines.*
#
# Write `gathered_both_ways(x)`, an all-gather like that of 16.3 that keeps both directions of the links busy. M is
# even. For parts of 4 MiB it may take at most 155.4 us, *predicted (model)*. That is 0.55 times as long as three copies
# to the neighbor, one after another. The check uses small arrays and counts their copies as 1,024 times as many bytes.


# %% answer="16.7"
def gathered_both_ways(x):
    """Return the rows of all devices."""
    ### BEGIN SOLUTION
    n, (rows, columns) = lax.axis_size("d"), x.shape
    half = rows // 2

    def both_ways_kernel(x_ref, o_ref, own_sem, send_sem, recv_sem):
        me, right, left = neighbors()
        own = pltpu.make_async_copy(x_ref, o_ref.at[pl.ds(me * rows, rows)], own_sem)
        own.start()
        enter_together()
        own.wait()
        for step in range(n - 1):
            copies = []
            for way, (whose, device) in enumerate(((n - step, right), (step, left))):
                start = lax.rem(me + whose, n) * rows + way * half
                part = o_ref.at[pl.ds(start, half)]
                sems = send_sem.at[way], recv_sem.at[way, step]
                copies.append(
                    pltpu.make_async_remote_copy(part, part, *sems, device_id={"d": device})
                )
            for copy in copies:
                copy.start()
            for copy in copies:
                copy.wait()

    return pl.pallas_call(
        both_ways_kernel,
        out_shape=jax.ShapeDtypeStruct((n * rows, columns), x.dtype),
        in_specs=[HBM],
        out_specs=HBM,
        scratch_shapes=[DMA, DMA((2,)), DMA((2, n - 1))],
        compiler_params=COLLECTIVE,
    )(x)
    ### END SOLUTION


# %% check="16.7"
checks.check("16.7", gathered_both_ways)

# %%
# checks.hint("16.7")

# %% [markdown]
# ## 16.8 Compute: a ring through two rows of chips
#
# *Difficulty 2 of 5. 6 minutes, 3 lines.*
#
# Chips stand in two rows of `columns` chips each, and are numbered row by row, from 0. Each is linked to its
# neighbors in the same row and in the same column, but no link joins the two ends of a row. A ring in the order of the
# numbers would therefore copy to chips that are no neighbors. A better one begins with chip 0 and goes along the first
# row. From there it follows links through all other chips and back to chip 0.
# `at(place, columns)` returns the number of the chip at each place of the ring: chip 0 has place 0.


# %% answer="16.8"
def at(place, columns):
    """Return the number of the chip at a place of the ring."""
    ### BEGIN SOLUTION
    return place if place < columns else 3 * columns - 1 - place
    ### END SOLUTION


# %% check="16.8"
checks.check("16.8", at)

# %%
# checks.hint("16.8")

# %% [markdown]
# ## 16.9 A reduce-scatter, both ways
#
# *Difficulty 5 of 5. 60 minutes, 45 lines. Further.*
#
# Write `scattered(x)` from an empty cell. It receives x, float32[n * M, K], which is different on each device, and
# returns float32[M, K], the sum over all devices of their rows `pl.ds(me * M, M)`. M is a multiple of 16. Of each
# device's sum, half of the rows travel to the right, and half to the left. For sums of 4 MiB per device it may take at
# most 169.6 us, *predicted (model)*, which is 0.6 times as long as three copies to the neighbor, one after another. All
# refs are in VMEM, which has room for two receive buffers per direction, so a sender has to be sure that the buffer it
# sends to is free. The check uses n = 4, but your code should work for any n from 3 on.

# %% answer="16.9"
scattered = None
### BEGIN SOLUTION


def scattered(x):
    """Return the sum over all devices of their rows for this one."""
    n = lax.axis_size("d")
    rows, columns = x.shape[0] // n, x.shape[1]
    half = rows // 2

    def scatter_kernel(x_ref, o_ref, sum_ref, in_ref, send_sem, recv_sem):
        me, right, left = neighbors()
        ways = (
            (right, n - 1),
            (left, 1),
        )  # the next device, and the step from owner to owner
        enter_together()

        def mine(way, step):
            """Return the rows that are added in this step."""
            shift = ways[way][1]
            whose = lax.rem(me + (step + 1) * shift, n)
            return x_ref[pl.ds(whose * rows + way * half, half)]

        for way in (0, 1):
            sum_ref[way] = mine(way, 0)
        for step in range(n - 1):
            copies = []
            for way, (device, _) in enumerate(ways):
                # What arrived from there in the last step says that its buffer of the step before is free.
                copy = pltpu.make_async_remote_copy(
                    sum_ref.at[way],
                    in_ref.at[way, step % 2],
                    send_sem.at[way],
                    recv_sem.at[way, step % 2],
                    device_id={"d": device},
                )
                copy.start()
                copies.append(copy)
            for way in (0, 1):
                copies[way].wait()
                sum_ref[way] = in_ref[way, step % 2] + mine(way, step + 1)
        for way in (0, 1):
            o_ref[pl.ds(way * half, half)] = sum_ref[way]

    return pl.pallas_call(
        scatter_kernel,
        out_shape=jax.ShapeDtypeStruct((rows, columns), x.dtype),
        in_specs=[VMEM],
        out_specs=VMEM,
        scratch_shapes=[
            pltpu.VMEM((2, half, columns), x.dtype),
            pltpu.VMEM((2, 2, half, columns), x.dtype),
            DMA((2,)),
            DMA((2, 2)),
        ],
        compiler_params=COLLECTIVE,
    )(x)


### END SOLUTION

# %% check="16.9"
checks.check("16.9", scattered)

# %%
# checks.hint("16.9")

# %% [markdown]
# ## 16.10 Golf: a collective matmul
#
# *Difficulty 5 of 5. 55 minutes, 40 lines. Further.*
#
# `all_gather_matmul(x, w)` multiplies the rows of all devices' x by this device's w. Make it take as few nanoseconds,
# *predicted (model)*, as you can. x is bfloat16[16, 128] on each of four devices, w is bfloat16[128, 256], and the
# result is float32[64, 256]. The model counts copies between devices as 256 times as many bytes, so one device's x
# counts as 1 MiB. Of the core's work it counts only the stores, and takes every stored element for the result of a
# matmul: 16 x 256 elements take 10,900 ns, the time of 256 rows of 2,048 elements times a 2,048 x 2,048 matrix at the
# peak of a v5e. So if data need no arithmetic, copy them instead of storing them. Par is 55,000 ns. The kernel below is
# right, but it first gathers and then multiplies.


# %% given="16.10"
def gather_then_multiply(x, w):
    n, (rows, depth), columns = lax.axis_size("d"), x.shape, w.shape[1]

    def kernel(x_ref, w_ref, o_ref, all_ref, own_sem, send_sem, recv_sem):
        me, right, _ = neighbors()
        own = pltpu.make_async_copy(x_ref, all_ref.at[me], own_sem)
        own.start()
        enter_together()
        own.wait()
        for step in range(n - 1):
            part = all_ref.at[lax.rem(me + n - step, n)]
            copy = pltpu.make_async_remote_copy(
                part, part, send_sem, recv_sem.at[step], device_id={"d": right}
            )
            copy.start()
            copy.wait()
        for device in range(n):
            o_ref[pl.ds(device * rows, rows)] = jnp.dot(
                all_ref[device], w_ref[...], preferred_element_type=jnp.float32
            )

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((n * rows, columns), jnp.float32),
        in_specs=[VMEM, VMEM],
        out_specs=VMEM,
        scratch_shapes=[pltpu.VMEM((n, rows, depth), x.dtype), DMA, DMA, DMA((n - 1,))],
        compiler_params=COLLECTIVE,
    )(x, w)


# %% answer="16.10"
all_gather_matmul = None
### BEGIN SOLUTION


def all_gather_matmul(x, w):
    """Return the rows of all devices times w: halves travel both ways while others are multiplied."""
    n, (rows, depth), columns = lax.axis_size("d"), x.shape, w.shape[1]
    half = rows // 2

    def kernel(x_ref, w_ref, o_ref, all_ref, send_sem, recv_sem):
        me, right, left = neighbors()
        enter_together()

        def copy(step, way):
            start = lax.rem(me + (n - step if way == 0 else step), n) * rows + way * half
            to = all_ref.at[pl.ds(start, half)]
            source = x_ref.at[pl.ds(way * half, half)] if step == 0 else to
            sems = send_sem.at[way, step], recv_sem.at[way, step]
            return pltpu.make_async_remote_copy(
                source, to, *sems, device_id={"d": (right, left)[way]}
            )

        def multiply(step, way):
            start = lax.rem(me + (n - step if way == 0 else step), n) * rows + way * half
            here = pl.ds(way * half, half) if step == 0 else pl.ds(start, half)
            part = (x_ref if step == 0 else all_ref)[here]
            o_ref[pl.ds(start, half)] = jnp.dot(
                part, w_ref[...], preferred_element_type=jnp.float32
            )

        for step in range(n):
            for way in (0, 1):
                if step > 0:
                    copy(step - 1, way).wait_recv()
                if step < n - 1:
                    copy(step, way).start()
            for way in (0, 1):
                multiply(step, way)
        for step in range(n - 1):
            for way in (0, 1):
                copy(step, way).wait_send()

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((n * rows, columns), jnp.float32),
        in_specs=[VMEM, VMEM],
        out_specs=VMEM,
        scratch_shapes=[
            pltpu.VMEM((n * rows, depth), x.dtype),
            DMA((2, n - 1)),
            DMA((2, n - 1)),
        ],
        compiler_params=COLLECTIVE,
    )(x, w)


### END SOLUTION

# %% check="16.10"
checks.check("16.10", all_gather_matmul)

# %%
# checks.hint("16.10")

# %% [markdown]
# <!-- next -->
