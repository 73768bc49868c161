"""Where the links of a page lead in the book: to other pages, to files that it takes along, or to the public source."""

import posixpath
import re

from building import ROOT

from book import BookError
from book.pages import Page
from book.words import Words

_ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:|//")
_TAKEN_ALONG = (".svg", ".png", ".csv")


class Links:
    """Turns the links of the course's files into links of the book, and notes which files it has to take along."""

    def __init__(self, pages: dict[str, Page], words: Words, public: dict[str, str]):
        self.pages, self.words, self.public = pages, words, public
        self.files: set[str] = set()  # to take along, by their path from the root of the course

    def target(self, page: Page, link: str, text: str = "") -> str | None:
        """Return where ``link`` of ``page`` leads from that page of the book; None if the book has no such place.

        ``text`` is what the link stands on, which tells a word of the glossary. Raises BookError for a link to
        something that does not exist.
        """
        if _ELSEWHERE.match(link) or link.startswith("#"):
            return link
        name, _, fragment = link.partition("#")
        source = posixpath.normpath(posixpath.join(page.folder, name))
        if not (ROOT / source).exists():
            raise BookError(f"{page.source} has a link to {link}, which does not exist.")
        if other := self.pages.get(source) or self.pages.get(f"{source}/README.md"):
            fragment = fragment or self.words.fragment(source, text)
            return page.to(other.path) + (f"#{fragment}" if fragment else "")
        if source.endswith(_TAKEN_ALONG):
            self.files.add(source)
            return page.to(source)
        return self._public_source(source)

    def title(self, page: Page, link: str, text: str) -> str | None:
        """Return the title of the page that a link leads to, for a link that stands on the name of the page's file."""
        other = self.pages.get(posixpath.normpath(posixpath.join(page.folder, link)))
        return other.title if other and text == link else None

    def picture(self, page: Page, link: str) -> str | None:
        """Return where a picture is; None for one from elsewhere, because a page loads nothing from the network."""
        return None if _ELSEWHERE.match(link) else self.target(page, link)

    def colab(self, page: Page) -> str | None:
        """Return the address that opens a notebook in Colab; None if the course has no public address."""
        if not self.public["repo"]:
            return None
        return f"https://colab.research.google.com/github/{self.public['repo']}/blob/{self.public['tag']}/{page.source}"

    def _public_source(self, source: str) -> str | None:
        if not self.public["repo"]:
            return None
        kind = "tree" if (ROOT / source).is_dir() else "blob"
        return f"https://github.com/{self.public['repo']}/{kind}/{self.public['tag']}/{source}"
