"""The launch of a kernel: the implementation is chosen when a program is lowered for its platform.

Only then is it known whether the program runs on one device, or on several among which the compiler divides the work
(a mesh with Auto axes). The compiler cannot divide a kernel, so plain JAX runs there and a warning says so.

A launch is a JAX primitive with its own rules. Its derivative, of any order, is that of the plain JAX that computes the
same, so a gradient that is a kernel has a gradient too.
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

# jax.jit compiles apart for each value of these.
_on_gpus = jax.make_user_context("")  # kernels on Hopper; or "plain JAX", "kernels", "kernels or an error"
_road = jax.make_user_context("")  # the GPU's own; or "triton"


@contextlib.contextmanager
def gpu_kernels(run: bool = True, *, strict: bool = False, by_triton: bool = False) -> Iterator[None]:
    """Run kernels on every GPU that has some; with ``run=False`` on none.

    Outside this context they run on Hopper GPUs, where they were measured (docs/results.md), and plain JAX runs on all
    others. If a kernel cannot run, plain JAX does; inside the context a warning says why, and with ``strict``
    ``chip.NoKernel`` is raised instead. An op without a GPU kernel is plain JAX either way. ``by_triton`` runs the
    kernels for Ampere and Ada on a Hopper too, for comparison. A function under ``jax.jit`` is compiled once for each
    of these.
    """
    wanted = ("kernels or an error" if strict else "kernels") if run else "plain JAX"
    with _on_gpus(wanted), _road("triton" if by_triton else ""):
        yield


class fixed(functools.partial):  # noqa: N801  used as functools.partial is
    """A functools.partial that equals another with the same function and arguments, so that JAX compiles it once."""

    def __eq__(self, other):
        return isinstance(other, fixed) and self._parts() == other._parts()

    def __hash__(self):
        return hash(self._parts())

    def _parts(self):
        return self.func, self.args, frozenset(self.keywords.items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Op:
    """One computation on any platform: ``tpu`` launches a kernel on the arrays of one device, ``plain`` is JAX.

    Each takes the operands and returns an array, or a tuple with one array per result of ``rule`` (see ``mesh_rules``).
    ``gpu`` launches a Mosaic GPU kernel and ``portable`` a Triton kernel; either may raise ``chip.NoKernel``. If it
    raises or is None, and where ``gpu_kernels`` says so, ``plain`` runs. Equal ops are compiled once, so pass functions
    defined at the top of a file, or ``fixed`` ones. ``since``: the first TPU generation that can run the kernel.
    ``known``: letters of extra axes that must have static sizes; reduced axes always must. ``dtypes`` are those of the
    results, of the first operand if there are none; ``sizes`` those of letters of results that no operand has.

    Under ``jax.vmap``, the operands at the positions ``leading`` accept extra axes in front, and the results get them
    too; if exactly these are mapped, the op is called as it is. Otherwise ``tpu_mapped``, or ``tpu`` if it is None, is
    mapped; with ``one_at_a_time`` in a loop. ``lowered_in()`` is a context that the kernel is lowered in.
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
    dtypes: tuple[jnp.dtype, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    since: int = 4
    lowered_in: Callable = contextlib.nullcontext

    def __call__(self, *operands: Array, cuts: mesh_rules.Cuts = None) -> Array | tuple[Array, ...]:
        """Return the result, or a tuple of several. ``cuts``: the caller's layout on a mesh's Auto axes, if any."""
        results = sharding.spread(self.name, self.rule, self.run_here, self.run_plain, operands, cuts)
        return results[0] if len(results) == 1 else results

    def run_here(self, *operands: Array) -> tuple[Array, ...]:
        """Launch on this device alone, whichever it is."""
        return tuple(PRIMITIVE.bind(*operands, op=self))

    def run_tpu(self, *operands: Array) -> tuple[Array, ...]:
        """Run the kernel on this TPU; if it cannot run, warn why and run plain JAX."""
        if any(0 in operand.shape for operand in operands):  # empty in, empty out: no block can be empty
            return self.run_plain(*operands)
        if reason := self._why_plain(operands):
            warnings.warn(f"{self.name}: plain JAX instead of the kernel, {reason}", stacklevel=2)
            return self.run_plain(*operands)
        # Disable interpret mode here: interpreted kernels have effects, plain JAX has none, and the two must match.
        # Disable 64 bits too, whatever the program uses: a Python number in a kernel would become a 64-bit one.
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
        """Run the kernel on this GPU; plain JAX if there is none, with a warning if there is one that cannot run."""
        sizes = [size for operand in operands for size in operand.shape]
        wanted = _on_gpus.value or ("plain JAX" if chip.not_a_hopper() else "kernels where they can")
        if wanted == "plain JAX" or not (self.gpu or self.portable) or 0 in sizes:
            return self.run_plain(*operands)
        try:
            road = chip.gpu_road()
            if not (kernel := {"mosaic": self.gpu, "triton": self.portable}[_road.value or road]):
                return self.run_plain(*operands)
            if not all(map(is_known, sizes)):
                raise chip.NoKernel("it needs to know all sizes")
            with pltpu.force_tpu_interpret_mode(False), jax.enable_x64(False):  # the same switch simulates GPUs
                return _tuple(kernel(*operands))
        except chip.NoKernel as why:
            if wanted == "kernels or an error":
                raise
            if wanted == "kernels where they can":
                return self.run_plain(*operands)
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


@PRIMITIVE.def_abstract_eval
def _results(*operands, op: Op):
    """Return the types of the results; how they lie on a mesh is known to plain JAX alone."""
    if any(not operand.sharding.mesh.empty for operand in operands):
        return jax.make_jaxpr(_traced_once(op))(*operands).out_avals
    shapes = mesh_rules.shapes_of_results(op.rule, [operand.shape for operand in operands], op.sizes)
    dtypes = op.dtypes or [operands[0].dtype] * len(shapes)
    return [jax.core.ShapedArray(*result) for result in zip(shapes, dtypes, strict=True)]


@functools.lru_cache(1024)
def _traced_once(op: Op) -> Callable:
    return jax.jit(op.run_plain)


def _jvp(primals, tangents, *, op: Op):
    tangents = tuple(ad.instantiate_zeros(tangent) for tangent in tangents)
    return PRIMITIVE.bind(*primals, op=op), list(jax.jvp(op.run_plain, primals, tangents)[1])


def _batch(operands, axes, *, op: Op):
    """Move the mapped axis to the front and add a letter for it to the rule, so that a mesh may cut it.

    The kernel then gets more rows, or its grid one more axis.
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
    """Lower the method of ``op`` that ``run`` names in a program for one device; plain JAX in one for several."""
    if not _is_for_one_device(ctx.module_context.axis_context):
        warnings.warn(
            f"{op.name}: plain JAX instead of the kernel, which the compiler cannot divide among devices. Make the "
            "mesh's axes Explicit, or hand over layout=, or call it inside jax.shard_map over all axes.",
            stacklevel=2,
        )
        return _lower_plain(ctx, *operands, op=op)
    with chip.some_tpu() if run == "run_tpu" else chip.quiet_triton(always=_road.value == "triton"), op.lowered_in():
        return mlir.lower_fun(getattr(op, run), multiple_results=True)(ctx, *operands)


def _is_for_one_device(axis_context) -> bool:
    """Whether the program runs on one device: the same test as in the TPU's lowering of a kernel."""
    if hasattr(axis_context, "manual_axes"):  # inside shard_map
        mesh = axis_context.mesh
        return axis_context.manual_axes | set(mesh.manual_axes) == set(mesh.axis_names)
    return getattr(axis_context, "num_devices", 1) == 1


mlir.register_lowering(PRIMITIVE, _lower_plain)
mlir.register_lowering(PRIMITIVE, functools.partial(lower_for, "run_tpu"), platform="tpu")
mlir.register_lowering(PRIMITIVE, functools.partial(lower_for, "run_gpu"), platform="cuda")
