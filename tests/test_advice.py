"""Advice that is taken: a wrong answer gets a verdict, somebody does what its "Next" says, and every judge passes it.

Three exercises then ask for fewer cycles. Where the advice leaves open how, the change is the smallest one.
"""

import re
from typing import NamedTuple

import pytest
from conftest import needs_libtpu
from lesson_files import LESSONS, mutants
from sweeps import daily
from test_mutants import a_notebook_s_settings, verdict  # noqa: F401  pytest takes the settings by their name


class Taken(NamedTuple):
    """A mutant of an exercise, a pattern that its verdict advises, and what somebody who follows it makes of what."""

    id: str
    mutant: str
    advice: str
    edits: dict[str, str]
    asks_more: bool = False  # of this answer the exercise goes on to ask for something else: fewer cycles


IN_THE_LAST_STEP = """    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def store():
        o_ref[...] ="""
FIRST_ALONE = """        @pl.when(pl.program_id(0) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        hidden ="""
COLUMN = "jax.lax.broadcasted_iota(jnp.int32, {}.shape, {})"
TAKEN = [
    Taken("01.1", "adds to what is in the output", r"with =, not with \+=", {"+=": "="}),
    Taken("01.1", "adds the refs, not what they hold", "read it first", {"x_ref + y_ref": "x_ref[...] + y_ref[...]"}),
    Taken("01.2", "does not call what pallas_call returns", "call it with the arrays", {"dtype))": "dtype))(x, y)"}),
    Taken(
        "01.3",
        "takes no name",
        r"take \*\*kwargs in __init__ and pass them on",
        {"__init__(self)": "__init__(self, **kwargs)", "super().__init__()": "super().__init__(**kwargs)"},
    ),
    Taken(
        "01.3",
        "call takes two arrays",
        r"write call\(self, inputs\)",
        {"call(self, x, y):\n": "call(self, inputs):\n        x, y = inputs\n"},
    ),
    Taken(
        "01.4", "leaves out the last block", r"pl.cdiv\(4096, 1024\) = 4 steps", {"n // 1024 - 1": "pl.cdiv(n, 1024)"}
    ),
    Taken("01.5", "doubles both", "double x alone, and then add y", {"(x_ref[...] + y_ref": "x_ref[...] + (y_ref"}),
    Taken(
        "01.10",
        "rounds the number of blocks down",
        r"pl.cdiv\(2500, 1024\)",
        {"x.size // 1024": "pl.cdiv(x.size, 1024)"},
    ),
    Taken("02.8", "divides by 256 whatever the width", r"x_ref.shape\[axis\]", {"256": "x_ref.shape[1]"}),
    Taken("02.8", "the mean in bfloat16", "accumulate in float32", {".astype(jnp.bfloat16)": ""}),
    Taken("02.10", "uses the approximate reciprocal", "remove approx=True", {", approx=True": ""}, asks_more=True),
    Taken(
        "03.9",
        "takes all in one block",
        r"a limit: min\(m, ...\)",
        {"return m, k, n": "return min(m, 512), min(k, 512), min(n, 512)"},
    ),
    Taken(
        "03.11",
        "sums where it should take the mean",
        "divide by the number of its terms",
        {"keepdims=True)": "keepdims=True) / x.shape[1]"},
    ),
    Taken(
        "03.12", "never sets the sum to zero", "initialize o_ref at the first step", {"        hidden =": FIRST_ALONE}
    ),
    Taken("04.1", "stops before the last block", r"pl.cdiv\(64, 8\) = 8 steps", {"max(last, 1)": "pl.cdiv(rows, 8)"}),
    Taken(
        "04.1", "returns element numbers", "block indices, counted from 0", {"rows - 8 - 8 * i": "rows // 8 - 1 - i"}
    ),
    Taken("04.2", "takes the row by the output's rows", "did you mean j", {"(0, i)": "(0, j)"}),
    Taken("04.6", "turns the axes round", "did you mean i", {"(k, j, i)": "(i, j, k)"}),
    Taken("04.7", "shares the reduction between cores", 'mark axis 1 "arbitrary"', {'"parallel")': '"arbitrary")'}),
    Taken(
        "04.8",
        "no mask",
        r"jnp.where\(index < 300, x, 0\)",
        {
            "x_ref[...],": f"jnp.where(pl.program_id(1) * 128 + {COLUMN.format('x_ref', 1)} < columns, x_ref[...], 0),",
        },
    ),
    Taken(
        "04.11",
        "masks x alone",
        "w_ref",
        {
            ", w_ref[...]\n": ", w_ref[...]\n"
            f"        w = jnp.where({COLUMN.format('w_ref', 0)} < k - 128 * pl.program_id(2), w, 0)\n"
        },
    ),
    Taken("05.1", "doubles", "multiply the block by itself", {"2 * buffer_ref": "buffer_ref[...] * buffer_ref"}),
    Taken(
        "05.1",
        "does not wait for what goes out",
        "wait for every copy",
        {".at[1]).start()": ".at[1]).start()\n    pltpu.make_async_copy(buffer_ref, o_hbm, sem.at[1]).wait()"},
    ),
    Taken(
        "05.2",
        "waits for the next one",
        r"call .wait\(\) on the copy before you read in_ref",
        {
            "            fetch(i + 1).wait()\n": "",
            "        o_ref[...] += in_ref": "        fetch(i).wait()\n        o_ref[...] += in_ref",
        },
    ),
    Taken("05.10", "one semaphore for all copies out", "sem.at.i.", {"out_sem.at[0]": "out_sem.at[b]"}),
    Taken("06.4", "reshapes without the transpose", "transpose first, x.T", {"x.reshape(16": "x.T.reshape(16"}),
    Taken("06.4", "squares the sum", "square before you sum", {"jnp.sum(v, axis=0) ** 2": "jnp.sum(v**2, axis=0)"}),
    Taken(
        "06.5",
        "leaves the sums to one pass of the MXU",
        'precision="highest"',
        {"v, along)": 'v, along, precision="highest")'},
        asks_more=True,
    ),
    Taken(
        "06.6",
        "base and exponent exchanged",
        r"exp2\(p \* log2\(a\)\)",
        {"a_ref[...] * jnp.log2(p_ref": "p_ref[...] * jnp.log2(a_ref"},
    ),
    Taken(
        "06.8",
        "takes the means by one pass of the MXU",
        'precision="highest"',
        {"v * v, mean)": 'v * v, mean, precision="highest")'},
        asks_more=True,
    ),
    Taken(
        "07.1",
        "x by the columns of the output",
        "did you mean k",
        {"lambda j, k: (0, j)),\n            pl.": "lambda j, k: (0, k)),\n            pl."},
    ),
    Taken("07.2", "stores at every step", "in the last step: under @pl.when", {"    o_ref[...] =": IN_THE_LAST_STEP}),
    Taken(
        "07.4",
        "rounds to bfloat16 on the way",
        "accumulate in float32",
        {"\n            .astype(jnp.bfloat16)\n            .astype(jnp.float32)": ""},
    ),
    Taken(
        "07.6",
        "K still first",
        "put the reduction axis last",
        {
            "program_id(0)": "program_id(2)",
            "num_programs(0)": "num_programs(2)",
            "(depth // 128, m // 32, n // 128)": "(m // 32, n // 128, depth // 128)",
            "lambda k, i, j:": "lambda i, j, k:",
        },
    ),
    Taken("07.7", "masks x alone", "y_ref", {"        y_ref[...],": "        inside(y_ref[...]),"}),
    Taken(
        "07.7",
        "masks y along its rows",
        "axis 1 of its block",
        {"jnp.int32, block.shape, 0": "jnp.int32, block.shape, 1"},
    ),
    Taken("08.2", "masks with 0", "which value is neutral", {"x_ref[...], 0)": "x_ref[...], -jnp.inf)"}),
    Taken(
        "08.2",
        "masks the exponentials, behind the maximum",
        "maximum",
        {"    x = x_ref[...]": "    x = jnp.where(column < columns, x_ref[...], -jnp.inf)"},
    ),
    Taken("08.6", "-1e30 in the tail", "with -jnp.inf", {"-1e30": "-jnp.inf"}),
    Taken("08.9", "v is not masked", "v_ref", {"v = v_ref[...]": "v = jnp.where(row < keys, v_ref[...], 0)"}),
    Taken(
        "08.9",
        "the sum does not shrink",
        "before you add to sum_ref",
        {"sum_ref[...] + jnp": "sum_ref[...] * shrink + jnp"},
    ),
    Taken(
        "08.9",
        "the weighted sum does not shrink",
        "before you add to acc_ref",
        {"acc_ref[...] + pro": "acc_ref[...] * shrink + pro"},
    ),
    Taken("09.2", "no scale", "multiply by scale", {"= product\n": "= product * scale_ref[...]\n"}),
    Taken(
        "09.2",
        "the scale before the product",
        "apply the scale after",
        {
            " * scale_ref[...]).astype": ").astype",
            "wide, preferred_element_type=jnp.float32)": "wide, preferred_element_type=jnp.float32) * scale_ref[...]",
        },
    ),
    Taken(
        "10.2",
        "masks dz alone",
        "mask x_ref as well",
        {"x = x_ref[...]": "x = jnp.where(there, x_ref[...], 0).astype(x_ref.dtype)"},
    ),
    Taken(
        "10.7",
        "zeroes by the other axis, on the forward grid",
        "put the reduction axis last",
        {
            "lambda i, j: (0, j)": "lambda j, i: (0, j)",
            "lambda i, j: (i, j)": "lambda j, i: (i, j)",
            "(m // 64, n // SIDE)": "(n // SIDE, m // 64)",
        },
    ),
    Taken("10.10", "dw begins anew", r"set\s+dw_ref\s+to\s+zero\s+at\s+the\s+first\s+step\s+only", {">= 0)": "== 0)"}),
    Taken("12.4", "aliases x", "only arrays of the same shape and dtype can share memory", {"{1: 0}": "{2: 0}"}),
    Taken("13.7", "masked with a number", "-inf", {"-1e9": "-jnp.inf"}),
]
EVERY_DAY = "01.4: leaves out the last block", "04.8: no mask"


def name(taken):
    return f"{taken.id}: {taken.mutant}"


@needs_libtpu
@pytest.mark.parametrize("which", daily(*EVERY_DAY, of=map(name, TAKEN)))
def test_advice_that_is_taken_ends_with_a_pass(which):
    taken = next(taken for taken in TAKEN if name(taken) == which)
    (stem,) = [stem for stem in LESSONS if stem[:2] == taken.id[:2]]
    (answer,) = [
        cell.source
        for cell in mutants(stem)
        if cell.metadata["answer"] == taken.id and cell.metadata["name"] == taken.mutant
    ]
    said = verdict(stem, taken.id, answer)
    assert said.outcome == "not yet" and re.search(f"Next:.*{taken.advice}", str(said), re.S), str(said)
    for old, new in taken.edits.items():
        assert old in answer, old
        answer = answer.replace(old, new)
    said = verdict(stem, taken.id, answer)
    if taken.asks_more:
        assert said.headline == "the judges agree, but the exercise asks for more.", str(said)
    else:
        assert said.outcome == "passed", str(said)
