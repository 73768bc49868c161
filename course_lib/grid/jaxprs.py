"""Go through a traced function: its equations, the jaxprs inside them, and what goes into those.

A jaxpr holds equations, and an equation may hold jaxprs of its own: the body of a loop, the branches of a condition,
what a jit calls, the body of a kernel.
"""

from collections.abc import Callable, Iterator

import jax
import jax.extend.core

KERNELS = ("pallas_call", "mpmd_map")  # what pl.pallas_call and pl.kernel are called in a jaxpr


def is_variable(atom) -> bool:
    """Whether an input of an equation is a variable, and not a number written there."""
    return not isinstance(atom, jax.extend.core.Literal)


def inside(eqn) -> list:
    """The jaxprs that an equation carries in its parameters: of jit, cond, scan, custom_vjp, a kernel call ..."""
    return [jaxpr for value in eqn.params.values() for jaxpr in _jaxprs(value)]


def _jaxprs(value) -> Iterator:
    if type(value) in (tuple, list):
        for item in value:
            yield from _jaxprs(item)
    elif hasattr(value, "eqns"):
        yield value


def equations(jaxpr, closed: tuple[str, ...] = KERNELS) -> Iterator:
    """Every equation of a jaxpr and of the jaxprs inside it; not those inside the primitives in ``closed``."""
    for eqn in jaxpr.eqns:
        yield eqn
        if eqn.primitive.name not in closed:
            for inner in inside(eqn):
                yield from equations(inner, closed)


def pallas_calls(jaxpr) -> Iterator:
    """The kernel calls of a jaxpr, inside jit, custom_vjp, scan and the like too."""
    return (eqn for eqn in equations(jaxpr) if eqn.primitive.name in KERNELS)


def holds_a_kernel(eqn, others: tuple[str, ...] = ()) -> bool:
    """Whether a kernel call, or one of ``others``, stands inside an equation."""
    return any(e.primitive.name in (*KERNELS, *others) for inner in inside(eqn) for e in equations(inner))


def constants(jaxpr) -> list:
    """The constants of a jaxpr, and of all inside it but its kernels, in order."""
    found = [inner for eqn in equations(jaxpr) if eqn.primitive.name not in KERNELS for inner in inside(eqn)]
    return [constant for one in (jaxpr, *found) for constant in one.consts]


def map_inside(eqn, change: Callable):
    """``eqn`` with ``change(jaxpr)`` in the place of each jaxpr that it carries."""

    def changed(value):
        if type(value) in (tuple, list):
            return type(value)(map(changed, value))
        return change(value) if hasattr(value, "eqns") else value

    if not inside(eqn):
        return eqn
    return eqn.replace(params={name: changed(value) for name, value in eqn.params.items()})


def called(eqn):
    """The jaxpr that a call-like equation (jit, custom_vjp ...) enters with its own inputs, or None."""
    return next((eqn.params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in eqn.params), None)


def bodies(eqn) -> list:
    """What a loop or a condition runs: the body of a scan or a while, the branches of a cond; [] for all else."""
    key = {"scan": "jaxpr", "while": "body_jaxpr", "cond": "branches"}.get(eqn.primitive.name)
    return list(_jaxprs(eqn.params[key])) if key else []


def scan_parts(eqn, values: list) -> tuple[list, list, list]:
    """A scan's inputs: the constants, what it carries from turn to turn, what it takes a slice of at each turn."""
    consts, carry, _ = (len(list(part.vals)) for part in eqn.params["ft_in"].unpack())
    return _split(values, consts, carry)


def while_parts(eqn, values: list) -> tuple[list, list, list]:
    """A while's inputs: the constants of its condition, those of its body, what it carries from turn to turn."""
    return _split(values, eqn.params["cond_nconsts"], eqn.params["body_nconsts"])


def _split(values: list, first: int, second: int) -> tuple[list, list, list]:
    return values[:first], values[first : first + second], values[first + second :]


def run_anew(eqn, inputs: list, run: Callable, decides: Callable = lambda value: value) -> list:
    """The outputs of a scan, a while or a cond, whose jaxprs are evaluated by ``run(jaxpr, inputs)``.

    ``decides`` makes of a value the plain one that a condition is decided by.
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
