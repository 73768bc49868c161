"""Collectives on a ring of n devices by remote copies: all-gather, reduce-scatter, and each of them with a matmul.

    all_gather             o = x of device 0, x of device 1, ...               x (M, K) -> (n * M, K)
    reduce_scatter         o = the sum over all devices of the rows x[mine]    x (n * M, K) -> (M, K)
    all_gather_matmul      o = all_gather(x) @ w                               x (M, K), w (K, N) -> (n * M, N)
    matmul_reduce_scatter  o = reduce_scatter(x @ w)                           x (n * M, K), w (K, N) -> (M, N)

Cost   each direction of a link carries (n - 1) / 2 * M rows; n // 2 hops; FLOPs 2 * n * M * K * N with a matmul
VMEM   two buffers each for blocks (bm, K), (K, bn) and (bm, bn); for a sum three of (bm, bn); none to gather

Rows travel to the right and to the left, n // 2 devices far. Where n is even, the device opposite is reached both ways,
and each way carries half of its rows. What all_gather receives already lies in the result, from where it is passed on.
reduce_scatter adds its own rows to the sum that arrives, and passes on the new sum, rounded to the dtype of the result.
It receives into three buffers in turn, and tells the sender when one is free, a step before the sender needs it. While
one half of the rows travels, the other is multiplied or added. The gradient of a gather is a scatter, and vice versa.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot


def all_gather_reference(x: Num[Array, "M K"], axis_name: str) -> Num[Array, "nM K"]:
    """Return what ``all_gather`` must compute, by XLA's collective."""
    return lax.all_gather(x, axis_name, tiled=True)


def reduce_scatter_reference(x: Num[Array, "nM K"], axis_name: str) -> Num[Array, "M K"]:
    """Return what ``reduce_scatter`` must compute, by XLA's collective."""
    return lax.psum_scatter(x, axis_name, tiled=True)


def all_gather_matmul_reference(x, w, axis_name: str, precision=None) -> Num[Array, "nM N"]:
    """Return what ``all_gather_matmul`` must compute."""
    return dot(all_gather_reference(x, axis_name), w, precision=precision).astype(x.dtype)


def matmul_reduce_scatter_reference(x, w, axis_name: str, precision=None) -> Num[Array, "M N"]:
    """Return what ``matmul_reduce_scatter`` must compute."""
    return reduce_scatter_reference(dot(x, w, precision=precision), axis_name).astype(x.dtype)


class _Ring:
    """The devices of one mesh axis in the order of their indices, seen from one of them. Way 0 leads to the right."""

    def __init__(self, axis_name: str):
        self.axis_name, self.n, self.me = axis_name, lax.axis_size(axis_name), lax.axis_index(axis_name)
        self.steps = self.n // 2

    def at(self, way, distance) -> Array:
        """Return the index of the device from which what travels ``way`` comes here after ``distance`` steps."""
        return lax.rem(self.me + self.n + jnp.where(way == 0, -distance, distance), self.n)

    def next_one(self, way) -> dict[str, Array]:
        """Return the id of the neighbour that ``way`` leads to."""
        return {self.axis_name: self.at(way, -1)}

    def carries(self, way, half, distance) -> Array:
        """Whether this half of a device's rows travels this way, as far as ``distance``: opposite, one half does."""
        return (distance <= self.steps) & ((2 * distance < self.n) | (half == way))

    def enter(self) -> None:
        """Wait until both neighbours have entered the kernel: before that their buffers may not exist."""
        barrier = pltpu.get_barrier_semaphore()
        for way in (0, 1):
            pl.semaphore_signal(barrier, 1, device_id=self.next_one(way))
        pl.semaphore_wait(barrier, 2)


def _each_way(halves: int):
    """Return a decorator that runs a function (way, half) for both ways of each half of the rows.

    The half that arrives first comes first: the other one began its way a step earlier, and is behind by a sum.
    """
    return lambda body: pl.loop(0, 2 * halves)(lambda place: body(place % 2, (place + place // 2 + 1) % halves))


def _gather_kernel(
    x_ref: Num[Ref, "halves m K"],
    *refs,  # w (K, N) with a matmul; then the result of gathering (n, halves, m, K), and that of the matmul
    axis_name: str,
    multiply,  # None, or a function (part, w_ref, o_ref)
) -> None:
    *arrays, own_sem, send_sem, recv_sem = refs
    w_ref, all_ref, o_ref = arrays if multiply else (None, *arrays, None)
    ring, halves = _Ring(axis_name), x_ref.shape[0]

    def copy(step, way, half, source=None):  # of what has come in ``step`` steps, one step further
        part = all_ref.at[ring.at(way, step), half]
        sems = send_sem.at[step, way, half], recv_sem.at[step, way, half]
        return pltpu.make_async_remote_copy(source or part, part, *sems, device_id=ring.next_one(way))

    own = pltpu.make_async_copy(x_ref, all_ref.at[ring.me], own_sem)
    own.start()
    ring.enter()

    @_each_way(halves)
    def _first(way, half):
        pl.when(ring.carries(way, half, 1))(lambda: copy(0, way, half, x_ref.at[half]).start())

    own.wait()

    @pl.loop(0, ring.steps + 1)
    def _pass_on(step):
        @_each_way(halves)
        def _part(way, half):
            pl.when((step > 0) & ring.carries(way, half, step))(lambda: copy(step - 1, way, half).wait_recv())
            pl.when((step > 0) & ring.carries(way, half, step + 1))(lambda: copy(step, way, half).start())
            if multiply:
                at, is_here = (ring.at(way, step), half), jnp.where(step > 0, ring.carries(way, half, step), way == 0)
                pl.when(is_here)(lambda: multiply(all_ref.at[at], w_ref, o_ref.at[at]))

    @pl.loop(0, ring.steps)
    def _sent(step):
        @_each_way(halves)
        def _part(way, half):
            pl.when(ring.carries(way, half, step + 1))(lambda: copy(step, way, half).wait_send())


def _scatter_kernel(
    x_ref: Num[Ref, "n halves m K"],
    *refs,  # w (K, N) with a matmul; then the result (halves, m, N), and buffers (way, slots, halves, m, N)
    axis_name: str,
    add,  # a function (ref, ..., o_ref)
    multiply,  # None, or a function (part, w_ref, o_ref)
) -> None:
    *arrays, send_sem, recv_sem, room_sem = refs
    w_ref, o_ref, in_ref, own_ref = arrays if multiply else (None, *arrays, None)
    ring, (halves, *_), slots = _Ring(axis_name), o_ref.shape, in_ref.shape[1]
    last = ring.steps - 1

    def is_sent(step, way, half):
        return (step >= 0) & ring.carries(way, half, ring.steps - step) & (step < ring.steps)

    def own(step, way, half):  # of the rows that are sent in this step: they are ``steps - step`` devices from home
        if multiply:
            return own_ref.at[way, step % slots, half]
        return x_ref.at[ring.at(1 - way, ring.steps - step), half]

    def compute(step):
        @_each_way(halves)
        def _part(way, half):
            owner = ring.at(1 - way, ring.steps - step)
            is_mine = is_sent(step, way, half) | ((step == ring.steps) & (way == 0))
            pl.when(is_mine)(lambda: multiply(x_ref.at[owner, half], w_ref, own(step, way, half)))

    def received(step, way, half):
        return in_ref.at[way, step % slots, half]

    def copy(source, step, way, half):
        sems = (sem.at[way, step % slots, half] for sem in (send_sem, recv_sem))
        return pltpu.make_async_remote_copy(source, received(step, way, half), *sems, device_id=ring.next_one(way))

    ring.enter()
    if multiply:
        compute(0)

    @_each_way(halves)
    def _first(way, half):
        pl.when(is_sent(0, way, half))(lambda: copy(own(0, way, half), 0, way, half).start())

    @pl.loop(0, last)
    def _pass_on(step):
        if multiply:
            compute(step + 1)

        @_each_way(halves)
        def _begins_here(way, half):
            mine = own(step + 1, way, half)
            pl.when(~is_sent(step, way, half))(lambda: copy(mine, step + 1, way, half).start())

        @_each_way(halves)
        def _passes_through(way, half):
            @pl.when(is_sent(step, way, half))
            def _sum():
                arrived, room = received(step, way, half), room_sem.at[way, half]
                copy(arrived, step, way, half).wait()  # and what it received a step before has been passed on
                frees = is_sent(step - 1, way, half) & (step < last - 1)
                pl.when(frees)(lambda: pl.semaphore_signal(room, 1, device_id=ring.next_one(1 - way)))
                pl.when(is_sent(step - 2, way, half))(lambda: pl.semaphore_wait(room, 1))
                add(arrived, own(step + 1, way, half), arrived)
                copy(arrived, step + 1, way, half).start()

    if multiply:
        compute(ring.steps)
    for half in range(halves):
        arrived = [received(last, way, half) for way in (0, 1) if ring.n > 2 or half == way]
        for way, source in enumerate(arrived):
            copy(source, last, way if ring.n > 2 else half, half).wait()
        add(own(ring.steps, 0, half), *arrived, o_ref.at[half])


def _added(sizes, *refs) -> None:
    """Compute ``refs[-1] = sum of the others``, which lie in HBM, block by block."""

    def add_step(*blocks):
        total = functools.reduce(jnp.add, [block[...].astype(jnp.float32) for block in blocks[:-1]])
        blocks[-1][...] = total.astype(blocks[-1].dtype)

    (rows, columns), (bm, bn) = refs[-1].shape, sizes
    block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    grid = pl.cdiv(rows, bm), pl.cdiv(columns, bn)
    pltpu.emit_pipeline(add_step, grid=grid, in_specs=[block] * (len(refs) - 1), out_specs=[block])(*refs)


def _multiplied(sizes, precision, x_ref, w_ref, o_ref) -> None:
    """Compute ``o = x @ w`` of arrays that lie in HBM, block by block."""

    def multiply_step(x_block, w_block, o_block):
        o_block[...] = dot(x_block[...], w_block[...], precision=precision).astype(o_block.dtype)

    (rows, k), columns, (bm, bn) = x_ref.shape, w_ref.shape[1], sizes
    pltpu.emit_pipeline(
        multiply_step,
        grid=(pl.cdiv(columns, bn), pl.cdiv(rows, bm)),  # rows inside: a block of w is read once
        in_specs=[pl.BlockSpec((bm, k), lambda j, i: (i, 0)), pl.BlockSpec((k, bn), lambda j, i: (0, j))],
        out_specs=[pl.BlockSpec((bm, bn), lambda j, i: (i, j))],
    )(x_ref, w_ref, o_ref)


def launch(scatter: bool, x: Array, *w: Array, axis_name: str, sizes, precision=None, vmem_limit_bytes=None):
    """Run a kernel on one device of a ring, with blocks of ``sizes`` (bm, bn); ``w`` is given for a matmul.

    Returns the result; of a gather with a matmul also the gathered x.
    """
    n, (rows, k), dtype = lax.axis_size(axis_name), x.shape, x.dtype
    rows //= n if scatter else 1
    columns = w[0].shape[1] if w else k
    halves = 1 if rows % 2 else 2
    part, steps = (halves, rows // halves), max(1, n // 2)
    slots = 3 if steps > 2 else 2
    multiply = functools.partial(_multiplied, sizes, precision) if w else None
    sems = pltpu.SemaphoreType.DMA((2, slots, halves) if scatter else (steps, 2, halves))
    if scatter:
        # Buffers in HBM are outputs that nobody reads: the TPU simulator knows no scratch there.
        view, shapes = (n, *part, k), [(*part, columns), *([(2, slots, *part, columns)] * (2 if w else 1))]
        scratch = [sems, sems, pltpu.SemaphoreType.REGULAR((2, halves))]
        kernel = functools.partial(_scatter_kernel, add=functools.partial(_added, sizes))
    else:
        view, shapes = (*part, k), [(n, *part, k), *([(n, *part, columns)] if w else [])]
        scratch, kernel = [pltpu.SemaphoreType.DMA, sems, sems], _gather_kernel
    whole = pl.BlockSpec(memory_space=pl.ANY)
    results = pl.pallas_call(
        functools.partial(kernel, axis_name=axis_name, multiply=multiply),
        out_shape=[out_type(x, shape, dtype) for shape in shapes],
        in_specs=[whole] * (1 + len(w)),
        out_specs=[whole] * len(shapes),
        scratch_shapes=scratch,
        compiler_params=pltpu.CompilerParams(collective_id=0, has_side_effects=True, vmem_limit_bytes=vmem_limit_bytes),
    )(x.reshape(view), *w)
    if scatter:
        return results[0].reshape(rows, columns)
    gathered = results[0].reshape(n * rows, k)
    return (results[1].reshape(n * rows, columns), gathered) if w else gathered
