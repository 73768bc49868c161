"""Four kernels that are wrong in different ways: find the line and the cause of each."""

import inspect
import itertools
import linecache
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_11 import cases

LISTING = inspect.getsource(cases).partition("\n\n\n")[2]
CAUSES = ("count", "garbage", "order", "early", "block")
FIXED = {  # the wrong line of each case -> the corrected one
    "A": ("done = pl.num_programs(0) * jnp.float32(1)", "done = (pl.program_id(0) + 1) * jnp.float32(1)"),
    "B": ("acc_ref[:4, :] = jnp.zeros((4, 128), x.dtype)", "acc_ref[...] = jnp.zeros_like(acc_ref)"),
    "C": ('dimension_semantics=("parallel",)', 'dimension_semantics=("arbitrary",)'),
    "D": ("o_ref[...] += two_ref[1 - slot]", "o_ref[...] += two_ref[slot]"),
}


def number_of(text: str, case: str) -> int:
    """Return the listing's line number of the first line with ``text`` after the head of a case."""
    lines = LISTING.splitlines()
    head = lines.index(f"def case_{case.lower()}(x):")
    return next(n for n, line in enumerate(lines[head:], head + 1) if text in line)


def mended(case: str) -> str:
    """Return the listing with the wrong line of one case replaced."""
    wrong, right = FIXED[case]
    lines = LISTING.splitlines()
    place = number_of(wrong, case) - 1
    lines[place] = lines[place].replace(wrong, right)
    return "\n".join(lines) + "\n"


def function(case: str, source: str) -> Callable:
    """Return the function of a case, compiled from a listing."""
    name = f"<case {case} {len(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = {"jax": jax, "jnp": jnp, "pl": pl, "pltpu": pltpu}
    exec(compile(source, name, "exec"), names)
    return names[f"case_{case.lower()}"]


def refused(case: str, source: str) -> bool:
    """Return whether any of the four judges refuses a case."""
    x = jax.random.normal(jax.random.key(0), (32, 128))
    return any(v.passed is False for v in judges.judge(function(case, source), _wanted(case), x, simulate=False))


def _wanted(case: str) -> Callable:
    blocks = {"A": lambda b: b.mean(axis=0)}.get(case, lambda b: b.sum(axis=0))
    return lambda x: blocks(x.reshape(-1, 8, 128))


def _line(case: str, others: dict[str, str], why: str) -> Choose:
    """Return the question for the line; ``others`` maps a piece of each other suspect line to its sentence."""
    right = f"line {number_of(FIXED[case][0], case)}"
    wrong = {f"line {number}": _as_it_should(line) for number, line in _lines_of(case)}
    wrong |= {f"line {number_of(text, case)}": sentence for text, sentence in others.items()}
    del wrong[right]
    options = tuple(sorted((right, *wrong), key=lambda option: int(option.split()[1])))

    def proof() -> str:
        """Return the right line if all judges pass once it is replaced; "none" otherwise."""
        return right if refused(case, LISTING) and not refused(case, mended(case)) else "none"

    return Choose(options=options, right=right, wrong=wrong, why=why, proof=proof, next=LOOK[case])


def _lines_of(case: str) -> list[tuple[int, str]]:
    """Return the (number, text) of each line of a case that contains code."""
    first = number_of(f"def case_{case.lower()}", case)
    body = itertools.takewhile(lambda at: at[0] == first or not at[1].startswith("def "), _numbered(first))
    return [(number, line) for number, line in body if line.strip()]


def _numbered(first: int) -> list[tuple[int, str]]:
    return list(enumerate(LISTING.splitlines(), 1))[first - 1 :]


def _as_it_should(line: str) -> str:
    """Say what a line that is not to blame does."""
    return next((sentence for piece, sentence in RIGHT_LINES.items() if piece in line), "This line needs no repair.")


def _cause(right: str, wrong: dict[str, str], why: str, proof: Callable[[], str]) -> Choose:
    left = {cause: sentence for cause, sentence in ELSE.items() if cause != right} | wrong
    return Choose(options=CAUSES, right=right, wrong=left, why=why, proof=proof)


ELSE = {
    "count": "Which number of steps is wrong, and what should it be?",
    "garbage": "Which element would be read before anything is written to it? Poison exposes such an element.",
    "order": "Would another seed or a second core change the result?",
    "early": "Does this kernel start a copy itself?",
    "block": "Write out which block the index maps name at each step. Is any of them not the one that is needed?",
}
RIGHT_LINES = {  # a piece of a line that is not to blame -> what it does
    "zeros_like": "This line sets the whole block to zero, as it should.",
    "num_programs(0) - 1": "This is the last step, which stores the sum, as it should.",
    "grid=": "There is one step for each block of 8 rows, as intended.",
    "in_specs=[pl.BlockSpec((8": "Step i reads block i of x, as it should.",
    "out_specs": "The output is one block, which stays in VMEM for all steps, as intended.",
    "out_shape": "The result has the shape of one block, as intended.",
    "pltpu.VMEM": "The scratch buffer has the shape and the dtype that it needs.",
    "SemaphoreType": "Each of the two buffers has a semaphore of its own, as it should.",
    "slot = ": "The buffers take turns: slot is 0, 1, 0, 1, as intended.",
    "pl.loop": "The loop runs once for each chunk, as it should.",
    "i + 1 < chunks": "Every chunk but the last has a next one, so this condition is right.",
    "chunk = ": "Chunk i consists of rows 8 i to 8 i + 7, so this slice is right.",
    "make_async_copy": "This copy takes a chunk to the buffer that slot names, as it should.",
    "memory_space=pl.ANY": "x stays in HBM, because the kernel copies it by hand.",
}
LOOK = {
    "A": "add a pl.debug_print of done and o_ref[0, 0] to a copy of the kernel, and check each line by hand.",
    "B": "look at the first column of the result, in all eight rows.",
    "C": "ask the simulator in which order the steps ran, and on which core.",
    "D": "print slot, two_ref[0, 0, 0] and two_ref[1, 0, 0] right before the addition, or run with detect_races=True.",
}


def _poisoned() -> str:
    """Prove case B: the result depends on the initial contents of memory."""
    x = jnp.ones((16, 128))
    both = []
    for memory in ("zero", "nan"):
        with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(uninitialized_memory=memory)):
            both.append(jax.block_until_ready(cases.case_b(x)))
        pltpu.reset_tpu_interpret_mode_state()
    return "garbage" if not jnp.isnan(both[0]).any() and jnp.isnan(both[1]).any() else "none"


def _another_order() -> str:
    """Prove case C: it is right on one core, which runs the steps in order, and wrong on two."""
    x = jnp.ones((32, 128))
    alone = judges.simulator_judge(cases.case_c, _wanted("C"), x).passed
    return "order" if alone and not judges.races_judge(cases.case_c, _wanted("C"), x).passed else "none"


def _counted() -> str:
    """Prove case A: it is right with one step and wrong with four."""
    one, four = (jax.random.normal(jax.random.key(0), (rows, 128)) for rows in (8, 32))
    passes = [judges.numbers_judge(cases.case_a, _wanted("A"), x).passed for x in (one, four)]
    return "count" if passes == [True, False] else "none"


def _too_early() -> str:
    """Prove case D: the simulator finds a read before the copy has arrived."""
    verdict = judges.simulator_judge(cases.case_d, _wanted("D"), jnp.ones((32, 128)))
    return "early" if "before it has waited for the copy" in " ".join(str(verdict).split()) else str(verdict)


PARTS = {
    "A": (
        _line(
            "A",
            {
                "pl.program_id(0) == 0": "The kernel initializes o_ref in the first step, as it should.",
                "o_ref[...] +=": "This is how a running mean is updated, if done is what its name says. Is it?",
                "lambda i: (0, 0)": "The output is one block, which stays in VMEM for all steps. That is intended.",
            },
            "done is 4 in every step.",
        ),
        _cause(
            "count",
            {"garbage": "Nothing in its result is NaN, although the simulator fills memory with NaN."},
            "it divides by the number of all steps, not of those that are done.",
            _counted,
        ),
    ),
    "B": (
        _line(
            "B",
            {
                "pl.program_id(0) == 0": "This is the first step. What does the kernel do in it?",
                "acc_ref[...] += x_ref[...]": "This line adds to acc_ref. What was there before?",
                "o_ref[...] = acc_ref[...]": "This line stores acc_ref in the last step. Was it right until then?",
            },
            "it sets only four of the eight rows.",
        ),
        _cause(
            "garbage",
            {"count": "Are all rows of the result wrong? If not, which ones are?"},
            "half of the scratch is read before anything is written there.",
            _poisoned,
        ),
    ),
    "C": (
        _line(
            "C",
            {
                "pl.program_id(0) == 0": "Step 0 sets the sum to zero. When does step 0 run?",
                "o_ref[...] += x_ref[...]": "It adds a block to the sum, which is right if the steps come in order.",
                "lambda i: (0, 0)": "All steps share this output block, as intended. Which line lets them run at once?",
            },
            "it promises that the steps may run in any order.",
        ),
        _cause(
            "order",
            {"garbage": "One core, step by step, gives the right sum, so nothing is read before it is written."},
            "the sum needs step 0 first, and all steps on one core.",
            _another_order,
        ),
    ),
    "D": (
        _line(
            "D",
            {
                "fetch(0, 0).start()": "This copies the first chunk into the first buffer, as it should.",
                "fetch(i, slot).wait()": "This waits for the chunk of this iteration, in the buffer of this iteration.",
                "fetch(i + 1, 1 - slot).start()": "This copies the next chunk into the other buffer, as it should.",
            },
            "it adds the buffer whose copy is in flight.",
        ),
        _cause(
            "early",
            {
                "garbage": "Everything in the buffers comes from a copy. When has that copy arrived?",
                "block": "No index map is wrong, because the kernel copies by hand. Which buffer does it read, and "
                "what is being copied into it?",
                "order": "There is one core and one loop. What runs beside them?",
            },
            "the copy into that buffer is still in flight.",
            _too_early,
        ),
    ),
}

EXERCISE = Exercise(
    id="11.1",
    title="Detective: four cases",
    kind="several",
    defines="found",
    listing=LISTING,
    asks=Several(parts=PARTS, why="a wrong count, garbage, an order that nobody promised, and a copy in flight."),
    hints=(
        "A returns wrong values, B returns NaN in some rows, C is right here and wrong with other settings, and D "
        "depends on when a copy arrives. Which tool fits which case?",
        "A: print done with pl.debug_print. B: which rows are NaN, and which line should have set them? C: run "
        "simulated(case_c, x, num_cores_or_threads=2). D: print both buffers just before the addition, or run "
        "simulated(case_d, x, detect_races=True).",
        "A: compare num_programs with program_id. B: read what the first step does. C: read the compiler_params. D: "
        "which of the two buffers has the loop waited for?",
    ),
    points=4,
)
