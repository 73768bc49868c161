"""The launch of a kernel: which implementation runs is chosen when a program is lowered, for the platform it is for.

Only then is it known whether the program is for one device, or for several among which the compiler divides the work
(a mesh with Auto axes). It cannot divide a kernel: there plain JAX runs, and a warning says so.

A launch is a JAX primitive with rules of its own. It is differentiated as the plain JAX that computes the same, in any
order; so a gradient that is a kernel has a gradient too.
"""

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from course_lib.arrays import Array
from course_lib.kernels.common import chip
from course_lib.kernels.common.symbolic import is_known
from course_lib.kernels.dispatch import mesh_rules, sharding

_on_gpus = jax.make_user_context("plain JAX")  # or "kernels", or "kernels or an error": jax.jit tells them apart


@contextlib.contextmanager
def gpu_kernels(*, strict: bool = False) -> Iterator[None]:
    """Run kernels on GPUs too. Without it plain JAX runs there, for no GPU has run these kernels yet.

    Where a kernel cannot run on a GPU plain JAX does, and a warning says why; with ``strict`` that is an error,
    ``chip.NoKernel``. An op without a kernel for a GPU is plain JAX either way. A function under ``jax.jit`` is
    compiled once for inside of the context, and once for outside.
    """
    with _on_gpus("kernels or an error" if strict else "kernels"):
        yield


class fixed(functools.partial):  # noqa: N801  used as functools.partial is
    """functools.partial, but equal to another of the same function and the same arguments: so it is compiled once."""

    def __eq__(self, other):
        return isinstance(other, fixed) and self._parts() == other._parts()

    def __hash__(self):
        return hash(self._parts())

    def _parts(self):
        return self.func, self.args, frozenset(self.keywords.items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Op:
    """One computation on whichever platform: ``tpu`` launches a kernel for the arrays of one device, ``plain`` is JAX.

    Each takes the operands and returns an array, or a tuple of as many as ``rule`` has results (see ``mesh_rules``).
    ``gpu`` launches a kernel on a GPU by Mosaic GPU, ``portable`` by Triton, or raises ``chip.NoKernel``. ``plain``
    runs where it raises, where it is None, and outside of ``gpu_kernels``. Equal ops are compiled once, so let their
    functions be those of a file, or ``fixed`` ones. ``since``: the first generation of TPUs that can run the kernel.
    ``known``: letters of further axes whose length the kernel must know, as it does of those that it reduces.

    Under ``jax.vmap``: the operands that ``leading`` counts may have more axes in front, and so have the results then;
    where these are mapped and no others, nothing else is to be done. Else it is ``tpu_mapped`` that is mapped, and
    where it is None ``tpu``; with ``one_at_a_time`` in a loop.
    """

    name: str
    rule: str
    tpu: Callable
    plain: Callable
    gpu: Callable | None = None
    portable: Callable | None = None
    leading: tuple[int, ...] = ()
    tpu_mapped: Callable | None = None
    one_at_a_time: bool = False
    known: str = ""
    since: int = 4

    def __call__(self, *operands: Array, cuts: mesh_rules.Cuts = None) -> Array | tuple[Array, ...]:
        """The result, or a tuple of several. ``cuts``: what the caller said of a mesh's Auto axes, if anything."""
        results = sharding.spread(self.name, self.rule, self.run_here, self.run_plain, operands, cuts)
        return results[0] if len(results) == 1 else results

    def run_here(self, *operands: Array) -> tuple[Array, ...]:
        """On each device by itself, whichever it is."""
        return tuple(PRIMITIVE.bind(*operands, op=self))

    def run_tpu(self, *operands: Array) -> tuple[Array, ...]:
        """The kernel, on this device; plain JAX where there can be none, and a warning that says why."""
        if any(0 in operand.shape for operand in operands):  # of nothing it makes nothing, and no block can be empty
            return self.run_plain(*operands)
        if reason := self._why_plain(operands):
            warnings.warn(f"{self.name}: plain JAX instead of the kernel, {reason}", stacklevel=2)
            return self.run_plain(*operands)
        # For the chip alone: where a notebook has switched the simulator on, a kernel has effects, and plain JAX not.
        # And in 32 bits, whatever the program around it has: else a plain number in a kernel would be one of 64.
        with pltpu.force_tpu_interpret_mode(False), jax.enable_x64(False):
            return _tuple(self.tpu(*operands))

    def _why_plain(self, operands: tuple[Array, ...]) -> str:
        if unknown := mesh_rules.unknown(self.rule, [operand.shape for operand in operands], self.known):
            return f"which needs to know how long an axis of {unknown} elements is."
        if (here := chip.generation()) < self.since:
            return f"which needs a TPU v{self.since}, and this is a v{here}."
        return ""

    def run_plain(self, *operands: Array) -> tuple[Array, ...]:
        return _tuple(self.plain(*operands))

    def run_gpu(self, *operands: Array) -> tuple[Array, ...]:
        """The kernel, on this GPU; plain JAX where there is none, and with a warning where it cannot run."""
        sizes = [size for operand in operands for size in operand.shape]
        if _on_gpus.value == "plain JAX" or not (self.gpu or self.portable) or 0 in sizes:
            return self.run_plain(*operands)
        try:
            if not (kernel := {"mosaic": self.gpu, "triton": self.portable}[chip.gpu_road()]):
                return self.run_plain(*operands)
            if not all(map(is_known, sizes)):
                raise chip.NoKernel("it needs to know all sizes")
            with pltpu.force_tpu_interpret_mode(False), jax.enable_x64(False):  # the same switch simulates GPUs
                return _tuple(kernel(*operands))
        except chip.NoKernel as why:
            if _on_gpus.value == "kernels or an error":
                raise
            what = f"{self.name}: plain JAX instead of the kernel"
            if isinstance(why, chip.NoKernels):
                what = "Plain JAX instead of all kernels"  # the same sentence for all ops, which Python shows once
            warnings.warn(f"{what}, for {why}.", stacklevel=2)
            return self.run_plain(*operands)


def _tuple(results) -> tuple[Array, ...]:
    return tuple(results) if isinstance(results, tuple | list) else (results,)


PRIMITIVE = Primitive("kernel_launch")
PRIMITIVE.multiple_results = True


@PRIMITIVE.def_impl
def _now(*operands, op: Op):
    return _compiled(op)(*operands)


@functools.lru_cache(1024)
def _compiled(op: Op) -> Callable:
    return jax.jit(functools.partial(PRIMITIVE.bind, op=op))


@functools.lru_cache(1024)
def _traced_once(op: Op) -> Callable:
    return jax.jit(op.run_plain)


@PRIMITIVE.def_abstract_eval
def _results(*operands, op: Op):
    return jax.make_jaxpr(_traced_once(op))(*operands).out_avals


def _jvp(primals, tangents, *, op: Op):
    tangents = tuple(ad.instantiate_zeros(tangent) for tangent in tangents)
    return PRIMITIVE.bind(*primals, op=op), list(jax.jvp(op.run_plain, primals, tangents)[1])


def _batch(operands, axes, *, op: Op):
    """The mapped axis comes first, and is a letter of the rule, which a mesh may cut.

    The kernel has rows as ever, and more of them, or one more axis of its grid.
    """
    ins, outs = mesh_rules.parts(op.rule)
    new, mapped = f"v{op.rule.count('v')}", tuple(None if axis is None else 0 for axis in axes)
    operands = [
        operand if axis is None else jnp.moveaxis(operand, axis, 0)
        for operand, axis in zip(operands, axes, strict=True)
    ]
    ins = [letters if axis is None else [new, *letters] for letters, axis in zip(ins, mapped, strict=True)]
    sides = ins, [[new, *letters] for letters in outs]
    rule = " -> ".join(", ".join(" ".join(letters) for letters in side) for side in sides)
    if tuple(n for n, axis in enumerate(mapped) if axis == 0) == op.leading:
        results = _tuple(dataclasses.replace(op, rule=rule)(*operands))
        return results, [0] * len(results)
    way = _Looped if op.one_at_a_time else _Vmapped
    plain, gpu, portable = (fn and way(fn, mapped) for fn in (op.plain, op.gpu, op.portable))
    tpu = way(op.tpu_mapped or op.tpu, mapped)
    roads = {"tpu": tpu, "plain": plain, "gpu": gpu, "portable": portable}
    op = dataclasses.replace(op, rule=rule, leading=(), tpu_mapped=None, **roads)
    results = _tuple(op(*operands))
    return results, [0] * len(results)


@dataclasses.dataclass(frozen=True)
class _Vmapped:
    fn: Callable
    axes: tuple[int | None, ...]

    def __call__(self, *operands):
        return jax.vmap(self.fn, self.axes)(*operands)


@dataclasses.dataclass(frozen=True)
class _Looped(_Vmapped):
    def __call__(self, *operands):
        def one(mapped):
            mapped = iter(mapped)
            pairs = zip(operands, self.axes, strict=True)
            return self.fn(*(operand if axis is None else next(mapped) for operand, axis in pairs))

        return jax.lax.map(one, [o for o, axis in zip(operands, self.axes, strict=True) if axis == 0])


ad.primitive_jvps[PRIMITIVE] = _jvp
batching.primitive_batchers[PRIMITIVE] = _batch


def _lower_plain(ctx, *operands, op: Op):
    return mlir.lower_fun(op.run_plain, multiple_results=True)(ctx, *operands)


def lower_for(run: str, ctx, *operands, op: Op):
    """``op.run_tpu`` or the like, as ``run`` has it, in a program for one device; plain JAX in one for several."""
    if not _is_for_one_device(ctx.module_context.axis_context):
        warnings.warn(
            f"{op.name}: plain JAX instead of the kernel, which the compiler cannot divide among devices. Make the "
            "mesh's axes Explicit, or hand over layout=, or call it inside jax.shard_map over all axes.",
            stacklevel=2,
        )
        return _lower_plain(ctx, *operands, op=op)
    with chip.some_tpu() if run == "run_tpu" else chip.quiet_triton():
        return mlir.lower_fun(getattr(op, run), multiple_results=True)(ctx, *operands)


def _is_for_one_device(axis_context) -> bool:
    """What the TPU's lowering of a kernel will ask, too."""
    if hasattr(axis_context, "manual_axes"):  # inside shard_map
        mesh = axis_context.mesh
        return axis_context.manual_axes | set(mesh.manual_axes) == set(mesh.axis_names)
    return getattr(axis_context, "num_devices", 1) == 1


mlir.register_lowering(PRIMITIVE, _lower_plain)
mlir.register_lowering(PRIMITIVE, functools.partial(lower_for, "run_tpu"), platform="tpu")
mlir.register_lowering(PRIMITIVE, functools.partial(lower_for, "run_gpu"), platform="cuda")
