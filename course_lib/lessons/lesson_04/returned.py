"""A check that a learner's function returns the items that were asked for."""

from course_lib.checks.unfit import Unfit, described


def in_order(call: str, value: object, *wanted: str) -> list:
    """Return ``value`` as the list of items that ``wanted`` names; "...map" means a function. Raise Unfit otherwise."""
    names = ", ".join(wanted)
    if not isinstance(value, tuple | list) or len(value) != len(wanted):
        raise Unfit(
            f"{call} returned {described(value)}. It should return {len(wanted)} items: {names}.",
            f'end the function with "return {names}".',
        )
    for name, thing in zip(wanted, value, strict=True):
        if name.endswith("map") != callable(thing):
            want = "a function, such as lambda i: (i, 0)" if name.endswith("map") else "a tuple of integers"
            raise Unfit(
                f"{call}: {name} is {described(thing)}, but it should be {want}.",
                f"return, in this order: {names}.",
            )
    return list(value)
