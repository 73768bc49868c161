"""What differs between the three kernels, aspect by aspect, and the lines of each kernel that show it."""

from typing import NamedTuple


class Cell(NamedTuple):
    """One aspect of one engine: what to know, and texts that each occur in one line of the kernel."""

    says: str
    marks: tuple[str, ...] = ()


class Aspect(NamedTuple):
    """One aspect. ``key`` finds the lines of the machines' programs in engine_programs.json."""

    key: str
    name: str
    cells: tuple[Cell, Cell, Cell]  # as ENGINES


ASPECTS = (
    Aspect(
        "block",
        "what a block is",
        (
            Cell(
                "A block is what one grid step needs in VMEM. A core runs the steps one after another, so a step can "
                "rely on what the step before it has left there.",
                ("grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(k_size, bk)),",),
            ),
            Cell(
                "A block is a group of 384 threads on one SM. The grid has one block for each SM, and each computes "
                "one tile of the result after another. Blocks run at the same time, in no order.",
                ("grid=(sms,),", "num_threads=_MULTIPLIERS + 1,", "turns = lax.div("),
            ),
            Cell(
                "A block is a group of 128 threads on one SM, and computes one tile of the result. The grid has one "
                "block for each tile. Blocks run at the same time, in no order.",
                ("grid=(down * across,),", "num_warps=blocks.warps"),
            ),
        ),
    ),
    Aspect(
        "copy",
        "who copies",
        (
            Cell(
                "The pipeline that Pallas makes of the BlockSpecs copies each block from HBM to VMEM, one step ahead, "
                "into one of two buffers. The kernel itself contains no copy.",
                ("spec((bm, bk), lambda i, j, k: (i, k), transpose_x),", "spec((bk, bn), lambda i, j, k: (k, j),"),
            ),
            Cell(
                "One warpgroup of three does nothing else: it asks TMA to copy blocks into a ring of buffers in shared "
                "memory. One instruction copies a whole box of an array.",
                (
                    "plgpu.copy_gmem_to_smem(x_gmem.at[x_block]",
                    "plgpu.copy_gmem_to_smem(y_gmem.at[y_block]",
                    "plgpu.SMEM((stages, *x_stage), x.dtype),",
                ),
            ),
            Cell(
                "The kernel just loads. Triton makes copies to shared memory of these loads, in which every thread "
                "copies 16 bytes at a time, and issues them some steps ahead of the loop.",
                ("return portable.Block(strip_ref.at[here], mask)[...]", "num_stages=blocks.stages"),
            ),
        ),
    ),
    Aspect(
        "wait",
        "who waits for whom",
        (
            Cell(
                "The pipeline waits before each step for the copies of that step. No line of the kernel says so, but "
                "the compiled program contains the waits.",
            ),
            Cell(
                "The kernel says it all. A stage of the ring has two barriers: those that multiply wait until it is "
                "full, and the one that copies waits until both have emptied it.",
                (
                    "def _once_it_is_free():",
                    "plgpu.barrier_wait(full.at[stage])",
                    "plgpu.barrier_arrive(empty.at[lax.rem(number - 1, stages)])",
                ),
            ),
            Cell(
                "Triton puts the waits where a step of the loop uses what was copied: first each thread waits for its "
                "own copies, then all threads of the block wait for each other.",
                ("num_stages=blocks.stages",),
            ),
        ),
    ),
    Aspect(
        "multiply",
        "who multiplies",
        (
            Cell(
                "The matrix unit (MXU) of the core multiplies what lies in VMEM, after it was loaded into vector "
                "registers.",
                ("acc_ref[...] += product(x, y, left=left and left(k))",),
            ),
            Cell(
                "Two warpgroups multiply, each its half of the rows. One wgmma reads both operands from shared memory "
                "and runs on while the warpgroup continues.",
                ("plgpu.wgmma(acc_ref, x_block, y_block)", "plgpu.wgmma_wait(1)"),
            ),
            Cell(
                "All four warps multiply by mma, whose operands are registers, so a warp first loads them from shared "
                "memory.",
                ("return sums + dot(x_part, y_part,",),
            ),
        ),
    ),
    Aspect(
        "accumulator",
        "where the accumulator is",
        (
            Cell(
                "In VMEM, as scratch that survives from one grid step to the next. K is the innermost axis of the "
                "grid, and the kernel clears the accumulator when a new tile begins.",
                ("acc_ref[...] = jnp.zeros_like(acc_ref)", "acc_ref[...] += product(", "scratch = [pltpu.VMEM("),
            ),
            Cell(
                "In registers: 128 of each multiplying thread. K is a loop in the body, because nothing passes from "
                "one block to another.",
                ("sums = pl.run_scoped(summed, plgpu.ACC((rows, bn), jnp.float32))", "for_each_step(turn, add)"),
            ),
            Cell(
                "In registers: 128 of each thread. K is a loop in the body here too, and the loop carries the "
                "accumulator as a value.",
                ("sums = lax.fori_loop(0, pl.cdiv(k, bk), add, jnp.zeros((bm, bn), jnp.float32))",),
            ),
        ),
    ),
    Aspect(
        "result",
        "how the result leaves",
        (
            Cell(
                "The last step over K writes it to the output block in VMEM. The pipeline copies the block to HBM when "
                "the grid moves on to another one.",
                ("o_ref[...] = acc_ref[...].astype(o_ref.dtype)", "out_specs=spec("),
            ),
            Cell(
                "In pieces of 64 columns: registers, shared memory, then TMA. Commit makes the values visible to TMA, "
                "and a buffer is written again only after TMA has read it.",
                (
                    "plgpu.wait_smem_to_gmem(1, wait_read_only=True)",
                    "way_out[...] = value.astype(o.dtype)",
                    "plgpu.commit_smem()",
                    "plgpu.copy_smem_to_gmem(way_out,",
                ),
            ),
            Cell(
                "Each thread stores its own part of the tile. The mask keeps it inside the array.",
                ("portable.Block(o_ref, in_o)[...] = value.astype(o_ref.dtype)",),
            ),
        ),
    ),
    Aspect(
        "forgotten",
        "what a forgotten wait does",
        (
            Cell(
                "There is none to forget as long as the pipeline copies. A kernel with copies of its own, by "
                "pltpu.make_async_copy, can forget one; the simulator judge then refuses it.",
            ),
            Cell(
                "Without the marked line a warpgroup may multiply what has not arrived. Whether the values are right "
                "depends on timing, and the kernel compiles all the same. The judge's verdict stands below.",
                ("plgpu.barrier_wait(full.at[stage])",),
            ),
            Cell(
                "There is none to forget: Triton derives the waits from what the body loads and stores. A body that "
                "reads back what it has just written needs a barrier of its own.",
            ),
        ),
    ),
)
