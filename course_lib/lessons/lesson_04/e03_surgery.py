"""Five blocks that no TPU accepts, and the smallest change that makes each legal."""

from jax.experimental import pallas as pl

from course_lib import cost
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit, described
from course_lib.lessons.lesson_04.kernels import copy_kernel

# The illegal blocks, with the arrays they are for.
SURGERY = {
    "a": ("f32[64,512]", (8, 100)),
    "b": ("f32[6,256]", (4, 128)),
    "c": ("bf16[64,256]", (14, 128)),
    "d": ("f32[16,4,256]", (8, None, 256)),
    "e": ("f32[4096]", (1000,)),
}

_DICT = f"a dict with the keys {', '.join(SURGERY)}"

_RETURN_DICT = 'end the function with return {"a": (8, ...), "b": ...}, with a block for each of the five arrays.'

_WHAT_IS_LEGAL = (
    "the last size must be a multiple of 128 and the one before it a multiple of 8, or the whole axis; None counts as "
    "1. The size for a vector must be a multiple of 1024, a power of two from 128 on (float32), or the whole axis."
)


def blocks_of(legal_blocks) -> dict[str, tuple]:
    """Return the learner's five blocks as tuples. Raise Unfit for anything that is not a block of the right rank."""
    blocks = legal_blocks()
    if not isinstance(blocks, dict):
        raise Unfit(f"legal_blocks() returned {described(blocks)}. It should return {_DICT}.", _RETURN_DICT)
    if missing := [name for name in SURGERY if name not in blocks]:
        raise Unfit(f"legal_blocks() has no block for {', '.join(missing)}. It should return {_DICT}.", _RETURN_DICT)
    if strange := [key for key in blocks if key not in SURGERY]:
        raise Unfit(f"legal_blocks() has the key {strange[0]!r:.40}. It should return {_DICT}.", _RETURN_DICT)
    for name, (array, sick) in SURGERY.items():
        block, axes = blocks[name], "1 axis" if len(sick) == 1 else f"{len(sick)} axes"
        if not isinstance(block, tuple | list) or len(block) != len(sick):
            raise Unfit(
                f"{name}: its block is {described(block)}, but {array} has {axes}.",
                f"give one size for each axis, as in the original block {sick}."
                + (" A tuple of one size needs a comma." if len(sick) == 1 else ""),
            )
        if wrong := [b for b in block if b is not None and (type(b) is not int or b < 1)]:
            raise Unfit(
                f"{name}: {wrong[0]!r:.40} is not the size of a block.", "a size is an integer above 0, or None."
            )
    return {name: tuple(blocks[name]) for name in SURGERY}


def copy_in_blocks(x, block):
    steps = tuple(n if b is None else pl.cdiv(n, b) for n, b in zip(x.shape, block, strict=True))
    spec = pl.BlockSpec(block, lambda *step: step)
    return pl.pallas_call(copy_kernel, out_shape=x, grid=steps, in_specs=[spec], out_specs=spec)(x)


def refused_sizes(legal_blocks) -> list[str]:
    """Return a text for each block that a TPU rejects, which says why."""
    said = []
    for x, (name, block) in zip(_surgery_arrays()[0], blocks_of(legal_blocks).items(), strict=True):
        where = {x.ndim - 1: "last axis", x.ndim - 2: "axis before the last"} if x.ndim > 1 else {0: "only axis"}
        sizes = [1 if size is None else size for size in block]
        for axis, size in enumerate(sizes):
            if not cost.is_legal_size(size, x.shape[axis], axis=axis, rank=x.ndim, dtype=x.dtype):
                said.append(f"{name}: {block} has {block[axis]} on the {where[axis]}, whose length is {x.shape[axis]}.")
    return said


def call_surgery(legal_blocks):
    blocks = blocks_of(legal_blocks)
    if said := refused_sizes(legal_blocks):
        raise Unfit(
            f"No TPU accepts {'this block' if len(said) == 1 else 'these blocks'}. {' '.join(said)}", _WHAT_IS_LEGAL
        )

    def copy_all(*arrays):
        return tuple(copy_in_blocks(x, blocks[name]) for name, x in zip(SURGERY, arrays, strict=True))

    return copy_all


def _surgery_arrays() -> list[tuple]:
    """Return the five arrays of the task, whose shapes the blocks must fit."""
    return arguments(tuple(f"{name}: {array}" for name, (array, _) in SURGERY.items()), ({},))


def _smallest_change(legal_blocks):
    """Demand that at most one size differs from the given block, and that no legal size is closer to it."""
    for x, (name, block) in zip(_surgery_arrays()[0], blocks_of(legal_blocks).items(), strict=True):
        array, sick = SURGERY[name]
        changed = [axis for axis in range(len(sick)) if block[axis] != sick[axis]]
        if len(changed) > 1:
            return (
                f"{name}: you changed {len(changed)} sizes, from {sick} to {block}. One change is enough.",
                "which one of its sizes was refused? Leave the others as they were.",
            )
        (axis,) = changed
        was = sick[axis] or 1
        legal = cost.legal_sizes(x.shape[axis], axis=axis, rank=x.ndim, dtype=x.dtype, even=False)
        if abs(block[axis] - was) > min(abs(size - was) for size in legal):
            return (
                f"{name}: {block} is legal for {array}, but there is a legal size nearer to {was} than {block[axis]}.",
                "list the legal sizes on that axis: the nearest multiples, and the whole axis.",
            )


EXERCISE = Exercise(
    id="04.3",
    title="Surgery: five blocks that no TPU takes",
    kind="configure",
    defines="legal_blocks",
    cases=_surgery_arrays,
    reference=lambda *arrays: arrays,
    build=call_surgery,
    also=(_smallest_change,),
    hints=(
        "Of the last two sizes, the second-to-last corresponds to the rows of a register and the last to its lanes. "
        "Which of the two is at fault in each block?",
        "A whole axis is always legal, so it may be the nearest legal size. A None among the last two counts as 1.",
        "The second-to-last size is a multiple of 8, for bfloat16 too, and 14 lies between 8 and 16. The size for a "
        "vector is a multiple of 1024 or a power of two. Which of these is nearest to 1000?",
    ),
    points=2,
)
