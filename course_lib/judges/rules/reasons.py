"""The rules in order. Each takes a Finding and returns (why, what to try), or None."""

from collections.abc import Callable

from course_lib.judges.rules import (
    block_rules,
    lookup_rules,
    mask_rules,
    memory_rules,
    softmax_rules,
)
from course_lib.judges.slips import argument_slips, lookup_slips, reference_edits, softmax_slips
from course_lib.judges.slips import slip as slips
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs import dependence, hard_coded_sizes, patterns, precision, probing
from course_lib.judges.wrong_outputs.finding import Finding


def because(found: Finding) -> Complaint:
    """Return what the first rule that fits says, or else how to find out."""
    for rule in _RULES:
        if said := rule(found):
            return said
    return Complaint(
        "", "compute the first wrong element by hand, and compare it with what the kernel reads at that step."
    )


# The surest go first: what the grid and the code show goes before what the values look like.
_RULES: tuple[Callable[[Finding], Complaint | None], ...] = (
    memory_rules.written_too_early,
    slips.declared,
    block_rules.outside,
    block_rules.rows_outside,
    lookup_rules.no_entry,
    block_rules.unvisited,
    memory_rules.copied_by_hand,
    block_rules.in_a_pipeline,
    memory_rules.shared,
    memory_rules.written_over,
    lookup_rules.come_back_to,
    lookup_rules.shared_by_rows,
    memory_rules.nothing_carried,
    memory_rules.read_first,
    lookup_rules.written_late,
    memory_rules.left_unwritten,
    block_rules.index_map,
    memory_rules.left_over,
    block_rules.past_the_edge,
    probing.first_wrong,
    slips.suspected,
    softmax_rules.two_axes,
    softmax_rules.running_sum,
    softmax_rules.no_maximum,
    dependence.nan_let_in,
    reference_edits.not_a_number,
    memory_rules.computed,
    memory_rules.never_written,
    block_rules.counted_past_the_edge,
    mask_rules.filled,
    block_rules.rows_left_out,
    lookup_slips.slip,
    softmax_slips.slip,
    argument_slips.slip,
    patterns.swallowed_nan,
    hard_coded_sizes.written_in,
    hard_coded_sizes.shifted,
    patterns.an_argument,
    patterns.another_output,
    patterns.transposed,
    reference_edits.slip,
    argument_slips.of_one_output,
    argument_slips.part_for_all,
    patterns.clipped,
    precision.through_float32,
    precision.wrapped,
    precision.narrowed,
    precision.overflowed,
    patterns.shifted,
    patterns.misplaced,
    patterns.scaled,
    precision.too_few_bits,
    dependence.wrong_terms,
    precision.nearly_right,
)
