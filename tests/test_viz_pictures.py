"""Still pictures of the lessons: what they say in words is what they draw."""

import pytest

from course_lib import viz


def test_chains_overlap_where_there_are_several_sums():
    assert str(viz.chains(8, (1, 4))) == (
        "one sum: 8 additions in 16 cycles; they begin in cycles 0, 2, 4, 6, 8, 10, 12, 14\n"
        "4 sums: 8 additions in 4 cycles; they begin in cycles 0, 0, 0, 0, 2, 2, 2, 2"
    )
    assert viz.chains().svg.count(">x[7]<") == 2
    for wrong in ({"additions": 0}, {"sums": (0,)}, {"sums": (9,)}, {"latency": 0}):
        with pytest.raises(ValueError, match="chains: additions="):
            viz.chains(**wrong)


def test_what_is_folded_over_each_axis():
    told = str(viz.sum_over_axis(16))
    assert "over axis 0, leading: 16 whole registers are added to one another: 15 additions" in told
    assert "each of 16 registers is folded 3 times" in told and "128 lanes to 1" in told
    with pytest.raises(ValueError, match="leading=1 must be a whole number, 2 or more"):
        viz.sum_over_axis(1)
