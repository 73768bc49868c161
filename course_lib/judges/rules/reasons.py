"""Why numbers may be wrong: rules, asked in order. Each looks at a Finding and says (why, what to try) or nothing."""

from collections.abc import Callable

from course_lib.judges.rules import (
    rules_of_attention,
    rules_of_blocks,
    rules_of_lookups,
    rules_of_memory,
    rules_of_softmax,
)
from course_lib.judges.slips import lookup_slips
from course_lib.judges.slips import slip as slips
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong import dependence, patterns, precision, probing, sizes
from course_lib.judges.wrong.finding import Finding


def because(found: Finding) -> Complaint:
    """The first rule that fits; where none does, how to find out."""
    for rule in _RULES:
        if said := rule(found):
            return said
    return Complaint(
        "", "compute the first wrong element by hand, and compare with what the kernel reads at that step."
    )


# The order is that of certainty: what is read off the grid and the code goes before what the numbers look like.
_RULES: tuple[Callable[[Finding], Complaint | None], ...] = (
    slips.declared,
    rules_of_blocks.outside,
    rules_of_blocks.rows_outside,
    rules_of_lookups.no_entry,
    rules_of_blocks.unvisited,
    rules_of_memory.copied_by_hand,
    rules_of_blocks.in_a_pipeline,
    rules_of_memory.shared,
    rules_of_memory.written_over,
    rules_of_lookups.come_back_to,
    rules_of_lookups.shared_by_rows,
    rules_of_memory.nothing_carried,
    rules_of_memory.read_first,
    rules_of_lookups.written_late,
    rules_of_memory.left_unwritten,
    rules_of_blocks.index_map,
    rules_of_memory.left_over,
    rules_of_blocks.past_the_edge,
    rules_of_memory.written_too_early,
    probing.first_wrong,
    slips.suspected,
    rules_of_softmax.running_sum,
    rules_of_softmax.no_maximum,
    dependence.nan_let_in,
    rules_of_memory.computed,
    rules_of_memory.never_written,
    rules_of_blocks.rows_left_out,
    lookup_slips.slip,
    rules_of_attention.slip,
    patterns.swallowed_nan,
    sizes.written_in,
    patterns.an_argument,
    patterns.transposed,
    precision.through_float32,
    precision.wrapped,
    patterns.shifted,
    patterns.scaled,
    precision.too_few_bits,
    dependence.wrong_terms,
)
