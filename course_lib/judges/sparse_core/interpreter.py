"""The evaluation of a kernel by one subcore: a generator, which stops at each barrier."""

import functools
import re
from collections.abc import Callable, Generator
from typing import NamedTuple

import jax.extend.core
import numpy as np

from course_lib import compat
from course_lib.grid import jaxprs
from course_lib.judges.sparse_core import accesses, arithmetic, transfers
from course_lib.judges.sparse_core.faults import Fault, NotEvaluated
from course_lib.judges.sparse_core.subcore import Subcore, own_buffer, space_of

Running = Generator[str, None, list]  # stops at barriers; returns the outputs

_OF_A_PIPELINE = re.compile(r"allocations\[(\d+)\]\.(\w+)")
_LONGEST = 5_000_000  # equations that one kernel evaluates: about a minute


class _Step(NamedTuple):
    """An equation, prepared once for all subcores and iterations."""

    eqn: jax.extend.core.JaxprEqn
    name: str
    atoms: tuple  # of each input (variable, None) or (None, value)
    compute: Callable | None  # of values; None for what touches memory or runs other equations


@functools.lru_cache(maxsize=1024)
def _steps(jaxpr) -> tuple[_Step, ...]:
    steps = []
    for eqn in jaxpr.eqns:
        name = compat.sparse_core_primitive(eqn) or eqn.primitive.name
        is_known = name in _RULES or name in _FLOWS or jaxprs.called(eqn) is not None
        atoms = tuple(
            (v, None) if jaxprs.is_variable(v) else (None, np.asarray(v.val, v.aval.dtype)[()]) for v in eqn.invars
        )
        steps.append(_Step(eqn, name, atoms, None if is_known else arithmetic.operation(eqn)))
    return tuple(steps)


def run(subcore: Subcore, jaxpr, consts: list, args: list) -> Running:
    """Evaluate a jaxpr. Raises Fault for a fault of the kernel, NotEvaluated for what the evaluator does not have."""
    env = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))
    subcore.shared.evaluated += len(jaxpr.eqns)
    if subcore.shared.evaluated > _LONGEST:
        raise NotEvaluated("The kernel is too long to evaluate: give it smaller arrays.")
    for step in _steps(jaxpr):
        ins = [value if v is None else env[v] for v, value in step.atoms]
        outs = step.compute(ins) if step.compute is not None else (yield from _run(subcore, step, ins))
        env.update(zip(step.eqn.outvars, outs, strict=True))
    return [env[v] if jaxprs.is_variable(v) else np.asarray(v.val)[()] for v in jaxpr.outvars]


def _run(subcore: Subcore, step: _Step, ins: list) -> Running:
    subcore.running.append(step.eqn)
    if step.name in _RULES:
        outs = _RULES[step.name](subcore, step.eqn, ins)
    elif step.name in _FLOWS:
        outs = yield from _FLOWS[step.name](subcore, step.eqn, ins)
    else:
        outs = yield from _call(subcore, jaxprs.called(step.eqn), ins)
    subcore.running.pop()
    return outs


def _call(subcore: Subcore, jaxpr, ins: list) -> Running:
    return (yield from run(subcore, getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", []), ins))


# What runs other equations


def _cond(subcore: Subcore, eqn, ins: list) -> Running:
    return (yield from _call(subcore, eqn.params["branches"][int(ins[0])], ins[1:]))


def _scan(subcore: Subcore, eqn, ins: list) -> Running:
    consts, carry, arrays = jaxprs.scan_parts(eqn, ins)
    if arrays or len(eqn.outvars) != len(carry):
        raise NotEvaluated("The evaluator has no loop over arrays: slice a ref in the loop instead.")
    for _ in range(eqn.params["length"]):
        carry = yield from _call(subcore, eqn.params["jaxpr"], [*consts, *carry])
    return carry


def _while(subcore: Subcore, eqn, ins: list) -> Running:
    of_condition, of_body, carry = jaxprs.while_parts(eqn, ins)
    while (yield from _call(subcore, eqn.params["cond_jaxpr"], [*of_condition, *carry]))[0]:
        carry = yield from _call(subcore, eqn.params["body_jaxpr"], [*of_body, *carry])
    return carry


def _parallel_loop(subcore: Subcore, eqn, ins: list) -> Running:
    first, last, step, consts, carry = eqn.params["tree"].unflatten(ins)
    jaxpr = eqn.params["jaxpr"]
    for number in range(int(first), int(last), int(step)):
        values = [*consts, np.int32(number), *carry]
        count = len(jaxpr.constvars)
        carry = yield from run(subcore, jaxpr, values[:count], values[count:])
    return list(carry)


def _run_scoped(subcore: Subcore, eqn, ins: list) -> Running:
    jaxpr = eqn.params["jaxpr"]
    names = [_readable(name) for name in jaxpr.debug_info.arg_names or ["scratch"] * len(jaxpr.invars)]
    if len(subcore.coordinates) > 1 and any(space_of(v.aval) == "vmem_shared" for v in jaxpr.invars):
        raise NotEvaluated("VMEM_SHARED in pl.run_scoped is not evaluated: pass it in scratch_types of the kernel.")
    made = [own_buffer(v.aval, name) for name, v in zip(names, jaxpr.invars, strict=True)]
    return (yield from run(subcore, jaxpr, ins, made))


def _readable(name: str) -> str:
    """Return "pipeline_buffer_0" for what JAX calls allocations[0].window_ref; other names as they are."""
    if (found := _OF_A_PIPELINE.match(name)) is None:
        return name
    return f"pipeline_{'buffer' if found[2] == 'window_ref' else 'semaphore'}_{found[1]}"


def _barrier(subcore: Subcore, eqn, ins: list) -> Running:
    yield "barrier"
    subcore.behind_a_barrier()
    return []


# Values that depend on the subcore, or are checked


def _axis_index(subcore: Subcore, eqn, ins: list) -> list:
    names, number = eqn.params["axis_name"], 0
    for name in names if isinstance(names, tuple) else (names,):
        number = number * subcore.shared.sizes[name] + subcore.coordinates[name]
    return [np.int32(number)]


def _multiple_of(subcore: Subcore, eqn, ins: list) -> list:
    for number in eqn.params["values"] if subcore.shared.checked else ():
        if int(ins[0]) % int(number):
            raise Fault(
                f"{subcore.name}{subcore.line} promises that {int(ins[0])} is a multiple of {int(number)}.",
                "promise with pl.multiple_of what holds: the compiler builds on it, and a chip copies other rows.",
            )
    return ins[:1]


def _not_there(subcore: Subcore, eqn, ins: list) -> list:
    name = (compat.sparse_core_primitive(eqn) or eqn.primitive.name).removeprefix("sc.")
    raise NotEvaluated(f"The evaluator has no `{name}`, which the kernel uses{subcore.line}.")


_FLOWS = {
    "cond": _cond,
    "scan": _scan,
    "while": _while,
    "run_scoped": _run_scoped,
    "sc.parallel_loop": _parallel_loop,
    "sc.barrier": _barrier,
}
_NOT_THERE = (
    "sc.pack", "sc.unpack", "sc.bitcast", "sc.fetch_and_add", "semaphore_signal", "semaphore_wait", "semaphore_read",
    "get_barrier_semaphore", "debug_print",
)  # fmt: skip
_RULES = {
    **accesses.RULES,
    **transfers.RULES,
    "axis_index": _axis_index,
    "multiple_of": _multiple_of,
    **dict.fromkeys(_NOT_THERE, _not_there),
}
