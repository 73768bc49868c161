# Wrong answers to the exercises of lesson 2: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.

# %% answer="02.1" name="takes the whole chip's peak" judge="exercise" says="(?s)v4: .*by the bandwidth of one of its two cores"
flops_per_byte = {
    name: chips.chip(name).chip_flops / chips.chip(name).hbm_bandwidth
    for name in chips.NAMES
}

# %% answer="02.1" name="turns it round" judge="exercise" says="upside down: bytes for each FLOP"
flops_per_byte = {
    name: chips.chip(name).hbm_bandwidth / chips.chip(name).bf16_flops
    for name in chips.NAMES
}

# %% answer="02.1" name="takes int8 for bfloat16" judge="exercise" says="(?s)v5e: .*ratio with the peak of int8"
flops_per_byte = {"v5e": chips.chip("v5e").int8_ops / chips.chip("v5e").hbm_bandwidth}

# %% answer="02.1" name="takes bfloat16 for int8" judge="exercise" says="(?s)v5e, int8: .*ratio with the peak of bfloat16"
flops_per_byte = {
    "v5e, int8": chips.chip("v5e").bf16_flops / chips.chip("v5e").hbm_bandwidth
}

# %% answer="02.1" name="leaves one out" judge="exercise" says="5 of 6 are right.*(?s:.*)Not answered yet: v5e, int8"
flops_per_byte = {
    name: chips.chip(name).bf16_flops / chips.chip(name).hbm_bandwidth
    for name in chips.NAMES
}

# %% answer="02.1" name="takes the figures of a vendor's page" judge="exercise" says="(?s)v4: .*This course takes JAX's"
flops_per_byte = {"v4": 275e12 / 1200e9}

# %% answer="02.2" name="takes 95 GB for a v5p" judge="exercise" says="(?s)v5p: .*how many cores does the chip have"
once = {"v5e": "21 ms", "v5p": "38.6 ms", "tokens": 58.6}

# %% answer="02.2" name="takes GB for GiB" judge="exercise" says="A v5e has 16 GiB, which are 17.2 GB"
once = {"v5e": "19.5 ms", "v5p": "41.9 ms", "tokens": 58.6}

# %% answer="02.2" name="reads a whole v5p through one core" judge="exercise" says="Both cores read"
once = {"v5e": "21 ms", "v5p": "83.7 ms", "tokens": 58.6}

# %% answer="02.2" name="gives the time of a token" judge="exercise" says="time of one token in milliseconds"
once = {"v5e": "21 ms", "v5p": "41.9 ms", "tokens": 17.1}

# %% answer="02.2" name="has weights of one byte" judge="exercise" says="right for weights of one byte"
once = {"v5e": "21 ms", "v5p": "41.9 ms", "tokens": 117}

# %% answer="02.2" name="fills VMEM" judge="exercise" says="how long it takes to fill VMEM"
once = {"v5e": "163.7 us", "v5p": None, "tokens": None}

# %% answer="02.3" name="has one slot for the VPU" judge="exercise" says="How many slots does a bundle have"
units = {"share": "0.78 %", "operations": 16, "K = 32": "the MXU"}

# %% answer="02.3" name="turns the share round" judge="exercise" says="asks for the share, so turn it around"
units = {"share": "3200 %", "operations": 16, "K = 32": "the MXU"}

# %% answer="02.3" name="compares with one MXU" judge="exercise" says="all of the VPU with one MXU"
units = {"share": "12.5 %", "operations": 16, "K = 32": "the MXU"}

# %% answer="02.3" name="forgets one of the two products" judge="exercise" says="2 K FLOPs per score together"
units = {"share": "3.125 %", "operations": 8, "K = 32": "the MXU"}

# %% answer="02.3" name="fills an MXU with a narrow head" judge="exercise" says="stand empty"
units = {"share": "3.125 %", "operations": 16, "K = 32": "the VPU"}

# %% answer="02.3" name="blames the memory" judge="exercise" says="made in VMEM and used up there"
units = {"share": "3.125 %", "operations": 16, "K = 32": "HBM"}

# %% answer="02.4" name="takes Mi for a million" judge="exercise" says="67.1 million bytes"
links = {"one link": "1422 us", "first byte": "6 us", "all of it": "752 us"}

# %% answer="02.4" name="goes across a torus" judge="exercise" says="right on a torus"
links = {"one link": "1491 us", "first byte": "2 us", "all of it": "752 us"}

# %% answer="02.4" name="counts chips, not links" judge="exercise" says="How many links are between them"
links = {"one link": "1491 us", "first byte": "7 us", "all of it": "752 us"}

# %% answer="02.4" name="leaves the corner by one link" judge="exercise" says="over one link. How many links leave a corner"
links = {"one link": "1491 us", "first byte": "6 us", "all of it": "1491 us"}

# %% answer="02.4" name="has four links at the corner" judge="exercise" says="right for a chip in the middle"
links = {"one link": "1491 us", "first byte": "6 us", "all of it": "373 us"}

# %% answer="02.4" name="stores and forwards" judge="exercise" says="passes on the first bytes while the next ones come"
links = {"one link": "1491 us", "first byte": "6 us", "all of it": "8948 us"}

# %% answer="02.5" name="takes a column maximum for the XLU's" judge="exercise" says="A column lies in one lane"
unit_of = {"column max": "XLU"}

# %% answer="02.5" name="takes a row maximum for the VPU's" judge="exercise" says="A row lies across all lanes"
unit_of = {"column max": "VPU", "row max": "VPU"}

# %% answer="02.5" name="does not see the broadcast" judge="exercise" says="The column has one element per row"
unit_of = {"x * column": "VPU"}

# %% answer="02.5" name="thinks a power is made of products" judge="exercise" says="two and a half times"
unit_of = {"x ** 2.5": "VPU"}

# %% answer="02.5" name="turns the operand round first" judge="exercise" says="Is the transpose an operation of its own"
unit_of = {"q @ k.T": "XLU"}

# %% answer="02.5" name="says ALU" judge="exercise" says="not one of the options"
unit_of = {"x * row": "ALU"}

# %% answer="02.6" name="trusts DMA wait alone" judge="exercise" says="which takes longer: its cycles, or its bytes at full speed"
read = {"A": ("the latency of copies", "larger blocks")}

# %% answer="02.6" name="wants larger blocks where HBM binds" judge="exercise" says="How long do those bytes take at full speed"
read = {"A": ("the bandwidth of HBM", "larger blocks")}

# %% answer="02.6" name="blames bandwidth for short copies" judge="exercise" says="Divide its bytes by 820 GB/s"
read = {"B": ("the bandwidth of HBM", "fewer bytes")}

# %% answer="02.6" name="makes short copies shorter" judge="exercise" says="over a thousand cycles even if it moves none"
read = {"B": ("the latency of copies", "fewer bytes")}

# %% answer="02.6" name="takes waiting for work" judge="exercise" says="Is the core busy, or does it wait"
read = {"C": ("instructions", "a cheaper operation")}

# %% answer="02.6" name="makes the operation cheaper" judge="exercise" says="The slots are nearly empty"
read = {"C": ("the latency of the XLU", "a cheaper operation")}

# %% answer="02.7" name="blames the store" judge="exercise" says="Is there a memory for single values"
line = 4

# %% answer="02.7" name="blames the sum" judge="exercise" says="In which memory is it kept"
line = 7

# %% answer="02.7" name="blames the block" judge="exercise" says="(?s)line 12 is not the mistake.*does what it should.*The kernel writes a scalar to VMEM.*which unit writes there"
line = 12


# %% answer="02.8" name="goes on row by row" judge="exercise" says="(?s)times as long as a copy, predicted .compiler.*go to XLU.*a register has 8 rows"
def centre_kernel(x_ref, o_ref):
    def row(i, carry):
        v = x_ref[pl.ds(i, 1), :]
        o_ref[pl.ds(i, 1), :] = v - jnp.mean(v, axis=1, keepdims=True)
        return carry

    jax.lax.fori_loop(0, x_ref.shape[0], row, 0)


# %% answer="02.8" name="takes the mean of the columns" judge="numbers" says="mean.x. is taken along axis 0, but should(?s:.)*Next: take it along axis 1"
def centre_kernel(x_ref, o_ref):
    v = x_ref[...]
    o_ref[...] = v - jnp.mean(v, axis=0, keepdims=True)


# %% answer="02.8" name="takes the mean of everything" judge="numbers" says="mean.x. is taken over all axes, but(?s:.)*Next: take it along axis 1"
def centre_kernel(x_ref, o_ref):
    v = x_ref[...]
    o_ref[...] = v - jnp.mean(v)


# %% answer="02.8" name="divides by 256 whatever the width" judge="numbers" says="(?s)With arguments of float32.20,300.*256 is hard-coded in the kernel. With 300 in its place.*take a length from the ref"
def centre_kernel(x_ref, o_ref):
    v = x_ref[...]
    o_ref[...] = v - jnp.sum(v, axis=1, keepdims=True) / 256


# %% answer="02.8" name="takes eight rows more than there are" judge="numbers" says="read outside x_ref: .0:8, 0:130. of shape .5, 130."
def centre_kernel(x_ref, o_ref):
    def turn(i, carry):
        here = pl.ds(8 * i, 8)
        v = x_ref[here, :]
        o_ref[here, :] = v - jnp.mean(v, axis=1, keepdims=True)
        return carry

    jax.lax.fori_loop(0, pl.cdiv(x_ref.shape[0], 8), turn, 0)


# %% answer="02.8" name="takes eight rows in a turn" judge="numbers" says="Nothing has written o_ref.16:20."
def centre_kernel(x_ref, o_ref):
    def turn(i, carry):
        here = pl.ds(pl.multiple_of(8 * i, 8), 8)
        v = x_ref[here, :]
        o_ref[here, :] = v - jnp.mean(v, axis=1, keepdims=True)
        return carry

    jax.lax.fori_loop(0, x_ref.shape[0] // 8, turn, 0)


# %% answer="02.9" name="says too little" judge="exercise" says="words"
why = "There are no threads."

# %% answer="02.9" name="does not judge itself" judge="exercise" says="(?s)you are the judge.*assess"
# -checks.assess("02.9", "yes")

# %% answer="02.9" name="is no text" judge="exercise" says="text"
why = 1024


# %% answer="02.10" name="takes all rows, and nothing else" judge="exercise" says="(?s)your kernel takes.*20 times fewer.*could be done once a row"
def gated(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...]
        s = v / (1 + jnp.exp(-v))
        o_ref[...] = s / jnp.sqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


# %% answer="02.10" name="uses the approximate reciprocal" judge="numbers" says="approx=True., which is accurate to only a few digits"
def gated(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...]
        s = v * pltpu.reciprocal(1 + jnp.exp(-v), approx=True)
        o_ref[...] = s * jax.lax.rsqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


# %% answer="02.10" name="mends the approximate reciprocal once" judge="numbers" says="(?s)one Newton step makes that 16.*one more Newton step"
def gated(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...]
        d = 1 + jnp.exp(-v)
        r = pltpu.reciprocal(d, approx=True)
        s = v * r * (2 - d * r)
        o_ref[...] = s * jax.lax.rsqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


# %% answer="02.10" name="takes tanh for the gate" judge="numbers" says="the gate is tanh.x., which is between -1 and 1"
def gated(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...]
        s = v * jnp.tanh(v)
        o_ref[...] = s * jax.lax.rsqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


# %% answer="02.10" name="computes the gate outside the kernel" judge="exercise" says="part of it is not in the kernel"
def gated(x):
    def kernel(s_ref, o_ref):
        s = s_ref[...]
        o_ref[...] = s * jax.lax.rsqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)

    s = x * (0.5 * jnp.tanh(0.5 * x) + 0.5)
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(s)


# %% answer="02.10" name="forgets the second half of the gate" judge="numbers" says="the gate is tanh.x / 2."
def gated(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...]
        s = v * jnp.tanh(0.5 * v)
        o_ref[...] = s * jax.lax.rsqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


# %% answer="02.10" name="the root mean square of x" judge="numbers" says="not\\s+by\\s+that\\s+of\\s+the\\s+gated\\s+elements"
# -    o_ref[...] = s * jax.lax.rsqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)
# +    x = x_ref[...]
# +    o_ref[...] = s * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6)


# %% answer="02.11" name="leaves it in one block" judge="exercise" says="(?s)the score is above par.*DMA wait.*try two steps"
def gated(x):
    def kernel(x_ref, o_ref):
        half = 0.5 * x_ref[...]
        s = half * jnp.tanh(half) + half
        o_ref[...] = s * jax.lax.rsqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


# %% answer="02.11" name="makes the blocks too small" judge="exercise" says="(?s)the score is above par.*DMA wait.*each of 8 steps waits.*try fewer steps"
def gated(x):
    def kernel(x_ref, o_ref):
        half = 0.5 * x_ref[...]
        s = half * jnp.tanh(half) + half
        o_ref[...] = s * jax.lax.rsqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)

    block = pl.BlockSpec((64, x.shape[1]), lambda i: (i, 0))
    steps = (x.shape[0] // 64,)
    return pl.pallas_call(
        kernel, out_shape=x, grid=steps, in_specs=[block], out_specs=block
    )(x)


# %% answer="02.11" name="keeps the divisions" judge="exercise" says="the score is above par"
def gated(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...]
        s = v / (1 + jnp.exp(-v))
        o_ref[...] = s / jnp.sqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)

    block = pl.BlockSpec((128, x.shape[1]), lambda i: (i, 0))
    steps = (x.shape[0] // 128,)
    return pl.pallas_call(
        kernel, out_shape=x, grid=steps, in_specs=[block], out_specs=block
    )(x)


# %% answer="02.11" name="cuts the rows themselves" judge="numbers" says="is wrong"
def gated(x):
    def kernel(x_ref, o_ref):
        half = 0.5 * x_ref[...]
        s = half * jnp.tanh(half) + half
        o_ref[...] = s * jax.lax.rsqrt(jnp.mean(s * s, axis=1, keepdims=True) + 1e-6)

    block = pl.BlockSpec((256, 128), lambda i, j: (i, j))
    steps = (x.shape[0] // 256, x.shape[1] // 128)
    return pl.pallas_call(
        kernel, out_shape=x, grid=steps, in_specs=[block], out_specs=block
    )(x)


# %% answer="02.8" name="leaves the mean out where the cycles are counted" judge="numbers" says="at the size that counts too, .512, 256."
def centre_kernel(x_ref, o_ref):
    v = x_ref[...]
    o_ref[...] = v if v.shape[0] > 64 else v - jnp.mean(v, axis=1, keepdims=True)


# %% answer="02.8" name="adds the mean" judge="numbers" says="mean.x. is added, but should be subtracted(?s:.)*Next: subtract it once"
# -    o_ref[...] = v - jnp.mean(v, axis=1, keepdims=True)
# +    o_ref[...] = v + jnp.mean(v, axis=1, keepdims=True)


# %% answer="02.8" name="the mean in bfloat16" judge="numbers" says="(?s)nearly right.*storing\\s+values,\\s+or\\s+accumulating,\\s+in\\s+bfloat16"
# -    o_ref[...] = v - jnp.mean(v, axis=1, keepdims=True)
# +    o_ref[...] = v - jnp.mean(v.astype(jnp.bfloat16), axis=1, keepdims=True)


# %% answer="02.8" name="standardizes" judge="numbers" says="divided by its\\s+standard deviation"
# -    o_ref[...] = v - jnp.mean(v, axis=1, keepdims=True)
# +    o_ref[...] = jax.nn.standardize(v, axis=1)


# %% answer="02.8" name="subtracts the first column" judge="numbers" says="(?s)should depend on x.:,\\s+1:256.,\\s+but\\s+does\\s+not"
# -    o_ref[...] = v - jnp.mean(v, axis=1, keepdims=True)
# +    o_ref[...] = v - v[:, :1]


# %% answer="02.8" name="unrolls by 8" judge="compiler" says="A loop in it has 20 iterations and unroll=8(?s:.)*choose an unroll that divides 20"
def centre_kernel(x_ref, o_ref):
    def row(i, carry):
        v = x_ref[pl.ds(i, 1), :]
        o_ref[pl.ds(i, 1), :] = v - jnp.mean(v, axis=1, keepdims=True)
        return carry

    jax.lax.fori_loop(0, x_ref.shape[0], row, 0, unroll=8)
