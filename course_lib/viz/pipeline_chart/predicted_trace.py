"""The first steps of a kernel as a trace in Chrome's format, for readers of profiles: predicted, not recorded."""

from collections.abc import Callable

from course_lib import vocabulary
from course_lib.viz.pipeline_chart import pipeline_lanes
from course_lib.viz.pipeline_chart.pipeline_chart import pipeline_chart


def predicted_trace(fn: Callable, *args, chip: str = "v5e", shown: int = 8) -> dict:
    """Return what ``pipeline_chart(fn, *args)`` shows, for ``json.dump``: a thread per lane, times in microseconds.

    https://ui.perfetto.dev opens such a file, and ``trace_lanes`` draws it. The times are predicted (model), and
    "about" says so: they come from lesson 5's loop with the compiler's latency and, if there is a compiler, its work.
    Raises what ``pipeline_chart`` raises.
    """
    chart = pipeline_chart(fn, *args, chip=chip, shown=shown)
    data, settings, us = chart.data, chart.settings, 1e6 / chart.data["clock"]
    lanes = pipeline_lanes.lanes(data, settings)
    names = [
        {"name": "thread_name", "ph": "M", "pid": 0, "tid": number, "args": {"name": lane}}
        for number, lane in enumerate(lanes)
    ]
    events = [
        {"name": bar.kind, "ph": "X", "pid": 0, "tid": lanes.index(bar.lane), "args": {"step": bar.step}}
        | {"ts": round(bar.start * us, 3), "dur": round((bar.end - bar.start) * us, 3)}
        for bar in pipeline_lanes.bars(chart.played, settings)
    ]
    about = f"{data['kernel']} on a {chip}, its first {shown} steps: {vocabulary.MODEL}, not recorded on any chip"
    return {"about": about, "displayTimeUnit": "ns", "traceEvents": names + events}
