"""Kernels compared with XLA and with other libraries: predicted for a v5e, and measured if there is a TPU.

    python benchmarks/bench_kernels.py            the table
    python benchmarks/bench_kernels.py --write    and write it to docs/results.md
    python benchmarks/bench_kernels.py matmul     only rows whose name or shape contains "matmul"
    python benchmarks/bench_kernels.py --long     and simulate XLA's largest matmul whole: 10 min, 16 GiB

A predicted (compiler) time is the cycles over the clock rate, or the HBM bytes over the bandwidth if that takes longer.
Both figures of a ratio are from one run. An implementation that is not installed, does not compile or gets no cycles
from the simulator has a footnote number in its place, and the reason below the table.
"""

import argparse
import contextlib
import dataclasses
import datetime
import functools
import importlib.metadata
import platform
import statistics
import sys
from collections.abc import Callable, Sequence

import jax
import results_page
from jax._src import hardware_utils

CHIP = "v5e"
# Limits of one compilation, more generous than a learner's because the table takes minutes anyway; and with --long.
USUAL = {"time_limit_s": 120, "memory_bytes": 12 << 30}
LONG = {"time_limit_s": 1500, "memory_bytes": 18 << 30}
PREDICTED = """\
For a {chip}, on which nothing here has run: the time is the compiler's cycles over the clock, or the bytes between HBM
and VMEM over the bandwidth where that takes longer. Sizes of a product are rows x depth x columns. *At least* is what
the data sheet's peaks allow; *of that*, which share of them ours reaches: of the MXU's peak where it says compute, of
the HBM bandwidth where it says HBM; 100 % there says that no cycle is in the way of the copies, and on a chip copies
reach about {hbm:.2f} of the bandwidth ([measured.md](measured.md)).

Products compare well. XLA's elementwise and row-wise code does not: the simulator may find it too slow, and does not
count what it waits for between two fusions ([compiler.md](compiler.md))."""
MODELS = """\
Shapes that no power of two divides are left as they are. *At least* counts each number once, without the padding that
HBM holds with it; a few rows take longer, as two copies take their latency. Before a product XLA brings one operand
into VMEM, while the program before still runs, if there is one (a cross-program prefetch, in what it compiles). Its
figure leaves that out, and ours counts every copy; *with that copy* counts XLA's too."""
DRAWN = "drawn"  # where a shape occurs that was drawn at random
DRAWN_SHAPES = """\
Matmuls in bf16, {count} of them, whose sizes a generator of random numbers drew (seed {seed}): 8 to 8,192 rows, and 64
to 8,192 for depth and columns, uniform in their logarithms, and one size in four left odd. Most are small, so a copy
decides. XLA's figure leaves out the one that it makes ahead of the matmul, which for a few rows is nearly all there is
to do; *with that copy* compares the whole work."""
GUIDE = """\
keras.io's guide on custom kernels multiplies two f32 matrices of 8192 x 8192 in tiles of 128 x 128, each from 128 whole
rows and 128 whole columns, with a ReLU at the end. Every tile reads its columns anew, so that the second matrix passes
through HBM 64 times. All of these take f32 and multiply in one pass of bf16, as JAX does on a TPU unless it is asked
for more."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """The times of one implementation, in seconds; ``why`` says why there is no prediction, or no measurement."""

    predicted: float | None = None
    hbm_bytes: int | None = None
    why: str = ""
    note: str = ""
    measured: tuple[float, float, float] | None = None  # median and quartiles
    why_not_measured: str = ""
    with_fetch: float | None = None  # predicted, including the copies that precede a program of one operation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A row with its figures. ``least_s`` is the bound from the chip's data sheet, and ``by`` the part that sets it."""

    row: object
    figures: dict[str, Figure]
    least_s: float
    by: str

    def ratio(self, one: str, other: str) -> float | None:
        a, b = (self.figures.get(name, Figure()).predicted for name in (one, other))
        return a / b if a and b else None

    def ratio_with_fetch(self, one: str, other: str) -> float | None:
        a, b = (self.figures.get(name, Figure()) for name in (one, other))
        return a.predicted / b.with_fetch if a.predicted and b.with_fetch else None


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="?", default="", help="only rows whose name or shape contains this")
    parser.add_argument("--long", action="store_true", help="simulate what takes ten minutes and 16 GiB of memory too")
    parser.add_argument("--write", action="store_true", help="write docs/results.md too")
    arguments = parser.parse_args(argv)
    if arguments.write and arguments.only:
        parser.error("--write writes every row: leave out the word that chooses some")
    if not hardware_utils.num_available_tpu_chips_and_device_id()[0] and not hardware_utils.has_visible_nvidia_gpu():
        jax.config.update("jax_platforms", "cpu")  # otherwise JAX looks for a TPU, and prints what it did not find
    with contextlib.suppress(RuntimeError):  # JAX is in use already
        jax.config.update("jax_num_cpu_devices", 16)  # for the schedules of collectives
    import collective_rows
    import kernel_rows

    from course_lib import compiler

    if compiler.libtpu_version() is None:
        parser.exit(0, f"No table: {compiler.missing_libtpu()}\n")
    lines = []
    wanted = [row for row in kernel_rows.rows() if arguments.only.lower() in words(row).lower()]
    for number, row in enumerate(wanted, 1):
        show_progress(f"{number} of {len(wanted)}: {words(row)}")
        lines.append(line_of(row, LONG if arguments.long else USUAL))
    show_progress("")
    if not lines:
        parser.error(f"no row contains {arguments.only!r}")
    text = page(lines, datetime.date.today(), [] if arguments.only else collective_rows.part())
    print(text)
    if arguments.write:
        results_page.write(text)


def words(row) -> str:
    """Return the name of a row."""
    return f"{row.kernel} {row.shape} {row.dtype} {row.model}".strip()


def line_of(row, limits: dict = USUAL) -> Line:
    """Return a row's figures, with every implementation compiled for the chip, and timed if possible."""
    least = least_time(row)
    figures = {name: figure(row, name, limits) for name in row.implementations}
    return Line(row=row, figures=figures, least_s=least.seconds, by=least.by)


def least_time(row):
    """Return the lower bound from the chip's data sheet for a row: a ``bench.Bound``."""
    import kernel_rows

    from course_lib import bench, chips

    plain = row.implementations[kernel_rows.XLA]()
    least = bench.bound(plain, *row.args, chip=CHIP)
    if row.reads_all:
        arrays = jax.tree.leaves((row.args, jax.eval_shape(plain, *row.args)))
        moved = max(least.hbm_bytes, sum(a.size * a.dtype.itemsize for a in arrays))
        least = dataclasses.replace(least, hbm_bytes=moved, memory_s=moved / chips.chip(CHIP).program_bandwidth)
    return dataclasses.replace(least, compute_s=row.passes * row.share * least.compute_s)


def figure(row, name: str, limits: dict = USUAL) -> Figure:
    """Return the figure of one implementation of a row."""
    import kernel_rows

    try:
        fn = row.implementations[name]()
    except (ImportError, AttributeError) as error:
        return Figure(why=f"not here: {error}", why_not_measured="not here")
    found = Figure()
    if name in row.choices:
        fn, found = with_best_blocks(fn, row, name, limits)
    if not found.why:
        found = dataclasses.replace(predicted(fn, row.args, limits), note=found.note)
    return measured(found, fn, row.args, is_kernel=name != kernel_rows.XLA)


def with_best_blocks(fn: Callable, row, name: str, limits: dict) -> tuple[Callable, Figure]:
    """Return an implementation that takes its blocks from the caller, with those that autotune finds."""
    from course_lib import bench

    try:
        tuned = bench.autotune(fn, *row.args, candidates=row.choices[name], chip=CHIP, limits=limits)
    except ValueError as error:
        return fn, Figure(why=str(error))
    count = len(tuned.candidates)
    note = f"with the best of {count} choices of blocks: {tuned.best}" if count > 1 else f"with blocks {tuned.best}"
    return functools.partial(fn, blocks=tuned.best), Figure(note=note)


def predicted(fn: Callable, args: tuple, limits: dict) -> Figure:
    from course_lib import compiler

    report = compiler.compile_tpu(fn, *args, chip=CHIP, **limits)
    if not report.ok:
        return Figure(why=f"{report.refusal}: {report.error.what}")
    if report.seconds is None:
        return Figure(why="it compiles; " + "; ".join(report.notes[:1]), hbm_bytes=report.hbm_bytes)
    return Figure(predicted=report.seconds, hbm_bytes=report.hbm_bytes, with_fetch=with_fetch(report))


def with_fetch(report) -> float:
    """Return the seconds including the copies that precede a single operation; with several they might be hidden."""
    from course_lib import chips

    timed = [op.seconds for op in report.ops if op.seconds]
    ahead = sum(op.hbm_bytes or 0 for op in report.ops if op.kind == "copy-start")
    if len(timed) != 1:
        return report.seconds
    return max(report.seconds, timed[0] + ahead / chips.chip(report.chip).program_bandwidth)


def measured(found: Figure, fn: Callable, args: tuple, is_kernel: bool) -> Figure:
    """Add the time on this machine's TPU or GPU, if there is one."""
    from course_lib import bench

    try:
        device = bench.accelerator()
        keys = jax.random.split(jax.random.key(0), len(args))
        arrays = [drawn(key, a) for key, a in zip(keys, args, strict=True)]
        if is_kernel and not holds_a_kernel(jax.jit(fn).lower(*arrays).as_text()):
            return dataclasses.replace(found, why_not_measured=f"no kernel for a {device.device_kind}: it is plain JAX")
        times = bench.measure(fn, *arrays)
    except (bench.NoAccelerator, bench.Impossible) as error:
        return dataclasses.replace(found, why_not_measured=str(error))
    except Exception as error:  # whatever a foreign library raises on a device it does not support
        return dataclasses.replace(found, why_not_measured=f"{type(error).__name__}: {error}".splitlines()[0])
    return dataclasses.replace(found, measured=(times.seconds, *times.quartiles))


def drawn(key: jax.Array, a) -> jax.Array:
    """Return random values for an argument given only as a shape; return any other as an array."""
    return jax.random.normal(key, a.shape, a.dtype) if isinstance(a, jax.ShapeDtypeStruct) else jax.numpy.asarray(a)


def holds_a_kernel(program: str) -> bool:
    """Whether a lowered program contains a Pallas kernel, for a TPU or for a GPU."""
    return any(name in program for name in ("tpu_custom_call", "mosaic_gpu", "triton"))


def page(lines: list[Line], date: datetime.date, collectives: Sequence[str] = ()) -> str:
    """Return the tables as Markdown that is also readable in a terminal."""
    from course_lib import roofline, vocabulary

    notes: list[str] = []
    drawn_shapes = [line for line in lines if line.row.model == DRAWN]
    of_models = [line for line in lines if line.row.model not in ("", DRAWN)]
    lines = [line for line in lines if not line.row.model]
    parts = [
        "# Kernels beside XLA",
        f"Written by `make bench ARGS=--write` on {date.isoformat()}, with {versions()}.",
        f"## {vocabulary.COMPILER.capitalize()}",
        PREDICTED.format(chip=CHIP, hbm=roofline.FITTED[CHIP].hbm),
        table(HEAD, [cells(line, notes) for line in lines]),
        *models_part(of_models, notes),
        *drawn_part(drawn_shapes, notes),
        *guide_part(lines, notes),
        *collectives,
        *measured_part(lines + of_models + drawn_shapes),
        *(["## Notes", "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))] if notes else []),
    ]
    return "\n\n".join(parts) + "\n"


HEAD = ("kernel", "shape", "dtype", "ours", "XLA", "ours / XLA", "Pallas ops", "Tokamax", "at least", "of that")


def cells(line: Line, notes: list[str]) -> tuple[str, ...]:
    """Return a row of the table."""
    import kernel_rows as k

    ratio, ours = line.ratio(k.OURS, k.XLA), line.figures[k.OURS].predicted
    return (
        line.row.kernel,
        line.row.shape,
        line.row.dtype,
        *(cell(line.figures.get(name), notes) for name in (k.OURS, k.XLA)),
        f"{ratio:.3f}" if ratio else "",
        *(cell(line.figures.get(name), notes) for name in (k.PALLAS_OPS, k.TOKAMAX)),
        f"{us(line.least_s)} {line.by}",
        f"{line.least_s / ours:.1%}".replace("%", " %") if ours else "",
    )


def cell(figure: Figure | None, notes: list[str]) -> str:
    """Return a predicted time, or the number of the note that says why there is none."""
    if figure is None:
        return ""
    said = figure.why or figure.note
    mark = f"[{noted(said, notes)}]" if said else ""
    return f"{us(figure.predicted)} {mark}".strip() if figure.predicted else mark


def models_part(lines: list[Line], notes: list[str]) -> list[str]:
    """Return the table of shapes that occur in models, with a summary of the ratios."""
    import kernel_rows as k

    if not lines:
        return []
    head = (
        "where",
        "kernel",
        "shape",
        "dtype",
        "ours",
        "XLA",
        "ours / XLA",
        "with that copy",
        "at least",
        "ours / at least",
    )
    rows = [
        (
            line.row.model,
            *(line.row.kernel, line.row.shape, line.row.dtype),
            *(cell(line.figures.get(name), notes) for name in (k.OURS, k.XLA)),
            ratio_text(line.ratio(k.OURS, k.XLA)),
            ratio_text(line.ratio_with_fetch(k.OURS, k.XLA)),
            f"{us(line.least_s)} {line.by}",
            ratio_text(over_least(line)),
        )
        for line in lines
    ]
    return ["## Shapes of models", MODELS, table(head, rows), "\n".join(summary(lines))]


def drawn_part(lines: list[Line], notes: list[str]) -> list[str]:
    """Return the table of the matmuls whose shapes were drawn, the worst first, with a summary of the ratios."""
    import drawn_rows
    import kernel_rows as k

    if not lines:
        return []
    lines = sorted(lines, key=lambda line: -(line.ratio_with_fetch(k.OURS, k.XLA) or 0))
    rows = [
        (
            line.row.shape,
            *(cell(line.figures.get(name), notes) for name in (k.OURS, k.XLA)),
            ratio_text(line.ratio(k.OURS, k.XLA)),
            ratio_text(line.ratio_with_fetch(k.OURS, k.XLA)),
            f"{us(line.least_s)} {line.by}",
        )
        for line in lines
    ]
    head = ("shape", "ours", "XLA", "ours / XLA", "with that copy", "at least")
    said = DRAWN_SHAPES.format(count=len(lines), seed=drawn_rows.SEED)
    return ["## Shapes that nobody chose", said, table(head, rows), "\n".join(summary(lines))]


def summary(lines: list[Line]) -> list[str]:
    """Return the median and the worst ratio of matmuls and of row-wise ops, against XLA and against the bound."""
    import kernel_rows as k

    products = [line for line in lines if line.row.kernel == "matmul"]
    kinds = {"Products": products, "Row-wise": [line for line in lines if line.row.kernel != "matmul"]}
    found = []
    for name, its in kinds.items():
        ratios = {
            "ours / XLA": [line.ratio(k.OURS, k.XLA) for line in its],
            "with that copy": [line.ratio_with_fetch(k.OURS, k.XLA) for line in its],
            "ours / at least": [over_least(line) for line in its],
        }
        parts = [
            f"{what} median {statistics.median(known):.2f}, worst {max(known):.2f}"
            for what, values in ratios.items()
            if (known := [value for value in values if value])
        ]
        if parts:
            found.append(f"- {name}, {len(its)} shapes: {'; '.join(parts)}.")
    return found


def over_least(line: Line) -> float | None:
    import kernel_rows as k

    ours = line.figures[k.OURS].predicted
    return ours / line.least_s if ours else None


def ratio_text(ratio: float | None) -> str:
    return f"{ratio:.2f}" if ratio else ""


def guide_part(lines: list[Line], notes: list[str]) -> list[str]:
    """Return the table that compares a public guide's kernel with ours."""
    import kernel_rows as k

    rows = [
        (name, cell(figure, notes), megabytes(figure.hbm_bytes), of(figure.predicted, line.figures[k.OURS].predicted))
        for line in lines
        if k.GUIDE in line.figures
        for name, figure in line.figures.items()
    ]
    if not rows:
        return []
    return [
        "## The kernel of a public guide, beside ours",
        GUIDE,
        table(("", "predicted (compiler)", "HBM", "/ ours"), rows),
    ]


def measured_part(lines: list[Line]) -> list[str]:
    """Return what was measured, or that nothing was, and why."""
    timed = {name: f.measured for line in lines for name, f in line.figures.items() if f.measured}
    if not timed:
        return ["## Measured", why_nothing(lines)]
    rows = [
        (line.row.kernel, line.row.shape, line.row.dtype, name, *map(us, figure.measured), "")
        if figure.measured
        else (line.row.kernel, line.row.shape, line.row.dtype, name, "", "", "", figure.why_not_measured)
        for line in lines
        for name, figure in line.figures.items()
    ]
    head = ("kernel", "shape", "dtype", "", "median", "a quarter below", "a quarter above", "not measured, because")
    return ["## Measured", f"On this machine's {jax.devices()[0].device_kind}, by its own clock.", table(head, rows)]


def why_nothing(lines: list[Line]) -> str:
    from course_lib import bench

    try:
        device = bench.accelerator().device_kind
    except bench.NoAccelerator:
        return "Nothing: the machine that made this page has no TPU or GPU."
    reasons = dict.fromkeys(f.why_not_measured for line in lines for f in line.figures.values())
    return f"Nothing, though there is a {device}: {'; '.join(filter(None, reasons))}."


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table with aligned columns."""
    widths = [max(3, *(len(row[n]) for row in (head, *rows))) for n in range(len(head))]
    rule = tuple("-" * w for w in widths)
    return "\n".join(
        "| " + " | ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)) + " |"
        for row in (head, rule, *rows)
    )


def noted(text: str, notes: list[str]) -> int:
    """Return the number of a note, counted from 1; add the note if it is new."""
    text = " ".join(text.split())
    if text not in notes:
        notes.append(text)
    return notes.index(text) + 1


def us(seconds: float) -> str:
    return f"{1e6 * seconds:,.1f} us"


def megabytes(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:,.0f} MB"


def of(seconds: float | None, ours: float | None) -> str:
    return f"{seconds / ours:.2f}" if seconds and ours else ""


def versions() -> str:
    """Return the versions of everything that a figure depends on."""
    from course_lib import compiler

    try:
        tokamax = importlib.metadata.version("tokamax")
    except importlib.metadata.PackageNotFoundError:
        tokamax = "not installed"
    return f"{compiler.tpu.versions()}, Tokamax {tokamax}, Python {platform.python_version()}"


def show_progress(text: str) -> None:
    """Print one line that overwrites itself, if stderr is a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text:78.78}" + ("" if text else "\r"), end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
