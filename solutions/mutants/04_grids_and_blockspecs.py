# Wrong answers to the exercises of lesson 4: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.

# %% answer="04.1" name="counts the blocks from 1" judge="numbers" says="block .8, 0., but the array has 8 x 1 blocks.*(?s:.)*counted from 0"
def configure(rows, columns):
    return (rows // 8,), (8, columns), lambda i: (rows // 8 - i, 0), lambda i: (i, 0)


# %% answer="04.1" name="returns element numbers" judge="numbers" says="asks for block .56, 0.*(?s:.)*not element indices"
def configure(rows, columns):
    return (rows // 8,), (8, columns), lambda i: (rows - 8 - 8 * i, 0), lambda i: (i, 0)


# %% answer="04.1" name="turns single rows round" judge="exercise" says="a block of .1, 256. has 1 row. Eight rows stay together"
def configure(rows, columns):
    def x_map(i):
        return 8 * (rows // 8 - 1 - i // 8) + i % 8, 0

    return (rows,), (1, columns), x_map, lambda i: (i, 0)


# %% answer="04.1" name="counts the output from the end" judge="simulator" says="the index map of o_ref asks for block .-1, 0.*(?s:.)*the last of n"
def configure(rows, columns):
    return (rows // 8,), (8, columns), lambda i: (i, 0), lambda i: (-1 - i, 0)


# %% answer="04.1" name="forgets a map" judge="exercise" says="returned a tuple of 3. It should return 4 items: grid, block, x_map, o_map"
def configure(rows, columns):
    return (rows // 8,), (8, columns), lambda i: (rows // 8 - 1 - i, 0)


# %% answer="04.1" name="stops before the last block" judge="numbers" says="No grid step writes output block .7, 0."
def configure(rows, columns):
    last = rows // 8 - 1
    return (max(last, 1),), (8, columns), lambda i: (last - i, 0), lambda i: (i, 0)


# %% answer="04.2" name="does not transpose" judge="numbers" says="At step .3, 0. the index map of x_ref asks for block .3, 0., but the array has 3 x 4 blocks"
def index_maps():
    return lambda i, j: (i, j), lambda i, j: (0, j), lambda i, j: (i, j)


# %% answer="04.2" name="takes the row by the output's rows" judge="numbers" says="index map of r_ref asks for block .0, 3., but the array has 1 x 3 blocks"
def index_maps():
    return lambda i, j: (j, i), lambda i, j: (0, i), lambda i, j: (i, j)


# %% answer="04.2" name="gives the row the output's index" judge="simulator" says="At step .1, 0. the index map of r_ref asks for block .1, 0."
def index_maps():
    return lambda i, j: (j, i), lambda i, j: (i, j), lambda i, j: (i, j)


# %% answer="04.2" name="transposes the output too" judge="numbers" says="At step .3, 0. the index map of o_ref asks for block .0, 3."
def index_maps():
    return lambda i, j: (j, i), lambda i, j: (0, j), lambda i, j: (j, i)


# %% answer="04.2" name="one number for the row" judge="numbers" says="must return one block index for each axis of the block .1, 128., 2 in total, but it returned 1"
def index_maps():
    return lambda i, j: (j, i), lambda i, j: j, lambda i, j: (i, j)


# %% answer="04.2" name="adds the first part of the row everywhere" judge="numbers" says="r_ref holds block .0, 0., but the result needs block .0, 1."
def index_maps():
    return lambda i, j: (j, i), lambda i, j: (0, 0), lambda i, j: (i, j)


# %% answer="04.3" name="hands the table back" judge="exercise" says="No TPU accepts these blocks. a: .*b: .*c: .14, 128. has 14.*d: .*e: .1000,. has 1000 on the only axis"
def legal_blocks():
    return {"a": (8, 100), "b": (4, 128), "c": (14, 128), "d": (8, None, 256), "e": (1000,)}


# %% answer="04.3" name="halves the register of bfloat16" judge="exercise" says="c: .8, 128. is legal.*a legal size nearer to 14 than 8"
def legal_blocks():
    return {"a": (8, 128), "b": (6, 128), "c": (8, 128), "d": (8, 4, 256), "e": (1024,)}


# %% answer="04.3" name="turns None into 1" judge="exercise" says="d: .8, 1, 256. has 1 on the axis before the last, whose length is 4"
def legal_blocks():
    return {"a": (8, 128), "b": (6, 128), "c": (16, 128), "d": (8, 1, 256), "e": (1024,)}


# %% answer="04.3" name="rounds four rows up to eight" judge="exercise" says="b: .8, 128. is legal.*a legal size nearer to 4 than 8"
def legal_blocks():
    return {"a": (8, 128), "b": (8, 128), "c": (16, 128), "d": (8, 4, 256), "e": (1024,)}


# %% answer="04.3" name="takes whole arrays" judge="exercise" says="a: you changed 2 sizes, from .8, 100. to .64, 512.. One change is enough"
def legal_blocks():
    return {"a": (64, 512), "b": (6, 256), "c": (64, 256), "d": (16, 4, 256), "e": (4096,)}


# %% answer="04.3" name="leaves one out" judge="exercise" says="has no block for e. It should return a dict with the keys a, b, c, d, e"
def legal_blocks():
    return {"a": (8, 128), "b": (6, 128), "c": (16, 128), "d": (8, 4, 256)}


# %% answer="04.4" name="copies everything at every step" judge="exercise" says="a copy of every block at every step.*stays the same"
moved = {"bij": "10,813,440 bytes", "jbi": None, "bji": None}


# %% answer="04.4" name="forgets the output" judge="exercise" says="jbi: it is not.*(?s:.)*Where does the output go"
moved = {"bij": "8,454,144 bytes", "jbi": "3,440,640 bytes", "bji": None}


# %% answer="04.4" name="counts copies" judge="exercise" says="the number of blocks that are copied. How many bytes does each"
moved = {"bij": "132 bytes", "jbi": "125 bytes", "bji": "135 bytes"}


# %% answer="04.4" name="copies every block once" judge="exercise" says="every block once. A block that is left and needed again is copied again"
moved = {"bij": "8,454,144 bytes", "jbi": "5,406,720 bytes", "bji": "3,047,424 bytes"}


# %% answer="04.4" name="copies the blocks of x once" judge="exercise" says="every block of x once, which is 12 copies.*Is a block of x left"
moved = {"bij": "8,454,144 bytes", "jbi": "5,406,720 bytes", "bji": "4,030,464 bytes"}


# %% answer="04.4" name="takes another order" judge="exercise" says="the number of another order. In .bij., j runs fastest. Which of x and w"
moved = {"bij": "5,406,720 bytes", "jbi": "8,454,144 bytes", "bji": "6,389,760 bytes"}


# %% answer="04.5" name="leaves it as it is" judge="budget" says="w_ref is fetched 80 times: 10 MiB, 8 times the whole array"
def order(down, across):
    return (down, across), lambda i, j: (i, 0), lambda i, j: (0, j), lambda i, j: (i, j)


# %% answer="04.5" name="turns the grid, not the letters" judge="numbers" says="No grid step writes output block .0, 8.*(?s:.)*At step .8, 0. the index map of x_ref asks for block .8, 0."
def order(down, across):
    return (across, down), lambda i, j: (i, 0), lambda i, j: (0, j), lambda i, j: (i, j)


# %% answer="04.5" name="turns the letters, not the grid" judge="numbers" says="No grid step writes output block .0, 8.*(?s:.)*At step .0, 8. the index map of x_ref asks for block .8, 0."
def order(down, across):
    return (down, across), lambda j, i: (i, 0), lambda j, i: (0, j), lambda j, i: (i, j)


# %% answer="04.5" name="forgets the output's letters" judge="numbers" says="At step .8, 0. the index map of o_ref asks for block .8, 0., but the array has 8 x 10 blocks"
def order(down, across):
    return (across, down), lambda j, i: (i, 0), lambda j, i: (0, j), lambda i, j: (i, j)


# %% answer="04.5" name="keeps one strip of w for all" judge="numbers" says="w_ref holds block .0, 0., but the result needs block .0, 1."
def order(down, across):
    return (down, across), lambda i, j: (i, 0), lambda i, j: (0, 0), lambda i, j: (i, j)


# %% answer="04.6" name="the collection's own map" judge="numbers" says="At step .0, 0, 1. the index map of x_ref asks for block .0, 0, 8., but the array has 2 x 3 x 2 blocks"
def block_of_step(i, j, k):
    return (8 * i, 8 * j, 8 * k)


# %% answer="04.6" name="elements, with the right sizes" judge="numbers" says="asks for block .0, 0, 128.*(?s:.)*not element indices"
def block_of_step(i, j, k):
    return (2 * i, 8 * j, 128 * k)


# %% answer="04.6" name="divides" judge="numbers" says="index map of o_ref returns block .0, 0, 0. at every step"
def block_of_step(i, j, k):
    return (i // 2, j // 8, k // 128)


# %% answer="04.6" name="turns the axes round" judge="numbers" says="index map of x_ref asks for block .1, 0, 0., but the array has 1 x 1 x 3 blocks.*(?s:.)*x_ref's map returns k first"
def block_of_step(i, j, k):
    return (k, j, i)


# %% answer="04.6" name="leaves the last axis out" judge="numbers" says="must return one block index for each axis of the block .2, 8, 128., 3 in total, but it returned 2"
def block_of_step(i, j, k):
    return (i, j)


# %% answer="04.7" name="as it was" judge="simulator" says="left VMEM after step .0, 0.*came back to it at step .1, 0.*(?s:.)*put axis 0 last"
def fold(x):
    return fold_broken(x)


# %% answer="04.7" name="turns the grid and leaves program_id" judge="numbers" says="Every step starts over, so only what step .0, 3. computes remains(?s:.)*the condition of pl.when"
def fold(x):
    return pl.pallas_call(
        fold_broken_kernel,
        out_shape=jax.ShapeDtypeStruct((8, x.shape[1]), x.dtype),
        grid=(pl.cdiv(x.shape[1], 128), x.shape[0] // 8),
        in_specs=[pl.BlockSpec((8, 128), lambda j, k: (k, j))],
        out_specs=pl.BlockSpec((8, 128), lambda j, k: (0, j)),
    )(x)


# %% answer="04.7" name="turns the grid, not the letters" judge="numbers" says="At step .0, 3. the index map of x_ref asks for block .0, 3., but the array has 4 x 3 blocks"
# -        in_specs=[pl.BlockSpec((8, 128), lambda j, k: (k, j))],
# -        out_specs=pl.BlockSpec((8, 128), lambda j, k: (0, j)),
# +        in_specs=[pl.BlockSpec((8, 128), lambda k, j: (k, j))],
# +        out_specs=pl.BlockSpec((8, 128), lambda k, j: (0, j)),


# %% answer="04.7" name="types the lesson's fold over" judge="numbers" says="The output has shape .32, 128.; it should be .8, 384."
# -        out_shape=jax.ShapeDtypeStruct((8, x.shape[1]), x.dtype),
# -        grid=(pl.cdiv(x.shape[1], 128), x.shape[0] // 8),
# -        in_specs=[pl.BlockSpec((8, 128), lambda j, k: (k, j))],
# -        out_specs=pl.BlockSpec((8, 128), lambda j, k: (0, j)),
# +        out_shape=jax.ShapeDtypeStruct((x.shape[0], 128), x.dtype),
# +        grid=(x.shape[0] // 8, pl.cdiv(x.shape[1], 128)),
# +        in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k))],
# +        out_specs=pl.BlockSpec((8, 128), lambda i, k: (i, 0)),


# %% answer="04.7" name="shares the reduction between cores" judge="simulator" says="Axis 1 of the grid is marked .parallel.*steps .0, 0. and .0, 1. both write block"
#      """Return the sum of the K blocks in each column of blocks: x[8 K, N] -> [8, N]."""
# +    from jax.experimental.pallas import tpu as pltpu

#          out_specs=pl.BlockSpec((8, 128), lambda j, k: (0, j)),
# +        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),


# %% answer="04.7" name="takes all rows at once" judge="exercise" says="blocks of x_ref are .32, 128.. They should be those of fold_broken"
def fold(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = sum(x_ref[k : k + 8] for k in range(0, x_ref.shape[0], 8))

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, x.shape[1]), x.dtype),
        grid=(pl.cdiv(x.shape[1], 128),),
        in_specs=[pl.BlockSpec((x.shape[0], 128), lambda j: (0, j))],
        out_specs=pl.BlockSpec((8, 128), lambda j: (0, j)),
    )(x)


# %% answer="04.8" name="no mask" judge="numbers" says="At step .0, 2. the block of x_ref reaches past the end.*axis 1 has 300 elements.*(?s:.)*jnp.where"
def row_sum_kernel(x_ref, o_ref, *, columns):
    @pl.when(pl.program_id(1) == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.sum(x_ref[...], axis=1, keepdims=True)


# %% answer="04.8" name="masks by multiplying" judge="numbers" says="Multiplying by 0 does not help, because NaN . 0 is NaN. That is what this kernel does"
# -    column = 128 * pl.program_id(1) + lane
# -    inside = jnp.where(column < columns, x_ref[...], 0)
# +    inside = x_ref[...] * (128 * pl.program_id(1) + lane < columns)


# %% answer="04.8" name="skips NaN, whatever else is there" judge="simulator" says="With 1234.5 there instead"
def row_sum_kernel(x_ref, o_ref, *, columns):
    @pl.when(pl.program_id(1) == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.nansum(x_ref[...], axis=1, keepdims=True)


# %% answer="04.8" name="one column too many" judge="numbers" says="mask of .* lets .* columns of that block through(?s:.)*check for a <= that should be <"
# -    column = 128 * pl.program_id(1) + lane
# -    inside = jnp.where(column < columns, x_ref[...], 0)
# +    inside = jnp.where(128 * pl.program_id(1) + lane <= columns, x_ref[...], 0)


# %% answer="04.8" name="cuts a slice" judge="numbers" says="takes a slice .a:b. with an end that is known only when it runs"
def row_sum_kernel(x_ref, o_ref, *, columns):
    @pl.when(pl.program_id(1) == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    left = jnp.minimum(128, columns - 128 * pl.program_id(1))
    o_ref[...] += jnp.sum(x_ref[:, :left], axis=1, keepdims=True)


# %% answer="04.8" name="takes the other axis of the grid" judge="numbers" says="only what step .0, 2. computes remains(?s:.)*the condition of pl.when"
# -    @pl.when(pl.program_id(1) == 0)
# +    @pl.when(pl.program_id(0) == 0)

# -    column = 128 * pl.program_id(1) + lane
# -    inside = jnp.where(column < columns, x_ref[...], 0)
# +    inside = jnp.where(128 * pl.program_id(1) + lane < columns, x_ref[...], 0)


# %% answer="04.9" name="blames the maximum" judge="exercise" says="rows of their own"
line = 2


# %% answer="04.9" name="blames the block of x" judge="exercise" says="A last block that extends past the end does no harm"
line = "    x_block = pl.BlockSpec((8, columns), lambda i: (i, 0))"


# %% answer="04.9" name="blames the output's block" judge="exercise" says="Output block i belongs to block i"
line = 8


# %% answer="04.10" name="too short" judge="exercise" says="5 different words; at least 12 are needed"
why = "To be right, and to be fast."


# %% answer="04.10" name="does not judge itself" judge="exercise" says="A good answer mentions"
why = """To be right: all steps that visit one output block must be consecutive, so the reduction
goes last. To be fast: a block whose index stays the same is not copied again."""


# %% answer="04.10" name="judges itself wrong" judge="exercise" says="you said .no."
why = """To be right: the reduction goes first. To be fast: it does not matter which order the
axes have, since every block has to be copied at every step anyway, in any order of them."""
checks.assess("04.10", "no")


# %% answer="04.11" name="no mask along K" judge="numbers" says="reaches past the end.*axis 1 has 300 elements"
def matmul(x, w):
    (m, k), n = x.shape, w.shape[1]

    def kernel(x_ref, w_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        x, w = x_ref[...], w_ref[...]
        acc_ref[...] += jnp.dot(x, w, preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, 32), pl.cdiv(n, 128), pl.cdiv(k, 128)),
        in_specs=[
            pl.BlockSpec((32, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)],
    )(x, w)


# %% answer="04.11" name="masks x alone" judge="numbers" says="reaches past the end(?s:.)*masks x_ref but not w_ref"
def matmul(x, w):
    (m, k), n = x.shape, w.shape[1]

    def kernel(x_ref, w_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        column = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        x, w = jnp.where(column < k - 128 * pl.program_id(2), x_ref[...], 0), w_ref[...]
        acc_ref[...] += jnp.dot(x, w, preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, 32), pl.cdiv(n, 128), pl.cdiv(k, 128)),
        in_specs=[
            pl.BlockSpec((32, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)],
    )(x, w)


# %% answer="04.11" name="masks one block too many" judge="numbers" says="After step .0, 0,\\s+1. acc_ref.*should be .* the sum of the\\s+products so far"
def matmul(x, w):
    (m, k), n = x.shape, w.shape[1]

    def kernel(x_ref, w_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        column = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        row = jax.lax.broadcasted_iota(jnp.int32, w_ref.shape, 0)
        left = k - 128 * (pl.program_id(2) + 1)
        x = jnp.where(column < left, x_ref[...], 0)
        w = jnp.where(row < left, w_ref[...], 0)
        acc_ref[...] += jnp.dot(x, w, preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, 32), pl.cdiv(n, 128), pl.cdiv(k, 128)),
        in_specs=[
            pl.BlockSpec((32, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)],
    )(x, w)


# %% answer="04.11" name="collects the sum in the output" judge="numbers" says="bfloat16"
def matmul(x, w):
    (m, k), n = x.shape, w.shape[1]

    def kernel(x_ref, w_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        left = k - 128 * pl.program_id(2)
        x = jnp.where(
            jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1) < left, x_ref[...], 0
        )
        w = jnp.where(
            jax.lax.broadcasted_iota(jnp.int32, w_ref.shape, 0) < left, w_ref[...], 0
        )
        o_ref[...] += jnp.dot(x, w, preferred_element_type=jnp.float32).astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, 32), pl.cdiv(n, 128), pl.cdiv(k, 128)),
        in_specs=[
            pl.BlockSpec((32, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 128), lambda i, j, k: (i, j)),
    )(x, w)


# %% answer="04.11" name="leaves K whole" judge="exercise" says="For x.8, 65,536. @ w.65,536, 8. the kernel needs .* of VMEM(?s:.)*cut the long axis"
def matmul(x, w):
    (m, k), n = x.shape, w.shape[1]

    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.dot(
            x_ref[...], w_ref[...], preferred_element_type=jnp.float32
        ).astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, 32), pl.cdiv(n, 128)),
        in_specs=[
            pl.BlockSpec((32, k), lambda i, j: (i, 0)),
            pl.BlockSpec((k, 128), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((32, 128), lambda i, j: (i, j)),
    )(x, w)


# %% answer="04.11" name="puts K first" judge="numbers" says="acc_ref"
def matmul(x, w):
    (m, k), n = x.shape, w.shape[1]

    def kernel(x_ref, w_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        left = k - 128 * pl.program_id(0)
        x = jnp.where(
            jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1) < left, x_ref[...], 0
        )
        w = jnp.where(
            jax.lax.broadcasted_iota(jnp.int32, w_ref.shape, 0) < left, w_ref[...], 0
        )
        acc_ref[...] += jnp.dot(x, w, preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(k, 128), pl.cdiv(m, 32), pl.cdiv(n, 128)),
        in_specs=[
            pl.BlockSpec((32, 128), lambda k, i, j: (i, k)),
            pl.BlockSpec((128, 128), lambda k, i, j: (k, j)),
        ],
        out_specs=pl.BlockSpec((32, 128), lambda k, i, j: (i, j)),
        scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)],
    )(x, w)


# %% answer="04.11" name="adds up a part of a long K" judge="numbers" says="at the size that counts too, .8, 65536., .65536, 8."
# -        grid=(pl.cdiv(m, 32), pl.cdiv(n, 128), pl.cdiv(k, 128)),
# +        grid=(pl.cdiv(m, 32), pl.cdiv(n, 128), min(pl.cdiv(k, 128), 16)),


# %% answer="04.11" name="the mask counts along another axis of the grid" judge="numbers" says="the block moves with axis 2 of the grid, but the mask uses axis 1"
# -    left = depth - 128 * pl.program_id(2)  # how much of K is left from this step on
# +    left = depth - 128 * pl.program_id(1)  # how much of K is left from this step on


# %% answer="04.11" name="the mask counts blocks of 32" judge="numbers" says="mask of .* lets all 128 columns of that block through"
# -    left = depth - 128 * pl.program_id(2)  # how much of K is left from this step on
# +    left = depth - 32 * pl.program_id(2)  # how much of K is left from this step on


# %% answer="04.12" name="row by row" judge="exercise" says="above par.*(?s:.)*moves 2,752,512 bytes(?s:.)*par is 2,621,440"
def product(x, w):
    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    down, across = x.shape[0] // 128, w.shape[1] // 128
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), x.dtype),
        grid=(down, across),
        in_specs=[
            pl.BlockSpec((128, x.shape[1]), lambda i, j: (i, 0)),
            pl.BlockSpec((w.shape[0], 128), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)),
    )(x, w)


# %% answer="04.12" name="turns x, and not the output" judge="numbers" says="should be"
def product(x, w):
    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    down, across = x.shape[0] // 64, w.shape[1] // 256
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), x.dtype),
        grid=(across, down),
        in_specs=[
            pl.BlockSpec(
                (64, x.shape[1]), lambda j, i: (jnp.where(j % 2 == 0, i, down - 1 - i), 0)
            ),
            pl.BlockSpec((w.shape[0], 256), lambda j, i: (0, j)),
        ],
        out_specs=pl.BlockSpec((64, 256), lambda j, i: (i, j)),
    )(x, w)


# %% answer="04.12" name="takes larger blocks" judge="budget" says="It needs 640 KiB of VMEM; the budget is 448 KiB"
def product(x, w):
    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    down, across = x.shape[0] // 128, w.shape[1] // 256
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), x.dtype),
        grid=(down, across),
        in_specs=[
            pl.BlockSpec((128, x.shape[1]), lambda i, j: (i, 0)),
            pl.BlockSpec((w.shape[0], 256), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((128, 256), lambda i, j: (i, j)),
    )(x, w)


# %% answer="04.12" name="cuts a row of lanes in two" judge="compiler" says="The block .128, 64. of w_ref is not legal"
def product(x, w):
    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    down, across = x.shape[0] // 128, w.shape[1] // 64
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), x.dtype),
        grid=(down, across),
        in_specs=[
            pl.BlockSpec((128, x.shape[1]), lambda i, j: (i, 0)),
            pl.BlockSpec((w.shape[0], 64), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((128, 64), lambda i, j: (i, j)),
    )(x, w)
