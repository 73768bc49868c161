"""The evaluation of a function whose kernels run on SparseCores, in NumPy, on a machine without any."""

import dataclasses

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from course_lib import chips, grid
from course_lib.grid import jaxprs
from course_lib.judges.sparse_core import interpreter
from course_lib.judges.sparse_core.faults import Fault, NotEvaluated
from course_lib.judges.sparse_core.memory import Buffer, in_hbm
from course_lib.judges.sparse_core.sharing import Sharing
from course_lib.judges.sparse_core.subcore import Shared, Subcore, own_buffer, space_of
from course_lib.judges.sparse_core.traffic import Traffic


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What came out: the outputs in a flat list, and the bytes that all kernels moved."""

    outputs: list[np.ndarray]
    traffic: Traffic


def evaluated(jaxpr: jax.extend.core.ClosedJaxpr, args: tuple, chip: str, *, checked: bool = True) -> Run:
    """Evaluate a function that was traced for ``chip``, kernels and all.

    Memory starts as NaN or the largest integer, and a copy has moved its data when it has been waited for. Raises Fault
    for what a chip may do differently: an index outside, an access that nothing orders, a wait without end ... If not
    ``checked``, such things pass: indices are clipped, copies move their data at once, and the subcores run in order,
    so that only the values tell. A wait without end is a Fault either way. Raises NotEvaluated for what the evaluator
    does not have.
    """
    traffic = Traffic()
    outputs = _evaluated(jaxpr, list(map(jnp.asarray, jax.tree.leaves(args))), chip, traffic, checked)
    return Run(outputs=list(map(np.asarray, outputs)), traffic=traffic)


def _evaluated(jaxpr, args: list, chip: str, traffic: Traffic, checked: bool) -> list:
    """Return the outputs of a jaxpr."""
    env = dict(zip(jaxpr.constvars, jaxpr.consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        ins = [env[v] if jaxprs.is_variable(v) else v.val for v in eqn.invars]
        if eqn.primitive.name in grid.KERNELS and jaxprs.runs_on_sparse_cores(eqn):
            outs = _kernel(eqn, ins, chip, traffic, checked)
        elif eqn.primitive.name in grid.KERNELS:
            raise NotEvaluated("The function also has a kernel for a TensorCore: judge that one alone.")
        elif not jaxprs.holds_a_kernel(eqn):
            outs = eqn.primitive.bind(*ins, **eqn.primitive.get_bind_params(eqn.params))
            outs = outs if eqn.primitive.multiple_results else [outs]
        elif (inner := jaxprs.called(eqn)) is not None:
            outs = _evaluated(inner, ins, chip, traffic, checked)
        else:
            raise NotEvaluated(f"A kernel inside `{eqn.primitive.name}` is not evaluated: call it directly.")
        env.update(zip(eqn.outvars, outs, strict=True))
    return [env[v] if jaxprs.is_variable(v) else v.val for v in jaxpr.outvars]


def _kernel(eqn, ins: list, chip: str, traffic: Traffic, checked: bool) -> list:
    params = eqn.params
    if len(params["jaxprs"]) != 1:
        raise NotEvaluated("A pl.kernel with bodies for several kinds of cores is not evaluated: judge each alone.")
    if params["input_output_aliases"]:
        raise NotEvaluated("input_output_aliases are not evaluated: leave them out to have the kernel judged.")
    (mesh,), (jaxpr,) = params["meshes"], params["jaxprs"]
    names = list(jaxpr.debug_info.arg_names or [])
    names = names if len(names) == len(jaxpr.invars) else [f"ref {n}" for n in range(len(jaxpr.invars))]
    if not all(hasattr(v.aval, "memory_space") for v in jaxpr.invars) or any(np.ndim(i) == 0 for i in ins):
        raise NotEvaluated("A number that the kernel takes from outside is not evaluated: pass it in an array.")
    inputs = [in_hbm(n, i.shape, i.dtype, np.asarray(i)) for n, i in zip(names, ins, strict=False)]
    outputs = [in_hbm(n, a.shape, a.dtype) for n, a in zip(names[len(ins) :], params["out_avals"], strict=False)]
    hbm, own = [*inputs, *outputs], list(zip(names, jaxpr.invars, strict=True))[len(inputs) + len(outputs) :]
    sizes = dict(mesh.shape)
    sharing = {buffer: Sharing(buffer.array.shape) for buffer in outputs}
    common = {"sharing": sharing, "traffic": traffic, "checked": checked}
    shared = Shared(chip=chips.sparse_cores(chip), sizes=sizes, **common)
    core_axis, places = next(iter(sizes)), list(np.ndindex(*sizes.values()))
    with np.errstate(all="ignore"):
        for core in range(sizes[core_axis]):
            of_core = {n: own_buffer(v.aval, n) for n, v in own if space_of(v.aval) == "vmem_shared"}
            shared.sharing.update({buffer: Sharing(buffer.array.shape) for buffer in of_core.values()})
            subcores = []
            for number, place in enumerate(places):
                if place[0] == core:
                    subcore = Subcore(shared, number, dict(zip(sizes, map(int, place), strict=True)))
                    refs = [of_core.get(n) or own_buffer(v.aval, n) for n, v in own]
                    subcores.append((subcore, interpreter.run(subcore, jaxpr, [], [*hbm, *refs])))
            _run_core(subcores, checked)
    return [jnp.asarray(_without_padding(buffer)) for buffer in outputs]


def _run_core(subcores: list, checked: bool) -> None:
    """Run the subcores of one SparseCore from barrier to barrier. Raises Fault if not all come to the same one."""
    while subcores:
        waiting, ended = [], []
        for subcore, running in subcores:
            try:
                next(running)
                waiting.append((subcore, running))
            except StopIteration:
                ended.append(subcore)
                if checked and (left := subcore.copies.left()):
                    raise left from None
        if waiting and ended:
            first = waiting[0][0]
            raise Fault(
                f"{first.name} waits at the barrier{first.line}, and the wait never ends: {ended[0].name} has ended "
                "without coming to it.",
                "let every subcore of a SparseCore reach every barrier: none inside pl.when, or in a loop that some "
                "subcores run more often.",
            )
        subcores = waiting


def _without_padding(buffer: Buffer) -> np.ndarray:
    return buffer.array[tuple(map(slice, buffer.shape))]
