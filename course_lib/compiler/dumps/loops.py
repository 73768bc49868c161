"""The loops in the VLIW program that libtpu dumps: where each begins and ends, and how many iterations it runs.

The remarks beside the bundles show this. Regions open and close ("Start region 69", "End region 69"). A backward branch
names the region in which its loop begins, and the loop lasts until all regions opened in it are closed. That is some
bundles after the branch, and they run before it is taken. The branch condition compares a counter with the end.
"""

import itertools
import re
from collections.abc import Sequence

from course_lib.compiler.report import Loop

_REGION = re.compile(r"(Start/End empty|Start|End) region (\d+)")
_BACK = re.compile(r"sbr\.rel (?:\(!(%p\d+)_p\d+\))?[^;]*?target = \$region(\d+)")
_EXIT = r"{}_p\d+ = scmp\.ge\.s32\.totalorder (%s\d+)_s\d+, (\d+)\b"
_ADD = r"{}_s\d+ = sadd\.s32 (\d+), (%s\d+)_s\d+"
_PHI = r"{}_s\d+ = sphi (%s\d+)_s\d+,"
_MOVE = r"{}_s\d+ = smov (?:\(!?%p\d+_p\d+\), )?(\d+)\b"


def read(bodies: Sequence[str]) -> tuple[Loop, ...]:
    """Return the loops, in the order in which they begin; ``bodies`` is the text of each bundle, remarks included."""
    begins: dict[str, int] = {}
    found = []
    for number, body in enumerate(bodies):
        for branch in _BACK.finditer(body):
            test, region = branch.groups()
            if region in begins:
                first = begins[region]
                turns = _turns(bodies[:first], "\n".join(bodies[first : number + 1]), test)
                found.append(Loop(first=first, last=_end(bodies, first, number), turns=turns))
        begins |= {region: number for what, region in _REGION.findall(body) if what == "Start"}
    return tuple(sorted(found, key=lambda loop: (loop.first, -loop.last)))


def _end(bodies: Sequence[str], first: int, branch: int) -> int:
    """Return the bundle that closes the last region opened in the loop."""
    is_open: set[str] = set()
    for number, body in enumerate(itertools.islice(bodies, first, None), first):
        for what, region in _REGION.findall(body):
            if what == "Start":
                is_open.add(region)
            elif what == "End":
                is_open.discard(region)
        if number >= branch and not is_open:
            return number
    return branch


def _turns(before: Sequence[str], inside: str, test: str | None) -> int | None:
    """Return the iterations of a loop that ends when ``test`` holds; None if they are not constant.

    They are known if a counter starts at a constant, grows by a constant, and is compared with a constant.
    """
    exit = test and re.search(_EXIT.format(test), inside)
    add = exit and re.search(_ADD.format(exit[1]), inside)
    phi = add and re.search(_PHI.format(add[2]), inside)
    start = phi and re.search(_MOVE.format(phi[1]), "\n".join(before))
    if not start or not int(add[1]):
        return None
    return max(1, -(-(int(exit[2]) - int(start[1])) // int(add[1])))
