"""Build what is generated.

    notebooks/src/NN_topic.py  ->  notebooks/NN_topic.ipynb   executed
                                   build/book_state/NN_topic.json, which git ignores: for `make book`
    solutions/src/NN_topic.py  ->  solutions/NN_topic.ipynb   executed
                                   exercises/NN_topic.ipynb   answers removed, not executed
                                   course_lib/lessons/lesson_NN/solutions.json, golf.json, minutes.json
    both                       ->  course_lib/lessons/lesson_NN/cycles_notebooks.json, cycles_solutions.json
    the titles of all lessons  ->  README.md's table
    a kernel and a verdict     ->  docs/learner.svg

Two builds give the same bytes. `--check` writes nothing else and exits with 1 if anything in the tree is out of date.
"""

import argparse
import json
import re
import sys

from building import ROOT, BuildError
from building.lessons import PUBLIC
from building.targets import build, minutes_files


def main() -> None:
    options = _options()
    if options.colab:
        (ROOT / PUBLIC).write_text(json.dumps({"repo": options.colab, "tag": options.tag}) + "\n")
    first = {} if options.check else _stale(minutes_files())  # page 00 draws its map from them
    _write(first)
    try:
        built = build(options.only)
    except BuildError as error:
        sys.exit(f"make build: {error}")
    stale = _stale(built)
    if options.check:
        sys.exit("Out of date, run `make build`: " + ", ".join(stale) if stale else 0)
    _write(stale)
    print(f"{len(built)} files built, {len(stale | first)} changed.")


def _stale(files: dict[str, str]) -> dict[str, str]:
    """Return the files that are missing in the tree or differ from it."""
    return {
        path: text for path, text in files.items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text
    }


def _write(files: dict[str, str]) -> None:
    for path, text in files.items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the tree, write nothing")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only what has TEXT in its name: 07, notebooks/07, README"
    )
    parser.add_argument("--colab", default="", metavar="OWNER/NAME", help="bake this public address into the notebooks")
    parser.add_argument("--tag", default="main", help="the tag or branch that goes with --colab")
    options = parser.parse_args()
    if options.colab and not re.fullmatch(r"[\w.-]+/[\w.-]+", options.colab):
        parser.error(f"--colab {options.colab!r} is not of the form owner/name")
    return options


if __name__ == "__main__":
    main()
