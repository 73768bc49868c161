"""A widget with a picture for each combination of a few choices: Python draws them all, the browser shows one."""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import traitlets

from course_lib.viz.common import draw
from course_lib.viz.common.widget import Widget, source


class Group(NamedTuple):
    """One choice: its name and its options."""

    name: str
    options: tuple[str, ...]


class State(NamedTuple):
    """What one combination shows: a picture, and the same in words."""

    panel: draw.Panel
    caption: str


class Choices(Widget):
    """The widget. ``at`` holds the number of the chosen option of each group."""

    _esm, _css = source(__file__, "dom.js")
    title = traitlets.Unicode().tag(sync=True)
    groups = traitlets.List().tag(sync=True)
    drawings = traitlets.List().tag(sync=True)  # SVG of each combination; the last group varies fastest
    captions = traitlets.List().tag(sync=True)
    at = traitlets.List().tag(sync=True)

    def __init__(
        self,
        title: str,
        groups: Sequence[Group],
        state: Callable[..., State],
        at: Sequence[int],
        beside: Sequence[Sequence[int]] = (),
    ):
        """Draw every combination with ``state(*numbers)``; a still always shows those in ``beside``."""
        self.state, self.beside = state, [list(numbers) for numbers in beside]
        combinations = itertools.product(*(range(len(group.options)) for group in groups))
        states = [state(*numbers) for numbers in combinations]
        super().__init__(
            title=title,
            groups=[{"name": group.name, "options": list(group.options)} for group in groups],
            drawings=[draw.sheet(each.panel, title, each.caption) for each in states],
            captions=[each.caption for each in states],
            at=list(at),
        )

    def _still(self) -> tuple[str, str]:
        stills = self.beside if self.at in self.beside else [*self.beside, self.at]
        captions = [self.state(*numbers).caption for numbers in stills]
        panels = [panel for numbers in stills for panel in self._panels(numbers)]
        return draw.card(draw.stacked(panels, gap=6), self.title, captions[-1]), "\n".join(captions)

    def _panels(self, numbers: Sequence[int]) -> list[draw.Panel]:
        shown, chosen = self.state(*numbers), zip(self.groups, numbers, strict=True)
        title = ", ".join(f"{group['name']} {group['options'][n]}" for group, n in chosen)
        return [draw.paragraph(title, size=16, bold=True), shown.panel, draw.paragraph(shown.caption, size=14)]
