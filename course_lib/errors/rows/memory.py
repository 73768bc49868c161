"""VMEM, SMEM and HBM: too much in one of them, or an impossible copy between them."""

import re

from course_lib.errors.row import Row

_ONLY_A_BLOCK = (
    "make the blocks smaller: give the call a grid and a BlockSpec, so that only one block at a time is in VMEM."
)


def _buffer(size: str, limit: str, tag: str) -> dict[str, str]:
    """Return the start of a sentence that names the buffer, its size and limit in MiB, and how to make it smaller."""
    sizes = {"size": _mib(size), "limit": _mib(limit)}
    if window := re.match(r"\w+ window allocation for operator (\w+ \d+)\. The window shape is (\S+),", tag):
        return sizes | {"buffer": f"The block of {window[1]}, {window[2]},", "smaller": _ONLY_A_BLOCK}
    buffer = "A scratch buffer" if tag == "scratch operand" else f"One buffer ({tag})"
    return sizes | {"buffer": buffer, "smaller": "make it smaller, and process a large array piece by piece."}


def _mib(size: str) -> str:
    return f"{int(size) / 2**20:,.2f} MiB"


ROWS = (
    Row(
        "vmem",
        r"Scoped allocation with size (?P<size>[\d.]+[KMG]) and limit (?P<limit>[\d.]+[KMG]) exceeded",
        "The kernel needs {size} of VMEM, but a kernel may use only {limit}.",
        "make the blocks smaller: each has two buffers, so that one is copied while the kernel works on the other. Or "
        "raise the limit: compiler_params=pltpu.CompilerParams(vmem_limit_bytes=...).",
        "05",
    ),
    Row(
        "vmem-physical",
        r"Ran out of memory in memory space vmem\.? Used (?P<size>[\d.]+[KMG]) of (?P<limit>[\d.]+[KMG]) vmem",
        "The kernel needs {size} of VMEM, but the chip has only {limit}.",
        _ONLY_A_BLOCK,
        "05",
    ),
    Row(
        "vmem-buffer",
        r"Allocation \(size=(?P<size>\d+)\) would exceed memory \(size=(?P<limit>\d+)\).*?space=vmem.*?tag = "
        r"'(?P<tag>[^']*)'",
        "{buffer} alone needs {size} of VMEM, but the chip has only {limit}.",
        "{smaller}",
        "05",
        _buffer,
    ),
    Row(
        "smem-buffer",
        r"Allocation \(size=(?P<size>\d+)\) would exceed memory \(size=(?P<limit>\d+)\).*?space=smem.*?tag = "
        r"'(?P<tag>[^']*)'",
        "{buffer} needs {size} of SMEM, but the chip has only {limit}.",
        "SMEM is for the few scalars that control the kernel; keep arrays in VMEM, or prefetch fewer scalars.",
        "12",
        _buffer,
    ),
    Row(
        "smem-all",
        r"Ran out of memory in memory space smem\. Used (?P<size>[\d.]+[KMG]?) of (?P<limit>[\d.]+[KMG]?) smem",
        "The kernel and the program itself together need {size} of SMEM, but the chip has only {limit}.",
        "SMEM is for the few scalars that control the kernel: prefetch fewer scalars.",
        "12",
    ),
    Row(
        "hbm",
        r"Ran out of memory on HBM, the total memory required for .*? \((?P<size>[\d.]+[KMG])\) exceeds available HBM "
        r"\((?P<limit>[\d.]+[KMG])\)",
        "The program needs {size} of HBM, but the chip has only {limit}.",
        "use a smaller array or a smaller dtype, or write the result over an input: input_output_aliases.",
        "02",
    ),
    Row(
        "hbm-ref",
        r"Loads (?:and stores )?are only allowed on VMEM and SMEM references|"
        r"Buffers with a memory space of HBM or ANY cannot be referenced directly",
        "The kernel reads or writes a ref that was left in HBM (memory_space=pl.ANY or pltpu.HBM). A core can compute "
        "only with values in VMEM or SMEM.",
        "copy a piece into a VMEM scratch buffer first, pltpu.sync_copy(x_hbm.at[0:8], x_vmem); or remove "
        "memory_space, so that the pipeline copies the blocks.",
        "05",
    ),
    Row(
        "smem-block",
        r"Can only (?P<verb>load|store) scalars (?:from|to) SMEM",
        "The kernel tries to {verb} many elements at once, but the ref is in SMEM, which is accessed one element at a "
        "time.",
        "access one element at a time, s_ref[i]; a block for the vector unit belongs in VMEM, which is the default.",
        "12",
    ),
    Row(
        "scalar-store",
        r"Cannot store scalars to VMEM",
        "The kernel writes a scalar to VMEM, but the vector unit writes only whole registers there.",
        "write a whole block at a time, o_ref[...] = value; jnp.full makes a block of a scalar. A scalar can be an "
        "output through SMEM: out_specs=pl.BlockSpec(memory_space=pltpu.SMEM).",
        "01",
    ),
    Row(
        "copy-semaphore",
        r"make_async_copy\(\) missing \d+ required positional argument|Local DMA semaphore cannot be None",
        "An asynchronous copy was started without a semaphore, which tells the kernel when the copy is done.",
        "add pltpu.SemaphoreType.DMA to scratch_shapes and pass its ref to make_async_copy; or use pltpu.sync_copy, "
        "which starts and waits.",
        "05",
    ),
    Row(
        "copy-of-a-value",
        r"DMA source/destination(?:/semaphore)? arguments must be Refs",
        "A copy was given a value, but it needs two refs: a source and a target.",
        "remove the [...], which reads; x_ref.at[0:8] is a part of a ref, and sem.at[0] is one semaphore of several. "
        "Write computed values to a ref first.",
        "05",
    ),
    Row(
        "copy-of-all-semaphores",
        r"Cannot (?:signal|wait)[^\n]*? on a non-\(\)-shaped semaphore: (?P<shape>\([^)]*\))",
        "A copy was given a semaphore array of shape {shape}, but takes one semaphore.",
        "select one: sem.at[0]; a copy that may be under way at the same time needs another.",
        "05",
    ),
    Row(
        "copy-not-kept",
        r"'NoneType' object has no attribute '(?P<what>start|wait)'",
        ".{what}() is called on None: .start() and .wait() return nothing.",
        "keep the copy itself in a variable, copy = pltpu.make_async_copy(...), and call copy.start() and copy.wait().",
        "05",
    ),
    Row(
        "copy-mismatch",
        r"DMA source and target (?P<what>shape|element type) mismatch",
        "A copy goes between two refs that differ in {what}{where}. It only moves bytes and converts nothing.",
        "take parts of equal shape with .at[...], and convert the dtype after the copy, with astype.",
        "05",
    ),
    Row(
        "copy-of-other-axes",
        r"dynamic_update_slice update must have the same rank as operand(?!.*in the code itself)",
        "A copy goes between two refs that differ in the number of their axes.",
        "an integer index removes its axis, but pl.ds(i, 1) keeps it: index both ends in the same way.",
        "05",
    ),
)
