"""The shapes that an operator returns, for PyTorch's fake tensors, with sizes that a graph leaves open."""

from collections.abc import Callable, Sequence

import jax
from jax import export

from course_lib.frameworks import torch_tensors
from course_lib.frameworks.torch_tensors import torch


def results(op: str, fn: Callable, names: Sequence[str], given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return an uninitialized tensor for each array that ``fn`` would return for tensors of these shapes and dtypes.

    Sizes that PyTorch keeps symbolic stay so if JAX can trace ``fn`` with symbolic sizes, and if each size of a result
    is a number or that of an argument. Otherwise they become the numbers that they stand for now, and PyTorch compiles
    again for others. Raises what ``fn`` raises, and ValueError for a tensor that the operator does not take.
    """
    dtypes = []
    for name, tensor in zip(names, given, strict=True):
        torch_tensors.check_place(op, name, tensor)
        dtypes.append(torch_tensors.dtype_in_jax(op, name, tensor))
    if sizes := _symbolic(given):
        try:
            return _traced(fn, given, dtypes, sizes)
        except Exception:  # JAX has many ways to say that it needs a number. What raises below is the function's own.
            pass
    return _traced(fn, given, dtypes, {})


def _symbolic(given: Sequence[torch.Tensor]) -> dict:
    """Return PyTorch's symbolic sizes, each once: {its expression: the size}."""
    sizes = [size for tensor in given for size in tensor.shape if isinstance(size, torch.SymInt)]
    return {size.node.expr: size for size in sizes if size.node.maybe_as_int() is None}


def _traced(fn: Callable, given, dtypes, sizes: dict) -> list[torch.Tensor]:
    letters = [f"size_{n}" for n in range(len(sizes))]
    dims = export.symbolic_shape(", ".join(letters)) if sizes else ()
    in_jax, in_torch = dict(zip(sizes, dims, strict=True)), dict(zip(letters, sizes.values(), strict=True))

    def shape(tensor: torch.Tensor) -> tuple:
        expressions = [size.node.expr if isinstance(size, torch.SymInt) else size for size in tensor.shape]
        pairs = zip(expressions, tensor.shape, strict=True)
        return tuple(in_jax[expression] if expression in in_jax else int(size) for expression, size in pairs)

    def back(size):
        return size if isinstance(size, int) else in_torch[str(size)]  # KeyError if it is computed from others

    arrays = [jax.ShapeDtypeStruct(shape(tensor), dtype) for tensor, dtype in zip(given, dtypes, strict=True)]
    return [
        given[0].new_empty([back(size) for size in one.shape], dtype=torch_tensors.dtype_in_torch(one.dtype))
        for one in jax.eval_shape(fn, *arrays)
    ]
