"""Kernels compared with cuBLAS, XLA and other libraries on this machine's NVIDIA GPU: checked first, then timed.

    python benchmarks/bench_gpu.py            the tables
    python benchmarks/bench_gpu.py --write    and append them to docs/results.md
    python benchmarks/bench_gpu.py matmul gelu    only rows whose name or shape contains "matmul" or "gelu"
    python benchmarks/bench_gpu.py --tune     which of our blocks are the fastest here, row by row
    python benchmarks/bench_gpu.py --json rows.json --limit-s 200    and the figures as JSON; no row begins after 200 s

Every implementation of a row gets normally distributed values, and its result is compared with plain JAX in f32. Wrong
results are not timed. The rest are timed by the device's own clock, after a warm-up, with arguments in rotation that
exceed the L2 cache; a time that the GPU's data sheet rules out is refused (``course_lib.bench``).
"""

import argparse
import dataclasses
import datetime
import functools
import json
import pathlib
import time
from collections.abc import Callable

import gpu_rows
import jax
import jax.numpy as jnp
import results_page
from bench_kernels import show_progress, table, us
from gpu_rows import TRITON
from jax._src import hardware_utils
from kernel_rows import OURS, XLA

from course_lib import bench, text
from course_lib.bench.autotune import label
from course_lib.kernels.common import chip as this_chip
from course_lib.kernels.dispatch import launch

WRONG = {"bf16": 2**-6, "f32": 2**-12}  # an error from here on is not rounding: see ``error_of``
ROUNDS = 30
TABLES = """\
### {kind}, {date}

{versions}. Numbers are drawn from N(0, 1); arguments come in turn from so many copies that the L2 cache cannot hold
them. *Error* is the largest of |o - r| / (|r| + rms(r)), where r is computed in f32, and rms is its row's; from
{wrong:.3f} on nothing is timed. Times are medians of {rounds} rounds, with half the distance of their quartiles.
*Of the sheet*: the share of what NVIDIA prints for this GPU that ours reaches; *of a copy*: of the bandwidth that the
copy in the first row reaches."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """The result of one implementation: its error and its times; ``why`` says what is missing, and why."""

    error: float | None = None
    measured: bench.Measured | None = None
    why: str = ""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", help="only rows whose name or shape contains one of these")
    parser.add_argument("--tune", action="store_true", help="try our blocks, and say which are the fastest")
    parser.add_argument("--write", action="store_true", help="append the tables to docs/results.md too")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file too, row by row")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="begin no row after so many seconds")
    arguments = parser.parse_args(argv)
    until = time.monotonic() + arguments.limit_s
    if arguments.write and (arguments.only or arguments.tune):
        parser.error("--write writes every row: leave out --tune, and the word that chooses some")
    try:
        device = bench.accelerator()
    except bench.NoAccelerator as error:
        parser.exit(1, f"{no_gpu(error)}\n")
    only = [word.lower() for word in arguments.only or [""]]
    rows = [row for row in gpu_rows.rows() if any(word in words(row).lower() for word in only)]
    if not rows:
        parser.error(f"no row contains {' or '.join(map(repr, only))}")
    if arguments.tune:
        for row in rows:
            if row.choices and time.monotonic() < until:
                print(tuned(row), end="\n\n", flush=True)
        return
    part = page(device, measured(rows, until, arguments.json), datetime.date.today())
    print(part)
    if arguments.write:
        results_page.append(part)


def no_gpu(error: bench.NoAccelerator) -> str:
    """Say what to do: either JAX for CUDA is missing, or the GPU."""
    if not hardware_utils.has_visible_nvidia_gpu():
        return str(error)
    return (
        f"This machine has an NVIDIA GPU, and JAX here uses the {jax.default_backend()}. Install JAX for CUDA into "
        f"this environment (.venv/bin/pip install 'jax[cuda13]=={jax.__version__}', about 3 GB), and try again."
    )


Line = tuple[gpu_rows.Row, dict[str, Found]]


def measured(rows: list[gpu_rows.Row], until: float = float("inf"), file: pathlib.Path | None = None) -> list[Line]:
    """Return each row with the results of its implementations, those begun ``until`` then; write them to a file too."""
    lines = []
    for number, row in enumerate(rows, 1):
        if time.monotonic() > until:
            break
        show_progress(f"{number} of {len(rows)}: {words(row)}")
        arrays = operands(row)
        right = reference(row.plain, arrays)
        lines.append((row, {name: found(row, name, load, arrays, right) for name, load in row.implementations.items()}))
        if file:
            file.write_text(json.dumps([as_json(*line) for line in lines], indent=1))
    show_progress("")
    return lines


def as_json(row: gpu_rows.Row, figures: dict[str, Found]) -> dict:
    """Return a row and its results with nothing left out: each round in seconds, how it was measured, and errors."""

    def of(figure: Found) -> dict:
        times = figure.measured
        said = {"times": times.times, "how": times.how, "copies": times.copies} if times else {}
        return said | {"error": None if figure.error is None else float(figure.error), "why": figure.why}

    said = {name: of(figure) for name, figure in figures.items()}
    return {"kernel": row.kernel, "shape": row.shape, "dtype": row.dtype, "found": said}


def words(row: gpu_rows.Row) -> str:
    """Return the name of a row."""
    return f"{row.kernel} {row.shape}"


def operands(row: gpu_rows.Row) -> list[jax.Array]:
    """Return normally distributed values, the same ones each time."""
    keys = jax.random.split(jax.random.key(0), len(row.args))
    return [jax.random.normal(key, arg.shape, arg.dtype) for key, arg in zip(keys, row.args, strict=True)]


def reference(plain: Callable, arrays: list[jax.Array]):
    """Return the correct result, computed in f32, including its matmuls."""
    with jax.default_matmul_precision("highest"):
        return jax.jit(plain)(*(array.astype(jnp.float32) for array in arrays))


def found(row: gpu_rows.Row, name: str, load: Callable[[], Callable], arrays: list[jax.Array], right) -> Found:
    """Check and time the implementation called ``name``, unless it is wrong; say why there is no time."""
    error = None
    try:
        with launch.gpu_kernels(strict=True, by_triton=name == TRITON):  # plain JAX must not pass for a kernel of ours
            fn = load()
            error = error_of(jax.jit(fn)(*arrays), right)
            if not error < WRONG[row.dtype]:
                return Found(error=error, why=f"wrong: its error is {error:.3g}")
            return Found(error=error, measured=bench.measure(fn, *arrays, rounds=ROUNDS, plain=row.least or row.plain))
    except (ImportError, AttributeError) as missing:
        return Found(why=f"not here: {missing}")
    except this_chip.NoKernel as why:
        return Found(why=f"no kernel: {why}")
    except Exception as failure:  # including whatever a foreign library raises on a GPU it does not support
        return Found(error=error, why=f"{type(failure).__name__}: {failure}".splitlines()[0])


@functools.partial(jax.jit, static_argnames="axis")
def error_of(out, right, *, axis: int | None = -1) -> jax.Array:
    """Return the largest |o - r| / (|r| + rms(r)) over all elements of all results, with the rms of the element's row.

    With ``axis=None`` it is the rms of the whole array: gradients may vanish in a row. Two NaNs and two equal
    infinities are no error; one NaN is an infinite one.
    """

    def worst(o, r):
        o, r = o.astype(jnp.float32), r.astype(jnp.float32)
        finite = jnp.where(jnp.isfinite(r), r, 0)
        off = jnp.abs(o - r) / (jnp.abs(r) + jnp.sqrt(jnp.mean(finite * finite, axis=axis, keepdims=True)))
        same = (o == r) | (jnp.isnan(o) & jnp.isnan(r))
        return jnp.max(jnp.where(same, 0, jnp.where(jnp.isnan(off), jnp.inf, off)))

    return jnp.max(jnp.stack(jax.tree.leaves(jax.tree.map(worst, out, right))))


def tuned(row: gpu_rows.Row) -> str:
    """Return our blocks for a row as a table, the fastest first."""
    arrays = operands(row)
    right, times, refused = reference(row.plain, arrays), {}, {}
    for number, (blocks, load) in enumerate(row.choices.items(), 1):
        show_progress(f"{words(row)}: {number} of {len(row.choices)}")
        tried = found(row, OURS, load, arrays, right)
        if tried.measured:
            times[blocks] = tried.measured
        else:
            refused[blocks] = tried.why
    show_progress("")
    ranked = sorted(times, key=lambda blocks: times[blocks].seconds)
    lines = [(label(b), us(times[b].seconds), f"{times[b].seconds / times[ranked[0]].seconds:.3f}") for b in ranked]
    lines += [(label(blocks), "", why) for blocks, why in refused.items()]
    return f"{words(row)}\n\n" + table(("blocks", "measured", "/ fastest"), lines)


def page(device: jax.Device, lines: list[Line], date: datetime.date) -> str:
    """Return the part that is appended to the results page: errors, times, and reasons."""
    copied = next((figures[XLA] for row, figures in lines if row.kernel == gpu_rows.COPY), Found())
    head = TABLES.format(
        kind=device.device_kind,
        date=date.isoformat(),
        versions=f"jax {jax.__version__}, {device.client.platform_version}".splitlines()[0],
        wrong=max(WRONG.values()),
        rounds=ROUNDS,
    )
    names = list(dict.fromkeys([OURS, XLA, *(name for _, figures in lines for name in figures)]))
    parts = [
        head,
        table(("kernel", "shape", "dtype", *names), [errors(row, figures, names) for row, figures in lines]),
        table(
            ("kernel", "shape", "dtype", *names, "ours / XLA", "rate of ours", "of the sheet", "of a copy"),
            [times(row, figures, names, copied) for row, figures in lines],
        ),
    ]
    reasons = dict.fromkeys(
        f"- {name}, {words(row)}: {figure.why}"
        for row, figures in lines
        for name, figure in figures.items()
        if figure.why
    )
    return "\n\n".join([*parts, *(["Not timed:\n\n" + "\n".join(reasons)] if reasons else [])])


def errors(row: gpu_rows.Row, figures: dict[str, Found], names: list[str]) -> tuple[str, ...]:
    """Return a row of the table of errors."""
    known = (figures.get(name, Found()).error for name in names)
    return row.kernel, row.shape, row.dtype, *("" if error is None else f"{float(error):.1e}" for error in known)


def times(row: gpu_rows.Row, figures: dict[str, Found], names: list[str], copied: Found) -> tuple[str, ...]:
    """Return a row of the table of times."""
    known = [figures.get(name, Found()) for name in names]
    ours, xla = (figures.get(name, Found()).measured for name in (OURS, XLA))
    return (
        *(row.kernel, row.shape, row.dtype),
        *(median(figure.measured) if figure.measured else "-" if figure.why else "" for figure in known),
        f"{ours.seconds / xla.seconds:.3f}" if ours and xla else "",
        *rates(ours or xla, copied.measured),
    )


def median(times: bench.Measured) -> str:
    return f"{us(times.seconds)} ± {100 * times.spread / 2:.1f} %"


def rates(times: bench.Measured | None, copied: bench.Measured | None) -> tuple[str, str, str]:
    """Return the rate, its share of the data sheet's peak, and, if limited by memory, its share of a copy's rate."""
    if times is None or times.bound is None:
        return "", "", ""
    least = times.bound
    share = text.percent(least.seconds / times.seconds)
    if least.compute_s >= least.memory_s:
        return f"{least.flops / times.seconds / 1e12:,.0f} TFLOP/s", share, ""
    bandwidth = least.hbm_bytes / times.seconds
    known = copied is not None and copied.bound is not None
    of_copy = text.percent(bandwidth * copied.seconds / copied.bound.hbm_bytes) if known else ""
    return f"{bandwidth / 1e9:,.0f} GB/s", share, of_copy


if __name__ == "__main__":
    main()
