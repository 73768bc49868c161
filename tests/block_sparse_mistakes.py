"""Mistakes in the kernels of block-sparse products, each of which test_block_sparse plants and must see."""

# A mistake: what stands in block_sparse_kernels, what somebody writes instead, and where it shows.
DSD = ("any order",)
ROWS, COLUMNS, CUT = (("any order", way, False) for way in ("rows of a", "columns of b", "K cut"))
MISTAKES = {
    "zeros at every step": ("pl.when(t == 0)", "pl.when(t >= 0)", DSD),
    "zeros at no step": ("pl.when(t == 0)", "pl.when(t < 0)", DSD),
    "zeros for the first panel alone": ("pl.when(t == 0)", "pl.when(pl.program_id(0) + t == 0)", DSD),
    "zeros when a step begins": (
        "acc_ref[row] += dot(values_ref[x]",
        "acc_ref[row] = jnp.where(x == 0, 0.0, acc_ref[row]) + dot(values_ref[x]",
        DSD,
    ),
    "the sum is not kept": ("acc_ref[row] += dot(values_ref[x]", "acc_ref[row] = dot(values_ref[x]", DSD),
    "columns for rows": ("_at(rows_ref[at], ", "_at(cols_ref[at], ", DSD),
    "rows for columns": ("_at(cols_ref[at], ", "_at(jnp.minimum(rows_ref[at], 2), ", DSD),
    "a row late, as if they were sorted": ("_at(rows_ref[at], ", "_at(rows_ref[jnp.maximum(at - 1, 0)], ", DSD),
    "the places of the first step": ("at = t * per_step + x", "at = x", DSD),
    "stored a step too early": ("t == pl.num_programs(1) - 1)\n    def _store", "t == 0)\n    def _store", DSD),
    "the first block's lanes": ("index * size, size), size", "0 * index, size), size", ("one place twice", False)),
    "what is past the end is added": ("constant_values=shape[0]", "constant_values=0", DSD),
    "what is surplus is added": (
        "counted",
        "lambda rows, cols, shape: (rows % shape[0], cols % shape[1])",
        ("surplus",),
    ),
    "surplus blocks are no zeros": (
        "jnp.where(row < rows, o, 0.0)",
        "o",
        ("surplus", "all of a and b", False),
    ),
    "a row late": ("jnp.minimum(rows[t], ", "jnp.minimum(rows[jnp.maximum(t - 1, 0)], ", ROWS),
    "stored where it was computed": ("place[0][t] if place else t", "t", COLUMNS),
    "computed where it is stored": ("(rows[order], cols[order], order)", "(rows, cols, order)", COLUMNS),
    "the sum goes on in the next block": ("step == 0, 0.0", "t + step == 0, 0.0", CUT),
    "the last part alone": ("o += jnp.where(step == 0, 0.0, sum_ref[...])", "pass", CUT),
    "past the depth": ("if k % bk:", "if False:", CUT),
    "past the depth of b": ("a, b = zero_beyond(a, 1, k - step * bk), ", "b = ", CUT),
}
