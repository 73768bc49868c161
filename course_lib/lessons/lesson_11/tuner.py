"""Our search for the blocks of a product, with twelve questions to the compiler; 11.5 asks for one with six."""

from collections.abc import Callable

from course_lib.lessons.lesson_11.landscapes import Shape, legal

MOST = 12  # compilations
ROOM = 15 * 2**20  # bytes of VMEM: 16 MiB less what spills
CLOCK, HBM = 1.5e9, 819e9  # of a v5e: cycles, bytes a second
STEP, LATENCY = 300, 1200  # cycles: of a step beside its products, of a copy beside its bytes


def tuned(shape: Shape, ask: Callable[[Shape], float | None]) -> Shape:
    """The fastest of the MOST blocks that the model likes best; ``ask`` gives seconds, or None for a refusal."""
    fitting = [blocks for blocks in legal(shape) if vmem(blocks) <= ROOM]
    likely = sorted(fitting, key=lambda blocks: guessed(shape, blocks))[:MOST]
    answers = {blocks: ask(blocks) for blocks in likely}
    return min((b for b in likely if answers[b] is not None), key=answers.get)


def vmem(blocks: Shape) -> int:
    """Bytes: two buffers for each bfloat16 operand, and a float32 sum."""
    bm, bk, bn = blocks
    return 4 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn


def guessed(shape: Shape, blocks: Shape) -> float:
    """Seconds, predicted (model): the longer of all steps and all bytes, and what no step hides."""
    (m, k, n), (bm, bk, bn) = shape, blocks
    steps = (m // bm) * (k // bk) * (n // bn)
    x_times = 1 if bk == k else n // bn
    y_times = 1 if (bk, bn) == (k, n) else m // bm
    moved = 2 * (m * k * x_times + k * n * y_times + m * n)
    step = max(max(bm, 32) * bk * bn / 65_536 + STEP, LATENCY / 2)
    first_and_last = 2 * LATENCY / CLOCK + 2 * (bm * bk + bk * bn + bm * bn) / HBM
    return max(steps * step / CLOCK, moved / HBM) + first_and_last
