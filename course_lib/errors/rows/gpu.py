"""Kernels for GPUs: what Mosaic GPU, Triton, ptxas and JAX's simulator of a GPU refuse."""

from course_lib.errors.row import Row


def _over(wants: str, may: str, **_) -> dict[str, str]:
    return {"wants": f"{int(wants) / 1024:,.0f}", "may": f"{int(may) / 1024:,.0f}"}


_UNKNOWN_OPS = {
    "dot_general": "multiply with plgpu.wgmma, which adds to a plgpu.ACC and reads its operands from shared memory.",
}


def _in_16_bits(power: str, function: str) -> dict[str, str]:
    """Name the operation that Triton lacks for bfloat16 and float16; a division, if its message names none."""
    if power != "?" or function == "powf":
        return {"operation": "a power"}
    return {"operation": "a division" if function == "?" else function}


ROWS = (
    Row(
        "gpu-smem",
        r"exceeds available shared memory: smem_bytes=(?P<wants>\d+) > max_smem_bytes=(?P<may>\d+)",
        "A block of the kernel asks for {wants} KiB of shared memory, and may have {may} KiB.",
        "take smaller blocks, or fewer stages of the ring.",
        more=_over,
    ),
    Row(
        "triton-smem",
        r"Shared memory size limit exceeded: requested (?P<wants>\d+), available: (?P<may>\d+)",
        "A block of the kernel needs {wants} KiB of shared memory, and may have {may} KiB. Triton keeps there what a "
        "product reads, num_stages times.",
        "take smaller blocks, cut the reduction into a loop, or ask for fewer stages: "
        "plgpu_triton.CompilerParams(num_stages=2).",
        more=_over,
    ),
    Row(
        "gpu-layouts",
        r"Failed to infer a possible set of layouts",
        "Mosaic GPU finds no way to lay the values out, among the 128 threads of a warpgroup and in shared memory, on "
        "which all operations of the kernel agree.",
        "make vectors a multiple of 128, and operands of wgmma multiples of 64 in both axes; leave transforms= of "
        "plgpu.SMEM out, for they are found too. For a sum or a maximum over one axis of a matrix, with keepdims or "
        "without, read it as plgpu.layout_cast(x_smem[...], plgpu.Layout.WGMMA), and write to shared memory.",
    ),
    Row(
        "gpu-swizzle",
        r"Swizzle (?P<bytes>\d+) requires the trailing dimension to be of size (?P<wants>\d+), but got shape: "
        r"\((?P<shape>[^)]*)\)",
        "A swizzle of {bytes} bytes needs tiles of {wants} numbers across, and those here are ({shape}).",
        "let TilingTransform's last size times the bytes of a number be the swizzle; or leave transforms= out.",
    ),
    Row(
        "wgmma-rows",
        r"accumulator's first dimension must be a multiple of 64, but got (?P<rows>\d+)",
        "wgmma makes 64 rows at once, and the accumulator has {rows}.",
        "give each warpgroup a multiple of 64 rows.",
    ),
    Row(
        "wgmma-f32",
        r"Only f16 WGMMA supports transposes",
        "wgmma reads f32 as tf32 (10 bits of fraction), and then neither operand may need turning: y would have to lie "
        "in shared memory as (N, K).",
        "use bfloat16; or copy y as (N, K) and hand over y_smem.T.",
    ),
    Row(
        "wgmma-dtypes",
        r"Mixed input dtypes for matrix multiplication unsupported: lhs=(?P<x>\w+), rhs=(?P<y>\w+)",
        "wgmma multiplies numbers of one dtype, and these are {x} and {y}.",
        "cast one before the kernel, y.astype(x.dtype).",
    ),
    Row(
        "wgmma-shapes",
        r"Incompatible shapes for matrix multiplication: lhs=\((?P<x>[^)]*)\), rhs=\S*?\((?P<y>[^)]*)\), "
        r"acc=\((?P<acc>[^)]*)\)",
        "wgmma adds x @ y to the accumulator: x ({x}), y ({y}) and an accumulator of ({acc}) do not fit together.",
        "make them (m, k), (k, n) and (m, n); y_smem.T turns a block that lies as (n, k).",
    ),
    Row(
        "gpu-operation",
        r"Unimplemented primitive in Pallas Mosaic GPU lowering: (?P<op>\w+)",
        "`{op}` is not an operation of Mosaic GPU.",
        "{help}",
        more=lambda op: {"help": _UNKNOWN_OPS.get(op, "write it with what there is: see the list of plgpu, and jnp's "
                                                      "arithmetic, exp, tanh, sum and max.")},
    ),
    Row(
        "triton-operation",
        r"Unimplemented primitive in Pallas Triton lowering: (?P<op>\w+)",
        "`{op}` is not an operation of Triton, through which pallas_call goes on a GPU.",
        "write it with arithmetic, exp, sum, max, cumsum and jnp.dot, or do it outside the kernel.",
    ),
    Row(
        "triton-16-bits",
        r"unsupported types: (?:tensor<(?:\d+x)*)?b?f16\b|"
        r"Operand 1 of operation \"math\.(?P<power>powf)\" must be a Value|"
        r"failed to legalize operation 'math\.(?P<function>\w+)'[^\n]*\((?:tensor<(?:\d+x)*)?b?f16\b",
        "The kernel computes {operation} in 16 bits{where}, and Triton, through which pallas_call goes on a GPU, does "
        "that in float32 only.",
        "compute in float32, x_ref[...].astype(jnp.float32), and cast back in the last line, .astype(o_ref.dtype).",
        more=_in_16_bits,
    ),
    Row(
        "triton-power-of-2",
        r"Pallas Triton lowering currently requires .*? Encountered an array of shape \((?P<shape>[^)]*)\)",
        "On a GPU pallas_call goes through Triton, and its arrays have a power of two of elements; this one is "
        "({shape}).",
        "take a block of the next power of two, and mask what reaches past the array.",
    ),
    Row(
        "triton-scratch",
        r"scratch memory not implemented in the Triton backend",
        "On a GPU pallas_call goes through Triton, which has no scratch_shapes.",
        "keep the sum in a value that a jax.lax.fori_loop carries; or write the kernel with plgpu.kernel.",
    ),
    Row(
        "gpu-other-backend",
        r"AssertionError: no message, from gpu_lowering|"
        r"Compiler params for platform tpu cannot be used for gpu lowering",
        "compiler_params is for another backend: on a GPU pallas_call goes through Triton, whatever the parameters.",
        "leave compiler_params out, or use plgpu.kernel for Mosaic GPU.",
    ),
    Row(
        "gpu-no-barrier",
        r"copy_gmem_to_smem without a barrier is only supported on pre-Hopper GPUs"
        r"|Interpret mode does not support copy_gmem_to_smem without a barrier",
        "copy_gmem_to_smem was given no barrier, and TMA, which does the copy, tells its end by one.",
        "add plgpu.Barrier() to scratch_types, hand it over as the third argument, and plgpu.barrier_wait it.",
    ),
    Row(
        "gpu-too-old",
        r"copy_gmem_to_smem with a barrier is only supported Hopper and newer|INTERNAL: Pass pipeline failed"
        r"|LLVM ERROR: Cannot select|Instruction '[\w.]+' not\s+supported on \.target",
        "The kernel has instructions that this GPU has not: TMA came with Hopper, and wgmma is Hopper's alone.",
        'compile it for one, chip="h100" or "h200"; for Ampere and Ada write it with pallas_call.',
    ),
    Row(
        "gpu-copy-space",
        r"(?P<role>src|dst) must be a (?P<space>SMEM|GMEM) reference, got Ref<(?P<got>\w+)>",
        "The copy's {role} must be in {space}, and what it was given is in {got}.",
        "copy_gmem_to_smem(gmem, smem, barrier) copies in, and copy_smem_to_gmem(smem, gmem) out.",
    ),
    Row(
        "gpu-copy-shapes",
        r"Expected shapes to match, but src has shape \((?P<src>[^)]*)\) and dst has shape \((?P<dst>[^)]*)\)",
        "The copy goes from ({src}) to ({dst}): the shapes must be equal.",
        "cut both alike, ref.at[pl.ds(start, size)].",
    ),
    Row(
        "gpu-copy-dtypes",
        r"Expected dtypes to match but src had type (?P<src>\w+) and dst had type (?P<dst>\w+)",
        "The copy goes from {src} to {dst}: TMA moves bytes, and converts nothing.",
        "allocate the shared memory in {dst}, and .astype what is written to it.",
    ),
    Row(
        "gpu-copy-256",
        r"Async copies only support copying <=256 elements along each dimension, got \((?P<shape>[^)]*)\)",
        "One TMA copy has at most 256 numbers along each axis, and this one is ({shape}).",
        "cut it into several copies, or view the array with one axis more.",
    ),
    Row(
        "gpu-grid-names",
        r"grid_names must have the same length as grid, got Mesh\(grid=\((?P<grid>[^)]*)\), "
        r"grid_names=\((?P<names>[^)]*)\)",
        "plgpu.kernel wants a name for each axis of the grid, and was given ({names}) for a grid of ({grid}).",
        'hand over grid_names=("i",), and ask lax.axis_index("i") in the kernel.',
    ),
    Row(
        "gpu-axis",
        r"Found an unbound axis name: (?P<axis>\w+)\. To fix this, please call axis_index",
        "Nothing here is called {axis}.",
        "in plgpu.kernel an axis of the grid is called as grid_names says, and the warpgroups as thread_name does.",
    ),
    Row(
        "gpu-not-waited",
        r"Not all copy_smem_to_gmem read-side operations completed before kernel finished",
        "The kernel ends while TMA still reads the shared memory that it stores: what is stored then is anything.",
        "end with plgpu.wait_smem_to_gmem(0).",
    ),
    Row(
        "gpu-barrier-left",
        r"thread \w+\([^)]*?warpgroup_id=(?P<who>\d+)\) had only observed (?:that )?barrier",
        "Warpgroup {who} ends before it has waited for the last arrivals at a barrier.",
        "wait for each arrival: after the last step for as many stages as were filled.",
    ),
    Row(
        "gpu-barrier-overrun",
        r"Barrier completed phase \d+, but no threads observed phase \d+",
        "A barrier is completed again before anybody has waited for the time before: a copy goes into shared memory "
        "that is still in use.",
        "add a second barrier for each stage, on which its readers plgpu.barrier_arrive and the copier waits.",
    ),
    Row(
        "gpu-outside",
        r"Out-of-bounds (?P<how>read|swap|store) of HostAllocationKey.*?range=(?P<slice>\[[^\]]*\]).*?"
        r"buffer has shape \((?P<shape>[^)]*)\)",
        "The kernel reaches past an array: {slice} of one of shape ({shape}).",
        "check the start and the size of the slice, and the size of the grid.",
    ),
)  # fmt: skip
