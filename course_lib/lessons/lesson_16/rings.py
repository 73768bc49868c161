"""What the exercises on a ring of four devices share: arrays, meshes, and the limits on predicted (model) times."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from course_lib import chips, judges
from course_lib.checks import borrowed

DEVICES = 4
EACH = judges.Mesh(in_specs=(P("d"),), out_specs=P("d"))  # a part in, a part out
GATHERED = judges.Mesh(in_specs=(P("d"),), out_specs=P())  # a part in, all of it out
MATMUL = judges.Mesh(in_specs=(P("d"), P(None, "d")), out_specs=P(None, "d"))
MI = 2**20


def values(seed: int, *shape: int, dtype="float32") -> jax.Array:
    """Return values that are multiples of 1/8, so that sums of a few are exact."""
    return jnp.asarray(np.random.default_rng(seed).integers(-64, 65, shape) / 8, dtype)


def parts(x: jax.Array) -> jax.Array:
    """Return x [n * M, ...] as [n, M, ...]."""
    return x.reshape(DEVICES, x.shape[0] // DEVICES, *x.shape[1:])


def joined(x: jax.Array) -> jax.Array:
    """Return x [n, M, ...] as [n * M, ...]."""
    return x.reshape(-1, *x.shape[2:])


def one_way_s(shard: float, chip: str = "v5e") -> float:
    """Return the seconds in which n - 1 shards pass a link one after another, and a hop each."""
    links = chips.links(chip)
    return (DEVICES - 1) * (shard / links.link_bandwidth + links.hop_s)


def at_most(share: float, shard: float, mesh: judges.Mesh, case: Callable[[], tuple], small: float) -> Callable:
    """Return a demand: the predicted (model) time is at most ``share`` of that of a ring that passes shards one way.

    ``case`` returns arrays of which each device's part has ``small`` bytes, which stand for the bytes of ``shard``.
    """
    limit = share * one_way_s(shard)

    def slower(one_device: Callable) -> tuple[str, str] | None:
        schedule = judges.schedule_chips(mesh.sharded(one_device), *case(), mesh=mesh.shape, scale=shard / small)
        if schedule.seconds <= limit:
            return None
        lane, busy = schedule.busiest()
        ways = {lane for lane in schedule.busy() if lane.startswith("link")}
        unused = (
            "Half of the links' directions carry nothing."
            if len(ways) <= DEVICES
            else f"The busiest is {lane}, for {busy:.0%} of the time."
        )
        return (
            f"For {shard / MI:.0f} MiB per device it takes {schedule.seconds * 1e6:.1f} us, predicted (model); at most "
            f"{limit * 1e6:.1f} us pass. {unused}",
            "let half of the rows travel each way, at the same time: start both copies of a step before you wait for "
            "either.",
        )

    return slower


def events(one_device: Callable, mesh: judges.Mesh, case: Callable[[], tuple]) -> list[list]:
    """Return what each device does, in its own order, with the arrays that ``case`` returns."""
    return judges.schedule_chips(mesh.sharded(one_device), *case(), mesh=mesh.shape).record.events


def between(events: list[list]) -> list:
    """Return the copies from one device to another."""
    return [e for each in events for e in each if e.kind == "start" and e.target.device != e.device]


def own_kernel(mesh: judges.Mesh, case: Callable[[], tuple]) -> Callable:
    """Return a demand: the kernel is not one of ``course_lib.kernels``."""

    def own(one_device: Callable) -> tuple[str, str] | None:
        devices = AbstractMesh(mesh.shape, mesh.axes, axis_types=(AxisType.Auto,) * len(mesh.axes))
        with jax.sharding.use_abstract_mesh(devices):  # kernels.collectives can be traced only in a shard_map
            return borrowed.complaint(mesh.sharded(one_device), *case(), next="write it yourself, step by step.")

    return own
