"""Copies in XLA's module that change an array's layout before a kernel, or change its result's layout back.

A kernel takes and returns row-major arrays. XLA stores the arguments and results of a program in the axis order with
the least padding, which is column-major for f32[N,64], and then inserts copies before and after the kernel.
"""

import re
from collections.abc import Callable, Iterator

_THROUGH = ("copy-start", "copy-done", "slice-start", "slice-done", "fusion", "get-tuple-element")
_LAYOUT = re.compile(r"\[([\d,]+)\]\{([\d,]+)")
_INDEX = re.compile(r"index=(\d+)")


def copies(kernel, inside: list) -> tuple[tuple[str, int, str], ...]:
    """Return ("in" or "out", number of the operand or result, name of the copy) for each such copy around a kernel.

    ``kernel`` and ``inside``, the instructions of its computation, are as ``hlo`` reads them. A copy that the program
    itself asks for, a transpose, is not included.
    """
    made = {i.name: i for i in inside}
    users: dict[str, list] = {}
    for i in inside:
        for name in dict.fromkeys(i.operands):
            users.setdefault(name, []).append(i)

    def makers(i) -> list:
        return [made[name] for name in i.operands if name in made]

    found = [
        ("in", number, copy.name)
        for number, name in enumerate(kernel.operands)
        if name in made
        for copy in _turning(made[name], makers, made)
    ]
    for user in users.get(kernel.name, ()):
        number = _INDEX.search(user.text) if user.opcode == "get-tuple-element" else None
        for copy in _turning(user, lambda i: users.get(i.name, ()), made):
            found.append(("out", int(number[1]) if number else 0, copy.name))
    return tuple(dict.fromkeys(found))


def _turning(i, beyond: Callable, made: dict) -> Iterator:
    """Yield the nearest copies that change an array's layout, from ``i`` on, through ops that keep the axis order."""
    if i.opcode == "copy":
        if _turns(i, made):
            yield i
    elif i.opcode in _THROUGH or 'custom_call_target="ConcatBitcast"' in i.text:
        for further in beyond(i):
            yield from _turning(further, beyond, made)


def _turns(copy, made: dict) -> bool:
    """Whether a copy changes the order of the axes; a copy of a bitcast does not count, since that renames them."""
    source = made.get(copy.operands[0])
    if source is None or source.opcode == "bitcast":
        return False
    old, new = _LAYOUT.search(source.type), _LAYOUT.search(copy.type)
    return bool(old and new) and old[2] != new[2]
