"""Ten verdicts in full: what a learner reads after each of the most common mistakes.

    python tools/verdicts.py            in the terminal
    python tools/verdicts.py --write    and write them to docs/verdicts.md

The mistakes are bugs of the zoo (tests/zoo); the judges see each in their order, up to the first that refuses it.
"""

import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ["JAX_PLATFORMS"] = "cpu"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

MOST_COMMON = (
    "element numbers for block numbers",
    "input transposed",
    "accumulator never set to zero",
    "zero only at the very first step",
    "reduction axis first",
    "ragged edge without a mask",
    "accumulator in bfloat16",
    "reduction axis marked parallel",
    "never waited for",
    "two blocks of 4.5 MiB, each twice",
)
PAGE = """\
# Ten verdicts

What does a wrong kernel get to hear? Below are ten of the most common mistakes, each a kernel of the [bug zoo](zoo.md),
and the verdict of the first judge that refuses it, whole, as a terminal shows it. A notebook draws the map of blocks
instead. Written by `python tools/verdicts.py --write`, with {versions}; a test compares.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/verdicts.md too")
    arguments = parser.parse_args()
    text = page()
    print(text)
    if arguments.write:
        (ROOT / "docs/verdicts.md").write_text(text)


def page() -> str:
    """Return the text of docs/verdicts.md."""
    from zoo import BUGS

    from course_lib import compiler, judges

    bugs = {bug.name: bug for bug in BUGS}
    parts = []
    for number, name in enumerate(MOST_COMMON, 1):
        bug = bugs[name]
        said = judges.judge(bug.fn, bug.reference, *bug.args)[-1]
        parts.append(f"## {number}. {name[0].upper()}{name[1:]}\n\n```\n{said}\n```\n")
    return PAGE.format(versions=compiler.tpu.versions()) + "\n".join(parts)


if __name__ == "__main__":
    main()
