"""Kernels for GPUs: what Mosaic GPU, Triton, ptxas and JAX's simulator of a GPU refuse."""

from course_lib.errors.row import Row


def _over(wants: str, may: str, **_) -> dict[str, str]:
    return {"wants": f"{int(wants) / 1024:,.0f}", "may": f"{int(may) / 1024:,.0f}"}


_SUPPORTED = "write it with supported operations: see the list of plgpu, and jnp's arithmetic, exp, tanh, sum and max."
_UNKNOWN_OPS = {
    "dot_general": "multiply with plgpu.wgmma: it adds to a plgpu.ACC and reads its operands from shared memory.",
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
        "A block of the kernel asks for {wants} KiB of shared memory, but may use only {may} KiB.",
        "use smaller blocks, or fewer stages of the ring.",
        more=_over,
    ),
    Row(
        "triton-smem",
        r"Shared memory size limit exceeded: requested (?P<wants>\d+), available: (?P<may>\d+)",
        "A block of the kernel needs {wants} KiB of shared memory, but may use only {may} KiB. Triton keeps the "
        "operands of a matmul there, num_stages times.",
        "use smaller blocks, split the reduction into a loop, or ask for fewer stages: "
        "plgpu_triton.CompilerParams(num_stages=2).",
        more=_over,
    ),
    Row(
        "gpu-layouts",
        r"Failed to infer a possible set of layouts",
        "Mosaic GPU finds no layout of the values, over the 128 threads of a warpgroup and in shared memory, that "
        "fits all operations of the kernel.",
        "make vectors a multiple of 128, and operands of wgmma multiples of 64 in both axes; remove transforms= of "
        "plgpu.SMEM, because they are inferred too. For a sum or a maximum over one axis of a matrix, with keepdims "
        "or without, read it as plgpu.layout_cast(x_smem[...], plgpu.Layout.WGMMA), and write to shared memory.",
    ),
    Row(
        "gpu-swizzle",
        r"Swizzle (?P<bytes>\d+) requires the trailing dimension to be of size (?P<wants>\d+), but got shape: "
        r"\((?P<shape>[^)]*)\)",
        "A swizzle of {bytes} bytes needs tiles that are {wants} elements wide, but the tiles here are ({shape}).",
        "make TilingTransform's last size times the bytes of an element equal to the swizzle; or remove transforms=.",
    ),
    Row(
        "wgmma-rows",
        r"accumulator's first dimension must be a multiple of 64, but got (?P<rows>\d+)",
        "wgmma computes 64 rows at once, but the accumulator has {rows}.",
        "give each warpgroup a multiple of 64 rows.",
    ),
    Row(
        "wgmma-f32",
        r"Only f16 WGMMA supports transposes",
        "wgmma reads f32 as tf32 (10 bits of fraction), and then neither operand may need a transpose: y would have "
        "to be (N, K) in shared memory.",
        "use bfloat16; or copy y as (N, K) and pass y_smem.T.",
    ),
    Row(
        "wgmma-dtypes",
        r"Mixed input dtypes for matrix multiplication unsupported: lhs=(?P<x>\w+), rhs=(?P<y>\w+)",
        "wgmma multiplies operands of one dtype, but these are {x} and {y}.",
        "cast one before the kernel, y.astype(x.dtype).",
    ),
    Row(
        "wgmma-shapes",
        r"Incompatible shapes for matrix multiplication: lhs=\((?P<x>[^)]*)\), rhs=\S*?\((?P<y>[^)]*)\), "
        r"acc=\((?P<acc>[^)]*)\)",
        "wgmma adds x @ y to the accumulator: x ({x}), y ({y}) and an accumulator of ({acc}) do not fit together.",
        "make them (m, k), (k, n) and (m, n); y_smem.T transposes a block of shape (n, k).",
    ),
    Row(
        "gpu-operation",
        r"Unimplemented primitive in Pallas Mosaic GPU lowering: (?P<op>\w+)",
        "`{op}` is not an operation of Mosaic GPU.",
        "{help}",
        more=lambda op: {"help": _UNKNOWN_OPS.get(op, _SUPPORTED)},
    ),
    Row(
        "triton-operation",
        r"Unimplemented primitive in Pallas Triton lowering: (?P<op>\w+)",
        "`{op}` is not an operation of Triton, which compiles pallas_call on a GPU.",
        "write it with arithmetic, exp, sum, max, cumsum and jnp.dot, or do it outside the kernel.",
    ),
    Row(
        "triton-16-bits",
        r"unsupported types: (?:tensor<(?:\d+x)*)?b?f16\b|"
        r"Operand 1 of operation \"math\.(?P<power>powf)\" must be a Value|"
        r"failed to legalize operation 'math\.(?P<function>\w+)'[^\n]*\((?:tensor<(?:\d+x)*)?b?f16\b",
        "The kernel computes {operation} in 16 bits{where}, but Triton, which compiles pallas_call on a GPU, does "
        "that only in float32.",
        "compute in float32, x_ref[...].astype(jnp.float32), and cast back in the last line, .astype(o_ref.dtype).",
        more=_in_16_bits,
    ),
    Row(
        "triton-power-of-2",
        r"Pallas Triton lowering currently requires .*? Encountered an array of shape \((?P<shape>[^)]*)\)",
        "On a GPU Triton compiles pallas_call, and the sizes of its arrays must be powers of two; this one is "
        "({shape}).",
        "use a block of the next power of two, and mask the elements past the end of the array.",
    ),
    Row(
        "triton-scratch",
        r"scratch memory not implemented in the Triton backend",
        "On a GPU Triton compiles pallas_call, and it has no scratch_shapes.",
        "keep the sum in a value that a jax.lax.fori_loop carries; or write the kernel with plgpu.kernel.",
    ),
    Row(
        "gpu-other-backend",
        r"AssertionError: no message, from gpu_lowering|"
        r"Compiler params for platform tpu cannot be used for gpu lowering",
        "compiler_params is for another backend: on a GPU Triton compiles pallas_call, whatever the parameters.",
        "remove compiler_params, or use plgpu.kernel for Mosaic GPU.",
    ),
    Row(
        "gpu-no-barrier",
        r"copy_gmem_to_smem without a barrier is only supported on pre-Hopper GPUs"
        r"|Interpret mode does not support copy_gmem_to_smem without a barrier",
        "copy_gmem_to_smem was given no barrier, but TMA, which makes the copy, signals its end on one.",
        "add plgpu.Barrier() to scratch_types, pass it as the third argument, and call plgpu.barrier_wait on it.",
    ),
    Row(
        "gpu-too-old",
        r"copy_gmem_to_smem with a barrier is only supported Hopper and newer|INTERNAL: Pass pipeline failed"
        r"|LLVM ERROR: Cannot select|Instruction '[\w.]+' not\s+supported on \.target",
        "The kernel uses instructions that this GPU does not have: TMA came with Hopper, and only Hopper has wgmma.",
        'compile it for one, chip="h100" or "h200"; for Ampere and Ada write it with pallas_call.',
    ),
    Row(
        "gpu-copy-space",
        r"(?P<role>src|dst) must be a (?P<space>SMEM|GMEM) reference, got Ref<(?P<got>\w+)>",
        "The copy's {role} must be in {space}, but is in {got}.",
        "copy_gmem_to_smem(gmem, smem, barrier) copies in, and copy_smem_to_gmem(smem, gmem) copies out.",
    ),
    Row(
        "gpu-copy-shapes",
        r"Expected shapes to match, but src has shape \((?P<src>[^)]*)\) and dst has shape \((?P<dst>[^)]*)\)",
        "The copy goes from ({src}) to ({dst}): the shapes must be equal.",
        "slice both alike, ref.at[pl.ds(start, size)].",
    ),
    Row(
        "gpu-copy-dtypes",
        r"Expected dtypes to match but src had type (?P<src>\w+) and dst had type (?P<dst>\w+)",
        "The copy goes from {src} to {dst}, but TMA moves bytes and does not convert dtypes.",
        "allocate the shared memory in {dst}, and use .astype on the values you write to it.",
    ),
    Row(
        "gpu-copy-256",
        r"Async copies only support copying <=256 elements along each dimension, got \((?P<shape>[^)]*)\)",
        "One TMA copy has at most 256 elements along each axis, but this one is ({shape}).",
        "split it into several copies, or view the array with one more axis.",
    ),
    Row(
        "gpu-grid-names",
        r"grid_names must have the same length as grid, got Mesh\(grid=\((?P<grid>[^)]*)\), "
        r"grid_names=\((?P<names>[^)]*)\)",
        "plgpu.kernel needs a name for each axis of the grid, but was given ({names}) for a grid of ({grid}).",
        'pass grid_names=("i",), and call lax.axis_index("i") in the kernel.',
    ),
    Row(
        "gpu-axis",
        r"Found an unbound axis name: (?P<axis>\w+)\. To fix this, please call axis_index",
        "There is no axis called {axis} here.",
        "in plgpu.kernel, grid_names names the axes of the grid, and thread_name names the warpgroups.",
    ),
    Row(
        "gpu-not-waited",
        r"Not all copy_smem_to_gmem read-side operations completed before kernel finished",
        "The kernel ends while TMA still reads the shared memory that it stores, so it may store garbage.",
        "end with plgpu.wait_smem_to_gmem(0).",
    ),
    Row(
        "gpu-barrier-left",
        r"thread \w+\([^)]*?warpgroup_id=(?P<who>\d+)\) had only observed (?:that )?barrier",
        "Warpgroup {who} ends before it has waited for the last arrivals at a barrier.",
        "wait for each arrival: after the last step, wait for as many stages as were filled.",
    ),
    Row(
        "gpu-barrier-overrun",
        r"Barrier completed phase \d+, but no threads observed phase \d+",
        "A barrier completes again before any thread has waited for its previous completion: a copy overwrites shared "
        "memory that is still in use.",
        "call plgpu.barrier_wait on the copy's barrier before each read, and let num_arrivals count all copies that "
        "one completion is for. If a warpgroup of its own makes the copies, add a second barrier for each stage: its "
        "readers call plgpu.barrier_arrive on it, and the copying warpgroup waits for it.",
    ),
    Row(
        "gpu-barrier-ahead",
        r"is awaiting phase \d+, but barrier is already at phase \d+",
        "A barrier has completed once more than a warpgroup that waits for it has noticed: it counts an arrival too "
        "many.",
        "count the arrivals at the barrier: those of the copies that name it, and each plgpu.barrier_arrive. Together "
        "they must be num_arrivals for each plgpu.barrier_wait.",
    ),
    Row(
        "gpu-load-vector",
        r"Only optimized transfers to SMEM supported",
        "Part of an array in GPU memory is loaded into registers in a layout that Mosaic GPU has no fast load for, "
        "such as a vector for the columns of an accumulator.",
        "load it by name: plgpu.load(b_gmem.at[columns], layout=plgpu.Layout.WGMMA.reduce(0), optimized=False), or "
        "copy it to shared memory first.",
    ),
    Row(
        "gpu-accumulator",
        r"Accumulator (?:shape \(\S*\)|dtype \w+) does not match value (?:shape|dtype)",
        "The kernel stores a value to an accumulator of wgmma, as with acc_ref[...] += x. Only plgpu.wgmma adds to it.",
        "multiply with plgpu.wgmma(acc_ref, x_smem, y_smem), whose operands lie in shared memory.",
    ),
    Row(
        "gpu-outside",
        r"Out-of-bounds (?P<how>read|swap|store) of HostAllocationKey.*?range=(?P<slice>\[[^\]]*\]).*?"
        r"buffer has shape \((?P<shape>[^)]*)\)",
        "The kernel reaches past the end of an array: {slice} of an array of shape ({shape}).",
        "check the start and the size of the slice, and the size of the grid.",
    ),
)  # fmt: skip
