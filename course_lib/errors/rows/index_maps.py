"""What an index map may return, and what it may read."""

from course_lib.errors.row import Row


def _as_many(want: str, got: str, **_) -> dict[str, str]:
    """Show a tuple with one number for each axis of the block, and say what may have been returned instead."""
    example = f"(i, {', '.join(['0'] * (int(want) - 1))})" if int(want) > 1 else "(i,)"
    none = "; a def without a return gives None, which counts as one" if got == "1" else ""
    return {"example": example, "none": none}


ROWS = (
    Row(
        "index-map-results",
        r"Index map function .* for (?P<ref>.+?) must return (?P<want>\d+) values? to match "
        r"block_shape=(?P<block>\(.*?\))\. Currently returning (?P<got>\d+) values?",
        "The index map of {ref} must return one number for each axis of the block {block}, which makes {want}; it "
        "returned {got}.",
        "return a tuple of block numbers, one for each axis, such as {example}{none}.",
        "04",
        _as_many,
    ),
    Row(
        "index-map-type",
        r"Index map function .* for (?P<ref>.+?) must return integer scalars\. Output\[(?P<axis>\d+)\] has type "
        r"~?(?P<type>\S+?)\.?(?:\n|$)",
        "The index map of {ref} must return integers, one number for each axis; for axis {axis} it returned {type}.",
        "divide with //, not with /; and return one number for each axis, not an array of them.",
        "04",
    ),
    Row(
        "index-map-ref",
        r"traced for pallas_call index_map returned a mutable array reference of type .*?passed in as the argument "
        r"(?P<name>\w+)",
        "The index map returned the prefetched ref {name} itself, which is a place with many numbers in it.",
        "read one of them: {name}[i]. If {name} was to be a grid index: those come first, and the prefetched refs "
        "after them.",
        "12",
    ),
    Row(
        "index-map-order",
        r"IndexError: only integers, slices .* are valid indices\. Got JitTracer\(Ref<",
        "A prefetched ref stands where a number should: something is indexed by it.",
        "an index map gets the grid indices first and then the prefetched refs, lambda i, list_ref: (list_ref[i], 0); "
        "a kernel gets the prefetched refs first.",
        "12",
    ),
    Row(
        "index-map-number",
        r"IndexError: Too many indices: array is 0-dimensional, but 1 were indexed",
        "A single number is indexed as if it were a list. In an index map that happens where a grid index and a "
        "prefetched ref have changed places.",
        "an index map gets the grid indices first and then the prefetched refs: lambda i, list_ref: (list_ref[i], 0).",
        "12",
    ),
    Row(
        "index-map-table",
        r"Index map function .* must not capture constants|"
        r"Tracer(?:Array|Integer)ConversionError: .*? for pallas_call index_map",
        "An index map looks a number up in a list or an array from outside. It is compiled into the kernel once for "
        "all steps, with its grid indices unknown.",
        "hand the array over by scalar prefetch, pltpu.PrefetchScalarGridSpec: the index map then gets a ref to it as "
        "one more argument.",
        "12",
    ),
    Row(
        "index-map-if",
        r"TracerBoolConversionError: .*? for pallas_call index_map",
        "An index map used `if` (or `and`, `or`, min, max) on a grid index. It is traced once for all "
        "steps, and a grid index is not a number then.",
        "choose with jnp.where(i < 4, i, 0), or limit with jnp.minimum(i, 3).",
        "12",
    ),
)
