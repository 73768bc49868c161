"""The exercises of lesson 3, The roofline."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, cost, grid, judges, roofline
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.compute import Compute, Result
from course_lib.checks.kinds.explain import Explain
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several
from course_lib.checks.unfit import Unfit

TITLE = "The roofline"

MI = 2**20
PRODUCTS = ({"M": 512, "K": 1024, "N": 512}, {"M": 256, "K": 512, "N": 1024})
LARGE = (8192, 8192, 8192)  # m, k, n
LINK = 45e9  # bytes/s that one ICI link of a v5e carries each way: the scaling book, chapter "How to Think About TPUs"
HOP_S = 1e-6  # what a hop costs whatever it carries: the same book, chapter "Sharded Matrices"


def _matmul(x, y, bm, bk, bn):
    """x[m, k] @ y[k, n] in blocks, k innermost."""
    (m, k), n = x.shape, y.shape[1]

    def kernel(x_ref, y_ref, o_ref, acc_ref):  # made anew for each grid: JAX 0.11 would keep the first num_programs
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


def _array(*shape: int, dtype=jnp.bfloat16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _square(n: int, dtype=jnp.bfloat16) -> tuple:
    return _array(n, n, dtype=dtype), _array(n, n, dtype=dtype)


def _product(m: int, k: int, n: int, itemsize: int):
    """x @ y and its arguments, for numbers of this many bytes. The result has the dtype of the operands."""
    dtype = {1: jnp.float8_e4m3fn, 2: jnp.bfloat16, 4: jnp.float32}[itemsize]
    return lambda x, y: jnp.dot(x, y), _array(m, k, dtype=dtype), _array(k, n, dtype=dtype)


def _one_block(m: int, k: int, n: int, itemsize: int) -> grid.Walk:
    """The product in a kernel that copies every array once: what it moves, and what it computes."""
    dtype = {1: jnp.float8_e4m3fn, 2: jnp.bfloat16, 4: jnp.float32}[itemsize]

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32).astype(o_ref.dtype)

    product = pl.pallas_call(kernel, out_shape=_array(m, n, dtype=dtype))
    return grid.walk(product, _array(m, k, dtype=dtype), _array(k, n, dtype=dtype))


def _add_seconds() -> float:
    """Microseconds for a sum of two float32 vectors of 64 Mi numbers at full bandwidth, from the grid's list."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    vector, block = _array(64 * MI, dtype=jnp.float32), pl.BlockSpec((MI,), lambda i: (i,))
    add = pl.pallas_call(kernel, out_shape=vector, grid=(64,), in_specs=[block, block], out_specs=block)
    return cost.hbm_bytes(grid.walk(add, vector, vector)) / chips.chip("v5e").hbm_bandwidth * 1e6


def _crossover(chip: str, in_bytes: int, out_bytes: int) -> float:
    """The N from which compute takes longer than the copies, found by halving: [N, N] x [N, N]."""
    made_of, low, high = chips.chip(chip), 1.0, 1e6
    while high - low > 1e-6:
        n = (low + high) / 2
        compute, memory = 2 * n**3 / made_of.bf16_flops, (2 * in_bytes + out_bytes) * n**2 / made_of.hbm_bandwidth
        low, high = (n, high) if compute < memory else (low, n)
    return low


def _decode_batch() -> float:
    """The batch at which 2*B*D*F FLOPs take as long as D*F weights of one byte: halving, for a very large D and F."""
    chip, low, high, d, f = chips.chip("v5e"), 1.0, 1e5, 1e9, 1e9
    while high - low > 1e-6:
        b = (low + high) / 2
        compute = 2 * b * d * f / chip.bf16_flops
        memory = (2 * b * d + d * f + 2 * b * f) / chip.hbm_bandwidth
        low, high = (b, high) if compute < memory else (low, b)
    return low


def _attended(t: int, causal: bool) -> float:
    """Pairs of a query and a key it sees, counted one row at a time."""
    return sum(row + 1 if causal else t for row in range(t))


def _attention_bytes(t: int, width: int, heads: int, kv_heads: int, causal: bool) -> int:
    """The sizes of q, k, v and the result, as arrays."""
    arrays = _array(t, heads, width), _array(t, kv_heads, width), _array(t, kv_heads, width), _array(t, heads, width)
    return sum(array.size * array.dtype.itemsize for array in arrays)


def _all_gather(size: float, chips_in_ring: int, links: int) -> float:
    """Microseconds, hop by hop: in each a chip receives one shard on each of its links, while any is missing."""
    shard, missing, seconds = size / chips_in_ring, chips_in_ring - 1, 0.0
    while missing > 0:
        received = min(missing, links)
        seconds += max(HOP_S, shard / LINK * received / links)
        missing -= received
    return seconds * 1e6


def _bytes_written_for_the_result() -> float:
    """MiB that a product of 4096 in blocks of 512 writes for its result, with the reduction as the grid's last axis."""
    rows = cost.traffic(grid.walk(functools.partial(_matmul, bm=512, bk=512, bn=512), *_square(4096)))
    return sum(row.bytes for row in rows if row.direction == "out") / MI


def _round_trip_seconds() -> float:
    """Microseconds to write a float32 result of 8192 x 8192 to HBM and to read it again, at full bandwidth."""
    (result, _) = _square(8192, jnp.float32)
    return 2 * result.size * result.dtype.itemsize / chips.chip("v5e").hbm_bandwidth * 1e6


def _triangle_seconds() -> float:
    """A product of 16384 in blocks of 512 x 1024 x 512: those above the diagonal cost nothing but their steps."""
    chip, steps_along_k = chips.chip("v5e"), 16384 // 1024
    arithmetic, price = 2 * 512 * 1024 * 512 / chip.bf16_flops, roofline.FITTED["v5e"].step_s
    blocks = [(i, j) for i in range(16384 // 512) for j in range(16384 // 512)]
    return sum(steps_along_k * (price + (arithmetic if j <= i else 0)) for i, j in blocks)


def _with_blocks(choose_blocks):
    """The product with the learner's blocks."""
    for sizes in (*((size["M"], size["K"], size["N"]) for size in PRODUCTS), LARGE):
        if (blocks := choose_blocks(*sizes)) is not None:
            _three_sizes(blocks, sizes)

    def product(x, y):
        blocks = choose_blocks(*x.shape, y.shape[1])
        return None if blocks is None else _matmul(x, y, *blocks)

    return product


def _three_sizes(blocks: object, sizes: tuple[int, int, int]) -> None:
    """Refuse what are no sizes of blocks that divide the axes."""
    call = f"choose_blocks{sizes}"
    good = isinstance(blocks, tuple | list) and len(blocks) == 3 and all(type(b) is int and b > 0 for b in blocks)
    if not good:
        raise Unfit(
            f"{call} returned {blocks!r:.60}; asked for are three whole numbers: bm, bk and bn.",
            "write return bm, bk, bn.",
        )
    for name, axis, block, size in zip(("bm", "bk", "bn"), "mkn", blocks, sizes, strict=True):
        if size % block:
            raise Unfit(
                f"{call} returned {name}={block}, which does not divide {axis}={size}: the last block would hang over.",
                f"choose a divisor of {size}; min({size}, ...) helps where an axis is short.",
            )


def _fit_a_large_product(choose_blocks):
    """Whether the blocks for a product of 8192 fit into what one kernel may use of VMEM."""
    blocks, limit = choose_blocks(*LARGE), chips.chip("v5e").scoped_vmem_bytes
    needs = cost.vmem_bytes(grid.walk(lambda x, y: _matmul(x, y, *blocks), *_square(LARGE[0])))
    if needs > limit:
        return (
            f"For a product of 8192 choose_blocks returned {tuple(blocks)}: that takes {needs / MI:,.1f} MiB of VMEM, "
            f"and a kernel may use {limit / MI:.0f}.",
            "give each size a limit: min(m, ...). Blocks of x, y and the result are held twice.",
        )


def _products() -> list[tuple]:
    """Sizes that blocks of 128 and more divide: overhanging blocks are the subject of lesson 8."""
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), PRODUCTS)


def _product_reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype)


STANDS, FALLS = "stands", "falls"


_DECIDES = "let the number that goes with it decide: what would it have to be for the claim to hold?"


def _judgement(right: str, sentence: str, why: str, proof) -> Choose:
    wrong = FALLS if right == STANDS else STANDS
    return Choose(options=(STANDS, FALLS), right=right, wrong={wrong: sentence}, why=why, proof=proof, next=_DECIDES)


def _rate_of(seconds: float) -> float:
    """TFLOP/s that a product of 8192 would have reached."""
    work = cost.flops(grid.walk(jnp.dot, *_square(8192, jnp.float32))).mxu
    return work / seconds / 1e12


def _possible(seconds: float) -> str:
    return STANDS if _rate_of(seconds) * 1e12 <= chips.chip("v5e").bf16_flops else FALLS


LIES = {
    "A": (
        _judgement(
            FALLS,
            "Memory-bound is what lies left of the ridge point. On which side of it is this product?",
            "far to the right of the ridge point.",
            lambda: STANDS if 8192 / 6 < roofline.ridge_point("v5e", "float32") else FALLS,
        ),
        Predict(
            value=1365.3,
            unit="FLOP/B",
            tolerance=0.01,
            near={
                2731: "That is right for bfloat16. The claim is about float32: how many bytes is one number?",
                240: "That is the ridge point of the chip. The question is the intensity of the product.",
                4096: "Three matrices pass between HBM and the chip, not one: x, y and the result.",
                2048: "That counts x and y. The result has to get out as well.",
                683: "That counts one operation for a multiplication and an addition. They are two.",
            },
            why="2 N^3 FLOPs over 12 N^2 bytes.",
            proof=lambda: 2 * 8192**3 / (3 * 8192**2 * 4),
        ),
    ),
    "B": (
        _judgement(
            FALLS,
            "How much time is there to be saved by this? Compare it with the time that is said to be saved.",
            "a round trip takes a tenth of what it is said to save.",
            lambda: STANDS if _round_trip_seconds() / 1e6 > 7.807e-3 - 2.240e-3 else FALLS,
        ),
        Predict(
            value=654.7,
            unit="us",
            tolerance=0.01,
            near={
                327.4: "That is one way. The result is written, and read again.",
                982.1: "Does the last write fall away as well? Someone has to write the end result.",
                5567: "That is what is said to be saved. The question is what the round trip takes.",
                163.7: "That is one way in bfloat16. The result is float32, and it is written and read again.",
                624.4: "8192 * 8192 is 64 Mi, and a GB is 10**9 bytes: k, M, G and Ki, Mi, Gi differ.",
            },
            why="256 MiB out and 256 MiB in.",
            proof=_round_trip_seconds,
        ),
    ),
    "C": (
        _judgement(
            STANDS,
            "A number is not wrong for being published next to a wrong one. Does it break a roof?",
            "below the peak.",
            lambda: _possible(7.811e-3),
        ),
        Predict(
            value=140.8,
            unit="TFLOP/s",
            tolerance=0.01,
            near={
                70.4: "That counts one operation for a multiplication and an addition. They are two.",
                197: "That is the peak of the chip. The question is the rate that the claim amounts to.",
            },
            why="2 N^3 FLOPs in 7.811 ms.",
            proof=lambda: _rate_of(7.811e-3),
        ),
    ),
    "D": (
        _judgement(
            FALLS,
            "What does chips.chip('v5e').hbm_bandwidth say? Another chip of the lesson's table has 1640 GB/s.",
            "twice the bandwidth, half the ridge point.",
            lambda: STANDS if abs(chips.chip("v5e").hbm_bandwidth / 1.6e12 - 1) < 0.1 else FALLS,
        ),
        Predict(
            value=240.2,
            unit="FLOP/B",
            tolerance=0.01,
            near={
                123: "That is the claim's own number. Work it out from what chips.chip has.",
                480: "That is the ridge point of products in int8, which run at twice the rate.",
            },
            why="197 TFLOP/s over 820 GB/s.",
            proof=lambda: roofline.ridge_point("v5e"),
        ),
    ),
    "E": (
        _judgement(
            FALLS,
            "Follow the output's index map along k. When does a block leave VMEM, in lesson 1's list of copies?",
            "its index stands still, so it stays.",
            lambda: STANDS if _bytes_written_for_the_result() > 4096 * 4096 * 2 / MI else FALLS,
        ),
        Predict(
            value=32,
            unit="MiB",
            tolerance=0.005,
            near={
                256: "That is what it would be if each of the 8 steps along k wrote its block. Does the index change?",
                512: "That is what it would be if each of the 8 steps along k read and wrote its block.",
                64: "Is anything read for the result, or is the result in float32?",
                0.5: "That is one block. How many blocks has the result, and how often is each written?",
            },
            why="each of 64 blocks once.",
            proof=_bytes_written_for_the_result,
        ),
    ),
}

_MI = "64 Mi is 64 times 1,048,576, while a GB is 1,000,000,000 bytes: k, M, G and Ki, Mi, Gi differ."
_FOUR_LINKS = "A chip has four links; an axis of the torus, a ring, has two of them."
NETWORK = {
    "ring": Predict(
        value=699.1,
        unit="us",
        tolerance=0.01,
        near={
            745.7: "A chip holds its own shard already: it has to receive the other fifteen.",
            1398.1: "In a ring the shards come from both neighbours at once: two links receive.",
            1491.3: "In a ring the shards come from both neighbours at once; and a chip holds its own shard already.",
            314.6: _FOUR_LINKS,
            335.5: _FOUR_LINKS,
            349.5: _FOUR_LINKS,
            707.1: "You added the hops. They and the bytes run side by side: the lesson takes the larger of the two.",
            666.7: _MI,
            76.7: "That is the bandwidth of the HBM. Between chips the bytes take the network.",
            43.7: "That is the time of one shard. How many does a chip receive?",
        },
        why="15 shards of 4 MiB by two links.",
        proof=lambda: _all_gather(64 * MI, 16, links=2),
    ),
    "line": Predict(
        value=1118.5,
        unit="us",
        tolerance=0.01,
        near={
            559.2: "That is right for a chip in the middle. The one at the end of the line has one neighbour.",
            745.7: "Two slips: the chip at the end has one neighbour, and it holds its own shard already.",
            699.1: "That is the ring of sixteen. Here are four chips, and nobody closes the ring.",
            1491.3: "A chip holds its own shard already: it has to receive the other three.",
            372.8: "That is the time of one shard. How many does the chip at the end receive?",
            279.6: "A chip has four links; the one at the end of a line uses one of them.",
            251.7: "A chip has four links; the one at the end of a line uses one of them.",
            1066.7: _MI,
        },
        why="three shards of 16 MiB by one link.",
        proof=lambda: _all_gather(64 * MI, 4, links=1),
    ),
    "small": Predict(
        value=8,
        unit="us",
        tolerance=0.01,
        near={
            15: "Shards travel both ways round the ring. How far away is the farthest chip?",
            16: "Shards travel both ways round the ring. How far away is the farthest chip?",
            7: "Count the hops to the chip opposite.",
            7.5: "Half a hop there is not: count the hops to the chip opposite.",
            1: "That is one hop. A chip passes on to its neighbour what it got from the other one.",
            0.0427: "So long would the bytes take. But each hop costs its time, however little it carries.",
            0.0455: "So long would the bytes take. But each hop costs its time, however little it carries.",
        },
        why="8 hops of 1 us.",
        proof=lambda: _all_gather(4096, 16, links=2),
    ),
}

GUESSES = {
    "XLA, 16384": Predict(
        value=46.95,
        unit="ms",
        tolerance=0.25,
        near={
            22.3: "A multiplication and an addition are two operations.",
            1.96: "That is what the bytes take. Which roof is the lower one at this size?",
            97.0: "Is that the cost of grid steps? This product was XLA's own.",
        },
        why="arithmetic, and 5 % on top.",
        proof=lambda: roofline.predict(jnp.dot, *_square(16384)).seconds * 1e3,
    ),
    "triangle": Predict(
        value=28.648,
        unit="ms",
        tolerance=0.25,
        near={
            44.7: "That computes every block. Those above the diagonal are skipped.",
            50.1: "That computes every block. Those above the diagonal are skipped.",
            5.41: "That is the price of the steps. In half of them the MXU has work as well.",
            16.9: "A multiplication and an addition are two operations.",
            11.2: "A multiplication and an addition are two operations. And what do the steps cost?",
        },
        why="half of the arithmetic, and all of the steps.",
        proof=lambda: _triangle_seconds() * 1e3,
    ),
    "decode": Predict(
        value=0.366,
        unit="ms",
        tolerance=0.25,
        near={
            0.00136: "That is the arithmetic. How many bytes of weights have to come first?",
            0.0409: "That is one expert's matrix. Eight tokens go to eight experts.",
            0.164: "That is right for weights of one byte. These are bfloat16.",
            0.655: "That is right for float32. These are bfloat16.",
        },
        why="eight matrices of weights.",
        proof=lambda: (
            roofline.predict(
                lambda x, w: jnp.einsum("gbd,gdf->gbf", x, w), _array(8, 1, 4096), _array(8, 4096, 4096)
            ).seconds
            * 1e3
        ),
    ),
}

EXERCISES = (
    Exercise(
        id="03.1",
        title="Predict: the least time for a sum",
        kind="predict",
        defines="least",
        asks=Predict(
            value=982.1,
            unit="us",
            tolerance=0.01,
            near={
                654.7: "That is x and y, which go in. The sum has to come out as well.",
                327.4: "That is one vector. Three of them move.",
                491.0: "That would be right for numbers of two bytes, bfloat16 say. These are float32.",
                245.5: "That is how many numbers move. How many bytes is one float32?",
                936.6: _MI,
                0.3407: "That is the additions, at the peak of the MXU. Is it they that take the time?",
                1091: "That is not the least: you have taken the share of the bandwidth that programs reach.",
            },
            why="three vectors of 256 MiB, at 820 GB/s.",
            proof=_add_seconds,
        ),
        hints=(
            "Two numbers of the chip, two times; the larger one binds. Which of the two can it be for an addition?",
            "Two vectors go in and one comes out. 64 Mi numbers of 4 bytes are how many bytes?",
            "3 * 64 * 2**20 * 4 bytes, divided by chips.chip('v5e').hbm_bandwidth.",
        ),
        points=1,
    ),
    Exercise(
        id="03.2",
        title="Compute: the cost of a product",
        kind="compute",
        defines="matmul_cost",
        asks=Compute(
            results=(
                Result(
                    name="the FLOPs",
                    unit="FLOPs",
                    formula=lambda m, k, n, itemsize: 2 * m * k * n,
                    proof=lambda *case: cost.flops(grid.walk(*_product(*case))).mxu,
                    near=(
                        (
                            lambda m, k, n, itemsize: m * k * n,
                            "You count one operation for each pair of numbers. They are multiplied and added: two.",
                        ),
                        (
                            lambda m, k, n, itemsize: m * n * (2 * k - 1),
                            "k products need k - 1 additions: exactly counted, and yet everybody says 2k, a "
                            "multiplication and an addition for each. So does the check.",
                        ),
                        (
                            lambda m, k, n, itemsize: 2 * m * k * n * itemsize,
                            "An operation is an operation, however many bytes its numbers have.",
                        ),
                        (
                            lambda m, k, n, itemsize: 2 * m * n,
                            "For each of the m*n results there is a sum. Of how many products?",
                        ),
                        (
                            lambda m, k, n, itemsize: 2 * m**3,
                            "That is right where all three sizes are equal. In general they are three numbers.",
                        ),
                    ),
                ),
                Result(
                    name="the bytes",
                    unit="bytes",
                    formula=lambda m, k, n, itemsize: (m * k + k * n + m * n) * itemsize,
                    proof=lambda *case: cost.hbm_bytes(_one_block(*case)),
                    near=(
                        (
                            lambda m, k, n, itemsize: (m * k + k * n) * itemsize,
                            "You count x and y, which go in. The result has to come out as well.",
                        ),
                        (
                            lambda m, k, n, itemsize: m * k + k * n + m * n,
                            "You count numbers. How many bytes is one?",
                        ),
                        (
                            lambda m, k, n, itemsize: (m * k + k * n + m * n) * 4,
                            "You take every number for a float32. How many bytes it has is the last argument.",
                        ),
                        (
                            lambda m, k, n, itemsize: (m * k + k * n + m * n) * 2,
                            "You take every number for a bfloat16. How many bytes it has is the last argument.",
                        ),
                        (
                            lambda m, k, n, itemsize: (m * k + k * n + 2 * m * n) * itemsize,
                            "You count the result twice. It is written, and nobody reads it first.",
                        ),
                        (
                            lambda m, k, n, itemsize: 3 * m * n * itemsize,
                            "The three matrices have three shapes: (m, k), (k, n) and (m, n).",
                        ),
                        (
                            lambda m, k, n, itemsize: (m * k + k * n) * itemsize + m * n * 4,
                            "You write the result as float32. Here all three matrices have numbers of one size.",
                        ),
                    ),
                ),
                Result(
                    name="the intensity",
                    unit="FLOP/B",
                    formula=lambda m, k, n, itemsize: 2 * m * k * n / ((m * k + k * n + m * n) * itemsize),
                    proof=lambda *case: cost.flops(_one_block(*case)).mxu / cost.hbm_bytes(_one_block(*case)),
                    near=(
                        (
                            lambda m, k, n, itemsize: (m * k + k * n + m * n) * itemsize / (2 * m * k * n),
                            "It is upside down: an intensity is FLOPs per byte.",
                        ),
                        (
                            lambda m, k, n, itemsize: 2 * m * k * n // ((m * k + k * n + m * n) * itemsize),
                            "// throws away what is behind the point. Divide with /.",
                        ),
                        (
                            lambda m, k, n, itemsize: m / (1.5 * itemsize),
                            "That holds where m, k and n are equal. Divide the FLOPs by the bytes.",
                        ),
                    ),
                ),
            ),
            cases=(
                (8, 128, 256, 2),
                (4096, 4096, 4096, 2),
                (1, 8192, 28672, 2),
                (300, 70, 11, 4),
                (1024, 512, 2048, 4),
                (256, 4096, 1024, 1),
            ),
            why="2mkn over (mk + kn + mn) * itemsize, each array moved once.",
        ),
        hints=(
            "Take m = k = n = 1: what is multiplied, what is added, and which three numbers move?",
            "The result has m*n numbers, each a sum of k products: a multiplication and an addition for each.",
            "The shapes are (m, k), (k, n) and (m, n). Numbers times itemsize are bytes.",
        ),
        points=2,
    ),
    Exercise(
        id="03.3",
        title="Predict: a crossover",
        kind="predict",
        defines="crossover",
        asks=Predict(
            value=2243.9,
            unit="",
            tolerance=0.01,
            near={
                1682.9: "That would be right if the result were bfloat16, too.",
                3365.9: "That would be right if x and y were float32 as well.",
                961.0: "That is the crossover on a v5e. The question is about a v6e.",
                721: "That is the lesson's product on the lesson's chip.",
                561.0: "That is the ridge point, in FLOPs per byte. What N has a product of that intensity?",
                1122.0: "That counts x and y, which go in. The result has to come out as well.",
                4487.8: "A multiplication and an addition are two operations.",
            },
            why="N / 4 FLOPs per byte, and 561 are needed.",
            proof=lambda: _crossover("v6e", 2, 4),
        ),
        hints=(
            "Write down FLOPs and bytes as in the lesson. Only the bytes are different.",
            "x and y have 2 bytes a number, the result has 4: 8 N^2 bytes in all.",
            "2 N^3 / (8 N^2) = N / 4. Set that equal to roofline.ridge_point('v6e').",
        ),
        points=1,
    ),
    Exercise(
        id="03.4",
        title="Predict: how many users make the MXU busy?",
        kind="predict",
        defines="batch",
        asks=Predict(
            value=120.1,
            unit="",
            tolerance=0.01,
            near={
                240.2: "That is right for weights of two bytes; or for products in int8, at twice the rate. Here the "
                "weights have one byte, and the products are bfloat16.",
                480.5: "The products are bfloat16. Is the int8 peak theirs?",
                60.06: "Count again what one weight takes: one byte, and two operations for each row.",
                720.7: "That is the crossover of square products. Here two sides are large and B is small.",
                360.4: "That comes from a square product. Here D and F are large, and B is small beside them.",
            },
            why="2 FLOPs for each weight and row: 2 B FLOPs per byte.",
            proof=_decode_batch,
        ),
        hints=(
            "Of the three arrays one is far larger than the others. How many bytes is that one?",
            "2 B D F FLOPs, and D F bytes: the activations hardly count.",
            "2 B = roofline.ridge_point('v5e'), the one for bfloat16.",
        ),
        points=1,
    ),
    Exercise(
        id="03.5",
        title="Compute: the cost of attention",
        kind="compute",
        defines="attention_cost",
        asks=Compute(
            results=(
                Result(
                    name="the FLOPs",
                    unit="FLOPs",
                    tolerance=0.01,
                    formula=lambda t, width, heads, kv_heads, causal: 4 * t * t * width * heads / (2 if causal else 1),
                    proof=lambda t, width, heads, kv_heads, causal: 4 * _attended(t, causal) * width * heads,
                    near=(
                        (
                            lambda t, width, heads, kv_heads, causal: 4 * t * t * width * heads,
                            "A query sees the keys before it, and none behind: how many of the T*T pairs are left?",
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: (
                                4 * t * t * width * kv_heads / (2 if causal else 1)
                            ),
                            "Query heads that share a K and a V share bytes. Each of them still multiplies by itself.",
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: 4 * t * t * width * kv_heads,
                            "Two slips: every query head multiplies, even where two share K and V; and with "
                            "causal=True a query sees only the keys before it.",
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: 2 * t * t * width * heads / (2 if causal else 1),
                            "That is one product, or one operation for two: there are Q with K and the weights with V, "
                            "and each multiplies and adds.",
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: 2 * t * t * width * heads,
                            "Two slips: there are two products; and with causal=True half of the pairs will do.",
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: 4 * t * t * width / (2 if causal else 1),
                            "That is one head. There are several.",
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: 4 * t * t * width,
                            "That is the lesson's formula, for one head and no mask. Here are several heads, and with "
                            "causal=True a query sees only the keys before it.",
                        ),
                        *(
                            (
                                lambda t, width, heads, kv_heads, causal, each=each, masked=masked: (
                                    (4 * width + each) * t * t * heads / (2 if causal and masked else 1)
                                ),
                                "That counts the softmax as well. Asked for are the two products alone"
                                + ("." if masked else "; and with causal=True a query sees only the keys before it."),
                            )
                            for each in (3, 5)
                            for masked in (True, False)
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: (
                                4 * t * width * width * heads / (2 if causal else 1)
                            ),
                            "The scores are T by T: every query meets every key.",
                        ),
                    ),
                ),
                Result(
                    name="the bytes",
                    unit="bytes",
                    formula=lambda t, width, heads, kv_heads, causal: 2 * t * width * (2 * heads + 2 * kv_heads),
                    proof=_attention_bytes,
                    near=(
                        (
                            lambda t, width, heads, kv_heads, causal: 8 * t * width * heads,
                            "K and V have kv_heads heads, fewer than Q: that is what grouping saves.",
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: 2 * t * width * (heads + 2 * kv_heads),
                            "You count Q, K and V. The result has to come out as well.",
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: t * width * (2 * heads + 2 * kv_heads),
                            "You count numbers. A bfloat16 has two bytes.",
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: 4 * t * width * (2 * heads + 2 * kv_heads),
                            "You take them for float32. They are bfloat16, two bytes each.",
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: (
                                2 * t * width * (2 * heads + 2 * kv_heads) + 4 * t * t * heads
                            ),
                            "You count the scores as well. A kernel need never let them leave VMEM: count the least.",
                        ),
                        (
                            lambda t, width, heads, kv_heads, causal: (
                                2 * t * width * (2 * heads + 2 * kv_heads) / (2 if causal else 1)
                            ),
                            "A mask saves arithmetic. Every key is still seen by somebody, so all of K and V is read.",
                        ),
                    ),
                ),
            ),
            cases=(
                (2048, 128, 8, 8, False),
                (2048, 128, 8, 8, True),
                (4096, 128, 32, 8, False),
                (4096, 64, 32, 4, True),
                (1024, 256, 16, 1, True),
            ),
            why="4 T T K a head, half of it if causal; grouping saves bytes only.",
        ),
        hints=(
            "Two products a head: Q with K, and the weights with V. Leave the softmax out.",
            "Causal: query t sees keys 0 to t, so about half of the T*T pairs.",
            "Bytes: Q and the result have `heads` heads of T*K numbers, K and V have `kv_heads`; two bytes a number.",
        ),
        points=2,
    ),
    Exercise(
        id="03.6",
        title="Predict: three all-gathers",
        kind="several",
        defines="gathers",
        asks=Several(parts=NETWORK, why="links that receive, shards that are missing, hops that cost."),
        hints=(
            "For each case: how many shards does the worst-placed chip lack, and by how many links do they come?",
            "A ring has two links into each chip, the end of a line has one. 16 and 4 shards of the same 64 MiB.",
            "small: a shard has to reach the chip opposite, 8 hops away; each takes 1 us, however little it carries.",
        ),
        points=2,
    ),
    Exercise(
        id="03.7",
        title="Find the lie",
        kind="several",
        defines="verdicts",
        asks=Several(parts=LIES, why="four claims fall to one division each, and one stands."),
        hints=(
            "Each claim breaks a roof, a list of copies, or nothing. Work out the number first and judge then.",
            "A: N / 6. B: bytes over bandwidth. C: 2 * 8192**3 FLOPs over the time. D: chips.chip.",
            "E: cost.traffic(grid.walk(...)) of a product in blocks with k last; or think which index the output has.",
        ),
        points=3,
    ),
    Exercise(
        id="03.8",
        title="Predict, then look",
        kind="several",
        defines="guesses",
        asks=Several(parts=GUESSES, why="all three within a quarter of what was measured."),
        hints=(
            "Work out arithmetic plus steps, and bytes. They run side by side: the larger of the two is your guess.",
            "16384: 2 * 16384**3 FLOPs. triangle: half of them, and 32 * 32 * 16 steps of 0.33 us, which add up.",
            "decode: 8 * 4096 * 4096 weights of two bytes have to come from HBM, for next to no arithmetic.",
        ),
        points=2,
    ),
    Exercise(
        id="03.9",
        title="Repair: right, and far from its roof",
        kind="repair",
        defines="choose_blocks",
        cases=_products,
        reference=_product_reference,
        build=_with_blocks,
        also=(_fit_a_large_product,),
        budget=judges.Budget(times_reference=1.5),
        hints=(
            "Which roof is it under? Count the grid steps, and multiply by 0.33 us.",
            "Larger blocks mean fewer steps and fewer bytes. Blocks are held twice, and a kernel may use 16 MiB.",
            "min(512, m), min(1024, k), min(512, n) is one good answer.",
        ),
        points=2,
    ),
    Exercise(
        id="03.10",
        title="Explain: would you write this kernel?",
        kind="explain",
        defines="why",
        asks=Explain(
            model="Low usage alone says nothing: an addition leaves the MXU idle on any chip, at any skill. First work "
            "out what the chip allows: FLOPs over the peak, bytes over the bandwidth, the larger of the two. Then "
            "compare with the time it takes. If the two are close there is nothing to win by a kernel of the same "
            "operation, only by moving fewer bytes, by fusing it with its neighbours say. If the gap is large, it is "
            "worth asking which roof is in the way.",
            look_for=(
                "a low share of the peak may be all that the operation allows",
                "the least time from FLOPs and bytes, and the gap between it and the time that is measured",
                "that fewer bytes, or another algorithm, change the roofline itself",
            ),
        ),
        hints=(
            "What share of the peak does adding two vectors reach at best? Is that a reason to write a kernel?",
            "Which two times would you compare?",
            "One sentence on the least time, one on the gap, one on what could make the least time smaller.",
        ),
        points=0,
    ),
)
