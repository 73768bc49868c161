"""A widget with the pipeline of a kernel over time: copies in, the core, copies out, and where the core waits."""

import math
from collections.abc import Callable

import traitlets

from course_lib import chips
from course_lib.viz.common.widget import Widget, source
from course_lib.viz.pipeline_chart import pipeline_data, pipeline_lanes, pipeline_words
from course_lib.viz.pipeline_chart.pipeline_lanes import Settings
from course_lib.viz.pipeline_chart.pipeline_still import still

MOST_BUFFERS, MOST_SHOWN, MOST_WORK = 8, 32, 1_000_000
_BLOCK, _LARGEST = 32 << 10, 16 << 20  # bytes of the plain kernel's block, and the most


def pipeline_chart(
    fn: Callable | None = None,
    *args,
    chip: str = "v5e",
    buffers: int | None = None,
    block: int | None = None,
    work: float | None = None,
    shown: int = 8,
    latency: str = "compiler",
) -> "PipelineChart":
    """Chart the first pipeline steps of the first kernel of ``fn(*args)``: a lane per buffer, and one for the core.

    The copies of each step are read off the kernel (``grid.walk``). The work per step, in cycles, is the compiler's, or
    the model's if there is no compiler; ``work`` replaces it, except for scalar code. Times are predicted (model), by
    ``roofline.pipeline``: the loop requests the blocks of a later step before it waits for its own, as pallas_call and
    emit_pipeline do, and its copies share the HBM bandwidth, which they do not in the compiler's simulator. Without
    ``fn``, the chart shows a plain kernel that reads and writes a block of ``block`` bytes (32 KiB) in each step and
    works on it for ``work`` cycles (250).

    ``buffers``: of each block read, 1 to 8, by default the kernel's own. ``shown``: steps. ``latency``: "compiler", as
    its simulator counts a copy, or "timings", as fitted to published timings. The reader can change all of these in the
    browser, and also the block: bytes and work of a step grow with it. ``args`` are arrays or ShapeDtypeStructs.
    Nothing is run.

    Raises ValueError for a function without a kernel, an unknown chip, and values that the controls would not accept;
    grid.UnreadableCall if a kernel's copies depend on array values.
    """
    chips.chip(chip)
    _check("shown", shown, 1, MOST_SHOWN)
    if buffers is not None:
        _check("buffers", buffers, 1, MOST_BUFFERS)
    if work is not None and not (_number(work) and 1 <= work <= MOST_WORK):
        raise ValueError(
            f"pipeline_chart: work={work!r} is not a number of cycles: it must be from 1 to {MOST_WORK:,}."
        )
    if latency not in ("compiler", "timings"):
        raise ValueError(f"pipeline_chart: latency={latency!r} is not known. Choose 'compiler' or 'timings'.")
    if fn is None:
        block = _BLOCK if block is None else block
        _check("block", block, 1, _LARGEST)
        data = pipeline_data.of_plain(chip, block, work)
    elif block is not None:
        raise ValueError(
            f"pipeline_chart: block={block!r} is only for the plain kernel. This function has its own blocks: leave "
            "out block=, or the function."
        )
    else:
        data = pipeline_data.of_kernel(fn, args, chip, work)
    return PipelineChart(
        data=data,
        buffers=buffers or min(data["buffers"], MOST_BUFFERS),
        work=data["work"],
        shown=shown,
        latency=latency,
    )


class PipelineChart(Widget):
    """The widget. Its traits are its settings."""

    _esm, _css = source(__file__, "dom.js", "units.js", "pipeline_model.js", "pipeline_lanes.js", "pipeline_words.js")
    data = traitlets.Dict().tag(sync=True)
    buffers = traitlets.Int(2).tag(sync=True)
    block = traitlets.Float(1.0).tag(sync=True)  # multiple of the kernel's own
    work = traitlets.Float(250.0).tag(sync=True)  # cycles per step with the kernel's own blocks, without scalar code
    shown = traitlets.Int(8).tag(sync=True)  # steps
    latency = traitlets.Enum(["compiler", "timings"], "compiler").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)  # the step described in words

    @property
    def settings(self) -> Settings:
        """The settings shown now."""
        return Settings(buffers=self.buffers, block=self.block, work=self.work, shown=self.shown, latency=self.latency)

    @property
    def played(self) -> pipeline_lanes.Played:
        """The steps of the pipeline, in cycles."""
        return pipeline_lanes.played(self.data, self.settings)

    def _still(self) -> tuple[str, str]:
        return still(self.data, self.settings), as_text(self)


def as_text(chart: PipelineChart) -> str:
    """Return the readout as lines of text."""
    about = (chart.data, chart.settings, chart.played)
    rows = [f"  {name}: {value}" for name, value in pipeline_words.readout(*about)]
    return "\n".join([pipeline_words.title(*about[:2]), *rows, *pipeline_words.hints(*about)])


def _check(name: str, size: object, least: int, most: int) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or not least <= size <= most:
        raise ValueError(
            f"pipeline_chart: {name}={size!r} is not valid: it must be a whole number from {least} to {most:,}."
        )


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
