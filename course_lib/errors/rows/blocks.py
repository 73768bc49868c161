"""Blocks and their specs, one for each input and output."""

import re

from course_lib.errors.row import Row


def _nearest_block(ref: str, block: str, array: str) -> dict[str, str]:
    """Round the last two sizes of the block up to legal ones. A None there counts as 1."""
    sizes, axes = (re.findall(r"\d+|None", text) for text in (block, array))
    if len(sizes) != len(axes):
        return {"nearest": ""}
    last = [(1 if size == "None" else int(size), int(axis)) for size, axis in zip(sizes[-2:], axes[-2:], strict=True)]
    legal = [str(min(-(-size // unit) * unit, axis)) for (size, axis), unit in zip(last, (8, 128), strict=True)]
    return {"nearest": f". Nearest legal: ({', '.join(sizes[:-2] + legal)})"}


def _structure(specs: str, things: str, detail: str) -> dict[str, str]:
    """Reword what JAX says about pytrees."""
    for old, new in (
        ("`", ""),
        ("a pytree leaf", "a single one"),
        ("<class 'tuple'>", "tuple"),
        (", so the lengths do not match", ""),
        (", so their Python types differ", ""),
    ):
        detail = detail.replace(old, new)
    return {"detail": detail}


ROWS = (
    Row(
        "block-of-one-row",
        r"last two dimensions of your block shape are divisible by 8 and 128.*?"
        r"[Bb]lock spec for (?P<ref>.+?) in .*?has block shape (?P<block>\((?:[^)]*, )?None(?:, [^,)]+)?\)), "
        r"array shape (?P<array>\([^)]*\))",
        "The block {block} of {ref} is one row, or one column, of an array of shape {array}: a None counts as 1, and "
        "the last two sizes must be multiples of 8 and 128, or the whole axis. jax.vmap makes one row a block, too.",
        "pass the whole array to pallas_call, without vmap, in blocks of 8 rows or of all rows{nearest}.",
        "04",
        _nearest_block,
    ),
    Row(
        "block-2d",
        r"last two dimensions of your block shape are divisible by 8 and 128.*?"
        r"[Bb]lock spec for (?P<ref>.+?) in .*?has block shape (?P<block>\([^)]*\)), array shape (?P<array>\([^)]*\))",
        "The block {block} of {ref} is not legal for an array of shape {array}: its last two sizes must be multiples "
        "of 8 and 128, or the whole axis.",
        "round each of the last two block sizes up to a multiple of (8, 128), or take the whole axis{nearest}.",
        "04",
        _nearest_block,
    ),
    Row(
        "block-1d",
        r"rank 1 block shapes.*?[Bb]lock spec for (?P<ref>.+?) in .*?has block shape (?P<block>\([^)]*\)), "
        r"array shape (?P<array>\([^)]*\))",
        "The block {block} of {ref} is not legal for an array of shape {array}: a one-dimensional block must be the "
        "whole array, a multiple of 1024, or a power of two that fills at least one row of 128 lanes.",
        "use a block of 1024, or a multiple of it.",
        "04",
    ),
    Row(
        "block-rank",
        r"Block shape for (?P<ref>.+?) \(= (?P<block>\(.*?\))\) must have the same number of dimensions as the array "
        r"shape (?P<array>\([^)]*\))",
        "The block {block} of {ref} and its array, of shape {array}, differ in the number of axes.",
        "give the block one size for each axis of the array; None for an axis the kernel should not see. "
        "Prefetched arrays come before all other arguments of the call.",
        "04",
    ),
    Row(
        "element-mix",
        r"All block dimensions must be Elements or none of them can be Elements",
        "One axis of a block is pl.Element, but another is not.",
        "write pl.Element(size) on every axis of that block that the kernel sees (None may stay), and count elements "
        "in all of its index map.",
        "04",
    ),
    Row(
        "element-unaligned",
        r"Failed to set window params for (?P<ref>.+?): Couldn't prove that tiling \((?P<unit>\d+)\) divides index "
        r"returned by transform_indices on dimension (?P<axis>\d+)",
        "The window of {ref} begins, on axis {axis}, at an element that the compiler cannot prove to be a multiple of "
        "{unit}.",
        "begin at multiples, such as {unit} * i, use a larger window, and slice what you need out of it in the kernel.",
        "04",
    ),
    Row(
        "element-padding",
        r"Failed to set window params for (?P<ref>.+?): Low padding not supported yet",
        "The windows of {ref} are padded before the array, by the first number of pl.Element(..., padding=...).",
        "keep that number 0: only padding after the array is supported. Add rows in front with jnp.pad, or begin the "
        "first window at 0, for example with 8 * jnp.maximum(i - 1, 0), and mask in that step.",
        "04",
    ),
    Row(
        "no-grid",
        r"Non-trivial windowing is not supported for grid-free pallas_call",
        "A BlockSpec cuts a block out of an array, but the call has no grid.",
        "pass the number of steps, grid=(n,); or remove the BlockSpecs, so that each Ref is a whole array.",
        "04",
    ),
    Row(
        "scalar-input",
        r"supports only blocks of rank >= 1\. Block spec for (?P<ref>.+?) in ",
        "The kernel's {ref} is a scalar without an axis, but a block needs one.",
        "pass jnp.array([number]) with the spec pl.BlockSpec(memory_space=pltpu.SMEM), and read it as s_ref[0].",
        "12",
    ),
    Row(
        "buffered",
        r"Only single \(1\) and double \(2\) buffering are supported\. Got (?P<n>\d+)",
        "A BlockSpec asks for {n} buffers, pl.Buffered({n}), but pallas_call supports only one or two.",
        "use pl.Buffered(2), which is the default; pltpu.emit_pipeline supports more.",
        "05",
    ),
    Row(
        "buffered-output",
        r"Buffer count >2 not supported for output buffered refs",
        "An output of emit_pipeline asks for more than two buffers.",
        "remove its pipeline_mode: more buffers help only when a block is fetched, so ask for them in in_specs only.",
        "05",
    ),
    Row(
        "old-spec-order",
        r"'function' object is not iterable(?!, in the code itself)",
        "A function is where the block shape should be. Old tutorials write BlockSpec(index_map, block_shape); the "
        "order is now reversed.",
        "write pl.BlockSpec(block_shape, index_map).",
        "04",
    ),
    Row(
        "spec-structure",
        r"Pytree for `(?P<specs>\w+)` and `(?P<things>\w+)` do not match.*?\* (?P<detail>[^\n]*)",
        "{specs} and {things} do not match: {detail}.",
        "in_specs is a list with one BlockSpec for each input. out_specs must have the structure of out_shape: both a "
        "list, or both a single one.",
        "04",
        _structure,
    ),
    Row(
        "in-specs-list",
        r"`in_specs` must be a tuple or a list\. Found: BlockSpec",
        "in_specs is a single BlockSpec, but should be a list with one for each input.",
        "write in_specs=[pl.BlockSpec(...)].",
        "04",
    ),
    Row(
        "not-a-block-spec",
        r"'(?P<what>\w+)' object has no attribute '(?:memory_space|to_block_mapping)'",
        "in_specs or out_specs contains a {what} where a BlockSpec should be.",
        "write pl.BlockSpec(memory_space=pltpu.VMEM) to name a memory, pl.BlockSpec(block_shape, index_map) to "
        "cut blocks.",
        "04",
    ),
    Row(
        "block-bytes",
        r"Failed to set window params for input (?P<input>\d+).*?MisalignedBlockAndTiling",
        "The number of rows in the block of input {input} does not suit its narrow dtype: several rows share one row "
        "of a register.",
        "make the number of rows, the second-to-last block size, a multiple of 32 for one-byte dtypes or of 64 for "
        "half-byte dtypes; or take the whole axis.",
        "06",
    ),
)
