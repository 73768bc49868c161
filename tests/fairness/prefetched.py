"""Orders of blocks that are prefetched: given, sorted, made by another kernel, different in every turn of a loop."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import counted, whole

X = counted((64, 128))


def gathered_blocks(order, x):
    """Step i reads the block that ``order`` names: some twice, some never."""

    def kernel(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    specs = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=order.shape,
        in_specs=[pl.BlockSpec((8, 128), lambda i, order_ref: (order_ref[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, order_ref: (i, 0)),
    )
    out = jax.ShapeDtypeStruct((8 * order.size, 128), x.dtype)
    return pl.pallas_call(kernel, out_shape=out, grid_spec=specs)(order, x)


def blocks_in_order(order, x):
    return x.reshape(-1, 8, 128)[order].reshape(-1, 128)


def scattered_blocks(order, x):
    """Step i writes the block that ``order`` names; a permutation, so each is written once."""

    def kernel(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    specs = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(order.size,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, order_ref: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, order_ref: (order_ref[i], 0)),
    )
    return pl.pallas_call(kernel, out_shape=x, grid_spec=specs)(order, x)


def blocks_put_back(order, x):
    return x.reshape(-1, 8, 128)[jnp.argsort(order)].reshape(x.shape)


def sums_by_group(group, x):
    """Sorted groups: neighbours in the grid share an output block, which is set to zero when the group changes."""

    def kernel(group_ref, x_ref, o_ref):
        i = pl.program_id(0)

        @pl.when((i == 0) | (group_ref[i] != group_ref[jnp.maximum(i - 1, 0)]))
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    specs = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(group.size,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, group_ref: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, group_ref: (group_ref[i], 0)),
    )
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((24, 128), x.dtype), grid_spec=specs)(group, x)


def group_sums(group, x):
    return jnp.zeros((3, 8, 128), x.dtype).at[group].add(x.reshape(-1, 8, 128)).reshape(-1, 128)


def order_from_a_kernel(x):
    """The order is the result of a kernel before."""

    def count_down(order_ref):
        for n in range(8):
            order_ref[n] = 7 - n

    in_smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    order = pl.pallas_call(count_down, out_shape=jax.ShapeDtypeStruct((8,), jnp.int32), out_specs=in_smem)()
    return gathered_blocks(order, x)


def order_in_a_loop(orders, x):
    return jax.lax.map(lambda order: gathered_blocks(order, x), orders)


def order_under_vmap(orders, x):
    return jax.vmap(gathered_blocks, in_axes=(0, None))(orders, x)


def blocks_in_orders(orders, x):
    return jnp.stack([blocks_in_order(order, x) for order in orders])


ORDER = jnp.array([3, 3, 0, 7, 5], jnp.int32)


PERMUTATION = jnp.array([3, 1, 0, 7, 5, 2, 6, 4], jnp.int32)


GROUPS = jnp.array([0, 0, 0, 1, 2, 2, 2, 2], jnp.int32)


ORDERS = whole((2, 4), 0, 8)

RIGHT = (
    Right("blocks read in prefetched order", gathered_blocks, blocks_in_order, (ORDER, X)),
    Right("blocks written in prefetched order", scattered_blocks, blocks_put_back, (PERMUTATION, X)),
    Right("sums over sorted groups", sums_by_group, group_sums, (GROUPS, X)),
    Right(
        "an order from another kernel", order_from_a_kernel, lambda x: blocks_in_order(jnp.arange(7, -1, -1), x), (X,)
    ),
    Right("another order in every turn of a loop", order_in_a_loop, blocks_in_orders, (ORDERS, X)),
    Right("orders under vmap", order_under_vmap, blocks_in_orders, (ORDERS, X)),
)
