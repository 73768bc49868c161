"""Data sets small enough to ship with the code, so that no notebook has to download one."""

import dataclasses
import functools
import json
import pathlib

import numpy as np

_SEARCHES = pathlib.Path(__file__).parent / "product_searches.json"
_TORCH_RUN = pathlib.Path(__file__).parent / "torch_run.json"
_IRIS = pathlib.Path(__file__).parent / "iris.csv"


def irises() -> tuple[np.ndarray, np.ndarray]:
    """Return Fisher's irises: (float32[150, 4], int32[150]), four measurements of each flower and its species, 0 to 2.

    The measurements are scaled to mean 0 and standard deviation 1. The file is sorted by species, so the flowers are
    shuffled, always in the same order.
    """
    table = np.loadtxt(_IRIS, delimiter=",", dtype=np.float32)
    table = np.random.default_rng(0).permutation(table)
    measured = table[:, :4]
    return (measured - measured.mean(axis=0)) / measured.std(axis=0), table[:, 4].astype(np.int32)


def trace_file(name: str) -> pathlib.Path:
    """Return the path of a profile recorded on a CPU, in Chrome's format: "keras_fit_waiting" or "keras_fit_ready".

    ``tools/record_traces.py`` recorded both. https://ui.perfetto.dev opens them.
    """
    return pathlib.Path(__file__).parent / f"{name}.trace.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """All legal blocks (bm, bk, bn) for one matmul on a v5e, and the time the compiler predicts for each.

    ``seconds``: predicted (compiler); None if the compiler refuses the blocks. ``ours``: the twelve candidates that our
    own tuner tried, in its order.
    """

    seconds: dict[tuple[int, int, int], float | None]
    ours: tuple[tuple[int, int, int], ...]
    versions: str  # the versions that made the predictions

    def times_best(self, choices) -> float | None:
        """Return the shortest time among ``choices`` over the shortest of all; None if all of them are refused."""
        known = [self.seconds[blocks] for blocks in choices if self.seconds[blocks] is not None]
        return min(known) / min(s for s in self.seconds.values() if s is not None) if known else None


@functools.cache
def product_searches() -> dict[tuple[int, int, int], Search]:
    """Return {(m, k, n): the search for its blocks} for bfloat16 matmuls, as ``tools/landscapes.py`` recorded it."""
    file = json.loads(_SEARCHES.read_text("utf-8"))
    return {
        _numbers(shape): Search(
            seconds={_numbers(blocks): us and us / 1e6 for blocks, us in kept["microseconds"].items()},
            ours=tuple(map(_numbers, kept["ours"])),
            versions=file["versions"],
        )
        for shape, kept in file["products"].items()
    }


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(map(int, words.split()))


def product_searches_file() -> pathlib.Path:
    """Return the path of the file that holds ``product_searches``."""
    return _SEARCHES


def torch_run() -> dict:
    """Return the training run of lesson 17 as ``tools/record_torch_run.py`` recorded it, for readers without PyTorch.

    "about" has the date and the versions; "our kernels" and "PyTorch" the losses of 20 steps with either layer; "v5e"
    the names of the kernels in the programs for a v5e, forward and backward.
    """
    return json.loads(_TORCH_RUN.read_text("utf-8"))


def torch_run_file() -> pathlib.Path:
    """Return the path of the file that holds ``torch_run``."""
    return _TORCH_RUN
