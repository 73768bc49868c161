"""What five engines can do with JAX 0.11.2 and this library. tests/test_viz_capability_matrix.py proves what it can."""

from typing import NamedTuple

YES, PARTLY, NO = "yes", "partly", "no"
# What a cell rests on. A test asks again whatever begins with ASKED.
ASKED = "a test of this course asks JAX 0.11.2"
JUDGED = "docs/zoo.md, On a GPU; a test asks the judges"
GPU, SPARSE, JUDGES, MANY = "docs/gpu.md", "docs/sparse_core.md", "docs/judges.md", "docs/many_chips.md"
COMPILER, RESULTS = "docs/compiler.md", "docs/results.md"
JAX_DOCS = "JAX's documentation"
SC_LOWERING = "jax/_src/pallas/mosaic/sc_lowering.py; docs/sparse_core.md"


class Engine(NamedTuple):
    """A column: a machine, and the way to program it."""

    name: str
    by: str


class Cell(NamedTuple):
    """Whether an engine can do it, why, and what that rests on."""

    can: str  # YES, PARTLY or NO
    why: str
    source: str


class Need(NamedTuple):
    """A row: what somebody wants, and a cell for each engine."""

    name: str
    cells: tuple[Cell, ...]


ENGINES = (
    Engine("TensorCore", "Mosaic"),
    Engine("SparseCore", "pl.kernel"),
    Engine("Hopper", "Mosaic GPU"),
    Engine("Ampere, Ada", "Triton"),
    Engine("XLA", "plain JAX"),
)

NEEDS = (
    Need(
        "a matmul unit",
        (
            Cell(YES, "jnp.dot in a kernel runs on the matrix unit (MXU).", ASKED),
            Cell(NO, "A subcore computes on vectors, and jnp.dot does not lower for it.", ASKED),
            Cell(YES, "plgpu.wgmma multiplies from shared memory, a warpgroup at a time.", ASKED),
            Cell(YES, "jnp.dot becomes mma, which multiplies from registers.", ASKED),
            Cell(YES, "XLA has matmuls of its own on every machine.", JAX_DOCS),
        ),
    ),
    Need(
        "rows fetched by a list of indices",
        (
            Cell(PARTLY, "One copy for each row or block: the indices come by scalar prefetch.", "lesson 12"),
            Cell(YES, "One copy fetches the rows of a whole list: stream.indirect.gather.", ASKED),
            Cell(PARTLY, "One copy or load for each row: a load by an array of indices does not lower.", ASKED),
            Cell(YES, "A load takes an array of indices: each thread reads an address of its own.", ASKED),
            Cell(YES, "jnp.take and x[indices].", JAX_DOCS),
        ),
    ),
    Need(
        "rows added where indices repeat",
        (
            Cell(PARTLY, "Row by row, in a loop: each index is a scalar, read from SMEM.", ASKED),
            Cell(YES, "A copy with add=True adds rows to a sum that the subcores share.", ASKED),
            Cell(PARTLY, "plgpu.atomic_add adds to one row; a list of rows takes a loop.", ASKED),
            Cell(YES, "plt.atomic_add takes an array of indices.", ASKED),
            Cell(YES, "x.at[indices].add(rows).", JAX_DOCS),
        ),
    ),
    Need(
        "a sum carried between grid steps",
        (
            Cell(YES, "A core runs the steps in order, and scratch survives from one to the next.", "lesson 5"),
            Cell(PARTLY, "Within one subcore, in a loop. Nothing but a barrier orders two subcores.", SPARSE),
            Cell(NO, "Blocks run at the same time, in no order. The sum goes into a loop in the body.", JUDGED),
            Cell(NO, "Blocks run at the same time, in no order. The sum goes into a loop in the body.", JUDGED),
            Cell(YES, "There is no grid; jax.lax.scan carries a value.", JAX_DOCS),
        ),
    ),
    Need(
        "scratch memory",
        (
            Cell(YES, "VMEM, SMEM and semaphores, by scratch_shapes.", ASKED),
            Cell(YES, "The memory of each subcore, and one that the subcores of a SparseCore share.", ASKED),
            Cell(YES, "Shared memory, barriers, and registers for an accumulator.", ASKED),
            Cell(NO, "JAX refuses scratch: what stays on the chip is for Triton to decide.", ASKED),
            Cell(NO, "XLA decides what stays on the chip.", JAX_DOCS),
        ),
    ),
    Need(
        "copies that you start and await",
        (
            Cell(YES, "pltpu.make_async_copy, with a semaphore.", ASKED),
            Cell(YES, "pltpu.async_copy, with a semaphore, of a slice or of a list of rows.", ASKED),
            Cell(YES, "TMA by plgpu.copy_gmem_to_smem, with a barrier.", ASKED),
            Cell(NO, "A body loads and stores; Triton makes the copies and their waits.", GPU),
            Cell(NO, "XLA schedules its copies by itself.", JAX_DOCS),
        ),
    ),
    Need(
        "copies to another chip",
        (
            Cell(YES, "pltpu.make_async_remote_copy; judges.judge_chips judges it.", MANY),
            Cell(PARTLY, "JAX has the copy, though not by a list of indices. Nothing here judges it.", SC_LOWERING),
            Cell(PARTLY, "JAX has plgpu.remote_ref. We have not tried kernels on several GPUs.", GPU),
            Cell(NO, "jax.experimental.pallas.triton has no such operation.", ASKED),
            Cell(YES, "Collectives such as jax.lax.psum, between kernels.", MANY),
        ),
    ),
    Need(
        "sizes that no block divides",
        (
            Cell(YES, "Past an edge a block reads garbage and writes nothing: mask what is summed.", "lesson 4"),
            Cell(PARTLY, "Any number of rows, but whole tiles of 128 columns.", SPARSE),
            Cell(PARTLY, "TMA stops at the edge. A bf16 matmul takes multiples of 8 rows and 64 columns.", GPU),
            Cell(
                PARTLY, "Under a mask for each load and store. Arrays in a body have a power of two of elements.", GPU
            ),
            Cell(YES, "Any size.", JAX_DOCS),
        ),
    ),
    Need(
        "a TPU kernel's body, unchanged",
        (
            Cell(YES, "This is what it was written for.", ASKED),
            Cell(NO, "A subcore computes on vectors of its own length, and fetches its data itself.", SPARSE),
            Cell(
                NO,
                "plgpu.kernel has no BlockSpecs: the body copies, waits and multiplies by operations of its own.",
                GPU,
            ),
            Cell(PARTLY, "If it needs no scratch and carries nothing from step to step.", GPU),
            Cell(YES, "In the interpreter: pl.pallas_call(..., interpret=True) runs on a CPU.", ASKED),
        ),
    ),
    Need(
        "a gradient that you need not write",
        (
            Cell(NO, "JAX has no reverse mode for pl.pallas_call: write a custom_vjp.", ASKED),
            Cell(NO, "JAX has no derivative of pl.kernel: write a custom_vjp.", ASKED),
            Cell(NO, "JAX has no derivative of plgpu.kernel: write a custom_vjp.", ASKED),
            Cell(NO, "JAX has no reverse mode for pl.pallas_call: write a custom_vjp.", ASKED),
            Cell(YES, "jax.grad.", JAX_DOCS),
        ),
    ),
    Need(
        "races found without a device",
        (
            Cell(YES, "judges.judge: two simulated cores and a race detector.", JUDGES),
            Cell(YES, "judges.judge_sparse_core: accesses that nothing orders.", SPARSE),
            Cell(PARTLY, "judges.judge_gpu simulates the kernel, but no race of wgmma with a copy.", GPU),
            Cell(
                PARTLY, "judges.judge_gpu finds blocks that two steps write. Nothing simulates what Triton adds.", GPU
            ),
            Cell(YES, "There is nothing to find: XLA orders what it runs.", JAX_DOCS),
        ),
    ),
    Need(
        "a compile without a device",
        (
            Cell(YES, "compiler.compile_tpu, by libtpu.", COMPILER),
            Cell(YES, "compiler.sparse_core_listing, by libtpu.", SPARSE),
            Cell(YES, "compiler.compile_gpu, after make setup-gpu.", GPU),
            Cell(YES, "compiler.compile_gpu, after make setup-gpu.", GPU),
            Cell(YES, "Both compile plain JAX too.", COMPILER),
        ),
    ),
    Need(
        "a time predicted without a device",
        (
            Cell(YES, "libtpu contains a simulator that counts cycles.", COMPILER),
            Cell(NO, "The simulator does not run SparseCores.", SPARSE),
            Cell(NO, "ptxas counts no cycles, and there is no simulator of a GPU.", GPU),
            Cell(NO, "ptxas counts no cycles, and there is no simulator of a GPU.", GPU),
            Cell(PARTLY, "For a TPU, but not for a GPU.", COMPILER),
        ),
    ),
    Need(
        "a time measured in this course",
        (
            Cell(NO, "Nothing here has run on a TPU.", RESULTS),
            Cell(NO, "Nothing here has run on a SparseCore; one published measurement is quoted.", SPARSE),
            Cell(YES, "On an H100, on 2026-11-27.", RESULTS),
            Cell(PARTLY, "Its kernels ran on that H100, but on no A100 or L4.", RESULTS),
            Cell(PARTLY, "On the H100, beside the kernels.", RESULTS),
        ),
    ),
    Need(
        "a place on a v5e, Colab's TPU",
        (
            Cell(YES, "A v5e has one TensorCore.", "docs/colab.md"),
            Cell(NO, "A v5e has no SparseCore; a v5p, v6e and tpu7x have.", ASKED),
            Cell(NO, "It needs a GPU of compute capability 9.0.", GPU),
            Cell(NO, "It needs a GPU of compute capability 8.0 or more.", GPU),
            Cell(YES, "XLA runs everywhere.", "docs/colab.md"),
        ),
    ),
    Need(
        "no deprecation so far",
        (
            Cell(YES, "JAX 0.11.2 lowers it without a warning.", ASKED),
            Cell(YES, "JAX 0.11.2 lowers it without a warning.", ASKED),
            Cell(YES, "JAX 0.11.2 lowers it without a warning; it is the GPU backend that will stay.", ASKED),
            Cell(NO, "Deprecated since JAX 0.11: every kernel raises a DeprecationWarning.", ASKED),
            Cell(YES, "XLA is what JAX is built on.", JAX_DOCS),
        ),
    ),
)


def standing(needs: list[int], engine: int) -> str:
    """Return the least that an engine can do of several needs, given by their numbers: YES, PARTLY or NO."""
    can = {NEEDS[need].cells[engine].can for need in needs}
    return NO if NO in can else PARTLY if PARTLY in can else YES


def said(needs: list[int]) -> str:
    """Say which engines have all that is needed, and which have it in part; the same as ``said`` in JavaScript."""
    if not needs:
        return "Tick what you need, and the engines that lack it fade."
    names = {can: [] for can in (YES, PARTLY)}
    for number, engine in enumerate(ENGINES):
        if (can := standing(needs, number)) != NO:
            names[can].append(engine.name)
    whole = f"All of it: {'; '.join(names[YES]) or 'no engine'}."
    return f"{whole} Some of it in part: {'; '.join(names[PARTLY])}." if names[PARTLY] else whole
