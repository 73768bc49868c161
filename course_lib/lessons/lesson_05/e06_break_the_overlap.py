"""The time of an iteration when its copies start later, or when more of them are in flight."""

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
        nothing = 1e-15 * same  # seconds of transfer, because the latency is all of a copy; 0 would mean no copy
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


ITS_ROUND = "The core works on a buffer before it is filled again, so the work is part of its round."
PARTS = {
    "A": _cycles(
        787.5,
        "two copies are in flight, so it is half of 1275 + 300.",
        lambda: turn(WORK, 2),
        {
            1575: "That would be right with one copy in flight. How many are in flight when it waits?",
            1275: "That would be right if the next copy started after the wait. It starts before the wait.",
            637.5: ITS_ROUND,
            937.5: "That is half a copy plus the work, but the work is part of the round that two iterations share.",
            975: "That is a copy minus the work of one iteration. How long is the round of a buffer, and how many "
            "iterations does it take?",
            300: "That is the work alone. Can so little work hide a copy?",
        },
    ),
    "B": _cycles(
        1575,
        "nothing overlaps, so it is a copy and then the work.",
        lambda: turn(WORK, 1),
        {
            787.5: "That is the answer to A. Which copies are in flight now while the core works?",
            1275: "That is the copy alone. The work comes after it, and the next copy comes after the work.",
            1875: "That counts the work twice. An iteration has one copy and its work.",
            2850: "That counts two copies, but an iteration starts only one, and the prologue is not part of it.",
        },
    ),
    "C": _cycles(
        393.75,
        "four copies are in flight, so it is a quarter of 1275 + 300.",
        lambda: turn(WORK, 4),
        {
            525: "That would be right with three copies in flight. Count the starts before the first wait.",
            425: "That would be right if the next copy started after the wait. Here it starts before the wait.",
            318.75: ITS_ROUND,
            618.75: "That is a quarter of a copy plus the work, but the work is part of the round that four share.",
            300: "The core is not yet busy all the time. What is a quarter of a round?",
        },
    ),
    "D": _cycles(
        425,
        "three copies are in flight, each started as soon as a wait is over, so it is a third of 1275.",
        lambda: asked_for_behind_the_wait(3),
        {
            393.75: "That is the answer to C. How many copies have been started when the first wait comes?",
            318.75: "That is a quarter of a copy, but only three copies are in flight when the wait comes.",
            525: "That would be right if the copy started after the work. It starts before it, right after the wait.",
            1275: "That would be right with one copy ahead, but there are three.",
            1575: "That is the answer to B. Which copies, such as that of chunk i + 3, are in flight during the work?",
            637.5: "That would be right with two copies ahead. How many does the prologue start when BUFFERS is 4?",
        },
    ),
    "E": _cycles(
        1500,
        "the work takes longer than a copy, so the core has no bubbles.",
        lambda: turn(LONG_WORK, 2),
        {
            1387.5: "That is less than the core is busy in an iteration.",
            787.5: "That is the answer to A, and less than the core is busy in an iteration.",
            750: "Two buffers let copies overlap, but the core still works on one chunk after another.",
            2775: "That would be right if nothing overlapped, but the next copy is in flight while the core works.",
            2137.5: "That adds half a copy to the work. Is a copy that started an iteration ago still waited for?",
            1800: "That adds the old work to the new, which already includes it.",
            1275: "That is the time of a copy, but the core is busy for longer.",
        },
    ),
}

EXERCISE = Exercise(
    id="05.6",
    title="Predict: break the overlap",
    kind="several",
    defines="turns",
    asks=Several(parts=PARTS, why="what counts is when a copy is started."),
    hints=(
        "Follow one buffer through its round: it is filled, waited for, worked on, and filled again. How many "
        "iterations does a round take?",
        "A, C and E follow from the formula of the lesson. For B and D, draw the time from one wait to the wait for "
        "the chunk whose copy is started next.",
        "B: nothing is in flight while the core works. D: the copy of chunk i + 3 starts at the end of wait i, and is "
        "waited for three iterations later.",
    ),
    points=2,
)
