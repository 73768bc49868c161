"""The compilers' lines in ``viz.three_engines``: what becomes of one matmul on a v5e, an H100 and an A100.

    python benchmarks/engine_programs.py            in the terminal
    python benchmarks/engine_programs.py --write    and write course_lib/viz/three_engines/engine_programs.json

It needs libtpu and the GPU's compiler (make setup-gpu), and takes about a minute. Of each program it keeps the first
line that fits each pattern below, and counts all lines that fit one. Of the barrier that can be forgotten it keeps what
the judge says of the kernel without it.
"""

import argparse
import functools
import json
import math
import pathlib
import re
import types

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import compiler, judges
from course_lib.kernels.matmul import kernel as tpu
from course_lib.kernels.matmul import mosaic_gpu, triton
from course_lib.viz.three_engines import engine_sources

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE = ROOT / "course_lib/viz/three_engines/engine_programs.json"
X = jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16)
BLOCKS = 512, 1024, 512  # bm, bk and bn on the TPU: K is cut, so there is an accumulator
TPU, HOPPER, AMPERE = engine_sources.ENGINES
FORGOTTEN = "plgpu.barrier_wait(full.at[stage])"
OPERANDS, SUMS = "x, y = x_ref[...], y_ref[...]", "acc_ref[...] += product("  # lines of the TPU's kernel
_THREADS, _BLOCK = r"^\.(?:req|max)ntid", r"%ctaid\.x"
# aspect -> engine -> patterns, each for lines of the program; for the TPU also the line of the source they come from
PATTERNS = {
    "block": {HOPPER: [_THREADS, _BLOCK], AMPERE: [_THREADS, _BLOCK]},
    "copy": {
        TPU: [(r"dma\.hbm_to_vmem", "")],
        HOPPER: [r"cp\.async\.bulk\.tensor\.\dd\.shared"],
        AMPERE: [r"cp\.async\.c[ag]"],
    },
    "wait": {
        TPU: [(r"dma\.done\.wait", "")],
        HOPPER: [r"mbarrier\.try_wait", r"mbarrier\.arrive\.(?!expect)"],
        AMPERE: [r"cp\.async\.wait_group", r"bar\.sync"],
    },
    "multiply": {
        TPU: [(r"vld", OPERANDS), (r"vmatpush", ""), (r"vmatmul", "")],
        HOPPER: [r"wgmma\.mma_async", r"wgmma\.wait_group.* 1;"],
        AMPERE: [r"ldmatrix", r"mma\.sync"],
    },
    "accumulator": {TPU: [(r"vld", SUMS)], HOPPER: [r"wgmma\.mma_async"], AMPERE: [r"mma\.sync"]},
    "result": {
        TPU: [(r"dma\.vmem_to_hbm", "")],
        HOPPER: [r"st\.shared|stmatrix", r"fence\.proxy\.async", r"cp\.async\.bulk\.tensor\.\dd\.global"],
        AMPERE: [r"st\.global"],
    },
}


@functools.cache
def bundles() -> compiler.Code:
    return compiler.bundles(lambda x, y: tpu.launch(x, y, BLOCKS), X, X)


@functools.cache
def ptx(engine: engine_sources.Engine) -> tuple[list[str], str]:
    """Return the lines that ptxas was given, and the versions that made them. Exits if the kernel is refused."""
    product, chip = (mosaic_gpu.product, "h100") if engine is HOPPER else (triton.product, "a100")
    report = compiler.compile_gpu(lambda x, y: product(x, y)[0], X, X, chip=chip)
    if not report.ok:
        raise SystemExit(str(report))
    (kernel,) = report.kernels
    return [shortened(line) for line in kernel.ptx.splitlines()], report.versions


def shortened(line: str) -> str:
    """Return a line of PTX without its indentation, and long lists of registers by their first one and their number."""

    def listed(found: re.Match) -> str:
        registers = found[1].split(",")
        return found[0] if len(registers) <= 8 else f"{{{registers[0].strip()}, ... {len(registers)} registers}}"

    return " ".join(re.sub(r"\{([^{}]*)\}", listed, line).split())


def statements(line: str) -> list[str]:
    """Return the statements of a line of PTX: inline assembly may put several on one, in braces."""
    *whole, rest = line.split(";")
    return [f"{statement.strip()};" for statement in whole] or [rest]


def fitting(engine: engine_sources.Engine, pattern) -> list[str]:
    """Return the lines of a program that fit a pattern."""
    if engine is not TPU:
        return [statement for line in ptx(engine)[0] for statement in statements(line) if re.search(pattern, statement)]
    words, mark = pattern
    number = engine_sources.number(TPU, mark) if mark else None
    return [
        operation.text
        for bundle in bundles().bundles
        for operation in bundle.operations
        if re.search(words, operation.text) and (number is None or _from(operation) == number)
    ]


def _from(operation) -> int | None:
    return operation.place.line if operation.place and operation.place.file == "kernel.py" else None


def excerpt(engine: engine_sources.Engine, patterns: list) -> dict:
    """Return the first line for each pattern, and how many lines of the program fit one."""
    shown, count = [], 0
    for pattern in patterns:
        lines = fitting(engine, pattern)
        if not lines:
            raise SystemExit(f"no line of the program for {engine.name} fits {pattern}: change PATTERNS")
        shown.append(lines[0])
        count += len(lines)
    return {"shown": shown, "count": count}


def the_loop() -> dict:
    """Describe the loop over the grid's steps in the TPU's program."""
    outermost = bundles().loops[0]
    steps = math.prod(pl.cdiv(X.shape[0], block) for block in BLOCKS)
    says = (
        f"bundles {outermost.first} to {outermost.last}: a loop of {outermost.turns} iterations for {steps} grid steps"
    )
    return {"shown": [says], "count": 1}


def without_the_wait() -> types.ModuleType:
    """Return the Hopper kernel's module without the wait for a full stage; every other line keeps its number."""
    source = pathlib.Path(mosaic_gpu.__file__).read_text()
    if source.count(FORGOTTEN) != 1:
        raise SystemExit(f"{mosaic_gpu.__file__} must contain {FORGOTTEN!r} once")
    forgetful = types.ModuleType("forgetful")
    exec(compile(source.replace(FORGOTTEN, "pass"), mosaic_gpu.__file__, "exec"), forgetful.__dict__)
    return forgetful


def forgotten() -> dict:
    """Return the verdict on the kernel that does not wait until a stage is full.

    It copies four times into two stages. If it copied only twice, the verdict would depend on which thread is faster.
    """
    forgetful = without_the_wait()
    x, y, blocks = jnp.ones((128, 256), X.dtype), jnp.ones((256, 128), X.dtype), forgetful.Blocks(bn=128, stages=2)
    product = lambda x, y: forgetful.product(x, y, blocks=blocks, sms=1)[0]  # noqa: E731
    refusal = judges.judge_gpu(product, lambda x, y: jnp.dot(x, y), x, y)[-1]
    if refusal.passed is not False:
        raise SystemExit("no judge refuses the kernel without the wait")
    return {
        "verdict": [f"{refusal.judge}: refused. {refusal.message}", *([f"Next: {refusal.next}"] * bool(refusal.next))]
    }


def lines() -> dict:
    """Return all excerpts: aspect -> engine -> excerpt."""
    found = {
        aspect: {engine.key: excerpt(engine, patterns) for engine, patterns in engines.items()}
        for aspect, engines in PATTERNS.items()
    }
    found["block"][TPU.key] = the_loop()
    return found | {"forgotten": {HOPPER.key: forgotten()}}


def versions() -> str:
    """Return the versions of both compilers."""
    return f"{bundles().versions}, {ptx(HOPPER)[1].partition(', ')[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {FILE.relative_to(ROOT)} too")
    arguments = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    said = json.dumps({"versions": versions(), "lines": lines()}, indent=1) + "\n"
    print(said)
    if arguments.write:
        FILE.write_text(said)


if __name__ == "__main__":
    main()
