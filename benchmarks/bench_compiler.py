"""How long the compiler takes: each kernel compiled with and without its simulator, on this machine.

Prints for each kernel the time of the first compilation by a new child process (cold) and the median of those that
follow (warm), then the median and the slowest over all kernels. Timings depend on this machine and its current load;
compare them only within a run.
"""

import functools
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests"))  # for the kernels that the tests compile
ROUNDS = 5


def main() -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["COURSE_CACHE"] = "0"  # so that the compiler is timed, not the cache
    from course_lib import compiler

    print(f"{os.cpu_count()} cores, {compiler.tpu.versions()}, seconds; {ROUNDS} warm rounds")
    print(f"{'':40} {'compile only':>15} {'with simulation':>17}")
    print(f"{'':40} {'cold':>7} {'warm':>7} {'cold':>9} {'warm':>7}  cycles")
    columns: list[list[float]] = [[], [], [], []]
    for name, fn, args in kernels():
        times, report = [], None
        for simulate in (False, True):
            cold, warm, report = timed(fn, args, simulate)
            times += [cold, warm]
        for column, seconds in zip(columns, times, strict=True):
            column.append(seconds)
        cycles = "no cycles" if report.cycles is None else f"{report.cycles:,}" + " *" * bool(report.extrapolation)
        print(f"{name:40} {times[0]:7.2f} {times[1]:7.2f} {times[2]:9.2f} {times[3]:7.2f}  {cycles}", flush=True)
    for label, of in (("median", statistics.median), ("slowest", max)):
        cells = [of(column) for column in columns]
        print(f"{label:40} {cells[0]:7.2f} {cells[1]:7.2f} {cells[2]:9.2f} {cells[3]:7.2f}")
    print("* from two smaller grids")


def timed(fn: Callable, args: list, simulate: bool):
    """Return the seconds of the first compilation by new children, the median of the next ones, and the last Report."""
    from course_lib import compiler
    from course_lib.compiler.child import service

    service.stop_all()
    seconds = []
    for _ in range(1 + ROUNDS):
        began = time.perf_counter()
        report = compiler.compile_tpu(fn, *args, simulate=simulate)
        seconds.append(time.perf_counter() - began)
        assert report.ok, f"{report}"
    return seconds[0], statistics.median(seconds[1:]), report


def kernels() -> Iterator[tuple[str, Callable, list]]:
    """Yield (name, function, arguments): the repository's kernel families, and textbook kernels of several sizes."""
    import jax
    import jax.numpy as jnp
    from sample_kernels import by_rows, matmul, pipelined_matmul, softmax

    from course_lib.kernels import elementwise

    def array(*shape, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(shape, dtype)

    def square(n):
        return [array(n, n, dtype=jnp.bfloat16)] * 2

    for op in (elementwise.add, elementwise.subtract, elementwise.multiply):
        yield f"elementwise.{op.__name__} f32[4096]", op, [array(4096)] * 2
    yield "elementwise.add f32[8192,8192]", elementwise.add, [array(8192, 8192)] * 2
    yield "elementwise.add bf16[4096]", elementwise.add, [array(4096, dtype=jnp.bfloat16)] * 2
    yield "gradient of elementwise.multiply", gradient_of_multiply, [array(512, 1024)] * 2
    for n, blocks in (
        (512, (128, 128, 128)),
        (1024, (512, 512, 512)),
        (4096, (128, 128, 128)),
        (4096, (512, 512, 512)),
        (4096, (512, 1024, 1024)),
    ):
        yield (
            f"matmul {n} in blocks of {'x'.join(map(str, blocks))}",
            functools.partial(matmul, blocks=blocks),
            square(n),
        )
    yield "matmul 4096 by emit_pipeline", functools.partial(pipelined_matmul, block=512), square(4096)
    for rows, shape in ((8, (1024, 1024)), (256, (8192, 2048))):
        yield f"softmax {shape} in {rows} rows", functools.partial(by_rows, softmax, rows=rows), [array(*shape)]
        yield f"sum of rows {shape} in {rows} rows", functools.partial(by_rows, row_sums, rows=rows), [array(*shape)]
    yield "XLA's product 1024", jnp.dot, square(1024)
    yield "XLA's softmax (1024, 1024)", functools.partial(jax.nn.softmax, axis=-1), [array(1024, 1024)]


def gradient_of_multiply(x, y):
    import jax

    from course_lib.kernels import elementwise

    return jax.grad(lambda a, b: elementwise.multiply(a, b).sum(), argnums=(0, 1))(x, y)


def row_sums(block):
    """Return the sum of each row, repeated in all of its elements."""
    return block.sum(-1, keepdims=True) + 0 * block


if __name__ == "__main__":
    main()
