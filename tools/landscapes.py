"""Ask the compiler about every legal choice of blocks for the products of lesson 11, and keep what it says.

    python tools/landscapes.py            how many there are, and how many answers have changed
    python tools/landscapes.py --write    writes course_lib/lessons/lesson_11/landscapes.json

Some 400 compilations: about ten minutes where nothing is kept yet.
"""

import argparse
import json

from course_lib import checks, compiler
from course_lib.lessons.lesson_11 import landscapes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    checks.start()
    microseconds = {_words(shape): _rows(shape) for shape in (*landscapes.SHAPES, *landscapes.SMALL)}
    text = json.dumps({"versions": compiler.tpu.versions(), "microseconds": microseconds}, indent=0) + "\n"
    print(f"{sum(map(len, microseconds.values()))} choices of blocks")
    if write:
        landscapes.FILE.write_text(text, "utf-8")
    elif landscapes.FILE.read_text("utf-8") != text:
        print("The file says something else: --write.")


def _rows(shape: landscapes.Shape) -> dict[str, float | None]:
    answers = {blocks: landscapes.asked(shape, blocks) for blocks in landscapes.legal(shape)}
    print(shape, len(answers), "asked", flush=True)
    return {_words(blocks): said and round(said[1] * 1e6, 3) for blocks, said in answers.items()}


def _words(numbers: landscapes.Shape) -> str:
    return " ".join(map(str, numbers))


if __name__ == "__main__":
    main()
