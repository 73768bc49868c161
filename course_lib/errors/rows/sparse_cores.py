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
        "sparse-core-scalar",
        r"Get only supports loading scalars from SMEM",
        "The kernel reads a single element of a ref in VMEM, which a vector subcore cannot.",
        "to choose rows by indices, give the copy the whole list: pltpu.sync_copy(table_hbm.at[indices_ref], "
        "rows_ref). For one number load a vector, ref[pl.ds(k, lanes)], and take its element.",
        "17",
    ),
    Row(
        "sparse-core-list",
        r"Indices for scatter/gather via `pltpu\.async_copy` must be in VMEM, got (?P<space>\w+)",
        "The list of indices of a copy lies in {space}, but it must be in a subcore's VMEM.",
        "copy the indices to a pltpu.VMEM buffer of int32 first, and index with that.",
        "17",
    ),
    Row(
        "sparse-core-ways",
        r"Scatter/gather via `pltpu\.async_copy` from (?P<source>\w+) to (?P<target>\w+) is not supported",
        "A copy that chooses rows by an index cannot go from {source} to {target}: one side is a subcore's VMEM, and "
        "the other HBM or VMEM_SHARED.",
        "copy the rows to a pltpu.VMEM buffer, and from there to where they belong with a second copy.",
        "17",
    ),
    Row(
        "sparse-core-shared-width",
        r"IndirectVectorStreamStartOp doesn't support transfer from source memory space (?P<source>\w+) to "
        r"destination memory space (?P<target>\w+)",
        "A copy chooses rows by an index between VMEM_SHARED and a subcore's VMEM (`{source}` to `{target}`), and the "
        "rows are not 128 columns wide: the compiler takes no other width there.",
        "give the ref in VMEM_SHARED 128 columns, as in (2, rows, 128) for 256, and copy each 128 of them by itself.",
        "17",
    ),
    Row(
        "sparse-core-hbm",
        r"Get does not support loading from HBM\. Copy the data to a core-local memory space",
        "The kernel reads a ref that lies in HBM, as all arguments of a pl.kernel on SparseCores do.",
        "copy what you need to a pltpu.VMEM buffer first: pltpu.sync_copy(x_hbm.at[...], x_ref).",
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
