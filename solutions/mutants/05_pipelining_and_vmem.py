# Wrong answers to the exercises of lesson 5: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.

# %% answer="05.1" name="does not wait for what comes in" judge="simulator" says="reads buffer_ref.*before it has waited for the copy of x_hbm into it"
# -    arriving = pltpu.make_async_copy(x_hbm, buffer_ref, sem.at[0])
# -    arriving.start()
# -    arriving.wait()
# +    pltpu.make_async_copy(x_hbm, buffer_ref, sem.at[0]).start()


# %% answer="05.1" name="does not wait for what goes out" judge="simulator" says="copy of buffer_ref into o_hbm is never waited for"
# -    leaving = pltpu.make_async_copy(buffer_ref, o_hbm, sem.at[1])
# -    leaving.start()
# -    leaving.wait()
# +    pltpu.make_async_copy(buffer_ref, o_hbm, sem.at[1]).start()


# %% answer="05.1" name="waits on the other semaphore" judge="simulator" says="waits on sem.1. for a copy into buffer_ref.*signals sem.0."
# -    arriving = pltpu.make_async_copy(x_hbm, buffer_ref, sem.at[0])
# -    arriving.start()
# -    arriving.wait()
# +    pltpu.make_async_copy(x_hbm, buffer_ref, sem.at[0]).start()
# +    pltpu.make_async_copy(x_hbm, buffer_ref, sem.at[1]).wait()


# %% answer="05.1" name="reads HBM" judge="simulator" says="left in HBM"
def squares_kernel(x_hbm, o_hbm, buffer_ref, sem):
    buffer_ref[...] = x_hbm[...] * x_hbm[...]
    leaving = pltpu.make_async_copy(buffer_ref, o_hbm, sem.at[1])
    leaving.start()
    leaving.wait()


# %% answer="05.1" name="takes semaphores 1 and 2 of two" judge="simulator" says="starts a copy on sem.2., but sem has 2, counted from 0"
# -    arriving = pltpu.make_async_copy(x_hbm, buffer_ref, sem.at[0])
# +    arriving = pltpu.make_async_copy(x_hbm, buffer_ref, sem.at[1])

# -    leaving = pltpu.make_async_copy(buffer_ref, o_hbm, sem.at[1])
# +    leaving = pltpu.make_async_copy(buffer_ref, o_hbm, sem.at[2])


# %% answer="05.1" name="calls neither start nor wait" judge="numbers" says="buffer_ref is read before anything has been written.*(?s:.)*x_hbm is in HBM and no copy of it is started"
# -    arriving.start()
# -    arriving.wait()
# +    arriving.start
# +    arriving.wait


# %% answer="05.1" name="doubles" judge="numbers" says="elements\\s+are\\s+doubled"
# -    buffer_ref[...] = buffer_ref[...] * buffer_ref[...]
# +    buffer_ref[...] = 2 * buffer_ref[...]


# %% answer="05.2" name="one after another" judge="exercise" says="(?s)At wait 0, counted from 0,\\s+one\\s+copy\\s+is.*and\\s+2\\s+should be"
def folded_kernel(x_hbm, o_ref, in_ref, in_sem, *, chunks):
    o_ref[...] = jnp.zeros_like(o_ref)

    @pl.loop(0, chunks)
    def turn(i):
        copy = pltpu.make_async_copy(
            x_hbm.at[pl.ds(16 * i, 16)], in_ref.at[0], in_sem.at[0]
        )
        copy.start()
        copy.wait()
        o_ref[...] += in_ref[0]


# %% answer="05.2" name="starts the next after the wait" judge="exercise" says="At wait 0, counted from 0,\\s+one\\s+copy\\s+is"
#      def turn(i):
# +        fetch(i).wait()

# -        fetch(i).wait()


# %% answer="05.2" name="forgets that the last chunk has no next one" judge="simulator" says="x_hbm.64:80., but x_hbm has 64.*(?s:.)*last iteration"
# -        @pl.when(i + 1 < chunks)
# -        def ahead():
# -            fetch(i + 1).start()
# +        fetch(i + 1).start()


# %% answer="05.2" name="both chunks in one buffer" judge="numbers" says="starts a copy into in_ref.0. while another copy into it is under way"
# -        b = jax.lax.rem(i, 2)
# -        return pltpu.make_async_copy(
# -            x_hbm.at[pl.ds(16 * i, 16)], in_ref.at[b], in_sem.at[b]
# -        )
# +        rows = x_hbm.at[pl.ds(16 * i, 16)]
# +        return pltpu.make_async_copy(rows, in_ref.at[0], in_sem.at[jax.lax.rem(i, 2)])

# -        o_ref[...] += in_ref[jax.lax.rem(i, 2)]
# +        o_ref[...] += in_ref[0]


# %% answer="05.2" name="waits for the next one" judge="simulator" says="in_ref.0. before it has waited for the copy of x_hbm into it"
#              fetch(i + 1).start()
# +            fetch(i + 1).wait()

# -        fetch(i).wait()


# %% answer="05.2" name="does not zero" judge="numbers" says="o_ref is read before anything has been written"
# -    o_ref[...] = jnp.zeros_like(o_ref)


# %% answer="05.3" name="two buffers" judge="exercise" says="(?s)2\\s+copies\\s+are\\s+on the way in.*and\\s+3\\s+should\\s+be"
# -        in_specs=[
# -            pl.BlockSpec((16, columns), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))
# -        ],
# +        in_specs=[pl.BlockSpec((16, columns), lambda i: (i, 0))],


# %% answer="05.3" name="makes the pipeline and does not run it" judge="numbers" says="writes nothing to o_hbm.*(?s:.)*emit_pipeline returns a function"
# -    )(x_hbm, o_hbm)
# +    )


# %% answer="05.3" name="numbers of rows in the index map" judge="numbers" says="index map of x_hbm asks for block .16, 0."
# -            pl.BlockSpec((16, columns), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))
# +            pl.BlockSpec((16, columns), lambda i: (16 * i, 0), pipeline_mode=pl.Buffered(3))


# %% answer="05.3" name="a number for pipeline_mode" judge="numbers" says="pipeline_mode is a plain number.*(?s:.)*pl.Buffered.3."
# -        in_specs=[
# -            pl.BlockSpec((16, columns), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))
# -        ],
# +        in_specs=[pl.BlockSpec((16, columns), lambda i: (i, 0), pipeline_mode=3)],


# %% answer="05.3" name="calls it with x only" judge="numbers" says="differs from the number of refs that its function was given"
# -    )(x_hbm, o_hbm)
# +    )(x_hbm)


# %% answer="05.4" name="every block once" judge="exercise" says="A: .*(?s:.)*a\\s+block\\s+that\\s+moves\\s+has\\s+two\\s+buffers"
vmem = {"A": "2.25 MiB", "B": "2.25 MiB", "C": "2.375 MiB", "D": 2048}

# %% answer="05.4" name="two buffers for x only" judge="exercise" says="A: .*(?s:.)*One of the strips has a single buffer"
vmem = {"A": "3.5 MiB", "B": "3.5 MiB", "C": "4.625 MiB", "D": 2048}

# %% answer="05.4" name="w keeps two buffers" judge="exercise" says="B: .*(?s:.)*Does the block of w still move"
vmem = {"A": "4.5 MiB", "B": "4.5 MiB", "C": "4.625 MiB", "D": 2048}

# %% answer="05.4" name="scratch without its lanes" judge="exercise" says="C: .*(?s:.)*rows\\s+of\\s+128\\s+lanes"
vmem = {"A": "4.5 MiB", "B": "3.5 MiB", "C": "4609 KiB", "D": 2048}

# %% answer="05.4" name="forgets the output" judge="exercise" says="D: .*(?s:.)*the output needs room too"
vmem = {"A": "4.5 MiB", "B": "3.5 MiB", "C": "4.625 MiB", "D": 4096}


# %% answer="05.5" name="eight rows" judge="exercise" says="(?s)For 2048 x 512 block_rows returned 8, which makes blocks of 16 KiB.*times\\s+as\\s+long\\s+as\\s+its\\s+bytes"
def block_rows(rows, columns):
    return 8


# %% answer="05.5" name="one number for all" judge="exercise" says="(?s)For 2048 x 512 block_rows returned 32.*the\\s+size\\s+of\\s+a\\s+block\\s+that\\s+counts"
def block_rows(rows, columns):
    return min(rows, 32)


# %% answer="05.5" name="as many as fit the narrow one" judge="exercise" says="Their\\s+six\\s+buffers\\s+take\\s+.*\\s+MiB"
def block_rows(rows, columns):
    return min(rows, 1024)


# %% answer="05.5" name="does not divide" judge="exercise" says="which does not divide the 64 rows"
def block_rows(rows, columns):
    return min(rows, 48)


# %% answer="05.5" name="blocks of 128 KiB" judge="exercise" says="returned 4, but a block needs at least 8 rows, which take 256\\s+KiB"
def block_rows(rows, columns):
    return min(rows, 2**17 // (4 * columns))


# %% answer="05.5" name="a fraction" judge="exercise" says="it\\s+should\\s+return\\s+a\\s+whole\\s+number"
def block_rows(rows, columns):
    return min(rows, 2**19 / (4 * columns))


# %% answer="05.6" name="one under way everywhere" judge="exercise" says="A: .*(?s:.)*How\\s+many\\s+are\\s+in\\s+flight\\s+when\\s+it\\s+waits"
turns = {
    "A": "1575 cycles",
    "B": "1575 cycles",
    "C": "1575 cycles",
    "D": "1575 cycles",
    "E": "2775 cycles",
}

# %% answer="05.6" name="the work apart from the round" judge="exercise" says="A: .*(?s:.)*part\\s+of\\s+the\\s+round\\s+that\\s+two\\s+iterations\\s+share"
turns = {
    "A": "938 cycles",
    "B": "1575 cycles",
    "C": "619 cycles",
    "D": "425 cycles",
    "E": "1500 cycles",
}

# %% answer="05.6" name="half a copy on top of the long work" judge="exercise" says="E: .*(?s:.)*Is\\s+a\\s+copy\\s+that\\s+started\\s+an\\s+iteration\\s+ago"
turns = {
    "A": "788 cycles",
    "B": "1575 cycles",
    "C": "394 cycles",
    "D": "425 cycles",
    "E": "2138 cycles",
}

# %% answer="05.6" name="forgets that nothing overlaps in B" judge="exercise" says="B: .*(?s:.)*while\\s+the\\s+core\\s+works"
turns = {
    "A": "788 cycles",
    "B": "788 cycles",
    "C": "394 cycles",
    "D": "425 cycles",
    "E": "1500 cycles",
}

# %% answer="05.6" name="D is C" judge="exercise" says="D: .*(?s:.)*How\\s+many\\s+copies\\s+have\\s+been\\s+started"
turns = {
    "A": "788 cycles",
    "B": "1575 cycles",
    "C": "394 cycles",
    "D": "394 cycles",
    "E": "1500 cycles",
}

# %% answer="05.6" name="halves the long work" judge="exercise" says="E: .*(?s:.)*less than the core is busy in an iteration"
turns = {
    "A": "788 cycles",
    "B": "1575 cycles",
    "C": "394 cycles",
    "D": "425 cycles",
    "E": "1388 cycles",
}


# %% answer="05.7" name="hands it back" judge="simulator" says="writes to out_ref.*while a copy of it into o_hbm is under way|is never waited for"
def tripled(x):
    return tripled_broken(x)


# %% answer="05.7" name="waits at the end, still one buffer" judge="simulator" says="writes to out_ref.*while a copy of it into o_hbm is under way"
def tripled(x):
    def kernel(x_ref, o_hbm, out_ref, out_sem):
        i = pl.program_id(0)

        def send(n):
            return pltpu.make_async_copy(out_ref, o_hbm.at[pl.ds(16 * n, 16)], out_sem)

        out_ref[...] = 3 * x_ref[...]

        @pl.when(i >= 1)
        def before():
            send(i - 1).wait()

        send(i).start()

        @pl.when(i == pl.num_programs(0) - 1)
        def all_home():
            send(i).wait()

    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(x.shape[0] // 16,),
        in_specs=[pl.BlockSpec((16, x.shape[1]), lambda i: (i, 0))],
        out_specs=ANYWHERE,
        scratch_shapes=[pltpu.VMEM((16, x.shape[1]), x.dtype), pltpu.SemaphoreType.DMA],
    )(x)


# %% answer="05.7" name="two buffers, the last two never waited for" judge="simulator" says="copy of out_ref into o_hbm.* is never waited for"
def tripled(x):
    def kernel(x_ref, o_hbm, out_ref, out_sem):
        i = pl.program_id(0)

        def send(n):
            b = jax.lax.rem(n, 2)
            return pltpu.make_async_copy(
                out_ref.at[b], o_hbm.at[pl.ds(16 * n, 16)], out_sem.at[b]
            )

        @pl.when(i >= 2)
        def free_the_buffer():
            send(i - 2).wait()

        out_ref[jax.lax.rem(i, 2)] = 3 * x_ref[...]
        send(i).start()

    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(x.shape[0] // 16,),
        in_specs=[pl.BlockSpec((16, x.shape[1]), lambda i: (i, 0))],
        out_specs=ANYWHERE,
        scratch_shapes=[
            pltpu.VMEM((2, 16, x.shape[1]), x.dtype),
            pltpu.SemaphoreType.DMA((2,)),
        ],
    )(x)


# %% answer="05.7" name="waits at once" judge="exercise" says="no\\s+write-back\\s+is\\s+in\\s+flight"
def tripled(x):
    def kernel(x_ref, o_hbm, out_ref, out_sem):
        i = pl.program_id(0)
        out_ref[...] = 3 * x_ref[...]
        home = pltpu.make_async_copy(out_ref, o_hbm.at[pl.ds(16 * i, 16)], out_sem)
        home.start()
        home.wait()

    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(x.shape[0] // 16,),
        in_specs=[pl.BlockSpec((16, x.shape[1]), lambda i: (i, 0))],
        out_specs=ANYWHERE,
        scratch_shapes=[pltpu.VMEM((16, x.shape[1]), x.dtype), pltpu.SemaphoreType.DMA],
    )(x)


# %% answer="05.7" name="waits for two in a grid of one step" judge="simulator" says="waits on out_sem.-1. .*semaphores are counted from 0.*(?s:.)*no earlier step has started a copy"
# -        @pl.when((i == last) & (i >= 1))
# -        def last_but_one():
# -            send(i - 1).wait()

#          def all_home():
# +            send(i - 1).wait()


# %% answer="05.7" name="leaves it to pallas_call" judge="exercise" says="The\\s+kernel\\s+starts\\s+no\\s+copy\\s+of\\s+a\\s+buffer\\s+into\\s+HBM"
def tripled(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = 3 * x_ref[...]

    block = pl.BlockSpec((16, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(x.shape[0] // 16,), in_specs=[block], out_specs=block
    )(x)


# %% answer="05.8" name="blames the wait in the loop" judge="exercise" says="Which\\s+blocks\\s+has\\s+the\\s+loop\\s+waited\\s+for\\s+when\\s+it\\s+ends"
line = 17

# %% answer="05.8" name="blames the write" judge="exercise" says="The\\s+block\\s+that\\s+was\\s+there\\s+before"
line = 12

# %% answer="05.8" name="blames the buffers" judge="exercise" says="Block i goes into buffer i mod 2"
line = "b = jax.lax.rem(i, 2)"


# %% answer="05.9" name="one row at a time" judge="exercise" says="(?s)one\\s+copy\\s+is\\s+on the way in.*and\\s+4\\s+should\\s+be"
def gathered(x, ids):
    def kernel(ids_ref, x_hbm, o_hbm, row_ref, sem):
        @pl.loop(0, ids.shape[0])
        def turn(j):
            pltpu.sync_copy(x_hbm.at[pl.ds(ids_ref[j], 1)], row_ref)
            row_ref[...] = 2 * row_ref[...]
            pltpu.sync_copy(row_ref, o_hbm.at[pl.ds(j, 1)])

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((ids.shape[0], x.shape[1]), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ANYWHERE],
        out_specs=ANYWHERE,
        scratch_shapes=[pltpu.VMEM((1, x.shape[1]), x.dtype), pltpu.SemaphoreType.DMA],
    )(ids, x)


# %% answer="05.9" name="everything into VMEM" judge="exercise" says="For 256 rows of 256 elements it needs .* KiB of\\s+VMEM"
def gathered(x, ids):
    count = ids.shape[0]

    def kernel(ids_ref, x_hbm, o_ref, in_ref, sem):
        def fetch(j):
            return pltpu.make_async_copy(
                x_hbm.at[pl.ds(ids_ref[j], 1)], in_ref.at[j], sem.at[jax.lax.rem(j, 4)]
            )

        pl.loop(0, count)(lambda j: fetch(j).start())
        pl.loop(0, count)(lambda j: fetch(j).wait())
        o_ref[...] = 2 * in_ref[:, 0]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((count, x.shape[1]), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ANYWHERE],
        scratch_shapes=[
            pltpu.VMEM((count, 1, x.shape[1]), x.dtype),
            pltpu.SemaphoreType.DMA((4,)),
        ],
    )(ids, x)


# %% answer="05.9" name="needs as many rows as buffers" judge="simulator" says="waited for|never end|out of bounds|under way"
def gathered(x, ids):
    count, ring = ids.shape[0], 4

    def kernel(ids_ref, x_hbm, o_hbm, in_ref, out_ref, in_sem, out_sem):
        def fetch(j):
            b = jax.lax.rem(j, ring)
            return pltpu.make_async_copy(
                x_hbm.at[pl.ds(ids_ref[j], 1)], in_ref.at[b], in_sem.at[b]
            )

        def send(j):
            b = jax.lax.rem(j, ring)
            return pltpu.make_async_copy(
                out_ref.at[b], o_hbm.at[pl.ds(j, 1)], out_sem.at[b]
            )

        for j in range(ring - 1):
            fetch(j).start()

        @pl.loop(0, count)
        def turn(j):
            @pl.when(j + ring - 1 < count)
            def ahead():
                fetch(j + ring - 1).start()

            fetch(j).wait()
            b = jax.lax.rem(j, ring)
            out_ref[b] = 2 * in_ref[b]
            send(j).start()
            send(j).wait()

    row = (ring, 1, x.shape[1])
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((count, x.shape[1]), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ANYWHERE],
        out_specs=ANYWHERE,
        scratch_shapes=[
            pltpu.VMEM(row, x.dtype),
            pltpu.VMEM(row, x.dtype),
            pltpu.SemaphoreType.DMA((ring,)),
            pltpu.SemaphoreType.DMA((ring,)),
        ],
    )(ids, x)


# %% answer="05.9" name="writes a result that is on its way" judge="simulator" says="writes to out_ref.*while a copy of it into o_hbm is under way"
def gathered(x, ids):
    count, ring = ids.shape[0], 4

    def kernel(ids_ref, x_hbm, o_hbm, in_ref, out_ref, in_sem, out_sem):
        def fetch(j):
            b = jax.lax.rem(j, ring)
            return pltpu.make_async_copy(
                x_hbm.at[pl.ds(ids_ref[j], 1)], in_ref.at[b], in_sem.at[b]
            )

        def send(j):
            b = jax.lax.rem(j, ring)
            return pltpu.make_async_copy(
                out_ref.at[b], o_hbm.at[pl.ds(j, 1)], out_sem.at[b]
            )

        for j in range(min(ring - 1, count)):
            fetch(j).start()

        @pl.loop(0, count)
        def turn(j):
            @pl.when(j + ring - 1 < count)
            def ahead():
                fetch(j + ring - 1).start()

            fetch(j).wait()
            b = jax.lax.rem(j, ring)
            out_ref[b] = 2 * in_ref[b]
            send(j).start()

        for j in range(count):
            send(j).wait()

    row = (ring, 1, x.shape[1])
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((count, x.shape[1]), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ANYWHERE],
        out_specs=ANYWHERE,
        scratch_shapes=[
            pltpu.VMEM(row, x.dtype),
            pltpu.VMEM(row, x.dtype),
            pltpu.SemaphoreType.DMA((ring,)),
            pltpu.SemaphoreType.DMA((ring,)),
        ],
    )(ids, x)


# %% answer="05.9" name="reads a long list from its start again" judge="numbers" says="at the size that counts too, .512, 256., .256,."
# -                x_hbm.at[pl.ds(ids_ref[j], 1)], in_ref.at[b], in_sem.at[b]
# +                x_hbm.at[pl.ds(ids_ref[j % 64], 1)], in_ref.at[b], in_sem.at[b]


# %% answer="05.9" name="squares the rows" judge="numbers" says="is squared, but should be doubled"
# -            out_ref[b] = 2 * in_ref[b]
# +            out_ref[b] = in_ref[b] * in_ref[b]


# %% answer="05.9" name="fetches row j" judge="numbers" says="the index into ids is used instead of the entry of ids"
# -                x_hbm.at[pl.ds(ids_ref[j], 1)], in_ref.at[b], in_sem.at[b]
# +                x_hbm.at[pl.ds(j, 1)], in_ref.at[b], in_sem.at[b]


# %% answer="05.9" name="counts the rows from 1" judge="numbers" says="ids is taken for one more than it is"
# -                x_hbm.at[pl.ds(ids_ref[j], 1)], in_ref.at[b], in_sem.at[b]
# +                x_hbm.at[pl.ds(ids_ref[j] + 1, 1)], in_ref.at[b], in_sem.at[b]


# %% answer="05.9" name="sends to row ids of the result" judge="numbers" says="should depend on x.63, :., but does not. It depends on x.0, :. instead"
# -                out_ref.at[b], o_hbm.at[pl.ds(j, 1)], out_sem.at[b]
# +                out_ref.at[b], o_hbm.at[pl.ds(ids_ref[j], 1)], out_sem.at[b]


# %% answer="05.10" name="pallas_call in blocks of 16 rows" judge="exercise" says="above par.*(?s:.)*DMA wait"
def waves(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.sin(jnp.sin(jnp.sin(x_ref[...])))

    block = pl.BlockSpec((16, 128), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(x.shape[0] // 16,), in_specs=[block], out_specs=block
    )(x)


# %% answer="05.10" name="one large buffer" judge="exercise" says="above par.*(?s:.)*DMA wait"
def waves(x):
    def kernel(x_hbm, o_hbm, buffer_ref, sem):
        @pl.loop(0, x.shape[0] // 64)
        def turn(i):
            rows = pl.ds(64 * i, 64)
            pltpu.sync_copy(x_hbm.at[rows], buffer_ref)
            buffer_ref[...] = jnp.sin(jnp.sin(jnp.sin(buffer_ref[...])))
            pltpu.sync_copy(buffer_ref, o_hbm.at[rows])

    return pl.pallas_call(
        kernel,
        out_shape=x,
        in_specs=[ANYWHERE],
        out_specs=ANYWHERE,
        scratch_shapes=[pltpu.VMEM((64, 128), x.dtype), pltpu.SemaphoreType.DMA],
    )(x)


# %% answer="05.10" name="blocks of 32 rows" judge="budget" says="It needs 64 KiB of VMEM; the budget is 32 KiB"
def waves(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.sin(jnp.sin(jnp.sin(x_ref[...])))

    block = pl.BlockSpec((32, 128), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(x.shape[0] // 32,), in_specs=[block], out_specs=block
    )(x)


# %% answer="05.10" name="one semaphore for all copies out" judge="simulator" says="(?s)starts a copy into buffer_ref.0.\\s+after one wait on out_sem.0..*Next: give each copy that may be under way its own semaphore"
# -            return pltpu.make_async_copy(buffer_ref.at[b], chunk, out_sem.at[b])
# +            return pltpu.make_async_copy(buffer_ref.at[b], chunk, out_sem.at[0])


# %% answer="05.10" name="buffers in bfloat16" judge="numbers" says="(?s)copies float32 into a buffer of\\s+bfloat16.*the dtype of the source"
# -            pltpu.VMEM((buffers, size, 128), x.dtype),
# +            pltpu.VMEM((buffers, size, 128), jnp.bfloat16),


# %% answer="05.10" name="two sines" judge="numbers" says="(?s).sin.\\s+is\\s+left\\s+out\\s+of\\s+sin.sin.sin.x..."
# -            buffer_ref[b] = jnp.sin(jnp.sin(jnp.sin(buffer_ref[b])))  # in place
# +            buffer_ref[b] = jnp.sin(jnp.sin(buffer_ref[b]))  # in place


# %% answer="05.10" name="the cube of the sine" judge="numbers" says="this is sin.x. to the power of 3, but `sin` should be applied 3 times"
# -            buffer_ref[b] = jnp.sin(jnp.sin(jnp.sin(buffer_ref[b])))  # in place
# +            buffer_ref[b] = jnp.sin(buffer_ref[b]) ** 3  # in place
