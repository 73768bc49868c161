"""What a Triton ``pl.pallas_call`` accesses past the end of an array without a mask, and what it writes twice.

Neither shows on a CPU. JAX's interpreter pads an array to whole blocks, drops writes to the padding, and runs grid
steps one after another. On a GPU the steps run at the same time, and another array lies behind the first.
"""

from collections.abc import Iterator

from course_lib import grid
from course_lib.grid.jaxprs import inside
from course_lib.judges.verdict import Complaint

_ACCESSES = {"get": "read", "masked_load": "read", "swap": "written", "masked_swap": "written", "addupdate": "written"}
_MASKED = {"masked_load": 2, "masked_swap": 3}  # the position of the mask among the access's parts


def without_a_mask(walk: grid.Walk) -> Complaint | None:
    """Report the first access to a block that reaches past its array without a mask."""
    for call in walk.calls:
        blocks = dict(zip(call.kernel.invars, call.operands, strict=False))  # scratch refs follow
        for block, eqn in _accesses(call.kernel, blocks):
            ragged = [axis for axis, (n, b) in enumerate(zip(block.shape, block.block_shape, strict=True)) if n % b]
            if ragged and not _is_masked(eqn):
                return Complaint(
                    f"{block.name} is {_ACCESSES[eqn.primitive.name]} without a mask, but its last block reaches past "
                    f"the array: {_axes(ragged)} of shape {block.shape}, in blocks of {block.block_shape}. After an "
                    "array, the memory of a GPU holds another one.",
                    "mask it: plt.load(ref, mask=..., other=...) and plt.store(ref, value, mask=...) of "
                    "jax.experimental.pallas.triton, with pl.program_id and an iota below the array's length.",
                )
    return None


def written_twice(walk: grid.Walk) -> Complaint | None:
    """Report the first block of an output that two steps of a grid write."""
    for call in walk.calls:
        for output in call.outputs:
            first: dict[tuple[int, ...], int] = {}
            for step, block in enumerate(map(tuple, output.indices.tolist())):
                if (before := first.setdefault(block, step)) != step:
                    return Complaint(
                        f"Grid steps {call.step(before)} and {call.step(step)} both write block {block} of "
                        f"{output.name}. On a GPU they run at the same time, in no order, and the last one to write "
                        "wins.",
                        "let each step write its own block; accumulate inside one step, in a loop: jax.lax.fori_loop.",
                    )
    return None


def _axes(ragged: list[int]) -> str:
    return ("axis " if len(ragged) == 1 else "axes ") + " and ".join(map(str, ragged))


def _accesses(jaxpr, blocks: dict) -> Iterator[tuple[grid.Operand, object]]:
    """Yield every access to a block, in loops and branches too, whose refs are their last arguments, in order."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _ACCESSES and eqn.invars[0] in blocks:
            yield blocks[eqn.invars[0]], eqn
        for inner in inside(eqn):
            inner = getattr(inner, "jaxpr", inner)
            pairs = zip(reversed(inner.invars), reversed(eqn.invars), strict=False)
            yield from _accesses(inner, {mine: blocks[given] for mine, given in pairs if _is_in(given, blocks)})


def _is_in(atom, blocks: dict) -> bool:
    return atom.__hash__ is not None and atom in blocks  # a literal has no hash


def _is_masked(eqn) -> bool:
    name = eqn.primitive.name
    if name not in _MASKED:
        return False
    return eqn.params["args_tree"].unflatten(eqn.invars)[_MASKED[name]] is not None
