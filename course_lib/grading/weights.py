"""How much each exercise counts: a CSV file of lines ``id,weight``."""

import csv
import io
import math
import pathlib

LARGEST = 1_000_000


class BadWeights(ValueError):
    """The file cannot be used; the message says which line, and why."""


def read(path: pathlib.Path, ids: list[str]) -> dict[str, float]:
    """Return {id: weight} from a file; an exercise that is not in it has weight 1.

    ``ids`` are the known exercises. A first line ``id,weight`` and empty lines are skipped. Raises BadWeights.
    """
    found: dict[str, float] = {}
    lines = csv.reader(io.StringIO(_text(path)))
    try:
        for fields in lines:
            fields = [field.strip() for field in fields]
            if not any(fields) or (lines.line_num == 1 and fields[0] == "id"):
                continue
            id, weight = _line(fields, ids, found, where=f"{path}, line {lines.line_num}")
            found[id] = weight
    except csv.Error as error:
        raise BadWeights(f"{path}, line {lines.line_num}: it is not CSV: {error}.") from None
    return found


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadWeights(f"{path}, the file of weights, cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise BadWeights(f"{path}, the file of weights, is not UTF-8 text; save it as CSV, UTF-8.") from None


def _line(fields: list[str], ids: list[str], found: dict, where: str) -> tuple[str, float]:
    if len(fields) != 2:
        raise BadWeights(f"{where} has {len(fields)} fields; write an exercise and its weight, {ids[0]},2 say.")
    id, text = fields
    if id not in ids:
        eaten = " (A spreadsheet took its zeros? Format the column as text.)" if f"0{id}" in ids else ""
        raise BadWeights(f"{where}: there is no exercise {id[:20]!r}; there are {', '.join(ids)}.{eaten}")
    if id in found:
        raise BadWeights(f"{where}: {id} has a weight already; keep one of the two lines.")
    return id, _weight(text, where)


def _weight(text: str, where: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 <= weight <= LARGEST:
        raise BadWeights(
            f"{where}: the weight is {text[:20]!r}; it may be a number from 0 to {LARGEST:,}, 1 or 0.5 say."
        )
    return weight
