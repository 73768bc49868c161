"""The links that the build puts into notebooks: to the pages before and after, and from words to the glossary."""

import pathlib
import re

from building import ROOT, relative
from building.glossary import definitions
from building.lessons import title

NEXT = "<!-- next -->"  # replaced by the way on
_GLOSSARY = "../docs/glossary.md"
_ELSEWHERE = f"to [the map of the course](../notebooks/00_start_here.ipynb) or to [the glossary]({_GLOSSARY})"
# Words of everyday English too, which the text often uses in that sense. Only their boxes lead to the glossary.
_EVERYDAY = set(
    "carry chain computation core dispatch drain eager issue lane layout pass peak pop profile race recompute slot "
    "step visit".split()
)
# Nothing is linked within code, HTML, links, formulas, bold text, headings, boxes and tables.
_WHOLE = re.compile(
    r"```.*?```|^ {4}.*?$|`[^`]*`|<details>.*?</details>|<[^>]*>|!?\[[^\]]*\]\([^)]*\)|https?://\S+|\$[^$]*\$"
    r"|\*\*.*?\*\*|^[#>|].*?$",
    re.DOTALL | re.M,
)
_BOXED = re.compile(r"^> \*\*([^*]+)\*\*(?=[^:\n]*: )", re.M)


def way_on(source: pathlib.Path) -> str:
    """Return the sentence at the end of a notebook that leads to the next one, and back."""
    after = [other for other in sorted(source.parent.glob("[0-9]*.py")) if other.name > source.name]
    lessons, exercises = ROOT / "notebooks/src", ROOT / "solutions/src"
    next_lesson = _link(lessons / after[0].name) if after and (lessons / after[0].name).exists() else ""
    if source.parent == exercises:
        way = f"Next comes {next_lesson}" if next_lesson else "These were the last exercises"
        return f"{way}. You can also go back to {_link(lessons / source.name)}, or {_ELSEWHERE}."
    its_own = f"[the exercises of this lesson](../exercises/{source.stem}.ipynb)"
    ways = [its_own] * (exercises / source.name).exists() + [next_lesson] * bool(next_lesson) or ["nothing so far"]
    return f"Next {'come' if ways[0] == its_own else 'comes'} {', then '.join(ways)}. You can also go {_ELSEWHERE}."


def _link(lesson: pathlib.Path) -> str:
    return f"[lesson {int(lesson.stem[:2])}, *{title(lesson)}*](../notebooks/{lesson.stem}.ipynb)"


def to_glossary(texts: list[str], source: pathlib.Path) -> list[str]:
    """Return the text cells of a lesson with links to the glossary.

    The boxes of this lesson get one, and the first use of each word that an earlier lesson defines. The opening cell
    stays as it is.
    """
    earlier = [other for other in sorted(source.parent.glob("[0-9]*.py")) if other.name < source.name]
    found = [word for other in earlier for word, _ in definitions(other.read_text(), relative(other))]
    words = {word for word in found if word not in _EVERYDAY and "`" not in word}
    return [*texts[:1], *(_BOXED.sub(rf"> **[\1]({_GLOSSARY})**", _linked(text, words)) for text in texts[1:])]


def _linked(text: str, words: set[str]) -> str:
    """Return the text with a link on each of the words that it uses, and take these out of ``words``."""
    pieces, end = [], 0
    for whole in [*_WHOLE.finditer(text), None]:
        plain = text[end : whole.start()] if whole else text[end:]
        pieces.append(_first_uses(plain, words))
        if whole:
            pieces.append(whole[0])
            end = whole.end()
    return "".join(pieces)


def _first_uses(plain: str, words: set[str]) -> str:
    if not words:
        return plain
    longest_first = sorted(words, key=len, reverse=True)  # "index map" before "map"
    uses = re.compile(rf"(?<![\w-])({'|'.join(re.escape(word) for word in longest_first)})s?(?![\w-])")

    def link(use: re.Match) -> str:
        if use[1] not in words:  # linked just now
            return use[0]
        words.discard(use[1])
        return f"[{use[0]}]({_GLOSSARY})"

    return uses.sub(link, plain)
