# Wrong answers to the exercises of lesson 3. Each stands in the place of the answer cell; `judge` must refuse it, and
# the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.

# %% answer="03.1" name="forgets the result" judge="exercise" says="x and y, which go in\\. The sum has to come out"
least = "654.7 us"

# %% answer="03.1" name="counts FLOPs" judge="exercise" says="(?s)additions, at the peak of the MXU.*Is it they that take"
least = "341 ns"

# %% answer="03.1" name="takes Mi for a million" judge="exercise" says="64 Mi is 64 times 1,048,576"
least = "0.9366 ms"

# %% answer="03.1" name="says how many bytes" judge="exercise" says="an amount of memory \\(bytes\\); asked is a time"
least = "768 MiB"

# %% answer="03.1" name="rounds too far" judge="exercise" says="(?s)Close, and a little too large.*keep one more digit"
least = "1 ms"

# %% answer="03.1" name="forgets the unit" judge="exercise" says="the unit is missing"
least = 982


# %% answer="03.2" name="counts a multiply-add as one" judge="exercise" says="(?s)look at the FLOPs.*multiplied and added: two"
def matmul_cost(m, k, n, itemsize):
    flops = m * k * n
    moved = (m * k + k * n + m * n) * itemsize
    return flops, moved, flops / moved


# %% answer="03.2" name="forgets the result" judge="exercise" says="(?s)look at the bytes.*The result has to come out"
def matmul_cost(m, k, n, itemsize):
    flops = 2 * m * k * n
    moved = (m * k + k * n) * itemsize
    return flops, moved, flops / moved


# %% answer="03.2" name="counts k - 1 additions" judge="exercise" says="k products need k - 1 additions"
def matmul_cost(m, k, n, itemsize):
    flops = m * n * (2 * k - 1)
    moved = (m * k + k * n + m * n) * itemsize
    return flops, moved, flops / moved


# %% answer="03.2" name="turns the intensity round" judge="exercise" says="upside down: an intensity is FLOPs per byte"
def matmul_cost(m, k, n, itemsize):
    flops = 2 * m * k * n
    moved = (m * k + k * n + m * n) * itemsize
    return flops, moved, moved / flops


# %% answer="03.2" name="returns the bytes first" judge="exercise" says="(?s)for the FLOPs is the bytes.*in this order: the FLOPs"
def matmul_cost(m, k, n, itemsize):
    flops = 2 * m * k * n
    moved = (m * k + k * n + m * n) * itemsize
    return moved, flops, flops / moved


# %% answer="03.2" name="returns the intensity only" judge="exercise" says="asked for are 3 numbers.*(?s:.*)in this order"
def matmul_cost(m, k, n, itemsize):
    return 2 * m * k * n / ((m * k + k * n + m * n) * itemsize)


# %% answer="03.3" name="makes the result bfloat16" judge="exercise" says="right if the result were bfloat16, too"
crossover = 1683

# %% answer="03.3" name="takes all for float32" judge="exercise" says="right if x and y were float32 as well"
crossover = 3366

# %% answer="03.3" name="stays on the v5e" judge="exercise" says="crossover on a v5e.*(?s:.*)about a v6e"
crossover = 961

# %% answer="03.3" name="repeats the lesson's" judge="exercise" says="(?s)Two slips.*mend both"
crossover = 721

# %% answer="03.3" name="gives the ridge point" judge="exercise" says="What N has a product of that intensity"
crossover = "561"

# %% answer="03.3" name="gives an intensity" judge="exercise" says="an intensity .FLOPs per byte.; asked is a plain number"
crossover = "561 FLOP/B"

# %% answer="03.4" name="has weights of two bytes" judge="exercise" says="right for weights of two bytes"
batch = 240

# %% answer="03.4" name="takes the int8 peak" judge="exercise" says="The products are bfloat16\\. Is the int8 peak theirs"
batch = 480

# %% answer="03.4" name="takes 720 from the lesson" judge="exercise" says="crossover of square products"
batch = 720

# %% answer="03.4" name="takes a layer of 2048" judge="exercise" says="(?s)Two slips: that is a layer of 2048.*mend both"
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


# %% answer="03.5" name="lets groups share the arithmetic" judge="exercise" says="Each of them still multiplies by itself"
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

# %% answer="03.6" name="uses one link of the ring" judge="exercise" says="both neighbours at once: two links"
gathers = {"ring": "1398 us", "line": None, "small": None}

# %% answer="03.6" name="uses all four links of 45 GB/s" judge="exercise" says="an axis of the torus, a ring, has two"
gathers = {"ring": "349.5 us", "line": None, "small": None}

# %% answer="03.6" name="closes the line" judge="exercise" says="(?s)the end of the line has one neighbour.*Right so far: ring"
gathers = {"ring": "699 us", "line": "559 us", "small": None}

# %% answer="03.6" name="forgets the hops" judge="exercise" says="(?s)small: .*each hop costs its time.*Right so far: ring, line"
gathers = {"ring": "699 us", "line": "1118 us", "small": "68 ns"}

# %% answer="03.6" name="leaves one out" judge="exercise" says="(?s)2 of 3 are right.*Still open: small"
gathers = {"ring": "699 us", "line": "1118 us", "small": None}

# %% answer="03.7" name="believes the comment" judge="exercise" says="(?s)A: .stands. is not the one.*On which side of it"
verdicts = {"A": ("stands", "1365 FLOP/B")}

# %% answer="03.7" name="counts as if bfloat16" judge="exercise" says="right for bfloat16\\. The claim is about float32"
verdicts = {"A": ("falls", "2731 FLOP/B")}

# %% answer="03.7" name="suspects all five" judge="exercise" says="(?s)C: .falls. is not the one.*Right so far: A, B, D, E"
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

# %% answer="03.7" name="gives no numbers" judge="exercise" says="(?s)A: that is not 2 answers.*between round brackets"
verdicts = {"A": "falls", "B": "falls", "C": "stands", "D": "falls", "E": "falls"}

# %% answer="03.8" name="forgets the steps" judge="exercise" says="(?s)triangle: .*two operations, and steps cost as well.*mend both"
guesses = {"XLA, 16384": "45 ms", "triangle": "11.2 ms", "decode": None}

# %% answer="03.8" name="has no steps" judge="exercise" says="(?s)triangle: .*What does a step cost that does nothing"
guesses = {"XLA, 16384": "45 ms", "triangle": "22.3 ms", "decode": None}

# %% answer="03.8" name="computes all of it" judge="exercise" says="(?s)triangle: .*Those above the diagonal are skipped"
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


# %% answer="03.9" name="forgets the large product" judge="exercise" says="product of 8192 .*(?s:.*)262,144 grid steps cost"
def choose_blocks(m, k, n):
    return (128, 128, 128) if m == 8192 else (m, k, n)


# %% answer="03.9" name="takes all in one block" judge="exercise" says="product of 8192 .*(?s:.*)of VMEM, and a kernel may use 16"
def choose_blocks(m, k, n):
    return m, k, n


# %% answer="03.9" name="knows one size" judge="exercise" says="does not divide m=256: the last block would hang over"
def choose_blocks(m, k, n):
    return 512, 1024, 512


# %% answer="03.9" name="returns one number" judge="exercise" says="asked for are three whole numbers"
def choose_blocks(m, k, n):
    return 512


# %% answer="03.10" name="says next to nothing" judge="exercise" says="different words; 12 are asked"
why = "Yes, 3 % is bad."

# %% answer="03.10" name="does not judge itself" judge="exercise" says="(?s)yours to judge.*Ours: .*then say checks.assess"
why = """I would work out from FLOPs and bytes how long it has to take on this chip, and look
whether the time that the profile shows is much longer than that."""

# %% answer="03.10" name="finds something missing" judge="exercise" says="(?s)you said .partly.*add what yours lacks"
why = """I would work out from FLOPs and bytes how long it has to take on this chip, and look
whether the time that the profile shows is much longer than that."""
checks.assess("03.10", "partly")
