"""PyTorch's tensors as JAX arrays and back, in the same memory of the CPU, and what a tensor must be for that."""

from collections.abc import Iterable

import jax
import jax.numpy as jnp

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("course_lib.frameworks.torch: PyTorch is not installed. Try pip install torch.") from error

# The dtypes that both have, as long as JAX computes in 32 bits.
_IN_JAX = {
    torch.float32: jnp.float32,
    torch.bfloat16: jnp.bfloat16,
    torch.float16: jnp.float16,
    torch.int32: jnp.int32,
    torch.int16: jnp.int16,
    torch.int8: jnp.int8,
    torch.uint8: jnp.uint8,
    torch.bool: jnp.bool_,
}
_IN_TORCH = {jnp.dtype(theirs): ours for ours, theirs in _IN_JAX.items()}
_SHORTER = {torch.float64: "float()", torch.int64: "int()", torch.complex64: "real", torch.complex128: "real.float()"}


def dtype_in_jax(op: str, name: str, tensor: torch.Tensor):
    """Return JAX's name for the dtype of a tensor. Raise ValueError if it has none."""
    if tensor.dtype not in _IN_JAX:
        allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in _IN_JAX)
        cast = _SHORTER.get(tensor.dtype, "float()")
        raise ValueError(
            f"{op}: {name} is {tensor.dtype}; it may be any of {allowed}, which JAX has too. Try {name}.{cast}."
        )
    return _IN_JAX[tensor.dtype]


def to_jax(op: str, name: str, tensor: torch.Tensor) -> jax.Array:
    """Return a tensor's memory as a JAX array; a tensor that is not contiguous is copied. Raise ValueError."""
    check_place(op, name, tensor)
    dtype = dtype_in_jax(op, name, tensor)
    if not tensor.numel():
        return jnp.zeros(tuple(tensor.shape), dtype, device=jax.devices("cpu")[0])  # there is no memory to share
    return jnp.from_dlpack(tensor.detach().contiguous())


def check_place(op: str, name: str, tensor: torch.Tensor) -> None:
    """Raise ValueError if a tensor is not a dense one on the CPU; one that only has a shape passes."""
    if tensor.device.type not in ("cpu", "meta"):
        raise ValueError(
            f"{op}: {name} is on {tensor.device}; it must be on the CPU, whose memory JAX shares. Try {name}.cpu()."
        )
    if tensor.layout != torch.strided:
        raise ValueError(f"{op}: {name} is sparse, {tensor.layout}; it must be dense. Try {name}.to_dense().")


def to_torch(arrays: Iterable[jax.Array]) -> list[torch.Tensor]:
    """Return the memory of JAX arrays as tensors.

    The arrays must be results of ``jax.jit``, each of which has memory of its own, even where the function returns an
    argument: PyTorch's user may write to a tensor.
    """
    return [torch.from_dlpack(array) for array in arrays]


def dtype_in_torch(dtype) -> torch.dtype:
    """Return PyTorch's name for a dtype of JAX. Raise TypeError if it has none."""
    if (found := _IN_TORCH.get(jnp.dtype(dtype))) is None:
        raise TypeError(f"the function returns {dtype}, which PyTorch does not have. Try .astype(jnp.float32) on it.")
    return found
