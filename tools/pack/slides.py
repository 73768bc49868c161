"""The slides of a lesson: its questions, pictures, rules and kernels in order, with the plan's minutes and notes."""

import dataclasses
from collections.abc import Iterator
from html import escape

import nbformat
from book.cells import output_of
from book.code import code
from book.text import Writer
from markupsafe import Markup

from pack import PackError, lesson, plan
from pack.lesson import Exercise, Part
from pack.plan import Plan, Row

States = list[dict | None] | None
_AIMS = "After this lesson you can"
_LINES, _FEW = 30, 9  # of an output that fits on a slide, and below a question


@dataclasses.dataclass
class Slide:
    """A slide. ``reveal`` is what a key shows first, before it goes on; ``part`` is the part of the lesson it is of."""

    title: str
    body: Markup
    reveal: Markup = Markup("")
    kind: str = "text"
    part: int = 0
    notes: list[str] = dataclasses.field(default_factory=list)
    minutes: int = 0  # that a clock counts down
    row: Row | None = None  # of the plan, that it belongs to


class Deck:
    """Builds the slides of a lesson; ``states`` are the widgets behind its pictures, or None for still images."""

    def __init__(self, notebook: nbformat.NotebookNode, stem: str, writer: Writer, states: States):
        self.writer, self.notebook = writer, notebook
        self.pictures = iter(states) if states is not None else None
        self.parts = lesson.parts(notebook)
        self.exercises: dict[str, Exercise] = lesson.exercises(stem)
        self.plan: Plan = plan.of(stem[:2])
        if unknown := [id for row in self.plan.rows for id in row.exercises if id not in self.exercises]:
            raise PackError(f"docs/instructor/{stem[:2]}.md plans {', '.join(unknown)}, which exercises/{stem} lacks.")

    def slides(self) -> list[Slide]:
        """Return all slides, the title first."""
        rows = self._places()
        own = [slide for number, part in enumerate(self.parts) for slide in self._of_part(number, part)]
        made, row = [self._title(rows)], rows[0][0]
        for place, slide in [(slide.part, slide) for slide in own] + [(len(self.parts), None)]:
            spoken = []
            while rows and rows[0][1] <= place:
                row, _ = rows.pop(0)
                if _stands_alone(row):
                    made.append(self._of_row(row))
                else:
                    spoken.append(self._spoken(row))
            if slide is not None:
                made.append(dataclasses.replace(slide, row=row, notes=[*spoken, *slide.notes]))
        return made

    def _places(self) -> list[tuple[Row, int]]:
        """Return each row with the part before whose first slide it begins."""
        spoken = [row for row in self.plan.rows if not _stands_alone(row)]
        begun: list[int] = []
        for part in plan.along(spoken, [(part.heading, part.text) for part in self.parts]):
            first = part  # a row begins with its heading, unless another one has begun behind that
            while not self.parts[first].begins and first - 1 not in begun:
                first -= 1
            begun.append(first)
        places, before = [], -1
        for row in self.plan.rows:
            if not _stands_alone(row):
                before = begun.pop(0)
                places.append((row, before))
            else:  # after the part that was begun, and before the next
                places.append((row, max(before + 1, begun[0]) if begun else len(self.parts)))
        return places

    def _title(self, rows: list[tuple[Row, int]]) -> Slide:
        name, minutes = lesson.title(self.notebook)
        lines = []
        for row, place in rows:
            what = self._exercise_names(row) or self._heading(row, place)
            if lines and lines[-1][2] == what:
                lines[-1][1] += row.minutes
            else:
                lines.append([row.start, row.minutes, what])
        cells = "".join(f"<tr><td>{start}</td><td>{took} min</td><td>{what}</td></tr>" for start, took, what in lines)
        table = f'<table class="agenda"><thead><tr><th>from</th><th>takes</th><th>what</th></tr></thead>{cells}</table>'
        body = Markup(f"<p>{self._inline(minutes)}</p>{table}")
        return Slide(name, body, kind="title", notes=[self._html(self.plan.text)] if self.plan.text else [])

    def _heading(self, row: Row, place: int) -> str:
        if _stands_alone(row):
            return self._inline(row.what)
        return self._inline(self.parts[min(place, len(self.parts) - 1)].heading)

    def _exercise_names(self, row: Row) -> str:
        if not row.exercises:
            return ""
        first = self.exercises[row.exercises[0]]
        more = f" and {len(row.exercises) - 1} more" if len(row.exercises) > 1 else ""
        return f"<b>{row.exercises[0]}</b> {self._inline(first.title)}{more}"

    def _of_row(self, row: Row) -> Slide:
        """Return the slide of a row that gives its time to exercises, or to a part under *Further*."""
        ids = row.exercises
        notes = [self._spoken(row), *(self._html(self.plan.hints[id]) for id in ids if id in self.plan.hints)]
        tasks = [(id, self.exercises[id]) for id in ids]
        if not ids:
            body, title = self._html(row.what), "Further"
        elif len(ids) == 1:
            (id, task), *_ = tasks
            body, title = f'<p class="takes">{escape(task.takes)}</p>{self._html(task.text)}', f"{id} {task.title}"
        else:
            items = "".join(
                f'<li><b>{id}</b> {self._inline(task.title)} <span class="takes">{escape(task.takes)}</span></li>'
                for id, task in tasks
            )
            body, title = f'<ul class="tasks">{items}</ul>', "Exercises"
        return Slide(title, Markup(body), kind="exercise", notes=notes, minutes=row.minutes, row=row)

    def _of_part(self, number: int, part: Part) -> Iterator[Slide]:
        if part.heading == lesson.QUESTIONS:
            yield from self._questions(number, part)
            return
        last, kept = None, []  # what the lesson says is noted beside the slide before it, else beside the next
        for slide in self._drawn(number, part):
            if isinstance(slide, str):
                (kept if last is None else last.notes).append(f"<p><b>The lesson says:</b></p>{slide}")
                continue
            slide.notes, kept = [*kept, *slide.notes], []
            last = slide
            yield slide

    def _drawn(self, number: int, part: Part) -> Iterator[Slide | str]:
        """Yield the slides of a part, and between them the texts for notes."""
        words = [self._html(block.source) for block in part.blocks if block.kind == "word"]
        asked = None  # the slide with the last text, below which a short output has room; then a short kernel
        open_to, shown = None, False  # the slide that takes a list, table or code that comes next; any slide yet
        for block in (
            part.blocks[2:] if number == 0 else part.blocks
        ):  # the title and its minutes are on the first slide
            drawn = self._html(block.source)
            if block.kind in ("paragraph", "question"):
                begins = part.begins and not part.asks or number == 0 or block.source == _AIMS
                if block.kind == "question" or (begins and not shown) or block.source == _AIMS:
                    title = block.source if block.source == _AIMS else part.heading
                    body = Markup("") if block.source == _AIMS else drawn
                    asked = open_to = Slide(
                        title, body, kind="question" if block.kind == "question" else "text", part=number
                    )
                    shown = True
                    yield asked
                elif number == 0:
                    open_to.body += drawn
                else:
                    open_to = None
                    yield drawn
            elif block.kind == "word":
                if words:
                    yield Slide(part.heading, Markup("").join(words), kind="words", part=number)
                words, asked, open_to = [], None, None
            elif block.kind == "rule":
                asked, open_to, shown = None, None, True
                yield Slide(part.heading, drawn, kind="rule", part=number)
            elif block.kind == "fold":
                question, answer = lesson.fold(block.source)
                asked = open_to = None
                yield Slide(part.heading, Markup(f"<p>{question}</p>"), Markup(answer), "question", number)
            elif open_to is not None:
                open_to.body += drawn
            elif block.kind == "fence":
                yield Slide(part.heading, drawn, kind="code", part=number)
            else:
                yield drawn
        for cell in part.cells:
            for slide in self._of_cell(number, part, cell):
                is_short = slide.kind == "output" and slide.body.count("\n") < _FEW
                if is_short and asked is not None and not asked.reveal:
                    asked.reveal = slide.body  # what was asked stays in sight
                else:
                    asked = slide if slide.kind == "code" and slide.body.count("\n") < _FEW else None
                    yield slide

    def _of_cell(self, number: int, part: Part, cell: nbformat.NotebookNode) -> Iterator[Slide]:
        if not lesson.is_folded(cell) and (kernel := lesson.kernels(cell)):
            yield Slide(part.heading, Markup(code(kernel)), kind="code", part=number)
        for output in cell.outputs:
            is_picture = output.output_type != "stream" and {"image/svg+xml", "image/png"} & output.data.keys()
            drawn = Markup(output_of(output, self.pictures, self.writer))
            if is_picture or (cell.id != "first-cell" and drawn.count("\n") < _LINES):
                kind = "picture" if is_picture else "output"
                yield Slide(part.heading, drawn, kind=kind, part=number)

    def _questions(self, number: int, part: Part) -> Iterator[Slide]:
        folds = [block for block in part.blocks if block.kind == "fold"]
        for count, block in enumerate(folds, start=1):
            question, answer = lesson.fold(block.source)
            title = f"Question {count} of {len(folds)}"
            text = Markup(f"<p>{question.split('. ', 1)[1]}</p>")
            yield Slide(title, text, Markup(f"<p>{answer}</p>"), "question", number)

    def _spoken(self, row: Row) -> str:
        watch = f" <b>Watch for</b> {self._inline(row.watch)}." if row.watch else ""
        return f"<p><b>Minute {row.start} to {row.start + row.minutes}.</b> {self._inline(row.what)}.{watch}</p>"

    def _html(self, markdown: str) -> Markup:
        return Markup(self.writer.html(markdown))

    def _inline(self, markdown: str) -> Markup:
        return Markup(self.writer.html(markdown.strip()).removeprefix("<p>").rstrip().removesuffix("</p>"))


def _stands_alone(row: Row) -> bool:
    """Whether a row has a slide of its own: its time goes to exercises, or to a part beyond the plan."""
    return bool(row.exercises) or row.what.startswith("From *Further*")
