"""Access to a traced function: its equations, the jaxprs inside them, and the inputs of those jaxprs.

A jaxpr holds equations, and an equation may hold jaxprs of its own: the body of a loop, the branches of a condition,
the function that a jit calls, the body of a kernel.
"""

from collections.abc import Callable, Iterator

import jax
import jax.extend.core

KERNELS = ("pallas_call", "mpmd_map")  # the primitives of pl.pallas_call and pl.kernel


def is_variable(atom) -> bool:
    """Whether an input of an equation is a variable rather than a literal."""
    return not isinstance(atom, jax.extend.core.Literal)


def inside(eqn) -> list:
    """Return the jaxprs in an equation's parameters: of jit, cond, scan, custom_vjp, a kernel call ..."""
    return [jaxpr for value in eqn.params.values() for jaxpr in _jaxprs(value)]


def _jaxprs(value) -> Iterator:
    if type(value) in (tuple, list):
        for item in value:
            yield from _jaxprs(item)
    elif hasattr(value, "eqns"):
        yield value


def equations(jaxpr, closed: tuple[str, ...] = KERNELS) -> Iterator:
    """Yield every equation of a jaxpr and of the jaxprs inside it, except inside the primitives in ``closed``."""
    for eqn in jaxpr.eqns:
        yield eqn
        if eqn.primitive.name not in closed:
            for inner in inside(eqn):
                yield from equations(inner, closed)


def pallas_calls(jaxpr) -> Iterator:
    """Return the kernel calls of a jaxpr, including those inside jit, custom_vjp, scan and the like."""
    return (eqn for eqn in equations(jaxpr) if eqn.primitive.name in KERNELS)


def runs_on_sparse_cores(eqn) -> bool:
    """Whether a kernel call is for the SparseCores of a chip: its mesh is one of scalar or vector subcores."""
    meshes = (*eqn.params.get("meshes", ()), eqn.params.get("mesh"))
    return any("Subcore" in type(mesh).__name__ for mesh in meshes)


def holds_a_kernel(eqn, others: tuple[str, ...] = ()) -> bool:
    """Whether an equation contains a kernel call, or one of the primitives in ``others``."""
    return any(e.primitive.name in (*KERNELS, *others) for inner in inside(eqn) for e in equations(inner))


def constants(jaxpr) -> list:
    """Return the constants of a jaxpr and of all jaxprs inside it except its kernels, in order."""
    found = [inner for eqn in equations(jaxpr) if eqn.primitive.name not in KERNELS for inner in inside(eqn)]
    return [constant for one in (jaxpr, *found) for constant in one.consts]


def map_inside(eqn, change: Callable):
    """Return ``eqn`` with each of its jaxprs replaced by ``change(jaxpr)``."""

    def changed(value):
        if type(value) in (tuple, list):
            return type(value)(map(changed, value))
        return change(value) if hasattr(value, "eqns") else value

    if not inside(eqn):
        return eqn
    return eqn.replace(params={name: changed(value) for name, value in eqn.params.items()})


def with_equations(jaxpr, eqns: list):
    """Return ``jaxpr`` with other equations; it may be a closed one."""
    if getattr(jaxpr, "jaxpr", jaxpr) is jaxpr:
        return jaxpr.replace(eqns=eqns)
    return jaxpr.replace(jaxpr=jaxpr.jaxpr.replace(eqns=eqns))


def called(eqn):
    """Return the jaxpr that a call-like equation (jit, custom_vjp ...) enters with its own inputs, or None."""
    if eqn.primitive.name == "custom_vmap_call":  # around every kernel of Mosaic GPU
        return eqn.params["call"]
    return next((eqn.params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in eqn.params), None)


def bodies(eqn) -> list:
    """Return what a loop or condition runs: the body of a scan or while, the branches of a cond; [] otherwise."""
    key = {"scan": "jaxpr", "while": "body_jaxpr", "cond": "branches"}.get(eqn.primitive.name)
    return list(_jaxprs(eqn.params[key])) if key else []


def scan_parts(eqn, values: list) -> tuple[list, list, list]:
    """Split a scan's inputs into its constants, its carry, and the arrays it slices at each iteration."""
    consts, carry, _ = (len(list(part.vals)) for part in eqn.params["ft_in"].unpack())
    return _split(values, consts, carry)


def while_parts(eqn, values: list) -> tuple[list, list, list]:
    """Split a while's inputs into the constants of its condition, those of its body, and its carry."""
    return _split(values, eqn.params["cond_nconsts"], eqn.params["body_nconsts"])


def _split(values: list, first: int, second: int) -> tuple[list, list, list]:
    return values[:first], values[first : first + second], values[first + second :]


def run_anew(eqn, inputs: list, run: Callable, decides: Callable = lambda value: value) -> list:
    """Rebuild a scan, while or cond whose jaxprs ``run(jaxpr, inputs)`` evaluates; return its outputs.

    ``decides`` converts a value to the plain one that decides a condition.
    """
    params = eqn.params
    if eqn.primitive.name == "scan":
        consts, carry, xs = scan_parts(eqn, inputs)

        def turn(carry, xs):
            out = run(params["jaxpr"], [*consts, *carry, *xs])
            return out[: len(carry)], out[len(carry) :]

        carry, ys = jax.lax.scan(turn, carry, xs, length=params["length"], reverse=params["reverse"])
        return [*carry, *ys]
    if eqn.primitive.name == "while":
        of_cond, of_body, carry = while_parts(eqn, inputs)
        return jax.lax.while_loop(
            lambda c: decides(run(params["cond_jaxpr"], [*of_cond, *c])[0]),
            lambda c: run(params["body_jaxpr"], [*of_body, *c]),
            carry,
        )
    branches = [lambda *a, b=branch: run(b, list(a)) for branch in params["branches"]]
    return jax.lax.switch(decides(inputs[0]), branches, *inputs[1:])
