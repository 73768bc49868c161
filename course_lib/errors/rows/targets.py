"""The machine that a kernel is for, and the machine it runs on."""

from course_lib.errors.row import Row

ROWS = (
    Row(
        "no-tpu",
        r"Only interpret mode is supported on CPU backend",
        "A TPU kernel was called, but this machine has only a CPU.",
        "run it in the simulator, with pltpu.force_tpu_interpret_mode(): around the call; or ask the compiler about "
        "it, compiler.compile_tpu(f, x).",
        "01",
    ),
    Row(
        "no-target",
        r"Unsupported TPU device kind: (?P<kind>[^.\n]*)|AttributeError: no message, from .*num_cores",
        "The kernel asks what kind of TPU it is for, as emit_pipeline, core meshes and get_tpu_info do, but there is "
        "no TPU here.",
        'name one: put `with chips.chip("v5e").target():` around it (from course_lib import chips). compile_tpu and '
        "the judges do so by themselves.",
        "05",
    ),
    Row(
        "program-id-in-when",
        r"MLIR translation rule for primitive '(?P<op>program_id|num_programs)' not found for platform cpu",
        "pl.{op} is called inside a pl.when or a loop, where the plain interpreter (interpret=True) does not support "
        "it.",
        "call it before, `i = pl.{op}(0)`, and use i inside; or run the kernel in the TPU simulator, "
        "interpret=pltpu.InterpretParams().",
        "11",
    ),
    Row(
        "plain-interpreter",
        r"MLIR translation rule for primitive '(?P<op>\w+)' not found for platform cpu",
        "`{op}` is a TPU operation that the plain interpreter (interpret=True) does not support.",
        "run the kernel in the TPU simulator: interpret=pltpu.InterpretParams().",
        "11",
    ),
    Row(
        "sparse-core",
        r"The current TPU does not have SparseCores",
        "The kernel is for SparseCores, but the chip it is compiled for, such as a v5e, has none.",
        'compile it for a chip that has them: compile_tpu(..., chip="v5p"), or "v6e", or "tpu7x".',
        "17",
    ),
    Row(
        "gpu-parameters",
        r"Compiler params for platform gpu cannot be used for tpu lowering|"
        r"AssertionError: no message, from pallas_call_tpu_lowering_rule",
        "compiler_params is for a GPU, but the kernel is compiled for a TPU.",
        "write compiler_params=pltpu.CompilerParams(...), or remove it.",
        "16",
    ),
    Row(
        "sharded",
        r"Mosaic kernels cannot be automatically partitioned",
        "A kernel was given an array that is spread over several devices. JAX cannot partition a kernel by itself.",
        "wrap the call in jax.shard_map: each device then runs the kernel on its own piece.",
        "16",
    ),
)
