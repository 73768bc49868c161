"""Kernels on many devices: each device runs the kernel on its part of the arrays, then sums are taken across devices.

On meshes with Explicit axes the types of the arrays say how they are cut. On Auto axes they do not, so the caller may
say so with ``layout``. An axis of the mesh cuts one axis of the op: the first one found cut so among the operands.
Other operands cut over that mesh axis are gathered, for example weights that lie over the batch axis. If a kernel
cannot run on parts, plain JAX runs instead and a warning says why. ``mesh_rules`` describes the rules of ops.
"""

import functools
import math
import warnings
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from course_lib.arrays import Array
from course_lib.kernels.dispatch.mesh_rules import CARRIES, SUMS, Cuts, Layout, cuts, names_of, parts


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _largest(x: Array, over: tuple[str, ...]) -> Array:
    return lax.pmax(x, over)


@_largest.defjvp
def _of_the_largest(over, primals, tangents):
    """Differentiate a maximum across devices (JAX has no rule): devices with equal maxima share the gradient."""
    (x,), (tangent,) = primals, tangents
    most = lax.pmax(x, over)
    mine = (x == most).astype(tangent.dtype)
    return most, lax.psum(mine * tangent, over) / lax.psum(mine, over)


_TAKE = dict(zip(SUMS, (lax.psum, _largest), strict=True))


def ready(op: str, rule: str, operands: Sequence[Array], layout: Layout = None) -> tuple[tuple[Array, ...], Cuts]:
    """Return the operands laid out as the kernel needs them, and ``cuts`` of the layout.

    Call this outside the function that has its own gradient rule, so that JAX moves each gradient back to its operand.
    """
    said, operands = cuts(op, rule, operands, layout), vary(*operands)
    return tuple(_Place(op, rule, operands, said).aligned(operands)), said


def on_a_mesh(operand: Array) -> bool:
    """Whether the mesh of an array is known here; without one a layout means nothing."""
    return not _mesh_of([operand]).empty


def _mesh_of(operands: Sequence[Array]):
    meshes = (jax.typeof(operand).sharding.mesh for operand in operands)
    return next((mesh for mesh in meshes if not mesh.empty), jax.sharding.get_abstract_mesh())


def is_cut(letter: str, op: str, rule: str, operands: Sequence[Array], said: Cuts) -> bool:
    """Whether an axis of the operands is cut among devices."""
    return letter in _Place(op, rule, operands, said).cut


def spread(op: str, rule: str, run: Callable, plain: Callable, operands: Sequence[Array], said: Cuts) -> tuple:
    """Return ``run(*operands)``, a tuple of arrays: on each device's part if they are cut; by ``plain`` if it
    cannot run.

    Raises ValueError if ``said`` names an axis that the mesh does not have.
    """
    place = _Place(op, rule, operands, said)
    if not place.axes:
        return run(*vary(*operands))
    if place.broken:
        results = place.run_plain(op, plain, operands)
        warnings.warn(f"{op}: plain JAX instead of the kernel, {place.broken}", stacklevel=3)
        return results
    return place.run(run, operands)


class _Place:
    """Where an op runs: a mesh, the axes of it that the op may use, and the letter that each of them cuts."""

    def __init__(self, op: str, rule: str, operands: Sequence[Array], said: Cuts):
        types = [jax.typeof(operand).sharding for operand in operands]
        self.mesh = _mesh_of(operands)
        self.explicit, self.manual = (_of_type(self.mesh, kind) for kind in (AxisType.Explicit, AxisType.Manual))
        self.ins, self.outs = parts(rule)
        self.cut: dict[str, tuple[str, ...]] = {}
        auto = {axis for axis in _of_type(self.mesh, AxisType.Auto) if self.mesh.shape[axis] > 1}
        self._check(op, said)
        # Auto axes that no layout mentions are left to the compiler, where plain JAX runs with a warning.
        speaks = bool(self.explicit) if said is None else not self.mesh.empty
        self.axes = set(self.mesh.axis_names) - self.manual - (auto if said is None else set()) if speaks else set()
        self.broken = ""  # why no kernel can run on the parts
        if self.axes:
            self._read(operands, types, dict(said or ()))

    def _check(self, op: str, said: Cuts) -> None:
        if said and self.mesh.empty:
            raise ValueError(f"{op}: layout names {_all(said)}, and no mesh is known here. Try jax.set_mesh(mesh).")
        if unknown := _all(said or ()) - set(self.mesh.axis_names):
            raise ValueError(f"{op}: layout names {unknown}; the mesh has {self.mesh.axis_names}. Try jax.set_mesh.")

    def _read(self, operands, types, said: dict[str, tuple[str, ...]]) -> None:
        used = set(self.manual)
        for number, (axes, operand, type_) in enumerate(zip(self.ins, operands, types, strict=True)):
            spec = tuple(type_.spec) + (None,) * (operand.ndim - len(type_.spec))
            for letter, size, known in zip(axes, operand.shape, spec, strict=True):
                names = dict.fromkeys(names_of(known) + said.get(letter, ()))
                names = tuple(axis for axis in names if axis not in used)
                count = math.prod(self.mesh.shape[axis] for axis in names)
                if letter.isupper():
                    if number == 0 and count > 1:
                        self.broken = (
                            f"which needs an axis of its first operand whole that is cut over {names}. "
                            "Cut another axis, or reshard it before."
                        )
                elif size % count:
                    self.broken = (
                        f"as {names} cannot cut {size} elements into {count} equal parts. "
                        "Pad the array, or leave the axis out of layout."
                    )
                elif names and letter not in self.cut:
                    self.cut[letter] = names
                    used.update(names)

    def run(self, run: Callable, operands: Sequence[Array]) -> tuple:
        """Run on each device's part, and take the sums across devices."""

        @jax.checkpoint  # for second derivatives: residuals could not leave a shard_map inside a shard_map
        def local(*operands):
            results = run(*vary(*operands))
            return tuple(self._collected(result, axes) for result, axes in zip(results, self.outs, strict=True))

        ins, outs = (tuple(map(self._spec, side)) for side in (self.ins, self.outs))
        # Left out means all axes; given, they must be those that a surrounding vmap has left.
        some = {} if self.axes == set(self.mesh.axis_names) else {"axis_names": self.axes}
        run_there = functools.partial(jax.shard_map, mesh=self.mesh, check_vma=bool(self.manual), **some)
        return run_there(local, in_specs=ins, out_specs=outs)(*self.aligned(operands))

    def run_plain(self, op: str, plain: Callable, operands: Sequence[Array]) -> tuple:
        """Run plain JAX. Raises ValueError if types on Explicit axes do not tell JAX how the results would lie."""
        try:
            return plain(*operands)
        except Exception as error:  # JAX raises several kinds
            if not self.explicit:
                raise
            raise ValueError(
                f"{op}: it cannot be the kernel, {self.broken} Nor plain JAX, which finds no type for the result of "
                "arrays that lie so. Try jax.sharding.reshard(x, jax.P()) of the first operand."
            ) from error

    def aligned(self, operands: Sequence[Array]) -> Sequence[Array]:
        """Return the operands cut as the rule says; on Auto axes shard_map does that by itself."""
        if not self.explicit or not self.axes or self.broken:
            return operands
        return [self._resharded(operand, self._spec(axes)) for operand, axes in zip(operands, self.ins, strict=True)]

    def _spec(self, axes: list[str]) -> P:
        return P(*(self.cut.get(letter.lstrip(CARRIES)) for letter in axes if letter[0] not in SUMS))

    def _resharded(self, operand: Array, spec: P) -> Array:
        known = P(*(tuple(axis for axis in names_of(names) if axis in self.explicit) or None for names in spec))
        wanted = NamedSharding(self.mesh, known)
        return operand if jax.typeof(operand).sharding == wanted else jax.sharding.reshard(operand, wanted)

    def _collected(self, result: Array, axes: list[str]) -> Array:
        for sign, take in _TAKE.items():
            over = tuple(axis for letter in axes if letter[0] == sign for axis in self.cut.get(letter[1:], ()))
            result = take(result, over) if over else result
        for axis, letter in enumerate(axes):
            if letter[0] in CARRIES and (over := self.cut.get(letter[1:])):
                result = _carried(result, axis, over, reverse=letter[0] == "<")
        return result


def vary(*operands: Array) -> tuple[Array, ...]:
    """Return the operands, each varying over all axes of a surrounding ``jax.shard_map`` that any of them varies over.

    JAX then sums the gradient of an operand that did not vary over the devices, outside the op's own rules.
    """
    over = [jax.typeof(operand).manual_axis_type.varying for operand in operands]
    every = frozenset().union(*over)
    return tuple(
        lax.pcast(operand, tuple(every - axes), to="varying") if every - axes else operand
        for operand, axes in zip(operands, over, strict=True)
    )


def known(operand: Array):
    """Return how an array is cut on Explicit axes, as an ``out_sharding``; None if its type does not say."""
    found = jax.typeof(operand).sharding
    return found if _of_type(found.mesh, AxisType.Explicit) else None


def _carried(sums: Array, axis: int, over: tuple[str, ...], *, reverse: bool) -> Array:
    """Return the cumulative sums of the whole array from those of each device's part along ``axis``."""
    last = lax.slice_in_dim(sums, 0, 1, axis=axis) if reverse else lax.slice_in_dim(sums, -1, None, axis=axis)
    ends = lax.all_gather(last, over)
    device, me = lax.broadcasted_iota(jnp.int32, ends.shape, 0), lax.axis_index(over)
    before = jnp.where(device > me if reverse else device < me, ends, 0)
    wide = jnp.promote_types(sums.dtype, jnp.float32) if jnp.issubdtype(sums.dtype, jnp.floating) else sums.dtype
    return (sums.astype(wide) + jnp.sum(before.astype(wide), axis=0)).astype(sums.dtype)


def _all(said) -> set[str]:
    return {axis for _, axes in said for axis in axes}


def _of_type(mesh, kind: AxisType) -> set[str]:
    return {name for name, its in zip(mesh.axis_names, mesh.axis_types, strict=True) if its == kind}
