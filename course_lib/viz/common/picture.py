"""A picture for a notebook, as HTML, SVG and plain text: the front end shows what it can."""

import dataclasses

from course_lib.viz.common import draw


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """One picture in three forms: ``print`` gives the text, a notebook cell shows the HTML or the SVG."""

    svg: str
    text: str
    html: str = ""  # if there is more to show than the SVG; otherwise the SVG in an <img>

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **kwargs) -> dict[str, str]:
        return {
            "text/html": self.html or draw.image(self.svg, self.text),
            "image/svg+xml": self.svg,
            "text/plain": self.text,
        }
