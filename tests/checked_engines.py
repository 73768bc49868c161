"""Exercises for SparseCores and GPUs, checked in a notebook's way and in the grader's: test_checks_engines runs it.

It prints for each answer a line: [name, what the check says, what the judge of the box says, its score], as JSON.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
from checked import in_the_box
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

from course_lib import checks, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds import RESULTS, golf

ROWS = """
def rows(table, indices):
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore")
    share = indices.size // (mesh.num_cores * mesh.num_subcores)

    def kernel(table_hbm, indices_hbm, o_hbm, indices_ref, rows_ref):
        mine = pl.ds((lax.axis_index("core") * mesh.num_subcores + lax.axis_index("subcore")) * share, share)
        pltpu.sync_copy(indices_hbm.at[mine], indices_ref)
        pltpu.sync_copy(table_hbm.at[indices_ref], rows_ref)
        pltpu.sync_copy(rows_ref, o_hbm.at[mine])

    out = jax.ShapeDtypeStruct((indices.size, 128), table.dtype)
    scratch = [pltpu.VMEM((share,), jnp.int32), pltpu.VMEM((share, 128), table.dtype)]
    return pl.kernel(kernel, out_type=out, mesh=mesh, scratch_types=scratch)(table, indices)
"""
ALL_INDICES = (
    ROWS.replace("indices_hbm.at[mine], indices_ref)", "indices_hbm, indices_ref)")
    .replace("indices_ref], rows_ref)", "indices_ref.at[mine]], rows_ref)")
    .replace("pltpu.VMEM((share,), jnp.int32)", "pltpu.VMEM(indices.shape, jnp.int32)")
)
DOUBLED = """
def kernel(x_gmem, o_gmem, o_smem):
    here = pl.ds(lax.axis_index("i") * 128, 128)
    o_smem[...] = 2 * x_gmem[here]
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[here])
    plgpu.wait_smem_to_gmem(0)

def doubled(x):
    out, scratch = jax.ShapeDtypeStruct(x.shape, x.dtype), [plgpu.SMEM((128,), x.dtype)]
    return plgpu.kernel(kernel, out_type=out, grid=(4,), grid_names=("i",), scratch_types=scratch)(x)
"""
EMPTY = '\ndef kernel(x_gmem, o_gmem, o_smem):\n    """Double."""\n' + DOUBLED[DOUBLED.index("\ndef doubled") :]
MULTIPLIED = """
def multiplied(x, y):
    def kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, o_smem, arrived):
        def summed(acc_ref):
            @pl.loop(0, 2)
            def add(step):
                here = pl.ds(step * 64, 64)
                plgpu.copy_gmem_to_smem(x_gmem.at[:, here], x_smem, arrived)
                plgpu.copy_gmem_to_smem(y_gmem.at[here], y_smem, arrived)
                plgpu.barrier_wait(arrived)
                plgpu.wgmma(acc_ref, x_smem, y_smem)
                plgpu.wgmma_wait(0)

            return acc_ref[...]

        sums = pl.run_scoped(summed, plgpu.ACC((64, 128), jnp.float32))
        o_smem[...] = sums.astype(o_smem.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_gmem)
        plgpu.wait_smem_to_gmem(0)

    scratch = [
        plgpu.SMEM((64, 64), x.dtype), plgpu.SMEM((64, 128), x.dtype), plgpu.SMEM((64, 128), x.dtype),
        plgpu.Barrier(num_arrivals=2),
    ]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((64, 128), x.dtype), scratch_types=scratch)(x, y)
"""
ANSWERS = {
    "rows": ROWS,
    "rows: by one core": ROWS.replace('lax.axis_index("core") * mesh.num_subcores + ', "").replace(
        "mesh.num_cores * mesh.num_subcores", "mesh.num_subcores"
    ),
    "rows: all indices": ALL_INDICES,
    "rows: reversed": ROWS.replace(
        "pltpu.sync_copy(rows_ref, o_hbm.at[mine])",
        "last = pl.ds(indices.size - share - mine.start, share)\n        pltpu.sync_copy(rows_ref, o_hbm.at[last])",
    ),
    "rows: doubled outside": ROWS.replace("(table, indices)\n", "(2 * table, indices) / 2\n"),
    "rows: XLA's": "def rows(table, indices):\n    return jnp.take(table, indices, axis=0)",
    "rows: empty": "def rows(table, indices):\n    pass",
    "rows: a number": "rows = 3",
    "rows: it raises": "def rows(table, indices):\n    return nowhere",
    "doubled": DOUBLED,
    "doubled: no commit": DOUBLED.replace("    plgpu.commit_smem()\n", ""),
    "doubled: tripled": DOUBLED.replace("2 * x", "3 * x"),
    "doubled: outside": DOUBLED.replace("2 * x_gmem[here]", "x_gmem[here]").replace(")(x)", ")(2 * x)"),
    "doubled: only the kernel is empty": EMPTY,
    "multiplied": MULTIPLIED,
    "multiplied: one arrival": MULTIPLIED.replace("num_arrivals=2", "num_arrivals=1"),
}
GOLF = {"rows: golf": ROWS, "rows: golf above par": ALL_INDICES}
NAMES = {"jax": jax, "jnp": jnp, "lax": lax, "pl": pl, "plgpu": plgpu, "pltpu": pltpu, "plsc": plsc}


def floats(seed, *shape, dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng(seed).integers(-8, 9, shape) / 8, dtype)


def indices(seed, size):
    return jnp.asarray(np.random.default_rng(seed).integers(0, 512, size), jnp.int32)


def declared(name, **more):
    common = {"title": "t", "kind": "write", "hints": ("a", "b", "c"), "points": 1} | more
    if name.startswith("rows"):
        limit = None if more else judges.Budget(hbm_bytes=lambda table, indices: 1028 * indices.size)
        return Exercise(
            id="17.2", defines="rows", engine="sparse_core", chips=("v6e",) if more else ("v6e", "tpu7x"),
            cases=lambda: [(floats(0, 512, 128), indices(0, 1024))],
            reference=lambda table, indices: table[indices], budget=limit, **common,
        )  # fmt: skip
    if name.startswith("doubled"):
        return Exercise(
            id="17.6", defines="kernel", judged="doubled", engine="gpu", chips=("h100",),
            cases=lambda: [(floats(0, 512),)], reference=lambda x: 2 * x, **common,
        )  # fmt: skip
    return Exercise(
        id="17.7", defines="multiplied", engine="gpu", chips=("h100",),
        cases=lambda: [(floats(0, 64, 128, dtype=jnp.bfloat16), floats(1, 128, 128, dtype=jnp.bfloat16))],
        reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype), **common,
    )  # fmt: skip


def main():
    checks.start()
    golf.ours = lambda id: None  # there is no build of this lesson
    tasks = {name: (declared(name), source) for name, source in ANSWERS.items()}
    for name, source in GOLF.items():
        tasks[name] = declared(name, kind="golf", golf=golf.Golf(unit="bytes", par=1_100_000)), source
    for name, (task, source) in tasks.items():
        exec(source, names := dict(NAMES))
        answer = names[task.judged or task.defines]
        print(json.dumps([name, str(RESULTS[task.kind](task, answer)), *in_the_box(task, source, NAMES)]), flush=True)


if __name__ == "__main__":
    main()
