# Wrong answers to the exercises of lesson 11. Each stands in the place of the answer cell; `judge` must refuse it, and
# the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.

# %% answer="11.1" name="blames the line that shows it" judge="exercise" says="A: .line 10. is not the one(?s:.)*carried on"
found = {
    "A": ("line 10", "count"),
    "B": ("line 27", "garbage"),
    "C": ("line 61", "order"),
    "D": ("line 86", "early"),
}

# %% answer="11.1" name="garbage where it is a count" judge="exercise" says="Nothing in it is NaN"
found = {
    "A": ("line 9", "garbage"),
    "B": ("line 27", "garbage"),
    "C": ("line 61", "order"),
    "D": ("line 86", "early"),
}

# %% answer="11.1" name="the sum for the zero" judge="exercise" says="What was there before"
found = {
    "A": ("line 9", "count"),
    "B": ("line 29", "garbage"),
    "C": ("line 61", "order"),
    "D": ("line 86", "early"),
}

# %% answer="11.1" name="the sum for the promise" judge="exercise" says="if the steps come in order"
found = {
    "A": ("line 9", "count"),
    "B": ("line 27", "garbage"),
    "C": ("line 53", "order"),
    "D": ("line 86", "early"),
}

# %% answer="11.1" name="the wait is too late" judge="exercise" says="It waits for the chunk of this turn"
found = {
    "A": ("line 9", "count"),
    "B": ("line 27", "garbage"),
    "C": ("line 61", "order"),
    "D": ("line 80", "early"),
}

# %% answer="11.1" name="one line of four" judge="exercise" says="Still open: B, C, D"
found = {"A": ("line 9", "count"), "B": None, "C": None, "D": None}


# %% answer="11.2" name="still begins at 0" judge="numbers" says="is 0; it should be -"
def mended(x):
    """The largest number of each row of x[M, N], as [M, 1]."""
    n = x.shape[1]

    def kernel(x_ref, o_ref):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def first():
            o_ref[...] = jnp.zeros_like(o_ref)

        column = 128 * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        inside = jnp.where(column < n, x_ref[...], -jnp.inf)
        o_ref[...] = jnp.maximum(o_ref[...], jnp.max(inside, axis=1, keepdims=True))

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype),
        grid=(pl.cdiv(x.shape[0], 8), pl.cdiv(n, 128)),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 1), lambda i, j: (i, 0)),
    )(x)


# %% answer="11.2" name="still fills with 0" judge="numbers" says="is 0; it should be -"
def mended(x):
    """The largest number of each row of x[M, N], as [M, 1]."""
    n = x.shape[1]

    def kernel(x_ref, o_ref):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def first():
            o_ref[...] = jnp.full_like(o_ref, -jnp.inf)

        column = 128 * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        inside = jnp.where(column < n, x_ref[...], 0.0)
        o_ref[...] = jnp.maximum(o_ref[...], jnp.max(inside, axis=1, keepdims=True))

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype),
        grid=(pl.cdiv(x.shape[0], 8), pl.cdiv(n, 128)),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 1), lambda i, j: (i, 0)),
    )(x)


# %% answer="11.2" name="no mask" judge="numbers" says="nan(?s:.)*it should be -"
def mended(x):
    """The largest number of each row of x[M, N], as [M, 1]."""
    n = x.shape[1]

    def kernel(x_ref, o_ref):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def first():
            o_ref[...] = jnp.full_like(o_ref, -jnp.inf)

        column = 128 * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        inside = x_ref[...]
        o_ref[...] = jnp.maximum(o_ref[...], jnp.max(inside, axis=1, keepdims=True))

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype),
        grid=(pl.cdiv(x.shape[0], 8), pl.cdiv(n, 128)),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 1), lambda i, j: (i, 0)),
    )(x)


# %% answer="11.2" name="the smallest number there is not" judge="numbers" says="is -1; it should be -"
def mended(x):
    """The largest number of each row of x[M, N], as [M, 1]."""
    n = x.shape[1]

    def kernel(x_ref, o_ref):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def first():
            o_ref[...] = jnp.full_like(o_ref, -1.0)

        column = 128 * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        inside = jnp.where(column < n, x_ref[...], -jnp.inf)
        o_ref[...] = jnp.maximum(o_ref[...], jnp.max(inside, axis=1, keepdims=True))

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype),
        grid=(pl.cdiv(x.shape[0], 8), pl.cdiv(n, 128)),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 1), lambda i, j: (i, 0)),
    )(x)


# %% answer="11.2" name="far below is not the smallest" judge="numbers" says="is -1000; it should be -1e"
def mended(x):
    """The largest number of each row of x[M, N], as [M, 1]."""
    n = x.shape[1]

    def kernel(x_ref, o_ref):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def first():
            o_ref[...] = jnp.full_like(o_ref, -1e3)

        column = 128 * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        inside = jnp.where(column < n, x_ref[...], -jnp.inf)
        o_ref[...] = jnp.maximum(o_ref[...], jnp.max(inside, axis=1, keepdims=True))

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype),
        grid=(pl.cdiv(x.shape[0], 8), pl.cdiv(n, 128)),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 1), lambda i, j: (i, 0)),
    )(x)


# %% answer="11.3" name="as it was" judge="exercise" says="it spills 468 registers"
def mended(x):
    """(x - mean) / deviation of each row of x[M, N], in blocks of 256 rows, without spills."""

    def kernel(x_ref, o_ref):
        x = x_ref[...]
        away = x - jnp.mean(x, axis=1, keepdims=True)
        variance = jnp.mean(away * away, axis=1, keepdims=True)
        o_ref[...] = away * jax.lax.rsqrt(variance + 1e-6)

    block = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(x.shape[0] // 256,), in_specs=[block], out_specs=block
    )(x)


# %% answer="11.3" name="eight rows a turn" judge="exercise" says="Nothing spills. It takes 65.4 us(?s:.)*more rows a turn"
def mended(x):
    """(x - mean) / deviation of each row of x[M, N], in blocks of 256 rows, without spills."""
    turn = 8

    def kernel(x_ref, o_ref):
        @pl.loop(0, 256 // turn)
        def some_rows(n):
            these = pl.ds(pl.multiple_of(turn * n, turn), turn)
            x = x_ref[these, :]
            away = x - jnp.mean(x, axis=1, keepdims=True)
            variance = jnp.mean(away * away, axis=1, keepdims=True)
            o_ref[these, :] = away * jax.lax.rsqrt(variance + 1e-6)

    block = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(x.shape[0] // 256,), in_specs=[block], out_specs=block
    )(x)


# %% answer="11.3" name="64 rows a turn" judge="exercise" says="it spills 157 registers"
def mended(x):
    """(x - mean) / deviation of each row of x[M, N], in blocks of 256 rows, without spills."""
    turn = 64

    def kernel(x_ref, o_ref):
        @pl.loop(0, 256 // turn)
        def some_rows(n):
            these = pl.ds(pl.multiple_of(turn * n, turn), turn)
            x = x_ref[these, :]
            away = x - jnp.mean(x, axis=1, keepdims=True)
            variance = jnp.mean(away * away, axis=1, keepdims=True)
            o_ref[these, :] = away * jax.lax.rsqrt(variance + 1e-6)

    block = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(x.shape[0] // 256,), in_specs=[block], out_specs=block
    )(x)


# %% answer="11.3" name="32 rows, as in the lesson" judge="exercise" says="it spills 30 registers"
def mended(x):
    """(x - mean) / deviation of each row of x[M, N], in blocks of 256 rows, without spills."""
    turn = 32

    def kernel(x_ref, o_ref):
        @pl.loop(0, 256 // turn)
        def some_rows(n):
            these = pl.ds(pl.multiple_of(turn * n, turn), turn)
            x = x_ref[these, :]
            away = x - jnp.mean(x, axis=1, keepdims=True)
            variance = jnp.mean(away * away, axis=1, keepdims=True)
            o_ref[these, :] = away * jax.lax.rsqrt(variance + 1e-6)

    block = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(x.shape[0] // 256,), in_specs=[block], out_specs=block
    )(x)


# %% answer="11.3" name="smaller blocks" judge="exercise" says="the blocks of 256 rows stay"
def mended(x):
    """(x - mean) / deviation of each row of x[M, N], in blocks of 32 rows, without spills."""
    turn = 32

    def kernel(x_ref, o_ref):
        @pl.loop(0, 32 // turn)
        def some_rows(n):
            these = pl.ds(pl.multiple_of(turn * n, turn), turn)
            x = x_ref[these, :]
            away = x - jnp.mean(x, axis=1, keepdims=True)
            variance = jnp.mean(away * away, axis=1, keepdims=True)
            o_ref[these, :] = away * jax.lax.rsqrt(variance + 1e-6)

    block = pl.BlockSpec((32, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(x.shape[0] // 32,), in_specs=[block], out_specs=block
    )(x)


# %% answer="11.3" name="a turn too few" judge="numbers" says="nan|never"
def mended(x):
    """(x - mean) / deviation of each row of x[M, N], in blocks of 256 rows, without spills."""
    turn = 32  # rows: 32 x 1024 numbers fill half of the registers

    def kernel(x_ref, o_ref):
        @pl.loop(0, 256 // turn - 1)
        def some_rows(n):
            these = pl.ds(pl.multiple_of(turn * n, turn), turn)
            x = x_ref[these, :]
            away = x - jnp.mean(x, axis=1, keepdims=True)
            variance = jnp.mean(away * away, axis=1, keepdims=True)
            o_ref[these, :] = away * jax.lax.rsqrt(variance + 1e-6)

    block = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(x.shape[0] // 256,), in_specs=[block], out_specs=block
    )(x)


# %% answer="11.4" name="no price of a call" judge="exercise" says="What else is in it, besides steps"
fit = {
    "A": "0.5814 us",
    "B": "0.1156 ms",
    "C": "93.4 ms",
    "D": "neither",
    "E": "blocks that stay",
}

# %% answer="11.4" name="all of the first time" judge="exercise" says="Its 512 steps are in it"
fit = {
    "A": "0.3557 us",
    "B": "0.29767 ms",
    "C": "93.4 ms",
    "D": "neither",
    "E": "blocks that stay",
}

# %% answer="11.4" name="four times as long" judge="exercise" says="And how many times the steps"
fit = {
    "A": "0.3557 us",
    "B": "0.1156 ms",
    "C": "47.1 ms",
    "D": "neither",
    "E": "blocks that stay",
}

# %% answer="11.4" name="the simulator says latency" judge="exercise" says="with a latency of its own"
fit = {
    "A": "0.3557 us",
    "B": "0.1156 ms",
    "C": "93.4 ms",
    "D": "latency",
    "E": "blocks that stay",
}

# %% answer="11.4" name="another size" judge="exercise" says="A fourth point on the same line"
fit = {
    "A": "0.3557 us",
    "B": "0.1156 ms",
    "C": "93.4 ms",
    "D": "neither",
    "E": "more sizes",
}


# %% answer="11.5" name="asks about all" judge="exercise" says="asks about 7 different blocks"
def tune(shape, ask):
    """Blocks (bm, bk, bn) for a product of (m, k, n); ask(blocks): seconds or None, for 6 blocks."""
    m, k, n = shape

    def sides(length):
        return [2**e for e in range(7, 13) if length % 2**e == 0] or [length]

    def fits(blocks):
        bm, bk, bn = blocks
        return 4 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn <= 15 * 2**20

    def guess(blocks):
        bm, bk, bn = blocks
        steps = (m // bm) * (k // bk) * (n // bn)
        x_times = 1 if bk == k else n // bn
        y_times = 1 if (bk, bn) == (k, n) else m // bm
        moved = 2 * (m * k * x_times + k * n * y_times + m * n)
        step = max(max(bm, 32) * bk * bn / 65_536 + 300, 600)
        ends = 2 * (bm * bk + bk * bn + bm * bn) / 819e9
        return max(steps * step / 1.5e9, moved / 819e9) + ends

    legal = itertools.product(*map(sides, shape))
    likely = sorted(filter(fits, legal), key=guess)
    times = {blocks: ask(blocks) for blocks in likely}
    return min((b for b in likely if times[b] is not None), key=times.get)


# %% answer="11.5" name="does not count VMEM, largest first" judge="exercise" says="were\\s+refused for their VMEM(?s:.)*count the VMEM"
def tune(shape, ask):
    def sides(length):
        return [2**e for e in range(7, 13) if length % 2**e == 0] or [length]

    legal = sorted(itertools.product(*map(sides, shape)), key=lambda b: -b[0] * b[1] * b[2])
    times = {blocks: ask(blocks) for blocks in legal[:6]}
    return min((b for b in times if times[b] is not None), key=times.get, default=None)


# %% answer="11.5" name="the largest that fit" judge="exercise" says="1.04\\s+times\\s+the best(?s:.)*once where bk = k"
def tune(shape, ask):
    def sides(length):
        return [2**e for e in range(7, 13) if length % 2**e == 0] or [length]

    def fits(blocks):
        bm, bk, bn = blocks
        return 4 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn <= 15 * 2**20

    legal = filter(fits, itertools.product(*map(sides, shape)))
    likely = sorted(legal, key=lambda b: -b[0] * b[1] * b[2])[:6]
    times = {blocks: ask(blocks) for blocks in likely}
    return min((b for b in times if times[b] is not None), key=times.get)


# %% answer="11.5" name="takes the slowest" judge="exercise" says="Among those it asked about is"
def tune(shape, ask):
    """Blocks (bm, bk, bn) for a product of (m, k, n); ask(blocks): seconds or None, for 6 blocks."""
    m, k, n = shape

    def sides(length):
        return [2**e for e in range(7, 13) if length % 2**e == 0] or [length]

    def fits(blocks):
        bm, bk, bn = blocks
        return 4 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn <= 15 * 2**20

    def guess(blocks):
        bm, bk, bn = blocks
        steps = (m // bm) * (k // bk) * (n // bn)
        x_times = 1 if bk == k else n // bn
        y_times = 1 if (bk, bn) == (k, n) else m // bm
        moved = 2 * (m * k * x_times + k * n * y_times + m * n)
        step = max(max(bm, 32) * bk * bn / 65_536 + 300, 600)
        ends = 2 * (bm * bk + bk * bn + bm * bn) / 819e9
        return max(steps * step / 1.5e9, moved / 819e9) + ends

    legal = itertools.product(*map(sides, shape))
    likely = sorted(filter(fits, legal), key=guess)[:6]
    times = {blocks: ask(blocks) for blocks in likely}
    return max((b for b in likely if times[b] is not None), key=times.get)


# %% answer="11.5" name="a short axis cut" judge="exercise" says="which the rule does not allow"
def tune(shape, ask):
    """Blocks (bm, bk, bn) for a product of (m, k, n); ask(blocks): seconds or None, for 6 blocks."""
    m, k, n = shape

    def sides(length):
        return [2**e for e in range(7, 13) if length % 2**e == 0] or [128]

    def fits(blocks):
        bm, bk, bn = blocks
        return 4 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn <= 15 * 2**20

    def guess(blocks):
        bm, bk, bn = blocks
        steps = (m // bm) * (k // bk) * (n // bn)
        x_times = 1 if bk == k else n // bn
        y_times = 1 if (bk, bn) == (k, n) else m // bm
        moved = 2 * (m * k * x_times + k * n * y_times + m * n)
        step = max(max(bm, 32) * bk * bn / 65_536 + 300, 600)
        ends = 2 * (bm * bk + bk * bn + bm * bn) / 819e9
        return max(steps * step / 1.5e9, moved / 819e9) + ends

    legal = itertools.product(*map(sides, shape))
    likely = sorted(filter(fits, legal), key=guess)[:6]
    times = {blocks: ask(blocks) for blocks in likely}
    return min((b for b in likely if times[b] is not None), key=times.get)


# %% answer="11.5" name="asks nothing" judge="exercise" says="has not asked about it"
def tune(shape, ask):
    m, k, n = shape
    return min(m, 128), min(k, 4096), min(n, 128)


# %% answer="11.6" name="a list comes back" judge="exercise" says="make a tuple of it"
def table(text, chip, shape, dtype, blocks=None):
    kept = json.loads(text or "{}")
    key = f"{chip} {shape} {dtype}"
    if blocks is not None:
        return json.dumps(kept | {key: blocks})
    return kept[key] if key in kept else None


# %% answer="11.6" name="forgets the chip" judge="exercise" says="For another chip"
def table(text, chip, shape, dtype, blocks=None):
    kept = json.loads(text or "{}")
    key = f"{shape} {dtype}"
    if blocks is not None:
        return json.dumps(kept | {key: blocks})
    return tuple(kept[key]) if key in kept else None


# %% answer="11.6" name="keeps one only" judge="exercise" says="keep what was there before"
def table(text, chip, shape, dtype, blocks=None):
    kept = json.loads(text or "{}")
    key = f"{chip} {shape} {dtype}"
    if blocks is not None:
        return json.dumps({key: blocks})
    return tuple(kept[key]) if key in kept else None


# %% answer="11.6" name="the sum of the shape" judge="exercise" says="For another k"
def table(text, chip, shape, dtype, blocks=None):
    kept = json.loads(text or "{}")
    key = f"{chip} {sum(shape)} {dtype}"
    if blocks is not None:
        return json.dumps(kept | {key: blocks})
    return tuple(kept[key]) if key in kept else None


# %% answer="11.6" name="keeps it in Python" judge="exercise" says="In the text as it was before"
seen = {}


def table(text, chip, shape, dtype, blocks=None):
    if text == "":
        seen.clear()
    if blocks is not None:
        seen[chip, shape, dtype] = blocks
        return "{}"
    return seen.get((chip, shape, dtype))


# %% answer="11.6" name="an empty text" judge="exercise" says="at first the text is empty"
def table(text, chip, shape, dtype, blocks=None):
    kept = json.loads(text)
    key = f"{chip} {shape} {dtype}"
    if blocks is not None:
        return json.dumps(kept | {key: blocks})
    return tuple(kept[key]) if key in kept else None


# %% answer="11.7" name="positive numbers" judge="exercise" says="in which the maximum begins at 0"
def data():
    return jax.random.uniform(jax.random.key(0), (8, 130))


# %% answer="11.7" name="some of each" judge="exercise" says="in which the maximum begins at 0"
def data():
    return jax.random.normal(jax.random.key(0), (8, 130))


# %% answer="11.7" name="whole blocks" judge="exercise" says="0\\s+stands for the columns beyond"
def data():
    return -1 - jax.random.uniform(jax.random.key(0), (8, 256))


# %% answer="11.7" name="another test each time" judge="exercise" says="other numbers each time"
count = itertools.count()


def data():
    return -1 - jax.random.uniform(jax.random.key(next(count)), (8, 130))


# %% answer="11.7" name="a list" judge="exercise" says="a float32 array x"
def data():
    return [-1.0, -2.0]


# %% answer="11.8" name="too short" judge="exercise" says="words"
advice = "Look at the gap first."

# %% answer="11.8" name="no own judgment" judge="exercise" says="checks.assess"
advice = """The gap of forty percent is somebody else's time: see what the host does meanwhile. The softmax
has no product, so it cannot use the MXU; its bytes over the bandwidth say how long it must take, and
at most five percent of the step can be won by any kernel for it."""

# %% answer="11.8" name="a number" judge="exercise" says="text|words"
advice = 40


# %% answer="11.9" name="no mask for the rows that are not there" judge="numbers" says="is too large by 8"
def census(x):
    m, n = x.shape
    rows = 32

    def kernel(x_ref, bad_ref, size_ref):
        i = pl.program_id(0)

        @pl.when(i == 0)
        def begin():
            bad_ref[...] = jnp.zeros_like(bad_ref)
            size_ref[...] = jnp.zeros_like(size_ref)

        row = rows * i + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        ours, size = row < m, jnp.abs(x_ref[...])
        fine = size < jnp.inf  # false for NaN, too
        bad = jnp.where(~fine, 1, 0)
        bad_ref[...] += jnp.sum(bad, axis=0, keepdims=True)
        largest = jnp.max(jnp.where(fine, size, 0.0), axis=0, keepdims=True)
        size_ref[...] = jnp.maximum(size_ref[...], largest)

    stays = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=(
            jax.ShapeDtypeStruct((1, n), jnp.int32),
            jax.ShapeDtypeStruct((1, n), jnp.float32),
        ),
        grid=(pl.cdiv(m, rows),),
        in_specs=[pl.BlockSpec((rows, n), lambda i: (i, 0))],
        out_specs=(stays, stays),
    )(x)


# %% answer="11.9" name="NaN counts as fine" judge="numbers" says="at .0, 3. is 0; it should be 64"
def census(x):
    m, n = x.shape
    rows = 32

    def kernel(x_ref, bad_ref, size_ref):
        i = pl.program_id(0)

        @pl.when(i == 0)
        def begin():
            bad_ref[...] = jnp.zeros_like(bad_ref)
            size_ref[...] = jnp.zeros_like(size_ref)

        row = rows * i + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        ours, size = row < m, jnp.abs(x_ref[...])
        fine = ~(size >= jnp.inf)  # false for NaN, too
        bad = jnp.where(ours & ~fine, 1, 0)
        bad_ref[...] += jnp.sum(bad, axis=0, keepdims=True)
        largest = jnp.max(jnp.where(ours & fine, size, 0.0), axis=0, keepdims=True)
        size_ref[...] = jnp.maximum(size_ref[...], largest)

    stays = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=(
            jax.ShapeDtypeStruct((1, n), jnp.int32),
            jax.ShapeDtypeStruct((1, n), jnp.float32),
        ),
        grid=(pl.cdiv(m, rows),),
        in_specs=[pl.BlockSpec((rows, n), lambda i: (i, 0))],
        out_specs=(stays, stays),
    )(x)


# %% answer="11.9" name="begins anew in each block" judge="numbers" says="sets\\s+everything anew"
def census(x):
    m, n = x.shape
    rows = 32

    def kernel(x_ref, bad_ref, size_ref):
        i = pl.program_id(0)

        @pl.when(i >= 0)
        def begin():
            bad_ref[...] = jnp.zeros_like(bad_ref)
            size_ref[...] = jnp.zeros_like(size_ref)

        row = rows * i + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        ours, size = row < m, jnp.abs(x_ref[...])
        fine = size < jnp.inf  # false for NaN, too
        bad = jnp.where(ours & ~fine, 1, 0)
        bad_ref[...] += jnp.sum(bad, axis=0, keepdims=True)
        largest = jnp.max(jnp.where(ours & fine, size, 0.0), axis=0, keepdims=True)
        size_ref[...] = jnp.maximum(size_ref[...], largest)

    stays = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=(
            jax.ShapeDtypeStruct((1, n), jnp.int32),
            jax.ShapeDtypeStruct((1, n), jnp.float32),
        ),
        grid=(pl.cdiv(m, rows),),
        in_specs=[pl.BlockSpec((rows, n), lambda i: (i, 0))],
        out_specs=(stays, stays),
    )(x)


# %% answer="11.9" name="all rows in one block" judge="budget" says="spills 46 vector registers"
def census(x):
    m, n = x.shape
    rows = m

    def kernel(x_ref, bad_ref, size_ref):
        i = pl.program_id(0)

        @pl.when(i == 0)
        def begin():
            bad_ref[...] = jnp.zeros_like(bad_ref)
            size_ref[...] = jnp.zeros_like(size_ref)

        row = rows * i + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        ours, size = row < m, jnp.abs(x_ref[...])
        fine = size < jnp.inf  # false for NaN, too
        bad = jnp.where(ours & ~fine, 1, 0)
        bad_ref[...] += jnp.sum(bad, axis=0, keepdims=True)
        largest = jnp.max(jnp.where(ours & fine, size, 0.0), axis=0, keepdims=True)
        size_ref[...] = jnp.maximum(size_ref[...], largest)

    stays = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=(
            jax.ShapeDtypeStruct((1, n), jnp.int32),
            jax.ShapeDtypeStruct((1, n), jnp.float32),
        ),
        grid=(pl.cdiv(m, rows),),
        in_specs=[pl.BlockSpec((rows, n), lambda i: (i, 0))],
        out_specs=(stays, stays),
    )(x)


# %% answer="11.10" name="one round less" judge="exercise" says="after 6 rounds"
def balanced(x):
    m, n = x.shape
    turn = min(m, 128)

    def kernel(x_ref, o_ref, u_ref):
        def one_round(_, v):
            columns = jnp.zeros((1, n), jnp.float32)
            for k in range(m // turn):
                these = pl.ds(k * turn, turn)
                u = 1 / jnp.sum(x_ref[these, :] * v, axis=1, keepdims=True)
                u_ref[these, :] = u
                columns += jnp.sum(x_ref[these, :] * u, axis=0, keepdims=True)
            return 1 / columns

        v = jax.lax.fori_loop(0, 5, one_round, jnp.ones((1, n), jnp.float32))
        for k in range(m // turn):
            these = pl.ds(k * turn, turn)
            o_ref[these, :] = x_ref[these, :] * u_ref[these, :] * v

    return pl.pallas_call(
        kernel, out_shape=x, scratch_shapes=[pltpu.VMEM((m, 1), jnp.float32)]
    )(x)


# %% answer="11.10" name="forgets the columns at the end" judge="numbers" says="2,048 of 2,048 elements are wrong"
def balanced(x):
    m, n = x.shape
    turn = min(m, 128)

    def kernel(x_ref, o_ref, u_ref):
        def one_round(_, v):
            columns = jnp.zeros((1, n), jnp.float32)
            for k in range(m // turn):
                these = pl.ds(k * turn, turn)
                u = 1 / jnp.sum(x_ref[these, :] * v, axis=1, keepdims=True)
                u_ref[these, :] = u
                columns += jnp.sum(x_ref[these, :] * u, axis=0, keepdims=True)
            return 1 / columns

        v = jax.lax.fori_loop(0, 6, one_round, jnp.ones((1, n), jnp.float32))
        for k in range(m // turn):
            these = pl.ds(k * turn, turn)
            o_ref[these, :] = x_ref[these, :] * u_ref[these, :]

    return pl.pallas_call(
        kernel, out_shape=x, scratch_shapes=[pltpu.VMEM((m, 1), jnp.float32)]
    )(x)


# %% answer="11.10" name="the matrix in every round" judge="exercise" says="above par"
def balanced(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

        @pl.loop(0, 6)
        def one_round(n):
            o_ref[...] = o_ref[...] / jnp.sum(o_ref[...], axis=1, keepdims=True)
            o_ref[...] = o_ref[...] / jnp.sum(o_ref[...], axis=0, keepdims=True)

    return pl.pallas_call(kernel, out_shape=x)(x)
