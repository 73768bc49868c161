"""What the search knows (static/search.js): the text of every section of every page."""

import json
import re

from book.pages import Page
from book.text import Section


def index(found: list[tuple[Page, list[Section]]]) -> str:
    """Return the script with the index. A page loads it only when somebody searches."""
    pages = [[page.path, page.title] for page, _ in found]
    sections = [
        [number, section.id, section.heading, re.sub(r"\s+", " ", " ".join(section.text)).strip()]
        for number, (_, sections) in enumerate(found)
        for section in sections
    ]
    lines = ",\n".join(json.dumps(section, ensure_ascii=False) for section in sections)
    return f"window.courseIndex = {{pages: {json.dumps(pages, ensure_ascii=False)}, sections: [\n{lines}\n]}};\n"
