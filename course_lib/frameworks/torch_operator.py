"""A JAX function as an operator of PyTorch, which autograd, fake tensors, torch.compile and torch.export know.

One call of ``operator`` defines two operators of PyTorch: the function, and its gradient by ``jax.vjp``. A compiled or
exported graph then holds one node for each. PyTorch saves only the function's arguments for the backward pass, so the
gradient recomputes what it needs of the forward pass, and XLA removes the rest.
"""

import functools
import inspect
import re
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.frameworks import torch_modes, torch_shapes, torch_tensors, torch_tpu
from course_lib.frameworks.torch_modes import Mode
from course_lib.frameworks.torch_tensors import torch

Option = bool | int | float | str
_SCHEMA_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}
_TAKEN = ("mode", "wanted")  # keywords of the operators themselves


class Functions(NamedTuple):
    """What an operator computes, in JAX: ``forward(*arrays, **options)``, ``gradient(*arrays, *cotangents, wanted=)``.

    Both return a list of arrays; ``wanted`` holds the positions of the arguments whose gradients are returned.
    """

    forward: Callable
    gradient: Callable
    options: dict[str, Option]


_FUNCTIONS = weakref.WeakKeyDictionary()  # {what operator returned: Functions}


def operator(
    name: str,
    fn: Callable,
    tensors: Sequence[str] | None = None,
    *,
    options: dict[str, Option] | None = None,
    results: int = 1,
    mode: Mode = "plain",
    chip: str = "v5e",
    tpu: bool = False,
) -> torch.library.CustomOpDef:
    """Return ``fn`` as a differentiable operator of PyTorch that is called ``name``, for tensors on the CPU.

    ``fn(*arrays, **options)`` is a JAX function that returns an array, or a tuple of ``results`` arrays. ``name`` is
    "namespace::name"; defining it again replaces the old one. ``tensors`` names the arguments; None takes the
    parameters of ``fn`` that have no default. ``options`` are keyword arguments that are no tensors, with their
    defaults; the call may pass others. Each set of shapes, dtypes and options is compiled once.

    The operator takes one more keyword, ``mode``, whose default is given here: "plain" runs ``fn`` as JAX does on a
    CPU, "interpreted" runs its kernels in Pallas' plain interpreter, and "simulated" in the TPU simulator. The last two
    take the kernels that ``fn`` runs on ``chip``. With ``tpu`` the operator also runs on TorchTPU's device, through
    ``torch.tpu.pallas.jax_op``; this needs the package torch_tpu.

    JAX reads contiguous tensors where they lie, and its results are returned where it left them, so nothing is copied.
    The derivative is that of ``fn``, once and in reverse mode: others raise. Tensors of integers get none. A size that
    a compiled or exported graph leaves open stays open if JAX can trace ``fn`` without knowing it.
    Raises ValueError here for a wrong name, mode or option; in a call for tensors of other dtypes (float64 and int64
    among them), on other devices or sparse ones, and whatever ``fn`` raises.
    """
    if not re.fullmatch(r"\w+::\w+", name):
        raise ValueError(f"operator: name is {name!r}; it must be 'namespace::name'. Try 'mine::{name or 'kernel'}'.")
    tensors = _names(name, fn) if tensors is None else tuple(tensors)
    options = dict(options or {})
    for option, value in options.items():
        _check_option(name, option, value)
    torch_modes.check_mode("operator", mode)
    functions = Functions(_flat(name, fn, results), _pulled_back(fn, len(tensors)), options)
    settings = options | {"mode": mode}
    op = _defined(name, functions.forward, tensors, results, settings, chip, tpu)
    cotangents = [f"cotangent_{n}" for n in range(results)]
    gradient = _defined(
        f"{name}_gradient", functions.gradient, (*tensors, *cotangents), None, settings | {"wanted": ()}, chip, tpu
    )

    def save(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.settings = keyword_only_inputs

    def backward(ctx, *cotangents):
        wanted = [place for place, needed in enumerate(ctx.needs_input_grad) if needed]
        found = dict(zip(wanted, gradient(*ctx.saved_tensors, *cotangents, wanted=wanted, **ctx.settings), strict=True))
        return tuple(found.get(place) for place in range(len(tensors)))

    op.register_autograd(backward, setup_context=save)
    op.function = fn  # for readers of what it runs
    _FUNCTIONS[op] = functions
    return op


def functions_of(op) -> Functions:
    """Return what an operator computes. Raise ValueError if ``operator`` has not made it."""
    if op not in _FUNCTIONS:
        raise ValueError(f"{op!r} was not made by course_lib.frameworks.torch.operator. Hand over what that returned.")
    return _FUNCTIONS[op]


def _check_option(name: str, option: str, value: Option) -> None:
    """Raise ValueError if PyTorch cannot pass an option, or if its name is taken."""
    if type(value) not in _SCHEMA_TYPES:
        raise ValueError(
            f"operator: option {option} of {name} is {value!r}; its default may be a bool, an int, a float or a "
            f"string. Try functools.partial(fn, {option}={value!r}), which fixes it."
        )
    if option in _TAKEN:
        raise ValueError(
            f"operator: an option of {name} is called {option!r}, a keyword that every operator has. Give it another "
            "name in a function of your own that calls this one."
        )


def _names(name: str, fn: Callable) -> tuple[str, ...]:
    """Return the names of the parameters of ``fn`` that have no default. Raise ValueError if there are none."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:  # a function written in C
        parameters = ()
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = tuple(one.name for one in parameters if one.kind in positional and one.default is one.empty)
    if not names or any(one.kind is one.VAR_POSITIONAL for one in parameters):
        raise ValueError(
            f"operator: the signature of the function of {name} does not name its arrays. Try tensors=('x', 'y')."
        )
    return names


def _flat(name: str, fn: Callable, results: int) -> Callable:
    def forward(*arrays, **options):
        leaves = jax.tree.leaves(fn(*arrays, **options))
        if len(leaves) != results:
            raise ValueError(f"{name}: the function returned {len(leaves)} arrays; operator was told {results}.")
        return leaves

    return forward


def _pulled_back(fn: Callable, count: int) -> Callable:
    def gradient(*arrays, wanted, **options):
        arguments, cotangents = arrays[:count], arrays[count:]

        def of_wanted(*values):
            changed = list(arguments)
            for place, value in zip(wanted, values, strict=True):
                changed[place] = value
            return fn(*changed, **options)

        out, pull = jax.vjp(of_wanted, *(arguments[place] for place in wanted))
        leaves, tree = jax.tree.flatten(out)
        given = [_cotangent(leaf, g) for leaf, g in zip(leaves, cotangents, strict=True)]
        return list(pull(jax.tree.unflatten(tree, given)))

    return gradient


def _cotangent(result, g):
    """Return ``g``; for a result of integers, which has no gradient, what JAX wants to see in its place."""
    return g if jnp.issubdtype(result.dtype, jnp.inexact) else np.zeros(result.shape, jax.dtypes.float0)


def _defined(
    name: str, fn: Callable, tensors: tuple[str, ...], returned: int | None, settings: dict, chip: str, tpu: bool
) -> torch.library.CustomOpDef:
    """Define one operator of PyTorch: ``fn(*arrays, **settings but mode)``, which returns a list of arrays.

    ``returned`` is the number of arrays; None, and the operator returns them in a list.
    """

    @functools.cache
    def compiled(mode: Mode, chosen: tuple):
        return torch_modes.compiled(functools.partial(fn, **dict(chosen)), mode, chip)

    def as_returned(found: list):
        return found[0] if returned == 1 else found if returned is None else tuple(found)

    def on_cpu(*given, **chosen):
        mode, chosen = _chosen(name, settings, chosen)
        _check_no_forward_mode(name)
        arrays = [torch_tensors.to_jax(name, *each) for each in zip(tensors, given, strict=True)]
        found = torch_modes.run(name, compiled(mode, chosen), mode, arrays)
        return as_returned(torch_tensors.to_torch(found))

    def shapes(*given, **chosen):
        _, chosen = _chosen(name, settings, chosen)
        return as_returned(torch_shapes.results(name, functools.partial(fn, **dict(chosen)), tensors, given))

    if tpu:
        op = torch_tpu.defined(name, fn, tensors, returned, settings)
        op.register_kernel("cpu", on_cpu)
    else:
        op = torch.library.custom_op(name, on_cpu, mutates_args=(), schema=_schema(tensors, returned, settings))
    op.register_fake(shapes)
    return op


def _check_no_forward_mode(name: str) -> None:
    """Raise ValueError inside forward-mode differentiation, in which PyTorch gives a custom operator a tangent of 0."""
    if torch.autograd.forward_ad._current_level >= 0:
        raise ValueError(
            f"{name}: forward-mode derivatives (torch.func.jvp, dual tensors) are not supported. Try reverse mode, "
            "tensor.backward() or torch.autograd.grad; or jax.jvp of the function itself."
        )


def _chosen(name: str, settings: dict, chosen: dict) -> tuple[Mode, tuple]:
    """Return the mode of a call, and its other settings; PyTorch passes only those that are not the defaults."""
    chosen = settings | chosen
    torch_modes.check_mode(name, mode := chosen.pop("mode"))
    return mode, tuple((key, tuple(value) if isinstance(value, list) else value) for key, value in chosen.items())


def _schema(tensors: tuple[str, ...], returned: int | None, settings: dict) -> str:
    """Return the signature as PyTorch writes it: (Tensor x, *, float rate=0.5, str mode="plain") -> Tensor."""
    arguments = [f"Tensor {name}" for name in tensors] + ["*"]
    for name, value in settings.items():
        if isinstance(value, tuple):
            arguments.append(f"int[] {name}")
        else:
            shown = f'"{value}"' if isinstance(value, str) else value
            arguments.append(f"{_SCHEMA_TYPES[type(value)]} {name}={shown}")
    returns = "Tensor[]" if returned is None else "Tensor" if returned == 1 else f"({', '.join(['Tensor'] * returned)})"
    return f"({', '.join(arguments)}) -> {returns}"
