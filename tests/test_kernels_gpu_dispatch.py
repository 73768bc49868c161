"""From the library's ops to their GPU kernels: which road a program takes, and where plain JAX runs, with which words.

Programs are lowered for GPUs that are not there. Nothing is compiled or run.
"""

import contextlib
import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest

from course_lib import chips
from course_lib.kernels import (
    activations,
    attention,
    elementwise,
    linear,
    matmul,
    norm,
    reduce,
    scale_add,
    scan,
    softmax,
)
from course_lib.kernels.common import chip as this_chip
from course_lib.kernels.dispatch import launch

BF16 = jnp.bfloat16


def shape(*sizes, dtype=BF16):
    return jax.ShapeDtypeStruct(sizes, dtype)


T4 = dataclasses.replace(chips.gpu_target("a100"), name="t4", kind="Tesla T4", capability=(7, 5))


def lowered(fn, *args, chip="h200", on=launch.gpu_kernels):
    with (chips.gpu_target(chip) if isinstance(chip, str) else chip).target(), on():
        return jax.jit(fn).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def kernels(program):
    """How many by Mosaic GPU, and how many by Triton."""
    return program.count("@mosaic_gpu_v2"), program.count("xla.gpu.triton")


def gradient(op, count):
    """Of the sum of the squares of its results, by all of ``count`` arguments."""

    def loss(*args):
        return sum(jnp.sum(out.astype(jnp.float32) ** 2) for out in jax.tree.leaves(op(*args)))

    return jax.grad(loss, tuple(range(count)))


HEADS = shape(2, 3, 128, 64)
X, W, B, V = shape(64, 256), shape(256, 128), shape(128), shape(256)
linear_gelu = functools.partial(linear.linear, activation="gelu")
# name -> the op, its arguments, kernels in the program for an H200 and for an A100: forwards, and with the gradient
OPS = {
    "matmul": (matmul.matmul, (X, W), (1, 1), (3, 3)),
    "matmul, vmapped": (jax.vmap(matmul.matmul, (0, None)), (shape(3, 64, 256), W), (1, 1), (3, 3)),
    "linear": (linear_gelu, (shape(2, 64, 256), W, B), (1, 1), (3, 3)),
    "rms_norm": (norm.rms_norm, (X, V), (1, 1), (1, 1)),
    "rms_norm_residual": (norm.rms_norm_residual, (X, X, V), (0, 1), (0, 1)),
    "layer_norm": (norm.layer_norm, (X, V, V), (1, 1), (1, 1)),
    "layer_norm, vmapped": (jax.vmap(norm.layer_norm, (0, None, None)), (shape(3, 64, 256), V, V), (1, 1), (1, 1)),
    "flash_attention": (attention.flash_attention, (HEADS, HEADS, HEADS), (1, 1), (1, 1)),
    "softmax": (softmax.softmax, (X,), (1, 1), (1, 2)),
    "softmax, of columns": (lambda x: softmax.softmax(x, 0), (X,), (0, 0), (0, 0)),
    "add": (elementwise.add, (X, X), (1, 1), (1, 1)),
    "subtract": (elementwise.subtract, (X, X), (1, 1), (1, 1)),
    "multiply": (elementwise.multiply, (X, X), (1, 1), (3, 3)),
    "cast": (lambda x: elementwise.cast(x, jnp.float32), (X,), (1, 1), (2, 2)),
    "silu": (activations.silu, (X,), (1, 1), (2, 2)),
    "scale_add": (lambda x, y: scale_add.scale_add(2.0, x, y), (X, X), (0, 0), (0, 0)),
    "sum_over": (lambda x: reduce.sum_over(x, 1), (X,), (0, 0), (0, 0)),
    "max_over": (lambda x: reduce.max_over(x, 1), (X,), (0, 0), (0, 0)),
    "cumsum": (lambda x: scan.cumsum(x, 1), (X,), (0, 0), (0, 0)),
}


@pytest.mark.parametrize("name", OPS)
def test_an_op_launches_its_gpu_kernels_and_those_of_its_gradient(name):
    """The table of docs/gpu.md. Where there is no kernel plain JAX runs; the road is the GPU's, forwards and back."""
    op, args, forwards, back = OPS[name]
    for fn, (hopper, ampere) in ((op, forwards), (gradient(op, len(args)), back)):
        assert kernels(lowered(fn, *args, chip="h200")) == (hopper, 0)
        assert kernels(lowered(fn, *args, chip="a100")) == (0, ampere)


@pytest.mark.parametrize("gpu", [T4, *map(chips.gpu_target, chips.GPU_TARGETS)], ids=lambda gpu: gpu.name)
def test_the_doctor_says_of_a_gpu_what_the_kernels_do_there(gpu):
    says = chips.AttachedGpu(gpu.kind, gpu.capability).runs
    with gpu.target():
        if says.startswith("no kernels"):
            with pytest.raises(this_chip.NoKernels):
                this_chip.gpu_road()
            return
        assert this_chip.gpu_road() == ("mosaic" if says.startswith("plgpu.kernel") else "triton")
        assert (this_chip.not_a_hopper() == "") == ("wgmma and TMA" in says)


def test_kernels_run_unasked_on_hoppers_alone():
    """The same function too, once inside and once outside: JAX must not take the program of the one for the other's."""
    unasked = functools.partial(lowered, softmax.softmax, X, on=contextlib.nullcontext)
    assert {chip: kernels(unasked(chip=chip)) for chip in ("h100", "h200")} == dict.fromkeys(("h100", "h200"), (1, 0))
    for chip in ("a100", "b200", T4):
        assert kernels(unasked(chip=chip)) == (0, 0)
    assert kernels(lowered(softmax.softmax, X, chip="a100")) == (0, 1)
    assert kernels(unasked(chip="a100")) == (0, 0)


def test_a_hopper_can_be_told_to_run_none_or_those_of_triton():
    assert kernels(lowered(softmax.softmax, X, on=functools.partial(launch.gpu_kernels, False))) == (0, 0)
    assert kernels(lowered(softmax.softmax, X, on=functools.partial(launch.gpu_kernels, by_triton=True))) == (0, 1)
    with pytest.raises(this_chip.NoKernels):  # and no older GPU runs those of Triton
        lowered(softmax.softmax, X, chip=T4, on=functools.partial(launch.gpu_kernels, strict=True, by_triton=True))


def test_where_nobody_asked_a_kernel_that_cannot_run_is_no_news(recwarn):
    program = lowered(matmul.matmul, shape(64, 250), shape(250, 128), chip="h100", on=contextlib.nullcontext)
    assert kernels(program) == (0, 0) and not recwarn


flash = attention.flash_attention


def heads(length, width, **dtype):
    return (shape(2, length, width, **dtype),) * 3


UNFIT = {
    "f32": (matmul.matmul, (shape(64, 256, dtype=jnp.float32), shape(256, 128, dtype=jnp.float32)), "h100",
            "matmul: plain JAX instead of the kernel, for it multiplies bfloat16, and x is float32."),
    "odd rows": (matmul.matmul, (shape(64, 250), shape(250, 128)), "h100",
                 r"Mosaic GPU copies 8 rows of 64 numbers .* and one of the arrays has shape \(64, 250\)"),
    "few columns": (matmul.matmul, (shape(64, 256), shape(256, 24)), "h200", r"has shape \(256, 24\)"),
    "odd columns of the result": (matmul.matmul, (shape(129, 64), shape(64, 64)), "h200", r"has shape \(129, 64\)"),
    "narrow heads": (flash, heads(128, 32), "h100", "it takes heads of 64 or 128 numbers"),
    "odd heads on Ampere": (flash, heads(128, 80), "a100", "heads of 16, 32, 64, 128 numbers"),
    "odd sequences": (flash, heads(100, 64), "h100", "TMA copies multiples of 8 rows"),
    "softcap": (functools.partial(flash, softcap=30.0), heads(128, 64), "h100", "neither segments nor"),
    "attention in f32": (flash, heads(128, 64, dtype=jnp.float32), "a100", "q is float32"),
    "Blackwell": (matmul.matmul, (X, W), "b200", "it is for Hopper GPUs .* and this NVIDIA B200 has 10.0."),
    "Turing": (softmax.softmax, (X,), T4,
               "^Plain JAX instead of all kernels, for they are for GPUs from Ampere on, .* and this Tesla T4 has 7.5"),
    "f32 on Ampere": (matmul.matmul, (shape(64, 256, dtype=jnp.float32), shape(256, 128, dtype=jnp.float32)), "a100",
            "matmul: .* it multiplies bfloat16, and x is float32."),
    "long rows on Ampere": (softmax.softmax, (shape(8, 1 << 15),), "l4", "it takes rows of up to 16,384 numbers"),
    "large arrays on Ampere": (activations.relu, (shape(1 << 16, 1 << 15),), "a100", "counts elements in 32 bits"),
    "long rows": (softmax.softmax, (shape(8, 1 << 14),), "h200", "it takes rows of .* up to 8,192"),
    "few elements": (elementwise.add, (shape(3, 5), shape(3, 5)), "h200", "it takes a multiple of 128 elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_what_a_kernel_cannot_do_plain_jax_does_with_one_warning(name):
    fn, args, chip, says = UNFIT[name]
    with pytest.warns(UserWarning, match=says) as said:
        program = lowered(fn, *args, chip=chip)
    assert len(said) == 1 and kernels(program) == (0, 0)
    with pytest.raises(this_chip.NoKernel):
        lowered(fn, *args, chip=chip, on=functools.partial(launch.gpu_kernels, strict=True))


def test_a_gpu_that_runs_none_is_told_of_in_one_sentence_for_all_ops():
    def three(x, w):
        return softmax.softmax(x), activations.relu(x), matmul.matmul(x, w)

    with pytest.warns(UserWarning) as said:
        lowered(three, X, W, chip=T4)
    assert len({str(warning.message) for warning in said}) == 1  # Python shows one sentence of one place once


def test_an_unknown_gpu_gets_plain_jax():
    with launch.gpu_kernels(), pytest.warns(UserWarning, match="no GPU is known here"):
        program = jax.jit(softmax.softmax).trace(X).lower(lowering_platforms=("cuda",)).as_text()
    assert kernels(program) == (0, 0)


def test_what_has_no_gpu_kernel_says_nothing():
    x = shape(64, 256, dtype=jnp.int8)
    assert "dot_general" in lowered(matmul.matmul, x, shape(256, 128, dtype=jnp.int8))
