"""The kernel library on the command line.

python -m course_lib.kernels            which families there are
python -m course_lib.kernels matmul     one of them as a single file that needs nothing of ours
pallas-kernel matmul                    the same, where course_lib is installed
"""

import argparse
import difflib

from course_lib.kernels import one_page


def main(argv: list[str] | None = None, prog: str = "pallas-kernel") -> None:
    """Run the command. ``prog`` is how it was started, for the help. Raises SystemExit for an unknown family."""
    parser = argparse.ArgumentParser(prog=prog, description=one_page.__doc__.splitlines()[0])
    parser.add_argument("family", nargs="?", help="its name, such as matmul; left out: list them")
    family, known = parser.parse_args(argv).family, one_page.families()
    if family is None:
        print("\n".join(f"{name:17} {line}" for name, line in known.items()))
    elif family in known:
        print(one_page.one_page(family), end="")
    else:
        nearest = difflib.get_close_matches(family, known, n=1, cutoff=0)
        parser.error(f"{family!r} is no family; it may be {', '.join(known)}. Nearest: {nearest[0]}.")


if __name__ == "__main__":
    main(prog="python -m course_lib.kernels")
