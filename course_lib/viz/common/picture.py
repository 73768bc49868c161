"""A picture as a notebook shows it: HTML, SVG or plain text, whichever the reader's screen can show."""

import dataclasses

from course_lib.viz.common import draw


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """One picture in three forms. ``print`` gives the text, a notebook cell shows the HTML or the SVG."""

    svg: str
    text: str
    html: str = ""  # where there is more to say than the SVG; else the SVG in an <img>

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **kwargs) -> dict[str, str]:
        return {
            "text/html": self.html or draw.image(self.svg, self.text),
            "image/svg+xml": self.svg,
            "text/plain": self.text,
        }
