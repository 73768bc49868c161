"""How often a ``while`` in XLA's module runs its body. XLA's text does not say, so the loop counter tells."""

import re

_INDEX = re.compile(r"index=(\d+)")
_THROUGH = ("copy", "bitcast", "convert", "copy-done", "copy-start")


def trips(loop, computations: dict, inside: str) -> int | None:
    """Return the trips of the while instruction ``loop`` in the computation ``inside``.

    ``computations``: name -> its instructions, as ``hlo`` reads them. None unless a counter starts at a constant, grows
    by a constant, and is compared with one, which is what scan, map and fori_loop become.
    """
    called = dict(re.findall(r"\b(condition|body)=%([\w.\-]+)", loop.text))
    condition, body = (_by_name(computations.get(called.get(part), ())) for part in ("condition", "body"))
    test = next((i for i in condition.values() if i.root), None)
    last = next((i for i in body.values() if i.root), None)
    if test is None or last is None or test.opcode != "compare" or "direction=LT" not in test.text:
        return None
    counter, end = _element(test.operands[0], condition), _constant(test.operands[1], condition)
    start = _constant(_entry(_by_name(computations[inside]), loop.operands[0], counter), _by_name(computations[inside]))
    step = _step(body, last, counter)
    if None in (counter, end, start, step) or step <= 0:
        return None
    return max(0, -(-(end - start) // step))


def _step(body: dict, last, counter: int | None) -> int | None:
    """Return by how much one trip moves the counter."""
    add = _followed(_entry(body, last.name, counter), body)
    if add is None or add.opcode != "add" or _element(add.operands[0], body) != counter:
        return None
    return _constant(add.operands[1], body)


def _by_name(instructions) -> dict:
    return {i.name: i for i in instructions}


def _entry(known: dict, name: str, number: int | None) -> str:
    """Return the name of one element of a tuple; "" if it cannot be found."""
    made = known.get(name)
    found = made is not None and made.opcode == "tuple" and number is not None and number < len(made.operands)
    return made.operands[number] if found else ""


def _followed(name: str, known: dict):
    """Return the instruction that makes a value, looking through copies."""
    i = known.get(name)
    while i is not None and i.opcode in _THROUGH:
        i = known.get(i.operands[0])
    return i


def _constant(name: str, known: dict) -> int | None:
    i = _followed(name, known)
    text = i.text.split(")", 1)[0] if i is not None and i.opcode == "constant" else ""
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _element(name: str, known: dict) -> int | None:
    """Return which element of the loop's state a value is."""
    i = _followed(name, known)
    return int(_INDEX.search(i.text)[1]) if i is not None and i.opcode == "get-tuple-element" else None
