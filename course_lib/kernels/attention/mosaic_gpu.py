"""Attention on Hopper GPUs (H100, H200) by Mosaic GPU; the result is that of ``attention.reference``.

Cost   FLOPs 4*S*T*D of a head, half if causal; bytes from L2 or HBM (2*S*D + 2*T*D*ceil(S/bq)) * 2
SMEM   4 * bq*D for two tiles of q, where o leaves too, and 4 * stages * bk*D for the rings of k and v
Regs   per multiplying thread bk/2 for the scores in f32, D/2 for the sum of values, and bk/4 for each of two blocks of
       exponentials in bf16: 192 for bk = D = 128, of the 232 it may have

The grid has one block per SM, which computes one tile of o after another, bq queries of one head each. A block has
three warpgroups of 128 threads. One copies q of the tiles, and blocks of k and v into two rings, by TMA, and runs ahead
into the next tile. Two multiply, each with its half of the queries. The products are asynchronous: while the tensor
cores multiply one block of exponentials by v, the threads compute the exponentials of the next block. And the two
warpgroups take turns: one computes exponentials while the products of the other run. Both are due to FlashAttention-3
(Shah et al. 2024, arXiv:2407.08608, section 3).

Blocks of keys are taken from the last to the first. Only the first that is taken can hold keys that do not count,
beyond the end or, if causal, beyond a query; so only that one needs a mask. If causal, an SM takes a tile and then its
opposite, counted from the end: any two such tiles have as many blocks of keys as any other two. On an H100 (4 x 16
heads of 2048 x 128, JAX 0.11.2) one long-lived block per SM took 219 us where one block for each tile had taken 259 us,
and 214 us with turns; causal, 160 us with the longest tiles first, and 131 us with opposites.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from course_lib.arrays import Array, BFloat16, Float32
from course_lib.kernels.attention import arguments
from course_lib.kernels.attention.scores import Scores
from course_lib.kernels.common import chip

_MULTIPLIERS, _COPIER = 2, 2  # warpgroups 0 and 1 multiply, number 2 copies
_REGISTERS = {"copies": 40, "multiplies": 232}  # of a thread, as in matmul
_A_ROW_EACH = plgpu.Layout.WGMMA.reduce(1)  # of a vector: where wgmma keeps the rows of its sums
_WIDTHS = 64, 128  # of a head


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Queries of a block of the grid, and keys of a stage of the rings. They never change the result."""

    bq: int = 128
    bk: int = 128
    stages: int = 2

    def __post_init__(self):
        if self.bq != 128 or self.bk % self.bq or self.stages < 2:
            raise ValueError(f"{self}: bq must be 128, bk a multiple of it, and stages 2 or more.")


def unfit(q: Array, k: Array, v: Array, *segments: Array, scores: Scores) -> str:
    """Return why this kernel cannot compute the attention; "" if it can."""
    if why := arguments.unfit_for_gpus(q, segments, scores):
        return why
    if q.shape[-1] not in _WIDTHS or v.shape[-1] != q.shape[-1]:
        return f"it takes heads of {_WIDTHS[0]} or {_WIDTHS[1]} numbers, and q, k and v have shapes {_shapes(q, k, v)}"
    if any(x.shape[-2] % 8 for x in (q, k)):
        return f"TMA copies multiples of 8 rows, and q, k and v have shapes {_shapes(q, k, v)}"
    return chip.not_a_hopper()


def _shapes(*arrays: Array) -> str:
    return ", ".join(str(array.shape) for array in arrays)


def on_gpu(q: Array, k: Array, v: Array, *segments: Array, scores: Scores) -> tuple[Array, Array]:
    """Run ``forward`` on the GPU traced for. Raises ``chip.NoKernel`` if it cannot take the operands."""
    if why := unfit(q, k, v, *segments, scores=scores):
        raise chip.NoKernel(why)
    return forward(q, k, v, scores=scores)


def forward(
    q: BFloat16[Array, "*queries S D"],
    k: BFloat16[Array, "*heads T D"],
    v: BFloat16[Array, "*heads T D"],
    *,
    scores: Scores,
    blocks: Blocks | None = None,
    sms: int | None = None,
    interpret: plgpu.InterpretGPUParams | None = None,
) -> tuple[BFloat16[Array, "*queries S D"], Float32[Array, "*queries S"]]:
    """Return o, and log2 of each query's sum of exponentials, like ``attention.kernel.plain``.

    JAX's simulator knows neither products with an operand in registers nor writes to an accumulator. With ``interpret``
    the exponentials, and the sums from step to step, are in SMEM.
    """
    blocks = blocks or Blocks()
    bq, bk, stages = blocks.bq, blocks.bk, blocks.stages
    flat_q, flat_k, flat_v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    (heads, s, d), (kv_heads, t, _) = flat_q.shape, flat_k.shape
    group, rows, tiles, last = heads // kv_heads, bq // _MULTIPLIERS, pl.cdiv(s, bq), pl.cdiv(t, bk) - 1
    each = 2 if scores.causal else 1  # a tile and its opposite, which have as many blocks of keys as any such pair
    units = pl.cdiv(heads * tiles, each)
    sms = min(sms or chip.sms(), units)
    rate = scores.rate

    def kernel(q_gmem, k_gmem, v_gmem, o_gmem, lse_gmem, q_smem, k_smem, v_smem, lse_smem, *refs):
        (q_full, k_full, v_full, q_empty, k_empty, v_empty, may_issue), simulated = refs[:7], refs[7:]
        warpgroup, sm = lax.axis_index("warpgroup"), lax.axis_index("sm")
        turns = each * lax.div(units - 1 - sm + sms, sms)  # tiles of this SM
        if heads * tiles % each:  # the one in the middle is its own opposite
            turns -= (sm == (units - 1) % sms).astype(jnp.int32)

        def tile(turn):
            """Return the head, the block of queries, and the block of keys taken first."""
            number = sm + lax.div(turn, each) * sms
            if scores.causal:
                number = jnp.where(lax.rem(turn, each) == 0, number, heads * tiles - 1 - number)
            head, i = lax.div(number, tiles), lax.rem(number, tiles)
            return head, i, lax.min(lax.div(i * bq, bk), last) if scores.causal else jnp.int32(last)

        @pl.when(warpgroup == _COPIER)
        def _copy():
            plgpu.set_max_registers(_REGISTERS["copies"], action="decrease")

            def one(turn, before):
                (head, i, first), buffer = tile(turn), lax.rem(turn, 2)

                @pl.when(turn >= 2)
                def _once_it_is_free():
                    plgpu.barrier_wait(q_empty.at[buffer])

                plgpu.copy_gmem_to_smem(q_gmem.at[head, pl.ds(i * bq, bq)], q_smem.at[buffer], q_full.at[buffer])

                @pl.loop(0, first + 1)
                def _step(step):
                    number = before + step
                    stage = lax.rem(number, stages)
                    block = lax.div(head, group), pl.ds((first - step) * bk, bk)
                    for gmem, smem, full, empty in (
                        (k_gmem, k_smem, k_full, k_empty),
                        (v_gmem, v_smem, v_full, v_empty),
                    ):

                        @pl.when(number >= stages)
                        def _once_it_is_free(empty=empty):
                            plgpu.barrier_wait(empty.at[stage])

                        plgpu.copy_gmem_to_smem(gmem.at[block], smem.at[stage], full.at[stage])

                return before + first + 1

            steps = lax.fori_loop(0, turns, one, 0)

            @pl.loop(0, lax.min(steps, stages))
            def _until_all_is_used(stage):
                plgpu.barrier_wait(k_empty.at[stage])
                plgpu.barrier_wait(v_empty.at[stage])

            @pl.loop(0, lax.min(turns, 2))
            def _until_all_has_left(buffer):
                plgpu.barrier_wait(q_empty.at[buffer])

        @pl.when(warpgroup != _COPIER)
        def _multiply():
            plgpu.set_max_registers(_REGISTERS["multiplies"], action="increase")
            mine = pl.ds(warpgroup * rows, rows)

            @pl.when(warpgroup == 1)
            def _let_the_first_begin():
                plgpu.barrier_arrive(may_issue.at[0])

            def one(turn, before):
                (head, i, first), buffer = tile(turn), lax.rem(turn, 2)
                steps = first + 1
                q_block = q_smem.at[buffer, mine]
                plgpu.barrier_wait(q_full.at[buffer])

                def stage_of(step):
                    return lax.rem(before + step, stages)

                def begin_scores(s_ref, step):
                    plgpu.barrier_wait(k_full.at[stage_of(step)])
                    plgpu.wgmma(s_ref, q_block, k_smem.at[stage_of(step)].T)

                def begin_values(o_ref, p, step):
                    stage = stage_of(step)
                    plgpu.barrier_wait(v_full.at[stage])
                    if not interpret:
                        plgpu.wgmma(o_ref, p, v_smem.at[stage])
                        return
                    p_smem = simulated[1].at[mine]
                    p_smem[...] = p
                    plgpu.commit_smem()

                    def product(acc_ref):
                        plgpu.wgmma(acc_ref, p_smem, v_smem.at[stage])
                        return acc_ref[...]

                    o_ref[...] += pl.run_scoped(product, plgpu.ACC((rows, d), jnp.float32))

                def exponentials(products, m):
                    """Return each query's largest product so far, and what a block's exponentials are to it."""
                    m = lax.max(m, jnp.max(products, axis=1))
                    powers = products * rate - lax.broadcast_in_dim(m * rate, products.shape, [0])
                    return m, jnp.exp2(powers)

                def the_first():
                    def products(s_ref):
                        begin_scores(s_ref, 0)
                        return s_ref[...]

                    found = pl.run_scoped(products, plgpu.ACC((rows, bk), jnp.float32))
                    plgpu.barrier_arrive(k_empty.at[stage_of(0)])
                    query, key = (
                        plgpu.broadcasted_iota(jnp.int32, (rows, bk), axis, layout=plgpu.Layout.WGMMA)
                        for axis in (0, 1)
                    )
                    counts = first * bk + key < t
                    if scores.causal:
                        counts &= first * bk + key <= i * bq + warpgroup * rows + query
                    found = jnp.where(counts, found, -jnp.inf)
                    nothing = plgpu.layout_cast(jnp.full((rows,), -jnp.inf, jnp.float32), _A_ROW_EACH)
                    m, p = exponentials(found, nothing)
                    return m, jnp.sum(p, axis=1), p.astype(jnp.bfloat16)

                def all_steps(o_ref):
                    def step(number, carry):
                        """Sum the values of one block, and meanwhile compute the exponentials of the next."""
                        m, total, p = carry

                        def both(s_ref):
                            plgpu.barrier_wait(may_issue.at[warpgroup])
                            begin_scores(s_ref, number + 1)
                            begin_values(o_ref, p, number)
                            plgpu.barrier_arrive(may_issue.at[1 - warpgroup])
                            products = plgpu.wgmma_accumulator_load(s_ref, wait_n=1)
                            plgpu.barrier_arrive(k_empty.at[stage_of(number + 1)])
                            larger, next_p = exponentials(products, m)
                            shrink = jnp.exp2((m - larger) * rate)
                            sums = o_ref[...]  # waits for the product
                            plgpu.barrier_arrive(v_empty.at[stage_of(number)])
                            o_ref[...] = sums * lax.broadcast_in_dim(shrink, sums.shape, [0])
                            return larger, total * shrink + jnp.sum(next_p, axis=1), next_p.astype(jnp.bfloat16)

                        return pl.run_scoped(both, plgpu.ACC((rows, bk), jnp.float32))

                    begun = the_first()

                    @pl.when(turn > 0)
                    def _the_tile_before_has_left():
                        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
                        plgpu.barrier_arrive(q_empty.at[1 - buffer])

                    m, total, p = lax.fori_loop(0, steps - 1, step, begun)
                    begin_values(o_ref, p, steps - 1)
                    return m, total, o_ref[...]

                if interpret:
                    simulated[0][mine] = jnp.zeros((rows, d), jnp.float32)
                    m, total, sums = all_steps(simulated[0].at[mine])
                else:
                    m, total, sums = pl.run_scoped(all_steps, plgpu.ACC((rows, d), jnp.float32))
                plgpu.barrier_arrive(v_empty.at[stage_of(steps - 1)])
                q_block[...] = (sums * lax.broadcast_in_dim(1 / total, sums.shape, [0])).astype(o_gmem.dtype)
                lse_block = lse_smem.at[buffer, mine]
                lse_block[...] = m * rate + jnp.log2(total)
                plgpu.commit_smem()
                here = head, pl.ds(i * bq + warpgroup * rows, rows)
                plgpu.copy_smem_to_gmem(q_block, o_gmem.at[here])  # q is no longer needed
                plgpu.copy_smem_to_gmem(lse_block, lse_gmem.at[here])
                return before + steps

            lax.fori_loop(0, turns, one, 0)
            plgpu.wait_smem_to_gmem(0)
            plgpu.barrier_arrive(q_empty.at[lax.rem(turns - 1, 2)])

            @pl.when(warpgroup == 0)
            def _the_last_turn_is_given_back():
                plgpu.barrier_wait(may_issue.at[0])

    ring = {"num_barriers": stages}
    o, lse = plgpu.kernel(
        kernel,
        out_type=(jax.ShapeDtypeStruct((heads, s, d), q.dtype), jax.ShapeDtypeStruct((heads, s), jnp.float32)),
        scratch_types=[
            plgpu.SMEM((2, bq, d), q.dtype),
            plgpu.SMEM((stages, bk, d), k.dtype),
            plgpu.SMEM((stages, bk, d), v.dtype),
            plgpu.SMEM((2, bq), jnp.float32),
            plgpu.Barrier(num_arrivals=1, num_barriers=2),
            plgpu.Barrier(num_arrivals=1, **ring),
            plgpu.Barrier(num_arrivals=1, **ring),
            plgpu.Barrier(num_arrivals=_MULTIPLIERS, num_barriers=2),
            plgpu.Barrier(num_arrivals=_MULTIPLIERS, **ring),
            plgpu.Barrier(num_arrivals=_MULTIPLIERS, **ring),
            plgpu.Barrier(num_arrivals=1, num_barriers=_MULTIPLIERS),  # may_issue: the products of which warpgroup
            *([plgpu.SMEM((bq, d), jnp.float32), plgpu.SMEM((bq, bk), q.dtype)] if interpret else []),
        ],
        grid=(sms,),
        grid_names=("sm",),
        num_threads=_MULTIPLIERS + 1,
        thread_name="warpgroup",
        compiler_params=plgpu.CompilerParams(approx_math=True),
        interpret=interpret,
        kernel_name="flash_attention",
    )(flat_q, flat_k, flat_v)
    return o.reshape(q.shape), lse.reshape(q.shape[:-1])
