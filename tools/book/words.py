"""The words of the glossary: the place of each on the glossary's page, and its definition for whoever points at it."""

import re

from building import ROOT, glossary, relative


class Words:
    """The words that lessons define, by every form in which a link may name them."""

    def __init__(self, defined: list[tuple[str, str]]):
        self._places, self._meanings = {}, {}
        for word, meaning in defined:
            for form in (word, word.partition(" (")[0]):
                self._places.setdefault(_plain(form), _id(word))
                self._meanings.setdefault(_plain(form), re.sub(r"[`*]", "", meaning))

    def place(self, word: str) -> str | None:
        """Return the id of a row of the glossary, by the word in its first cell; None if that is none of the words."""
        return self._places.get(_plain(word))

    def fragment(self, source: str, text: str) -> str:
        """Return the id that a link on ``text`` to the page ``source`` should lead to: "" outside the glossary."""
        return self._places.get(self._form(text), "") if source == glossary.PATH else ""

    def meaning(self, text: str) -> str:
        """Return the definition of a word or of its plural; "" for another text."""
        return self._meanings.get(self._form(text), "")

    def _form(self, text: str) -> str:
        plain = _plain(text)
        return plain if plain in self._places else plain.removesuffix("s")


def of_the_lessons() -> Words:
    """Return the words that the lessons' sources define."""
    sources = sorted(ROOT.glob("notebooks/src/[0-9]*.py"))
    return Words([pair for source in sources for pair in glossary.definitions(source.read_text(), relative(source))])


def _plain(word: str) -> str:
    return re.sub(r"[`*]", "", word).lower().strip()


def _id(word: str) -> str:
    return "word-" + re.sub(r"[^a-z0-9]+", "-", _plain(word)).strip("-")
