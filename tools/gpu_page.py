"""The tables of docs/gpu.md: what ptxas makes of the GPU kernels, and which judge refuses which planted bug.

    python tools/gpu_page.py            both, in the terminal
    python tools/gpu_page.py --write    and into the page, between its marks

Needs the GPU's compiler: make setup-gpu. It takes about two minutes.
"""

import argparse
import functools
import pathlib
import re
import sys

import jax
import jax.numpy as jnp

from course_lib import compiler, text
from course_lib.kernels import activations, elementwise_gpu, linear_gpu, matmul_gpu, norm_gpu

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/gpu.md"
HOPPERS, ALL = ("h100", "h200"), ("a100", "l4", "h100", "h200", "b200")
HEAD = ("kernel", "GPU", "registers", "spilled", "shared", "blocks of an SM", "wgmma", "TMA loads", "TMA stores")


def array(*shape, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(shape, dtype)


SQUARE, VECTOR = array(4096, 4096), array(4096)
ROWS, WEIGHT = array(4096, 8192), array(8192)
# name -> the function, its arguments, the GPUs it is for
KERNELS = {
    "matmul": (matmul_gpu.product, (SQUARE, SQUARE), HOPPERS),
    "matmul, x stored transposed": (functools.partial(matmul_gpu.product, transpose_x=True), (SQUARE, SQUARE), HOPPERS),
    "matmul, y stored transposed": (functools.partial(matmul_gpu.product, transpose_y=True), (SQUARE, SQUARE), HOPPERS),
    "matmul, narrow tiles": (matmul_gpu.product, (array(512, 4096), array(4096, 512)), HOPPERS),
    **{
        f"linear, {name}": (functools.partial(linear_gpu.forward, activation=name), (SQUARE, SQUARE, VECTOR), HOPPERS)
        for name in activations.ACTIVATIONS
    },
    "linear, gelu, z saved": (
        functools.partial(linear_gpu.forward, activation="gelu", save=True),
        (SQUARE, SQUARE, VECTOR),
        HOPPERS,
    ),
    "rms_norm": (norm_gpu.rms_norm, (ROWS, WEIGHT), ALL),
    "layer_norm": (norm_gpu.layer_norm, (ROWS, WEIGHT, WEIGHT), ALL),
    "softmax": (norm_gpu.softmax, (ROWS,), ALL),
    "add": (functools.partial(elementwise_gpu.pointwise, jnp.add, name="add"), (SQUARE, SQUARE), ALL),
}


def lines(name: str) -> list[str]:
    """The rows of one kernel: one for all GPUs of which ptxas says the same."""
    fn, args, chips = KERNELS[name]
    said: dict[tuple[str, ...], list[str]] = {}
    for chip in chips:
        report = compiler.compile_gpu(fn, *args, chip=chip)
        if not report.ok:
            raise SystemExit(str(report))
        (kernel,) = report.kernels
        counts = (kernel.instructions.get(what, 0) for what in ("wgmma", "TMA loads", "TMA stores"))
        slow = ", serialized" if kernel.serialized else ""
        figures = (
            f"{kernel.registers}",
            f"{kernel.spill_stores} B",
            text.size(kernel.shared_bytes),
            f"{kernel.blocks_on(chip)}",
            *(f"{count}{slow if count else ''}" for count in counts),
        )
        said.setdefault(figures, []).append(chip.upper())
    return [row(name, ", ".join(gpus), *figures) for figures, gpus in said.items()]


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def ptxas_table() -> str:
    rows = [row(*HEAD), row(*["---"] * len(HEAD))]
    for name in KERNELS:
        rows += lines(name)
    return "\n".join(rows)


def bugs_table() -> str:
    sys.path.insert(0, str(ROOT / "tests"))
    from gpu_zoo import BUGS

    rows = [row("planted bug", "refused by"), row("---", "---")]
    for bug in BUGS:
        who = "nobody" if bug.caught_by is None else bug.caught_by
        rows.append(row(bug.name, who if isinstance(who, str) else " or ".join(who)))
    return "\n".join(rows)


def written(page: str, mark: str, table: str) -> str:
    """The page with ``table`` between the marks."""
    begin, end = f"<!-- {mark} -->\n", f"\n<!-- end of {mark} -->"
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: begin + table + end, page, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/gpu.md too")
    arguments = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    page = PAGE.read_text()
    for mark, table in (("ptxas", ptxas_table()), ("bugs", bugs_table())):
        print(f"{table}\n")
        page = written(page, mark, table)
    if arguments.write:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
