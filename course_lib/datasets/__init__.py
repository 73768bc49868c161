"""Real data sets small enough to lie beside the code, so that no notebook has to download one."""

import pathlib

import numpy as np

_IRIS = pathlib.Path(__file__).parent / "iris.csv"


def irises() -> tuple[np.ndarray, np.ndarray]:
    """Fisher's irises, (float32[150, 4], int32[150]): four measurements of each flower; its species, 0 to 2.

    The measurements are scaled to mean 0 and deviation 1. The flowers are shuffled, always alike, for the file has them
    in the order of their species.
    """
    table = np.loadtxt(_IRIS, delimiter=",", dtype=np.float32)
    table = np.random.default_rng(0).permutation(table)
    measured = table[:, :4]
    return (measured - measured.mean(axis=0)) / measured.std(axis=0), table[:, 4].astype(np.int32)


def trace_file(name: str) -> pathlib.Path:
    """The file of a profile that was recorded on a CPU, "keras_fit_waiting" or "keras_fit_ready", in Chrome's format.

    ``tools/record_traces.py`` recorded both. https://ui.perfetto.dev opens them.
    """
    return pathlib.Path(__file__).parent / f"{name}.trace.json"
