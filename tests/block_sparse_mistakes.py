"""Mistakes in the kernels of block-sparse products, each of which the tests of these plant and must see."""

# A mistake: what stands in a file of block_sparse, what somebody writes instead, and where it shows.
DSD = ("any order",)
ROWS, COLUMNS, CUT, PARTS = (
    ("any order", way, False) for way in ("rows of a", "columns of b", "K cut", "part by part")
)
IN_KERNEL = {
    "zeros when a step begins": (
        "acc_ref[row] += dot(values_ref[x]",
        "acc_ref[row] = jnp.where(x == 0, 0.0, acc_ref[row]) + dot(values_ref[x]",
        DSD,
    ),
    "the sum is not kept": ("acc_ref[row] += dot(values_ref[x]", "acc_ref[row] = dot(values_ref[x]", DSD),
    "columns for rows": ("row_at(row, height, transpose_o), ", "row_at(col, height, transpose_o), ", DSD),
    "rows for columns": ("row_at(col, depth", "row_at(jnp.minimum(row, 2), depth", DSD),
    "a row late, as if they were sorted": (
        "counted(pattern.rows[read]",
        "counted(pattern.rows[jnp.maximum(read - 1, 0)]",
        DSD,
    ),
    "the places of the first step": ("place(pattern, t * per_step + x", "place(pattern, x", DSD),
    "the first block's lanes": ("row * size, size), size", "0 * row, size), size", ("one place twice", False)),
    "what is past the end is added": ("jnp.where(at < count, row, pattern.shape[0])", "row", DSD),
    "what is surplus is added": (
        "counted(pattern.rows[",
        "(lambda row, col, shape: (row % shape[0], col % shape[1]))(pattern.rows[",
        ("surplus",),
    ),
}
BY_INDEX_MAPS = {
    "zeros at every step": ("pl.when(t == 0)", "pl.when(t >= 0)", DSD),
    "zeros at no step": ("pl.when(t == 0)", "pl.when(t < 0)", DSD),
    "zeros for the first panel alone": ("pl.when(t == 0)", "pl.when(pl.program_id(0) + t == 0)", DSD),
    "stored a step too early": ("t == pl.num_programs(1) - 1)\n    def _store", "t == 0)\n    def _store", DSD),
    "surplus blocks are no zeros": (
        "jnp.where(row < rows, o, 0.0)",
        "o",
        ("surplus", "all of a and b", False),
    ),
    "a row late": ("jnp.clip(lists[0].rows[t], ", "jnp.clip(lists[0].rows[jnp.maximum(t - 1, 0)], ", ROWS),
    "stored where it was computed": ("t if lists[1] is None else lists[1][t], 0, 0", "t, 0, 0", COLUMNS),
    "computed where it is stored": ("Pattern(row[order], col[order]", "Pattern(row, col", COLUMNS),
    "the sum goes on in the next block": ("step == 0, 0.0", "t + step == 0, 0.0", CUT),
    "the last part alone": ("o += jnp.where(step == 0, 0.0, sum_ref[...])", "pass", CUT),
    "past the depth": ("if k % bk:", "if False:", CUT),
    "past the depth of b": ("a, b = zero_beyond(a, 1, k - step * bk), ", "b = ", CUT),
}
IN_SDD_KERNEL = {
    "the next part over this one": ("jnp.where(part == 0, 0.0", "jnp.where(part < 2, 0.0", PARTS),
    "not waited for": ("copy.wait()", "pass", PARTS),
    "one place for both parts": ("return [pltpu", "slot = 0\n        return [pltpu", PARTS),
    "sums of the first step": ("acc_ref[at] = o", "acc_ref[x] = o", PARTS),
    "the part before": ("slot = lax.rem(part, 2)\n    for", "slot = lax.rem(part + 1, 2)\n    for", PARTS),
    "surplus sums are no zeros": (
        "o_ref[x] = jnp.where(row < rows, o, 0.0)",
        "o_ref[x] = o",
        ("surplus", "part by part", False),
    ),
}
# Those in block_sparse/kernel.py that show if there are panels.
IN_PANELS = {
    "no zeros to begin with": ("acc_ref[row] = jnp.zeros_like(acc_ref[row])\n\n", "pass\n\n"),
    "no zeros left": ("acc_ref[row] = jnp.zeros_like(acc_ref[row])  # for", "pass  # for"),
    "a panel is not waited for": ("fetch(panel).wait()", "pass"),
    "one place for both panels": ("slot = lax.rem(panel, 2)", "slot = 0"),
    "the panel before": ("b_ref.at[lax.rem(panel, 2)]", "b_ref.at[lax.rem(panel + 1, 2)]"),
    "the first panel's columns": ("(core * panels + panel) * bn", "core * panels * bn"),
    "over a result that leaves": ("write_back(panel - 1).wait()", "pass"),
    "over before the last has left": ("write_back(panel).wait()", "pass"),
    "stored a step early": ("t == steps - 1)\n    def _store", "t == 0)\n    def _store"),
}
