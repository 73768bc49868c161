"""Markdown as HTML: headings that can be linked to, formulas, code in colours, and links that lead somewhere."""

import dataclasses
import re
from collections import Counter

from building import glossary
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from book import BookError
from book.code import code
from book.links import Links
from book.mathml import mathml
from book.pages import Page

_WORD = 7  # the level of a row of the glossary, below those of all headings


@dataclasses.dataclass
class Section:
    """What stands below a heading: what the search finds, and the entry of a page's own contents."""

    id: str
    heading: str
    level: int
    text: list[str] = dataclasses.field(default_factory=list)


class Writer:
    """Turns the texts of one page into HTML, and keeps its sections."""

    def __init__(self, page: Page, links: Links):
        self.page, self.links = page, links
        self.sections = [Section("", page.title, 1)]
        self._ids = Counter()

    def html(self, markdown: str) -> str:
        """Return a text of the page as HTML. Raise BookError for a link or a formula that cannot be shown."""
        tokens = _PARSER.parse(markdown)
        for number, token in enumerate(tokens):
            if token.type == "inline":
                self._lead(token.children)
                if tokens[number - 1].type == "heading_open":
                    self._begin_section(tokens[number - 1], token)
                elif self.sections[-1].level != _WORD:
                    self.sections[-1].text.append(_plain(token))
            elif token.type == "tr_open" and self.page.source == glossary.PATH:
                self._place_word(token, tokens[number + 2], tokens[number + 5])
        try:
            return _PARSER.renderer.render(tokens, _PARSER.options, {})
        except BookError as error:  # of a formula, which does not know its page
            raise BookError(f"{self.page.source}: {error}") from None

    def _begin_section(self, opening: Token, inline: Token) -> None:
        heading, level = _plain(inline), int(opening.tag[1])
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")  # as GitHub makes it, which the links use
        id = f"{slug}-{self._ids[slug]}" if self._ids[slug] else slug
        self._ids[slug] += 1
        opening.attrSet("id", id)
        link = Token("html_inline", "", 0)
        link.content = f' <a class="anchor" href="#{id}" aria-label="Link to this section">#</a>'
        inline.children.append(link)
        if level == 1:
            self.sections[0].id = id
        else:
            self.sections.append(Section(id, heading, level))

    def _place_word(self, row: Token, word: Token, meaning: Token) -> None:
        """Give a row of the glossary an id, and make it a section of its own for the search."""
        if id := self.links.words.place(word.content):
            row.attrSet("id", id)
            self.sections.append(Section(id, _plain(word), _WORD, [_plain(meaning)]))

    def _lead(self, tokens: list[Token]) -> None:
        """Replace where links and pictures of a line lead; what leads out of the book becomes plain text."""
        opened = None
        for number, token in enumerate(tokens):
            if token.type == "link_open":
                opened = token
                text = _plain_tokens(tokens[number + 1 :], until="link_close")
                link = self.links.target(self.page, token.attrs["href"], text)
                if link is None:
                    token.tag, token.attrs = "span", {}
                    continue
                if title := self.links.title(self.page, token.attrs["href"], text):
                    tokens[number + 1].type, tokens[number + 1].content = "text", title
                token.attrs["href"] = link
                if "#word-" in link:
                    token.attrs["title"] = self.links.words.meaning(text)
            elif token.type == "link_close":
                token.tag = opened.tag
            elif token.type == "image":
                self._show(token)

    def _show(self, image: Token) -> None:
        source = self.links.picture(self.page, image.attrs["src"])
        if source is None:  # from the network: its words have to do
            image.type, image.content = "text", _plain_tokens(image.children)
        else:
            image.attrs["src"] = source


def blocks(markdown: str) -> list[tuple[str, str]]:
    """Return the blocks of a text in order, each as the name of its token, such as "paragraph", and its source."""
    lines = markdown.split("\n")
    outer = [token for token in _PARSER.parse(markdown) if token.level == 0 and token.map and token.nesting >= 0]
    return [(token.type.removesuffix("_open"), "\n".join(lines[slice(*token.map)]).strip()) for token in outer]


def _plain(inline: Token) -> str:
    return _plain_tokens(inline.children)


def _plain_tokens(tokens: list[Token], until: str = "") -> str:
    """Return the words of some tokens, without their marks."""
    words = []
    for token in tokens:
        if token.type == until:
            break
        if token.type in ("text", "code_inline", "math_inline"):
            words.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            words.append(" ")
        elif token.type == "image":
            words.append(_plain_tokens(token.children or []))
    return "".join(words).strip()


def _math(tex: str, options: dict) -> str:
    return mathml(tex, options["display_mode"])


def _fence(self, tokens, number, options, env) -> str:
    return code(tokens[number].content, tokens[number].info.strip())


def _code_block(self, tokens, number, options, env) -> str:
    return code(tokens[number].content, "")


def _table_open(self, tokens, number, options, env) -> str:
    return '<div class="scroll"><table>'  # a table that is too wide scrolls by itself


def _table_close(self, tokens, number, options, env) -> str:
    return "</table></div>"


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.use(dollarmath_plugin, allow_labels=False, allow_space=False, allow_digits=False, renderer=_math)
    rules = {"fence": _fence, "code_block": _code_block, "table_open": _table_open, "table_close": _table_close}
    for name, rule in rules.items():
        parser.add_render_rule(name, rule)
    return parser


_PARSER = _parser()
