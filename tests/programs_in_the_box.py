"""Programs that a right answer may contain, around a kernel and in it, by what could keep them in a box."""

import collections
import enum
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TYPE = jax.ShapeDtypeStruct((16, 128), jnp.float32)
KEY, OLD_KEY = jax.random.key(7), jax.random.PRNGKey(7)
KEYS = jax.random.split(KEY, 16)


def doubled(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def k(x, kernel=doubled, **more):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), **more)(x)


def blocked(x, kernel=doubled, block=(8, 128), index_map=lambda i: (i, 0), mode=None, grid=2):
    spec = pl.BlockSpec(block, index_map, pipeline_mode=mode)
    whole = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(kernel, grid=grid, in_specs=[spec], out_specs=whole, out_shape=TYPE)(x)


def inside(change):
    """A function whose kernel applies ``change`` to each block."""

    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.broadcast_to(change(x_ref[...]), o_ref.shape).astype(o_ref.dtype)

    return lambda x: blocked(x, kernel)


def printed(*anything, **named):
    """A function that prints before its kernel."""
    return lambda x: (jax.debug.print(*anything, **named, x=x), k(x))[1]


def copies(x):
    def kernel(x_hbm, o_hbm, buffer, sem):
        for n in range(2):
            rows = pl.ds(np.int64(8 * n), np.int64(8))
            pltpu.async_copy(x_hbm.at[rows], buffer, sem.at[np.int32(n)]).wait()
            pltpu.async_copy(buffer, o_hbm.at[rows], sem.at[np.int32(n)]).wait()

    hbm = pl.BlockSpec(memory_space=pl.ANY)
    scratch = [pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))]
    return pl.pallas_call(kernel, in_specs=[hbm], out_specs=hbm, out_shape=TYPE, scratch_shapes=scratch)(x)


def looked_up(x):
    block = pl.BlockSpec((8, 128), lambda i, s: (s[i], 0))
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(2,), in_specs=[block], out_specs=block)
    kernel = pl.pallas_call(lambda s, x_ref, o_ref: doubled(x_ref, o_ref), grid_spec=spec, out_shape=TYPE)
    return kernel(np.array([1, 0], np.int32), x)


def with_pl_kernel(x):
    mesh = pltpu.TensorCoreMesh(axis_name="core", num_cores=1)
    return pl.kernel(lambda a, b: pltpu.sync_copy(a, b), out_type=TYPE, mesh=mesh)(x)


def backwards(decorate, *rules, **more):
    """A function with a derivative of its own."""

    def derived(x):
        function = decorate(lambda x: k(x))
        (function.defjvp if decorate is jax.custom_jvp else function.defvjp)(*rules, **more)
        return function(x)

    return derived


def with_nondiff(x):
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0, 2))
    def scaled(kernel, x, n):
        return kernel(x) * n

    scaled.defvjp(lambda kernel, x, n: (scaled(kernel, x, n), None), lambda kernel, n, _, g: (g * n,))
    return scaled(k, x, np.float32(3))


def of_integers(x):
    @jax.custom_jvp
    def scaled(x, n):
        return k(x) * n

    scaled.defjvp(lambda given, tangents: (scaled(*given), tangents[0] + tangents[1]))
    return scaled(x, jnp.arange(128))


def mutable(x):
    ref = jax.new_ref(x)
    ref[...] = k(ref[...])
    return jax.freeze(ref)


class Size(enum.IntEnum):
    ROWS = 8


Pair = collections.namedtuple("Pair", "first second")
TWO, ROWS, MANY = np.float32(2), np.int64(8), np.arange(128, dtype=np.float32)
scalar_map = functools.partial(lambda n, i: (i * n, np.int32(0)), np.int32(1))
by_rows = jax.random.wrap_key_data

PROGRAMS = {
    "numpy: pad": lambda x: k(jnp.pad(x, ((0, 8), (0, 0))))[:16],
    "numpy: pad with an array": lambda x: k(jnp.pad(x, np.array([[0, 8], [0, 0]]), constant_values=TWO)),
    "numpy: pad by wrapping": lambda x: k(jnp.pad(x, ((0, 8), (0, 0)), mode="wrap")),
    "numpy: lax.pad": lambda x: k(lax.pad(x, np.float32(0), [(0, ROWS, 0), (0, 0, 0)])),
    "numpy: roll": lambda x: k(jnp.roll(x, (1, ROWS), axis=(0, np.int64(1)))),
    "numpy: split": lambda x: jnp.concatenate([k(part) for part in jnp.split(x, np.array([8]))]),
    "numpy: array_split": lambda x: jnp.concatenate([k(part) for part in jnp.array_split(x, 3)]),
    "numpy: hsplit": lambda x: jnp.concatenate([k(part) for part in jnp.hsplit(x, 2)], 1),
    "numpy: vectorize": lambda x: jnp.vectorize(lambda row: k(row[None])[0], signature="(n)->(n)")(x),
    "numpy: apply_along_axis": lambda x: jnp.apply_along_axis(lambda row: k(row[None])[0], 1, x),
    "numpy: searchsorted": lambda x: k(x + jnp.searchsorted(jnp.arange(5.0), x)),
    "numpy: interp": lambda x: k(jnp.interp(x, jnp.arange(5.0), jnp.arange(5.0))),
    "numpy: piecewise": lambda x: k(jnp.piecewise(x, [x < 0, x >= 0], [-1.0, lambda v: v])),
    "numpy: histogram": lambda x: k(x + jnp.histogram(x, bins=5)[0].sum()),
    "numpy: a fill value": lambda x: k(x.at[jnp.array([99])].get(mode="fill", fill_value=TWO)),
    "numpy: an index": lambda x: k(x[np.array([1, 0, 3])]),
    "numpy: a constant": lambda x: k(x * TWO + MANY),
    "numpy: a shape": lambda x: jnp.reshape(k(jnp.broadcast_to(x[:1], np.array([16, 128]))), np.array([8, 256])),
    "numpy: repeat": lambda x: k(jnp.repeat(x, np.arange(16), axis=0, total_repeat_length=64)),
    "numpy: fftshift": lambda x: k(jnp.fft.fftshift(x)),
    "numpy: attention": lambda x: k(jax.nn.dot_product_attention(*[x.reshape(1, 16, 2, 64)] * 3).reshape(16, 128)),
    "numpy: closure": lambda x: k(x, lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * TWO + np.float64(3))),
    "numpy: partial": lambda x: k(x, functools.partial(lambda n, a, b: b.__setitem__(..., a[...] * n), TWO)),
    "numpy: compiler": lambda x: k(x, compiler_params=pltpu.CompilerParams(vmem_limit_bytes=np.int64(1 << 20))),
    "numpy: copies": copies,
    "numpy: prefetched": looked_up,
    "grid: numpy": lambda x: blocked(x, block=(ROWS, 128), index_map=scalar_map, grid=(np.int64(2),)),
    "grid: an enum": lambda x: blocked(x, block=(Size.ROWS, 128), mode=pl.Buffered(np.int64(2))),
    "grid: dynamic": lambda x: blocked(x, grid=(jnp.sum(x * 0).astype(jnp.int32) + 2,)),
    "grid: elements": lambda x: blocked(x, block=(pl.Element(8), pl.Element(128)), index_map=lambda i: (i * 8, 0)),
    "grid: squeezed": lambda x: blocked(x[None], block=(pl.Squeezed(), 8, 128), index_map=lambda i: (0, i, 0)),
    "grid: metadata": lambda x: k(x, name="hello", metadata={"who": "me"}),
    "in: pad": inside(lambda v: jnp.pad(v, ((0, 8), (0, 0)))[:8]),
    "in: roll": inside(lambda v: jnp.roll(v, 3, axis=1)),
    "in: pltpu.roll": inside(lambda v: pltpu.roll(v, np.int32(3), np.int64(1))),
    "in: split": inside(lambda v: jnp.concatenate(jnp.split(v, 2)[::-1], 0)),
    "in: checkpoint": inside(lambda v: jax.checkpoint(jnp.sin)(v)),
    "in: fft": inside(lambda v: jnp.abs(jnp.fft.fft(v))),
    "in: random": inside(lambda v: v + jax.random.uniform(jax.random.key(0), v.shape)),
    "in: loops": inside(lambda v: lax.fori_loop(np.int32(0), np.int32(3), lambda i, v: v * 2, v)),
    "checkpoint: plain": lambda x: jax.checkpoint(k)(x),
    "checkpoint: policy": lambda x: jax.checkpoint(k, policy=jax.checkpoint_policies.dots_saveable)(x),
    "checkpoint: with a derivative": lambda x: jax.checkpoint(
        backwards(jax.custom_vjp, lambda x: (k(x), None), lambda _, g: (2 * g,))
    )(x),
    "fft: complex": lambda x: k(jnp.abs(jnp.fft.fft(x))),
    "fft: real": lambda x: k(jnp.fft.irfft(jnp.fft.rfft(x))),
    "fft: two axes": lambda x: k(jnp.real(jnp.fft.ifft2(jnp.fft.fft2(x)))),
    "fft: complex numbers": lambda x: k(jnp.imag(jnp.conj(x + 2j * x)) + jnp.real(lax.complex(x, x) * 1j)),
    "random: key": lambda x: k(x + jax.random.normal(jax.random.key(0), x.shape)),
    "random: PRNGKey": lambda x: k(x + jax.random.normal(jax.random.PRNGKey(0), x.shape)),
    "random: rbg": lambda x: k(x + jax.random.uniform(jax.random.key(0, impl="rbg"), x.shape)),
    "random: unsafe_rbg": lambda x: k(x + jax.random.uniform(jax.random.key(0, impl="unsafe_rbg"), x.shape)),
    "random: a constant": lambda x: k(x + jax.random.normal(KEY, x.shape) + jax.random.normal(OLD_KEY, x.shape)),
    "random: an array of keys": lambda x: k(x + jax.vmap(lambda key: jax.random.normal(key, (128,)))(KEYS)),
    "random: split": lambda x: k(x + jax.random.uniform(jax.random.split(jax.random.key(0), 3)[1], x.shape)),
    "random: fold_in": lambda x: k(x + jax.random.bernoulli(jax.random.fold_in(KEY, 3), 0.5, x.shape)),
    "random: permutation": lambda x: k(jax.random.permutation(jax.random.key(0), x)),
    "random: gamma": lambda x: k(x + jax.random.gamma(jax.random.clone(KEY), 2.0, x.shape)),
    "random: wrapped": lambda x: k(x + jax.random.key_data(by_rows(jnp.zeros(2, jnp.uint32)))[0]),
    "random: in a loop": lambda x: lax.fori_loop(
        0, 2, lambda i, c: (jax.random.split(c[0])[0], k(c[1] + jax.random.uniform(c[0], x.shape))), (KEY, x)
    )[1],
    "random: in a branch": lambda x: lax.cond(
        x[0, 0] > 0, lambda q: k(x + jax.random.normal(KEY, x.shape)), lambda q: x, KEY
    ),
    "random: bits": lambda x: k(x + lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), x.shape)[1]),
    "print: jax": printed("x is {x}"),
    "print: in order": printed("x is {x}", ordered=True),
    "print: callback": lambda x: (jax.debug.callback(lambda v: None, x), k(x))[1],
    "print: pl in a kernel": inside(lambda v: (pl.debug_print("block"), v)[1]),
    "print: values": inside(lambda v: (pl.debug_print("{}", v[0, 0]), jax.debug.print("{}", pl.program_id(0)), v)[2]),
    "print: pl.when": inside(lambda v: (pl.when(pl.program_id(0) == 0)(lambda: pl.debug_print("first")), v)[1]),
    "print: in a loop": inside(
        lambda v: lax.fori_loop(0, 2, lambda i, v: (pl.debug_print("{}", i), v + i)[1], v)
    ),
    "print: check": inside(lambda v: (pl.debug_check(True, "never"), v)[1]),
    "loop: vmap": lambda x: jax.vmap(k, in_axes=1, out_axes=1)(x.reshape(8, 2, 128)),
    "loop: vmap of blocks": lambda x: jax.vmap(lambda x: blocked(jnp.concatenate([x, x])))(x.reshape(2, 8, 128)),
    "loop: psum": lambda x: jax.vmap(lambda row: lax.psum(k(row[None])[0], "i"), axis_name="i")(x),
    "loop: axis_index": lambda x: jax.vmap(lambda r: k(r[None])[0] + lax.axis_index("i"), axis_name="i")(x),
    "loop: scan": lambda x: lax.scan(lambda c, row: (c + 1, k(row[None])[0]), 0, x, reverse=True)[1],
    "loop: map in batches": lambda x: lax.map(k, x.reshape(4, 4, 128), batch_size=2),
    "loop: cond": lambda x: lax.cond(x[0, 0] > 0, k, lambda x: x, x),
    "loop: switch": lambda x: lax.switch(2, [k, lambda x: x, lambda x: 2 * k(x)], x),
    "loop: while": lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, k(c[1])), (0, x))[1],
    "loop: reduce": lambda x: k(x + lax.reduce(x, np.float32(0), lambda a, b: a + b * 2, (0,))),
    "loop: mutable": mutable,
    "call: static": lambda x: jax.jit(lambda x, n: k(x) * n, static_argnums=1)(x, 3),
    "call: named": lambda x: jax.named_call(k, name="hi")(x),
    "call: pl.kernel": with_pl_kernel,
    "call: device_put": lambda x: k(jax.device_put(x, jax.devices()[0])),
    "call: einsum": lambda x: k(jnp.einsum("ij,kj,km->im", x, x, x)),
    "call: solve": lambda x: k(jnp.linalg.solve(x @ x.T + 100 * jnp.eye(16), x)),
    "call: custom_root": lambda x: k(
        x * lax.custom_root(lambda v: v - 2.0, 1.0, lambda f, v: v + 1.0, lambda g, y: y)
    ),
    "call: ragged": lambda x: k(lax.ragged_dot(x, jnp.ones((2, 128, 8)), jnp.array([8, 8]))),
    "call: a dtype": lambda x: k(x.astype(jnp.dtype(jnp.bfloat16)).astype(jnp.float4_e2m1fn).astype(np.float16)),
    "derivative: nondiff": with_nondiff,
    "derivative: of integers": of_integers,
    "derivative: symbolic zeros": backwards(
        jax.custom_vjp, lambda x: (k(x.value), None), lambda _, g: (2 * g,), symbolic_zeros=True
    ),
    "derivative: jvp in a loop": lambda x: lax.scan(
        lambda c, _: (backwards(jax.custom_jvp, lambda p, t: (k(*p), 2 * t[0]))(c), None), x, None, length=2
    )[0],
    "result: a named tuple": lambda x: Pair(k(x), [x]),
    "result: an ordered dict": lambda x: collections.OrderedDict(b=k(x), a=x),
    "result: a defaultdict": lambda x: collections.defaultdict(int, {"b": k(x), "a": x}),
}  # fmt: skip

# Programs for a TPU alone: they leave the box, and the CPU here cannot run them.
ON_A_TPU = {
    "random bits": inside(lambda v: (pltpu.prng_seed(0), v + pltpu.prng_random_bits(v.shape))[1]),
    "a delay": inside(lambda v: (pl.delay(10), v)[1]),
    "rounding": inside(
        lambda v: pltpu.stochastic_round(v, lax.bitcast_convert_type(v, jnp.uint32), target_dtype=jnp.bfloat16)
    ),
}

REFUSED = {
    "pure_callback": (lambda x: jax.pure_callback(lambda x: x, TYPE, k(x)), "Compute it with jax.numpy"),
    "io_callback": (
        lambda x: (jax.experimental.io_callback(lambda x: None, None, x), k(x))[1],
        "Compute it with jax.numpy",
    ),
    "shard_map": (
        lambda x: jax.shard_map(
            k, mesh=jax.sharding.Mesh(np.array(jax.devices()[:1]), "i"), in_specs=jax.P("i"), out_specs=jax.P("i"),
            check_vma=False,
        )(x),
        "Call the kernel without it",
    ),
    "ffi_call": (lambda x: jax.ffi.ffi_call("target", TYPE)(x), "Compute it with jax.numpy"),
}  # fmt: skip
