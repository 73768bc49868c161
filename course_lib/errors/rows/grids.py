"""The grid, its axes, and how they are declared."""

from course_lib.errors.row import Row

ROWS = (
    Row(
        "not-an-integer",
        r"(?:Grid must be a tuple of integers or jax\.Array|Shapes must be 1D sequences of concrete values of integer "
        r"type), got (?P<sizes>(?![^\n]*Tracer)[^\n]*?)\.?(?:\n|$)",
        "A size is not an integer: {sizes}. In Python, 256 / 8 is 32.0.",
        "divide with //, or with pl.cdiv(n, block) if the last block may be partial.",
        "04",
    ),
    Row(
        "grid-float",
        r"'float' object is not subscriptable, from __init__, pallas_call",
        "The grid is a float. In Python, 256 / 8 is 32.0.",
        "write grid=(256 // 8,), or pl.cdiv(n, block) if the last block may be partial.",
        "04",
    ),
    Row(
        "grid-negative",
        r"iteration_bounds should be between 0 and",
        "A size of the grid is negative.",
        "each size is a number of steps: write pl.cdiv(n, block), with the array's size and the block's.",
        "04",
    ),
    Row(
        "size-from-argument",
        r"Unsupported block dimension type: <class '[\w.]*Tracer'>|"
        r"Shapes must be 1D sequences of concrete values of integer type, got [^\n]*Tracer",
        "A block or a shape depends on an argument of a jitted function. Shapes are fixed when the function is "
        "traced, before the argument's value is known.",
        'mark the argument static, jax.jit(f, static_argnames="block"), or read sizes from x.shape.',
        "07",
    ),
    Row(
        "grid-axis",
        r"Axis (?P<axis>\d+) is out of bounds for grid (?P<grid>\([^)]*\))",
        "The kernel asks for its index on grid axis {axis}, but the grid is {grid}.",
        "pl.program_id and pl.num_programs count the axes from 0; a call without grid= has none.",
        "04",
    ),
    Row(
        "program-id-outside",
        r"program id: \d+ was passed, but user did not provide a grid|AssertionError: no message, from .*program_id",
        "pl.program_id was called where no grid step runs: outside a kernel, or in an index map.",
        "call it in the kernel; an index map gets the grid indices as its arguments.",
        "04",
    ),
    Row(
        "semantics-length",
        r"Length of grid does not match length of dimension semantics\. len\(grid\)=(?P<axes>\d+), "
        r"len\(dimension_semantics\)=(?P<words>\d+)",
        "dimension_semantics and the grid differ in length: {words} and {axes}.",
        'give one word for each grid axis, in a tuple: ("parallel",) for a grid with one axis. The comma makes it a '
        "tuple.",
        "16",
    ),
    Row(
        "unequal-lengths",
        r"safe_zip\(\) argument \d+ has length .*?All lengths: (?P<lengths>\([^)]*\))",
        "Two lists that must have the same length differ: {lengths}. JAX does not say which lists.",
        "compare the lengths of dimension_semantics and grid, in_specs and inputs, out_specs and out_shape. A jax.jvp "
        "along only some of a kernel's inputs fails like this, too: give the others a tangent of zeros.",
        "16",
    ),
    Row(
        "semantics-word",
        r"tpu\.dimension_semantics<(?P<word>\w+)>.*? to be one of: (?P<words>[^\n]*)",
        'dimension_semantics contains "{word}", but the compiler knows only {words}.',
        'use "parallel" for an axis whose steps may run in any order and on several cores, otherwise "arbitrary".',
        "16",
    ),
    Row(
        "core-parallel",
        r"Core-parallel dimension (?P<axis>\d+) has iteration bound: (?P<steps>\d+), which is greater than the number "
        r"of active cores: (?P<cores>\d+)",
        'Grid axis {axis} is marked "core_parallel" and has {steps} steps, but the chip has {cores} active cores.',
        'mark it "parallel", which distributes any number of steps; or add a first axis with one step for each core.',
        "16",
    ),
)
