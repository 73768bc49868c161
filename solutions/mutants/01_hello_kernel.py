# Wrong answers to the exercises of lesson 1: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.

# %% answer="01.1" name="forgets y" judge="numbers" says="at .0. is 0; it should be 1000"
def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...]


# %% answer="01.1" name="adds the refs, not what they hold" judge="numbers" says="arithmetic on a Ref.*not a value"
def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref + y_ref


# %% answer="01.1" name="returns the sum" judge="numbers" says="kernel returned a value.*writes into its output refs"
def add_kernel(x_ref, y_ref, o_ref):
    return x_ref[...] + y_ref[...]


# %% answer="01.1" name="gives the name o_ref to the sum" judge="numbers" says="writes nothing"
def add_kernel(x_ref, y_ref, o_ref):
    o_ref = x_ref[...] + y_ref[...]  # noqa: F841


# %% answer="01.1" name="writes half of the output" judge="numbers" says="(?s)Nothing has written o_ref.*2,048 of 4,096 elements are wrong"
def add_kernel(x_ref, y_ref, o_ref):
    half = x_ref.shape[0] // 2
    o_ref[:half] = x_ref[:half] + y_ref[:half]


# %% answer="01.1" name="adds to what is in the output" judge="numbers" says="(?s)is nan; it should be 1000.*o_ref is read before anything"
def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] += x_ref[...] + y_ref[...]


# %% answer="01.2" name="always promises float32" judge="numbers" says="wrote int32 values into a ref of float32"
# -    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)
# +    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, jnp.float32))(
# +        x, y
# +    )


# %% answer="01.2" name="computes in float32" judge="numbers" says="(?s)639 of 650 elements are wrong.*float32, which holds 24 bits"
# -        o_ref[...] = x_ref[...] + y_ref[...]
# +        total = x_ref[...].astype(jnp.float32) + y_ref[...].astype(jnp.float32)
# +        o_ref[...] = total.astype(o_ref.dtype)


# %% answer="01.2" name="adds outside the kernel" judge="exercise" says="arithmetic is outside the kernel: add"
def add_any(x, y):
    def kernel(total_ref, o_ref):
        o_ref[...] = total_ref[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x + y)


# %% answer="01.2" name="two cores write one block" judge="races" says="two cores may share it, but steps .0,. and .1,. both write block"
def add_any(x, y):
    from jax.experimental.pallas import tpu as pltpu

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(2,),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x, y)


# %% answer="01.2" name="knows one shape" judge="numbers" says="shape .5, 130. to a ref of shape .16, 256."
# -    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)
# +    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 256), x.dtype))(x, y)


# %% answer="01.2" name="does not call what pallas_call returns" judge="numbers" says="(?s)a function, not an array.*call it"
# -    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)
# +    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))


# %% answer="01.3" name="says no shape" judge="exercise" says="(?s)compute_output_shape.*Next: (define|write|add)"
# -    def compute_output_shape(self, input_shape):
# -        return input_shape[0]


# %% answer="01.3" name="says the shapes of both inputs" judge="exercise" says="it should be .None, 128."
# -        return input_shape[0]
# +        return input_shape


# %% answer="01.3" name="drops the keyword arguments" judge="exercise" says="(?s)read back, the layer is a PallasAdd named 'pallas_add.*kwargs"
#      """Add two inputs in a Pallas kernel."""
# +    def __init__(self, **kwargs):
# +        super().__init__()


# %% answer="01.3" name="takes no name" judge="exercise" says="(?s)does not take name=.*\\*\\*kwargs"
#      """Add two inputs in a Pallas kernel."""
# +    def __init__(self):
# +        super().__init__()


# %% answer="01.3" name="adds in call" judge="numbers" says="without a kernel"
# -        return add_vectors(x, y)
# +        return x + y


# %% answer="01.3" name="call takes two arrays" judge="numbers" says="one list of two arrays"
# -    def call(self, inputs):
# -        x, y = inputs
# +    def call(self, x, y):


# %% answer="01.4" name="counts in elements" judge="numbers" says="index map of x_ref asks for block .1024,.*(?s:.)*not element indices"
def configure(n):
    return (n // 1024,), (1024,), lambda i: (i * 1024,)


# %% answer="01.4" name="leaves out the last block" judge="numbers" says="No grid step writes output block .3,."
def configure(n):
    return (n // 1024 - 1,), (1024,), lambda i: (i,)


# %% answer="01.4" name="blocks of 100" judge="compiler" says="block .100,. of (input 0|x_ref) is not legal.*multiple of 1024"
def configure(n):
    return (-(-n // 100),), (100,), lambda i: (i,)


# %% answer="01.4" name="one block for all" judge="exercise" says="grid has one step"
def configure(n):
    return (1,), (n,), lambda i: (i,)


# %% answer="01.4" name="every block twice in a row" judge="exercise" says="8 steps, but the output has 4 blocks"
def configure(n):
    return (2 * n // 1024,), (1024,), lambda i: (i // 2,)


# %% answer="01.4" name="comes back to every block" judge="simulator" says="left VMEM after step .0,.*came back to it at step .4,."
def configure(n):
    return (2 * n // 1024,), (1024,), lambda i: (i % (n // 1024),)


# %% answer="01.5" name="still writes to x, in a condition" judge="numbers" says="writes to its input x_ref"
def scaled_add_kernel(x_ref, y_ref, o_ref):
    @pl.when(x_ref.shape[0] > 0)
    def scale():
        x_ref[...] = 2 * x_ref[...]

    o_ref[...] = x_ref[...] + y_ref[...]


# %% answer="01.5" name="writes to y instead" judge="numbers" says="writes to its input y_ref"
def scaled_add_kernel(x_ref, y_ref, o_ref):
    y_ref[...] += 2 * x_ref[...]
    o_ref[...] = y_ref[...]


# %% answer="01.5" name="scales y" judge="numbers" says="at .0. is 2000; it should be 1000"
def scaled_add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + 2 * y_ref[...]


# %% answer="01.5" name="puts x back afterwards" judge="numbers" says="writes to its input x_ref"
def scaled_add_kernel(x_ref, y_ref, o_ref):
    x_ref[...] *= 2
    o_ref[...] = x_ref[...] + y_ref[...]
    x_ref[...] /= 2


# %% answer="01.5" name="adds before it has written" judge="numbers" says="o_ref is read before anything"
def scaled_add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] *= 2
    o_ref[...] += y_ref[...]


# %% answer="01.5" name="doubles both" judge="numbers" says="y is doubled as well"
# -    o_ref[...] = 2 * x_ref[...] + y_ref[...]
# +    o_ref[...] = 2 * (x_ref[...] + y_ref[...])


# %% answer="01.5" name="doubles y" judge="numbers" says="x and y are\\s+exchanged"
# -    o_ref[...] = 2 * x_ref[...] + y_ref[...]
# +    o_ref[...] = x_ref[...] + 2 * y_ref[...]


# %% answer="01.6" name="forgets the unit" judge="exercise" says="(?s)unit is missing.*73,728 of what\\?"
moved = 73728

# %% answer="01.6" name="counts KB for KiB" judge="exercise" says="KB is not KiB: k, M and G are powers of 1,000"
moved = "72 KB"

# %% answer="01.6" name="forgets the output" judge="exercise" says="x and y, which go in\\. The sum has to come out"
moved = "48 KiB"

# %% answer="01.6" name="counts bits" judge="exercise" says="8 times too large: a byte has 8 bits"
moved = "589,824 bytes"

# %% answer="01.6" name="counts numbers" judge="exercise" says="how many elements move\\. How many bytes does one float32"
moved = "18432 bytes"

# %% answer="01.6" name="says how long it takes" judge="exercise" says="60 ns is a time.*asks for an amount of memory"
moved = "60 ns"

# %% answer="01.7" name="suspects the bias" judge="exercise" says="(?s)line 7 is not the mistake.*It is the right one at every step"
line = 7

# %% answer="01.7" name="suspects the kernel" judge="exercise" says="(?s)line 2 is not the mistake.*the arithmetic is right"
line = "o_ref[...] = x_ref[...] + b_ref[...]"

# %% answer="01.7" name="suspects the number of steps" judge="exercise" says="one step for each block of x"
line = 12

# %% answer="01.7" name="names a line that is not there" judge="exercise" says="give a number from 1 to 15"
line = 16

# %% answer="01.7" name="points at a blank line" judge="exercise" says="01.7 not yet: line 3 is blank\\."
line = 3.0

# %% answer="01.8" name="knows fold by heart" judge="exercise" says="(?s)leaves an output block and comes back.*Is the block ever left\\?"
judge = "simulator"

# %% answer="01.8" name="distrusts +=" judge="exercise" says="Step 0 writes the first block of x"
judge = "numbers"

# %% answer="01.8" name="suspects the block" judge="exercise" says="1024 is a multiple of 1024"
judge = "compiler"

# %% answer="01.8" name="suspects two cores" judge="exercise" says="Does this kernel declare one\\?"
judge = "Races"

# %% answer="01.8" name="misspells" judge="exercise" says="(?s)not one of the options.*did you mean .simulator.\\?"
judge = "simulatr"

# %% answer="01.9" name="says next to nothing" judge="exercise" says="4 different words; at least 12 are needed"
why = "They see different things."
checks.assess("01.9", "yes")

# %% answer="01.9" name="says one word many times" judge="exercise" says="1 different word; at least 12 are needed"
why = "because " * 20
checks.assess("01.9", "yes")

# %% answer="01.9" name="does not judge itself" judge="exercise" says="(?s)you are the judge.*Ours: .*then call checks.assess"
why = """The interpreter computes the numbers and the compiler knows which blocks are legal,
so that each of them passes a kernel that the other one refuses."""

# %% answer="01.9" name="finds something missing" judge="exercise" says="(?s)you said .partly.*A good answer mentions.*add what yours lacks"
why = """The interpreter computes the numbers and the compiler knows which blocks are legal,
so that each of them passes a kernel that the other one refuses."""
checks.assess("01.9", "partly")

# %% answer="01.9" name="judges itself in a word of its own" judge="exercise" says="(?s)you are the judge.*Ours: .*then call checks.assess"
why = """The interpreter computes the numbers and the compiler knows which blocks are legal,
so that each of them passes a kernel that the other one refuses."""
checks.assess("01.9", "nearly")


# %% answer="01.10" name="rounds the number of blocks down" judge="numbers" says="No grid step writes output block .2,.*(?s:.)*pl.cdiv"
# -        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
# -        grid=(pl.cdiv(x.size, 1024),),
# -        in_specs=[block, block, block],
# +        out_shape=x,
# +        grid=(x.size // 1024,),
# +        in_specs=[block] * 3,


# %% answer="01.10" name="takes all of it at once" judge="exercise" says="For vectors of 2,097,152 elements, blend needs 32 MiB of VMEM"
def blend(x, y, t):
    def kernel(x_ref, y_ref, t_ref, o_ref):
        o_ref[...] = x_ref[...] + t_ref[...] * (y_ref[...] - x_ref[...])

    return pl.pallas_call(kernel, out_shape=x)(x, y, t)


# %% answer="01.10" name="cuts everything into four" judge="numbers" says="With arguments of float32.130.*(?s:.)*No grid step writes"
def blend(x, y, t):
    def kernel(x_ref, y_ref, t_ref, o_ref):
        o_ref[...] = x_ref[...] + t_ref[...] * (y_ref[...] - x_ref[...])

    block = pl.BlockSpec((x.size // 4,), lambda i: (i,))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(4,), in_specs=[block] * 3, out_specs=block
    )(x, y, t)


# %% answer="01.10" name="swaps x and y" judge="numbers" says="Output block .0,., written at step .0,., is wrong"
def blend(x, y, t):
    def kernel(x_ref, y_ref, t_ref, o_ref):
        o_ref[...] = y_ref[...] + t_ref[...] * (x_ref[...] - y_ref[...])

    block = pl.BlockSpec((1024,), lambda i: (i,))
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(pl.cdiv(x.size, 1024),),
        in_specs=[block] * 3,
        out_specs=block,
    )(x, y, t)


# %% answer="01.10" name="counts elements in the index map" judge="numbers" says="asks for block .1024,"
def blend(x, y, t):
    def kernel(x_ref, y_ref, t_ref, o_ref):
        o_ref[...] = x_ref[...] + t_ref[...] * (y_ref[...] - x_ref[...])

    block = pl.BlockSpec((1024,), lambda i: (1024 * i,))
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(pl.cdiv(x.size, 1024),),
        in_specs=[block] * 3,
        out_specs=block,
    )(x, y, t)


# %% answer="01.10" name="writes one spec for three inputs" judge="numbers" says="in_specs"
def blend(x, y, t):
    def kernel(x_ref, y_ref, t_ref, o_ref):
        o_ref[...] = x_ref[...] + t_ref[...] * (y_ref[...] - x_ref[...])

    block = pl.BlockSpec((1024,), lambda i: (i,))
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(pl.cdiv(x.size, 1024),),
        in_specs=[block],
        out_specs=block,
    )(x, y, t)


# %% answer="01.10" name="blends the other way round" judge="numbers" says="x and y are\\s+exchanged"
# -    o_ref[...] = x_ref[...] + t_ref[...] * (y_ref[...] - x_ref[...])
# +    o_ref[...] = y_ref[...] + t_ref[...] * (x_ref[...] - y_ref[...])


# %% answer="01.10" name="leaves a long vector's last blocks out" judge="numbers" says="at the size that counts too, .2097152,."
# -        grid=(pl.cdiv(x.size, 1024),),
# +        grid=(min(pl.cdiv(x.size, 1024), 16),),


# %% answer="01.11" name="fetches x for each of the four" judge="exercise" says="above par.*(?s:.)*moves 196,608 bytes(?s:.)*x_ref is fetched 16 times: 64 KiB, 4\\s+times the whole array"
def add_to_each(x, ys):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    blocks, one = x.size // 1024, pl.BlockSpec((1024,), lambda i: (i,))
    again = pl.BlockSpec((1024,), lambda i: (i % blocks,))
    return pl.pallas_call(
        kernel, out_shape=ys, grid=(4 * blocks,), in_specs=[again, one], out_specs=one
    )(x, ys)


# %% answer="01.11" name="copies x four times before" judge="exercise" says="Outside the kernels, tile moves 81,920 of them"
def add_to_each(x, ys):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    block = pl.BlockSpec((1024,), lambda i: (i,))
    steps = (ys.size // 1024,)
    return pl.pallas_call(
        kernel, out_shape=ys, grid=steps, in_specs=[block, block], out_specs=block
    )(jnp.tile(x, 4), ys)


# %% answer="01.11" name="has all of it in VMEM" judge="budget" says="It needs 144 KiB of VMEM; the budget is 96 KiB"
def add_to_each(x, ys):
    def kernel(x_ref, y_ref, o_ref):
        for i in range(4):
            part = pl.ds(i * x.size, x.size)
            o_ref[part] = x_ref[...] + y_ref[part]

    return pl.pallas_call(kernel, out_shape=ys)(x, ys)


# %% answer="01.11" name="lets x stay and ys go on" judge="numbers" says="should be"
def add_to_each(x, ys):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    blocks, one = x.size // 1024, pl.BlockSpec((1024,), lambda i: (i,))
    stays = pl.BlockSpec((1024,), lambda i: (i // 4,))
    return pl.pallas_call(
        kernel, out_shape=ys, grid=(4 * blocks,), in_specs=[stays, one], out_specs=one
    )(x, ys)


# %% answer="01.11" name="forgets the output's index map" judge="numbers" says="should be"
def add_to_each(x, ys):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    blocks, one = x.size // 1024, pl.BlockSpec((1024,), lambda i: (i,))
    stays = pl.BlockSpec((1024,), lambda i: (i // 4,))
    each = pl.BlockSpec((1024,), lambda i: (i % 4 * blocks + i // 4,))
    return pl.pallas_call(
        kernel, out_shape=ys, grid=(4 * blocks,), in_specs=[stays, each], out_specs=one
    )(x, ys)


# %% answer="01.11" name="makes one vector of the four" judge="numbers" says="No grid step writes output block .1,"
def add_to_each(x, ys):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    block = pl.BlockSpec((x.size,), lambda i: (0,))
    return pl.pallas_call(
        kernel, out_shape=ys, grid=(1,), in_specs=[block, block], out_specs=block
    )(x, ys)
