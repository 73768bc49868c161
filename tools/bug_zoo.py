"""The bug zoo: every planted bug and what each judge says about it, compared with a bare run with interpret=True.

    python tools/bug_zoo.py            the matrix, in the terminal
    python tools/bug_zoo.py --write    and write it to docs/zoo.md

The bugs are in tests/zoo. It takes about two minutes.
"""

import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ["JAX_PLATFORMS"] = "cpu"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]


def main() -> None:
    from zoo import BUGS, chips_page, examine, gpu_page, page

    from course_lib import compiler

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/zoo.md too")
    arguments = parser.parse_args()
    if arguments.write and compiler.libtpu_version() is None:
        parser.error("--write needs libtpu, for the compiler's column: Linux on x86-64")
    rows = []
    for number, bug in enumerate(BUGS, 1):
        show_progress(f"{number} of {len(BUGS)}  {bug.kind}: {bug.name}")
        rows.append(examine.row(bug))
    examine.stop()
    show_progress("")
    print(page.table(BUGS, rows))
    print(f"\n{gpu_page.section()}\n{chips_page.section()}")
    if arguments.write:
        (ROOT / "docs/zoo.md").write_text(page.page(BUGS, rows, examine.LIMIT_S))


def show_progress(text: str) -> None:
    """Print one line that overwrites itself, if stderr is a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text:78.78}" + ("" if text else "\r"), end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
