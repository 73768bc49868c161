"""Lesson 6: what the page of the exercises shows and says is what their answers are judged with."""

import ast
import inspect
import re

import numpy as np
from lesson_files import ROOT, code_cells

from course_lib.lessons.lesson_06 import (
    core,
    e01_registers,
    e05_both_sums,
    e06_cheap_enough,
    e08_heads,
    e09_minutes,
    energy,
    heads,
    slices,
)

PAGE = (ROOT / "solutions/src/06_layout_and_op_costs.py").read_text()
CELLS = code_cells("solutions/src", "06_layout_and_op_costs")


def section(id: str) -> str:
    """The text and cells of one exercise."""
    return re.search(rf"^# ## {re.escape(id)} .*?(?=^# ## )", PAGE, re.M | re.S)[0]


def text(id: str) -> str:
    """The same, without line breaks."""
    return section(id).replace("\n# ", " ")


def body(source: str, name: str) -> list[str]:
    """The statements of a function, as they are written."""
    (found,) = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == name)
    return [ast.unparse(statement) for statement in found.body]


def test_the_six_arrays_are_those_of_the_table():
    table = dict(re.findall(r"^# \| ([A-F]) \| (\w+\[[\d, ]+\]) \|$", section("06.1"), re.M))
    shapes = {name: f"{dtype}[{', '.join(map(str, shape))}]" for name, (shape, dtype) in e01_registers.SHAPES.items()}
    assert table == shapes


def test_the_six_slices_are_those_of_the_table():
    rows = re.findall(r"^# \| ([A-F]) \| (\w+)\[([\d, ]+)\] \| `x_ref\[(.+)\]` \|$", section("06.3"), re.M)
    assert [name for name, *_ in rows] == list(slices.SLICES)
    for name, dtype, shape, written in rows:
        take, declared, _, kind = slices.SLICES[name]
        assert (np.dtype(dtype), shape) == (np.dtype(kind), ", ".join(map(str, declared)))
        assert f"x[{written}]" in inspect.getsource(take)


def test_the_slow_kernels_are_those_that_are_priced():
    given = "\n".join(cell.source for cell in CELLS)
    assert body(given, "slow_energy") == body(inspect.getsource(energy.slow), "slow")[1:]
    heads_given = " ".join(body(given, "slow_heads_kernel"))
    for statement in body(inspect.getsource(heads.normed), "normed")[1:3]:
        assert statement.replace("HEAD", str(heads.HEAD)) in heads_given


def test_limits_are_those_that_the_page_names():
    assert f"at most {e05_both_sums.MOST} cycles" in text("06.5")
    assert "**an eighth** of the cycles" in text("06.6") and e06_cheap_enough.TIMES_FEWER == 8
    assert "for a[32, 512]" in text("06.6") and e06_cheap_enough.LARGE[0].shape == (32, 512)
    assert f"**{e08_heads.TIMES_FEWER} times**" in text("06.8")
    assert f"**Par is {e09_minutes.EXERCISE.golf.par:,}**" in text("06.9")


def test_our_minutes_are_right_in_every_second():
    s = np.arange(e09_minutes.DAY, dtype=np.int64)
    assert ((s >> 2) * 34953).max() < 2**31 > ((s >> 4) * 37283).max(), "it is done in 32 bits"
    assert (((s >> 2) * 34953 >> 19) - 60 * ((s >> 4) * 37283 >> 23) == s // 60 % 60).all()
    seen = np.concatenate([np.asarray(case[0]).ravel() for case in e09_minutes.EXERCISE.arguments()])
    assert set(seen) == set(range(e09_minutes.DAY)), "the judges see every second"


def test_a_demand_on_the_core_names_both_figures():
    slow, args = e06_cheap_enough.slow, e06_cheap_enough.LARGE
    said, next = core.at_most(lambda: 10, "{mine} and {most}", "less.", *args)(slow)
    assert re.fullmatch(r"[\d,]+ and 10", said) and next == "less."
    assert core.at_most(lambda: 10**9, "{mine} and {most}", "less.", *args)(slow) is None
