"""An operator on the device of TorchTPU, defined by its own ``torch.tpu.pallas.jax_op``."""

import inspect
from collections.abc import Callable

import jax

from course_lib.frameworks.torch_tensors import torch


def defined(
    name: str, fn: Callable, tensors: tuple[str, ...], returned: int | None, settings: dict
) -> torch.library.CustomOpDef:
    """Define the operator ``name`` for TorchTPU: ``fn(*arrays, **settings but mode)``, which returns a list of arrays.

    ``returned`` is the number of arrays, None if it depends on the settings. Raises ImportError if torch_tpu is not
    installed. A tensor on the TPU runs the kernels; for one on the CPU, register a kernel with the result.
    """
    try:
        import torch_tpu  # noqa: F401  which adds torch.tpu
    except ModuleNotFoundError as error:
        if error.name != "torch_tpu":
            raise
        raise ImportError(
            f"operator: {name} has tpu=True, but TorchTPU is not installed. Try pip install torch_tpu, or tpu=False."
        ) from error
    from torch.tpu import pallas

    def on_tpu(*arrays, mode, **chosen):
        found = fn(*arrays, **chosen)
        return found[0] if returned == 1 else tuple(found)

    on_tpu.__signature__ = _signature(tensors, returned, settings)
    return pallas.jax_op(name, on_tpu)


def _signature(tensors: tuple[str, ...], returned: int | None, settings: dict) -> inspect.Signature:
    """Return the signature from which ``jax_op`` makes the schema: arrays, then settings that are compiled in."""
    Parameter = inspect.Parameter
    arrays = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=jax.Array) for name in tensors]
    others = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=tuple[int, ...])
        if isinstance(value, tuple)
        else Parameter(name, Parameter.KEYWORD_ONLY, annotation=type(value), default=value)
        for name, value in settings.items()
    ]
    several = tuple[jax.Array, ...] if returned is None else tuple[(jax.Array,) * returned]
    return inspect.Signature(arrays + others, return_annotation=jax.Array if returned == 1 else several)
