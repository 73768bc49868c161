"""The judges of GPU kernels before planted bugs: who refuses which, in which words. The bugs are in gpu_zoo.py."""

import functools
import re

import jax
import jax.numpy as jnp
import pytest
from gpu_compiler import needs_gpu_compiler
from gpu_zoo import BUGS, RIGHT, V
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from sweeps import daily

from course_lib import judges
from course_lib.judges.gpu import gpu_races


def verdicts(bug):
    return judges.judge_gpu(bug.fn, bug.reference, *bug.args, chip="h200")


EVERY_DAY = {str(bug.caught_by): bug.name for bug in reversed(BUGS)}.values()  # the first that each judge refuses


def param(bug):
    marks = [needs_gpu_compiler] if bug.caught_by in (None, "compiler") else []
    return pytest.param(bug, id=bug.name, marks=marks + [pytest.mark.sweep] * (bug.name not in EVERY_DAY))


@pytest.mark.parametrize("bug", [param(bug) for bug in BUGS])
def test_a_bug_is_refused_by_its_judge_in_words(bug):
    said = verdicts(bug)
    refusal = next((verdict for verdict in said if verdict.passed is False), None)
    if bug.caught_by is None:
        assert refusal is None and bug.unseen, f"somebody sees it now: {refusal}"
        return
    assert refusal is not None and refusal.judge in bug.caught_by, said
    assert re.search(bug.says, f"{refusal.message} {refusal.next}", re.DOTALL), refusal
    assert refusal is said[-1]


@pytest.mark.parametrize("name", daily(*list(RIGHT)[:2], of=RIGHT))
def test_the_same_kernels_without_a_bug_are_not_refused(name):
    said = verdicts(RIGHT[name])
    assert [verdict.judge for verdict in said] == ["numbers", "races", "compiler"]
    assert all(verdict.passed in (True, None) for verdict in said), said


def test_plain_jax_is_no_kernel():
    (said,) = judges.judge_gpu(lambda x: 2 * x, lambda x: 2 * x, V)
    assert said.passed is False and "The function contains no kernel" in said.message


def test_wrong_numbers_are_shown():
    (said,) = judges.judge_gpu(RIGHT["in_by_tma"].fn, lambda x: 3 * x, V)
    assert said.judge == "numbers" and "it should be" in said.message


def test_an_unknown_gpu():
    with pytest.raises(ValueError, match="is not a GPU to compile for"):
        judges.judge_gpu(jnp.sin, jnp.sin, V, chip="v5e")


STORED = """
def kernel(x_gmem, o_gmem, o_smem):
    here = pl.ds(lax.axis_index("i") * 128, 128)
    store = plgpu.copy_smem_to_gmem
    o_smem[...] = 2 * x_gmem[here]
    store(o_smem, o_gmem.at[here])
    plgpu.wait_smem_to_gmem(0)
"""


def test_a_copy_in_a_race_is_known_without_its_source():
    """By its equation, and not by its name in the code, which nobody has here."""
    exec(compile(STORED, "<no source>", "exec"), names := {"pl": pl, "plgpu": plgpu, "lax": lax})
    how = {"out_type": jax.ShapeDtypeStruct(V.shape, V.dtype), "grid": (4,), "grid_names": ("i",)}
    doubled = plgpu.kernel(names["kernel"], scratch_types=[plgpu.SMEM((128,), V.dtype)], **how)
    said = judges.judge_gpu(doubled, lambda x: 2 * x, V)[-1]
    assert said.message.endswith("may not see the new values yet: line 5, then line 6.")
    assert said.next == "call plgpu.commit_smem() between the two."


def two_pieces(x, before, behind, loop):
    """Double two pieces through one shared memory; ``before`` and ``behind`` stand around what writes it."""

    def kernel(x_gmem, o_gmem, o_smem):
        def double(piece):
            here = pl.ds((2 * lax.axis_index("i") + piece) * 128, 128)
            before()
            o_smem[...] = 2 * x_gmem[here]
            behind()
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[here])

        pl.loop(0, 2)(double) if loop else [double(piece) for piece in range(2)]
        plgpu.wait_smem_to_gmem(0)

    out, scratch = jax.ShapeDtypeStruct(x.shape, x.dtype), [plgpu.SMEM((128,), x.dtype)]
    return plgpu.kernel(kernel, out_type=out, grid=(2,), grid_names=("i",), scratch_types=scratch)(x)


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(
    "before, behind, says",
    [
        (None, None, "The first wait for that copy, in line {last}, comes after the write."),
        (None, 0, "The first wait for that copy, in line {own}, comes after the write."),
        (1, None, "The wait between the two, in line {own}, lets the latest copy, which is this one, go on."),
        (2, None, "The wait between the two, in line {own}, lets the 2 latest copies, this one among them, go on."),
    ],
)
def test_the_wait_that_is_too_late_or_too_weak_is_named(before, behind, says, loop):
    def wait(n):
        return (lambda: None) if n is None else lambda: plgpu.wait_smem_to_gmem(n)

    fn = functools.partial(two_pieces, before=wait(before), behind=wait(behind), loop=loop)
    said = judges.judge_gpu(fn, lambda x: 2 * x, V[:512])[-1]
    own, last = wait(0).__code__.co_firstlineno, two_pieces.__code__.co_firstlineno + 13
    assert said.judge == "races" and said.message.endswith(says.format(own=own, last=last)), said.message


def multiplied(x, y, awaited):
    """x @ y in two steps of K through the same shared memory; ``awaited`` is what follows each wgmma."""

    def kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, arrived):
        def summed(acc_ref):
            @pl.loop(0, 2)
            def _add(step):
                plgpu.copy_gmem_to_smem(x_gmem.at[:, pl.ds(step * 64, 64)], x_smem, arrived)
                plgpu.copy_gmem_to_smem(y_gmem.at[pl.ds(step * 64, 64)], y_smem, arrived)
                plgpu.barrier_wait(arrived)
                plgpu.wgmma(acc_ref, x_smem, y_smem)
                awaited()

            return acc_ref[...]

        o_gmem[...] = pl.run_scoped(summed, plgpu.ACC((64, 128), jnp.float32))

    scratch = [plgpu.SMEM((64, 64), x.dtype), plgpu.SMEM((64, 128), x.dtype), plgpu.Barrier(num_arrivals=2)]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((64, 128), jnp.float32), scratch_types=scratch)(x, y)


def test_a_loop_that_never_waits_for_wgmma_is_refused_for_its_code():
    """The simulator finds the values of both right."""
    x, y = jnp.ones((64, 128), jnp.bfloat16), jnp.ones((128, 128), jnp.bfloat16)
    one = lambda: plgpu.wgmma_wait(1)  # noqa: E731
    for awaited, passed in ((lambda: plgpu.wgmma_wait(0), True), (lambda: None, False), (one, False)):
        numbers, races, *_ = judges.judge_gpu(
            functools.partial(multiplied, awaited=awaited),
            lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32), x, y,
        )  # fmt: skip
        assert (numbers.passed, races.passed) == (True, passed)
        assert passed or "copies to shared memory that wgmma may still be reading" in races.message


@pytest.mark.parametrize(
    "arrivals, waits, says",
    [
        (
            1,
            True,
            "2 arrive before the kernel waits once: the copies of lines {} and {}. It completes after the first one",
        ),
        (2, False, "no plgpu.barrier_wait is there for the copies of lines {} and {}. The next ones may overwrite"),
    ],
)
def test_a_barrier_that_completes_too_often_is_told_by_its_cause(arrivals, waits, says):
    def kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, arrived):
        @pl.loop(0, 3)
        def add(step):
            plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(step * 128, 128)], x_smem, arrived)
            plgpu.copy_gmem_to_smem(y_gmem.at[pl.ds(step * 128, 128)], y_smem, arrived)
            if waits:
                plgpu.barrier_wait(arrived)
            o_gmem[pl.ds(step * 128, 128)] = x_smem[...] + y_smem[...]

    x, scratch = V[:384], [plgpu.SMEM((128,), V.dtype)] * 2
    fn = plgpu.kernel(kernel, out_type=x, scratch_types=[*scratch, plgpu.Barrier(num_arrivals=arrivals)])
    (said,) = judges.judge_gpu(fn, lambda x, y: x + y, x, x)
    first = kernel.__code__.co_firstlineno + 3
    assert said.judge == "numbers" and says.format(first, first + 1) in said.message, said.message


@pytest.mark.parametrize("multiply", [jnp.dot, lambda x, y: x @ y])
def test_a_matmul_in_registers_is_refused_before_anything_runs(multiply):
    def kernel(x_gmem, y_gmem, o_gmem):
        o_gmem[...] = multiply(x_gmem[...], y_gmem[...])

    x = jnp.ones((64, 64), jnp.float32)
    fn = plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((64, 64), jnp.float32))
    (said,) = judges.judge_gpu(fn, jnp.dot, x, x)
    assert said.judge == "compiler" and "multiplies values in registers" in said.message


def test_a_declared_slip_is_named():
    slip = judges.Slip(means="it is tripled", value=lambda x: 3 * x, next="double it.")
    (said,) = judges.judge_gpu(RIGHT["in_by_tma"].fn, lambda x: x, V, slips=(slip,))
    assert "That is a known slip" not in said.message
    (said,) = judges.judge_gpu(lambda x: RIGHT["in_by_tma"].fn(1.5 * x), lambda x: 2 * x, V, slips=(slip,))
    assert "That is a known slip: it is tripled." in said.message and said.next == "double it."


@pytest.mark.parametrize("copies_first, passed", [(0, True), (1, False), (2, False)])
def test_a_wait_for_wgmma_must_come_before_the_copies(copies_first, passed):
    """The wait stands before both copies, between them, or behind them."""

    def kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, arrived):
        def summed(acc_ref):
            @pl.loop(0, 2)
            def step(k):
                pieces = [(x_gmem.at[:, pl.ds(64 * k, 64)], x_smem), (y_gmem.at[pl.ds(64 * k, 64)], y_smem)]
                for number, (piece, buffer) in enumerate(pieces):
                    if number == copies_first:
                        plgpu.wgmma_wait(0)
                    plgpu.copy_gmem_to_smem(piece, buffer, arrived)
                if copies_first == 2:
                    plgpu.wgmma_wait(0)
                plgpu.barrier_wait(arrived)
                plgpu.wgmma(acc_ref, x_smem, y_smem)

            return acc_ref[...]

        o_gmem[...] = pl.run_scoped(summed, plgpu.ACC((64, 128), jnp.float32))

    x, y = jnp.ones((64, 128), jnp.bfloat16), jnp.ones((128, 128), jnp.bfloat16)
    scratch = [plgpu.SMEM((64, 64), x.dtype), plgpu.SMEM((64, 128), x.dtype), plgpu.Barrier(num_arrivals=2)]
    out = jax.ShapeDtypeStruct((64, 128), jnp.float32)
    fn = plgpu.kernel(kernel, out_type=out, scratch_types=scratch)
    _, races, *_ = judges.judge_gpu(fn, lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32), x, y)
    assert races.passed == passed


def test_a_race_that_cannot_be_read_is_still_one():
    said = gpu_races.complaint("RACE DETECTED in other words")
    assert "nothing orders the two accesses" in said.what and said.next


def test_the_simulator_is_left_as_it_was():
    assert jax.jit(lambda x: x + 1)(1) == 2
    verdicts(next(bug for bug in BUGS if bug.caught_by == "numbers"))
    assert judges.judge_gpu(RIGHT["in_by_tma"].fn, lambda x: 2 * x, V)[0].passed
