"""What the TPU simulator detects while a kernel runs."""

from course_lib.errors.row import Row

ROWS = (
    Row(
        "block-outside",
        r"IndexError: Out-of-bounds block index (?P<block>\([^)]*\)) for (?P<role>input|output) \"(?P<ref>[^\"]+)\" "
        r"in iteration (?P<step>\([^)]*\))",
        "At step {step} the index map of {ref} asked for block {block}, which lies outside the array. A "
        "chip halts there.",
        "an index map returns block indices, counted from 0, not element indices. Call it yourself, with the first "
        "and the last step.",
        "04",
    ),
    Row(
        "read-outside",
        r"Out-of-bounds read of [^\n]*?: reading \[[\[(]?(?P<slice>.*?),?[\])]?\] but buffer has shape "
        r"(?P<shape>\([^)]*\))",
        "The kernel read outside a buffer: [{slice}] of a buffer of shape {shape}.",
        "check the start and the size of the slice you read against the shape of the ref.",
        "08",
    ),
    Row(
        "write-outside",
        r"Out-of-bounds swap of [^\n]*?: swapping \[[\[(]?(?P<slice>.*?),?[\])]?\] but buffer has shape "
        r"(?P<shape>\([^)]*\))",
        "The kernel wrote outside a buffer: to [{slice}] of a buffer of shape {shape}.",
        "check the start and the size of the slice you write to against the shape of the ref.",
        "08",
    ),
    Row(
        "revisit",
        r"Revisited block (?P<block>[\[(].*?[\])]) of output (?P<output>\d+) in iteration (?P<step>\([^)]*\)). "
        r"The block was previously visited in iterations (?P<before>\([^)]*\))",
        "The block {block} of output {output} left VMEM after step {before}, and the grid came back to it at step "
        "{step}: it is not copied in again.",
        "order the grid so that all steps of one output block are consecutive; put a reduction axis last.",
        "04",
    ),
    Row(
        "race",
        r"RACE DETECTED",
        "Two cores accessed the same memory, and nothing orders the accesses.",
        'an axis marked "parallel" may be split over cores: mark an axis only if no two of its steps share a block.',
        "16",
    ),
    Row(
        "stuck",
        r"\.watchdog\.Stuck\b",  # our own error: a simulator that deadlocks never ends by itself
        "The kernel hangs: it waits for a signal that never comes.",
        "count the signals and the waits of each semaphore: they must match.",
    ),
    Row(
        "interpreter-bug",
        r"ValueError: Did not ask for inval to be discharged",
        "JAX's plain interpreter cannot run this kernel, most likely because it has a pipeline inside a pipeline.",
        "run it in the TPU simulator, interpret=pltpu.InterpretParams(), which can.",
    ),
    Row(
        "cpu-lacks-it",
        r"UNIMPLEMENTED: Unsupported element type for DotThunk::Execute: (?P<what>[^\n]*)",
        "On the CPU, XLA does not support this matmul for two simulated cores: {what}.",
        "simulate one core; the TPU supports it.",
    ),
)
