"""Attention on Hopper GPUs (H100, H200) by Mosaic GPU; the result is that of ``attention.reference``.

Cost   FLOPs 4*S*T*D of a head, half if causal; bytes from L2 or HBM (2*S*D + 2*T*D*ceil(S/bq)) * 2
SMEM   2 * bq*D for q, where o leaves too, and 4 * stages * bk*D for the rings of k and v
Regs   per multiplying thread bk/2 for the scores in f32, D/2 for the sum of values, and bk/4 for each of two blocks of
       exponentials in bf16: 192 for bk = D = 128, of the 232 it may have

A block of the grid computes bq queries of one head. It has three warpgroups of 128 threads. One copies blocks of k and
v by TMA into two rings. Two multiply, each with its half of the queries. The products are asynchronous: while the
tensor cores multiply one block of exponentials by v, the threads compute the exponentials of the next block.

Blocks of keys are taken from the last to the first. Only the first that is taken can hold keys that do not count,
beyond the end or, if causal, beyond a query; so only that one needs a mask.
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
    interpret: plgpu.InterpretGPUParams | None = None,
) -> tuple[BFloat16[Array, "*queries S D"], Float32[Array, "*queries S"]]:
    """Return o, and log2 of each query's sum of exponentials, like ``attention.kernel.plain``.

    JAX's simulator knows neither products with an operand in registers nor writes to an accumulator. With ``interpret``
    the exponentials, and the sums from step to step, are in SMEM.
    """
    blocks = blocks or Blocks()
    bq, bk, stages = blocks.bq, blocks.bk, blocks.stages
    flat_q, flat_k, flat_v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    (heads, s, d), (key_heads, t, _) = flat_q.shape, flat_k.shape
    group, rows, tiles, last = heads // key_heads, bq // _MULTIPLIERS, pl.cdiv(s, bq), pl.cdiv(t, bk) - 1
    rate = scores.rate

    def kernel(q_gmem, k_gmem, v_gmem, o_gmem, lse_gmem, q_smem, k_smem, v_smem, lse_smem, *refs):
        (q_full, k_full, v_full, k_empty, v_empty), simulated = refs[:5], refs[5:]
        warpgroup, head = lax.axis_index("warpgroup"), lax.axis_index("head")
        i = tiles - 1 - lax.axis_index("tile")  # if causal, the longest come first
        first = lax.min(i * bq // bk, last) if scores.causal else jnp.int32(last)  # the block of keys taken first
        steps = first + 1

        @pl.when(warpgroup == _COPIER)
        def _copy():
            plgpu.set_max_registers(_REGISTERS["copies"], action="decrease")
            plgpu.copy_gmem_to_smem(q_gmem.at[head, pl.ds(i * bq, bq)], q_smem, q_full)

            @pl.loop(0, steps)
            def _step(number):
                stage = lax.rem(number, stages)
                block = lax.div(head, group), pl.ds((first - number) * bk, bk)
                for gmem, smem, full, empty in (
                    (k_gmem, k_smem, k_full, k_empty),
                    (v_gmem, v_smem, v_full, v_empty),
                ):

                    @pl.when(number >= stages)
                    def _once_it_is_free(empty=empty):
                        plgpu.barrier_wait(empty.at[stage])

                    plgpu.copy_gmem_to_smem(gmem.at[block], smem.at[stage], full.at[stage])

            @pl.loop(0, lax.min(steps, stages))
            def _until_all_is_used(stage):
                plgpu.barrier_wait(k_empty.at[stage])
                plgpu.barrier_wait(v_empty.at[stage])

        @pl.when(warpgroup != _COPIER)
        def _multiply():
            plgpu.set_max_registers(_REGISTERS["multiplies"], action="increase")
            mine = pl.ds(warpgroup * rows, rows)
            plgpu.barrier_wait(q_full)

            def begin_scores(s_ref, number):
                stage = lax.rem(number, stages)
                plgpu.barrier_wait(k_full.at[stage])
                plgpu.wgmma(s_ref, q_smem.at[mine], k_smem.at[stage].T)

            def begin_values(o_ref, p, number):
                stage = lax.rem(number, stages)
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
                """Return the largest product of each query so far, and what the exponentials of a block are to it."""
                m = lax.max(m, jnp.max(products, axis=1))
                powers = products * rate - lax.broadcast_in_dim(m * rate, products.shape, [0])
                return m, jnp.exp2(powers)

            def the_first():
                def products(s_ref):
                    begin_scores(s_ref, 0)
                    return s_ref[...]

                found = pl.run_scoped(products, plgpu.ACC((rows, bk), jnp.float32))
                plgpu.barrier_arrive(k_empty.at[0])
                query, key = (
                    plgpu.broadcasted_iota(jnp.int32, (rows, bk), axis, layout=plgpu.Layout.WGMMA) for axis in (0, 1)
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
                        begin_scores(s_ref, number + 1)
                        begin_values(o_ref, p, number)
                        products = plgpu.wgmma_accumulator_load(s_ref, wait_n=1)
                        plgpu.barrier_arrive(k_empty.at[lax.rem(number + 1, stages)])
                        larger, next_p = exponentials(products, m)
                        shrink = jnp.exp2((m - larger) * rate)
                        sums = o_ref[...]  # waits for the product
                        plgpu.barrier_arrive(v_empty.at[lax.rem(number, stages)])
                        o_ref[...] = sums * lax.broadcast_in_dim(shrink, sums.shape, [0])
                        return larger, total * shrink + jnp.sum(next_p, axis=1), next_p.astype(jnp.bfloat16)

                    return pl.run_scoped(both, plgpu.ACC((rows, bk), jnp.float32))

                m, total, p = lax.fori_loop(0, steps - 1, step, the_first())
                begin_values(o_ref, p, steps - 1)
                return m, total, o_ref[...]

            if interpret:
                simulated[0][mine] = jnp.zeros((rows, d), jnp.float32)
                m, total, sums = all_steps(simulated[0].at[mine])
            else:
                m, total, sums = pl.run_scoped(all_steps, plgpu.ACC((rows, d), jnp.float32))
            plgpu.barrier_arrive(v_empty.at[lax.rem(steps - 1, stages)])
            o_smem = q_smem.at[mine]  # q is no longer needed
            o_smem[...] = (sums * lax.broadcast_in_dim(1 / total, sums.shape, [0])).astype(o_gmem.dtype)
            lse_smem[mine] = m * rate + jnp.log2(total)
            plgpu.commit_smem()
            here = head, pl.ds(i * bq + warpgroup * rows, rows)
            plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[here])
            plgpu.copy_smem_to_gmem(lse_smem.at[mine], lse_gmem.at[here])
            plgpu.wait_smem_to_gmem(0)

    ring = {"num_barriers": stages}
    o, lse = plgpu.kernel(
        kernel,
        out_type=(jax.ShapeDtypeStruct((heads, s, d), q.dtype), jax.ShapeDtypeStruct((heads, s), jnp.float32)),
        scratch_types=[
            plgpu.SMEM((bq, d), q.dtype),
            plgpu.SMEM((stages, bk, d), k.dtype),
            plgpu.SMEM((stages, bk, d), v.dtype),
            plgpu.SMEM((bq,), jnp.float32),
            plgpu.Barrier(num_arrivals=1),
            plgpu.Barrier(num_arrivals=1, **ring),
            plgpu.Barrier(num_arrivals=1, **ring),
            plgpu.Barrier(num_arrivals=_MULTIPLIERS, **ring),
            plgpu.Barrier(num_arrivals=_MULTIPLIERS, **ring),
            *([plgpu.SMEM((bq, d), jnp.float32), plgpu.SMEM((bq, bk), q.dtype)] if interpret else []),
        ],
        grid=(tiles, heads),
        grid_names=("tile", "head"),
        num_threads=_MULTIPLIERS + 1,
        thread_name="warpgroup",
        compiler_params=plgpu.CompilerParams(approx_math=True),
        interpret=interpret,
        kernel_name="flash_attention",
    )(flat_q, flat_k, flat_v)
    return o.reshape(q.shape), lse.reshape(q.shape[:-1])
