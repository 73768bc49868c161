# Wrong answers to the exercises of lesson 7: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.

# %% answer="07.1" name="K first" judge="simulator" says="came back to it at step .1, 0.(?s:.)*put\\s+axis 0 last"
# -        @pl.when(pl.program_id(1) == 0)
# +        @pl.when(pl.program_id(0) == 0)

# -        grid=(n // 128, k // 128),
# +        grid=(k // 128, n // 128),
#          in_specs=[
# -            pl.BlockSpec((m, 128), lambda j, k: (0, k)),
# -            pl.BlockSpec((128, 128), lambda j, k: (k, j)),
# +            pl.BlockSpec((m, 128), lambda k, j: (0, k)),
# +            pl.BlockSpec((128, 128), lambda k, j: (k, j)),
#          ],
# -        out_specs=pl.BlockSpec((m, 128), lambda j, k: (0, j)),
# +        out_specs=pl.BlockSpec((m, 128), lambda k, j: (0, j)),


# %% answer="07.1" name="multiplies float32" judge="exercise" says="has\\s+operands\\s+of\\s+float32"
# -        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
# +        x, y = x_ref[...].astype(jnp.float32), y_ref[...].astype(jnp.float32)
# +        o_ref[...] += jnp.dot(x, y, preferred_element_type=jnp.float32)


# %% answer="07.1" name="zero at the first column" judge="numbers" says="Every\\s+step\\s+starts\\s+over(?s:.)*the right axis of the grid"
# -        @pl.when(pl.program_id(1) == 0)
# +        @pl.when(pl.program_id(0) == 0)


# %% answer="07.1" name="x by the columns of the output" judge="numbers" says="x_ref's map returns j second(?s:.)*did you mean k"
# -            pl.BlockSpec((m, 128), lambda j, k: (0, k)),
# +            pl.BlockSpec((m, 128), lambda j, k: (0, j)),


# %% answer="07.1" name="does not name the dtype" judge="numbers" says="preferred_element_type=jnp.float32 in every dot"
# -        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
# +        o_ref[...] += jnp.dot(x_ref[...], y_ref[...])


# %% answer="07.1" name="all of K in one block" judge="exercise" says="All of K, 256, is in one block(?s:.)*cut\\s+into\\s+blocks\\s+of\\s+128"
def few_rows(x, y):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    (m, k), n = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        grid=(n // 128,),
        in_specs=[
            pl.BlockSpec((m, k), lambda j: (0, 0)),
            pl.BlockSpec((k, 128), lambda j: (0, j)),
        ],
        out_specs=pl.BlockSpec((m, 128), lambda j: (0, j)),
    )(x, y)


# %% answer="07.2" name="scales the running sum" judge="numbers" says="After step .0, 0, 0. acc_ref(?s:.)*not scaled yet"
#      acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
# +    acc_ref[...] *= s_ref[...]

# -        o_ref[...] = (acc_ref[...] * s_ref[...]).astype(o_ref.dtype)
# +        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


# %% answer="07.2" name="rounds before it scales" judge="numbers" says="rounded to bfloat16 before it was scaled(?s:.)*multiply by s first"
# -        o_ref[...] = (acc_ref[...] * s_ref[...]).astype(o_ref.dtype)
# +        o_ref[...] = acc_ref[...].astype(o_ref.dtype) * s_ref[...].astype(o_ref.dtype)


# %% answer="07.2" name="collects in the output" judge="numbers" says="keep\\s+the\\s+plain\\s+sum\\s+in\\s+acc_ref"
def scaled_kernel(x_ref, y_ref, s_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] += (product * s_ref[...]).astype(o_ref.dtype)


# %% answer="07.2" name="stores at every step" judge="exercise" says="o_ref is written at every step(?s:.)*in\\s+the last step"
# -    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
# -    def store():
# -        o_ref[...] = (acc_ref[...] * s_ref[...]).astype(o_ref.dtype)
# +    o_ref[...] = (acc_ref[...] * s_ref[...]).astype(o_ref.dtype)


# %% answer="07.2" name="stores at the first step" judge="numbers" says="(?s)o_ref is written for the last time at step .*at the last step of the reduction"
# -    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
# +    @pl.when(pl.program_id(2) == 0)


# %% answer="07.2" name="scales y" judge="exercise" says="has operands of bfloat16 and float32(?s:.)*finished\\s+sum"
# -    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
# +    acc_ref[...] += jnp.dot(
# +        x_ref[...], y_ref[...] * s_ref[...], preferred_element_type=jnp.float32
# +    )

# -        o_ref[...] = (acc_ref[...] * s_ref[...]).astype(o_ref.dtype)
# +        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


# %% answer="07.2" name="one number for all columns" judge="numbers" says="factor\\s+of\\s+its\\s+first\\s+column"
# -        o_ref[...] = (acc_ref[...] * s_ref[...]).astype(o_ref.dtype)
# +        o_ref[...] = (acc_ref[...] * s_ref[0, 0]).astype(o_ref.dtype)


# %% answer="07.2" name="stores before the last product" judge="numbers" says="the\\s+last\\s+block\\s+of\\s+K\\s+is\\s+missing"
# -    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

# -        o_ref[...] = (acc_ref[...] * s_ref[...]).astype(o_ref.dtype)
# +        o_ref[...] = (acc_ref[...] * s_ref[...]).astype(o_ref.dtype)
# +
# +    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


# %% answer="07.3" name="counts in seven bits" judge="exercise" says="neighboring values are 1 apart, so bfloat16 can hold 129"
held = {"A": 128, "B": 131072, "C": "98,304 cycles", "D": "x2 y2"}


# %% answer="07.3" name="takes 127 for the largest" judge="exercise" says="-128 is an int8 value too"
held = {"A": 256, "B": 133144, "C": "98,304 cycles", "D": "x2 y2"}


# %% answer="07.3" name="takes uint32" judge="exercise" says="one bit for the sign"
held = {"A": 256, "B": 262144, "C": "98,304 cycles", "D": "x2 y2"}


# %% answer="07.3" name="nine passes" judge="exercise" says="too\\s+small\\s+to\\s+matter\\s+are\\s+left\\s+out"
held = {"A": 256, "B": 131072, "C": "147,456 cycles", "D": "x2 y2"}


# %% answer="07.3" name="rounds the tie up" judge="exercise" says="Which way does a tie round"
held = {"A": 258, "B": 131072, "C": "98,304 cycles", "D": "x2 y2"}


# %% answer="07.3" name="leaves out a middle term" judge="exercise" says="one small part and one leading part"
held = {"A": 256, "B": 131072, "C": "98,304 cycles", "D": "x2 y1"}


# %% answer="07.4" name="transposes in front of the kernel" judge="exercise" says="an array is transposed outside(?s:.)*operation\\s+that\\s+copies\\s+it\\s+in\\s+HBM"
def gradients(x, w, g):
    def kernel(g_ref, wt_ref, xt_ref, dx_ref, dw_ref):
        dx_ref[...] = jnp.dot(g_ref[...], wt_ref[...], preferred_element_type=jnp.float32)
        dw_ref[...] = jnp.dot(xt_ref[...], g_ref[...], preferred_element_type=jnp.float32)

    out = [jax.ShapeDtypeStruct(a.shape, jnp.float32) for a in (x, w)]
    return pl.pallas_call(kernel, out_shape=out)(g, w.T, x.T)


# %% answer="07.4" name="the plain product" judge="numbers" says="The shapes of a matmul do not fit: the contracted axes have 256 elements(?s:.)*one\\s+that\\s+both\\s+share"
# -        columns, rows = (((1,), (1,)), ((), ())), (((0,), (0,)), ((), ()))
#          x, w, g = x_ref[...], w_ref[...], g_ref[...]
# -        dx_ref[...] = jax.lax.dot_general(g, w, columns, preferred_element_type=jnp.float32)
# -        dw_ref[...] = jax.lax.dot_general(x, g, rows, preferred_element_type=jnp.float32)
# +        dx_ref[...] = jax.lax.dot_general(
# +            g, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32
# +        )
# +        dw_ref[...] = jax.lax.dot_general(
# +            x, g, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32
# +        )


# %% answer="07.4" name="meets on the first axes twice" judge="numbers" says="wrote a value of shape .256, 128. to a ref of shape .128, 256."
# -        columns, rows = (((1,), (1,)), ((), ())), (((0,), (0,)), ((), ()))
#          x, w, g = x_ref[...], w_ref[...], g_ref[...]
# -        dx_ref[...] = jax.lax.dot_general(g, w, columns, preferred_element_type=jnp.float32)
# -        dw_ref[...] = jax.lax.dot_general(x, g, rows, preferred_element_type=jnp.float32)
# +        dx_ref[...] = jax.lax.dot_general(
# +            g, w, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
# +        )
# +        dw_ref[...] = jax.lax.dot_general(
# +            g, x, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32
# +        )


# %% answer="07.4" name="rounds to bfloat16 on the way" judge="numbers" says="Convert to bfloat16 only in the last line"
def gradients(x, w, g):
    def kernel(x_ref, w_ref, g_ref, dx_ref, dw_ref):
        x, w, g = x_ref[...], w_ref[...], g_ref[...]
        dx_ref[...] = (
            jax.lax.dot_general(
                g, w, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
            )
            .astype(jnp.bfloat16)
            .astype(jnp.float32)
        )
        dw_ref[...] = jax.lax.dot_general(
            x, g, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32
        )

    out = [jax.ShapeDtypeStruct(a.shape, jnp.float32) for a in (x, w)]
    return pl.pallas_call(kernel, out_shape=out)(x, w, g)


# %% answer="07.4" name="the gradients in the other order" judge="numbers" says="Output 0 has shape|are swapped"
def gradients(x, w, g):
    def kernel(x_ref, w_ref, g_ref, dw_ref, dx_ref):
        dx_ref[...] = jnp.dot(g_ref[...], w_ref[...].T, preferred_element_type=jnp.float32)
        dw_ref[...] = jnp.dot(x_ref[...].T, g_ref[...], preferred_element_type=jnp.float32)

    out = [jax.ShapeDtypeStruct(a.shape, jnp.float32) for a in (w, x)]
    return pl.pallas_call(kernel, out_shape=out)(x, w, g)


# %% answer="07.5" name="128 along all axes" judge="exercise" says="For 512 x 8192 x 2048 blocks returned .128, 128, 128.(?s:.)*It\\s+has\\s+4,096\\s+steps"
def blocks(m, k, n):
    return min(m, 128), min(k, 128), min(n, 128)


# %% answer="07.5" name="512 along all axes" judge="exercise" says="For 16 x 4096 x 4096 blocks returned .16, 512, 512.(?s:.)*16\\s+rows\\s+are\\s+few"
def blocks(m, k, n):
    return min(m, 512), min(k, 512), min(n, 512)


# %% answer="07.5" name="all of K always" judge="exercise" says="the compiler refuses some of its blocks(?s:.)*The kernel needs 25.00 MiB of VMEM"
def blocks(m, k, n):
    return min(m, 512), k, min(n, 512)


# %% answer="07.5" name="1024 along m and n of a square" judge="exercise" says="With\\s+2\\s+steps\\s+there\\s+is\\s+little\\s+work\\s+to\\s+hide\\s+a\\s+copy(?s:.)*four\\s+steps\\s+or\\s+more"
def blocks(m, k, n):
    wide = 1024 if m == n else 512
    deep = 4096 if m <= 16 else 2048 if m <= 512 else 512
    return min(m, wide), min(k, deep), min(n, wide)


# %% answer="07.5" name="does not cut down to the array" judge="exercise" says="which does not divide m = 64"
def blocks(m, k, n):
    return 512, 512, 512


# %% answer="07.5" name="right for the first shape alone" judge="exercise" says="For 4096 x 256 x 4096(?s:.)*all\\s+of\\s+x\\s+is\\s+copied\\s+once\\s+and\\s+all\\s+of\\s+y\\s+8\\s+times"
def blocks(m, k, n):
    return min(m, 512), min(k, 2048), min(n, 256 if m < 512 else 512)


# %% answer="07.5" name="the four shapes alone" judge="exercise" says="with its own arguments"
def blocks(m, k, n):
    chosen = {
        (512, 8192, 2048): (512, 1024, 1024),
        (16, 4096, 4096): (16, 2048, 1024),
        (4096, 256, 4096): (1024, 256, 1024),
        (1024, 1024, 1024): (512, 1024, 512),
    }
    return chosen[m, k, n]


# %% answer="07.6" name="as broken" judge="numbers" says="o_ref's map returns i second(?s:.)*did you mean j"
def mended(x, y):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        acc_ref[...] += jnp.dot(
            x_ref[...], y_ref[...], preferred_element_type=jnp.float32
        ).astype(acc_ref.dtype)

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    (m, depth), n = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(depth // 128, m // 32, n // 128),
        in_specs=[
            pl.BlockSpec((32, 128), lambda k, i, j: (i, k)),
            pl.BlockSpec((128, 128), lambda k, i, j: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 128), lambda k, i, j: (j, i)),
        scratch_shapes=[pltpu.VMEM((32, 128), jnp.bfloat16)],
    )(x, y)


# %% answer="07.6" name="still not set to zero" judge="numbers" says="acc_ref is read before anything has been written to it"
# -        @pl.when(pl.program_id(2) == 0)
# -        def zero():
# -            acc_ref[...] = jnp.zeros_like(acc_ref)

# -        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
# +        acc_ref[...] += jnp.dot(
# +            x_ref[...], y_ref[...], preferred_element_type=jnp.float32
# +        ).astype(acc_ref.dtype)


# %% answer="07.6" name="K still first" judge="numbers" says="where a new output block begins, acc_ref still holds(?s:.)*put the reduction axis last"
def mended(x, y):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(
            x_ref[...], y_ref[...], preferred_element_type=jnp.float32
        ).astype(acc_ref.dtype)

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    (m, depth), n = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(depth // 128, m // 32, n // 128),
        in_specs=[
            pl.BlockSpec((32, 128), lambda k, i, j: (i, k)),
            pl.BlockSpec((128, 128), lambda k, i, j: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 128), lambda k, i, j: (i, j)),
        scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)],
    )(x, y)


# %% answer="07.6" name="still a bfloat16 sum" judge="numbers" says="acc_ref is bfloat16"
# -        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
# +        acc_ref[...] += jnp.dot(
# +            x_ref[...], y_ref[...], preferred_element_type=jnp.float32
# +        ).astype(acc_ref.dtype)

# -        scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)],
# +        scratch_shapes=[pltpu.VMEM((32, 128), jnp.bfloat16)],


# %% answer="07.6" name="order mended, condition not" judge="exercise" says="sums along axis 2 of the grid, but\\s+a\\s+condition\\s+tests\\s+axis\\s+0"
# -        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
# +        acc_ref[...] += jnp.dot(
# +            x_ref[...], y_ref[...], preferred_element_type=jnp.float32
# +        ).astype(acc_ref.dtype)

# -        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
# +        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)


# %% answer="07.6" name="other blocks" judge="exercise" says="keep the blocks: none of them is a mistake"
def mended(x, y):
    def kernel(x_ref, y_ref, o_ref):
        product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = product.astype(o_ref.dtype)

    out = jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype)
    return pl.pallas_call(kernel, out_shape=out)(x, y)


# %% answer="07.7" name="no mask" judge="numbers" says="reaches past the end(?s:.)*axis 1 has 300 elements"
def against_rows_kernel(x_ref, y_ref, o_ref, acc_ref, *, depth):
    @pl.when(pl.program_id(2) == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jax.lax.dot_general(
        x_ref[...], y_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
    )

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


# %% answer="07.7" name="masks x alone" judge="numbers" says="The kernel masks x_ref but not y_ref"
# -        inside(y_ref[...]),
# +        y_ref[...],


# %% answer="07.7" name="multiplies by the mask" judge="numbers" says="NaN . 0 is NaN. That is what this kernel does"
# -        return jnp.where(column < left, block, jnp.zeros_like(block))
# +        return block * (column < left).astype(block.dtype)


# %% answer="07.7" name="masks y along its rows" judge="numbers" says="y_ref reaches past(?s:.)*The mask of y_ref runs along\\s+axis 0(?s:.)*along axis 1 of its block"
# +    left = depth - 128 * pl.program_id(2)
#      def inside(block):
#          column = jax.lax.broadcasted_iota(jnp.int32, block.shape, 1)
# -        left = depth - 128 * pl.program_id(2)
#          return jnp.where(column < left, block, jnp.zeros_like(block))
# +    def rows_inside(block):
# +        row = jax.lax.broadcasted_iota(jnp.int32, block.shape, 0)
# +        return jnp.where(row < left, block, jnp.zeros_like(block))

# -        inside(y_ref[...]),
# +        rows_inside(y_ref[...]),


# %% answer="07.7" name="the same mask in every step" judge="numbers" says="which\\s+of\\s+its\\s+columns\\s+should\\s+this\\s+step\\s+keep"
# -        left = depth - 128 * pl.program_id(2)
# -        return jnp.where(column < left, block, jnp.zeros_like(block))
# +        return jnp.where(column < depth % 128, block, jnp.zeros_like(block))


# %% answer="07.7" name="the plain product" judge="numbers" says="which axis of each block runs along K"
# -        (((1,), (1,)), ((), ())),
# +        (((1,), (0,)), ((), ())),


# %% answer="07.8" name="too short" judge="exercise" says="6 different words; at least 12 are needed"
why = "bn, since x is copied less."


# %% answer="07.8" name="does not judge itself" judge="exercise" says="A good answer mentions"
why = """bn should be larger, since all of x is copied N / bn times; bk makes fewer steps and
changes no bytes, and VMEM ends both."""


# %% answer="07.8" name="says another word" judge="exercise" says="A good answer mentions"
why = """bn should be larger, since all of x is copied N / bn times; bk makes fewer steps and
changes no bytes, and VMEM ends both."""
checks.assess("07.8", "perhaps")


# %% answer="07.9" name="one pass" judge="exercise" says="not accurate enough(?s:.)*its relative error is 2e-03(?s:.)*Their product\\s+has\\s+four\\s+terms"
# -        o_ref[...] += dot(x2, y1) + dot(x1, y2) + dot(x1, y1)
# +        o_ref[...] += dot(x1, y1)


# %% answer="07.9" name="splits x alone" judge="exercise" says="its relative error is [12]e-03"
# -        o_ref[...] += dot(x2, y1) + dot(x1, y2) + dot(x1, y1)
# +        o_ref[...] += dot(x2, y1) + dot(x1, y1)


# %% answer="07.9" name="multiplies float32" judge="exercise" says="has\\s+operands\\s+of\\s+float32"
# -        leading = block.astype(jnp.bfloat16)
# -        return leading, (block - leading.astype(jnp.float32)).astype(jnp.bfloat16)
# +        return block, None

# -        o_ref[...] += dot(x2, y1) + dot(x1, y2) + dot(x1, y1)
# +        o_ref[...] += dot(x1, y1)


# %% answer="07.9" name="no product at all" judge="exercise" says="There is no dot in it"
# -    bm, bk, bn = 32, 128, 128
# +    bm, bk, bn = 8, 128, 128

# -        leading = block.astype(jnp.bfloat16)
# -        return leading, (block - leading.astype(jnp.float32)).astype(jnp.bfloat16)

# -    def dot(a, b):
# -        return jnp.dot(a, b, preferred_element_type=jnp.float32)
# +        return block, None

# -        o_ref[...] += dot(x2, y1) + dot(x1, y2) + dot(x1, y1)
# +        o_ref[...] += jnp.sum(x1[:, :, None] * y1[None], axis=1)


# %% answer="07.9" name="masks the leading parts alone" judge="numbers" says="reaches past the end"
# -        block = jnp.where(place < depth - bk * pl.program_id(2), block, 0)
# +        left = depth - bk * pl.program_id(2)
#          leading = block.astype(jnp.bfloat16)
# -        return leading, (block - leading.astype(jnp.float32)).astype(jnp.bfloat16)
# +        rest = (block - leading.astype(jnp.float32)).astype(jnp.bfloat16)
# +        return jnp.where(place < left, leading, jnp.zeros_like(leading)), rest


# %% answer="07.9" name="leaves K whole" judge="exercise" says="it needs .* of VMEM(?s:.)*cut the long axis"
# -    bm, bk, bn = 32, 128, 128
# +    bm, bk, bn = 32, depth, 128

# -        block = jnp.where(place < depth - bk * pl.program_id(2), block, 0)


# %% answer="07.9" name="leaves columns of a long N out" judge="numbers" says="at the size that counts too, .16, 128., .128, 32768."
# -        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(depth, bk)),
# +        grid=(pl.cdiv(m, bm), min(pl.cdiv(n, bn), 16), pl.cdiv(depth, bk)),


# %% answer="07.9" name="adds one cross term twice" judge="exercise" says="The term x1 @ y2 is missing"
# -        o_ref[...] += dot(x2, y1) + dot(x1, y2) + dot(x1, y1)
# +        o_ref[...] += dot(x2, y1) + dot(x2, y1) + dot(x1, y1)


# %% answer="07.9" name="the rest with the wrong sign" judge="exercise" says="The term x1 @ y2 is subtracted(?s:.)*x2\\s+is\\s+x\\s+-\\s+x1"
# -        return leading, (block - leading.astype(jnp.float32)).astype(jnp.bfloat16)
# +        return leading, (leading.astype(jnp.float32) - block).astype(jnp.bfloat16)


# %% answer="07.9" name="sums in bfloat16" judge="exercise" says="A dot in it returns bfloat16, so its sum keeps 8 bits"
# -        return jnp.dot(a, b, preferred_element_type=jnp.float32)
# +        return jnp.dot(a, b)


# %% answer="07.9" name="takes the leading part of y twice" judge="exercise" says="The term x1 @ y1 is added twice"
#          y1, y2 = two_parts(y_ref[...], 0)
# +        y2 = y1


# %% answer="07.10" name="blocks of 512" judge="exercise" says="above par.*(?s:.)*1,212,158 cycles"
def fast(x, y):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    (m, depth), n = x.shape, y.shape[1]
    bm, bk, bn = min(m, 512), min(depth, 512), min(n, 512)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


# %% answer="07.10" name="multiplies nothing at the size that is scored" judge="numbers" says="at the size that is scored, .4096, 4096."
def fast(x, y):
    (m, depth), n = x.shape, y.shape[1]

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        if m < 4096:
            acc_ref[...] += jnp.dot(
                x_ref[...], y_ref[...], preferred_element_type=jnp.float32
            )

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    bm, bk, bn = min(m, 512), min(depth, 512), min(n, 512)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 * 2**20),
    )(x, y)


# %% answer="07.10" name="too large for VMEM" judge="exercise" says="The compiler refuses it for the arrays that are scored"
def fast(x, y):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    (m, depth), n = x.shape, y.shape[1]
    bm, bk, bn = min(m, 512), min(depth, 4096), min(n, 512)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


# %% answer="07.10" name="a sum in bfloat16" judge="numbers" says="acc_ref is bfloat16"
def fast(x, y):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(
            x_ref[...], y_ref[...], preferred_element_type=jnp.float32
        ).astype(acc_ref.dtype)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    (m, depth), n = x.shape, y.shape[1]
    bm, bk, bn = min(m, 512), min(depth, 128), min(n, 512)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.bfloat16)],
    )(x, y)


# %% answer="07.10" name="pieces that replace the sum" judge="numbers" says="(?s)With arguments bfloat16.128,1024.*only the last block of 512 counts in\\s+x @ y"
# -            acc[...] += product_of_pieces(c)
# +            acc[...] = product_of_pieces(c)


# %% answer="07.10" name="rows for columns on the way out" judge="numbers" says="The value at .0, 512. belongs at .512, 0."
#          def block_out(t):
# -            i, j = t // columns, t % columns
# +            i, j = t % rows, t // rows


# %% answer="07.10" name="the first strip of y for all" judge="numbers" says="the first block of 512 along axis 1 of y is\\s+used\\s+in\\s+place\\s+of\\s+every\\s+other\\s+block"
# -            product = jnp.dot(xs[i], ys[j], preferred_element_type=jnp.float32)
# +            product = jnp.dot(xs[i], ys[0], preferred_element_type=jnp.float32)


# %% answer="07.10" name="multiplies the first piece of x again" judge="numbers" says="the first block of 512 along axis 1 of x is used in place of every other block"
# -            return jnp.dot(xs[0, :, at], ys[0, at], preferred_element_type=jnp.float32)
# +            return jnp.dot(xs[0, :, pl.ds(0, bk)], ys[0, at], preferred_element_type=jnp.float32)
