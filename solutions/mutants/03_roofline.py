# Wrong answers to the exercises of lesson 3: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.

# %% answer="03.1" name="forgets the result" judge="exercise" says="x and y, which go in, but the sum has to come out"
least = "654.7 us"

# %% answer="03.1" name="counts FLOPs" judge="exercise" says="(?s)additions, at the peak of the MXU.*Are they what takes"
least = "341 ns"

# %% answer="03.1" name="takes Mi for a million" judge="exercise" says="64 Mi is 64 times 1,048,576"
least = "0.9366 ms"

# %% answer="03.1" name="says how many bytes" judge="exercise" says="an amount of memory \\(bytes\\); the question asks for a time"
least = "768 MiB"

# %% answer="03.1" name="rounds too far" judge="exercise" says="(?s)Close, but a little too large.*keep one more digit"
least = "1 ms"

# %% answer="03.1" name="forgets the unit" judge="exercise" says="the unit is missing"
least = 982


# %% answer="03.2" name="counts a multiply-add as one" judge="exercise" says="(?s)look at the FLOPs.*multiplied and added: two"
# -    flops = 2 * m * k * n
# +    flops = m * k * n


# %% answer="03.2" name="forgets the result" judge="exercise" says="(?s)look at the bytes.*the result has to come out too"
# -    moved = (m * k + k * n + m * n) * itemsize
# +    moved = (m * k + k * n) * itemsize


# %% answer="03.2" name="counts k - 1 additions" judge="exercise" says="k products need k - 1 additions"
# -    flops = 2 * m * k * n
# +    flops = m * n * (2 * k - 1)


# %% answer="03.2" name="turns the intensity round" judge="exercise" says="upside down: an intensity is FLOPs per byte"
# -    return flops, moved, flops / moved
# +    return flops, moved, moved / flops


# %% answer="03.2" name="returns the bytes first" judge="exercise" says="(?s)You return the bytes where the FLOPs.*in this order: the FLOPs"
# -    return flops, moved, flops / moved
# +    return moved, flops, flops / moved


# %% answer="03.2" name="returns the intensity only" judge="exercise" says="it should return 3 numbers.*(?s:.*)in this order"
def matmul_cost(m, k, n, itemsize):
    return 2 * m * k * n / ((m * k + k * n + m * n) * itemsize)


# %% answer="03.3" name="makes the result bfloat16" judge="exercise" says="right if the result were bfloat16, too"
crossover = 1683

# %% answer="03.3" name="takes all for float32" judge="exercise" says="right if x and y were float32 as well"
crossover = 3366

# %% answer="03.3" name="stays on the v5e" judge="exercise" says="crossover on a v5e.*(?s:.*)about a v6e"
crossover = 961

# %% answer="03.3" name="repeats the lesson's" judge="exercise" says="(?s)Two slips.*fix both"
crossover = 721

# %% answer="03.3" name="gives the ridge point" judge="exercise" says="At which N does the matmul have that intensity"
crossover = "561"

# %% answer="03.3" name="gives an intensity" judge="exercise" says="an intensity .FLOPs per byte.; the question asks for a plain number"
crossover = "561 FLOP/B"

# %% answer="03.4" name="has weights of two bytes" judge="exercise" says="right for weights of two bytes"
batch = 240

# %% answer="03.4" name="takes the int8 peak" judge="exercise" says="multiplies in bfloat16 here\\. Does the int8 peak apply"
batch = 480

# %% answer="03.4" name="takes 720 from the lesson" judge="exercise" says="crossover of square matmuls"
batch = 720

# %% answer="03.4" name="takes a layer of 2048" judge="exercise" says="(?s)Two slips: that is a layer of 2048.*fix both"
batch = 314

# %% answer="03.4" name="counts a multiply-add as one" judge="exercise" says="one byte, and two operations for each row"
batch = 60


# %% answer="03.5" name="ignores the mask" judge="exercise" says="how many of the T.T pairs are left"
def attention_cost(t, width, heads, kv_heads, causal):
    return 4 * t * t * width * heads, 2 * t * width * (2 * heads + 2 * kv_heads)


# %% answer="03.5" name="takes the lesson's formula" judge="exercise" says="the lesson's formula, for one head"
def attention_cost(t, width, heads, kv_heads, causal):
    return 4 * t * t * width, 2 * t * width * (2 * heads + 2 * kv_heads)


# %% answer="03.5" name="counts the softmax" judge="exercise" says="That counts the softmax as well"
def attention_cost(t, width, heads, kv_heads, causal):
    flops = (4 * width + 3) * t * t * heads / (2 if causal else 1)
    return flops, 2 * t * width * (2 * heads + 2 * kv_heads)


# %% answer="03.5" name="lets groups share the arithmetic" judge="exercise" says="each of them still does its own matmuls"
def attention_cost(t, width, heads, kv_heads, causal):
    flops = 4 * t * t * width * kv_heads / (2 if causal else 1)
    return flops, 2 * t * width * (2 * heads + 2 * kv_heads)


# %% answer="03.5" name="writes them and reads them back" judge="exercise" says="need never let them leave VMEM"
def attention_cost(t, width, heads, kv_heads, causal):
    scores = 8 * t * t * heads / (2 if causal else 1)
    moved = 2 * t * width * (2 * heads + 2 * kv_heads) + scores
    return 4 * t * t * width * heads / (2 if causal else 1), moved


# %% answer="03.5" name="halves the bytes, too" judge="exercise" says="all of K and V is read"
def attention_cost(t, width, heads, kv_heads, causal):
    share = 0.5 if causal else 1
    return (
        4 * t * t * width * heads * share,
        2 * t * width * (2 * heads + 2 * kv_heads) * share,
    )


# %% answer="03.6" name="receives what it has" judge="exercise" says="(?s)ring: it is not 746 us.*holds its own shard already"
gathers = {"ring": "746 us", "line": None, "small": None}

# %% answer="03.6" name="uses one link of the ring" judge="exercise" says="both neighbors at once, so two links"
gathers = {"ring": "1398 us", "line": None, "small": None}

# %% answer="03.6" name="uses all four links of 45 GB/s" judge="exercise" says="an axis of the torus, a ring, has two"
gathers = {"ring": "349.5 us", "line": None, "small": None}

# %% answer="03.6" name="closes the line" judge="exercise" says="(?s)the end of the line has only one neighbor.*Right so far: ring"
gathers = {"ring": "699 us", "line": "559 us", "small": None}

# %% answer="03.6" name="forgets the hops" judge="exercise" says="(?s)small: .*each hop costs its time.*Right so far: ring, line"
gathers = {"ring": "699 us", "line": "1118 us", "small": "68 ns"}

# %% answer="03.6" name="leaves one out" judge="exercise" says="(?s)2 of 3 are right.*Not answered yet: small"
gathers = {"ring": "699 us", "line": "1118 us", "small": None}

# %% answer="03.7" name="believes the comment" judge="exercise" says="(?s)A: .stands. is not right.*On which side of it"
verdicts = {"A": ("stands", "1365 FLOP/B")}

# %% answer="03.7" name="counts as if bfloat16" judge="exercise" says="right for bfloat16\\. The claim is about float32"
verdicts = {"A": ("falls", "2731 FLOP/B")}

# %% answer="03.7" name="suspects all five" judge="exercise" says="(?s)C: .falls. is not right.*Right so far: A, B, D, E"
verdicts = {
    "A": ("falls", "1365 FLOP/B"),
    "B": ("falls", "655 us"),
    "C": ("falls", "141 TFLOP/s"),
    "D": ("falls", "240 FLOP/B"),
    "E": ("falls", "32 MiB"),
}

# %% answer="03.7" name="repeats the claim's number" judge="exercise" says="the claim's own number"
verdicts = {"D": ("falls", "123 FLOP/B")}

# %% answer="03.7" name="writes at each step" judge="exercise" says="each of the 8 steps along k wrote its block"
verdicts = {"E": ("falls", "256 MiB")}

# %% answer="03.7" name="gives no numbers" judge="exercise" says="(?s)A: this part needs 2 answers.*in parentheses"
verdicts = {"A": "falls", "B": "falls", "C": "stands", "D": "falls", "E": "falls"}

# %% answer="03.8" name="forgets the steps" judge="exercise" says="(?s)triangle: .*two operations, and steps cost as well.*fix both"
guesses = {"XLA, 16384": "45 ms", "triangle": "11.2 ms", "decode": None}

# %% answer="03.8" name="has no steps" judge="exercise" says="(?s)triangle: .*What does a step cost that does nothing"
guesses = {"XLA, 16384": "45 ms", "triangle": "22.3 ms", "decode": None}

# %% answer="03.8" name="computes all of it" judge="exercise" says="(?s)triangle: .*those above the diagonal are skipped"
guesses = {"XLA, 16384": "45 ms", "triangle": "45 ms", "decode": None}

# %% answer="03.8" name="looks at the arithmetic only" judge="exercise" says="(?s)decode: .*How many bytes of weights"
guesses = {"XLA, 16384": "45 ms", "triangle": "28 ms", "decode": "1.4 us"}

# %% answer="03.8" name="counts a multiply-add as one" judge="exercise" says="(?s)two operations.*the number gets larger"
guesses = {"XLA, 16384": "22.3 ms", "triangle": None, "decode": None}

# %% answer="03.8" name="copies what stands below" judge="exercise" says="(?s)that is what was measured.*What do you predict"
guesses = {"XLA, 16384": "44.6 ms", "triangle": "28.648 ms", "decode": None}


# %% answer="03.9" name="leaves it at 128" judge="budget" says="(?s)times as long as the reference.*Grid steps: 128. With two buffers"
def choose_blocks(m, k, n):
    return 128, 128, 128


# %% answer="03.9" name="looks at the first size only" judge="budget" says="\\[256,512\\].*times as long as the reference"
def choose_blocks(m, k, n):
    return (512, 1024, 512) if m == 512 else (128, 128, 128)


# %% answer="03.9" name="forgets the large product" judge="exercise" says="matmul of 8192 .*(?s:.*)262,144 grid steps cost"
def choose_blocks(m, k, n):
    return (128, 128, 128) if m == 8192 else (m, k, n)


# %% answer="03.9" name="takes all in one block" judge="exercise" says="matmul of 8192 .*(?s:.*)of VMEM, but a kernel may use only 16"
def choose_blocks(m, k, n):
    return m, k, n


# %% answer="03.9" name="knows one size" judge="exercise" says="does not divide m=256, so the last block overhangs"
def choose_blocks(m, k, n):
    return 512, 1024, 512


# %% answer="03.9" name="returns one number" judge="exercise" says="it has to return three whole numbers"
def choose_blocks(m, k, n):
    return 512


# %% answer="03.10" name="says next to nothing" judge="exercise" says="different words; at least 12 are needed"
why = "Yes, 3 % is bad."

# %% answer="03.10" name="does not judge itself" judge="exercise" says="(?s)you are the judge.*Ours: .*then call checks.assess"
why = """I would work out from FLOPs and bytes how long it has to take on this chip, and look
whether the time that the profile shows is much longer than that."""

# %% answer="03.10" name="finds something missing" judge="exercise" says="(?s)you said .partly.*add what yours lacks"
why = """I would work out from FLOPs and bytes how long it has to take on this chip, and look
whether the time that the profile shows is much longer than that."""
checks.assess("03.10", "partly")


# %% answer="03.11" name="cuts the rows apart" judge="numbers" says="should be"
def rms_rows(x):
    def kernel(x_ref, o_ref):
        x = x_ref[...].astype(jnp.float32)
        o_ref[...] = (
            x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6)
        ).astype(o_ref.dtype)

    block = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    steps = pl.cdiv(x.shape[0], 8), pl.cdiv(x.shape[1], 128)
    return pl.pallas_call(
        kernel, out_shape=x, grid=steps, in_specs=[block], out_specs=block
    )(x)


# %% answer="03.11" name="two kernels" judge="budget" says="o_ref .float32.32,1.. lies in HBM in tiles"
def rms_rows(x):
    def means(x_ref, o_ref):
        x = x_ref[...].astype(jnp.float32)
        o_ref[...] = jnp.mean(x * x, axis=1, keepdims=True)

    def scale(x_ref, mean_ref, o_ref):
        x = x_ref[...].astype(jnp.float32)
        o_ref[...] = (x * jax.lax.rsqrt(mean_ref[...] + 1e-6)).astype(o_ref.dtype)

    steps, rows = (pl.cdiv(x.shape[0], 8),), pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    one = pl.BlockSpec((8, 1), lambda i: (i, 0))
    of_rows = jax.ShapeDtypeStruct((x.shape[0], 1), jnp.float32)
    mean = pl.pallas_call(
        means, out_shape=of_rows, grid=steps, in_specs=[rows], out_specs=one
    )(x)
    return pl.pallas_call(
        scale, out_shape=x, grid=steps, in_specs=[rows, one], out_specs=rows
    )(x, mean)


# %% answer="03.11" name="takes all rows at once" judge="exercise" says="For x.1024, 4096. in float32 it needs 32 MiB of VMEM(?s:.)*cut x between its rows"
def rms_rows(x):
    def kernel(x_ref, o_ref):
        x = x_ref[...].astype(jnp.float32)
        o_ref[...] = (
            x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6)
        ).astype(o_ref.dtype)

    return pl.pallas_call(kernel, out_shape=x)(x)


# %% answer="03.11" name="forgets keepdims" judge="numbers" says="keepdims"
def rms_rows(x):
    def kernel(x_ref, o_ref):
        x = x_ref[...].astype(jnp.float32)
        o_ref[...] = (x * jax.lax.rsqrt(jnp.mean(x * x, axis=1) + 1e-6)).astype(o_ref.dtype)

    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(pl.cdiv(x.shape[0], 8),),
        in_specs=[block],
        out_specs=block,
    )(x)


# %% answer="03.11" name="sums where it should take the mean" judge="numbers" says="should be"
def rms_rows(x):
    def kernel(x_ref, o_ref):
        x = x_ref[...].astype(jnp.float32)
        o_ref[...] = (
            x * jax.lax.rsqrt(jnp.sum(x * x, axis=1, keepdims=True) + 1e-6)
        ).astype(o_ref.dtype)

    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(pl.cdiv(x.shape[0], 8),),
        in_specs=[block],
        out_specs=block,
    )(x)


# %% answer="03.12" name="two kernels" judge="exercise" says="above par.*(?s:.)*moves 3,407,872 bytes(?s:.)*2 kernels: what one passes to the\\s+next"
def two_products(x, w, v):
    def first(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.maximum(
            jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32), 0
        )

    def second(h_ref, v_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(h_ref[...], v_ref[...], preferred_element_type=jnp.float32)

    (rows, width), strips = x.shape, w.shape[1] // 128
    stays, strip = (
        pl.BlockSpec((rows, width), lambda j: (0, 0)),
        pl.BlockSpec((rows, 128), lambda j: (0, j)),
    )
    of_w, of_v = (
        pl.BlockSpec((width, 128), lambda j: (0, j)),
        pl.BlockSpec((128, width), lambda j: (j, 0)),
    )
    hidden = jax.ShapeDtypeStruct((rows, w.shape[1]), jnp.float32)
    h = pl.pallas_call(
        first, out_shape=hidden, grid=(strips,), in_specs=[stays, of_w], out_specs=strip
    )(x, w)
    return pl.pallas_call(
        second, out_shape=x, grid=(strips,), in_specs=[strip, of_v], out_specs=stays
    )(h, v)


# %% answer="03.12" name="fetches the weights for every 64 rows" judge="exercise" says="above par.*(?s:.)*w_ref is fetched 32 times: 2 MiB, 4\\s+times the whole array"
def two_products(x, w, v):
    def kernel(x_ref, w_ref, v_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        hidden = jnp.maximum(
            jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32), 0
        )
        o_ref[...] += jnp.dot(hidden, v_ref[...], preferred_element_type=jnp.float32)

    rows = pl.BlockSpec((64, x.shape[1]), lambda i, j: (i, 0))
    of_w = pl.BlockSpec((w.shape[0], 128), lambda i, j: (0, j))
    of_v = pl.BlockSpec((128, v.shape[1]), lambda i, j: (j, 0))
    steps = (x.shape[0] // 64, w.shape[1] // 128)
    return pl.pallas_call(
        kernel, out_shape=x, grid=steps, in_specs=[rows, of_w, of_v], out_specs=rows
    )(x, w, v)


# %% answer="03.12" name="keeps all weights in VMEM" judge="budget" says="It needs 1.125 MiB of\\s+VMEM; the budget is 768 KiB"
def two_products(x, w, v):
    def kernel(x_ref, w_ref, v_ref, o_ref):
        hidden = jnp.maximum(
            jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32), 0
        )
        o_ref[...] = jnp.dot(hidden, v_ref[...], preferred_element_type=jnp.float32)

    rows = pl.BlockSpec((64, x.shape[1]), lambda i: (i, 0))
    whole = [pl.BlockSpec(weights.shape, lambda i: (0, 0)) for weights in (w, v)]
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(x.shape[0] // 64,),
        in_specs=[rows, *whole],
        out_specs=rows,
    )(x, w, v)


# %% answer="03.12" name="never sets the sum to zero" judge="numbers" says="o_ref"
def two_products(x, w, v):
    def kernel(x_ref, w_ref, v_ref, o_ref):
        hidden = jnp.maximum(
            jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32), 0
        )
        o_ref[...] += jnp.dot(hidden, v_ref[...], preferred_element_type=jnp.float32)

    stays = pl.BlockSpec(x.shape, lambda j: (0, 0))
    of_w = pl.BlockSpec((w.shape[0], 128), lambda j: (0, j))
    of_v = pl.BlockSpec((128, v.shape[1]), lambda j: (j, 0))
    steps = (w.shape[1] // 128,)
    return pl.pallas_call(
        kernel, out_shape=x, grid=steps, in_specs=[stays, of_w, of_v], out_specs=stays
    )(x, w, v)


# %% answer="03.12" name="writes where it should add" judge="numbers" says="only what step .7,. computes remains"
def two_products(x, w, v):
    def kernel(x_ref, w_ref, v_ref, o_ref):
        hidden = jnp.maximum(
            jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32), 0
        )
        o_ref[...] = jnp.dot(hidden, v_ref[...], preferred_element_type=jnp.float32)

    stays = pl.BlockSpec(x.shape, lambda j: (0, 0))
    of_w = pl.BlockSpec((w.shape[0], 128), lambda j: (0, j))
    of_v = pl.BlockSpec((128, v.shape[1]), lambda j: (j, 0))
    steps = (w.shape[1] // 128,)
    return pl.pallas_call(
        kernel, out_shape=x, grid=steps, in_specs=[stays, of_w, of_v], out_specs=stays
    )(x, w, v)


# %% answer="03.12" name="puts the ReLU behind the second product" judge="numbers" says="After step .0,. o_ref.*should be .*, relu.x @\\s+w. @ v with the\\s+first\\s+strip(?s:.)*between the two matmuls"
def two_products(x, w, v):
    def kernel(x_ref, w_ref, v_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        hidden = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] += jnp.dot(hidden, v_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def relu():
            o_ref[...] = jnp.maximum(o_ref[...], 0)

    stays = pl.BlockSpec(x.shape, lambda j: (0, 0))
    of_w = pl.BlockSpec((w.shape[0], 128), lambda j: (0, j))
    of_v = pl.BlockSpec((128, v.shape[1]), lambda j: (j, 0))
    steps = (w.shape[1] // 128,)
    return pl.pallas_call(
        kernel, out_shape=x, grid=steps, in_specs=[stays, of_w, of_v], out_specs=stays
    )(x, w, v)


# %% answer="03.11" name="nothing below the root" judge="numbers" says="1e-6 is missing under the root"
# -    scale = jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6)
# +    scale = jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True))


# %% answer="03.11" name="cuts the columns as well" judge="numbers" says="but the result depends on 9 blocks"
def rms_rows(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...].astype(jnp.float32)
        scale = jax.lax.rsqrt(jnp.mean(v * v, axis=1, keepdims=True) + 1e-6)
        o_ref[...] = (v * scale).astype(o_ref.dtype)

    rows, columns = x.shape
    wide = min(columns, 512)
    block = pl.BlockSpec((64, wide), lambda i, j: (i, j))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(pl.cdiv(rows, 64), pl.cdiv(columns, wide)),
        in_specs=[block],
        out_specs=block,
    )(x)


# %% answer="03.11" name="has too few steps for many rows" judge="numbers" says="at the size that counts too, .1024, 4096."
# -        grid=(pl.cdiv(rows, 16),),
# +        grid=(min(pl.cdiv(rows, 16), 8),),
