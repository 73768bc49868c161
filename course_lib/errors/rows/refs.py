"""Refs: reading them, writing them, slicing them."""

from course_lib.errors.row import Row

ROWS = (
    Row(
        "forgot-ellipsis",
        r"AttributeError: 'AbstractRef' object has no attribute|"
        r"TypeError: \w+ requires ndarray or scalar arguments, got <class '[\w.]*Tracer'>|"
        r"unsupported operand type\(s\) for [^:]+: '\w*Tracer' and '\w*Tracer'|"
        r"traced array with shape Ref<|'TransformedRef' and '|and 'TransformedRef'|TransformedRefs cannot be "
        r"abstractified|a Ref can't be passed where an array is expected",
        "The kernel did arithmetic on a Ref. A Ref is a place in memory, not a value.",
        "read it first: x_ref[...] returns the whole block as a value.",
        "01",
    ),
    Row(
        "stored-ref",
        r"Cannot store a Ref into another Ref",
        "The kernel wrote a Ref into a Ref. A Ref is a place in memory, not a value.",
        "read the one and write to the other: o_ref[...] = x_ref[...].",
        "01",
    ),
    Row(
        "iterated-ref",
        r"Value of type <class '[\w.]*Tracer'> is not iterable",
        "The kernel ran a `for` loop over a Ref. A Ref is a place in memory, not a list of rows.",
        "work on the whole block at once, x_ref[...]; or loop over row indices: for i in range(x_ref.shape[0]).",
        "01",
    ),
    Row(
        "store-dtype",
        r"Invalid dtype for `swap`\. Ref dtype: (?P<ref>\w+)\. Value dtype: (?P<value>\w+)",
        "The kernel wrote {value} values into a ref of {ref}.",
        "cast before you write, value.astype(o_ref.dtype), or give out_shape the dtype you want. A scratch ref for an "
        "accumulator should be float32: pltpu.VMEM(shape, jnp.float32).",
        "01",
    ),
    Row(
        "store-scalar",
        r"Invalid shape for `swap`\. .*?Expected shape: (?P<place>\([^)]*\))\. Value shape: \(\)",
        "The kernel wrote a scalar to a ref of shape {place}. A Ref does not broadcast it.",
        "make a block of it: jnp.zeros_like(o_ref), or jnp.full_like(o_ref, value).",
        "01",
    ),
    Row(
        "store-shape",
        r"Invalid shape for `swap`\. .*?Expected shape: (?P<place>\([^)]*\))\. Value shape: (?P<value>\([^)]*\))",
        "The kernel wrote a value of shape {value} to a ref of shape {place}.",
        "print value.shape and o_ref.shape in the kernel: they are known while it is traced.",
        "01",
    ),
    Row(
        "assigned-into-value",
        r"JAX arrays are immutable",
        "The kernel assigned into a value. Values are immutable; only the memory of a ref can change.",
        "give the result its own name, tmp = 2 * tmp, and write it to an output ref. Do not call the kernel with "
        "arrays: pallas_call calls it, with refs.",
        "01",
    ),
    Row(
        "list-index",
        r"too many values to unpack \(expected 1\), in the index of a ref",
        "The kernel indexes a ref with a list{where}, x_ref[[0, 0, 1]]. A ref takes integers and slices.",
        "read one row at a time, in a fori_loop with the indices in SMEM; or multiply the block by a matrix of zeros "
        "and ones, which may repeat rows.",
        "12",
    ),
    Row(
        "slice-backwards",
        r"slice must have a step >= 1 \(found: -|`stride` must be >= 0",
        "The kernel takes a slice of a ref backwards, as in x_ref[::-1]{where}. A slice of a ref must go forwards.",
        "let an index map count the blocks backwards; within a block, multiply by a matrix of zeros and ones, or copy "
        "row by row in a fori_loop.",
        "06",
    ),
    Row(
        "slice-outside",
        r"Out of bound slice: start=(?P<start>-?\d+).*?dim=(?P<axis>\d+)",
        "A slice of a ref that starts at {start} does not fit into the axis, whose length is {axis}.",
        "start + size must not exceed the length of the axis; a ref in a kernel has the block's shape, not the "
        "array's. Start a copy of the next block only if there is one.",
        "08",
    ),
    Row(
        "slice-too-long",
        r"slice_sizes must be less than or equal to operand shape, got slice_sizes (?P<size>\([^\n]*?\)) for operand "
        r"shape (?P<shape>\([^\n]*?\))",
        "The kernel takes a slice of shape {size} of a ref of shape {shape}: the slice is longer than the ref.",
        "a slice must not be longer than the ref, wherever it starts. Choose sizes that fit every shape that is tried.",
        "04",
    ),
    Row(
        "too-many-indices",
        r"`indices` must not be longer than `shape`: indices=(?P<indices>\([^\n]*\)), shape=(?P<shape>\([^)]*\))",
        "The kernel, or an index map, gives the indices {indices} to a ref of shape {shape}: that is at least one too "
        "many.",
        "give at most one index for each axis of the ref. A block's ref lacks the axes that are None. Prefetched refs "
        "come in the order of the call's arguments.",
        "04",
    ),
)
