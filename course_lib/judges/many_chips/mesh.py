"""The chips that a kernel runs on, and how the arrays of a program lie on them."""

import dataclasses
from collections.abc import Callable

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mesh:
    """Where the judges of many chips run what one device does: the arguments of ``judge_chips``, and ``out_specs``."""

    in_specs: tuple[PartitionSpec, ...]  # of each argument
    out_specs: PartitionSpec | tuple[PartitionSpec, ...]
    shape: tuple[int, ...] = (4,)
    axes: tuple[str, ...] = ("d",)
    topology: str = "v5e:2x2"
    ring: tuple[int, ...] | None = None  # the devices in the order in which links join them, for the schedule

    @property
    def sizes(self) -> dict[str, int]:
        """The number of devices along each axis, by its name."""
        return dict(zip(self.axes, self.shape, strict=True))

    def sharded(self, one_device: Callable) -> Callable:
        """Return the function of whole arrays whose devices each run ``one_device`` on their parts."""

        def whole(*args):  # a shard_map keeps the first mesh that it is called in, so each call has its own
            return jax.shard_map(one_device, in_specs=self.in_specs, out_specs=self.out_specs, check_vma=False)(*args)

        whole.__name__ = getattr(one_device, "__name__", "whole")
        return whole

    def parts(self, args: tuple) -> list[jax.ShapeDtypeStruct]:
        """Return the types of what one device has of each argument."""
        mesh = AbstractMesh(self.shape, self.axes, axis_types=(AxisType.Auto,) * len(self.axes))
        return [
            jax.ShapeDtypeStruct(NamedSharding(mesh, spec).shard_shape(a.shape), a.dtype)
            for a, spec in zip(args, self.in_specs, strict=True)
        ]
