"""Four kernels that are wrong, each in a different way: find the line, and the cause."""

import inspect
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
    """Whether any of the four judges refuses a case."""
    x = jax.random.normal(jax.random.key(0), (32, 128))
    return any(v.passed is False for v in judges.judge(function(case, source), _wanted(case), x, simulate=False))


def _wanted(case: str) -> Callable:
    blocks = {"A": lambda b: b.mean(axis=0)}.get(case, lambda b: b.sum(axis=0))
    return lambda x: blocks(x.reshape(-1, 8, 128))


def _line(case: str, others: dict[str, str], why: str) -> Choose:
    """Return the question for the line; ``others`` maps a piece of each other suspect line to its sentence."""
    right = f"line {number_of(FIXED[case][0], case)}"
    wrong = {f"line {number_of(text, case)}": sentence for text, sentence in others.items()}
    options = tuple(sorted((right, *wrong), key=lambda option: int(option.split()[1])))

    def proof() -> str:
        """Return the line that, once replaced, makes all judges pass."""
        return right if refused(case, LISTING) and not refused(case, mended(case)) else "none"

    return Choose(options=options, right=right, wrong=wrong, why=why, proof=proof, next=LOOK[case])


def _cause(right: str, wrong: dict[str, str], why: str, proof: Callable[[], str]) -> Choose:
    left = {cause: sentence for cause, sentence in ELSE.items() if cause != right} | wrong
    return Choose(options=CAUSES, right=right, wrong=left, why=why, proof=proof)


ELSE = {
    "count": "Which number of steps would be wrong, and what should it be?",
    "garbage": "Which place would be read before anything is written to it? Poison shows such a place.",
    "order": "Would another seed, or a second core, change what comes out?",
    "early": "Does this kernel start a copy by itself?",
    "block": "Write the maps out: which block comes at which step? Is it another than the one that is meant?",
}
LOOK = {
    "A": "add a pl.debug_print of done and of o_ref[0, 0] to a copy of it, and compare with pencil and paper.",
    "B": "look at the first column of what it returns, all eight rows.",
    "C": "ask the simulator in which order it ran, and on which core.",
    "D": "print slot and two_ref[0, 0, 0], two_ref[1, 0, 0] right before the sum; or ask with detect_races=True.",
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
    """Prove case C: it is right on one core, which runs the steps in order."""
    x = jnp.ones((32, 128))
    alone = judges.simulator_judge(cases.case_c, _wanted("C"), x).passed
    return "order" if alone and not judges.races_judge(cases.case_c, _wanted("C"), x).passed else "none"


def _counted() -> str:
    """Prove case A: it is right if there is only one step."""
    one, four = (jax.random.normal(jax.random.key(0), (rows, 128)) for rows in (8, 32))
    passes = [judges.numbers_judge(cases.case_a, _wanted("A"), x).passed for x in (one, four)]
    return "count" if passes == [True, False] else "none"


def _too_early() -> str:
    """Prove case D: it adds a chunk whose copy is still in flight, or none."""
    verdict = judges.simulator_judge(cases.case_d, _wanted("D"), jnp.ones((32, 128)))
    return "early" if "before the copy" in " ".join(str(verdict).split()) else str(verdict)


PARTS = {
    "A": (
        _line(
            "A",
            {
                "pl.program_id(0) == 0": "It begins at the first step, as it should.",
                "o_ref[...] +=": "That is how a mean is carried on, if done is what its name says. Is it?",
                "lambda i: (0, 0)": "One block of the output, which stays. That is meant.",
            },
            "done is 4 at every step.",
        ),
        _cause(
            "count",
            {"garbage": "Nothing in it is NaN."},
            "it divides by the steps there are, not by those that are done.",
            _counted,
        ),
    ),
    "B": (
        _line(
            "B",
            {
                "pl.program_id(0) == 0": "That is the first step. What happens in it?",
                "acc_ref[...] += x_ref[...]": "It adds. What was there before?",
                "o_ref[...] = acc_ref[...]": "It stores what is there, at the last step.",
            },
            "four of the eight rows are set.",
        ),
        _cause(
            "garbage",
            {"count": "Are all rows wrong? Which are?"},
            "half of the scratch is read before anybody wrote it.",
            _poisoned,
        ),
    ),
    "C": (
        _line(
            "C",
            {
                "pl.program_id(0) == 0": "Step 0 sets the sum to zero. When does step 0 run?",
                "o_ref[...] += x_ref[...]": "It adds a block to a sum that lies there, if the steps come in order.",
                "lambda i: (0, 0)": "All steps share this block. That is meant: who says they may run at once?",
            },
            "it promises that any order will do.",
        ),
        _cause(
            "order",
            {"garbage": "It is right on one core, in order: nothing is read before it is written there."},
            "the sum needs step 0 first, and one core.",
            _another_order,
        ),
    ),
    "D": (
        _line(
            "D",
            {
                "fetch(0, 0).start()": "The first chunk, into the first buffer, before the loop. Good.",
                "fetch(i, slot).wait()": "It waits for the chunk of this turn, in the buffer of this turn.",
                "fetch(i + 1, 1 - slot).start()": "The next chunk goes into the other buffer, before the sum. Good.",
            },
            "it adds the other buffer.",
        ),
        _cause(
            "early",
            {
                "garbage": "What is there, is there because of a copy. When has it arrived?",
                "block": "No index map is wrong: there is none that counts. Which buffer is read, and what is on "
                "its way into it?",
                "order": "There is one core, and a loop. What runs beside it?",
            },
            "the copy into that buffer is still under way.",
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
    asks=Several(parts=PARTS, why="a count, garbage, an order that nobody promised, a copy not waited for."),
    hints=(
        "A gives wrong numbers, B gives NaN in some rows, C is right here and wrong with other settings, D "
        "depends on when "
        "a copy arrives. Which tool is for which?",
        "A: debug_print of done. B: which rows are NaN, and who should have set them? C: simulated() with two "
        "cores. D: "
        "what is printed from the two buffers just before the sum? Or simulated(case_d, x, detect_races=True).",
        "A: compare num_programs with program_id. B: read the first step. C: read the compiler_params. D: which "
        "buffer has "
        "been waited for?",
    ),
    points=4,
)
