"""The arguments of a server's call, for a batch that includes a prompt."""

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
            459: "You count the tokens in the cache, too, but only tokens of this step have a query.",
            457: "You count the tokens in the cache, too, but only tokens of this step have a query.",
            407: "Those are the tokens in the cache, but only tokens of this step have a query.",
            54: "Each of the two sequences has one query, and the prompt has 50.",
            50: "Those rows are the prompt's, and the other two sequences have a query each.",
            51: "Besides the prompt, there are two sequences with one query each.",
            53: "Besides the prompt, only two sequences have a query.",
            64: "You count the free room in a page, too, but only tokens have a row of q.",
            8: "That is the room for sequences, but how many tokens have a query?",
        },
        why="the prompt has 50 rows, and each of the others has one.",
        proof=lambda: _cu_q_lens()[-1],
    ),
    "B": Predict(
        value=201,
        unit="",
        tolerance=0,
        near={
            200: "The step's own token is in its page already, and it attends to itself.",
            1: "That is the number of its queries, but how many keys does its query see?",
            202: "The sequence had 200 tokens, and this step writes one of them only.",
            208: "That is kv_lens[2]: sequences are counted from 0.",
            50: "That is kv_lens[0]: sequences are counted from 0.",
            13: "That is a number of pages, but kv_lens counts tokens.",
            251: "kv_lens holds the length of each sequence, without those of the sequences before it.",
        },
        why="it has 200 tokens in the cache, and the new one.",
        proof=lambda: _kv_lens()[1],
    ),
    "C": Predict(
        value=51,
        unit="",
        tolerance=0,
        near={
            1: "That is the number of its queries, whereas cu_q_lens says where they begin.",
            50: "The rows of sequence 1 begin there, and those of sequence 2 come after them.",
            2: "That is the sequence's own number. How many rows of q come before its row?",
            251: "You add up the tokens in the pages, but cu_q_lens adds up the tokens that have a query.",
            250: "You add up the tokens in the cache, but cu_q_lens adds up the tokens that have a query.",
            52: "Its rows end there, but cu_q_lens[2] is the first row of sequence 2.",
        },
        why="the two sequences before it have 50 rows and 1 row.",
        proof=lambda: _cu_q_lens()[2],
    ),
    "D": Predict(
        value=13,
        unit="",
        tolerance=0,
        near={
            12: "A last page that is not full counts, too, and so does the new token.",
            14: "With the new token the sequence fills its last page, and needs no other.",
            12.9375: "A page that is begun counts as one. And is the new token among its tokens?",
            16: "That is how many tokens a page holds. How many pages do the tokens take?",
            30: "Those are the pages of all three sequences, but the row of sequence 2 lists only its own.",
            1: "The new token needs its page, but the kernel also reads all pages before it.",
            207: "That is a number of tokens, so how many pages do they take?",
            208: "That is a number of tokens, so how many pages do they take?",
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
    asks=Several(parts=PARTS, why="a prompt has a row of q for each of its tokens, and a single token has one."),
    hints=(
        "Write down for each sequence how many of its tokens have a query in this step, and how many tokens it has "
        "then.",
        "cu_q_lens begins with 0 and adds up the first numbers. kv_lens holds the second ones, which include the "
        "step's own tokens.",
        "The sequences have 50, 1 and 1 rows of q, so cu_q_lens is 0, 50, 51, 52, and kv_lens is 50, 201, 208.",
    ),
    points=2,
)
