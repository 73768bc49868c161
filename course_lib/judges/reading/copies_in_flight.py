"""A copy in flight: the memory it goes into and out of, its semaphore, and their names."""

import dataclasses

from course_lib import grid


@dataclasses.dataclass
class Pending:
    """A copy that has been started, and has no wait yet."""

    use: grid.Use
    step: int
    entry: int  # the index of its grid step in the arrays of ``use``
    bytes: int  # not yet taken by a wait


def at_step(call: grid.Call, step: int) -> str:
    return f"At step {call.step(step)}" if call.steps > 1 else "In its only step"


def semaphore_named(name: str, key: tuple) -> str:
    return f"{name}[{', '.join(map(str, key[1:]))}]" if len(key) > 1 else name


def key_of(copy: Pending) -> tuple:
    """Return the semaphore of a copy."""
    return tuple(copy.use.semaphore[copy.entry].tolist())


def named(ref: str, part, entry: int) -> str:
    """Return "buf_ref[1]", or "buf_ref" if its part is unknown."""
    if part is None:
        return ref
    start, size = part[entry].tolist()
    return f"{ref}[{start}]" if size == 1 else f"{ref}[{start}:{start + size}]"


def same_place(use: grid.Use, entry: int, copy: Pending) -> bool:
    """Whether a use touches the target of a copy."""
    mine, its = (use.part, use.inner), (copy.use.part, copy.use.inner)
    return use.number == copy.use.number and _overlap(mine, entry, its, copy.entry)


def its_source(use: grid.Use, entry: int, copy: Pending) -> bool:
    """Whether a use touches the source of a copy."""
    its_source = copy.use.source_part, copy.use.source_inner
    return use.number == copy.use.source_number and _overlap((use.part, use.inner), entry, its_source, copy.entry)


def _overlap(mine: tuple, entry: int, its: tuple, its_entry: int) -> bool:
    """Whether two parts of a ref, each (first axis, other axes), share an element, as far as is known."""
    (part, inner), (other, other_inner) = mine, its
    if part is None or other is None:
        return part is None and other is None
    if not _share(*part[entry].tolist(), *other[its_entry].tolist()):
        return False
    if inner is None or other_inner is None:
        return True
    axes = zip(inner[entry].tolist(), other_inner[its_entry].tolist(), strict=True)
    return all(_share(*one, *another) for one, another in axes)


def _share(start: int, size: int, begin: int, length: int) -> bool:
    """Whether two parts of an axis overlap for sure. An unknown one, of size -n, overlaps only all n elements."""
    if size < 0 or length < 0:
        return size + length == 0
    return start < begin + length and begin < start + size
