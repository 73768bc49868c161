"""Six workloads, and the bytes that XLA's program moves for them."""

import functools

import jax
import jax.numpy as jnp

from course_lib import bench, chips, compiler, cost

DISPATCH_S = 100e-6  # host time of one call, as in the timings that JAX's documentation prints
LITTLE = 1.2  # times the bytes that must be moved


def _shaped(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


_bf16 = functools.partial(_shaped, dtype=jnp.bfloat16)


def _added_layer_norm(x, r):
    s = x + r
    return jax.nn.standardize(s, axis=-1), s


WORKLOADS = {
    "A": (lambda x, w, v: jax.nn.relu(x @ w) @ v, (_bf16(16384, 1024), _bf16(1024, 2048), _bf16(2048, 1024))),
    "B": (lambda x: jax.nn.log_softmax(x, axis=-1), (_shaped(16384, 8192),)),
    "C": (lambda x, y, z: jnp.tanh(x * y + z) / (1 + x * x), (_shaped(16384, 8192),) * 3),
    "D": (
        lambda x, q, s: jnp.dot(x, q.astype(x.dtype)) * s,
        (_bf16(16, 8192), _shaped(8192, 32768, dtype=jnp.int8), _bf16(32768)),
    ),
    "E": (_added_layer_norm, (_shaped(16384, 8192),) * 2),
    "F": (lambda x: jax.nn.standardize(x, axis=-1), (_shaped(64, 512),)),
}


def must(fn, *args) -> int:
    """Return the bytes if every argument is read once and every result is written once."""
    return cost.stored_bytes(*args, *jax.tree.leaves(jax.eval_shape(fn, *args)))


def verdict(name: str) -> str:
    """Return the first of "dispatch", "compute", "HBM", "kernel" that applies to a workload, by XLA's own program."""
    fn, args = WORKLOADS[name]
    moved = compiler.compile_tpu(fn, *args, simulate=False, time_limit_s=120, memory_bytes=4 * 2**30).hbm_bytes
    bytes_s, compute_s = moved / chips.chip("v5e").hbm_bandwidth, bench.bound(fn, *args).compute_s
    if max(bytes_s, compute_s) < DISPATCH_S / 10:
        return "dispatch"
    if compute_s > bytes_s:
        return "compute"
    return "HBM" if moved < LITTLE * must(fn, *args) else "kernel"
