"""A recorder of two profiles for lesson 11: Keras fits a small model on a CPU, once with a slow loader.

    python tools/record_traces.py       writes course_lib/datasets/keras_fit_*.trace.json

Kept are the training steps, the loader and XLA's operations, with times relative to the first of them, in the format of
Chrome's traces, which https://ui.perfetto.dev opens. Names of machines and folders are removed.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import json  # noqa: E402
import pathlib  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402

import jax  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from jax.profiler import ProfileData  # noqa: E402

from course_lib import checks, datasets  # noqa: E402

FIRST, LAST = 2, 4  # training steps that are recorded
WAITS = {"waiting": 0.02, "ready": 0.0}  # seconds that the loader sleeps for each batch
LOAD, STEP = "load a batch", "train"
ABOUT = "measured on a CPU with two cores: Keras {keras}, JAX {jax}, three steps of fit(), a dense model"


class Batches(keras.utils.PyDataset):
    """Six batches of noise; each takes ``wait`` seconds to load."""

    def __init__(self, wait: float):
        super().__init__()
        random = np.random.default_rng(0)
        self.wait = wait
        self.batch = tuple(random.normal(size=(256, n)).astype("float32") for n in (512, 10))

    def __len__(self) -> int:
        return 6

    def __getitem__(self, number: int) -> tuple:
        with jax.profiler.TraceAnnotation(LOAD):
            time.sleep(self.wait)
        return self.batch


class Profile(keras.callbacks.Callback):
    """A callback that profiles training steps FIRST to LAST into a folder."""

    def __init__(self, folder: str):
        super().__init__()
        self.folder = folder

    def on_train_batch_begin(self, batch, logs=None):
        if batch == FIRST:
            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0  # tracing every Python call would slow Python down
            jax.profiler.start_trace(self.folder, profiler_options=options)
        self.step = jax.profiler.StepTraceAnnotation(STEP, step_num=batch)
        self.step.__enter__()

    def on_train_batch_end(self, batch, logs=None):
        self.step.__exit__(None, None, None)
        if batch == LAST:
            jax.profiler.stop_trace()


def main() -> None:
    checks.start()
    layers = [keras.layers.Dense(512, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((512,)), *layers, keras.layers.Dense(10)])
    model.compile("sgd", "mse")
    model.fit(Batches(0.0), verbose=0)  # compiles
    for name, wait in WAITS.items():
        with tempfile.TemporaryDirectory() as folder:
            model.fit(Batches(wait), verbose=0, callbacks=[Profile(folder)])
            (file,) = pathlib.Path(folder).rglob("*.xplane.pb")
            events = _events(ProfileData.from_file(str(file)))
        datasets.trace_file(f"keras_fit_{name}").write_text(_as_text(events), "utf-8")
        print(name, len(events), "events")


def _events(profile: ProfileData) -> list[dict]:
    """Return Chrome's complete events: Keras' work on thread 0, XLA's operations on threads 1 and up."""
    kept = []
    for plane in profile.planes:
        threads = sorted((line for line in plane.lines if line.name.startswith("tf_XLA")), key=lambda line: line.name)
        for line in plane.lines:
            thread = next((n for n, each in enumerate(threads, 1) if each.name == line.name), 0)
            kept += [_event(event, thread) for event in line.events if _wanted(event.name, thread)]
    begin = min(event["ts"] for event in kept)
    return sorted(({**e, "ts": round(e["ts"] - begin, 1)} for e in kept), key=lambda e: (e["tid"], e["ts"]))


def _wanted(name: str, thread: int) -> bool:
    return name in (LOAD, STEP) if thread == 0 else "::" not in name and not name.startswith("end: ")


def _event(event, thread: int) -> dict:
    us = {"ts": event.start_ns / 1e3, "dur": round(event.duration_ns / 1e3, 1)}
    return {"name": event.name, "ph": "X", "pid": 0, "tid": thread, **us}


def _as_text(events: list[dict]) -> str:
    names = {0: "fit, Python"} | {n: f"XLA, thread {n}" for n in sorted({e["tid"] for e in events} - {0})}
    lanes = [
        {"name": "thread_name", "ph": "M", "pid": 0, "tid": n, "args": {"name": name}} for n, name in names.items()
    ]
    about = ABOUT.format(keras=keras.__version__, jax=jax.__version__)
    rows = ",\n".join(json.dumps(row) for row in lanes + events)
    return f'{{"about": {json.dumps(about)}, "displayTimeUnit": "ms", "traceEvents": [\n{rows}\n]}}\n'


if __name__ == "__main__":
    main()
