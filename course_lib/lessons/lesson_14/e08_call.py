"""The arguments of a server's call, for a batch with a prompt in it."""

import numpy as np

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_14.pages import PAGE

# Tokens in the cache before the step, and tokens of the step.
BATCH = ((0, 50), (200, 1), (207, 1))


def _kv_lens() -> list[int]:
    return [before + new for before, new in BATCH]


def _cu_q_lens() -> list[int]:
    return [0, *np.cumsum([new for _, new in BATCH]).tolist()]


PARTS = {
    "A": Predict(
        value=52,
        unit="",
        tolerance=0,
        near={
            3: "A prompt has a query for each of its tokens.",
            459: "The tokens in the cache ask nothing any more. Who asks in this step?",
            50: "Those are the prompt's. The other two sequences have a query each.",
            51: "There are two sequences with one query each, beside the prompt.",
            53: "Count the sequences that write one token: two.",
            64: "That is the room in the last page, too. Only tokens have a row.",
            8: "That is the room for sequences. How many tokens ask in this step?",
        },
        why="50 of the prompt, and one each of the others.",
        proof=lambda: _cu_q_lens()[-1],
    ),
    "B": Predict(
        value=201,
        unit="",
        tolerance=0,
        near={
            200: "The step's own token is in its page already, and it attends to itself.",
            1: "That is how many queries it has. How many keys do they see?",
            251: "Lengths are not added up from sequence to sequence.",
        },
        why="200 tokens in the cache, and the new one.",
        proof=lambda: _kv_lens()[1],
    ),
    "C": Predict(
        value=51,
        unit="",
        tolerance=0,
        near={
            1: "That is the number of its queries. cu_q_lens says where they begin.",
            50: "That is where the rows of sequence 1 begin. Sequence 2 comes after them.",
            52: "That is where they end. cu_q_lens[2] is the first row of sequence 2.",
        },
        why="sequence 2 begins after 50 and 1 rows.",
        proof=lambda: _cu_q_lens()[2],
    ),
    "D": Predict(
        value=13,
        unit="",
        tolerance=0,
        near={
            12: "The last page is not full, and it has tokens. And is the new one among them?",
            14: "With the new token the sequence fills its last page, and needs no other.",
            207: "Those are tokens. How many pages are they?",
            208: "Those are tokens. How many pages are they?",
        },
        why="208 tokens fill thirteen pages.",
        proof=lambda: -(-_kv_lens()[2] // PAGE),
        stands_above="as the number of a lesson",
    ),
}

EXERCISE = Exercise(
    id="14.8",
    title="The call of a server",
    kind="several",
    defines="call",
    asks=Several(parts=PARTS, why="a prompt and single tokens differ in how many rows of q they have."),
    hints=(
        "Write down for each sequence how many tokens ask in this step, and how many they may see.",
        "cu_q_lens begins with 0 and adds up the first numbers; kv_lens holds the second ones, with the step's own "
        "tokens among them.",
        "The rows of q are 50, 1 and 1, so cu_q_lens is 0, 50, 51, 52. kv_lens is 50, 201, 208.",
    ),
    points=2,
)
