"""Which instructions of a SparseCore do what five lines of a kernel say."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

from course_lib import chips, compiler
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

CHIP, SIZE, LABELS = "v6e", 1024, 128
OPTIONS = ("sbarrier.arrive", "stream.indirect.gather", "stream.indirect.scatter.add.f32", "vst.idx.add", "vunique")
RIGHT = {
    "A": "stream.indirect.gather",
    "B": "stream.indirect.scatter.add.f32",
    "C": "vunique",
    "D": "vst.idx.add",
    "E": "sbarrier.arrive",
}
_COPIES = "That is a copy of rows, by a list of indices. Does this line copy any?"
IN_ITS_PLACE = {  # what lets the kernel compile without a line; "" if nothing is needed
    "A": "",
    "B": "",
    "C": "so_far, is_last = label, label > 0",
    "D": "counts_ref[pl.ds(k, lanes)] = so_far",
    "E": "",
}
_ALONE = {
    "A": "Nobody is waited for in this line.",
    "B": "Adding to shared memory needs no barrier by itself. Does this line wait for others?",
    "C": "This line computes within one subcore. Does it wait for others?",
    "D": "This line stores within one subcore. Does it wait for others?",
}
ASKS = {
    "A": {
        "sbarrier.arrive": _ALONE["A"],
        "stream.indirect.scatter.add.f32": "Which way do the rows go in this line, and is anything added?",
        "vst.idx.add": "That adds a vector register to a subcore's own memory. Where do the rows come from here?",
        "vunique": "That compares the lanes of a register. What does this line do with whole rows?",
    },
    "B": {
        "sbarrier.arrive": _ALONE["B"],
        "stream.indirect.gather": "Which way do the rows go in this line, and what becomes of what was there?",
        "vst.idx.add": "That adds a vector register, element by element. How large is what this line adds?",
        "vunique": "That compares the lanes of a register. What does this line do with whole rows?",
    },
    "C": {
        "sbarrier.arrive": _ALONE["C"],
        "stream.indirect.gather": _COPIES,
        "stream.indirect.scatter.add.f32": f"{_COPIES} Does it add anything to memory?",
        "vst.idx.add": "That stores. What does this line find out before anything is stored?",
    },
    "D": {
        "sbarrier.arrive": _ALONE["D"],
        "stream.indirect.gather": _COPIES,
        "stream.indirect.scatter.add.f32": "That adds whole rows to shared memory. What does this line add, and where?",
        "vunique": "That finds equal lanes, which has been done before this line.",
    },
    "E": {
        "stream.indirect.gather": _COPIES,
        "stream.indirect.scatter.add.f32": f"{_COPIES} Does it add anything to memory?",
        "vst.idx.add": "That stores to a subcore's own memory. What does this line concern, one subcore or all?",
        "vunique": "That compares the lanes of a register. What does this line concern, one subcore or all?",
    },
}


def tallied(table, indices, labels, lines="ABCDE"):
    """Return sums of rows by label, and counts of labels, by kernels with these of the five lines."""
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore")
    lanes, workers = plsc.get_sparse_core_info().num_lanes, mesh.num_cores * mesh.num_subcores
    share, stripe = indices.size // workers, LABELS // mesh.num_subcores

    def tally_kernel(
        table_hbm, indices_hbm, labels_hbm, zeros_hbm, sums_hbm, counts_hbm, shared, own, of, rows, counts
    ):
        core, subcore = lax.axis_index("core"), lax.axis_index("subcore")
        me = core * mesh.num_subcores + subcore
        part = pl.ds(subcore * stripe, stripe)
        pltpu.sync_copy(zeros_hbm, shared.at[part])
        pltpu.sync_copy(indices_hbm.at[pl.ds(me * share, share)], own)
        pltpu.sync_copy(labels_hbm.at[pl.ds(me * share, share)], of)

        @pl.loop(0, LABELS, step=lanes)
        def clear(k):
            counts[pl.ds(k, lanes)] = jnp.zeros((lanes,), jnp.int32)

        if "A" in lines:
            pltpu.sync_copy(table_hbm.at[own], rows)
        if "E" in lines:
            plsc.subcore_barrier()
        if "B" in lines:
            pltpu.sync_copy(rows, shared.at[of], add=True)

        @pl.loop(0, share, step=lanes)
        def count(k):
            label = of[pl.ds(k, lanes)]
            so_far, last = plsc.scan_count(label, mask=label >= 0) if "C" in lines else (label, label > 0)
            if "D" in lines:
                plsc.addupdate_scatter(counts, [label], so_far, mask=last)
            else:
                counts[pl.ds(k, lanes)] = jnp.where(last, so_far, label)

        if "E" in lines:
            plsc.subcore_barrier()
        pltpu.sync_copy(shared.at[part], sums_hbm.at[core, part])
        pltpu.sync_copy(counts, counts_hbm.at[me])

    out = (
        jax.ShapeDtypeStruct((mesh.num_cores, LABELS, table.shape[1]), table.dtype),
        jax.ShapeDtypeStruct((workers, LABELS), jnp.int32),
    )
    scratch = [
        pltpu.VMEM_SHARED((LABELS, table.shape[1]), table.dtype),
        pltpu.VMEM((share,), jnp.int32),
        pltpu.VMEM((share,), jnp.int32),
        pltpu.VMEM((share, table.shape[1]), table.dtype),
        pltpu.VMEM((LABELS,), jnp.int32),
    ]
    zeros = jnp.zeros((stripe, table.shape[1]), table.dtype)
    return pl.kernel(tally_kernel, out_type=out, mesh=mesh, scratch_types=scratch)(table, indices, labels, zeros)


@functools.cache
def bundles(lines: str) -> dict[str, int]:
    """Return how many bundles of the listing of a kernel with these lines have each instruction of ``OPTIONS``."""
    table = jax.ShapeDtypeStruct((512, 128), jnp.float32)
    numbers = jax.ShapeDtypeStruct((SIZE,), jnp.int32)
    fn = functools.partial(tallied, lines=lines)
    listing = compiler.sparse_core_listing(fn, table, numbers, numbers, chip=CHIP)
    return {name: len(listing.find(name)) for name in OPTIONS}


def fewer_without(line: str) -> str:
    """Return the instruction of which a kernel without this line has fewer."""
    whole = "ABCDE"
    with_it, without = bundles(whole), bundles(whole.replace(line, ""))
    (found,) = (name for name in OPTIONS if without[name] < with_it[name])
    return found


def _asked(line: str) -> Choose:
    new = IN_ITS_PLACE[line]
    lines = "both lines E" if line == "E" else f"line {line}"
    change = f"write {new} in place of {lines}" if new else f"take {lines} out"
    return Choose(
        options=OPTIONS,
        right=RIGHT[line],
        wrong=ASKS[line],
        why="without this line the listing has fewer of it.",
        proof=functools.partial(fewer_without, line),
        next=f"in a copy of the kernel, {change}. List it again: one instruction occurs less often than before.",
    )


_LANES = Predict(
    value=8,
    unit="",
    near={
        16: "That is the number of subcores of a SparseCore; a tpu7x has as many lanes, too.",
        32: "That is a subcore's share of the 1,024 labels. Does it add them all with one instruction?",
        128: "That is the number of different labels, and of a TensorCore's lanes.",
        4: "That is the size of a label in bytes.",
        1: "The line is in a loop. By how much does k grow each time?",
    },
    why="a vector register of a v6e's subcore has 8 lanes of 32 bits.",
    proof=lambda: chips.sparse_cores(CHIP).lanes,
    stands_above="as a number of other things",
)

EXERCISE = Exercise(
    id="17.4",
    title="Find the instruction",
    kind="several",
    defines="found",
    asks=Several(
        parts={line: _asked(line) for line in RIGHT} | {"labels": _LANES},
        why="copies by a list, stores by lane, and a barrier are instructions of their own.",
    ),
    hints=(
        "Which of the five lines copy whole rows, which work on one vector register, which concerns all subcores?",
        "Names that begin with stream are copies, those that begin with v are vector instructions, and an st stores.",
        "A row comes by a gather and leaves by a scatter that adds. scan_count finds which lanes are unique, and "
        "addupdate_scatter stores to an index, adding. A vector has as many lanes as the loop's step.",
    ),
    points=1,
)
