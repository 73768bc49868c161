"""Which engine six kernels belong on."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import chips, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several

OPTIONS = ("TensorCore", "SparseCore", "Mosaic GPU", "Triton")
_NO_GPU = {
    "Mosaic GPU": "That is the back end of plgpu.kernel, for GPUs. Which machine is asked about?",
    "Triton": "That is the back end of pl.pallas_call on GPUs. Which machine is asked about?",
}
_NO_TPU = {
    "TensorCore": "That is a core of a TPU. Which machine is asked about?",
    "SparseCore": "That is a core of a TPU, for rows by index. Which machine is asked about?",
}


def _for_rows(chip: str) -> str:
    """Return the engine of a TPU for rows by index."""
    return "SparseCore" if chips.sparse_cores(chip) else "TensorCore"


def _for_operations(chip: str, per_byte: float) -> str:
    """Return the engine that can do so many operations per byte of HBM: SparseCores have no matrix unit."""
    cores, whole = chips.sparse_cores(chip), chips.chip(chip)
    rate = cores.cores * cores.subcores * cores.lanes * 2 * (whole.clock_hz or 0) if cores else 0
    return "SparseCore" if per_byte * whole.chip_bandwidth <= rate else "TensorCore"


def _softmax(x):
    def softmax_kernel(x_ref, o_ref):
        p = jnp.exp(x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True))
        o_ref[...] = p / jnp.sum(p, axis=1, keepdims=True)

    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(softmax_kernel, out_shape=x, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=block)(x)


def _runs_unchanged() -> str:
    """Return Triton if the judges of an A100 accept a softmax kernel of a TPU as it is."""
    x = jnp.sin(jnp.arange(4096.0)).reshape(16, 256)
    said = judges.judge_gpu(_softmax, functools.partial(jax.nn.softmax, axis=1), x, chip="a100")
    return "Triton" if said[-1].passed is not False else "Mosaic GPU"


ASKS = {
    "words": Choose(
        options=OPTIONS,
        right="SparseCore",
        wrong={
            "TensorCore": "It could. But which cores of a v6e have a copy instruction that takes a list of rows?",
        }
        | _NO_GPU,
        why="a SparseCore's copies take a list of rows.",
        proof=lambda: _for_rows("v6e"),
    ),
    "words_v5e": Choose(
        options=OPTIONS,
        right="TensorCore",
        wrong={
            "SparseCore": "Does a v5e have one? print(chips.sparse_cores(...)) of course_lib knows.",
        }
        | _NO_GPU,
        why="a v5e has no SparseCores.",
        proof=lambda: _for_rows("v5e"),
    ),
    "layer": Choose(
        options=OPTIONS,
        right="TensorCore",
        wrong={
            "SparseCore": "What does a vector subcore multiply two matrices with?",
        }
        | _NO_GPU,
        why="only the TensorCore has an MXU.",
        proof=lambda: _for_operations("v5p", 4096**3 * 2 / (3 * 4096**2 * 2)),
    ),
    "votes": Choose(
        options=OPTIONS,
        right="SparseCore",
        wrong={
            "TensorCore": "A TensorCore would compare all labels with each of the 1,000. Which cores can add to an "
            "element that a lane names?",
        }
        | _NO_GPU,
        why="a vector subcore adds to one address for each lane.",
        proof=lambda: _for_rows("v6e"),
    ),
    "softmax_a100": Choose(
        options=OPTIONS,
        right="Triton",
        wrong={
            "Mosaic GPU": "Its kernels say themselves what is copied and who waits. Does yours, if it is unchanged?",
        }
        | _NO_TPU,
        why="pl.pallas_call goes through Triton on a GPU.",
        proof=_runs_unchanged,
    ),
    "matmul_h100": Choose(
        options=OPTIONS,
        right="Mosaic GPU",
        wrong={
            "Triton": "There you write neither TMA copies nor wgmma. Which back end lets you?",
        }
        | _NO_TPU,
        why="plgpu.kernel has TMA copies and wgmma.",
        proof=lambda: "Mosaic GPU" if chips.gpu_target("h100").capability == (9, 0) else "Triton",
    ),
}

EXERCISE = Exercise(
    id="17.1",
    title="Which engine?",
    kind="several",
    defines="engines",
    asks=Several(parts=ASKS, why="rows by index, matrices, and who writes the copies decide."),
    hints=(
        "Begin with the machine. Which two of the four answers are possible on it?",
        "SparseCores are for rows and elements that an index names, if the chip has any; they have no matrix unit. "
        "pl.pallas_call and plgpu.kernel go to different back ends on a GPU.",
        "A v5e has only a TensorCore. On a v6e the two workloads with indices go to the SparseCores. An unchanged body "
        "of a TPU goes through Triton; who wants TMA and wgmma writes them with Mosaic GPU.",
    ),
    points=1,
)
