# Wrong answers to the exercises of lesson 6: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.

# %% answer="06.1" name="packs the numbers back to back" judge="exercise" says="(?s)A: .*back\\s+to\\s+back.*rows\\s+are\\s+padded"
filled = {"A": (10, "24.9 %")}

# %% answer="06.1" name="lets slices share a register" judge="exercise" says="(?s)B: .*two\\s+slices\\s+of\\s+4\\s+rows\\s+shared\\s+a\\s+register"
filled = {"A": (13, "24.9 %"), "B": (5, "50 %")}

# %% answer="06.1" name="rounds three rows up to eight" judge="exercise" says="(?s)C: .*stored\\s+in\\s+tiles\\s+of\\s+4"
filled = {"C": (8, "67 %")}

# %% answer="06.1" name="takes bfloat16 for float32" judge="exercise" says="(?s)D: .*How\\s+many\\s+rows\\s+of\\s+bfloat16\\s+does\\s+a\\s+register\\s+hold"
filled = {"D": (12, "60.9 %")}

# %% answer="06.1" name="says what is full" judge="exercise" says="(?s)A: .*asks\\s+for\\s+the\\s+share\\s+that\\s+is\\s+empty"
filled = {"A": (13, "75.1 %")}

# %% answer="06.1" name="lays a column side by side" judge="exercise" says="(?s)F: .*Here\\s+each\\s+has\\s+its\\s+own\\s+row"
filled = {"F": (1, "51.2 %")}

# %% answer="06.2" name="thinks a logarithm is expensive" judge="exercise" says="(?s)log.x.: .*40 to 160.*unit\\s+for\\s+logarithms"
price_of = {"log(x)": "10 to 40"}

# %% answer="06.2" name="thinks a remainder is a division" judge="exercise" says="(?s)n % m: .*8 to 20 VPU.*Which\\s+unit\\s+divides\\s+integers"
price_of = {"n % m": "2 to 5"}

# %% answer="06.2" name="thinks a root is one operation" judge="exercise" says="(?s)sqrt.x.: .*room\\s+for\\s+four.*Is\\s+it\\s+exact"
price_of = {"sqrt(x)": "1 cycle"}

# %% answer="06.2" name="gives cycles" judge="exercise" says="not one of the options"
price_of = {"cos(x)": "37 cycles"}

# %% answer="06.3" name="thinks rows must be aligned" judge="exercise" says="(?s)A: .*directly\\s+follows\\s+the\\s+one\\s+before"
slices = {"A": "expensive"}

# %% answer="06.3" name="thinks lanes are free" judge="exercise" says="(?s)B: .*Which\\s+unit\\s+moves\\s+it"
slices = {"A": "free", "B": "free"}

# %% answer="06.3" name="trusts a multiple of four" judge="exercise" says="(?s)E: .*multiple\\s+of\\s+4,\\s+but\\s+is\\s+it\\s+always\\s+a\\s+multiple\\s+of\\s+8"
slices = {"E": "free"}

# %% answer="06.3" name="takes int8 for float32" judge="exercise" says="(?s)F: .*Four\\s+int8\\s+rows"
slices = {"F": "free"}


# %% answer="06.4" name="leaves the numbers where they are" judge="exercise" says="(?s)the\\s+core\\s+takes.*a\\s+fifth\\s+of\\s+what\\s+slow_energy\\s+takes.*along\\s+which\\s+axis\\s+the\\s+16\\s+values"
def energy(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...]
        o_ref[...] = jnp.sum(v * v, axis=1)

    return pl.pallas_call(kernel, out_shape=array(x.shape[0]))(x)


# %% answer="06.4" name="transposes in the kernel" judge="exercise" says="(?s)the\\s+core\\s+takes.*outside\\s+the\\s+kernel\\s+does\\s+not\\s+count"
def energy(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...].T
        o_ref[...] = jnp.sum(v * v, axis=0, keepdims=True)

    return pl.pallas_call(kernel, out_shape=array(1, x.shape[0]))(x).reshape(x.shape[0])


# %% answer="06.4" name="forgets to square" judge="numbers" says="without\\s+being\\s+squared"
# -        v = x_ref[...]
# -        o_ref[...] = jnp.sum(v * v, axis=0)
# +        o_ref[...] = jnp.sum(x_ref[...], axis=0)


# %% answer="06.4" name="reshapes without the transpose" judge="numbers" says="(?s)not\\s+transposed.*side\\s+by\\s+side"
# -    blocks = x.T.reshape(16, points // 128, 128)
# +    blocks = x.reshape(16, points // 128, 128)


# %% answer="06.4" name="sums outside the kernel" judge="exercise" says="Part of the arithmetic is outside"
def energy(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * x_ref[...]

    return jnp.sum(pl.pallas_call(kernel, out_shape=array(*x.shape))(x), axis=1)


# %% answer="06.4" name="squares the sum" judge="numbers" says="the\\s+sum\\s+is\\s+squared,\\s+and\\s+not\\s+each\\s+value"
# -        o_ref[...] = jnp.sum(v * v, axis=0)
# +        o_ref[...] = jnp.sum(v, axis=0) ** 2


# %% answer="06.5" name="hands over a column" judge="budget" says="(?s)rows_ref .*tiles of 8 x 128"
# -    rows_ref[...] = jnp.sum(v, axis=1, keepdims=True).T
# +    rows_ref[...] = jnp.sum(v, axis=1, keepdims=True)

# -    rows, columns = pl.pallas_call(both_kernel, out_shape=(array(1, m), array(1, n)))(x)
# +    rows, columns = pl.pallas_call(both_kernel, out_shape=(array(m, 1), array(1, n)))(x)


# %% answer="06.5" name="turns all of x round" judge="exercise" says="(?s)the\\s+core\\s+takes.*at\\s+most\\s+500.*adding\\s+registers\\s+to\\s+registers"
# -    rows_ref[...] = jnp.sum(v, axis=1, keepdims=True).T
# +    rows_ref[...] = jnp.sum(v.T, axis=0, keepdims=True)


# %% answer="06.5" name="leaves the sums to one pass of the MXU" judge="exercise" says="(?s)no precision.*rounds them to bfloat16"
# -    rows_ref[...] = jnp.sum(v, axis=1, keepdims=True).T
# +    along = (((1,), (1,)), ((), ()))
# +    rows_ref[...] = jax.lax.dot_general(jnp.ones((1, v.shape[1])), v, along)


# %% answer="06.5" name="has the two the wrong way round" judge="numbers" says="are swapped"
def both_kernel(x_ref, rows_ref, columns_ref):
    rows_ref[...] = jnp.sum(x_ref[...], axis=0)
    columns_ref[...] = jnp.sum(x_ref[...], axis=1)


def both_sums(x):
    m, n = x.shape
    return pl.pallas_call(both_kernel, out_shape=(array(n), array(m)))(x)


# %% answer="06.5" name="takes the mean of the rows" judge="numbers" says="the\\s+means\\s+of\\s+the\\s+rows"
def both_kernel(x_ref, rows_ref, columns_ref):
    rows_ref[...] = jnp.mean(x_ref[...], axis=1)
    columns_ref[...] = jnp.sum(x_ref[...], axis=0)


def both_sums(x):
    m, n = x.shape
    return pl.pallas_call(both_kernel, out_shape=(array(m), array(n)))(x)


# %% answer="06.6" name="leaves the sine" judge="exercise" says="(?s)the\\s+core\\s+takes.*an\\s+eighth\\s+of\\s+what\\s+slow_ripple\\s+takes.*price\\s+each\\s+part"
def ripple_kernel(a_ref, p_ref, x_ref, s_ref, o_ref):
    power = jnp.exp2(p_ref[...] * jnp.log2(a_ref[...]))
    o_ref[...] = power * jnp.sin(x_ref[...]) * (1 / s_ref[...])


# %% answer="06.6" name="divides each number" judge="exercise" says="an\\s+eighth\\s+of\\s+what\\s+slow_ripple\\s+takes"
def ripple_kernel(a_ref, p_ref, x_ref, s_ref, o_ref):
    x, y = x_ref[...], x_ref[...] * x_ref[...]
    sine = x * (1 + y * (-1 / 6 + y * (1 / 120)))
    o_ref[...] = a_ref[...] ** p_ref[...] * sine / s_ref[...]


# %% answer="06.6" name="takes two terms of the sine" judge="numbers" says="off\\s+by\\s+6\\s+%"
def ripple_kernel(a_ref, p_ref, x_ref, s_ref, o_ref):
    x = x_ref[...]
    power = jnp.exp2(p_ref[...] * jnp.log2(a_ref[...]))
    o_ref[...] = power * (x - x * x * x / 6) * (1 / s_ref[...])


# %% answer="06.6" name="takes x for its sine" judge="numbers" says="good\\s+for\\s+small\\s+angles\\s+only"
def ripple_kernel(a_ref, p_ref, x_ref, s_ref, o_ref):
    power = jnp.exp2(p_ref[...] * jnp.log2(a_ref[...]))
    o_ref[...] = power * x_ref[...] * (1 / s_ref[...])


# %% answer="06.6" name="mixes the bases" judge="numbers" says="different\\s+bases"
def ripple_kernel(a_ref, p_ref, x_ref, s_ref, o_ref):
    x, y = x_ref[...], x_ref[...] * x_ref[...]
    sine = x * (1 + y * (-1 / 6 + y * (1 / 120)))
    o_ref[...] = jnp.exp(p_ref[...] * jnp.log2(a_ref[...])) * sine * (1 / s_ref[...])


# %% answer="06.6" name="base and exponent exchanged" judge="numbers" says="base\\s+and\\s+exponent\\s+are\\s+exchanged"
# -    power = jnp.exp2(p_ref[...] * jnp.log2(a_ref[...]))
# +    power = jnp.exp2(a_ref[...] * jnp.log2(p_ref[...]))


# %% answer="06.7" name="makes eight columns" judge="budget" says="a row of 32 bytes moves 512"
def decay(t):
    narrow = t.reshape(-1, 8)
    return pl.pallas_call(decay_kernel, out_shape=narrow)(narrow).reshape(t.shape)


# %% answer="06.7" name="takes larger blocks of the column" judge="budget" says="a row of 4 bytes moves 512"
def decay(t):
    column = t.reshape(-1, 1)
    block = pl.BlockSpec((1024, 1), lambda i: (i, 0))
    call = pl.pallas_call(
        decay_kernel,
        out_shape=column,
        grid=(t.size // 1024,),
        in_specs=[block],
        out_specs=block,
    )
    return call(column).reshape(t.shape)


# %% answer="06.7" name="forgets the factor" judge="numbers" says="factor\\s+t\\s+is\\s+missing"
def decay(t):
    def kernel(t_ref, o_ref):
        o_ref[...] = jnp.exp(-t_ref[...])

    lanes = t.reshape(-1, 128)
    return pl.pallas_call(kernel, out_shape=lanes)(lanes).reshape(t.shape)


# %% answer="06.7" name="has blocks of 100" judge="compiler" says="100"
def decay(t):
    block = pl.BlockSpec((100,), lambda i: (i,))
    return pl.pallas_call(
        decay_kernel,
        out_shape=t,
        grid=(pl.cdiv(t.size, 100),),
        in_specs=[block],
        out_specs=block,
    )(t)


# %% answer="06.7" name="the sizes of the example" judge="numbers" says="take the sizes from the array's\\s+own shape"
def decay(t):
    return pl.pallas_call(
        decay_kernel, out_shape=jax.ShapeDtypeStruct((64, 128), jnp.float32)
    )(t.reshape(64, 128)).reshape(8192)


# %% answer="06.8" name="reshapes in the kernel" judge="exercise" says="(?s)the\\s+core\\s+takes.*slow_heads\\s+takes\\s+2.5\\s+times.*trips\\s+to\\s+the\\s+XLU"
def normed_heads(x):
    return pl.pallas_call(slow_heads_kernel, out_shape=x)(x)


# %% answer="06.8" name="divides by the whole row" judge="numbers" says="the\\s+whole\\s+row"
def normed_heads(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...]
        o_ref[...] = v * jax.lax.rsqrt(jnp.mean(v * v, axis=1, keepdims=True) + 1e-6)

    return pl.pallas_call(kernel, out_shape=x)(x)


# %% answer="06.8" name="takes two heads for one" judge="numbers" says="two\\s+heads\\s+were\\s+taken\\s+as\\s+one"
def normed_heads(x):
    def kernel(x_ref, o_ref):
        for start in range(0, x_ref.shape[1], 128):
            v = x_ref[:, start : start + 128]
            mean = jnp.mean(v * v, axis=1, keepdims=True)
            o_ref[:, start : start + 128] = v * jax.lax.rsqrt(mean + 1e-6)

    return pl.pallas_call(kernel, out_shape=x)(x)


# %% answer="06.8" name="takes the means by one pass of the MXU" judge="exercise" says="(?s)no precision.*rounds them to bfloat16"
def normed_heads(x):
    def kernel(x_ref, o_ref):
        row = jax.lax.broadcasted_iota(jnp.int32, (128, 128), 0) < 64
        column = jax.lax.broadcasted_iota(jnp.int32, (128, 128), 1) < 64
        mean = jnp.where(row == column, 1 / 64, 0.0)
        for start in range(0, x_ref.shape[1], 128):
            v = x_ref[:, start : start + 128]
            scale = jax.lax.rsqrt(jnp.dot(v * v, mean) + 1e-6)
            o_ref[:, start : start + 128] = v * scale

    return pl.pallas_call(kernel, out_shape=x)(x)


# %% answer="06.8" name="gives each head rows of its own" judge="budget" says="(?s)64"
def normed_heads(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...]
        o_ref[...] = v * jax.lax.rsqrt(jnp.mean(v * v, axis=1, keepdims=True) + 1e-6)

    heads = x.reshape(-1, 64)
    return pl.pallas_call(kernel, out_shape=heads)(heads).reshape(x.shape)


# %% answer="06.9" name="divides as written" judge="exercise" says="above par"
def minutes(s):
    def kernel(s_ref, o_ref):
        o_ref[...] = s_ref[...] // 60 % 60

    return pl.pallas_call(kernel, out_shape=s)(s)


# %% answer="06.9" name="multiplies by too short a number" judge="numbers" says="(?s)comes\\s+out\\s+just\\s+below\\s+the\\s+minute.*a\\s+little\\s+too\\s+large"
def minutes(s):
    def kernel(s_ref, o_ref):
        since_midnight = s_ref[...] * 1092 >> 16
        o_ref[...] = since_midnight - 60 * (since_midnight * 1092 >> 16)

    return pl.pallas_call(kernel, out_shape=s)(s)


# %% answer="06.9" name="counts from midnight" judge="numbers" says="minutes\\s+since\\s+midnight"
def minutes(s):
    def kernel(s_ref, o_ref):
        o_ref[...] = s_ref[...] // 60

    return pl.pallas_call(kernel, out_shape=s)(s)


# %% answer="06.8" name="nothing below the root" judge="numbers" says="1e-6\\s+is\\s+missing\\s+under\\s+the\\s+root"
# -        o_ref[:, lanes] = pair * jax.lax.rsqrt(mean + 1e-6)
# +        o_ref[:, lanes] = pair * jax.lax.rsqrt(mean)


# %% answer="06.5" name="a kernel for each sum" judge="budget" says="2 kernels each read the argument"
def both_sums(x):
    m, n = x.shape

    def sum_rows(x_ref, o_ref):
        o_ref[...] = jnp.sum(x_ref[...], axis=1)

    def sum_columns(x_ref, o_ref):
        o_ref[...] = jnp.sum(x_ref[...], axis=0)

    rows = pl.pallas_call(sum_rows, out_shape=array(m))(x)
    return rows, pl.pallas_call(sum_columns, out_shape=array(n))(x)


# %% answer="06.8" name="eight steps" judge="exercise" says="your\\s+grid\\s+has\\s+8\\s+steps"
# -    return pl.pallas_call(heads_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
# +    block = pl.BlockSpec((32, x.shape[1]), lambda i: (i, 0))
# +    return pl.pallas_call(
# +        heads_kernel,
# +        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
# +        grid=(pl.cdiv(x.shape[0], 32),),
# +        in_specs=[block],
# +        out_specs=block,
# +    )(x)


# %% answer="06.9" name="a reciprocal that is too small" judge="numbers" says="comes\\s+out\\s+just\\s+below\\s+the\\s+minute"
# -    since_midnight = (s >> 2) * 34953 >> 19
# +    since_midnight = (s >> 2) * 4369 >> 16


# %% answer="06.9" name="four steps" judge="exercise" says="each of 4 steps waits"
# -    block = pl.BlockSpec((s.shape[0] // 2, s.shape[1]), lambda i: (i, 0))
# +    block = pl.BlockSpec((s.shape[0] // 4, s.shape[1]), lambda i: (i, 0))

# -        grid=(2,),
# +        grid=(4,),

# %% answer="06.8" name="norms nothing where the cycles are counted" judge="numbers" says="at the size that counts too, .256, 256."
# -        o_ref[:, lanes] = pair * jax.lax.rsqrt(mean + 1e-6)
# +        scale = jax.lax.rsqrt(mean + 1e-6) if x_ref.shape[0] < 256 else 1.0
# +        o_ref[:, lanes] = pair * scale


# %% answer="06.8" name="absolute values for squares" judge="numbers" says="the absolute value of x is used instead of its square"
# -        squares = pair * pair
# +        squares = jnp.abs(pair)


# %% answer="06.8" name="divides by the width of a register" judge="numbers" says="128 is hard-coded in the kernel. With 64 in its place(?s:.)*If you mean the length of a part, write 64"
# -        mean = jnp.where(first, left, right) / 64
# +        mean = jnp.where(first, left, right) / 128


# %% answer="06.9" name="a product that overflows" judge="numbers" says="(?s)The output is right where s is below 61,440.*shift\\s+s\\s+down before you multiply"
# -    since_midnight = (s >> 2) * 34953 >> 19
# +    since_midnight = s * 34953 >> 21


# %% answer="06.9" name="through bfloat16" judge="numbers" says="(?s)converts integers to bfloat16, which holds 8 bits.*up to 86,399"
# -    s = s_ref[...]
# +    s = s_ref[...].astype(jnp.bfloat16).astype(jnp.int32)


# %% answer="06.9" name="hours of 64 minutes" judge="numbers" says="(?s)hours\\s+are\\s+minutes\\s+/\\s+64"
# -    hours = (s >> 4) * 37283 >> 23
# +    hours = since_midnight >> 6


# %% answer="06.9" name="rounds to the nearest" judge="numbers" says="(?s)too\\s+large by 1.*to\\s+the\\s+nearest,\\s+instead\\s+of\\s+down"
# -    since_midnight = (s >> 2) * 34953 >> 19
# +    since_midnight = jnp.round(s.astype(jnp.float32) / 60).astype(jnp.int32)


# %% answer="06.9" name="an hour that is too short" judge="numbers" says="(?s)late in\\s+the\\s+day\\s+the\\s+hours\\s+come\\s+a\\s+second\\s+too\\s+early"
# -    hours = (s >> 4) * 37283 >> 23
# +    hours = (s >> 4) * 146 >> 15


# %% answer="06.9" name="shifts one bit too far" judge="numbers" says="shifted one bit too far: with a shift (?s:.)*by 19 instead of 20"
# -    since_midnight = (s >> 2) * 34953 >> 19
# +    since_midnight = (s >> 2) * 34953 >> 20
