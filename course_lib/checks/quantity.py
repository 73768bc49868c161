"""Numbers with units, as people write them: "48 KiB", "1.5 GB/s", "12 us", "197 TFLOP/s", "1,024 cycles"."""

import dataclasses
import math
import numbers
import re

from course_lib.checks.unfit import Unfit

_DECIMAL = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"ki": 2**10, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_TIMES = {"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9, "ps": 1e-12, "min": 60, "h": 3600}
_TIMES |= {"sec": 1, "second": 1, "seconds": 1, "microseconds": 1e-6, "milliseconds": 1e-3, "nanoseconds": 1e-9}
_COUNTED = (
    "block", "bundle", "copy/copies", "core", "cycle", "element", "fetch/fetches", "kernel", "lane", "number",
    "register", "row", "slot", "spill", "step", "sublane", "tile",
)  # fmt: skip
_BYTES, _BITS, _WORK = ("B", "byte", "bytes"), ("b", "bit", "bits"), ("FLOP", "FLOPs", "flop", "flops")

# What a unit measures, in words that fit after "a number, in" and "asked is".
MEASURES = {
    "memory": "an amount of memory (bytes)",
    "bandwidth": "a bandwidth (bytes per second)",
    "time": "a time (seconds)",
    "work": "an amount of work (FLOPs)",
    "rate": "a rate of work (FLOP/s)",
    "intensity": "an intensity (FLOPs per byte)",
    "frequency": "a frequency (Hz)",
    "share": "a share (%)",
}
_EXAMPLES = {
    "memory": "3 MiB",
    "bandwidth": "1.5 GB/s",
    "time": "12 us",
    "work": "2 GFLOP",
    "rate": "197 TFLOP/s",
    "intensity": "0.25 FLOP/B",
    "frequency": "1.5 GHz",
    "share": "40 %",
}
_OFFERED = {
    "memory": "bytes, KB, KiB, MB and MiB",
    "bandwidth": "MB/s, GB/s, GiB/s and TB/s",
    "time": "s, ms, us and ns",
    "work": "FLOP, MFLOP, GFLOP and TFLOP",
    "rate": "GFLOP/s and TFLOP/s",
    "intensity": "FLOP/B",
    "frequency": "MHz and GHz",
    "share": "%",
}
_WORDS = {"kilo": "k", "mega": "M", "giga": "G", "tera": "T", "peta": "P"}
_WORDS |= {"kibi": "Ki", "mebi": "Mi", "gibi": "Gi", "tebi": "Ti"}
_IN_WORDS = re.compile(rf"\b(?:({'|'.join(_WORDS)})(byte|bit|hertz)s?|([kMGTP]i?)?(bytes?|bits?))\b", re.IGNORECASE)


ALONE = "write the number alone: it has no unit."


class NotAQuantity(Unfit):
    """The answer cannot be read as a number with a unit."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unit:
    """A unit: what it measures ("memory", "steps", "" for a plain number) and its size in base units."""

    text: str
    measures: str
    factor: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number and the unit it was written with."""

    number: float
    unit: Unit

    @property
    def value(self) -> float:
        """The value in base units: bytes, seconds, FLOPs, bytes per second, FLOP/s, Hz, or the things counted."""
        return self.number * self.unit.factor

    def __str__(self) -> str:
        return shown(self.number, self.unit.text)


def _table() -> dict[str, tuple[str, float]]:
    """Return what every unit measures, and its size in base units."""
    units = {name: ("time", factor) for name, factor in _TIMES.items()} | {"%": ("share", 0.01)}
    for prefix, size in (_DECIMAL | _BINARY).items():
        for names, factor in ((_BYTES, 1), (_BITS, 1 / 8)):
            for name in names:
                units[prefix + name] = ("memory", size * factor)
                units[prefix + name + "/s"] = ("bandwidth", size * factor)
        for name in _WORK:
            units[prefix + name] = ("work", size)
            units[prefix + name + "/s"] = ("rate", size)
            units |= {f"{prefix}{name}/{byte}": ("intensity", size) for byte in _BYTES}
        units[prefix + "Hz"] = ("frequency", size)
    for noun in _COUNTED:
        one, many = noun.split("/") if "/" in noun else (noun, noun + "s")
        units |= {one: (many, 1), many: (many, 1)}
    return units


_UNITS = _table()
_THOUSANDS = r"\d{1,3}(?:[,_]\d{3})+"
_NUMBER = re.compile(rf"([+-]?(?:(?:{_THOUSANDS}|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*)", re.DOTALL)


def unit(text: str, wanted: Unit | None = None) -> Unit:
    """Return the unit called ``text``; "" means a plain number. Raise NotAQuantity with units like ``wanted``."""
    name = " ".join(text.split()).replace(" per ", "/").replace(" / ", "/")
    name = _IN_WORDS.sub(_symbol, re.sub(r"/sec(?:ond)?$", "/s", name))
    if name == "":
        return Unit(text="", measures="", factor=1)
    if re.fullmatch(r"[kKMGTP]?FLOPS", name):
        raise NotAQuantity(
            f"{name} is read both as a number of operations and as operations per second.",
            f"write {name[:-1]} for the number, or {name[:-1]}/s for the rate.",
        )
    if name not in _UNITS:
        prefix = name in _DECIMAL or name in _BINARY
        what = "is a prefix, and the unit after it is missing" if prefix else "is not a unit that this check knows"
        raise NotAQuantity(f"{text!r:.60} {what}.", _offer(wanted))
    measures, factor = _UNITS[name]
    return Unit(text=name, measures=measures, factor=factor)


def _symbol(match: re.Match) -> str:
    """Return KiB for kibibytes, kbit for kilobits, GHz for gigahertz, kbytes for kBytes."""
    word, base, prefix, plain = match.groups(default="")
    if plain:
        return prefix + plain.lower()
    return _WORDS[word.lower()] + {"byte": "B", "bit": "bit", "hertz": "Hz"}[base.lower()]


def _offer(wanted: Unit | None) -> str:
    """Say what to write: a number with a unit of the wanted kind, or with any unit if none is given."""
    if wanted is None:
        return f"write a number and a unit, such as {', '.join(_EXAMPLES.values())}; upper and lower case matter."
    if not wanted.measures:
        return ALONE
    offered = _OFFERED.get(wanted.measures, wanted.measures)
    return f'write a number and a unit, as in "{example(wanted)}". Units: {offered}; upper and lower case matter.'


def parse(answer: object, wanted: Unit | None = None) -> Quantity:
    """Read the quantity in ``answer``: text, a number, or a pair of both. Raise NotAQuantity.

    A number without a unit has the unit "". Commas and underscores may separate groups of three digits. If a unit
    cannot be read, the error suggests units that measure the same as ``wanted``.
    """
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], str):
        return Quantity(number=_number(answer[0], wanted), unit=unit(answer[1], wanted))
    if not isinstance(answer, str):
        return Quantity(number=_number(answer, wanted), unit=unit(""))
    if re.search(r"\d\s*(?:[*+/^×·-]+|x)\s*\d", answer):
        raise NotAQuantity(
            f"{answer!r:.60} is a calculation, not a number.",
            "do the calculation first, and write the result as one number. Write powers of ten as 3e6.",
        )
    match = _NUMBER.fullmatch(answer.strip())
    if match is None or not (match[2] == "" or match[2][0].isalpha() or match[2][0] in "%µμ"):
        raise NotAQuantity(
            f"{answer!r:.60} cannot be read as a number with a unit.",
            f'write digits, then the unit: "{example(wanted) if wanted else "3 MiB"}". Use a decimal point, '
            "write powers of ten as 3e-6, and put commas only between thousands.",
        )
    if re.match(r"[+-]?0+,", match[1]):
        raise NotAQuantity(
            f"{answer!r:.60} begins with a zero and a comma.",
            "use a decimal point: commas only separate thousands.",
        )
    number = float(re.sub("[,_]", "", match[1]))
    if math.isinf(number):
        raise NotAQuantity(f"{answer!r:.60} is larger than any number here can be.", "check the power of ten.")
    return Quantity(number=number, unit=unit(match[2], wanted))


def _number(value: object, wanted: Unit | None) -> float:
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a NumPy or JAX scalar
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        text = f'write text with a number and its unit, as in "{example(wanted) if wanted else "3 MiB"}".'
        raise NotAQuantity(f"{value!r:.60} is not a number.", text if wanted is None or wanted.measures else ALONE)
    try:
        number = float(value)
    except OverflowError:  # an integer of more than 308 digits
        number = math.inf
    if not math.isfinite(number):
        raise NotAQuantity(f"{number} is not a possible value.", "check where it comes from.")
    return number


def measured(unit: Unit) -> str:
    """Return what ``unit`` measures, in words: "a time (seconds)", "a number of steps", "a plain number"."""
    if unit.measures == "":
        return "a plain number"
    return MEASURES.get(unit.measures, f"a number of {unit.measures}")


def example(unit: Unit) -> str:
    """Return an example of a number in a unit of this kind."""
    return _EXAMPLES.get(unit.measures, f"7 {unit.measures}".strip())


def shown(number: float, unit: str) -> str:
    """Return ``number`` with its unit: "49,152 bytes", "1.5 GB/s"."""
    digits = f"{number:,.0f}" if number == round(number) and abs(number) < 1e15 else f"{number:.6g}"
    return f"{digits} {unit}".strip()


def twin(unit: Unit) -> Unit | None:
    """Return KiB for KB and KB for KiB, the unit it is often confused with; None for a unit without a prefix."""
    match = re.fullmatch(r"([kKMGT])(i?)(B|b|byte|bytes|bit|bits)(/s)?", unit.text)
    if match is None:
        return None
    prefix, binary, base, rate = match.groups(default="")
    name = prefix if binary else prefix.upper() + "i"
    return _known(f"{name}{base}{rate}")


def as_bytes(unit: Unit) -> list[Unit]:
    """Return KB and KiB for Kb: the byte units that a bit unit is mistaken for; [] for any other unit."""
    match = re.fullmatch(r"([kKMGT]i?)?(b|bit|bits)(/s)?", unit.text)
    if match is None:
        return []
    bytes = _known(f"{match[1] or ''}B{match[3] or ''}")
    return [bytes, other] if (other := twin(bytes)) else [bytes]


def _known(name: str) -> Unit:
    measures, factor = _UNITS[name]
    return Unit(text=name, measures=measures, factor=factor)
