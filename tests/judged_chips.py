"""Kernels of ring_kernels before the judges of many chips, on CPU devices: test_judges_chips runs it as a process.

It reads [(kernel, mistake, devices, topology), ...] and prints for each a line: the verdicts, as JSON.
"""

import functools
import json
import sys

import jax
import jax.numpy as jnp
import ring_kernels as rings
from jax.sharding import PartitionSpec as P

from course_lib import judges
from course_lib.kernels.collectives.kernel import launch

ROWS = 16


def drawn(*shape):
    return jax.random.normal(jax.random.key(sum(shape)), shape)


def permuted(n, mistake):
    fn = rings.sharded(lambda x: rings.permuted(x, n, mistake), P("d"), P("d"))
    return fn, lambda x: jnp.roll(x, ROWS, axis=0), (drawn(n * ROWS, 128),), (P("d"),)


def gathering(kernel):
    def case(n, mistake):
        fn = rings.sharded(lambda x: kernel(x, n, mistake).reshape(1, -1, 128), P("d"), P("d"))
        return fn, lambda x: jnp.broadcast_to(x, (n, *x.shape)), (drawn(n * ROWS, 128),), (P("d"),)

    return case


def reduced(n, mistake):
    fn = rings.sharded(lambda x: rings.reduced(x[0], n, mistake)[None], P("d"), P("d"))
    return fn, lambda x: x.sum(axis=0), (drawn(n, n, 8, 128),), (P("d"),)


def multiplied(n, mistake):
    specs = P("d"), P(None, "d")
    fn = rings.sharded(lambda x, w: rings.multiplied(x, w, n, mistake), specs, P(None, "d"))
    return fn, lambda x, w: jnp.dot(x, w, precision="highest"), (drawn(n * ROWS, 128), drawn(128, n * 128)), specs


def collective(scatter, matmul):
    """A kernel of ``course_lib.kernels.collectives``, on two blocks of columns; 8 rows travel each way."""

    def case(n, mistake):
        run = functools.partial(launch, scatter, axis_name="d", sizes=(8, 128), precision="highest")
        if not scatter and not matmul:
            fn = rings.sharded(lambda x: run(x)[None], P("d"), P("d"))
            return fn, lambda x: jnp.broadcast_to(x, (n, *x.shape)), (drawn(n * ROWS, 256),), (P("d"),)
        if not scatter:
            specs = P("d"), P(None, "d")
            fn = rings.sharded(lambda x, w: run(x, w)[0], specs, P(None, "d"))
            args = drawn(n * ROWS, 128), drawn(128, n * 256)
            return fn, lambda x, w: jnp.dot(x, w, precision="highest"), args, specs
        x, w = drawn(n, n * ROWS, 256), drawn(n, 256, 256)
        if not matmul:
            return rings.sharded(lambda x: run(x[0]), P("d"), P("d")), lambda x: x.sum(0), (x,), (P("d"),)
        fn = rings.sharded(lambda x, w: run(x[0], w[0]), (P("d"), P("d")), P("d"))
        return fn, lambda x, w: jnp.einsum("dmk,dkn->mn", x, w, precision="highest"), (x, w), (P("d"), P("d"))

    return case


CASES = {
    "all_gather": collective(False, False), "reduce_scatter": collective(True, False),
    "all_gather_matmul": collective(False, True), "matmul_reduce_scatter": collective(True, True),
    "permuted": permuted, "gathered": gathering(rings.gathered),
    "gathered both ways": gathering(rings.gathered_both_ways), "reduced": reduced, "multiplied": multiplied,
}  # fmt: skip


def main():
    for kernel, mistake, devices, topology in json.load(sys.stdin):
        fn, reference, args, specs = CASES[kernel](devices, mistake)
        said = judges.judge_chips(fn, reference, *args, mesh=(devices,), in_specs=specs, topology=topology)
        print(json.dumps([[v.judge, v.passed, v.message, v.next] for v in said]), flush=True)


if __name__ == "__main__":
    main()
