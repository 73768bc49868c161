# Wrong answers to the exercises of lesson 12: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.


# %% answer="12.1" name="every step" judge="exercise" says="the\\s+same\\s+as\\s+in\\s+the\\s+step\\s+before"
copies = {"A": 8, "B": 24, "C": 24, "D": 24}


# %% answer="12.1" name="different numbers" judge="exercise" says="when\\s+it\\s+is\\s+needed\\s+again"
copies = {"A": 3, "B": 9, "C": 3, "D": 9}


# %% answer="12.1" name="one pass" judge="exercise" says="How\\s+many\\s+passes\\s+does\\s+the\\s+whole\\s+grid\\s+make"
copies = {"A": 4, "B": 4, "C": 4, "D": 9}


# %% answer="12.1" name="the list three times on the grid of C" judge="exercise" says="Which axis is the last here"
copies = {"A": 4, "B": 12, "C": 12, "D": 9}


# %% answer="12.1" name="a sorted list as a mixed one" judge="exercise" says="equal numbers are neighbors"
copies = {"A": 4, "B": 12, "C": 4, "D": 12}


# %% answer="12.2" name="the products in the order of x" judge="numbers" says="stored\\s+in\\s+the\\s+order\\s+of\\s+x"
# -    o_spec = pl.BlockSpec((None, m, n), lambda g, order_ref: (order_ref[g], 0, 0))
# +    o_spec = pl.BlockSpec((None, m, n), lambda g, order_ref: (g, 0, 0))


# %% answer="12.2" name="y in its own order" judge="numbers" says="multiplied\\s+by\\s+matrix\\s+g\\s+of\\s+y"
# -    y_spec = pl.BlockSpec((None, k, n), lambda g, order_ref: (order_ref[g], 0, 0))
# +    y_spec = pl.BlockSpec((None, k, n), lambda g, order_ref: (g, 0, 0))


# %% answer="12.2" name="x looked up as well" judge="numbers" says="looks\\s+up\\s+its\\s+matrix\\s+as\\s+well"
# -    x_spec = pl.BlockSpec((None, m, k), lambda g, order_ref: (g, 0, 0))
# +    x_spec = pl.BlockSpec((None, m, k), lambda g, order_ref: (order_ref[g], 0, 0))


# %% answer="12.2" name="the ref in front of the grid index" judge="numbers" says="gets the grid indices first"
# -    y_spec = pl.BlockSpec((None, k, n), lambda g, order_ref: (order_ref[g], 0, 0))
# +    y_spec = pl.BlockSpec((None, k, n), lambda order_ref, g: (order_ref[g], 0, 0))


# %% answer="12.2" name="element numbers" judge="numbers" says="an index map returns block indices"
# -    y_spec = pl.BlockSpec((None, k, n), lambda g, order_ref: (order_ref[g], 0, 0))
# +    y_spec = pl.BlockSpec((None, k, n), lambda g, order_ref: (order_ref[g] * k, 0, 0))


# %% answer="12.3" name="element numbers in the map" judge="numbers" says="(?s)index map\\s+returns block indices"
# -                pl.BlockSpec((64, 128), lambda i, start: (start[0] // 64, start[1] // 128))
# +                pl.BlockSpec((64, 128), lambda i, start: (start[0], start[1]))


# %% answer="12.3" name="rows and columns swapped" judge="numbers" says="the\\s+row\\s+and\\s+the\\s+column\\s+of\\s+start\\s+are\\s+exchanged"
# -                pl.BlockSpec((64, 128), lambda i, start: (start[0] // 64, start[1] // 128))
# +                pl.BlockSpec((64, 128), lambda i, start: (start[1] // 64, start[0] // 128))


# %% answer="12.3" name="both divided by 128" judge="numbers" says="divides\\s+both\\s+numbers\\s+by\\s+128"
# -                pl.BlockSpec((64, 128), lambda i, start: (start[0] // 64, start[1] // 128))
# +                pl.BlockSpec((64, 128), lambda i, start: (start[0] // 128, start[1] // 128))


# %% answer="12.3" name="all of x in VMEM" judge="budget" says="make the block of x_ref smaller"
def window(x, start):
    def kernel(start_ref, x_ref, o_ref):
        row, col = pl.multiple_of(start_ref[0], 64), pl.multiple_of(start_ref[1], 128)
        o_ref[...] = x_ref[pl.ds(row, 64), pl.ds(col, 128)]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((64, 128), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(1,),
            in_specs=[pl.BlockSpec(x.shape, lambda i, start: (0, 0))],
            out_specs=pl.BlockSpec((64, 128), lambda i, start: (0, 0)),
        ),
    )(start, x)


# %% answer="12.3" name="the list behind x" judge="numbers" says="differ in the number of axes"
# -    )(start, x)
# +    )(x, start)


# %% answer="12.4" name="begins with 0 where a group begins" judge="numbers" says="maximum\\s+of\\s+each\\s+group\\s+starts\\s+at\\s+0"
# -            o_ref[...] = x_ref[...]
# +            o_ref[...] = jnp.maximum(x_ref[...], 0)


# %% answer="12.4" name="empty groups get 0" judge="numbers" says="empty group gets 0"
# -    )(group, x, jnp.full((8 * GROUPS, n), -jnp.inf, x.dtype))
# +    )(group, x, jnp.zeros((8 * GROUPS, n), x.dtype))


# %% answer="12.4" name="no alias" judge="numbers" says="No grid step writes"
# -        input_output_aliases={2: 0},


# %% answer="12.4" name="compares at the first step of a group, too" judge="simulator" says="before anything has been written"
# -        @pl.when(new)
# -        def first():
# -            o_ref[...] = x_ref[...]

# -        @pl.when(jnp.logical_not(new))
# -        def further():
# -            o_ref[...] = jnp.maximum(o_ref[...], x_ref[...])
# +        o_ref[...] = jnp.maximum(o_ref[...], x_ref[...])


# %% answer="12.4" name="looks one entry ahead" judge="numbers" says="only\\s+the\\s+last\\s+block\\s+of\\s+each\\s+group\\s+counts"
# -        new = (t == 0) | (group_ref[t] != group_ref[jnp.maximum(t - 1, 0)])
# +        last = pl.num_programs(0) - 1
# +        new = (t == 0) | (group_ref[t] != group_ref[jnp.minimum(t + 1, last)])


# %% answer="12.4" name="adds" judge="numbers" says="added\\s+and\\s+not\\s+compared"
# -            o_ref[...] = jnp.maximum(o_ref[...], x_ref[...])
# +            o_ref[...] += x_ref[...]


# %% answer="12.4" name="aliases x" judge="numbers" says="gives\\s+an\\s+output\\s+the\\s+memory\\s+of\\s+input\\s+1,\\s+but\\s+they\\s+differ"
# -        input_output_aliases={2: 0},
# +        input_output_aliases={1: 0},


# %% answer="12.4" name="begins at the first step alone" judge="simulator" says="wrong"
# -        new = (t == 0) | (group_ref[t] != group_ref[jnp.maximum(t - 1, 0)])
# +        new = t == 0


# %% answer="12.4" name="reads entry -1" judge="simulator" says="does not\\s+count\\s+from\\s+the\\s+end"
# -        new = (t == 0) | (group_ref[t] != group_ref[jnp.maximum(t - 1, 0)])
# +        new = (t == 0) | (group_ref[t] != group_ref[t - 1])


# %% answer="12.5" name="the lists swapped in the maps" judge="numbers" says="index map of o_ref asks for block"
# -    return rows_ref[t], 0
# +    return cols_ref[t], 0

# -    return cols_ref[t], 0
# +    return rows_ref[t], 0


# %% answer="12.5" name="looks at the rows" judge="numbers" says="where\\s+the\\s+column\\s+changes"
# -    @pl.when((t == 0) | (cols_ref[t] != cols_ref[jnp.maximum(t - 1, 0)]))
# +    @pl.when((t == 0) | (rows_ref[t] != rows_ref[jnp.maximum(t - 1, 0)]))

# -    @pl.when((t == last) | (cols_ref[t] != cols_ref[jnp.minimum(t + 1, last)]))
# +    @pl.when((t == last) | (rows_ref[t] != rows_ref[jnp.minimum(t + 1, last)]))


# %% answer="12.5" name="not transposed" judge="numbers" says="as they are stored"
# -    acc_ref[...] += product(a_ref[...], b_ref[...], 0, 0)
# +    acc_ref[...] += product(a_ref[...], b_ref[...], 1, 0)


# %% answer="12.5" name="begins anew at every step" judge="numbers" says="only\\s+the\\s+last\\s+block\\s+of\\s+each\\s+column\\s+counts"
# -    @pl.when((t == 0) | (cols_ref[t] != cols_ref[jnp.maximum(t - 1, 0)]))
# -    def new():
# -        acc_ref[...] = jnp.zeros_like(acc_ref)
# +    acc_ref[...] = jnp.zeros_like(acc_ref)


# %% answer="12.5" name="never begins anew" judge="numbers" says="once for the whole grid"
# -    @pl.when((t == 0) | (cols_ref[t] != cols_ref[jnp.maximum(t - 1, 0)]))
# +    @pl.when(t == 0)


# %% answer="12.5" name="reads one entry behind the list" judge="simulator" says="read outside"
# -    @pl.when((t == last) | (cols_ref[t] != cols_ref[jnp.minimum(t + 1, last)]))
# +    @pl.when((t == last) | (cols_ref[t] != cols_ref[t + 1]))


# %% answer="12.5" name="adds up in bfloat16" judge="numbers" says="accumulate in float32"
# -    acc_ref[...] += product(a_ref[...], b_ref[...], 0, 0)
# +    total = acc_ref[...].astype(jnp.bfloat16) + product(a_ref[...], b_ref[...], 0, 0).astype(jnp.bfloat16)
# +    acc_ref[...] = total.astype(jnp.float32)


# %% answer="12.5" name="reads entry -1" judge="simulator" says="does not\\s+count\\s+from\\s+the\\s+end"
# -    @pl.when((t == 0) | (cols_ref[t] != cols_ref[jnp.maximum(t - 1, 0)]))
# +    @pl.when((t == 0) | (cols_ref[t] != cols_ref[t - 1]))


# %% answer="12.6" name="the line that looks back" judge="exercise" says="largest\\s+entry\\s+that\\s+it\\s+can\\s+read"
line = 5


# %% answer="12.6" name="the condition" judge="exercise" says="Which\\s+entries\\s+have\\s+been\\s+read\\s+by\\s+then"
line = 17


# %% answer="12.6" name="the last step" judge="exercise" says="this\\s+is\\s+true\\s+in\\s+the\\s+last\\s+step"
line = 13


# %% answer="12.7" name="flags column by column" judge="numbers" says="column by column"
# -    flag = wanted_ref[i * pl.num_programs(1) + j]
# +    flag = wanted_ref[j * pl.num_programs(0) + i]


# %% answer="12.7" name="writes nothing where nothing is wanted" judge="numbers" says="because\\s+the\\s+condition\\s+around\\s+the\\s+write\\s+is\\s+false\\s+there"
# -    @pl.when(flag == 0)
# -    def nothing():
# -        o_ref[...] = jnp.zeros_like(o_ref)


# %% answer="12.7" name="copies every block of k" judge="exercise" says="nothing\\s+to\\s+do,\\s+but\\s+block"
# -    step = jnp.arange(down * across)
# -    last_wanted = jax.lax.cummax(jnp.where(wanted.reshape(-1) == 1, step, -1))
# -    first = jnp.argmax(wanted.reshape(-1))  # before it, what comes next does no harm
# -    return jnp.where(last_wanted < 0, first, last_wanted) % across
# +    return jnp.tile(jnp.arange(across), down)


# %% answer="12.7" name="block 0 where nothing is wanted" judge="exercise" says="nothing\\s+to\\s+do,\\s+but\\s+block\\s+0\\s+of\\s+k"
# -    step = jnp.arange(down * across)
# -    last_wanted = jax.lax.cummax(jnp.where(wanted.reshape(-1) == 1, step, -1))
# -    first = jnp.argmax(wanted.reshape(-1))  # before it, what comes next does no harm
# -    return jnp.where(last_wanted < 0, first, last_wanted) % across
# +    return jnp.where(wanted.reshape(-1) == 1, jnp.tile(jnp.arange(across), down), 0)


# %% answer="12.7" name="step -1 in front of the first" judge="exercise" says="Step \\(0, 0\\) has nothing to do"
# -    return jnp.where(last_wanted < 0, first, last_wanted) % across
# +    return last_wanted % across


# %% answer="12.7" name="the step, and not the block" judge="numbers" says="index map of k_ref asks for block"
# -    return jnp.where(last_wanted < 0, first, last_wanted) % across
# +    return jnp.where(last_wanted < 0, first, last_wanted)


# %% answer="12.7" name="computes all" judge="numbers" says="computes\\s+every\\s+block"
# -    @pl.when(flag == 1)
# -    def work():
# +    if True:

# -    @pl.when(flag == 0)
# -    def nothing():
# -        o_ref[...] = jnp.zeros_like(o_ref)


# %% answer="12.7" name="block 0 after the last wanted one" judge="exercise" says="no other is needed"
# -    step = jnp.arange(down * across)
# -    last_wanted = jax.lax.cummax(jnp.where(wanted.reshape(-1) == 1, step, -1))
# -    first = jnp.argmax(wanted.reshape(-1))  # before it, what comes next does no harm
# -    return jnp.where(last_wanted < 0, first, last_wanted) % across
# +    step = jnp.where(wanted.reshape(-1) == 1, jnp.arange(down * across), down * across)
# +    return jax.lax.cummin(step, reverse=True) % across


# %% answer="12.7" name="computes and drops" judge="exercise" says="Every step computes its matmul"
# -    @pl.when(flag == 1)
# -    def work():
# -        dimensions = (((1,), (1,)), ((), ()))
# -        o_ref[...] = jax.lax.dot_general(
# -            q_ref[...],
# -            k_ref[...],
# -            dimensions,
# -            precision="highest",
# -            preferred_element_type=jnp.float32,
# -        )
# -
# -    @pl.when(flag == 0)
# -    def nothing():
# -        o_ref[...] = jnp.zeros_like(o_ref)
# +    dimensions = (((1,), (1,)), ((), ()))
# +    product = jax.lax.dot_general(
# +        q_ref[...],
# +        k_ref[...],
# +        dimensions,
# +        precision="highest",
# +        preferred_element_type=jnp.float32,
# +    )
# +    o_ref[...] = jnp.where(flag == 1, product, 0)


# %% answer="12.8" name="above one" judge="exercise" says="no more than all of its blocks"
# -    return min(1, dense_seconds / (cycles / clock))
# +    return dense_seconds / (cycles / clock)


# %% answer="12.8" name="one FLOP a pair" judge="exercise" says="counts a multiplication and an addition"
# -    dense_seconds = 2 * side * side * width / peak  # for the work of one stored block
# +    dense_seconds = side * side * width / peak


# %% answer="12.8" name="upside down" judge="exercise" says="upside down"
# -    return min(1, dense_seconds / (cycles / clock))
# +    return min(1, (cycles / clock) / dense_seconds)


# %% answer="12.8" name="cycles for seconds" judge="exercise" says="divide them by the clock"
# -    return min(1, dense_seconds / (cycles / clock))
# +    return min(1, dense_seconds / cycles)


# %% answer="12.9" name="whole steps only" judge="numbers" says="blocks of the last step are left out"
# -            grid=(n // width, pl.cdiv(count, per_step)),
# +            grid=(n // width, max(1, count // per_step)),


# %% answer="12.9" name="adds what is past the end" judge="numbers" says="(?s)block of a_ref reaches past the end.*replace them"
# -            row = pl.multiple_of(jnp.where(at < count, rows_ref[here], ROWS) * SIDE, SIDE)
# +            row = pl.multiple_of(rows_ref[here] * SIDE, SIDE)


# %% answer="12.9" name="reads behind the list" judge="simulator" says="read outside"
# -            here = jnp.minimum(at, count - 1)
# +            here = at


# %% answer="12.9" name="writes in place of adding" judge="numbers" says="overwrites what was there"
# -            acc_ref[pl.ds(row, SIDE)] += jnp.dot(
# +            acc_ref[pl.ds(row, SIDE)] = jnp.dot(


# %% answer="12.9" name="never zeroed" judge="numbers" says="acc_ref"
# -        @pl.when(t == 0)
# -        def zero():
# -            acc_ref[...] = jnp.zeros_like(acc_ref)


# %% answer="12.9" name="zeroed for the first panel alone" judge="numbers" says="once for the whole grid"
# -        @pl.when(t == 0)
# +        @pl.when((t == 0) & (pl.program_id(0) == 0))


# %% answer="12.9" name="one block a step" judge="budget" says="cycles"
# -    (k, n), count, per_step, width = b.shape, len(rows), 8, 512
# +    (k, n), count, per_step, width = b.shape, len(rows), 1, 512


# %% answer="12.9" name="sorts, and takes one block a step" judge="budget" says="gives no cycles for it|cycles; the budget"
def sparse_product(values, rows, cols, b):
    order = jnp.argsort(rows)
    values, rows, cols = values[order], rows[order], cols[order]
    n, width = b.shape[1], 256

    def kernel(rows_ref, cols_ref, a_ref, b_ref, zeros_ref, o_ref, acc_ref):
        t, last = pl.program_id(1), pl.num_programs(1) - 1

        @pl.when((t == 0) | (rows_ref[t] != rows_ref[jnp.maximum(t - 1, 0)]))
        def new():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

        @pl.when((t == last) | (rows_ref[t] != rows_ref[jnp.minimum(t + 1, last)]))
        def done():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    out = pl.BlockSpec((SIDE, width), lambda j, t, rows_ref, cols_ref: (rows_ref[t], j))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS * SIDE, n), b.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(n // width, len(rows)),
            in_specs=[
                pl.BlockSpec(
                    (None, SIDE, SIDE), lambda j, t, rows_ref, cols_ref: (t, 0, 0)
                ),
                pl.BlockSpec(
                    (SIDE, width), lambda j, t, rows_ref, cols_ref: (cols_ref[t], j)
                ),
                pl.BlockSpec(memory_space=pl.ANY),
            ],
            out_specs=out,
            scratch_shapes=[pltpu.VMEM((SIDE, width), jnp.float32)],
        ),
        input_output_aliases={4: 0},
    )(rows, cols, values, b, jnp.zeros((ROWS * SIDE, n), b.dtype))


# %% answer="12.10" name="the statement" judge="exercise" says="(?s)above par.*a_ref is fetched 23 times"
def sampled(a, b, rows, cols):
    k = a.shape[1]

    def kernel(rows_ref, cols_ref, a_ref, b_ref, o_ref):
        product = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = product.astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((len(rows), SIDE, SIDE), a.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(len(rows),),
            in_specs=[
                pl.BlockSpec((SIDE, k), lambda t, rows_ref, cols_ref: (rows_ref[t], 0)),
                pl.BlockSpec((k, SIDE), lambda t, rows_ref, cols_ref: (0, cols_ref[t])),
            ],
            out_specs=pl.BlockSpec((None, SIDE, SIDE), lambda t, *_: (t, 0, 0)),
        ),
    )(rows, cols, a, b)


# %% answer="12.10" name="sorted, b by blocks" judge="exercise" says="b_ref is fetched 24 times"
# -        col = pl.multiple_of(cols_ref[place_ref[pl.program_id(0)]] * SIDE, SIDE)
# -        product = jnp.dot(
# -            a_ref[...], b_ref[:, pl.ds(col, SIDE)], preferred_element_type=jnp.float32
# -        )
# +        product = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

# -                pl.BlockSpec((k, n), lambda t, *_: (0, 0)),
# +                pl.BlockSpec((k, SIDE), lambda t, rows, cols, place: (0, cols[place[t]])),


# %% answer="12.10" name="in the order of the steps" judge="numbers" says="in which they were computed"
# -                (None, SIDE, SIDE), lambda t, rows, cols, place: (place[t], 0, 0)
# +                (None, SIDE, SIDE), lambda t, rows, cols, place: (t, 0, 0)


# %% answer="12.10" name="a in VMEM as well" judge="budget" says="of VMEM; the budget is 1.75 MiB"
# -        col = pl.multiple_of(cols_ref[place_ref[pl.program_id(0)]] * SIDE, SIDE)
# +        col = pl.multiple_of(cols_ref[place_ref[pl.program_id(0)]] * SIDE, SIDE)
# +        row = pl.multiple_of(rows_ref[place_ref[pl.program_id(0)]] * SIDE, SIDE)

# -            a_ref[...], b_ref[:, pl.ds(col, SIDE)], preferred_element_type=jnp.float32
# +            a_ref[pl.ds(row, SIDE)], b_ref[:, pl.ds(col, SIDE)], preferred_element_type=jnp.float32

# -                pl.BlockSpec((SIDE, k), lambda t, rows, cols, place: (rows[place[t]], 0)),
# +                pl.BlockSpec(a.shape, lambda t, *_: (0, 0)),


# %% answer="12.10" name="the column of another step" judge="numbers" says="wrong"
# -        col = pl.multiple_of(cols_ref[place_ref[pl.program_id(0)]] * SIDE, SIDE)
# +        col = pl.multiple_of(cols_ref[pl.program_id(0)] * SIDE, SIDE)


# %% answer="12.4" name="the smaller one" judge="numbers" says="the\\s+smaller\\s+of\\s+two\\s+blocks\\s+is\\s+kept"
# -            o_ref[...] = jnp.maximum(o_ref[...], x_ref[...])
# +            o_ref[...] = jnp.minimum(o_ref[...], x_ref[...])


# %% answer="12.3" name="the list before the step" judge="numbers" says="grid\\s+index\\s+and\\s+a\\s+prefetched\\s+ref\\s+are\\s+swapped"
# -                pl.BlockSpec((64, 128), lambda i, start: (start[0] // 64, start[1] // 128))
# +                pl.BlockSpec((64, 128), lambda start, i: (start[0] // 64, start[1] // 128))
