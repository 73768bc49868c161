# Wrong answers to the exercises of lesson 10. Each stands in the place of the answer cell; `judge` must refuse it, and
# the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.


# %% answer="10.1" name="forgets the slope" judge="numbers" says="relu's slope is missing"
def dx_kernel(g_ref, y_ref, w_ref, dx_ref, acc_ref):
    j = pl.program_id(2)

    @pl.when(j == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    dz = g_ref[...].astype(w_ref.dtype)
    acc_ref[...] += product(dz, w_ref[...], 1, 1)

    @pl.when(j == pl.num_programs(2) - 1)
    def store():
        dx_ref[...] = acc_ref[...].astype(dx_ref.dtype)


# %% answer="10.1" name="begins anew at every j" judge="numbers" says="from the last block of columns alone"
def dx_kernel(g_ref, y_ref, w_ref, dx_ref, acc_ref):
    j = pl.program_id(2)

    acc_ref[...] = jnp.zeros_like(acc_ref)

    dz = jnp.where(y_ref[...] > 0, g_ref[...], 0).astype(w_ref.dtype)
    acc_ref[...] += product(dz, w_ref[...], 1, 1)

    @pl.when(j == pl.num_programs(2) - 1)
    def store():
        dx_ref[...] = acc_ref[...].astype(dx_ref.dtype)


# %% answer="10.1" name="never sets the sum to zero" judge="numbers" says="acc_ref"
def dx_kernel(g_ref, y_ref, w_ref, dx_ref, acc_ref):
    j = pl.program_id(2)

    dz = jnp.where(y_ref[...] > 0, g_ref[...], 0).astype(w_ref.dtype)
    acc_ref[...] += product(dz, w_ref[...], 1, 1)

    @pl.when(j == pl.num_programs(2) - 1)
    def store():
        dx_ref[...] = acc_ref[...].astype(dx_ref.dtype)


# %% answer="10.1" name="adds up in the output" judge="numbers" says="bfloat16"
def dx_kernel(g_ref, y_ref, w_ref, dx_ref, acc_ref):
    j = pl.program_id(2)

    @pl.when(j == 0)
    def zero():
        dx_ref[...] = jnp.zeros_like(dx_ref)

    dz = jnp.where(y_ref[...] > 0, g_ref[...], 0).astype(w_ref.dtype)
    dx_ref[...] += product(dz, w_ref[...], 1, 1).astype(dx_ref.dtype)


# %% answer="10.1" name="takes w as it is stored" judge="numbers" says="used as it is stored"
def dx_kernel(g_ref, y_ref, w_ref, dx_ref, acc_ref):
    j = pl.program_id(2)

    @pl.when(j == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    dz = jnp.where(y_ref[...] > 0, g_ref[...], 0).astype(w_ref.dtype)
    acc_ref[...] += product(dz, w_ref[...], 1, 0)

    @pl.when(j == pl.num_programs(2) - 1)
    def store():
        dx_ref[...] = acc_ref[...].astype(dx_ref.dtype)


# %% answer="10.1" name="multiplies g by y" judge="numbers" says="slope is 1 or 0, and not y"
def dx_kernel(g_ref, y_ref, w_ref, dx_ref, acc_ref):
    j = pl.program_id(2)

    @pl.when(j == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    dz = (g_ref[...] * y_ref[...]).astype(w_ref.dtype)
    acc_ref[...] += product(dz, w_ref[...], 1, 1)

    @pl.when(j == pl.num_programs(2) - 1)
    def store():
        dx_ref[...] = acc_ref[...].astype(dx_ref.dtype)


# %% answer="10.2" name="forgets the ragged batch" judge="numbers" says="(?s)hangs over the end.*garbage.*replace them before"
def grad_w(x, y, g):
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref, acc_ref):
        i = pl.program_id(2)

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        x = x_ref[...]
        dz = jnp.where(y_ref[...] > 0, g_ref[...], 0).astype(x_ref.dtype)
        acc_ref[...] += product(x, dz, 0, 0)

        @pl.when(i == pl.num_programs(2) - 1)
        def store():
            dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, j))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((k, n), x.dtype),
        grid=(n // SIDE, k // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, k)), of_y, of_y],
        out_specs=pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (k, j)),
        scratch_shapes=[pltpu.VMEM((SIDE, SIDE), jnp.float32)],
    )(x, y, g)


# %% answer="10.2" name="masks dz alone" judge="numbers" says="mask x_ref as well"
def grad_w(x, y, g):
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref, acc_ref):
        i = pl.program_id(2)

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        x = x_ref[...]
        dz = jnp.where(there & (y_ref[...] > 0), g_ref[...], 0).astype(x_ref.dtype)
        acc_ref[...] += product(x, dz, 0, 0)

        @pl.when(i == pl.num_programs(2) - 1)
        def store():
            dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, j))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((k, n), x.dtype),
        grid=(n // SIDE, k // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, k)), of_y, of_y],
        out_specs=pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (k, j)),
        scratch_shapes=[pltpu.VMEM((SIDE, SIDE), jnp.float32)],
    )(x, y, g)


# %% answer="10.2" name="masks x alone" judge="simulator" says="no comparison with NaN is true"
def grad_w(x, y, g):
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref, acc_ref):
        i = pl.program_id(2)

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        x = jnp.where(there, x_ref[...], 0).astype(x_ref.dtype)
        dz = jnp.where(y_ref[...] > 0, g_ref[...], 0).astype(x_ref.dtype)
        acc_ref[...] += product(x, dz, 0, 0)

        @pl.when(i == pl.num_programs(2) - 1)
        def store():
            dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, j))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((k, n), x.dtype),
        grid=(n // SIDE, k // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, k)), of_y, of_y],
        out_specs=pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (k, j)),
        scratch_shapes=[pltpu.VMEM((SIDE, SIDE), jnp.float32)],
    )(x, y, g)


# %% answer="10.2" name="the batch outermost" judge="numbers" says="came back|left VMEM|put axis 0 last|bfloat16"
def grad_w(x, y, g):
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref):
        i = pl.program_id(0)

        @pl.when(i == 0)
        def zero():
            dw_ref[...] = jnp.zeros_like(dw_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        x = jnp.where(there, x_ref[...], 0).astype(x_ref.dtype)
        dz = jnp.where(there & (y_ref[...] > 0), g_ref[...], 0).astype(x_ref.dtype)
        dw_ref[...] += product(x, dz, 0, 0).astype(dw_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda i, j, k: (i, j))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((k, n), x.dtype),
        grid=(pl.cdiv(m, SIDE), n // SIDE, k // SIDE),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda i, j, k: (i, k)), of_y, of_y],
        out_specs=pl.BlockSpec((SIDE, SIDE), lambda i, j, k: (k, j)),
    )(x, y, g)


# %% answer="10.2" name="whole blocks only" judge="numbers" says="rows 256 to 299 are left out"
def grad_w(x, y, g):
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref, acc_ref):
        i = pl.program_id(2)

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        x = jnp.where(there, x_ref[...], 0).astype(x_ref.dtype)
        dz = jnp.where(there & (y_ref[...] > 0), g_ref[...], 0).astype(x_ref.dtype)
        acc_ref[...] += product(x, dz, 0, 0)

        @pl.when(i == pl.num_programs(2) - 1)
        def store():
            dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, j))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((k, n), x.dtype),
        grid=(n // SIDE, k // SIDE, m // SIDE),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, k)), of_y, of_y],
        out_specs=pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (k, j)),
        scratch_shapes=[pltpu.VMEM((SIDE, SIDE), jnp.float32)],
    )(x, y, g)


# %% answer="10.2" name="the whole batch in one block" judge="budget" says="VMEM"
def grad_w(x, y, g):
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref):
        dz = jnp.where(y_ref[...] > 0, g_ref[...], 0).astype(x_ref.dtype)
        dw_ref[...] = product(x_ref[...], dz, 0, 0).astype(dw_ref.dtype)

    of_y = pl.BlockSpec((m, SIDE), lambda j, k: (0, j))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((k, n), x.dtype),
        grid=(n // SIDE, k // SIDE),
        in_specs=[pl.BlockSpec((m, SIDE), lambda j, k: (0, k)), of_y, of_y],
        out_specs=pl.BlockSpec((SIDE, SIDE), lambda j, k: (k, j)),
    )(x, y, g)


# %% answer="10.3" name="adds a block for every block of rows of dw" judge="numbers" says="once for every block of rows of dw"
def grad_w_b(x, y, g):
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref, db_ref, acc_ref, rows_ref):
        kk, i = pl.program_id(1), pl.program_id(2)
        last = pl.num_programs(2) - 1

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        x = jnp.where(there, x_ref[...], 0).astype(x_ref.dtype)
        dz = jnp.where(there & (y_ref[...] > 0), g_ref[...], 0).astype(x_ref.dtype)
        acc_ref[...] += product(x, dz, 0, 0)

        @pl.when(i == last)
        def store():
            dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

        @pl.when((kk == 0) & (i == 0))
        def zero_rows():
            rows_ref[...] = jnp.zeros_like(rows_ref)

        @pl.when(kk >= 0)
        def add_rows():
            rows_ref[...] += jnp.sum(dz.astype(jnp.float32), axis=0, keepdims=True)

        @pl.when((kk == pl.num_programs(1) - 1) & (i == last))
        def store_rows():
            db_ref[...] = rows_ref[...].astype(db_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, j))
    dw, db = pl.pallas_call(
        kernel,
        out_shape=[
            jax.ShapeDtypeStruct((k, n), x.dtype),
            jax.ShapeDtypeStruct((1, n), x.dtype),
        ],
        grid=(n // SIDE, k // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, k)), of_y, of_y],
        out_specs=[
            pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (k, j)),
            pl.BlockSpec((1, SIDE), lambda j, k, i: (0, j)),
        ],
        scratch_shapes=[
            pltpu.VMEM((SIDE, SIDE), jnp.float32),
            pltpu.VMEM((1, SIDE), jnp.float32),
        ],
    )(x, y, g)
    return dw, db.reshape(n)


# %% answer="10.3" name="sums the columns" judge="numbers" says="db sums over the batch"
def grad_w_b(x, y, g):
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref, db_ref, acc_ref, rows_ref):
        kk, i = pl.program_id(1), pl.program_id(2)
        last = pl.num_programs(2) - 1

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        x = jnp.where(there, x_ref[...], 0).astype(x_ref.dtype)
        dz = jnp.where(there & (y_ref[...] > 0), g_ref[...], 0).astype(x_ref.dtype)
        acc_ref[...] += product(x, dz, 0, 0)

        @pl.when(i == last)
        def store():
            dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

        @pl.when((kk == 0) & (i == 0))
        def zero_rows():
            rows_ref[...] = jnp.zeros_like(rows_ref)

        @pl.when(kk == 0)
        def add_rows():
            rows_ref[...] += jnp.sum(dz.astype(jnp.float32), axis=1).reshape(1, SIDE)

        @pl.when((kk == 0) & (i == last))
        def store_rows():
            db_ref[...] = rows_ref[...].astype(db_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, j))
    dw, db = pl.pallas_call(
        kernel,
        out_shape=[
            jax.ShapeDtypeStruct((k, n), x.dtype),
            jax.ShapeDtypeStruct((1, n), x.dtype),
        ],
        grid=(n // SIDE, k // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, k)), of_y, of_y],
        out_specs=[
            pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (k, j)),
            pl.BlockSpec((1, SIDE), lambda j, k, i: (0, j)),
        ],
        scratch_shapes=[
            pltpu.VMEM((SIDE, SIDE), jnp.float32),
            pltpu.VMEM((1, SIDE), jnp.float32),
        ],
    )(x, y, g)
    return dw, db.reshape(n)


# %% answer="10.3" name="masks x alone" judge="simulator" says="no comparison with NaN is true"
def grad_w_b(x, y, g):
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref, db_ref, acc_ref, rows_ref):
        kk, i = pl.program_id(1), pl.program_id(2)
        last = pl.num_programs(2) - 1

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        x = jnp.where(there, x_ref[...], 0).astype(x_ref.dtype)
        dz = jnp.where(y_ref[...] > 0, g_ref[...], 0).astype(x_ref.dtype)
        acc_ref[...] += product(x, dz, 0, 0)

        @pl.when(i == last)
        def store():
            dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

        @pl.when((kk == 0) & (i == 0))
        def zero_rows():
            rows_ref[...] = jnp.zeros_like(rows_ref)

        @pl.when(kk == 0)
        def add_rows():
            rows_ref[...] += jnp.sum(dz.astype(jnp.float32), axis=0, keepdims=True)

        @pl.when((kk == 0) & (i == last))
        def store_rows():
            db_ref[...] = rows_ref[...].astype(db_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, j))
    dw, db = pl.pallas_call(
        kernel,
        out_shape=[
            jax.ShapeDtypeStruct((k, n), x.dtype),
            jax.ShapeDtypeStruct((1, n), x.dtype),
        ],
        grid=(n // SIDE, k // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (i, k)), of_y, of_y],
        out_specs=[
            pl.BlockSpec((SIDE, SIDE), lambda j, k, i: (k, j)),
            pl.BlockSpec((1, SIDE), lambda j, k, i: (0, j)),
        ],
        scratch_shapes=[
            pltpu.VMEM((SIDE, SIDE), jnp.float32),
            pltpu.VMEM((1, SIDE), jnp.float32),
        ],
    )(x, y, g)
    return dw, db.reshape(n)


# %% answer="10.3" name="rows of dw slowest" judge="simulator" says="db_ref|came back"
def grad_w_b(x, y, g):
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref, db_ref, acc_ref, rows_ref):
        kk, i = pl.program_id(0), pl.program_id(2)
        last = pl.num_programs(2) - 1

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        x = jnp.where(there, x_ref[...], 0).astype(x_ref.dtype)
        dz = jnp.where(there & (y_ref[...] > 0), g_ref[...], 0).astype(x_ref.dtype)
        acc_ref[...] += product(x, dz, 0, 0)

        @pl.when(i == last)
        def store():
            dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

        @pl.when((kk == 0) & (i == 0))
        def zero_rows():
            rows_ref[...] = jnp.zeros_like(rows_ref)

        @pl.when(kk == 0)
        def add_rows():
            rows_ref[...] += jnp.sum(dz.astype(jnp.float32), axis=0, keepdims=True)

        @pl.when((kk == 0) & (i == last))
        def store_rows():
            db_ref[...] = rows_ref[...].astype(db_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda k, j, i: (i, j))
    dw, db = pl.pallas_call(
        kernel,
        out_shape=[
            jax.ShapeDtypeStruct((k, n), x.dtype),
            jax.ShapeDtypeStruct((1, n), x.dtype),
        ],
        grid=(k // SIDE, n // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda k, j, i: (i, k)), of_y, of_y],
        out_specs=[
            pl.BlockSpec((SIDE, SIDE), lambda k, j, i: (k, j)),
            pl.BlockSpec((1, SIDE), lambda k, j, i: (0, j)),
        ],
        scratch_shapes=[
            pltpu.VMEM((SIDE, SIDE), jnp.float32),
            pltpu.VMEM((1, SIDE), jnp.float32),
        ],
    )(x, y, g)
    return dw, db.reshape(n)


# %% answer="10.3" name="rows of dw slowest, db stored at every k" judge="numbers" says="come back to at k = 1"
def grad_w_b(x, y, g):
    (m, k), n = x.shape, g.shape[1]

    def kernel(x_ref, y_ref, g_ref, dw_ref, db_ref, acc_ref, rows_ref):
        kk, i = pl.program_id(0), pl.program_id(2)
        last = pl.num_programs(2) - 1

        @pl.when(i == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        x = jnp.where(there, x_ref[...], 0).astype(x_ref.dtype)
        dz = jnp.where(there & (y_ref[...] > 0), g_ref[...], 0).astype(x_ref.dtype)
        acc_ref[...] += product(x, dz, 0, 0)

        @pl.when(i == last)
        def store():
            dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)

        @pl.when((kk == 0) & (i == 0))
        def zero_rows():
            rows_ref[...] = jnp.zeros_like(rows_ref)

        @pl.when(kk == 0)
        def add_rows():
            rows_ref[...] += jnp.sum(dz.astype(jnp.float32), axis=0, keepdims=True)

        @pl.when(i == last)
        def store_rows():
            db_ref[...] = rows_ref[...].astype(db_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda k, j, i: (i, j))
    dw, db = pl.pallas_call(
        kernel,
        out_shape=[
            jax.ShapeDtypeStruct((k, n), x.dtype),
            jax.ShapeDtypeStruct((1, n), x.dtype),
        ],
        grid=(k // SIDE, n // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda k, j, i: (i, k)), of_y, of_y],
        out_specs=[
            pl.BlockSpec((SIDE, SIDE), lambda k, j, i: (k, j)),
            pl.BlockSpec((1, SIDE), lambda k, j, i: (0, j)),
        ],
        scratch_shapes=[
            pltpu.VMEM((SIDE, SIDE), jnp.float32),
            pltpu.VMEM((1, SIDE), jnp.float32),
        ],
    )(x, y, g)
    return dw, db.reshape(n)


# %% answer="10.3" name="a second kernel for db" judge="budget" says="bytes|MB|KiB|MiB"
def grad_w_b(x, y, g):
    (m, _), n = x.shape, g.shape[1]

    def kernel(y_ref, g_ref, db_ref, rows_ref):
        i = pl.program_id(1)

        @pl.when(i == 0)
        def zero():
            rows_ref[...] = jnp.zeros_like(rows_ref)

        there = i * SIDE + jax.lax.broadcasted_iota(jnp.int32, (SIDE, SIDE), 0) < m
        dz = jnp.where(there & (y_ref[...] > 0), g_ref[...], 0).astype(jnp.float32)
        rows_ref[...] += jnp.sum(dz, axis=0, keepdims=True)

        @pl.when(i == pl.num_programs(1) - 1)
        def store():
            db_ref[...] = rows_ref[...].astype(db_ref.dtype)

    of_y = pl.BlockSpec((SIDE, SIDE), lambda j, i: (i, j))
    db = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1, n), x.dtype),
        grid=(n // SIDE, pl.cdiv(m, SIDE)),
        in_specs=[of_y, of_y],
        out_specs=pl.BlockSpec((1, SIDE), lambda j, i: (0, j)),
        scratch_shapes=[pltpu.VMEM((1, SIDE), jnp.float32)],
    )(y, g)
    return grad_w(x, y, g), db.reshape(n)


# %% answer="10.4" name="the bias over the wrong axis" judge="numbers" says="a sum over the wrong axis"
fused_dense = None


@jax.custom_vjp
def fused_dense(x, w, b):
    return forward_pass(x, w, b)


def fused_forward(x, w, b):
    y = forward_pass(x, w, b)
    return y, (x, w, y)


def fused_backward(residuals, g):
    x, w, y = residuals
    dz = jnp.where(y > 0, g, 0)
    return grad_x(w, y, g), grad_w(x, y, g), dz.sum(axis=1)


fused_dense.defvjp(fused_forward, fused_backward)


# %% answer="10.4" name="gradients in another order" judge="numbers" says="two that are exchanged"
fused_dense = None


@jax.custom_vjp
def fused_dense(x, w, b):
    return forward_pass(x, w, b)


def fused_forward(x, w, b):
    y = forward_pass(x, w, b)
    return y, (x, w, y)


def fused_backward(residuals, g):
    x, w, y = residuals
    dw, db = grad_w_b(x, y, g)
    return dw, grad_x(w, y, g), db


fused_dense.defvjp(fused_forward, fused_backward)


# %% answer="10.4" name="no slope in dx" judge="numbers" says="dx"
fused_dense = None


@jax.custom_vjp
def fused_dense(x, w, b):
    return forward_pass(x, w, b)


def fused_forward(x, w, b):
    y = forward_pass(x, w, b)
    return y, (x, w, y)


def fused_backward(residuals, g):
    x, w, y = residuals
    return grad_x(w, jnp.ones_like(y), g), *grad_w_b(x, y, g)


fused_dense.defvjp(fused_forward, fused_backward)


# %% answer="10.4" name="a stale residual" judge="numbers" says="dw|x"
fused_dense = None


@jax.custom_vjp
def fused_dense(x, w, b):
    return forward_pass(x, w, b)


def fused_forward(x, w, b):
    y = forward_pass(x, w, b)
    return y, (x[::-1], w, y)


def fused_backward(residuals, g):
    x, w, y = residuals
    return grad_x(w, y, g), *grad_w_b(x, y, g)


fused_dense.defvjp(fused_forward, fused_backward)


# %% answer="10.4" name="plain JAX on the way back" judge="exercise" says="part of the gradient is not in a kernel"
fused_dense = None


@jax.custom_vjp
def fused_dense(x, w, b):
    return forward_pass(x, w, b)


def fused_forward(x, w, b):
    y = forward_pass(x, w, b)
    return y, (x, w, y)


def fused_backward(residuals, g):
    x, w, y = residuals
    dz = jnp.where(y > 0, g, 0).astype(jnp.float32)
    x, w = x.astype(jnp.float32), w.astype(jnp.float32)
    gradients = dz @ w.T, x.T @ dz, dz.sum(axis=0)
    return tuple(each.astype(y.dtype) for each in gradients)


fused_dense.defvjp(fused_forward, fused_backward)


# %% answer="10.4" name="no way back at all" judge="numbers" says="custom_vjp"
fused_dense = forward_pass


# %% answer="10.5" name="reads its weights in build" judge="exercise" says="computes with other weights"
@keras.saving.register_keras_serializable("lesson_10")
class FusedDense(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.start = keras.initializers.get("glorot_uniform")

    def build(self, input_shape):
        shape = (input_shape[-1], self.units)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.start)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.read = self.kernel.value + 0

    def call(self, inputs):
        w = keras.ops.cast(self.read, self.compute_dtype)
        b = keras.ops.cast(self.bias, self.compute_dtype)
        rows = inputs.reshape(-1, inputs.shape[-1])
        return fused_dense(rows, w, b).reshape(*inputs.shape[:-1], self.units)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


# %% answer="10.5" name="does not cast" judge="exercise" says="handed its kernel float32"
@keras.saving.register_keras_serializable("lesson_10")
class FusedDense(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.start = keras.initializers.get("glorot_uniform")

    def build(self, input_shape):
        shape = (input_shape[-1], self.units)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.start)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        w = keras.ops.convert_to_tensor(self.kernel)
        b = keras.ops.convert_to_tensor(self.bias)
        rows = inputs.reshape(-1, inputs.shape[-1])
        return fused_dense(rows, w, b).reshape(*inputs.shape[:-1], self.units)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


# %% answer="10.5" name="computes in float32 and rounds" judge="exercise" says="handed its kernel float32"
@keras.saving.register_keras_serializable("lesson_10")
class FusedDense(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.start = keras.initializers.get("glorot_uniform")

    def build(self, input_shape):
        shape = (input_shape[-1], self.units)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.start)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        w = keras.ops.cast(self.kernel, "float32")
        b = keras.ops.cast(self.bias, "float32")
        rows = inputs.reshape(-1, inputs.shape[-1])
        return (
            fused_dense(rows.astype("float32"), w, b)
            .astype(inputs.dtype)
            .reshape(*inputs.shape[:-1], self.units)
        )

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


# %% answer="10.5" name="says a shape of two axes" judge="exercise" says="it should be .None, 7, 256."
@keras.saving.register_keras_serializable("lesson_10")
class FusedDense(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.start = keras.initializers.get("glorot_uniform")

    def build(self, input_shape):
        shape = (input_shape[-1], self.units)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.start)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        w = keras.ops.cast(self.kernel, self.compute_dtype)
        b = keras.ops.cast(self.bias, self.compute_dtype)
        rows = inputs.reshape(-1, inputs.shape[-1])
        return fused_dense(rows, w, b).reshape(*inputs.shape[:-1], self.units)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


# %% answer="10.5" name="says no shape" judge="exercise" says="no compute_output_shape"
@keras.saving.register_keras_serializable("lesson_10")
class FusedDense(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.start = keras.initializers.get("glorot_uniform")

    def build(self, input_shape):
        shape = (input_shape[-1], self.units)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.start)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        w = keras.ops.cast(self.kernel, self.compute_dtype)
        b = keras.ops.cast(self.bias, self.compute_dtype)
        rows = inputs.reshape(-1, inputs.shape[-1])
        return fused_dense(rows, w, b).reshape(*inputs.shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


# %% answer="10.5" name="drops the keyword arguments" judge="exercise" says="it computes in float32"
@keras.saving.register_keras_serializable("lesson_10")
class FusedDense(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__()
        self.units = units
        self.start = keras.initializers.get("glorot_uniform")

    def build(self, input_shape):
        shape = (input_shape[-1], self.units)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.start)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        w = keras.ops.cast(self.kernel, self.compute_dtype)
        b = keras.ops.cast(self.bias, self.compute_dtype)
        rows = inputs.reshape(-1, inputs.shape[-1])
        return fused_dense(rows, w, b).reshape(*inputs.shape[:-1], self.units)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


# %% answer="10.6" name="four bytes a number" judge="exercise" says="4 bytes a number"
kept = {
    "A": "128 MiB",
    "B": "164 us",
    "C": "349 us",
    "D": "save",
    "E": "recompute",
}


# %% answer="10.6" name="writes it only" judge="exercise" says="written, and read later"
kept = {
    "A": "64 MiB",
    "B": "82 us",
    "C": "349 us",
    "D": "save",
    "E": "recompute",
}


# %% answer="10.6" name="one FLOP for two" judge="exercise" says="two FLOPs"
kept = {
    "A": "64 MiB",
    "B": "164 us",
    "C": "174 us",
    "D": "save",
    "E": "recompute",
}


# %% answer="10.6" name="the slower one" judge="exercise" says="smaller one is faster"
kept = {
    "A": "64 MiB",
    "B": "164 us",
    "C": "349 us",
    "D": "recompute",
    "E": "recompute",
}


# %% answer="10.6" name="every chip alike" judge="exercise" says="4.7 times as fast"
kept = {
    "A": "64 MiB",
    "B": "164 us",
    "C": "349 us",
    "D": "save",
    "E": "save",
}


# %% answer="10.7" name="the residual is still y" judge="numbers" says="another residual is read"
def scaled_back(x, s, y, g):

    def kernel(x_ref, s_ref, y_ref, g_ref, dx_ref, ds_ref, db_ref):
        @pl.when(pl.program_id(1) == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)
            db_ref[...] = jnp.zeros_like(db_ref)

        dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
        dx_ref[...] = dz * s_ref[...]
        ds_ref[...] += jnp.sum(dz * y_ref[...], axis=0, keepdims=True)
        db_ref[...] += jnp.sum(dz, axis=0, keepdims=True)

    (m, n), column = x.shape, pl.BlockSpec((1, SIDE), lambda j, i: (0, j))
    block, row = (
        pl.BlockSpec((64, SIDE), lambda j, i: (i, j)),
        jax.ShapeDtypeStruct((1, n), x.dtype),
    )
    dx, ds, db = pl.pallas_call(
        kernel,
        out_shape=[x, row, row],
        grid=(n // SIDE, m // 64),
        in_specs=[block, column, block, block],
        out_specs=[block, column, column],
    )(x, s.reshape(1, n), y, g)
    return dx, ds.reshape(n), db.reshape(n)


# %% answer="10.7" name="db without the slope" judge="numbers" says="without relu's slope"
def scaled_back(x, s, y, g):

    def kernel(x_ref, s_ref, y_ref, g_ref, dx_ref, ds_ref, db_ref):
        @pl.when(pl.program_id(1) == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)
            db_ref[...] = jnp.zeros_like(db_ref)

        dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
        dx_ref[...] = dz * s_ref[...]
        ds_ref[...] += jnp.sum(dz * x_ref[...], axis=0, keepdims=True)
        db_ref[...] += jnp.sum(g_ref[...], axis=0, keepdims=True)

    (m, n), column = x.shape, pl.BlockSpec((1, SIDE), lambda j, i: (0, j))
    block, row = (
        pl.BlockSpec((64, SIDE), lambda j, i: (i, j)),
        jax.ShapeDtypeStruct((1, n), x.dtype),
    )
    dx, ds, db = pl.pallas_call(
        kernel,
        out_shape=[x, row, row],
        grid=(n // SIDE, m // 64),
        in_specs=[block, column, block, block],
        out_specs=[block, column, column],
    )(x, s.reshape(1, n), y, g)
    return dx, ds.reshape(n), db.reshape(n)


# %% answer="10.7" name="the order is still that of the forward grid" judge="simulator" says="came back|running sum"
def scaled_back(x, s, y, g):

    def kernel(x_ref, s_ref, y_ref, g_ref, dx_ref, ds_ref, db_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)
            db_ref[...] = jnp.zeros_like(db_ref)

        dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
        dx_ref[...] = dz * s_ref[...]
        ds_ref[...] += jnp.sum(dz * x_ref[...], axis=0, keepdims=True)
        db_ref[...] += jnp.sum(dz, axis=0, keepdims=True)

    (m, n), column = x.shape, pl.BlockSpec((1, SIDE), lambda i, j: (0, j))
    block, row = (
        pl.BlockSpec((64, SIDE), lambda i, j: (i, j)),
        jax.ShapeDtypeStruct((1, n), x.dtype),
    )
    dx, ds, db = pl.pallas_call(
        kernel,
        out_shape=[x, row, row],
        grid=(m // 64, n // SIDE),
        in_specs=[block, column, block, block],
        out_specs=[block, column, column],
    )(x, s.reshape(1, n), y, g)
    return dx, ds.reshape(n), db.reshape(n)


# %% answer="10.7" name="zeroes by the other axis, on the forward grid" judge="numbers" says="put the axis of the sum last"
def scaled_back(x, s, y, g):

    def kernel(x_ref, s_ref, y_ref, g_ref, dx_ref, ds_ref, db_ref):
        @pl.when(pl.program_id(1) == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)
            db_ref[...] = jnp.zeros_like(db_ref)

        dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
        dx_ref[...] = dz * s_ref[...]
        ds_ref[...] += jnp.sum(dz * x_ref[...], axis=0, keepdims=True)
        db_ref[...] += jnp.sum(dz, axis=0, keepdims=True)

    (m, n), column = x.shape, pl.BlockSpec((1, SIDE), lambda i, j: (0, j))
    block, row = (
        pl.BlockSpec((64, SIDE), lambda i, j: (i, j)),
        jax.ShapeDtypeStruct((1, n), x.dtype),
    )
    dx, ds, db = pl.pallas_call(
        kernel,
        out_shape=[x, row, row],
        grid=(m // 64, n // SIDE),
        in_specs=[block, column, block, block],
        out_specs=[block, column, column],
    )(x, s.reshape(1, n), y, g)
    return dx, ds.reshape(n), db.reshape(n)


# %% answer="10.7" name="the slope at 0" judge="numbers" says="(?i)0|kink"
def scaled_back(x, s, y, g):

    def kernel(x_ref, s_ref, y_ref, g_ref, dx_ref, ds_ref, db_ref):
        @pl.when(pl.program_id(1) == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)
            db_ref[...] = jnp.zeros_like(db_ref)

        dz = jnp.where(y_ref[...] >= 0, g_ref[...], 0)
        dx_ref[...] = dz * s_ref[...]
        ds_ref[...] += jnp.sum(dz * x_ref[...], axis=0, keepdims=True)
        db_ref[...] += jnp.sum(dz, axis=0, keepdims=True)

    (m, n), column = x.shape, pl.BlockSpec((1, SIDE), lambda j, i: (0, j))
    block, row = (
        pl.BlockSpec((64, SIDE), lambda j, i: (i, j)),
        jax.ShapeDtypeStruct((1, n), x.dtype),
    )
    dx, ds, db = pl.pallas_call(
        kernel,
        out_shape=[x, row, row],
        grid=(n // SIDE, m // 64),
        in_specs=[block, column, block, block],
        out_specs=[block, column, column],
    )(x, s.reshape(1, n), y, g)
    return dx, ds.reshape(n), db.reshape(n)


# %% answer="10.8" name="says trains" judge="exercise" says="Does the result depend"
happens = "trains"


# %% answer="10.8" name="says error" judge="exercise" says="hard to find"
happens = "error"


# %% answer="10.8" name="expects a warning" judge="exercise" says="Who would warn"
happens = "weights stay, and a warning"


# %% answer="10.8" name="says nothing" judge="exercise" says="(?s)trains.*weights stay.*error"
happens = "nothing"


# %% answer="10.9" name="the factor is a constant" judge="numbers" says="taken for a constant"
rms_norm = None
EPSILON = 1e-6


def factor(x):
    return jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPSILON)


def norm_kernel(x_ref, s_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = x * factor(x) * s_ref[...]


def norm_call(x, s):
    (m, n), bm = x.shape, min(64, x.shape[0])
    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        norm_kernel,
        out_shape=x,
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole],
        out_specs=block,
    )(x, s.reshape(1, n))


def norm_back(x, s, g):
    (m, n), bm = x.shape, min(64, x.shape[0])

    def kernel(x_ref, s_ref, g_ref, dx_ref, ds_ref):
        i = pl.program_id(0)

        @pl.when(i == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)

        there = i * bm + jax.lax.broadcasted_iota(jnp.int32, (bm, n), 0) < m
        x, g = jnp.where(there, x_ref[...], 0), jnp.where(there, g_ref[...], 0)
        r, h = factor(x), g * s_ref[...]
        dx_ref[...] = r * h
        ds_ref[...] += jnp.sum(g * x * r, axis=0, keepdims=True)

    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    dx, ds = pl.pallas_call(
        kernel,
        out_shape=[x, jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole, block],
        out_specs=[block, whole],
    )(x, s.reshape(1, n), g)
    return dx, ds.reshape(n)


@jax.custom_vjp
def rms_norm(x, s):
    return norm_call(x, s)


rms_norm.defvjp(lambda x, s: (norm_call(x, s), (x, s)), lambda kept, g: norm_back(*kept, g))


# %% answer="10.9" name="a sum for a mean" judge="numbers" says="not divided by N"
rms_norm = None
EPSILON = 1e-6


def factor(x):
    return jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPSILON)


def norm_kernel(x_ref, s_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = x * factor(x) * s_ref[...]


def norm_call(x, s):
    (m, n), bm = x.shape, min(64, x.shape[0])
    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        norm_kernel,
        out_shape=x,
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole],
        out_specs=block,
    )(x, s.reshape(1, n))


def norm_back(x, s, g):
    (m, n), bm = x.shape, min(64, x.shape[0])

    def kernel(x_ref, s_ref, g_ref, dx_ref, ds_ref):
        i = pl.program_id(0)

        @pl.when(i == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)

        there = i * bm + jax.lax.broadcasted_iota(jnp.int32, (bm, n), 0) < m
        x, g = jnp.where(there, x_ref[...], 0), jnp.where(there, g_ref[...], 0)
        r, h = factor(x), g * s_ref[...]
        dx_ref[...] = r * h - x * (r * r * r) * jnp.sum(h * x, axis=1, keepdims=True)
        ds_ref[...] += jnp.sum(g * x * r, axis=0, keepdims=True)

    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    dx, ds = pl.pallas_call(
        kernel,
        out_shape=[x, jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole, block],
        out_specs=[block, whole],
    )(x, s.reshape(1, n), g)
    return dx, ds.reshape(n)


@jax.custom_vjp
def rms_norm(x, s):
    return norm_call(x, s)


rms_norm.defvjp(lambda x, s: (norm_call(x, s), (x, s)), lambda kept, g: norm_back(*kept, g))


# %% answer="10.9" name="ds of x as it came" judge="numbers" says="x as it came"
rms_norm = None
EPSILON = 1e-6


def factor(x):
    return jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPSILON)


def norm_kernel(x_ref, s_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = x * factor(x) * s_ref[...]


def norm_call(x, s):
    (m, n), bm = x.shape, min(64, x.shape[0])
    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        norm_kernel,
        out_shape=x,
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole],
        out_specs=block,
    )(x, s.reshape(1, n))


def norm_back(x, s, g):
    (m, n), bm = x.shape, min(64, x.shape[0])

    def kernel(x_ref, s_ref, g_ref, dx_ref, ds_ref):
        i = pl.program_id(0)

        @pl.when(i == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)

        there = i * bm + jax.lax.broadcasted_iota(jnp.int32, (bm, n), 0) < m
        x, g = jnp.where(there, x_ref[...], 0), jnp.where(there, g_ref[...], 0)
        r, h = factor(x), g * s_ref[...]
        dx_ref[...] = r * h - x * (r * r * r) * jnp.mean(h * x, axis=1, keepdims=True)
        ds_ref[...] += jnp.sum(g * x, axis=0, keepdims=True)

    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    dx, ds = pl.pallas_call(
        kernel,
        out_shape=[x, jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole, block],
        out_specs=[block, whole],
    )(x, s.reshape(1, n), g)
    return dx, ds.reshape(n)


@jax.custom_vjp
def rms_norm(x, s):
    return norm_call(x, s)


rms_norm.defvjp(lambda x, s: (norm_call(x, s), (x, s)), lambda kept, g: norm_back(*kept, g))


# %% answer="10.9" name="forgets the ragged rows" judge="numbers" says="(?s)hangs over the end.*garbage"
rms_norm = None
EPSILON = 1e-6


def factor(x):
    return jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPSILON)


def norm_kernel(x_ref, s_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = x * factor(x) * s_ref[...]


def norm_call(x, s):
    (m, n), bm = x.shape, min(64, x.shape[0])
    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        norm_kernel,
        out_shape=x,
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole],
        out_specs=block,
    )(x, s.reshape(1, n))


def norm_back(x, s, g):
    (m, n), bm = x.shape, min(64, x.shape[0])

    def kernel(x_ref, s_ref, g_ref, dx_ref, ds_ref):
        i = pl.program_id(0)

        @pl.when(i == 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)

        x, g = x_ref[...], g_ref[...]
        r, h = factor(x), g * s_ref[...]
        dx_ref[...] = r * h - x * (r * r * r) * jnp.mean(h * x, axis=1, keepdims=True)
        ds_ref[...] += jnp.sum(g * x * r, axis=0, keepdims=True)

    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    dx, ds = pl.pallas_call(
        kernel,
        out_shape=[x, jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole, block],
        out_specs=[block, whole],
    )(x, s.reshape(1, n), g)
    return dx, ds.reshape(n)


@jax.custom_vjp
def rms_norm(x, s):
    return norm_call(x, s)


rms_norm.defvjp(lambda x, s: (norm_call(x, s), (x, s)), lambda kept, g: norm_back(*kept, g))


# %% answer="10.9" name="begins ds anew at each block" judge="numbers" says="ds"
rms_norm = None
EPSILON = 1e-6


def factor(x):
    return jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPSILON)


def norm_kernel(x_ref, s_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = x * factor(x) * s_ref[...]


def norm_call(x, s):
    (m, n), bm = x.shape, min(64, x.shape[0])
    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        norm_kernel,
        out_shape=x,
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole],
        out_specs=block,
    )(x, s.reshape(1, n))


def norm_back(x, s, g):
    (m, n), bm = x.shape, min(64, x.shape[0])

    def kernel(x_ref, s_ref, g_ref, dx_ref, ds_ref):
        i = pl.program_id(0)

        @pl.when(i >= 0)
        def zero():
            ds_ref[...] = jnp.zeros_like(ds_ref)

        there = i * bm + jax.lax.broadcasted_iota(jnp.int32, (bm, n), 0) < m
        x, g = jnp.where(there, x_ref[...], 0), jnp.where(there, g_ref[...], 0)
        r, h = factor(x), g * s_ref[...]
        dx_ref[...] = r * h - x * (r * r * r) * jnp.mean(h * x, axis=1, keepdims=True)
        ds_ref[...] += jnp.sum(g * x * r, axis=0, keepdims=True)

    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    whole = pl.BlockSpec((1, n), lambda i: (0, 0))
    dx, ds = pl.pallas_call(
        kernel,
        out_shape=[x, jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(pl.cdiv(m, bm),),
        in_specs=[block, whole, block],
        out_specs=[block, whole],
    )(x, s.reshape(1, n), g)
    return dx, ds.reshape(n)


@jax.custom_vjp
def rms_norm(x, s):
    return norm_call(x, s)


rms_norm.defvjp(lambda x, s: (norm_call(x, s), (x, s)), lambda kept, g: norm_back(*kept, g))


# %% answer="10.10" name="two kernels" judge="exercise" says="above par"
def all_back(x, w, y, g):
    (m, k), n = x.shape, w.shape[1]
    of_y, of_x = (pl.BlockSpec((SIDE, size), lambda i: (i, 0)) for size in (n, k))
    of_w, of_b = (pl.BlockSpec((size, n), lambda i: (0, 0)) for size in (k, 1))

    def dx_kernel(w_ref, y_ref, g_ref, dx_ref):
        dx_ref[...] = product(jnp.where(y_ref[...] > 0, g_ref[...], 0), w_ref[...], 1, 1)

    def dw_kernel(x_ref, y_ref, g_ref, dw_ref, db_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            dw_ref[...] = jnp.zeros_like(dw_ref)
            db_ref[...] = jnp.zeros_like(db_ref)

        dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
        dw_ref[...] += product(x_ref[...], dz, 0, 0)
        db_ref[...] += jnp.sum(dz, axis=0, keepdims=True)

    dx = pl.pallas_call(
        dx_kernel,
        out_shape=x,
        grid=(m // SIDE,),
        in_specs=[of_w, of_y, of_y],
        out_specs=of_x,
    )(w, y, g)
    dw, db = pl.pallas_call(
        dw_kernel,
        out_shape=[w, jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(m // SIDE,),
        in_specs=[of_x, of_y, of_y],
        out_specs=[of_w, of_b],
    )(x, y, g)
    return dx, dw, db.reshape(n)


# %% answer="10.10" name="db of g" judge="numbers" says="db sums g"
all_back = None


def all_back_kernel(x_ref, w_ref, y_ref, g_ref, dx_ref, dw_ref, db_ref):
    @pl.when(pl.program_id(0) == 0)
    def zero():
        dw_ref[...] = jnp.zeros_like(dw_ref)
        db_ref[...] = jnp.zeros_like(db_ref)

    dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
    dx_ref[...] = product(dz, w_ref[...], 1, 1)
    dw_ref[...] += product(x_ref[...], dz, 0, 0)
    db_ref[...] += jnp.sum(g_ref[...], axis=0, keepdims=True)


def all_back(x, w, y, g):
    (m, k), n = x.shape, w.shape[1]
    rows, whole = (lambda i: (i, 0)), (lambda i: (0, 0))
    dx, dw, db = pl.pallas_call(
        all_back_kernel,
        out_shape=[x, w, jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(m // SIDE,),
        in_specs=[
            pl.BlockSpec((SIDE, k), rows),
            pl.BlockSpec((k, n), whole),
            pl.BlockSpec((SIDE, n), rows),
            pl.BlockSpec((SIDE, n), rows),
        ],
        out_specs=[
            pl.BlockSpec((SIDE, k), rows),
            pl.BlockSpec((k, n), whole),
            pl.BlockSpec((1, n), whole),
        ],
    )(x, w, y, g)
    return dx, dw, db.reshape(n)


# %% answer="10.10" name="all in one step" judge="budget" says="VMEM"
all_back = None


def all_back_kernel(x_ref, w_ref, y_ref, g_ref, dx_ref, dw_ref, db_ref):
    @pl.when(pl.program_id(0) == 0)
    def zero():
        dw_ref[...] = jnp.zeros_like(dw_ref)
        db_ref[...] = jnp.zeros_like(db_ref)

    dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
    dx_ref[...] = product(dz, w_ref[...], 1, 1)
    dw_ref[...] += product(x_ref[...], dz, 0, 0)
    db_ref[...] += jnp.sum(dz, axis=0, keepdims=True)


def all_back(x, w, y, g):
    (m, k), n = x.shape, w.shape[1]
    rows, whole = (lambda i: (i, 0)), (lambda i: (0, 0))
    dx, dw, db = pl.pallas_call(
        all_back_kernel,
        out_shape=[x, w, jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(1,),
        in_specs=[
            pl.BlockSpec((m, k), rows),
            pl.BlockSpec((k, n), whole),
            pl.BlockSpec((m, n), rows),
            pl.BlockSpec((m, n), rows),
        ],
        out_specs=[
            pl.BlockSpec((m, k), rows),
            pl.BlockSpec((k, n), whole),
            pl.BlockSpec((1, n), whole),
        ],
    )(x, w, y, g)
    return dx, dw, db.reshape(n)


# %% answer="10.10" name="dw begins anew" judge="numbers" says="Every step sets everything anew"
all_back = None


def all_back_kernel(x_ref, w_ref, y_ref, g_ref, dx_ref, dw_ref, db_ref):
    @pl.when(pl.program_id(0) >= 0)
    def zero():
        dw_ref[...] = jnp.zeros_like(dw_ref)
        db_ref[...] = jnp.zeros_like(db_ref)

    dz = jnp.where(y_ref[...] > 0, g_ref[...], 0)
    dx_ref[...] = product(dz, w_ref[...], 1, 1)
    dw_ref[...] += product(x_ref[...], dz, 0, 0)
    db_ref[...] += jnp.sum(dz, axis=0, keepdims=True)


def all_back(x, w, y, g):
    (m, k), n = x.shape, w.shape[1]
    rows, whole = (lambda i: (i, 0)), (lambda i: (0, 0))
    dx, dw, db = pl.pallas_call(
        all_back_kernel,
        out_shape=[x, w, jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(m // SIDE,),
        in_specs=[
            pl.BlockSpec((SIDE, k), rows),
            pl.BlockSpec((k, n), whole),
            pl.BlockSpec((SIDE, n), rows),
            pl.BlockSpec((SIDE, n), rows),
        ],
        out_specs=[
            pl.BlockSpec((SIDE, k), rows),
            pl.BlockSpec((k, n), whole),
            pl.BlockSpec((1, n), whole),
        ],
    )(x, w, y, g)
    return dx, dw, db.reshape(n)
