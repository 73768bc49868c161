"""Gradient slips that need no declaration: the reference's vjp for another cotangent, or next to 0."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp

from course_lib.judges.running.pulling_back import beside_zero
from course_lib.judges.slips import attention_gradient_slips, reference_edits
from course_lib.judges.slips.gradient_problem import Problem, dz_of, of_dz, through
from course_lib.judges.slips.gradient_residuals import residuals
from course_lib.judges.slips.gradient_rows import factors, rows
from course_lib.judges.slips.slip import Suspect
from course_lib.judges.wrong_outputs.finding import Finding


def suspects(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """Yield possible mistakes in a gradient, the surest first; nothing for the value beside the gradients."""
    if found.number >= len(problem.places):
        return
    of_softmax = attention_gradient_slips.suspects
    of_one_output = (_activation, _cotangent, _kink, _axes, of_softmax, factors, residuals, rows)
    for kind in (_nothing, *(of_one_output if isinstance(found.args[-1], jax.Array) else (factors,))):
        yield from kind(found, problem)
    if problem.written_out:
        yield from reference_edits.suspects(found)


def _nothing(found: Finding, problem: Problem) -> Iterator[Suspect]:
    yield Suspect(
        f"{found.name} is 0 everywhere, as if it had not been requested",
        "check what the backward rule returns in its place. JAX treats None as zeros.",
        jnp.zeros_like,
        (found.want.value,),
    )


def _activation(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """Yield the activation's slope left out or taken elsewhere, and its value in place of the slope."""
    if problem.pre is None:
        return
    (*args, g), act = found.args, problem.activation
    name = found.name
    yield of_dz(
        problem,
        f"{name} is computed from g itself, without the derivative of the activation",
        "multiply g by the slope of the activation at z first: dz = g * slope. If you use a mask: y >= 0 is true "
        "everywhere when y is the output of relu.",
        args,
        g,
    )
    if act is None:
        return
    z = problem.pre(*args)
    y = act(z).astype(g.dtype).astype(z.dtype)  # as stored
    at_y = through(act, y, g)
    for dz in (at_y,) if g.dtype == at_y.dtype else (at_y, at_y.astype(g.dtype)):  # rounded for the matmul, or not
        yield of_dz(
            problem,
            "the slope of the activation is taken at its output y, not at its input z",
            "save z, or recompute it in the backward pass: the slope is a function of z.",
            args,
            dz,
        )
    yield of_dz(
        problem,
        "g is multiplied by the output of the activation, not by its slope",
        "the slope of relu is 1 where z > 0 and 0 elsewhere; for other activations, differentiate the formula.",
        args,
        (g.astype(jnp.float32) * y.astype(jnp.float32)).astype(g.dtype),
    )
    yield from _roles_of_g(problem, args, g, z, y)
    yield of_dz(
        problem,
        "the slope of the activation is used as dz, without g",
        "dz is g * slope, element by element.",
        args,
        through(act, z, jnp.ones_like(g)),
    )


def _roles_of_g(problem: Problem, args: list, g, z, y) -> Iterator[Suspect]:
    """Yield the cotangent and the output in each other's place."""
    act, in_z = problem.activation, g.astype(z.dtype)
    for means, dz in (
        (
            "the output and g are swapped: dz is the output times the slope of the activation at g",
            through(act, in_z, y),
        ),
        (
            "the slope of the activation is taken at g, but it should be taken at z and multiplied by g",
            through(act, in_z, g),
        ),
        ("the output is used in place of g", through(act, z, y)),
    ):
        next_ = "dz = g * slope, with the slope at z; for relu, take g where y > 0. Check the order of the arguments."
        yield of_dz(problem, means, next_, args, dz.astype(g.dtype))


def _cotangent(found: Finding, problem: Problem) -> Iterator[Suspect]:
    *args, g = found.args
    yield Suspect(
        f"{found.name} does not depend on g: it is the gradient for a g of ones",
        "the backward function gets g, the gradient of the loss with respect to the output; everything it returns is "
        "linear in g.",
        problem.backwards,
        (*args, jnp.ones_like(g)),
    )


def _kink(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """Yield the gradient a hair beside 0."""
    *args, g = found.args
    for beside in beside_zero(tuple(args)):
        yield Suspect(
            "it differs only at a kink at exactly 0, where it has the slope of the other side",
            "check for a >= that should be >, or the reverse. The slope of jax.nn.relu at 0 is 0: z > 0.",
            problem.backwards,
            (*beside, g),
        )


def _axes(found: Finding, problem: Problem) -> Iterator[Suspect]:
    """Yield sums of dz over another axis, for an argument with fewer axes, such as a bias."""
    *args, g = found.args
    dz, want = dz_of(problem, args, g), found.want.value
    for count in range(1, dz.ndim):
        for axes in itertools.combinations(range(dz.ndim), count):
            left = tuple(n for axis, n in enumerate(dz.shape) if axis not in axes)
            if left != want.shape:
                continue
            over = " and ".join(map(str, axes))
            yield Suspect(
                f"the sum for {found.name} runs over axis {over} of the cotangent, which is the wrong one",
                f"{found.name} sums the contributions of every row: sum over all elements to which an element of "
                f"{_name(found, problem)} was added.",
                lambda dz, axes=axes: dz.astype(jnp.float32).sum(axes).astype(want.dtype),
                (dz,),
            )


def _name(found: Finding, problem: Problem) -> str:
    return problem.names[problem.places[found.number]]
