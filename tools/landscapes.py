"""Ask the compiler about every legal choice of blocks for the matmuls of lesson 11, and store its answers.

    python tools/landscapes.py            how many choices there are, and whether any answer has changed
    python tools/landscapes.py --write    writes course_lib/datasets/product_searches.json

Some 400 compilations: about ten minutes with an empty cache.
"""

import argparse
import json

from course_lib import checks, compiler, datasets
from course_lib.lessons.lesson_11 import landscapes, tuner


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    checks.start()
    products = {_words(shape): _asked(shape) for shape in (*landscapes.SHAPES, *landscapes.SMALL)}
    text = json.dumps({"versions": compiler.tpu.versions(), "products": products}, indent=0) + "\n"
    print(f"{sum(len(kept['microseconds']) for kept in products.values())} choices of blocks")
    file = datasets.product_searches_file()
    if write:
        file.write_text(text, "utf-8")
    elif file.read_text("utf-8") != text:
        print("The file says something else: --write.")


def _asked(shape: landscapes.Shape) -> dict:
    """Return the compiler's answer for every choice, and the choices that our tuner asks about."""
    answers = {blocks: landscapes.asked(shape, blocks) for blocks in landscapes.legal(shape)}
    print(shape, len(answers), "asked", flush=True)
    seconds = {blocks: said and said[1] for blocks, said in answers.items()}
    ours: list[landscapes.Shape] = []
    tuner.tuned(shape, lambda blocks: (ours.append(blocks), seconds[blocks])[1])
    microseconds = {_words(blocks): took and round(took * 1e6, 3) for blocks, took in seconds.items()}
    return {"microseconds": microseconds, "ours": [_words(blocks) for blocks in ours]}


def _words(numbers: landscapes.Shape) -> str:
    return " ".join(map(str, numbers))


if __name__ == "__main__":
    main()
