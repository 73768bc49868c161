"""The kernels inside PyTorch: any JAX function with Pallas kernels as an operator that PyTorch differentiates.

``operator`` makes one; docs/pytorch.md shows how, and what becomes of it on a TPU.
"""

from course_lib.frameworks.torch_layers import FlashAttention as FlashAttention
from course_lib.frameworks.torch_layers import FusedLinear as FusedLinear
from course_lib.frameworks.torch_operator import operator as operator
from course_lib.frameworks.torch_proof import proof as proof
