"""Numbers with units: what is read, and what is not, with which words."""

import jax.numpy as jnp
import numpy as np
import pytest

from course_lib.checks import quantity
from course_lib.checks.quantity import NotAQuantity, parse


@pytest.mark.parametrize(
    "text, value, measures",
    [
        ("48 KiB", 49152, "memory"),
        ("48KiB", 49152, "memory"),
        ("48 kiB", 49152, "memory"),
        ("  1.5 GB/s ", 1.5e9, "bandwidth"),
        ("1.5 GB per second", 1.5e9, "bandwidth"),
        ("1.5 GiB / s", 1.5 * 2**30, "bandwidth"),
        ("3e-6 s", 3e-6, "time"),
        ("12 us", 12e-6, "time"),
        ("12 µs", 12e-6, "time"),  # the micro sign
        ("12 μs", 12e-6, "time"),  # the Greek letter
        ("12 microseconds", 12e-6, "time"),
        ("197 TFLOP/s", 197e12, "rate"),
        ("2 GFLOPs", 2e9, "work"),
        ("0.25 FLOP/B", 0.25, "intensity"),
        ("240 FLOPs/byte", 240, "intensity"),
        ("1,024 cycles", 1024, "cycles"),
        ("1_024 cycles", 1024, "cycles"),
        ("1 cycle", 1, "cycles"),
        ("1,234,567.5 bytes", 1234567.5, "memory"),
        ("393,216 bits", 49152, "memory"),
        ("48 Kb", 6000, "memory"),
        ("3 copies", 3, "copies"),
        ("1.5 GHz", 1.5e9, "frequency"),
        ("40 %", 0.4, "share"),
        ("48 kilobytes", 48_000, "memory"),
        ("48 Kibibytes", 49_152, "memory"),
        ("48 KBytes", 48_000, "memory"),
        ("49152 Bytes", 49_152, "memory"),
        ("48 kbit", 6000, "memory"),
        ("48 kibibits", 6144, "memory"),
        ("2 gigabytes per second", 2e9, "bandwidth"),
        ("2 GB/sec", 2e9, "bandwidth"),
        ("1.5 gigahertz", 1.5e9, "frequency"),
        ("-3 us", -3e-6, "time"),
        (".5 s", 0.5, "time"),
        ("2.e3 B", 2000, "memory"),
        ("+7", 7, ""),
        (7, 7, ""),
        (7.5, 7.5, ""),
        (np.float32(0.5), 0.5, ""),
        (np.int64(3), 3, ""),
        (jnp.float32(0.5), 0.5, ""),
        ((3e-6, "s"), 3e-6, "time"),
    ],
)
def test_read(text, value, measures):
    read = parse(text)
    assert read.value == pytest.approx(value, rel=1e-12) and read.unit.measures == measures


@pytest.mark.parametrize(
    "answer, says, next",
    [
        ("fast", "cannot be read as a number with a unit", "write digits"),
        ("", "cannot be read", "write digits"),
        ("1,5 GB/s", "cannot be read", "put commas only between thousands"),
        ("12,34 B", "cannot be read", "commas"),
        ("0,982 ms", "a zero and a comma", "use a decimal point"),
        ("-0,125 ms", "a zero and a comma", "commas only separate thousands"),
        ("2**10 bytes", "is a calculation, not a number", "do the calculation first"),
        ("3 x 10^6 B", "is a calculation", "Write powers of ten as 3e6"),
        ("3 * 4096 * 4 bytes", "is a calculation", "do the calculation first"),
        ("1e500 bytes", "is larger than any number here can be", "check the power of ten"),
        (10**400, "inf is not a possible value", "where"),
        ("48 K", "'K' is a prefix, and the unit after it is missing", "3 MiB"),
        (f"48 {'z' * 300}", r"^'z{59} is not a unit", "3 MiB"),
        ("48 KiB in all", "not a unit that this check knows", "upper and lower case matter"),
        ("48 furlongs", "'furlongs' is not a unit", "a number and a unit"),
        ("197 TFLOPS", "TFLOPS is read both as", "write TFLOP for the number, or TFLOP/s"),
        (True, "True is not a number", "write text"),
        ([1], r"\[1\] is not a number", "write text"),
        (float("nan"), "nan is not a possible value", "where it comes from"),
        (float("inf"), "inf is not a possible value", "where"),
        (("3", "s"), "'3' is not a number", "write text"),
        (1j, "1j is not a number", "write text"),
    ],
)
def test_not_read(answer, says, next):
    with pytest.raises(NotAQuantity, match=says) as raised:
        parse(answer)
    assert next in raised.value.next


@pytest.mark.parametrize(
    "wanted, next",
    [
        ("bytes", 'as in "3 MiB". Units: bytes, KB, KiB, MB and MiB; upper'),
        ("us", 'as in "12 us". Units: s, ms, us and ns; upper'),
        ("cycles", 'as in "7 cycles". Units: cycles; upper'),
        ("", "write the number alone"),
    ],
)
def test_units_of_the_asked_kind_alone_are_offered(wanted, next):
    with pytest.raises(NotAQuantity) as raised:
        parse("48 K", quantity.unit(wanted))
    assert next in raised.value.next


@pytest.mark.parametrize("unit", ["bytes", "GB/s", "us", "FLOP", "FLOP/s", "FLOP/B", "Hz", "%"])
def test_offered_units_are_known_and_of_the_asked_kind(unit):
    wanted = quantity.unit(unit)
    offered = quantity._OFFERED[wanted.measures].replace(" and ", ", ").split(", ")
    assert {quantity.unit(name).measures for name in offered} == {wanted.measures}


@pytest.mark.parametrize(
    "unit, other",
    [("KB", "KiB"), ("kB", "KiB"), ("GiB", "GB"), ("MB/s", "MiB/s"), ("Tbits", "Tibits"), ("B", None), ("us", None)],
)
def test_the_twin_of_a_prefix(unit, other):
    twin = quantity.twin(quantity.unit(unit))
    assert (twin.text if twin else None) == other


def test_bits_that_may_be_meant_as_bytes():
    assert [u.text for u in quantity.as_bytes(quantity.unit("Kb"))] == ["KB", "KiB"]
    assert [u.text for u in quantity.as_bytes(quantity.unit("Gib/s"))] == ["GiB/s", "GB/s"]
    assert quantity.as_bytes(quantity.unit("KB")) == []


def test_how_it_is_written_back():
    assert str(parse("49152 bytes")) == "49,152 bytes"
    assert str(parse("1.50 GB/s")) == "1.5 GB/s"
    assert str(parse(7)) == "7"
    assert str(parse("3e-06 s")) == "3e-06 s"


def test_what_units_measure_in_words():
    words = [quantity.measured(quantity.unit(text)) for text in ("KiB", "us", "steps", "", "FLOP/s")]
    assert words == [
        "an amount of memory (bytes)",
        "a time (seconds)",
        "a number of steps",
        "a plain number",
        "a rate of work (FLOP/s)",
    ]


@pytest.mark.parametrize("unit", ["bytes", "us", "GB/s", "FLOP", "FLOP/s", "FLOP/B", "Hz", "%", "cycles", "copies", ""])
def test_examples_can_be_read_and_have_the_right_kind_of_unit(unit):
    wanted = quantity.unit(unit)
    assert parse(quantity.example(wanted)).unit.measures == wanted.measures
