"""The time of an iteration when its copies start later, or when there are more of them."""

import numpy as np

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several
from course_lib.roofline import pipeline

COPY, WORK, LONG_WORK = 1275, 300, 1500  # cycles, predicted (compiler); a test verifies them


def turn(work: float, buffers: int) -> float:
    """Return the cycles of a steady-state iteration that starts its copies before it waits."""

    def whole(turns: int) -> float:
        same = np.ones(turns)
        nothing = 1e-15 * same  # seconds of transfer: the time is in the latency; 0 would mean no copy
        return pipeline.seconds(work * same, nothing, 0 * same, 0 * same, read_s=COPY, write_s=0.0, buffers=buffers)

    return (whole(1200) - whole(600)) / 600


def asked_for_behind_the_wait(ahead: int) -> float:
    """Simulate iterations that wait first and then start the copy ``ahead`` iterations on; return the cycles of one."""
    clock, arrives, ends = 0.0, [COPY] * ahead, []
    for number in range(1200):
        waited = max(clock, arrives[number])
        arrives.append(waited + COPY)
        clock = waited + WORK
        ends.append(clock)
    return (ends[-1] - ends[599]) / 600


def _cycles(value: float, why: str, proof, near: dict[float, str]) -> Predict:
    return Predict(value=value, unit="cycles", tolerance=0.02, near=near, why=why, proof=proof)


ITS_ROUND = "A buffer is worked on before it is filled again: its work is part of its round."
PARTS = {
    "A": _cycles(
        787.5,
        "two under way: half of 1275 + 300.",
        lambda: turn(WORK, 2),
        {
            1575: "That would be with one copy under way. How many are there when it waits?",
            1275: "That would be if only one copy were under way while it works. The next is asked for before the "
            "wait.",
            637.5: ITS_ROUND,
            937.5: "Half a copy and all of the work: but the work is part of the round that two turns share.",
            975: "That is a copy less the work of one turn. Follow one buffer round: how long, and how many turns?",
            300: "That is the work. Do two copies hide behind so little?",
        },
    ),
    "B": _cycles(
        1575,
        "a copy, then the work, one after the other.",
        lambda: turn(WORK, 1),
        {
            787.5: "That is A. What is on its way now while the core works?",
            1275: "That is the copy. The work comes after it, and the next copy after the work.",
            1875: "The work is counted twice. A turn has a copy and its work.",
            2850: "Two copies: but a turn starts only one, and the prologue is not a part of it.",
        },
    ),
    "C": _cycles(
        393.75,
        "four under way: a quarter of 1275 + 300.",
        lambda: turn(WORK, 4),
        {
            525: "That would be with three under way. Count the starts before the first wait.",
            425: "That would be with three under way while it works. Count the starts before the first wait.",
            318.75: ITS_ROUND,
            618.75: "A quarter of a copy and all of the work: but the work is part of the round that four turns share.",
            300: "The core is not yet busy all of the time: what is a quarter of a round?",
        },
    ),
    "D": _cycles(
        425,
        "three ahead, each begun as soon as a wait is over: a third of 1275.",
        lambda: asked_for_behind_the_wait(3),
        {
            393.75: "That is C. When the first wait comes, how many copies have been started?",
            318.75: "A quarter of a copy: but when the wait comes, only three of them are under way.",
            525: "So it would be if the copy began behind the work. It begins before it, right after the wait.",
            1275: "That would be with one copy ahead. There are three.",
            1575: "That is B. Here copies are under way while the core works: the one for chunk i + 3, say.",
            637.5: "That would be with two ahead. BUFFERS is 4: what does the prologue start?",
        },
    ),
    "E": _cycles(
        1500,
        "the work is longer than a copy: the core has no bubbles.",
        lambda: turn(LONG_WORK, 2),
        {
            1387.5: "That is less than the core is busy in a turn.",
            787.5: "That is A, and less than the core is busy in a turn.",
            750: "Two buffers let copies overlap. The core still works on one chunk after another.",
            2775: "Nothing overlaps there. The next copy is under way while this chunk is worked on.",
            2137.5: "Half a copy on top of the work: is it still waited for, if it was asked for a turn ago?",
            1800: "The 1500 are all that the core does in a turn: the 300 are among them.",
            1275: "The core is busy for longer than a copy takes.",
        },
    ),
}

EXERCISE = Exercise(
    id="05.6",
    title="Predict: break the overlap",
    kind="several",
    defines="turns",
    asks=Several(parts=PARTS, why="what counts is when a copy is asked for."),
    hints=(
        "Follow one buffer round: filled, waited for, worked on, filled again. How many turns go by meanwhile?",
        "A, C and E are the formula of the lesson. For B and D draw the time from one wait to the wait for the chunk "
        "that is asked for next.",
        "B: nothing is under way while the core works. D: the copy of chunk i + 3 begins at "
        "the end of wait i, and three turns later it is waited for.",
    ),
    points=2,
)
