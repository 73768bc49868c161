"""The price of an operation, and docs/op_costs.md, which has that of many."""

import functools
import importlib
import pathlib
import re
import sys

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu, pinned
from jax import lax
from jax.experimental import pallas as pl

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "benchmarks"))

import op_costs  # noqa: E402
import op_rows  # noqa: E402
from op_rows import BF16, F32, array  # noqa: E402

from course_lib import compiler, grid  # noqa: E402

prices = importlib.import_module("course_lib.compiler.op_cost")  # a function of that name hides it
BLOCK = array(64, 128)
ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in op_costs.PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| -")
]
PAGE = dict(zip([cells[0] for cells in ROWS], ROWS, strict=True))


@needs_libtpu
def test_a_copy_is_a_load_and_a_store_of_each_register():
    price = compiler.op_cost(lambda x: x, BLOCK)
    assert (price.registers, price.cycles, price.of_a_register) == (8, 8, 1)
    assert price.slots == {"load": 8, "store": 8} and price.spills == 0
    assert "8 cycles, predicted (compiler), for 8 registers" in str(price)


@needs_libtpu
def test_prices_are_those_of_the_units():
    """An exponential has one slot of the EUP, a sine has none; what is behind the stores is free."""
    exp, sin = compiler.op_cost(jnp.exp, BLOCK), compiler.op_cost(jnp.sin, BLOCK)
    assert exp.slots["EUP"] == 8 and exp.cycles == 8
    assert "EUP" not in sin.slots and sin.cycles == pytest.approx(sin.slots["VPU"] / 4, rel=0.02)
    rows, columns = compiler.op_cost(lambda x: x.sum(1, keepdims=True), BLOCK), compiler.op_cost(sum_down, BLOCK)
    assert rows.slots["XLU"] > 8 and "XLU" not in columns.slots and rows.cycles > 5 * columns.cycles


@needs_libtpu
@pytest.mark.parametrize("chip, unpacks, each", [("v5e", True, 7), ("v5p", True, 7), ("v6e", False, 1)])
def test_who_computes_bf16_in_f32(chip, unpacks, each):
    """On a v5e and a v5p an addition unpacks its operands: 4 operations, 2 additions, 1 to pack; a v6e just adds."""
    x = op_rows.block(BF16)
    price = compiler.op_cost(jnp.add, x, x, chip=chip)
    assert price.slots["VPU"] == each * price.registers
    kernel = functools.partial(prices._kernel, jnp.add, (x, x), x, 2)
    program = compiler.bundles(kernel, jax.ShapeDtypeStruct((1,), jnp.int32), chip=chip)
    said = [operation.text for bundle in program.bundles for operation in bundle.operations]
    assert any("unpack" in text for text in said) == unpacks


@needs_libtpu
@pytest.mark.parametrize("shape", [(2, 3, 128), (2, 5, 300)])
def test_what_other_work_of_the_kernel_hides_has_no_price(shape):
    """Slices of three or five rows are addressed one by one, by scalar operations under which the stores vanish."""
    with pytest.raises(ValueError, match=r"op_cost: .*has no price.*stores of one alone take.*Try whole registers"):
        compiler.op_cost(lambda x: x + 1, array(*shape))


def sum_down(x):
    return x.sum(0, keepdims=True)


@needs_libtpu
def test_what_the_compiler_refuses_has_a_reason_and_no_price():
    price = compiler.op_cost(lax.erfc, BLOCK)
    assert price.cycles == 0 and price.slots == {} and "does not support `erfc`" in price.why
    assert "erfc on a v5e: The TPU does not support" in str(price)


@needs_libtpu
def test_a_slice_costs_what_moves_its_rows_and_is_refused_where_nothing_is_proved():
    wide, rows = array(64, 256), array(8, 256)
    aligned, beside, unknown = (
        compiler.slice_cost(take, wide, rows)
        for take in (lambda x, i: x[8:16], lambda x, i: x[3:11], lambda x, i: x[pl.ds(i, 8)])
    )
    assert aligned.of_a_register == pytest.approx(1, rel=0.02) and aligned.slots == {"load": 2, "store": 2}
    assert beside.cycles > aligned.cycles and beside.slots["load"] == 4
    assert unknown.cycles == 0 and "cannot prove to be a multiple of 8" in unknown.why


def test_misuse():
    with pytest.raises(ValueError, match="at least two axes, but these are"):
        compiler.op_cost(jnp.exp, array(128))
    with pytest.raises(ValueError, match="at least two axes"):
        compiler.op_cost(lambda x: x.sum(1), BLOCK)
    with pytest.raises(ValueError, match="v9"):
        compiler.op_cost(jnp.exp, BLOCK, chip="v9")


# The page


def test_every_operation_has_its_row():
    names = [*op_rows.ELEMENTWISE, *op_rows.CASTS, *op_rows.LAYOUT, *op_rows.PRODUCTS]
    assert [name for name in PAGE if name not in ("", "operation")] == names


@needs_libtpu
@pytest.mark.parametrize("name, dtype", [("sin(x)", F32), ("x / y", BF16), ("x >> 3", jnp.int32), ("x // y", BF16)])
def test_some_prices_on_the_page(name, dtype):
    column = 2 + [dtype for dtype, _ in op_costs._COLUMNS].index(dtype)
    cost = op_costs.priced("elementwise", name, dtype, "v5e")
    cell = op_costs.elementwise_cell(cost, dtype, [], units=dtype == F32)
    assert PAGE[name][column].split(" [")[0] == cell.split(" [")[0]


@pinned
@pytest.mark.sweep
def test_the_whole_page():
    written = op_costs.PAGE.read_text().splitlines()
    found = op_costs.page(op_costs.datetime.date.today()).splitlines()
    date = written.index(next(line for line in written if line.startswith("Predicted by")))
    assert found[:date] + found[date + 1 :] == written[:date] + written[date + 1 :]


def test_a_rule_says_what_most_cost():
    counted, fit = map(int, re.search(r"of the (\d+) f32 rows on a v5e (\d+) are", op_costs.PAGE.read_text()).groups())
    assert counted > 25 and fit >= 0.9 * counted


def test_jax_array_types_of_rows():
    for row in op_rows.ELEMENTWISE.values():
        for dtype in (F32, BF16) if row.floats else (jnp.int32,):
            x = op_rows.block(dtype)
            assert jax.eval_shape(row.fn, *[x] * row.operands).shape == x.shape


def test_the_kept_prices_are_those_of_the_page():
    assert op_costs.PRICES.read_text() == op_costs.as_json(op_costs.PAGE.read_text())
    kept = compiler.op_prices()
    assert list(kept.rows) == list(op_rows.ELEMENTWISE) and kept.columns[0] == "f32, v5e"
    assert kept.rows["x // y"].cycles["bf16, v5e"] is None and "int32, v5e" not in kept.rows["exp(x)"].cycles
    assert kept.rows["exp(x)"].slots == {"VPU": 2, "EUP": 1} and kept.rows["exp(x)"].says == "medium"
    assert PAGE["sin(x)"][2].startswith(f"{kept.rows['sin(x)'].cycles['f32, v5e']:g} (")


@needs_libtpu
@pytest.mark.parametrize("shape", [(8, 128), (20, 200), (1, 1024), (4, 256), (6, 4, 128), (5, 1, 1), (40, 1)])
def test_registers_are_those_that_the_program_loads(shape):
    """Leading axes begin a register each; a few rows that are wide share one."""
    price = compiler.op_cost(lambda x: x + 1, array(*shape))
    assert price.slots["VPU"] == price.registers == grid.registers(shape, F32)
