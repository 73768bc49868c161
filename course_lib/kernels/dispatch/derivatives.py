"""An op with its own backward rule, like ``jax.custom_vjp``, that also supports forward-mode differentiation.

``jax.custom_vjp`` refuses jvp, jacfwd and hessian. Here an op is a ``jax.custom_jvp`` whose tangent is one linear
primitive. Its forward evaluation is the derivative of the op's launches, that is of their plain JAX; its transpose is
the backward rule with its kernels.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.mesh_rules import names_of


class differentiable:  # noqa: N801  stands where jax.custom_vjp could
    """A function ``fn(*arrays, *settings)``; the last ``settings`` arguments are hashable and not differentiated.

    ``defvjp(forward, backward)`` works as in ``jax.custom_vjp``: ``forward(*arrays, *settings)`` returns the
    results and the residuals, ``backward(*settings, residuals, g)`` the gradients. With ``asks``, the forward rule
    gets a keyword of that name, a tuple of bools that says which arrays are differentiated.
    """

    def __init__(self, fn: Callable, *, settings: int):
        self.fn, self.settings = fn, settings
        functools.update_wrapper(self, fn)

    def defvjp(self, forward: Callable, backward: Callable, *, asks: str | None = None) -> None:
        self.forward, self.backward, self.asks = forward, backward, asks

    def __call__(self, *args):
        count = len(args) - self.settings

        @jax.custom_jvp
        def op(*arrays):
            return self.fn(*arrays, *args[count:])

        op.defjvp(functools.partial(self._tangent, args[count:]), symbolic_zeros=True)
        return op(*args[:count])

    def _tangent(self, settings: tuple, arrays: tuple, tangents: tuple):
        moving = tuple(not isinstance(tangent, SymbolicZero) for tangent in tangents)
        out, kept = self.forward(*arrays, *settings, **({self.asks: moving} if self.asks else {}))
        kept, kept_tree = jax.tree.flatten(kept)
        results, out_tree = jax.tree.flatten(out)
        rules = _Rules(
            forwards=_Forwards(self.fn, settings, moving),
            backwards=_Backwards(self.backward, settings, moving, kept_tree, out_tree),
            kept=len(kept),
            arrays=len(arrays),
        )
        tangents = [tangent for tangent, moves in zip(tangents, moving, strict=True) if moves]
        return out, out_tree.unflatten(TANGENT.bind(*kept, *arrays, *tangents, rules=rules))


@dataclasses.dataclass(frozen=True)
class _Forwards:
    """Returns the flat tangents of the results, given the arrays and the tangents of those that are differentiated."""

    fn: Callable
    settings: tuple
    moving: tuple[bool, ...]

    def __call__(self, arrays, tangents):
        def of_moving(*moved):
            moved = iter(moved)
            mixed = [next(moved) if moves else a for a, moves in zip(arrays, self.moving, strict=True)]
            return jax.tree.leaves(self.fn(*mixed, *self.settings))

        primals = [a for a, moves in zip(arrays, self.moving, strict=True) if moves]
        return jax.jvp(of_moving, tuple(primals), tuple(tangents))[1]


@dataclasses.dataclass(frozen=True)
class _Backwards:
    """Returns the gradients of the differentiated arrays, given the residuals and the results' gradients, all flat."""

    rule: Callable
    settings: tuple
    moving: tuple[bool, ...]
    kept: object
    out: object

    def __call__(self, kept, gradients):
        found = self.rule(*self.settings, self.kept.unflatten(kept), self.out.unflatten(gradients))
        return [g for g, moves in zip(found, self.moving, strict=True) if moves]


@dataclasses.dataclass(frozen=True)
class _Mapped:
    fn: Callable
    axes: tuple  # of its two lists of arguments

    def __call__(self, *lists):
        return jax.vmap(self.fn, tuple(list(axes) if isinstance(axes, tuple) else axes for axes in self.axes))(*lists)


@dataclasses.dataclass(frozen=True)
class _Rules:
    forwards: Callable
    backwards: Callable
    kept: int
    arrays: int

    def parts(self, operands) -> tuple[list, list, list]:
        """Return the residuals, the arrays and the tangents."""
        first, second = self.kept, self.kept + self.arrays
        return list(operands[:first]), list(operands[first:second]), list(operands[second:])

    def run(self, *operands) -> list:
        return self.forwards(*self.parts(operands)[1:])


TANGENT = Primitive("kernel_tangent")
TANGENT.multiple_results = True


@functools.lru_cache(1024)
def _traced_once(rules: _Rules) -> Callable:
    return jax.jit(rules.run)


@TANGENT.def_impl
def _now(*operands, rules: _Rules):
    return _traced_once(rules)(*operands)


@TANGENT.def_abstract_eval
def _results(*operands, rules: _Rules):
    return jax.make_jaxpr(_traced_once(rules))(*operands).out_avals


def _transpose(gradients, *operands, rules: _Rules):
    kept, arrays, tangents = rules.parts(operands)
    found = rules.backwards(kept, [ad.instantiate_zeros(g) for g in gradients])
    wanted = [g if ad.is_undefined_primal(tangent) else None for g, tangent in zip(found, tangents, strict=True)]
    return [None] * (len(kept) + len(arrays)) + wanted


def _jvp(primals, tangents, *, rules: _Rules):
    tangents = tuple(ad.instantiate_zeros(tangent) for tangent in tangents)
    return TANGENT.bind(*primals, rules=rules), list(jax.jvp(rules.run, primals, tangents)[1])


def _batch(operands, axes, *, rules: _Rules):
    operands = [o if axis is None else jnp.moveaxis(o, axis, 0) for o, axis in zip(operands, axes, strict=True)]
    axes = [None if axis is None else 0 for axis in axes]
    mapped = next(operand for operand, axis in zip(operands, axes, strict=True) if axis == 0)
    for n in range(rules.kept + rules.arrays, len(operands)):  # the gradients of all of them will be mapped
        if axes[n] is None:
            operands[n], axes[n] = _repeated(operands[n], mapped), 0
    kept, arrays, tangents = map(tuple, rules.parts(axes))
    rules = dataclasses.replace(
        rules,
        forwards=_Mapped(rules.forwards, (arrays, tangents)),
        backwards=_Mapped(rules.backwards, (kept, 0)),
    )
    out = TANGENT.bind(*operands, rules=rules)
    return out, [0] * len(out)


def _repeated(operand, mapped):
    """Return ``operand`` repeated along the first axis of ``mapped``, cut as that is on Explicit axes of a mesh."""
    shape, where = (mapped.shape[0], *operand.shape), sharding.known(mapped)
    if where is None:
        return jnp.broadcast_to(operand, shape)
    first, own = where.spec[0], jax.typeof(operand).sharding.spec
    own = [tuple(axis for axis in names_of(names) if axis not in names_of(first)) or None for names in own]
    operand = jax.sharding.reshard(operand, NamedSharding(where.mesh, P(*own)))
    return jnp.broadcast_to(operand, shape, out_sharding=NamedSharding(where.mesh, P(first, *own)))


ad.primitive_transposes[TANGENT] = _transpose
ad.primitive_jvps[TANGENT] = _jvp
batching.primitive_batchers[TANGENT] = _batch
mlir.register_lowering(TANGENT, mlir.lower_fun(lambda *operands, rules: rules.run(*operands), multiple_results=True))
