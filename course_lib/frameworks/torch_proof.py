"""What the TPU's compiler says about an operator of PyTorch, forward and backward, without a TPU."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from course_lib import compiler
from course_lib.frameworks import torch_operator, torch_tensors
from course_lib.frameworks.torch_tensors import torch


class Proof(NamedTuple):
    """The compiler's Reports on an operator and on its gradient; ``backward`` is None if no argument has a gradient."""

    forward: compiler.Report
    backward: compiler.Report | None


def proof(
    op: torch.library.CustomOpDef, *tensors: torch.Tensor, chip: str = "v5e", simulate: bool = True, **options
) -> Proof:
    """Compile what ``operator`` returned for a TPU: forward, and the gradients of all arguments that are floats.

    Of ``tensors`` only shapes and dtypes matter, so ``torch.empty(..., device="meta")`` will do. ``options`` are those
    of the operator, without ``mode``. ``chip`` and ``simulate`` are those of ``compiler.compile_tpu``, whose Reports
    are returned: cycles, bytes and VMEM in them are predicted (compiler). The backward program recomputes what it needs
    of the forward pass. Raises ValueError if ``op`` is none of ours or an option is not its, and
    ``compiler.Unavailable`` if there is no libtpu.
    """
    functions = torch_operator.functions_of(op)
    if unknown := sorted(options.keys() - functions.options.keys()):
        known = ", ".join(functions.options) or "none"
        raise ValueError(f"proof: {unknown[0]} is no option of this operator; it has {known}.")
    options = functions.options | options
    arrays = [
        jax.ShapeDtypeStruct(tuple(tensor.shape), torch_tensors.dtype_in_jax("proof", f"tensor {place}", tensor))
        for place, tensor in enumerate(tensors)
    ]

    def forward(*arrays):
        return functions.forward(*arrays, **options)

    report = compiler.compile_tpu(forward, *arrays, chip=chip, simulate=simulate)
    wanted = tuple(place for place, array in enumerate(arrays) if jnp.issubdtype(array.dtype, jnp.floating))
    if not report.ok or not wanted:
        return Proof(report, None)

    def backward(*arrays):
        return functions.gradient(*arrays, wanted=wanted, **options)

    cotangents = jax.eval_shape(forward, *arrays)
    return Proof(report, compiler.compile_tpu(backward, *arrays, *cotangents, chip=chip, simulate=simulate))
