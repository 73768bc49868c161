"""The card that shows a Report: one sentence, then where the time goes, the slots, the VMEM, the program.

A notebook shows ``html``. Its picture is SVG in an <img>, because inline SVG and style sheets do not survive in a
notebook that is not trusted yet; the only style sheet is for the dark theme. In a terminal, ``Report.__str__`` says the
same in lines.
"""

from course_lib import text
from course_lib.compiler.report import Report
from course_lib.viz.common import draw
from course_lib.viz.report import comparison, gpu_kernels, listing, ops, report_words, slots, time_split
from course_lib.viz.vmem_table import vmem_stack

_CARD = (
    f"max-width: {draw.WIDTH}px; box-sizing: border-box; padding: 17px; border: 1px solid {draw.LINE}; "
    f"border-radius: 6px; background-color: {draw.PAPER}; color: {draw.INK}; font-size: 14px; line-height: 1.5"
)


def sentence(report: Report) -> str:
    """Return the verdict in one sentence."""
    return report_words.sentence(report)


def html(report: Report) -> str:
    """Return the card as HTML without scripts; the listing is inside <details>."""
    first, *more = _said(report)
    parts = [
        f'<div style="color: {draw.MUTED}; font-size: 12px">{_escaped(f"{report.name} for {report.chip}")}</div>',
        f'<div style="font-weight: 600; margin-bottom: 10px">{_escaped(first)}</div>',
        *(f'<div style="margin-bottom: 6px">{_escaped(part)}</div>' for part in more),
    ]
    if panels := _panels(report):
        drawn = draw.sheet(draw.stacked(panels, 18), f"{report.name} for {report.chip}", sentence(report))
        parts.append(draw.image(drawn, _alternative(report)))
    parts += [f'<div style="margin-top: 8px; font-size: 13px">{_escaped(remark)}</div>' for remark in _remarks(report)]
    if report.listing:
        parts.append(f'<div style="margin-top: 8px; font-size: 13px">{listing.html(report.listing)}</div>')
    if _versions(report):
        parts.append(f'<div style="color: {draw.MUTED}; font-size: 12px">{_escaped(_versions(report))}</div>')
    return draw.in_a_card("".join(parts), _CARD)


def comparison_html(reports: dict[str, Report]) -> str:
    """Return several named Reports as one picture, with the card of each inside <details>."""
    cards = "".join(
        f"<details><summary>{_escaped(f'{name}: {sentence(report)}')}</summary>{html(report)}</details>"
        for name, report in reports.items()
    )
    drawn = draw.sheet(comparison.panel(reports), "Kernels compared", comparison.sentence(reports))
    still = draw.image(drawn, comparison.sentence(reports))
    return draw.in_a_card(f'{still}<div style="margin-top: 8px; font-size: 13px">{cards}</div>', _CARD)


def _said(report: Report) -> list[str]:
    """Split the verdict: the part in bold, and the explanation of a refusal."""
    return [sentence(report)] if report.ok else report_words.refusal_parts(report)


def _panels(report: Report) -> list[draw.Panel]:
    """Draw the parts of the picture, without those that the compiler said nothing about."""
    panels = [time_split.panel(report.time_split)] if report.time_split else []
    panels += [slots.panel(report.slots)] if report.slots else []
    panels += [vmem_stack.panel(report.vmem, report.vmem_limit)] if report.vmem else []
    panels += [gpu_kernels.panel(report.kernels, report.chip)] if report.kernels else []
    panels += [ops.panel(report.ops)] if len(report.ops) > 1 else []
    return panels


def _remarks(report: Report) -> list[str]:
    said = [report_words.of_a_step(report), report_words.floor(report), report_words.extrapolated(report)]
    remarks = [*said, *(f"Note: {note}" for note in report.notes)]
    return [remark for remark in remarks if remark]


def _versions(report: Report) -> str:
    """Say what the figures depend on."""
    program = [] if report.bundles is None else [text.counted(report.bundles, "bundle")]
    program += [] if report.code_bytes is None else [f"{text.size(report.code_bytes)} of code"]
    program += [] if report.hbm_bytes is None else [f"{text.size(report.hbm_bytes)} moved to and from HBM"]
    return "; ".join(program + [report.versions] * bool(report.versions))


def _alternative(report: Report) -> str:
    """Return the picture in words, for screen readers and for pages that do not show it."""
    said = [time_split.sentence(report.time_split)] if report.time_split else []
    said += [slots.sentence(report.slots)] if report.slots else []
    said += [vmem_stack.sentence(report.vmem, report.vmem_limit)] if report.vmem else []
    said += [gpu_kernels.sentence(report.kernels, report.chip)] if report.kernels else []
    return " ".join(said) or sentence(report)


def _escaped(text: str) -> str:
    return draw.escape(text)
