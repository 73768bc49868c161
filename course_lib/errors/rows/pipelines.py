"""emit_pipeline, and the calls it is confused with inside a kernel."""

from course_lib.errors.row import Row

ROWS = (
    Row(
        "pipeline-mode",
        r"'int' object has no attribute 'buffer_count'",
        "A pipeline_mode is a plain number.",
        "write pipeline_mode=pl.Buffered(3).",
        "05",
    ),
    Row(
        "pipeline-index-map",
        r"zip\(\) argument 2 is (?:longer|shorter) than argument 1(?![^\n]*\w)",
        "Two lists that belong together are not equally long: in emit_pipeline, say, a block and what its index map "
        "returns.",
        "let the index map return a number for each axis of the block, in a tuple: (i, 0).",
        "05",
    ),
    Row(
        "pipeline-refs",
        r"pytree structure error: different lengths of tuple at key path\s+tree_map tree",
        "emit_pipeline has another number of specs than its function was given refs.",
        "one ref for each of in_specs, then one for each of out_specs: emit_pipeline(..., in_specs=[...], "
        "out_specs=[...])(x_hbm, o_hbm).",
        "05",
    ),
    Row(
        "pallas-call-of-a-ref",
        r"AbstractRef\.update\(\) got an unexpected keyword argument 'shape'",
        "A pallas_call was given a ref. It takes arrays, and stands outside of kernels.",
        "inside a kernel pltpu.emit_pipeline makes the loop, and its function takes the refs.",
        "05",
    ),
)
