"""Our search for the blocks of a matmul, with twelve compilations; 11.5 asks for one with six."""

from collections.abc import Callable

from course_lib.lessons.lesson_11.landscapes import Shape, legal

MOST = 12  # compilations
ROOM = 15 * 2**20  # bytes of VMEM: 16 MiB minus room for spills
CLOCK, HBM = 1.5e9, 819e9  # of a v5e: cycles per second, bytes per second
STEP, LATENCY = 300, 1200  # cycles: overhead of a step on top of its matmul, latency of a copy on top of its bytes


def tuned(shape: Shape, ask: Callable[[Shape], float | None]) -> Shape:
    """Return the fastest of the MOST blocks that the model ranks best; ``ask`` gives seconds, or None for a refusal."""
    fitting = [blocks for blocks in legal(shape) if vmem(blocks) <= ROOM]
    likely = sorted(fitting, key=lambda blocks: guessed(shape, blocks))[:MOST]
    answers = {blocks: ask(blocks) for blocks in likely}
    return min((b for b in likely if answers[b] is not None), key=answers.get)


def vmem(blocks: Shape) -> int:
    """Return the bytes for two buffers of each bfloat16 operand and a float32 accumulator."""
    bm, bk, bn = blocks
    return 4 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn


def guessed(shape: Shape, blocks: Shape) -> float:
    """Return the seconds, predicted (model): the longer of all steps and all bytes, plus what no step hides."""
    (m, k, n), (bm, bk, bn) = shape, blocks
    steps = (m // bm) * (k // bk) * (n // bn)
    x_times = 1 if bk == k else n // bn
    y_times = 1 if (bk, bn) == (k, n) else m // bm
    moved = 2 * (m * k * x_times + k * n * y_times + m * n)
    step = max(max(bm, 32) * bk * bn / 65_536 + STEP, LATENCY / 2)
    first_and_last = 2 * LATENCY / CLOCK + 2 * (bm * bk + bk * bn + bm * bn) / HBM
    return max(steps * step / CLOCK, moved / HBM) + first_and_last
