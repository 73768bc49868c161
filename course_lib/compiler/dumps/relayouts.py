"""Which copies in XLA's module turn an array round for a kernel, or turn back what a kernel has made.

A kernel takes and makes arrays row by row. XLA stores the arguments and results of a program in the order of axes with
the least padding, f32[N,64] column by column, and then puts a copy before the kernel, and one behind it.
"""

import re
from collections.abc import Callable, Iterator

_THROUGH = ("copy-start", "copy-done", "slice-start", "slice-done", "fusion", "get-tuple-element")
_LAYOUT = re.compile(r"\[([\d,]+)\]\{([\d,]+)")
_INDEX = re.compile(r"index=(\d+)")


def copies(kernel, inside: list) -> tuple[tuple[str, int, str], ...]:
    """("in" or "out", number of the operand or result, name of the copy) for each such copy around a kernel.

    ``kernel`` and ``inside``, the instructions of the computation that it stands in, are as ``hlo`` reads them. A copy
    that the program itself asks for, a transposition, is not among them.
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
    """The nearest copies that turn an array, from ``i`` on, through ops that keep the order of its axes."""
    if i.opcode == "copy":
        if _turns(i, made):
            yield i
    elif i.opcode in _THROUGH or 'custom_call_target="ConcatBitcast"' in i.text:
        for further in beyond(i):
            yield from _turning(further, beyond, made)


def _turns(copy, made: dict) -> bool:
    """Whether the axes of a copy lie in another order than those of what it copies: not what a bitcast has renamed."""
    source = made.get(copy.operands[0])
    if source is None or source.opcode == "bitcast":
        return False
    old, new = _LAYOUT.search(source.type), _LAYOUT.search(copy.type)
    return bool(old and new) and old[2] != new[2]
