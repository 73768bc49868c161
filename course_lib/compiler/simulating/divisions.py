"""Integer divisions rewritten into a form that the simulator can evaluate.

libtpu's simulator (0.0.48 and 0.0.50) follows the scalar core, but takes every integer quotient and remainder to be 0:
a copy guarded by ``i // 4`` is lost, a branch on ``i % 2 == 0`` is always taken. It does evaluate multiplications and
shifts. For the simulation alone, ``x // 4`` therefore becomes ``x >> 2``, and ``x // 3`` becomes ``(x * m) >> s``, with
m and s chosen so that it is exact for x from 0 to 8,192. A check over the whole grid tells whether that was enough.
"""

import functools

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from course_lib import grid
from course_lib.compiler.simulating import rewrite
from course_lib.grid.following import scalars
from course_lib.grid.following.follow import index_values
from course_lib.grid.jaxprs import called, inside, is_variable, map_inside

LARGEST = 8192  # dividends up to this are divided exactly
_CALLS = ("jit", "pjit", "closed_call")


def worked_out(jaxpr: jax.extend.core.ClosedJaxpr, args: tuple) -> tuple[jax.extend.core.ClosedJaxpr, str]:
    """Rewrite the scalar divisions in a function's kernels; return it with why that was impossible, or "".

    A function without divisions is returned unchanged.
    """
    if not any(_divides(eqn) for eqn in grid.pallas_calls(jaxpr)):
        return jaxpr, ""
    doubtful: list = []  # divisions that are not exact for every possible dividend
    written = rewrite.kernels(jaxpr, lambda _, eqn: _kernel(eqn, doubtful))
    if any(_divides(eqn) for eqn in grid.pallas_calls(written)):
        return jaxpr, "it divides by a number that is known only when it runs"
    if not doubtful or _same(jaxpr, written, args):
        return written, ""
    return jaxpr, f"it divides negative numbers, or numbers beyond {LARGEST:,}"


def _divides(eqn) -> bool:
    """Whether a kernel call has a scalar division in its index maps or its body."""
    maps = (block.index_map_jaxpr for block in _blocks(eqn))
    return any(_is_division(inner) for jaxpr in (*inside(eqn), *maps) for inner in grid.equations(jaxpr))


def _is_division(eqn) -> bool:
    if eqn.primitive.name not in ("div", "rem"):
        return False
    aval = eqn.outvars[0].aval
    return aval.shape == () and np.issubdtype(aval.dtype, np.integer)


def _blocks(eqn) -> tuple:
    """Return the blocks of a pallas_call, whose index maps are stored beside its body; a pl.kernel has none."""
    return tuple(eqn.params["grid_mapping"].block_mappings) if "grid_mapping" in eqn.params else ()


def _kernel(eqn, doubtful: list):
    """Rewrite all divisions by constants in a kernel call."""
    blocks = tuple(b.replace(index_map_jaxpr=_body(b.index_map_jaxpr, {}, doubtful)) for b in _blocks(eqn))
    eqn = map_inside(eqn, lambda body: _body(body, {}, doubtful))
    if not blocks:
        return eqn
    return eqn.replace(params=eqn.params | {"grid_mapping": eqn.params["grid_mapping"].replace(block_mappings=blocks)})


def _body(jaxpr, known: dict, doubtful: list):
    """Rewrite the divisions of a jaxpr; constants are propagated from the inputs in ``known`` to find the divisors."""
    known, eqns = dict(known), []
    for eqn in jaxpr.eqns:
        inputs = [known.get(v) if is_variable(v) else v.val for v in eqn.invars]
        if _is_division(eqn) and inputs[1] is not None and inputs[1] > 0:
            eqns.append(_written(eqn, int(inputs[1])))
            if np.issubdtype(eqn.outvars[0].aval.dtype, np.signedinteger) or int(inputs[1]).bit_count() != 1:
                doubtful.append(eqn)
            continue
        if all(x is not None and np.ndim(x) == 0 for x in inputs):
            known |= {v: x for v, x in zip(eqn.outvars, _values(eqn, inputs), strict=True) if scalars.known(x)}
        eqns.append(_inside(eqn, inputs, doubtful))
    return jaxpr.replace(eqns=eqns)


def _values(eqn, inputs: list) -> list:
    """Return the outputs of an equation on constants; UNKNOWN if it is not scalar, or has no inputs."""
    if not inputs or any(getattr(v.aval, "shape", None) != () for v in eqn.outvars):
        return [scalars.UNKNOWN] * len(eqn.outvars)
    if eqn.primitive.name in _CALLS:
        return index_values(called(eqn), inputs, ())
    return scalars.evaluate(eqn, inputs)


def _inside(eqn, inputs: list, doubtful: list):
    """Rewrite the jaxprs inside an equation; those of a call know the constants it is called with."""
    if eqn.primitive.name.startswith("reduce"):
        return eqn
    is_call = eqn.primitive.name in _CALLS

    def changed(jaxpr):
        known = {v: x for v, x in zip(jaxpr.invars, inputs, strict=True) if x is not None} if is_call else {}
        return _body(jaxpr, known, doubtful)

    return map_inside(eqn, changed)


def _written(eqn, divisor: int):
    """Return a call that computes the quotient or remainder of ``eqn`` by multiplying and shifting."""
    dtype = eqn.outvars[0].aval.dtype
    call = _call(eqn.primitive.name, divisor, dtype)
    return call.replace(invars=[eqn.invars[0]], outvars=list(eqn.outvars))


@functools.cache
def _call(name: str, divisor: int, dtype):
    power = divisor.bit_length() - 1
    exact = divisor == 1 << power
    shift = power if exact else 17 + power
    factor = 1 if exact else -(-(1 << shift) // divisor)

    def number(n: int):
        return jnp.asarray(n, dtype)

    def divided(x):
        if exact and name == "rem":
            return x & number(divisor - 1)
        quotient = jax.lax.shift_right_logical(x if exact else x * number(factor), number(shift))
        return quotient if name == "div" else x - quotient * number(divisor)

    (call,) = jax.make_jaxpr(jax.jit(divided))(jax.ShapeDtypeStruct((), dtype)).eqns
    return call


def _same(jaxpr, written, args: tuple) -> bool:
    """Whether both visit the same blocks and do the same over the whole grid; False if that cannot be followed."""
    try:
        return same(*(grid.walk_traced(one, args).calls for one in (jaxpr, written)))
    except grid.UnreadableCall:
        return False


def same(before: tuple[grid.Call, ...], after: tuple[grid.Call, ...]) -> bool:
    """Whether two versions of a function's kernels visit the same blocks and do the same at each step.

    Raises grid.UnreadableCall if a body cannot be followed.
    """
    return all(
        all((x.indices == y.indices).all() for x, y in zip(one.operands, other.operands, strict=True))
        and _deeds(one) == _deeds(other)
        for one, other in zip(before, after, strict=True)
    )


def _deeds(call: grid.Call) -> list:
    """Return how often each operation runs, in order, and the copies made by hand."""
    followed = grid.body(call)
    runs = [(eqn.primitive.name, times) for eqn, times in followed.runs if eqn.primitive.name not in ("jit", "pjit")]
    return [runs, [(c.source, c.target, c.shape, c.steps.tolist()) for c in followed.copies]]
