"""The real TPU compiler without a TPU: ``compile_tpu(f, x, y)`` says yes or no, how long, and how much VMEM.

A compile has three parts. ``simulating`` chooses what the compiler and its simulator get, which may be a smaller
function than the original. ``child`` is the process they run in. ``dumps`` reads the files they leave. ``assemble``
combines the results into a Report with the learner's own names.
"""

from course_lib.compiler.code import Code, bundles
from course_lib.compiler.compare import Comparison, compare
from course_lib.compiler.gpu import compile_gpu
from course_lib.compiler.gpu_kernel import GpuKernel
from course_lib.compiler.many_chips import compile_chips
from course_lib.compiler.op_cost import OpCost, op_cost
from course_lib.compiler.op_prices import OpPrice, OpPrices, op_prices
from course_lib.compiler.operations import Operation, Place
from course_lib.compiler.program import program
from course_lib.compiler.report import Bundle, Extrapolation, Loop, Op, Report
from course_lib.compiler.slice_cost import slice_cost
from course_lib.compiler.sparse_core import SparseCoreBundle, SparseCoreListing, sparse_core_listing
from course_lib.compiler.tpu import Unavailable, compile_tpu, libtpu_version, missing_libtpu

__all__ = [
    "Bundle",
    "Code",
    "Comparison",
    "Extrapolation",
    "GpuKernel",
    "Loop",
    "Op",
    "OpCost",
    "OpPrice",
    "OpPrices",
    "Operation",
    "Place",
    "Report",
    "SparseCoreBundle",
    "SparseCoreListing",
    "Unavailable",
    "bundles",
    "compare",
    "compile_chips",
    "compile_gpu",
    "compile_tpu",
    "libtpu_version",
    "missing_libtpu",
    "op_cost",
    "op_prices",
    "program",
    "slice_cost",
    "sparse_core_listing",
]
