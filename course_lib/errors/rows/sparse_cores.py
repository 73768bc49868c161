"""What the compiler says about kernels on SparseCores."""

from course_lib.errors.row import Row

ROWS = (
    Row(
        "sparse-core-bits",
        r"enqueue_indirect_transfer' op Not implemented: only 32-bit elements are supported",
        "A copy chooses rows by an index, and their elements have fewer than 32 bits: SparseCores move only 32-bit "
        "elements so.",
        "keep the rows in float32 or int32, or pack two bfloat16 numbers into an int32 where the table is made.",
        "17",
    ),
    Row(
        "sparse-core-width",
        r"expected slice size \((?P<size>\d+)\) to be aligned with source \((?:gather|scatter) operand\) tiling "
        r"\((?P<tile>\d+)\)",
        "A copy chooses rows of {size} columns by an index, but the array is stored in tiles of {tile} columns: only "
        "whole tiles can be moved so.",
        "pad the rows to a multiple of {tile} columns where the table is made, or compile with "
        "pltpu.CompilerParams(use_tc_tiling_on_sc=False), for which XLA lays the arrays out again before each call.",
        "17",
    ),
    Row(
        "sparse-core-memory",
        r"CompileTimeSparseCoreAllocationFailure: current allocation offset upper bound \((?P<wanted>\d+)\s+words\) "
        r"exceeds the legitimate user allocatable offset upper bound \((?P<most>\d+)\s+words\)\s+in\s+memory\s+space "
        r"(?P<space>\w+)",
        "The kernel needs {wanted} words of SparseCore memory (`{space}`), of which there are {most}. VMEM_SHARED and "
        "the VMEM of all subcores of a SparseCore come from the same memory, and so does the room for a copy from "
        "VMEM_SHARED to HBM.",
        "use smaller windows, or fewer buffers; share less between the subcores; copy out of VMEM_SHARED in parts.",
        "17",
    ),
    Row(
        "sparse-core-add",
        r"IndirectStreamAddStartOp doesn't support transfer from source memory space \w+ to\s+destination memory space "
        r"HBM|Scatter from VMEM with `add=True` via `pltpu\.async_copy` is only supported",
        "A copy adds rows to an array in HBM (add=True), which SparseCores cannot do.",
        "add into pltpu.VMEM_SHARED, and copy the sum to HBM behind a plsc.subcore_barrier().",
        "17",
    ),
)
