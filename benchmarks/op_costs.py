"""What an operation in a kernel costs on a v5e, a v5p and a v6e, by the compiler: docs/op_costs.md.

    python benchmarks/op_costs.py            in the terminal
    python benchmarks/op_costs.py --write    write docs/op_costs.md, and the costs that compiler.op_prices() returns
    python benchmarks/op_costs.py sin        only rows whose name contains "sin"

Some 1,500 small compilations take five to ten minutes; the answers are cached, so the next run takes half a minute.
"""

import argparse
import datetime
import functools
import json
import pathlib
import re

import jax
import jax.numpy as jnp
import op_rows
from bench_kernels import noted, show_progress, table
from op_rows import BF16, F32, I32

from course_lib.compiler.op_cost import OpCost, op_cost

_ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, PRICES = _ROOT / "docs/op_costs.md", _ROOT / "course_lib/compiler/op_prices.json"
CHIPS = ("v5e", "v5p", "v6e")
ELEMENTS = 1024
UNITS = ("VPU", "EUP", "XLU", "MXU")
TEXT = """\
# What an operation costs in a kernel

Predicted by the compiler's simulator, on {date} ({versions}); nothing was measured.
A price is what one more application takes beside others of its kind, with a load of each operand and a store of the
result: throughput, not how long one alone takes. All operands lie in VMEM. `make op-costs` computes every row anew, and
`compiler.op_cost(f, x)` prices an operation of yours.

## On every element

Cycles for {elements:,} elements: one vector register of 32-bit numbers. In brackets stand the instructions of the
vector unit (VPU) and of the transcendental unit (EUP), on a v5e for f32. *JAX says* how JAX's page on writing TPU
kernels in Pallas has sorted the operation.

{elementwise}

On a v5e each bundle can hold 3 loads, 1 store, 4 operations of the VPU and 1 of the EUP. So a price is
max(stores, loads / 3, VPU / 4, EUP): of the {counted} f32 rows on a v5e {fit} are within 5 % of that. An operation of
the EUP also takes one of the four VPU slots, and the VPU's count includes it: `tanh(x)` alone is 1 VPU and 1 EUP. So
four VPU operations are free beside the store that an array needs anyway, or three if the EUP works too. The rule is a
lower bound: one VPU operation more, and `tanh(x), and 4 of the VPU` takes longer than the 1.25 cycles of its slots.

16 bits are priced on rows of 512 numbers. A v5e and a v5p compute bf16 in f32, and turn it there and back; a v6e has
operations of its own for it.

## From one dtype to another

VPU operations for {elements:,} elements on a v5e, from the row's dtype to the column's.

{casts}

## Where the layout decides

The last two axes lie in registers of 8 rows by 128 lanes. The operations are on f32 where nothing else is said. Cycles
of the whole operation, and its instructions on a v5e; XLU is the unit that moves numbers across lanes.

{layout}

## Products

Cycles of the whole product, rows x depth x columns.

{products}
"""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="?", default="", help="only rows whose name contains this")
    parser.add_argument("--write", action="store_true", help="write docs/op_costs.md too")
    arguments = parser.parse_args(argv)
    if arguments.write and arguments.only:
        parser.error("--write writes every row: leave out the word that chooses some")
    jax.config.update("jax_platforms", "cpu")
    if arguments.only:
        print(some(arguments.only))
        return
    text = page(datetime.date.today())
    print(text)
    if arguments.write:
        PAGE.write_text(text)
        PRICES.write_text(as_json(text))


def as_json(text: str) -> str:
    """Return the page's costs of elementwise operations as JSON, with null if the compiler refuses one."""
    table = text.split("## On every element")[1].split("On a v5e each bundle")[0]
    head, _, *lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line[:1] == "|"
    ]
    rows = {}
    for name, says, *cells in lines:
        filled = {column: cell for column, cell in zip(head[2:], cells, strict=True) if cell}
        cycles = {column: None if "refused" in cell else float(cell.split()[0]) for column, cell in filled.items()}
        units = dict(reversed(each.split()) for each in re.findall(r"[\d.]+ [VE]\w+", cells[0]))
        rows[name] = {"says": says, "cycles": cycles, "slots": {unit: float(n) for unit, n in units.items()}}
    versions = re.search(r"\((jax .*?)\)", text)[1]
    return json.dumps({"versions": versions, "columns": head[2:], "rows": rows}, indent=1) + "\n"


@functools.cache
def priced(group: str, name: str, dtype, chip: str) -> OpCost:
    """Return the cost of a row's operation on a chip; ``dtype`` applies to elementwise operations."""
    if group == "elementwise":
        row = op_rows.ELEMENTWISE[name]
        return op_cost(row.fn, *[op_rows.block(dtype)] * row.operands, chip=chip)
    fn, args = (op_rows.LAYOUT if group == "layout" else op_rows.PRODUCTS)[name]
    return op_cost(fn, *args, chip=chip)


def page(date: datetime.date) -> str:
    """Return the whole page."""
    notes: list[str] = []
    elementwise = table(ELEMENTWISE_HEAD, [elementwise_row(name, notes) for name in op_rows.ELEMENTWISE])
    casts = table(("", *op_rows.CASTS), [cast_row(name, notes) for name in op_rows.CASTS])
    layout = table(WHOLE_HEAD, [whole_row("layout", name, notes) for name in op_rows.LAYOUT])
    products = table(WHOLE_HEAD, [whole_row("products", name, notes) for name in op_rows.PRODUCTS])
    show_progress("")
    close = by_the_rule()
    text = TEXT.format(
        date=date.isoformat(),
        versions=priced("elementwise", "x", F32, "v5e").versions,
        elements=ELEMENTS,
        counted=len(close),
        fit=sum(close.values()),
        elementwise=elementwise,
        casts=casts,
        layout=layout,
        products=products,
    )
    said = "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))
    return f"{text}\n## Refused\n\n{said}\n"


ELEMENTWISE_HEAD = ("operation", "JAX says", "f32, v5e", "bf16, v5e", "int32, v5e", "f32, v5p", "f32, v6e", "bf16, v6e")
WHOLE_HEAD = ("operation", *CHIPS, "instructions, v5e")
_COLUMNS = ((F32, "v5e"), (BF16, "v5e"), (I32, "v5e"), (F32, "v5p"), (F32, "v6e"), (BF16, "v6e"))


def elementwise_row(name: str, notes: list[str]) -> tuple[str, ...]:
    show_progress(name)
    row = op_rows.ELEMENTWISE[name]
    cells = []
    for dtype, chip in _COLUMNS:
        wanted = row.integers if dtype == I32 else row.floats
        cost = priced("elementwise", name, dtype, chip) if wanted else None
        cells.append(elementwise_cell(cost, dtype, notes, units=(dtype, chip) == (F32, "v5e")))
    return (name, row.says, *cells)


def reason(cost: OpCost) -> str:
    """Return why it is refused, without the position in this tool's files."""
    return re.sub(r" in <lambda>, line \d+", "", cost.why)


def elementwise_cell(cost: OpCost | None, dtype, notes: list[str], units: bool) -> str:
    if cost is None:
        return ""
    if cost.why:
        return f"refused [{noted(reason(cost), notes)}]"
    share = ELEMENTS / op_rows.block(dtype).size
    slots = [f"{figure(cost.slots[unit] * share)} {unit}" for unit in ("VPU", "EUP") if cost.slots.get(unit)]
    return figure(cost.cycles * share) + (f" ({', '.join(slots)})" if units and slots else "")


def cast_row(name: str, notes: list[str]) -> tuple[str, ...]:
    show_progress(f"casts from {name}")
    given = op_rows.CASTS[name]
    x = op_rows.block(given) if jnp.dtype(given).itemsize == 4 else op_rows.array(64, 512, dtype=given)
    cells = []
    for wanted in op_rows.CASTS.values():
        if wanted == given:
            cells.append("")
            continue
        cost = op_cost(lambda x, wanted=wanted: x.astype(wanted), x)
        refused = cost.why and f"refused [{noted(reason(cost), notes)}]"
        cells.append(refused or figure(cost.slots.get("VPU", 0) * ELEMENTS / x.size))
    return (name, *cells)


def whole_row(group: str, name: str, notes: list[str]) -> tuple[str, ...]:
    show_progress(name)
    costs = [priced(group, name, None, chip) for chip in CHIPS]
    cells = [f"refused [{noted(reason(cost), notes)}]" if cost.why else figure(cost.cycles) for cost in costs]
    slots = ", ".join(f"{figure(costs[0].slots[unit])} {unit}" for unit in UNITS if costs[0].slots.get(unit))
    return (name, *cells, slots)


def figure(value: float) -> str:
    """Return a number with three digits, or all digits of a whole number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def by_the_rule() -> dict[str, bool]:
    """Return for each f32 row on a v5e whether its cost is within 5 % of that of its slots."""
    found = {}
    for name, row in op_rows.ELEMENTWISE.items():
        if row.floats and not (cost := priced("elementwise", name, F32, "v5e")).why:
            slots = {unit: cost.slots.get(unit, 0) for unit in ("store", "load", "VPU", "EUP")}
            ruled = max(slots["store"], slots["load"] / 3, slots["VPU"] / 4, slots["EUP"])
            found[name] = abs(cost.cycles - ruled) <= 0.05 * ruled
    return found


def some(word: str) -> str:
    """Return the rows whose name contains a word."""
    notes: list[str] = []
    groups = [
        (ELEMENTWISE_HEAD, [elementwise_row(name, notes) for name in op_rows.ELEMENTWISE if word in name]),
        *(
            (WHOLE_HEAD, [whole_row(group, name, notes) for name in names if word in name])
            for group, names in (("layout", op_rows.LAYOUT), ("products", op_rows.PRODUCTS))
        ),
    ]
    show_progress("")
    tables = [table(head, rows) for head, rows in groups if rows]
    return "\n\n".join([*tables, *(f"[{n}] {note}" for n, note in enumerate(notes, 1))]) or f"no row contains {word!r}"


if __name__ == "__main__":
    main()
