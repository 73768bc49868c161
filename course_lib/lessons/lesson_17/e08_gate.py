"""A gate with its gradient, as an operator of PyTorch."""

import importlib.util
from collections.abc import Callable

import jax
import numpy as np

from course_lib import environment, judges
from course_lib.checks.exercise import Exercise

_OPERATOR = 'gate = operator("exercises::gate", gated, ("x", "g"), mode="interpreted"), with your function for gated.'
_TOLERANCE = 1e-5


def function_of(gate: Callable) -> Callable:
    """Return the JAX function that an operator of PyTorch runs; a function, as it is."""
    return getattr(gate, "function", gate)


def has_torch(gate: Callable) -> bool:
    """Whether PyTorch can call the answer here; it cannot call the program of an answer in another process."""
    return importlib.util.find_spec("torch") is not None and not hasattr(gate, "uses")


def in_torch(gate: Callable) -> tuple[str, str] | None:
    """Report what PyTorch computes, or differentiates, otherwise with the operator than without it."""
    if not has_torch(gate):
        return None
    if not hasattr(gate, "function"):
        return "What you passed is a function of JAX arrays, which PyTorch cannot differentiate.", _OPERATOR
    import torch

    rng = np.random.default_rng(17)
    x, g, cotangent = (torch.from_numpy(rng.normal(size=(5, 130)).astype(np.float32)) for _ in range(3))
    found, wanted = [], []
    for fn, results in ((gate, found), (lambda x, g: x * torch.sigmoid(g), wanted)):
        given = [x.clone().requires_grad_(), g.clone().requires_grad_()]
        results.append(fn(*given))
        results[0].backward(cotangent)
        results += [one.grad for one in given]
    for name, one, other in zip(("the value", "x.grad", "g.grad"), found, wanted, strict=True):
        if one is None or one.shape != other.shape or not torch.allclose(one, other, atol=_TOLERANCE):
            return f"In PyTorch {name} is not that of x * torch.sigmoid(g).", _OPERATOR
    return None


def with_or_without_torch(gate: Callable) -> str:
    """Say as what the answer was judged; nothing where the line is stored or compared: few machines have PyTorch."""
    if environment.building() or (environment.under_nbval() and not environment.under_a_grader()):
        return ""
    if environment.under_a_grader():  # which looks for a pass in one line
        return "with PyTorch" if has_torch(gate) else "no PyTorch"
    operator = " and as an operator of PyTorch" if has_torch(gate) else ", but not as an operator, which needs PyTorch"
    return f"judged as a JAX function{operator}"


def _gradients(x, g, c, s) -> tuple:
    """Return dx and dg for a cotangent c, with s where sigmoid(g) should be."""
    return c * s, c * x * s * (1 - s)


_ORDER = "compare what the backward rule passes to the kernel, and in which order, with the kernel's refs."
SLIPS = (
    judges.Slip(
        means="s is g itself, not sigmoid(g)", value=lambda x, g, c: _gradients(x, g, c, g),
        next="recompute s in the gradient's kernel, as the forward kernel does: it is not among what you saved.",
    ),
    judges.Slip(
        means="g stands where the cotangent should be", value=lambda x, g, c: _gradients(x, g, g, jax.nn.sigmoid(g)),
        next=_ORDER,
    ),
    judges.Slip(
        means="s is sigmoid of the cotangent, not of g", value=lambda x, g, c: _gradients(x, g, c, jax.nn.sigmoid(c)),
        next=_ORDER,
    ),
    judges.Slip(
        means="g and the cotangent are exchanged", value=lambda x, g, c: _gradients(x, c, g, jax.nn.sigmoid(c)),
        next=_ORDER,
    ),
    judges.Slip(
        output="dg", means="dg has s, not s * (1 - s)", value=lambda x, g, c: c * x * jax.nn.sigmoid(g),
        next="the derivative of s = sigmoid(g) is s * (1 - s).",
    ),
    judges.Slip(
        output="dx", means="dx is s alone, without the cotangent", value=lambda x, g, c: jax.nn.sigmoid(g),
        next="multiply by the cotangent, which the backward rule gets beside what you saved.",
    ),
    judges.Slip(
        output="dg", means="dg has no cotangent", next="multiply by the cotangent.",
        value=lambda x, g, c: x * jax.nn.sigmoid(g) * (1 - jax.nn.sigmoid(g)),
    ),
)  # fmt: skip


EXERCISE = Exercise(
    id="17.8",
    title="A gate for PyTorch",
    kind="write",
    defines="gate",
    inputs=("x: f32[M,N]", "g: f32[M,N]"),
    sizes=({"M": 16, "N": 128}, {"M": 8, "N": 256}, {"M": 5, "N": 130}),
    within=(-4, 4),
    reference=lambda x, g: x * jax.nn.sigmoid(g),
    build=function_of,
    gradient=judges.Gradient(
        of=("x", "g"),
        slips=SLIPS,
    ),
    also=(in_torch,),
    achieved=with_or_without_torch,
    hints=(
        "y = x s with s = sigmoid(g). What is the derivative of y by x, and what by g?",
        "Both gradients are products of the cotangent, so one kernel with three inputs and two outputs computes them. "
        "The forward rule saves x and g.",
        "dx = cotangent * s and dg = cotangent * x * s * (1 - s). gated.defvjp(forward, backward), and then "
        + _OPERATOR,
    ),
    points=3,
)
