"""The published kernel to repair: block K too, and choose blocks with which b is read less often."""

import jax.numpy as jnp

from course_lib import chips, compiler, cost, grid, judges, text, vocabulary
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.lessons.lesson_09.guide import SIZE, SQUARE

MOST_S = 8e-3


def _powers_of_two() -> list[tuple]:
    """Return sizes that blocks divide. The last K is longer than any block that fits the matmul of 8192."""
    sizes = ({"M": 128, "K": 256, "N": 128}, {"M": 256, "K": 128, "N": 128}, {"M": 128, "K": 1024, "N": 128})
    return arguments(("a: f32[M,K]", "b: f32[K,N]"), sizes)


def _for_the_guides_size(mended):
    """Demand that the matmul of 8192 fits, moves few enough bytes, and is predicted to be fast enough."""
    chip = chips.chip("v5e")
    walk = grid.walk(mended, SQUARE, SQUARE)
    needs, moved = cost.vmem_bytes(walk), cost.hbm_bytes(walk)
    if needs > chip.scoped_vmem_bytes:
        asks = " Asking for more is not allowed here." if _asks_for_more(walk) else ""
        return (
            f"For 8192 x 8192 its blocks take {text.size(needs)} of VMEM, but a kernel gets "
            f"{text.size(chip.scoped_vmem_bytes)}.{asks}",
            "halve bk, which needs less VMEM and changes no traffic."
            if all(operand.block_shape[-1] < SIZE for operand in walk.calls[0].operands)
            else "cut K into blocks as well, so that a block of a has bm x bk elements instead of bm x 8192.",
        )
    if _asks_for_more(walk):
        return (
            "It sets vmem_limit_bytes, but its blocks fit without it, and asking for more is not allowed here.",
            "leave vmem_limit_bytes out.",
        )
    if (bytes_s := moved / chip.hbm_bandwidth) > MOST_S:
        return (
            f"For 8192 x 8192 it moves {moved / 1e9:.1f} GB, which take {text.duration(bytes_s)} at full bandwidth, "
            f"but only {text.duration(MOST_S)} are allowed.",
            "b is read once for each row of blocks, and a once for each column of blocks. Which block sizes make both "
            "counts small?",
        )
    try:
        report = compiler.compile_tpu(mended, SQUARE, SQUARE)
    except compiler.Unavailable:
        return None
    if not report.ok:
        return (
            f"For 8192 x 8192 the compiler refuses it: {report.error.what}",
            "take smaller blocks, and look at VMEM first.",
        )
    if report.seconds is not None and report.seconds > MOST_S:
        return (
            f"For 8192 x 8192 it takes {text.duration(report.seconds)}, {vocabulary.COMPILER}; "
            f"only {text.duration(MOST_S)} are allowed. Its bytes need only {text.duration(bytes_s)}.",
            "take fewer and longer steps. How many steps does your grid have, and how long is bk?",
        )
    peak_s = 2 * SIZE**3 / chip.bf16_flops
    if report.seconds is not None and report.seconds < peak_s:
        return (
            f"For 8192 x 8192 it takes {text.duration(report.seconds)}, {vocabulary.COMPILER}. The arithmetic alone "
            f"takes {text.duration(peak_s)} at the chip's peak.",
            "make sure that the kernel does all of the work at every size.",
        )
    return None


def _asks_for_more(walk: grid.Walk) -> bool:
    """Whether a kernel sets a VMEM limit of its own."""
    calls = grid.pallas_calls(walk.jaxpr.jaxpr)
    return any(getattr(call.params["compiler_params"], "vmem_limit_bytes", None) for call in calls)


def _product(a, b):
    return jnp.dot(a, b, preferred_element_type=jnp.float32)


def _relu_at_each_step(bk):
    def value(a, b):
        total = jnp.zeros((a.shape[0], b.shape[1]), jnp.float32)
        for k in range(0, a.shape[1], bk):
            total = jnp.maximum(total + _product(a[:, k : k + bk], b[k : k + bk]), 0)
        return total

    return judges.Slip(
        means="the ReLU is applied at every step along K, but it must be applied to the finished sum",
        value=value,
        next="apply it once, when the sum is finished: under pl.when, in the last step along K.",
    )


EXERCISE = Exercise(
    id="09.4",
    title="The 35 ms mystery, mended",
    kind="repair",
    defines="mended",
    cases=_powers_of_two,
    reference=lambda a, b: jnp.maximum(_product(a, b), 0),
    slips=(
        judges.Slip(
            means="no ReLU is applied",
            value=_product,
            next="apply jnp.maximum(o_ref[...], 0) when the sum is finished, in the last step along K.",
        ),
        *(_relu_at_each_step(bk) for bk in (128, 256, 512)),  # block sizes along K that learners choose for the cases
    ),
    also=(_for_the_guides_size,),
    hints=(
        "Two things are wrong, and one causes the other: the blocks are too small, and as long as they hold whole rows "
        "of 8192, larger ones do not fit.",
        "Give the grid three axes, K last, as in lesson 7. Then bm and bn can grow, and with both at 1024 each matrix "
        "is read 8 times. Count the VMEM: two buffers each of (bm, bk), (bk, bn) and (bm, bn), four bytes an element.",
        "bm = bn = 1024 and bk = 256 take 12 MiB if you accumulate in o_ref. Set it to zero when k is 0, add at each "
        "step, and apply jnp.maximum(o_ref[...], 0) under pl.when in the last step along K.",
    ),
    points=3,
)
