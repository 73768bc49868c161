"""Make the instructor's pack, build/pack.zip: slides, handouts, timing cards and the grading day, from the lessons.

Nothing is executed. Pictures are the stills of the notebooks; if `make build` or `make book` has kept the state of a
lesson's widgets in build/book_state, its slides have widgets that react.
"""

import argparse
import pathlib
import sys

from book import BookError, pages, site
from building import ROOT, widget_state
from pack import PackError, cuts, files

from course_lib.compiler import progress


def main() -> None:
    options = _options()
    try:
        start = cuts.start_of(options.start)
        course = pages.course()
        states = {
            page.source: widget_state.kept(page.stem, page.notebook)
            for page in course.values()
            if page.folder == "notebooks"
        }
        with progress.shown("making the pack") as tell:
            made = files.files(course, states, start, lambda stem: tell(f"making the pack: {stem}"))
        site.write(options.out, made, set())
    except (BookError, PackError) as error:
        sys.exit(f"make pack: {error}")
    packed = options.out.with_suffix(".zip")
    files.archive(made, packed)
    live = sum(state is not None for source, state in states.items() if "/00" not in source)
    print(f"{packed}, {packed.stat().st_size / 2**20:.1f} MiB: open {options.out / 'index.html'}")
    print(
        f"{live} of {len(states) - 1} lessons have slides whose widgets react; `make book` keeps what the others need."
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--start", default="9:00", metavar="HH:MM", help="when a day begins, for the timing cards: 9:00"
    )
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/pack", metavar="FOLDER", help="build/pack")
    return parser.parse_args()


if __name__ == "__main__":
    main()
