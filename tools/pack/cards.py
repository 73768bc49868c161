"""A card for each cut: what happens when, by the clock, on one page."""

from book.text import Writer
from markupsafe import Markup

from pack.cuts import DAY, Cut, by_the_clock


def card(cut: Cut, start: int, writer: Writer) -> list[Markup]:
    """Return the card of a cut as HTML; ``start`` is the minute of the day at which each day begins."""
    days = 1 + (cut.minutes - 1) // DAY
    lines = []
    for first, minutes, what in cut.rows:
        if first % DAY == 0 and days > 1:
            lines.append(f'<tr class="day"><th colspan="3">Day {1 + first // DAY}</th></tr>')
        # The last row of a day ends at its end, not at the start of the next.
        until = by_the_clock(first + minutes - 1, start + 1)
        said = writer.html(what).strip().removeprefix("<p>").removesuffix("</p>")
        lines.append(f"<tr><td>{by_the_clock(first, start)} to {until}</td><td>{minutes} min</td><td>{said}</td></tr>")
    head = "<tr><th>when</th><th>takes</th><th>what</th></tr>"
    table = f'<div class="text"><table>{head}{"".join(lines)}</table></div>'
    return [Markup(writer.html(f"# {cut.name}")), Markup(table), Markup(writer.html(cut.text))]
