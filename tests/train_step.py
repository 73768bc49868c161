"""One step of training two layers, compiled for a TPU topology that is not here: its kernels and collectives, counted.

Run by test_kernels_devices with the name of the topology ("v5e:2x2"); prints JSON, a count for each way to cut it up.
"""

import os
import sys

# What libtpu reads when it loads; the tests beside this one may have one of their own at the same time.
os.environ.update(
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
    TPU_SKIP_MDS_QUERY="1",
    TPU_WORKER_HOSTNAMES="localhost",
    TPU_ACCELERATOR_TYPE="v5litepod-4",
    JAX_PLATFORMS="cpu",
    TF_CPP_MIN_LOG_LEVEL="3",
)

import collections
import json
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from course_lib.kernels import linear

COLLECTIVES = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
SHAPES = ((256, 256), (256, 512), (512,), (512, 256), (256,))  # x, w1, b1, w2, b2
ROWS, COLUMNS = P("d"), P(None, "t")
# How x, w1, b1, w2, b2 are cut: by the batch; and the weights too, so that the second product has its K cut.
BATCH = (P(("d", "t")), P(), P(), P(), P())
TENSOR = (ROWS, COLUMNS, P("t"), P("t"), P())
WEIGHTS_AS_THE_BATCH = (ROWS, ROWS, P(), ROWS, P())


def step(x, w1, b1, w2, b2, first=None, second=None):
    """The weights after one step down the gradient of a mean square."""

    def loss(w1, b1, w2, b2):
        h = linear.linear(x, w1, b1, activation="gelu", layout=first)
        return jnp.mean(linear.linear(h, w2, b2, layout=second) ** 2)

    weights = w1, b1, w2, b2
    return [w - 0.1 * g for w, g in zip(weights, jax.grad(loss, (0, 1, 2, 3))(*weights), strict=True)]


def in_shard_map(*weights, mesh):
    """The same by the batch, in the words of who writes a shard_map: the gradients are added by its types."""

    def loss(x, w1, b1, w2, b2):
        h = linear.linear(x, w1, b1, activation="gelu")
        return jax.lax.pmean(jnp.mean(linear.linear(h, w2, b2) ** 2), ("d", "t"))

    local = jax.shard_map(loss, mesh=mesh, in_specs=BATCH, out_specs=P())
    gradients = jax.grad(local, (1, 2, 3, 4))(*weights)
    return [w - 0.1 * g for w, g in zip(weights[1:], gradients, strict=True)]


def tpu_topology(name: str):
    """A description of TPUs that are not here, such as "v5e:2x2"."""
    return topologies.get_topology_desc(platform="tpu", topology_name=name)


def counts(fn, *described) -> dict[str, int]:
    """Kernels and collectives of a compiled program, and warnings that plain JAX runs instead of a kernel."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        text = jax.jit(fn).trace(*described).lower(lowering_platforms=("tpu",)).compile().as_text()
    found = collections.Counter(re.findall(rf"[ )]({COLLECTIVES})(?:-start)?\(", text))
    found["kernels"] = text.count('custom_call_target="tpu_custom_call"')
    found["warnings"] = sum("plain JAX" in str(warning.message) for warning in said)
    return {name: count for name, count in found.items() if count}


def counted(topology, kind, specs, change=lambda mesh: step) -> dict[str, int]:
    """``counts`` of the step with its operands cut so, on a mesh of all devices."""
    devices = np.array(topology.devices)
    mesh = Mesh(devices.reshape(2, -1), ("d", "t"), axis_types=(getattr(AxisType, kind),) * 2)
    described = [
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
        for shape, spec in zip(SHAPES, specs, strict=True)
    ]
    return counts(change(mesh), *described)


def with_layouts(specs):
    x, w1, b1, w2, b2 = specs
    h = P(*x[:1], *w1[1:])
    return lambda mesh: lambda *a: step(*a, first=(x, w1, b1), second=(h, w2, b2))


def main(name: str) -> None:
    topology = tpu_topology(name)
    table = {
        "Explicit, batch": counted(topology, "Explicit", BATCH),
        "Explicit, batch and weights": counted(topology, "Explicit", TENSOR),
        "Explicit, weights as the batch": counted(topology, "Explicit", WEIGHTS_AS_THE_BATCH),
        "Auto, batch": counted(topology, "Auto", BATCH),
        "Auto, batch and weights, layout=": counted(topology, "Auto", TENSOR, with_layouts(TENSOR)),
        "shard_map, batch": counted(topology, "Auto", BATCH, lambda mesh: lambda *a: in_shard_map(*a, mesh=mesh)),
    }
    print(json.dumps(table))


if __name__ == "__main__":
    main(sys.argv[1])
