"""The table of ``make bench`` for collectives: their predicted (model) schedule, and the algorithm that XLA names.

    python benchmarks/collective_rows.py    the table alone

Small arrays are recorded on CPU devices, and the bytes of their copies multiplied: nothing of 64 MiB is simulated.
"""

import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from course_lib import chips, compiler, judges
from course_lib.kernels.collectives.kernel import launch

CHIP = "v5e"
TOPOLOGIES = {4: "v5e:2x2", 8: "v5e:2x4", 16: "v5e:4x4"}
SIZES = {"8 KiB": 8 << 10, "1 MiB": 1 << 20, "4 MiB": 4 << 20, "64 MiB": 64 << 20}  # of what each device has, or gets
ROWS, COLUMNS = 16, 128  # of what is recorded, in f32: 8 rows travel each way
TEXT = """\
For rings of v5e chips, none of which has run them: the copies of a recorded run, one at a time on each link, with the
scaling book's 45 GB/s a link and 1 us a hop, and {hbm:.0f} GB/s of HBM for what a chip copies or adds. Arithmetic
takes no time. *Shard*: the bytes that each device has before it gathers, or gets when it scatters. *At least*: n - 1
shards through the two links of a device (one at the corner of a slice has no more), or n // 2 hops if they take longer.
XLA's own collective has no predicted time: its program names an algorithm, and not the copies that it consists of."""


class Row(NamedTuple):
    """One collective on a ring, in seconds: predicted (model)."""

    op: str
    devices: int
    shard: str
    seconds: float
    least: float
    busiest: float  # the share of the time in which the busiest link is busy
    xla: str


def gather(x):
    return _on_each(lambda x: launch(False, x, axis_name="d", sizes=None)[None])(x)


def scatter(x):
    return _on_each(lambda x: launch(True, x[0], axis_name="d", sizes=(8, COLUMNS)))(x)


OPS = {
    "all_gather": (gather, lambda x: lax.all_gather(x, "d", tiled=True)[None], ()),
    "reduce_scatter": (scatter, lambda x: lax.psum_scatter(x[0], "d", tiled=True), (1,)),
}


def _on_each(fn):
    return jax.shard_map(fn, in_specs=P("d"), out_specs=P("d"), check_vma=False)


def rows() -> list[Row]:
    """Return the rows. Needs 16 CPU devices."""
    return [row(op, n, shard) for op in OPS for n in TOPOLOGIES for shard in SIZES]


def row(op: str, n: int, shard: str) -> Row:
    """Return the schedule of a collective on n devices, and what XLA's program for the same arrays names."""
    fn, plain, each = OPS[op]
    size, links = SIZES[shard], chips.links(CHIP)
    x = jnp.ones((n,) * len(each) + (n * ROWS, COLUMNS), jnp.float32)
    found = judges.schedule_chips(fn, x, mesh=(n,), chip=CHIP, scale=size / (ROWS * COLUMNS * 4))
    least = max((n - 1) * size / (2 * links.link_bandwidth), n // 2 * links.hop_s)
    busy = max(seconds for lane, seconds in found.busy().items() if lane.startswith("link"))
    whole = jax.ShapeDtypeStruct((*x.shape[:-2], n * size // (4 * COLUMNS), COLUMNS), x.dtype)
    return Row(op, n, shard, found.seconds, least, busy / found.seconds, xla_names(plain, whole, n))


def xla_names(plain, x, n: int) -> str:
    """Return the algorithm that XLA's program names for its own collective, "?" if it names none."""
    report = compiler.compile_chips(
        lambda x: _on_each(plain)(x), x, mesh=(n,), axes=("d",), in_specs=(P("d"),), topology=TOPOLOGIES[n]
    )
    return ", ".join(dict.fromkeys(re.findall(r'"emitter":"(\w+)"', report.hlo))) or "?"


def part() -> list[str]:
    """Return the part of docs/results.md."""
    from bench_kernels import table

    head = ("collective", "devices", "shard", "ours", "at least", "ours / at least", "busiest link", "XLA's algorithm")
    cells = [
        (
            *(r.op, str(r.devices), r.shard, f"{1e6 * r.seconds:,.1f} us", f"{1e6 * r.least:,.1f} us"),
            *(f"{r.seconds / r.least:.2f}", f"{r.busiest:.0%}".replace("%", " %"), r.xla),
        )
        for r in rows()
    ]
    text = TEXT.format(hbm=chips.chip(CHIP).hbm_bandwidth / 1e9)
    return ["## Collectives: predicted (model)", text, table(head, cells)]


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", max(TOPOLOGIES))
    print("\n\n".join(part()))
