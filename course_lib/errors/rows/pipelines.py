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
        "Two lists that belong together differ in length: in emit_pipeline, for example, a block and the result of "
        "its index map.",
        "make the index map return one index for each axis of the block, in a tuple: (i, 0).",
        "05",
    ),
    Row(
        "pipeline-refs",
        r"pytree structure error: different lengths of tuple at key path\s+tree_map tree",
        "The number of specs of emit_pipeline differs from the number of refs that its function was given.",
        "pass one ref for each of in_specs, then one for each of out_specs: emit_pipeline(..., in_specs=[...], "
        "out_specs=[...])(x_hbm, o_hbm).",
        "05",
    ),
    Row(
        "pallas-call-of-a-ref",
        r"AbstractRef\.update\(\) got an unexpected keyword argument 'shape'",
        "A pallas_call was given a ref. It takes arrays, and cannot be called inside a kernel.",
        "inside a kernel use pltpu.emit_pipeline: it makes the loop, and its function takes the refs.",
        "05",
    ),
)
