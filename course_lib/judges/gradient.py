"""The gradient judge: the vjp of a function and that of its reference, compared by the same judges.

A function of x, w and b with a custom_vjp becomes a function of x, w, b and the cotangent g that returns dx, dw, db and
the output of the forward rule. It gets an ordinary trial, in which outputs have names and slips of their own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from course_lib.judges.four_judges import JUDGES
from course_lib.judges.running.pulling_back import argument_names, cotangent, named, pulled_back, with_zeros
from course_lib.judges.slips import gradient_slips
from course_lib.judges.slips.gradient_problem import Problem
from course_lib.judges.slips.slip import Slip
from course_lib.judges.tpu.budget import Budget
from course_lib.judges.trial import Trial, arrays
from course_lib.judges.verdict import Verdict


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gradient:
    """What an exercise asks of the gradient of a function.

    ``of``: the arguments to differentiate with respect to, by name in the reference's signature or by position from 0;
    None: all floats. ``slips``: likely mistakes, whose ``value`` takes the arguments and the cotangent and returns the
    gradients in the order of ``of``. ``reference(*args, g)`` returns the gradients if the vjp of the exercise's
    reference does not have the accuracy asked for. ``pre(*args)`` is the pre-activation z, and ``activation`` the
    elementwise function of z that the reference returns (None: the reference returns z); with them more slips are
    known. ``zeros``: judge once more with zeros in every argument in turn, so that a kink at 0 shows; False if ties and
    zeros have more than one right gradient. ``arithmetic_around``: whether arithmetic may stand around the kernels of
    the gradient; None: as in the exercise. ``budget``: for the forward and backward pass together. Raises ValueError
    for a contradiction.
    """

    of: tuple[str | int, ...] | None = None
    slips: tuple[Slip, ...] = ()
    reference: Callable | None = None
    pre: Callable | None = None
    activation: Callable | None = None
    zeros: bool = True
    arithmetic_around: bool | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        if problem := _problem(self):
            raise ValueError(f"Gradient: {problem}")

    def places(self, reference: Callable, args: tuple) -> tuple[int, ...]:
        """Return the positions of the arguments in ``of``. Raises ValueError if one is unknown or not of floats."""
        names = argument_names(reference, args)
        floats = [n for n, arg in enumerate(args) if jnp.issubdtype(jnp.result_type(arg), jnp.floating)]
        if self.of is None:
            return tuple(floats)
        for one in self.of:
            if one not in names and one not in range(len(args)):
                raise ValueError(f"of contains {one!r}; the arguments are {', '.join(names)}.")
        found = tuple(names.index(one) if isinstance(one, str) else one for one in self.of)
        if other := [names[n] for n in found if n not in floats]:
            raise ValueError(f"of contains {other[0]}, whose values are not floats.")
        return found


def judge_gradient(
    fn: Callable,
    reference: Callable,
    *args,
    of: tuple[str | int, ...] | None = None,
    slips: tuple[Slip, ...] = (),
    pre: Callable | None = None,
    activation: Callable | None = None,
    gradients: Callable | None = None,
    judges: tuple[str, ...] = tuple(JUDGES),
    chip: str = "v5e",
) -> list[Verdict]:
    """Return the verdicts on the gradient of ``fn``, up to the first that refuses, as ``judge`` does for its value.

    JAX differentiates ``reference(*args)``; ``fn`` has a custom_vjp. ``of``, ``slips``, ``pre`` and ``activation`` are
    those of ``Gradient``, and ``gradients`` is its ``reference``. Raises ValueError for an argument that is not an
    array, a reference that does not run or does not return floats, a name in ``of`` that is no argument, and an unknown
    chip or judge.
    """
    if strange := [name for name in judges if name not in JUDGES]:
        raise ValueError(f"judges contains {strange[0]!r}; the judges are {', '.join(JUDGES)}.")
    asked = Gradient(of=of, slips=slips, reference=gradients, pre=pre, activation=activation)
    ordinary, *more = trials(asked, fn, reference, [arrays(args)], chip)
    verdicts = []
    for name in (name for name in JUDGES if name in judges):
        said = JUDGES[name](ordinary)
        for further in more if name == "numbers" and said.passed else ():
            said = JUDGES[name](further)
        verdicts.append(said)
        if said.passed is False:
            break
    return verdicts


def trials(asked: Gradient, fn: Callable, reference: Callable, cases: list[tuple], chip: str) -> list[Trial]:
    """Make a trial of the gradient for each case, and one with zeros in the first; equal shapes share a trace."""
    first: dict[tuple, Trial] = {}
    made = []
    sets = [(case, number % 2 == 1) for number, case in enumerate(cases)]
    if asked.zeros and (flat := with_zeros(reference, cases[0], asked.places(reference, cases[0]))) is not None:
        sets.append((flat, True))
    for case, random in sets:
        key = tuple((a.shape, str(a.dtype)) for a in jax.tree.leaves(case))
        made.append(_trial(asked, fn, reference, case, random, chip, first.get(key)))
        first.setdefault(key, made[-1])
    return made


def _trial(asked, fn, reference, case: tuple, random: bool, chip: str, like: Trial | None) -> Trial:
    places, names = asked.places(reference, case), argument_names(reference, case)
    g = cotangent(reference, case, random)
    backwards = pulled_back(reference, places, names)
    wanted = backwards if asked.reference is None else _with_output(asked.reference, reference, names)
    outputs = tuple((f"d{names[n]}", f"the gradient of {names[n]}") for n in places)
    values = len(jax.tree.leaves(g))
    for name in ["y"] if values == 1 else [f"y[{n}]" for n in range(values)]:
        outputs += ((name, "the output, as the forward rule of custom_vjp returns it"),)
    return Trial(
        pulled_back(fn, places, names),
        wanted,
        (*case, g),
        chip,
        like,
        slips=asked.slips,
        names=outputs,
        suspects=functools.partial(
            gradient_slips.suspects,
            problem=Problem(
                reference=reference,
                backwards=backwards if asked.reference is None else wanted,
                places=places,
                names=names,
                pre=asked.pre,
                activation=asked.activation,
                written_out=asked.reference is not None,
            ),
        ),
    )


def _with_output(backwards: Callable, reference: Callable, names: tuple[str, ...]) -> Callable:
    def gradients(*args_and_cotangent):
        returned = backwards(*args_and_cotangent)
        returned = returned if isinstance(returned, (tuple, list)) else (returned,)
        return (*returned, reference(*args_and_cotangent[:-1]))

    return named(gradients, (*names, "g"))


def _problem(asked: Gradient) -> str:
    if asked.of is not None and not (
        isinstance(asked.of, tuple)
        and asked.of
        and all(isinstance(one, (str, int)) and not isinstance(one, bool) for one in asked.of)
        and len(set(asked.of)) == len(asked.of)
    ):
        return f'of is {asked.of!r:.60}; it must be a tuple of arguments, each once: ("x", "w").'
    if not isinstance(asked.slips, tuple) or any(not isinstance(slip, Slip) for slip in asked.slips):
        return f"slips is {asked.slips!r:.60}; it must be a tuple of judges.Slip."
    for name in ("reference", "pre", "activation"):
        if getattr(asked, name) is not None and not callable(getattr(asked, name)):
            return f"{name} is {getattr(asked, name)!r:.60}; it must be a function."
    if asked.activation is not None and asked.pre is None:
        return "activation is given, but pre is not: the activation is a function of the result of pre."
    if asked.budget is not None and not isinstance(asked.budget, Budget):
        return f"budget is {asked.budget!r:.60}; it must be a judges.Budget."
    return ""
