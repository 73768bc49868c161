"""Make the course as a static site, build/book, which opens without a server: build/book/index.html.

Lessons and exercises are the notebooks as they are; widgets get the state that the last build of their lesson kept in
build/book_state. A lesson without it, or with the state of other pictures, is executed once.
"""

import argparse
import os
import pathlib
import sys

from book import BookError, pages, site
from building import ROOT, BuildError, widget_state
from building.targets import build


def main() -> None:
    options = _options()
    try:
        course = pages.course()
        states = {} if options.stills else _states(course)
        made, copied = site.files(course, states)
        site.write(options.out, made, copied)
    except (BookError, BuildError) as error:
        sys.exit(f"make book: {error}")
    print(f"{sum(path.endswith('.html') for path in made)} pages: open {options.out / 'index.html'}")


def _states(course: dict[str, pages.Page]) -> site.States:
    """Return the state of the widgets of every lesson, after executing those of which none is kept. Raise BookError."""
    lessons = {source: page for source, page in course.items() if page.folder == "notebooks"}
    states = {source: widget_state.kept(page.stem, page.notebook) for source, page in lessons.items()}
    missing = [lessons[source].stem for source, state in states.items() if state is None]
    if missing:
        print(f"Executing {len(missing)} of {len(lessons)} lessons, for the state of their widgets.", file=sys.stderr)
        os.environ.setdefault("COURSE_SHIPPED", "1")  # the cycles that come with the course save half of the time
        build(",".join(f"notebooks/{stem}" for stem in missing))
        states |= {source: widget_state.kept(page.stem, page.notebook) for source, page in lessons.items()}
    for source, state in states.items():
        if state is None:
            raise BookError(f"{source} shows other pictures than its source draws here: run `make build` first.")
    return states


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stills", action="store_true", help="execute nothing: still images in place of widgets")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/book", metavar="FOLDER", help="build/book")
    return parser.parse_args()


if __name__ == "__main__":
    main()
