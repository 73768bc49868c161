"""The judge, if any, that refuses a kernel which revisits its output block."""

import jax
from jax.experimental import pallas as pl

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.choose import Choose

TOTAL = """\
def total_kernel(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def start():
        o_ref[...] = x_ref[...]

    @pl.when(pl.program_id(0) > 0)
    def add():
        o_ref[...] += x_ref[...]


def total(x):
    return pl.pallas_call(
        total_kernel,
        out_shape=jax.ShapeDtypeStruct((1024,), x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec((1024,), lambda i: (i,))],
        out_specs=pl.BlockSpec((1024,), lambda i: (0,)),
    )(x)
"""


def _who_refuses_total() -> str:
    """Return the first judge that refuses TOTAL, or "none"."""
    names = {"jax": jax, "pl": pl}
    exec(TOTAL, names)
    (x,) = arguments(("x: f32[N]",), ({"N": 4096},))[0]
    verdicts = judges.judge(names["total"], lambda x: x.reshape(4, 1024).sum(axis=0), x, simulate=False)
    return next((said.judge for said in verdicts if said.passed is False), "none")


EXERCISE = Exercise(
    id="01.8",
    title="Choose: who refuses it?",
    kind="choose",
    defines="judge",
    listing=TOTAL,
    asks=Choose(
        options=(*judges.JUDGES, "none"),
        right="none",
        wrong={
            "numbers": "Step 0 writes the first block of x, and each later step adds another, so all four are added.",
            "simulator": "The simulator refuses a kernel that leaves an output block and comes back to it. Read the "
            "index map of the output at steps 0, 1, 2 and 3. Is the block ever left?",
            "races": "Races runs two cores on an axis that a kernel declares parallel. Does this kernel declare one?",
            "compiler": "A block of 1024 is a multiple of 1024, so it is legal, and four such blocks take only 16 KiB.",
        },
        why="the output's index never changes, so its block stays in VMEM.",
        proof=_who_refuses_total,
    ),
    hints=(
        "Compare it with `fold` in the lesson. The difference that matters is in one index map.",
        "Write down the output's block at steps 0, 1, 2 and 3. When does a block go back to HBM?",
        "A block whose index stays the same stays in VMEM. Is there a step at which this block has left it?",
    ),
    points=1,
)
