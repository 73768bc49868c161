"""The collectives beside XLA's, on CPU devices: test_collectives runs it as a process.

They are those of course_lib.kernels, or of the printed page that is given, next to which course_lib cannot be imported.
"""

import functools
import importlib.util
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

if PAGE := sys.argv[1:]:
    sys.modules["course_lib"] = sys.modules["jaxtyping"] = None  # to import them is an error
    spec = importlib.util.spec_from_file_location("page", PAGE[0])
    collectives = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(collectives)
else:
    from course_lib.kernels import collectives

KEY = jax.random.key(0)
ROWS, K, N = 6, 16, 8  # of each device


def close(got, want):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), got, want)


def gradients(fn, *args):
    """The gradients of a sum that weighs each element differently."""
    out = jax.eval_shape(fn, *args)
    weights = jax.random.normal(KEY, out.shape)
    return jax.jit(jax.grad(lambda *args: (fn(*args) * weights).sum(), tuple(range(len(args)))))(*args)


def ops(n, check_vma):
    """Name of an op: (on the devices, in plain JAX, arguments)."""
    on = functools.partial(jax.shard_map, check_vma=check_vma)
    x, w = jax.random.normal(KEY, (n * ROWS, K)), jax.random.normal(KEY, (K, n * N))
    xs, ws = jax.random.normal(KEY, (n, n * ROWS, K)), jax.random.normal(KEY, (n, K, N))
    each, columns = P("d"), P(None, "d")
    return {
        "all_gather": (
            on(lambda x: collectives.all_gather(x, "d")[None], in_specs=each, out_specs=each),
            lambda x: jnp.broadcast_to(x, (n, *x.shape)),
            (x,),
        ),
        "all_gather of three axes": (
            on(lambda x: collectives.all_gather(x, "d")[None], in_specs=each, out_specs=each),
            lambda x: jnp.broadcast_to(x, (n, *x.shape)),
            (x.reshape(-1, 4, 4),),
        ),
        "reduce_scatter": (
            on(lambda x: collectives.reduce_scatter(x[0], "d"), in_specs=each, out_specs=each),
            lambda x: x.sum(axis=0),
            (xs,),
        ),
        "all_gather_matmul": (
            on(lambda x, w: collectives.all_gather_matmul(x, w, "d"), in_specs=(each, columns), out_specs=columns),
            jnp.dot,
            (x, w),
        ),
        "matmul_reduce_scatter": (
            on(lambda x, w: collectives.matmul_reduce_scatter(x[0], w[0], "d"), in_specs=each, out_specs=each),
            lambda x, w: jnp.einsum("dmk,dkn->mn", x, w),
            (xs, ws),
        ),
    }


def mapped_and_twice(n):
    """A mapped op, and a derivative of a derivative, with a weight that all devices have."""
    x, w = jax.random.normal(KEY, (n * ROWS, K)), jax.random.normal(KEY, (K, N))
    fn = jax.shard_map(
        lambda x, w: collectives.all_gather_matmul(x, w, "d")[None], in_specs=(P("d"), P()), out_specs=P("d")
    )
    close(jax.vmap(fn, (0, None))(jnp.stack([x, 2 * x]), w)[1, 0], 2 * x @ w)
    twice = jax.jvp(jax.grad(lambda x: (fn(x, w) ** 2).sum()), (x,), (x,))[1]
    close(twice, jax.jvp(jax.grad(lambda x: n * ((x @ w) ** 2).sum()), (x,), (x,))[1])


def main():
    jax.config.update("jax_default_matmul_precision", "highest")
    for n, check_vma in ((1, True), (3, False), (4, True)):
        mesh = jax.make_mesh((n,), ("d",), (AxisType.Auto,), devices=jax.devices()[:n])
        with jax.set_mesh(mesh):
            for name, (fn, plain, args) in ops(n, check_vma).items():
                if PAGE and name == "all_gather of three axes":
                    continue
                close(fn(*args), plain(*args))
                close(gradients(fn, *args), gradients(plain, *args))
                print(n, name)
            if n == 4 and not PAGE:
                mapped_and_twice(n)
                print("mapped, and twice")
                try:
                    ops(n, True)["reduce_scatter"][0](jnp.ones((n, 25, 3)))
                except ValueError as error:
                    print(error)


if __name__ == "__main__":
    main()
