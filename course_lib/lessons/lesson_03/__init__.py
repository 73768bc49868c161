"""The exercises of lesson 3, The roofline."""

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_03 import blocks
from course_lib.lessons.lesson_03.claims import LIES
from course_lib.lessons.lesson_03.costs import ATTENTION_COST, MATMUL_COST
from course_lib.lessons.lesson_03.guesses import GUESSES
from course_lib.lessons.lesson_03.network import NETWORK
from course_lib.lessons.lesson_03.times import BATCH, CROSSOVER, LEAST

TITLE = "The roofline"

EXERCISES = (
    Exercise(
        id="03.1",
        title="Predict: the least time for a sum",
        kind="predict",
        defines="least",
        asks=LEAST,
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
        asks=MATMUL_COST,
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
        asks=CROSSOVER,
        hints=(
            "Write down FLOPs and bytes as in the lesson. Only the bytes are different.",
            "x and y have 2 bytes a number, the result has 4: 8 N^2 bytes in all.",
            "2 N^3 / (8 N^2) = N / 4. Set that equal to roofline.ridge_point(chip='v6e').",
        ),
        points=1,
    ),
    Exercise(
        id="03.4",
        title="Predict: how many users make the MXU busy?",
        kind="predict",
        defines="batch",
        asks=BATCH,
        hints=(
            "Of the three arrays one is far larger than the others. How many bytes is that one?",
            "2 B D F FLOPs, and D F bytes: the activations hardly count.",
            "2 B = roofline.ridge_point(chip='v5e'), the one for bfloat16.",
        ),
        points=1,
    ),
    Exercise(
        id="03.5",
        title="Compute: the cost of attention",
        kind="compute",
        defines="attention_cost",
        asks=ATTENTION_COST,
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
            "small: a shard goes from one end of the line to the other; each hop takes 1 us, whatever it carries.",
        ),
        points=2,
    ),
    Exercise(
        id="03.7",
        title="Find the lie",
        kind="several",
        defines="verdicts",
        asks=Several(parts=LIES, why="four claims fall to one number each, and one stands."),
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
        asks=Several(parts=GUESSES, why="all three as near as asked to what was measured."),
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
        cases=blocks.products,
        reference=blocks.reference,
        build=blocks.with_blocks,
        also=(blocks.serve_a_large_product,),
        budget=judges.Budget(times_reference=blocks.MOST_TIMES),
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
