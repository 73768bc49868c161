"""What an index map may return, and what it may read."""

from course_lib.errors.row import Row


def _as_many(want: str, got: str, **_) -> dict[str, str]:
    """Show a tuple with one number for each axis of the block, and say what may have been returned instead."""
    example = f"(i, {', '.join(['0'] * (int(want) - 1))})" if int(want) > 1 else "(i,)"
    none = "; a def without a return returns None, which counts as one" if got == "1" else ""
    return {"example": example, "none": none}


ROWS = (
    Row(
        "index-map-results",
        r"Index map function .* for (?P<ref>.+?) must return (?P<want>\d+) values? to match "
        r"block_shape=(?P<block>\(.*?\))\. Currently returning (?P<got>\d+) values?",
        "The index map of {ref} must return one block index for each axis of the block {block}, {want} in total, but "
        "it returned {got}.",
        "return a tuple of block indices, one for each axis, such as {example}{none}.",
        "04",
        _as_many,
    ),
    Row(
        "index-map-type",
        r"Index map function .* for (?P<ref>.+?) must return integer scalars\. Output\[(?P<axis>\d+)\] has type "
        r"~?(?P<type>\S+?)\.?(?:\n|$)",
        "The index map of {ref} must return integers, one for each axis, but for axis {axis} it returned {type}.",
        "divide with //, not with /; and return one scalar for each axis, not an array.",
        "04",
    ),
    Row(
        "index-map-ref",
        r"traced for pallas_call index_map returned a mutable array reference of type .*?passed in as the argument "
        r"(?P<name>\w+)",
        "The index map returned the prefetched ref {name} itself, not one of its entries.",
        "read one entry: {name}[i]. If you meant {name} to be a grid index: the grid indices come first, then the "
        "prefetched refs.",
        "12",
    ),
    Row(
        "index-map-order",
        r"IndexError: only integers, slices .* are valid indices\. Got JitTracer\(Ref<",
        "A prefetched ref is used as an index, where a number should be.",
        "an index map gets the grid indices first and then the prefetched refs, lambda i, list_ref: (list_ref[i], 0); "
        "a kernel gets the prefetched refs first.",
        "12",
    ),
    Row(
        "index-map-number",
        r"IndexError: Too many indices: array is 0-dimensional, but 1 were indexed",
        "A scalar is indexed as if it were a list. In an index map this happens when a grid index and a prefetched "
        "ref are swapped.",
        "an index map gets the grid indices first and then the prefetched refs: lambda i, list_ref: (list_ref[i], 0).",
        "12",
    ),
    Row(
        "index-map-table",
        r"Index map function .* must not capture constants|"
        r"Tracer(?:Array|Integer)ConversionError: .*? for pallas_call index_map",
        "An index map reads a list or an array from outside. It is compiled into the kernel once for all steps, with "
        "its grid indices unknown.",
        "pass the array by scalar prefetch, pltpu.PrefetchScalarGridSpec: the index map then gets a ref to it as one "
        "more argument.",
        "12",
    ),
    Row(
        "index-map-if",
        r"TracerBoolConversionError: .*? for pallas_call index_map",
        "An index map used `if` (or `and`, `or`, min, max) on a grid index. It is traced once for all steps, when a "
        "grid index has no value yet.",
        "choose with jnp.where(i < 4, i, 0), or clamp with jnp.minimum(i, 3).",
        "12",
    ),
)
