"""Rules about exponentials: a maximum that is not subtracted, and running sums that are not rescaled when it grows.

A softmax over several blocks carries a running maximum m and sums of exp(x - m). When m grows from old to new, each
such sum must be multiplied by exp(old - new). All of this is read off the kernel's code.
"""

from collections.abc import Iterator
from typing import NamedTuple

from course_lib import grid
from course_lib.judges.reading import flow
from course_lib.judges.reading.flow import Op
from course_lib.judges.rules import memory_rules
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding

_MOVES = {
    "broadcast_in_dim",
    "reshape",
    "squeeze",
    "expand_dims",
    "convert_element_type",
    "copy",
    "slice",
    "select_n",
    flow.EITHER,
}
_EXP = {"exp", "exp2", "pow"}
_KEEP_SMALL = {"reduce_max", "max", "reduce_min", "min", "clamp", "select_n", "neg"}


class _Kernel(NamedTuple):
    """A kernel's operations, and the one that makes each value."""

    call: grid.Call
    ops: list[Op]
    refs: dict[int, str]  # value of a ref -> the ref's name
    made: dict[int, Op]

    def origins(self, value: int | None) -> set[int]:
        """Return the values that ``value`` is a copy of, in another shape or dtype, from a branch or by jnp.where."""
        op = self.made.get(value)
        if op is None or op.name not in _MOVES:
            return {value}
        return set().union(*map(self.origins, op.inputs[op.name == "select_n" :]))

    def makers(self, value: int | None) -> list[Op]:
        return [self.made[v] for v in self.origins(value) if v in self.made]

    def is_read_of(self, value: int | None, ref: int) -> bool:
        return any(op.name == "get" and op.inputs[0] == ref for op in self.makers(value))

    def stores(self) -> Iterator[tuple[int, Op]]:
        """Yield (ref, an operation that makes a value stored there)."""
        for op in self.ops:
            if op.name == "swap" and op.inputs[0] in self.refs:
                for maker in self.makers(op.inputs[1]):
                    yield op.inputs[0], maker
            if op.name == "addupdate" and op.inputs[0] in self.refs:  # in place
                yield op.inputs[0], op


def no_maximum(found: Finding) -> Complaint | None:
    """Report an exp that overflows because no maximum is subtracted."""
    if not memory_rules.is_computed(found):
        return None
    names = {eqn.primitive.name for eqn in grid.equations(found.made_by[0].kernel)}
    if names & _EXP and "div" in names and not names & _KEEP_SMALL:
        return Complaint(
            "The kernel takes exp without subtracting a maximum first: exp(89) overflows a float32, and inf / inf is "
            "NaN.",
            "subtract each row's maximum first: exp(x - m) is at most 1, and the quotient is the same.",
        )
    return None


def two_axes(found: Finding) -> Complaint | None:
    """Report a maximum along one axis of the scores, where their exponentials are summed along another and no other."""
    for call in found.walk.calls:
        kernel = _read(call)
        for largest in (op for op in kernel.ops if op.name == "reduce_max"):
            since = flow.spread(kernel.ops, set(largest.outputs))
            powers = {v for op in kernel.ops if op.name in _EXP and not since.isdisjoint(op.inputs) for v in op.outputs}
            sums = [op for op in kernel.ops if op.name == "reduce_sum" and kernel.origins(op.inputs[0]) & powers]
            axes = [_axes(op) for op in sums if _shape(op) == _shape(largest)]
            if axes and _axes(largest) not in axes:
                return Complaint(
                    f"The maximum is taken along axis {_axes(largest)[0]} of a block of scores, but the exponentials "
                    f"are summed along axis {axes[0][0]}.",
                    "both belong to one row of the softmax: take them along the same axis, with keepdims=True.",
                )
    return None


def _shape(op: Op) -> tuple[int, ...]:
    return op.eqn.invars[0].aval.shape


def _axes(op: Op) -> tuple[int, ...]:
    return tuple(op.eqn.params["axes"])


def running_sum(found: Finding) -> Complaint | None:
    """Report running sums of exp(x - m) that are not rescaled when m grows, or for which no m is carried."""
    return next((said for call in found.walk.calls if (said := complaint(call))), None)


def complaint(call: grid.Call) -> Complaint | None:
    """Report what is wrong with the running sums of one kernel, by its code alone."""
    kernel = _read(call)
    return (
        _not_shrunk(kernel) or _older_maximum(kernel) or _divided_by_the_maximum(kernel) or _no_running_maximum(kernel)
    )


def _read(call: grid.Call) -> _Kernel:
    ops, refs, carried = flow.operations(call.kernel)
    names = [ref.name for ref in (*call.operands, *call.scratch)]
    made = {output: op for op in ops for output in op.outputs}
    return _Kernel(call, ops, dict(zip(refs, names, strict=True)) | carried, made)


def _maxima(kernel: _Kernel) -> dict[int, set[int]]:
    """Return {ref of a running maximum: the values that are the new one}."""
    found: dict[int, set[int]] = {}
    for ref, op in kernel.stores():
        if op.name == "max" and any(kernel.is_read_of(value, ref) for value in op.inputs):
            found.setdefault(ref, set()).update(op.outputs)
    return found


def _sums(kernel: _Kernel) -> Iterator[tuple[int, Op | None, set[int]]]:
    """Yield (ref, the product that rescales its old value or None, the values that are added) for each running sum."""

    def product_of(op: Op, ref: int) -> bool:
        return op.name in ("mul", "div") and any(kernel.is_read_of(value, ref) for value in op.inputs)

    shrunk = {ref: op for ref, op in kernel.stores() if product_of(op, ref)}  # on a line of its own
    for ref, op in kernel.stores():
        if op.name == "addupdate":
            yield ref, shrunk.get(ref), {op.inputs[1]}
        if op.name not in ("add", "add_any"):
            continue
        for old, new in (op.inputs, op.inputs[::-1]):
            if kernel.is_read_of(old, ref):
                yield ref, shrunk.get(ref), {new}
            for maker in kernel.makers(old):
                if product_of(maker, ref):
                    yield ref, maker, {new}


def _not_shrunk(kernel: _Kernel) -> Complaint | None:
    """Report a sum of exponentials that is not rescaled when its running maximum grows."""
    for maximum, new in _maxima(kernel).items():
        m = kernel.refs[maximum]
        since = flow.spread(kernel.ops, new)
        powers = {v for op in kernel.ops if op.name in _EXP and not since.isdisjoint(op.inputs) for v in op.outputs}
        summed = flow.spread(kernel.ops, powers)
        for ref, product, added in _sums(kernel):
            if summed.isdisjoint(added):
                continue
            name = kernel.refs[ref]
            if product is None:
                return Complaint(
                    f"The kernel adds to {name} without rescaling what it already holds when {m} grows: that was "
                    "summed with the old maximum.",
                    f"before you add to {name}, multiply it by exp(old - new), where old is what {m} held and new is "
                    "what it holds now.",
                )
            if _turned_round(kernel, product, maximum, new):
                return Complaint(
                    f"{name} is multiplied by exp(new - old), which makes it larger when {m} grows.",
                    "use exp(old - new) instead, which is at most 1.",
                )
    return None


def _older_maximum(kernel: _Kernel) -> Complaint | None:
    """Report exp(x - old) that is added to sums which are rescaled to the new maximum."""
    for maximum, new in _maxima(kernel).items():
        since, old = flow.spread(kernel.ops, new), _read_before_it_is_stored(kernel, maximum)
        powers = {
            op.outputs[0]
            for op in kernel.ops
            if op.name in _EXP and since.isdisjoint(op.inputs) and _subtracts(kernel, op, old)
        }
        summed = flow.spread(kernel.ops, powers)
        for ref, product, added in _sums(kernel):
            if product is not None and not since.isdisjoint(product.inputs) and not summed.isdisjoint(added):
                m = kernel.refs[maximum]
                return Complaint(
                    f"{kernel.refs[ref]} is rescaled by exp(old - new), but exp(x - old) is added to it: {m} still "
                    "holds the old maximum there.",
                    f"subtract the new maximum from x: exp(x - new), with new = jnp.maximum({m}[...], this block's).",
                )
    return None


def _read_before_it_is_stored(kernel: _Kernel, maximum: int) -> set[int]:
    """Return the values that are read from the ref of a running maximum before the new one is stored in it."""
    old: set[int] = set()
    new = _maxima(kernel)[maximum]
    for op in kernel.ops:
        if op.name == "swap" and op.inputs[0] == maximum and kernel.origins(op.inputs[1]) & new:
            return old
        if op.name == "get" and op.inputs[0] == maximum:
            old.update(op.outputs)
    return old


def _subtracts(kernel: _Kernel, power: Op, values: set[int]) -> bool:
    """Whether one of the values is subtracted in the exponent of ``power``."""
    minuses = [minus for minus in kernel.makers(power.inputs[0]) if minus.name == "sub"]
    return any(kernel.origins(minus.inputs[1]) & values for minus in minuses)


def _divided_by_the_maximum(kernel: _Kernel) -> Complaint | None:
    """Report a running sum of exponentials that is divided by the running maximum."""
    sums = {ref for ref, _, _ in _sums(kernel)}
    for maximum in _maxima(kernel):
        for op in (op for op in kernel.ops if op.name == "div" and kernel.is_read_of(op.inputs[1], maximum)):
            for ref in sums:
                if kernel.is_read_of(op.inputs[0], ref):
                    return Complaint(
                        f"{kernel.refs[ref]} is divided by {kernel.refs[maximum]}, which holds the running maximum.",
                        "divide by the sum of the exponentials, which is carried beside the maximum.",
                    )
    return None


def _turned_round(kernel: _Kernel, product: Op, maximum: int, new: set[int]) -> bool:
    """Whether a factor of the product is exp(new - old)."""
    for factor in product.inputs:
        for power in kernel.makers(factor):
            for minus in kernel.makers(power.inputs[0]) if power.name in _EXP else ():
                if minus.name == "sub" and kernel.origins(minus.inputs[0]) & new:
                    return kernel.is_read_of(minus.inputs[1], maximum)
    return False


def _no_running_maximum(kernel: _Kernel) -> Complaint | None:
    """Report a sum of exp(x - m) over several steps in which m is the maximum of only the step's block."""
    if _maxima(kernel):
        return None
    of_block = {v for op in kernel.ops if op.name == "reduce_max" for v in op.outputs}
    since = flow.spread(kernel.ops, of_block)
    powers = {v for op in kernel.ops if op.name in _EXP and not since.isdisjoint(op.inputs) for v in op.outputs}
    summed = flow.spread(kernel.ops, powers)
    finished = flow.spread(kernel.ops, {v for op in kernel.ops if op.name == "div" for v in op.outputs})
    for ref, product, added in _sums(kernel):
        if product is None and not summed.isdisjoint(added) and finished.isdisjoint(added):
            name = kernel.refs[ref]
            return Complaint(
                f"{name} sums exp(x - m) over several steps, but m is the maximum of one step's block, so the terms "
                "of different steps do not fit together.",
                "carry the maximum from step to step too: new = maximum(old, this block's). Multiply the sum so far "
                "by exp(old - new), then add exp(x - new).",
            )
    return None
