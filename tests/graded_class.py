"""A class made of solutions, mutants, blanks and attacks on lesson 1, and what each of its notebooks should get."""

import copy
import json
import pathlib
import random

from attacks import ATTACKS
from lesson_files import mutants

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEM = "01_hello_kernel"
KINDS = ("solved", "mixed", "attack", "blank", "mixed", "solved", "attack", "mixed", "mixed", "attack")


def make(folder: pathlib.Path, count: int, seed: int = 0) -> dict[str, dict[str, bool]]:
    """Write ``count`` notebooks; {name: {exercise: whether it must pass}} of those of which it is known."""
    rng = random.Random(seed)
    solved, blank = (json.loads((ROOT / f"{kind}/{STEM}.ipynb").read_text()) for kind in ("solutions", "exercises"))
    expected: dict[str, dict[str, bool]] = {}
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        notebook, must = copy.deepcopy(blank if kind == "blank" else solved), {}
        for cell in _answers(notebook):
            cell["outputs"], id = [], cell["id"].replace("-", ".")
            must[id] = kind != "blank"
            if kind == "mixed" and rng.random() < 0.4:
                sources = [mutant.source for mutant in mutants(STEM) if mutant.metadata["answer"] == id]
                cell["source"] = rng.choice([*sources, _source(blank, cell["id"])])
                must[id] = False
        if not must["01.1"]:
            del must["01.3"]  # whose layer calls the kernel of 01.1
        if kind == "attack":
            _, name, source = ATTACKS[(number // 10 * 3 + KINDS[: number % 10].count(kind)) % len(ATTACKS)]
            next(c for c in _answers(notebook) if c["id"] == name)["source"] = source
            must = {name.replace("-", "."): False}  # what it does to the others is its own
        file = f"s{number:03}-{kind}.ipynb"
        (folder / file).write_text(json.dumps(notebook))
        expected[file] = must
    return expected


def _answers(notebook: dict) -> list[dict]:
    return [c for c in notebook["cells"] if c.get("metadata", {}).get("nbgrader", {}).get("solution")]


def _source(notebook: dict, name: str):
    return next(c["source"] for c in notebook["cells"] if c["id"] == name)
