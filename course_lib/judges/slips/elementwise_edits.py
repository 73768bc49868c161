"""What people do in the place of an operation that takes elements one by one: a factor left out, a term twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.slips import reference_steps
from course_lib.judges.slips.edit import Edit, shaped
from course_lib.judges.slips.expressions import FUNCTIONS, MOVES, Expressions, is_mean
from course_lib.judges.slips.reference_steps import Step, Steps

_Change = tuple[str, str, Callable]  # its meaning, what to try, and a function of the operands and the right result


def of(step: Step, steps: Steps, named: Expressions) -> Iterator[Edit]:
    """Yield the changes of one such operation; none of any other."""
    for means, next_, change in _changes(step, steps, named):

        def value(env, change=change):
            return shaped(change(*(env[n] for n in step.inputs), env[step.outputs[0]]), env[step.outputs[0]])

        yield Edit(step.outputs[0], means, next_, value)
    yield from _power_for_repetition(step, steps, named)


def _power_for_repetition(step: Step, steps: Steps, named: Expressions) -> Iterator[Edit]:
    """Yield f(x) ** n in the place of a function of itself, n times: sin(x) ** 2 for sin(sin(x))."""
    times, first = 1, step
    while (inner := steps.made.get(first.inputs[0])) is not None and inner.name == step.name and step.name in FUNCTIONS:
        times, first = times + 1, inner
    if times > 1:
        value, once, right = first.outputs[0], named.call(first), named.call(step)
        means = f"this is {once} to the power of {times}, but `{step.name}` should be applied {times} times"
        yield Edit(
            step.outputs[0], means, f"pass the result of each to the next: {right}.", lambda env: env[value] ** times
        )


def _changes(step: Step, steps: Steps, named: Expressions) -> Iterator[_Change]:
    if step.name in _BINARY:
        first, second = step.inputs
        by = named(second)
        if is_mean(steps, step):  # with other arguments it is another number
            by = f"the number of its terms ({by} here)"
        yield from _BINARY[step.name](named(first), by, first == second)
    elif step.name == "select_n" and len(step.inputs) == 3:
        yield from _choice(*map(named, step.inputs))
    elif step.name == "not":
        yield f"the condition {named(step.inputs[0])} is inverted", f"~({named(step.inputs[0])}).", lambda x, z: x
    elif step.name in FUNCTIONS:
        if step.name == "rsqrt":
            yield from _below_the_root(step, steps)
        yield from _left_out_or_twice(step, named)


def _product(a: str, b: str, same: bool) -> Iterator[_Change]:
    if same:
        yield f"{a} is not squared", f"square it: {a} * {a}.", lambda x, y, z: x
        yield _absolute(a), f"square it: {a} * {a}.", lambda x, y, z: jnp.abs(x)
        return
    for factor, other, of in ((b, a, lambda x, y: (x, y)), (a, b, lambda x, y: (y, x))):
        once = f"multiply by {factor}, once."
        yield f"the factor {factor} is left out", once, lambda x, y, z, of=of: of(x, y)[0]
        if factor == "2":
            yield f"{other} is squared, but should be doubled", f"2 * {other}.", lambda x, y, z, of=of: of(x, y)[0] ** 2
        twice = f"the factor {factor} is used twice"
        if factor.startswith("rsqrt("):
            twice = f"the square root is left out, or {twice}"
        yield twice, once, lambda x, y, z, of=of: z * of(x, y)[1]
        yield (
            f"{other} is divided by {factor}, but should be multiplied by it",
            once,
            lambda x, y, z, of=of: of(x, y)[0] / of(x, y)[1],
        )
    yield f"{a} and {b} are added, but should be multiplied", f"{a} * {b}.", lambda x, y, z: x + y


def _choice(condition: str, other: str, chosen: str) -> Iterator[_Change]:
    right = f"jnp.where({condition}, {chosen}, {other})."
    yield f"{chosen} is taken everywhere, but should be taken only where {condition}", right, lambda c, x, y, z: y
    turned = f"{chosen} is taken where {condition} does not hold, but should be taken where it does"
    yield turned, right, lambda c, x, y, z: jnp.where(c, x, y)


def _absolute(of: str) -> str:
    return f"the absolute value of {of} is used instead of its square"


def _quotient(a: str, b: str, same: bool) -> Iterator[_Change]:
    yield f"{a} is not divided by {b}", f"divide by {b}, once.", lambda x, y, z: x
    yield f"{a} is multiplied by {b}, but should be divided by it", f"divide by {b}.", lambda x, y, z: x * y
    yield f"{a} is divided by {b} twice", f"divide by {b} once.", lambda x, y, z: z / y
    yield f"the quotient is upside down: {b} is divided by {a}", f"divide {a} by {b}.", lambda x, y, z: y / x


def _terms(a: str, b: str, same: bool) -> Iterator[_Change]:
    for term, of in ((b, lambda x, y: (x, y)), (a, lambda x, y: (y, x))):
        once = f"add {term}, once."
        yield f"the term {term} is left out", once, lambda x, y, z, of=of: of(x, y)[0]
        yield f"the term {term} is added twice", once, lambda x, y, z, of=of: z + of(x, y)[1]
        yield f"{term} is subtracted, but should be added", once, lambda x, y, z, of=of: of(x, y)[0] - of(x, y)[1]
    yield f"{a} and {b} are multiplied, but should be added", f"{a} + {b}.", lambda x, y, z: x * y


def _difference(a: str, b: str, same: bool) -> Iterator[_Change]:
    right = f"subtract it once: {a} - {b}."
    yield f"{b} is not subtracted from {a}", right, lambda x, y, z: x
    yield f"{b} is added, but should be subtracted", right, lambda x, y, z: x + y
    yield f"{b} is subtracted twice", right, lambda x, y, z: z - y
    yield f"the operands of the difference are swapped: {b} - {a}", f"{a} - {b}.", lambda x, y, z: y - x
    yield f"this is {b} itself, which should be subtracted from {a}", right, lambda x, y, z: y


def _larger(a: str, b: str, same: bool) -> Iterator[_Change]:
    right = f"jnp.maximum({a}, {b})."
    yield f"the maximum of {a} and {b} is not taken: this is {a}", right, lambda x, y, z: x
    yield f"the maximum of {a} and {b} is not taken: this is {b}", right, lambda x, y, z: y
    yield f"the smaller of {a} and {b} is kept instead of the larger", right, lambda x, y, z: jnp.minimum(x, y)


def _smaller(a: str, b: str, same: bool) -> Iterator[_Change]:
    right = f"jnp.minimum({a}, {b})."
    yield f"the minimum of {a} and {b} is not taken: this is {a}", right, lambda x, y, z: x
    yield f"the minimum of {a} and {b} is not taken: this is {b}", right, lambda x, y, z: y
    yield f"the larger of {a} and {b} is kept instead of the smaller", right, lambda x, y, z: jnp.maximum(x, y)


_BINARY = {"mul": _product, "div": _quotient, "add": _terms, "sub": _difference, "max": _larger, "min": _smaller}


def _left_out_or_twice(step: Step, named: Expressions) -> Iterator[_Change]:
    right, inner = named.call(step), named(step.inputs[0])

    def again(x, z):
        return step.eqn.primitive.bind(z, **step.eqn.params)

    if right.endswith("** 2"):
        yield f"{inner} is not squared", f"square it: {inner} * {inner}.", lambda x, z: x
        yield _absolute(inner), f"square it: {inner} * {inner}.", lambda x, z: jnp.abs(x)
    elif step.name == "rsqrt":
        yield (
            "the kernel multiplies by the square root instead of dividing by it",
            f"{right} is 1 / sqrt(...).",
            lambda x, z: jnp.sqrt(x),
        )
    elif step.name != "integer_pow":
        yield f"`{step.name}` is left out of {right}", f"compute {right}.", lambda x, z: x
        yield f"`{step.name}` is applied once more to {right}", f"compute {right}.", again


def _below_the_root(step: Step, steps: Steps) -> Iterator[_Change]:
    """Yield a small constant that is not where it should be, which is in the mean below a root."""
    below = steps.made.get(reference_steps.through(steps, step.inputs[0], MOVES))
    if below is None or below.name != "add" or np.size(steps.constants.get(below.inputs[1], ())) != 1:
        return
    added = float(steps.constants[below.inputs[1]])
    next_ = f"add {added:.6g} to the mean, before you take the square root."
    yield f"the term {added:.6g} is left out under the square root", next_, lambda x, z: jax.lax.rsqrt(x - added)
    outside = f"{added:.6g} is added outside the square root"
    yield outside, next_, lambda x, z: 1 / (jnp.sqrt(x - added) + added)
    yield outside, next_, lambda x, z: 1 / jnp.sqrt(x - added) + added
    mean = steps.made.get(reference_steps.through(steps, below.inputs[0], MOVES))
    if mean is not None and is_mean(steps, mean):
        terms = float(steps.constants[mean.inputs[1]])
        early = f"{added:.6g} is added to the sum, before it is divided by {terms:.6g}"
        yield early, next_, lambda x, z: jax.lax.rsqrt(x - added + added / terms)
