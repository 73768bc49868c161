"""What stands around a kernel: layouts, gathers, padding; and ways to make a function and to call it."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from fairness import Right
from fairness.inputs import counted, normal, whole
from fairness.kernels import added, scaled

X, Y = normal((16, 256)), counted((16, 256))


class Scaling:
    """An object that is called; its kernel is a method."""

    def __init__(self, by):
        self.by = by

    def kernel(self, x_ref, o_ref):
        o_ref[...] = self.by * x_ref[...]

    def __call__(self, x):
        return pl.pallas_call(self.kernel, out_shape=x)(x)


def by_keyword(*args):
    def only_keywords(*, left, right):
        return added(left, right)

    return only_keywords(right=args[1], left=args[0])


def pair_in_a_dict(pair):
    return added(pair["x"], pair["y"])


def turned_round(x):
    """The kernel works on the transpose, cut another way."""
    return scaled(x.T.reshape(32, 128)).reshape(x.shape[::-1]).T


def in_four_axes(x):
    tiles = x.reshape(2, 8, 2, 128).transpose(0, 2, 1, 3).reshape(32, 128)
    return scaled(tiles).reshape(2, 2, 8, 128).transpose(0, 2, 1, 3).reshape(x.shape)


def broadcast_before(x, row):
    return added(x, jnp.broadcast_to(row, x.shape))


def padded(x):
    return scaled(jnp.pad(x, ((0, 3), (0, 128 - 50))))[:13, :50]


def rows_taken(x, index):
    """Rows are gathered before the kernel: jnp.take with an index of many."""
    return scaled(jnp.take(x, index, axis=0))


def rows_indexed(x, index):
    return scaled(x[index])


def tiled(x):
    return scaled(jnp.tile(x, (2, 1)))


def rolled_and_flipped(x):
    return jnp.flip(scaled(jnp.roll(x, 3, axis=0)), axis=0)


def as_f32_and_back(x):
    return scaled(x.astype(jnp.float32)).astype(jnp.bfloat16)


def signs_flipped(x):
    """As integers, where the sign is a bit."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] ^ jnp.int32(-(2**31))

    bits = jax.lax.bitcast_convert_type(x, jnp.int32)
    return jax.lax.bitcast_convert_type(pl.pallas_call(kernel, out_shape=bits)(bits), jnp.float32)


def behind_a_barrier(x):
    return jax.lax.optimization_barrier(scaled(x))


def doubled(x):
    return 2 * x


INDEX = whole((24,), 0, 16)

RIGHT = (
    Right("an object with a method for a kernel", Scaling(2), doubled, (X,)),
    Right("keyword-only arguments inside", by_keyword, jnp.add, (X, Y)),
    Right("a dict for an argument", pair_in_a_dict, lambda pair: pair["x"] + pair["y"], ({"x": X, "y": Y},)),
    Right("on the transpose", turned_round, doubled, (X,)),
    Right("on tiles made by reshape and transpose", in_four_axes, doubled, (Y,)),
    Right("an argument broadcast before", broadcast_before, jnp.add, (X, counted((1, 256)))),
    Right("padded before, cut after", padded, doubled, (normal((13, 50)),)),
    Right("rows by jnp.take before", rows_taken, lambda x, i: 2 * x[i], (X, INDEX)),
    Right("rows by indexing before", rows_indexed, lambda x, i: 2 * x[i], (X, INDEX)),
    Right("tiled before", tiled, lambda x: 2 * jnp.tile(x, (2, 1)), (X,)),
    Right("rolled before, flipped after", rolled_and_flipped, lambda x: 2 * jnp.roll(x, 3, axis=0)[::-1], (Y,)),
    Right("bf16 in and out, f32 for the kernel", as_f32_and_back, doubled, (normal((16, 256), jnp.bfloat16),)),
    Right("bits for floats", signs_flipped, jnp.negative, (X,)),
    Right("behind an optimization barrier", behind_a_barrier, doubled, (X,)),
    Right("NumPy arrays for arguments", scaled, doubled, (np.asarray(X),)),
)
