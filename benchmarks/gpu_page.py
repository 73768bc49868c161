"""The table of docs/gpu.md: what ptxas reports for the GPU kernels.

    python benchmarks/gpu_page.py            in the terminal
    python benchmarks/gpu_page.py --write    and write it to the page, between its marks

It needs the GPU's compiler (make setup-gpu), and takes about two minutes.
"""

import argparse
import functools
import pathlib
import re

import jax
import jax.numpy as jnp

from course_lib import compiler, text
from course_lib.kernels import activations, attention, elementwise, linear, matmul, norm, softmax
from course_lib.kernels.dispatch import launch

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/gpu.md"
BY_TRITON, HOPPERS = ("a100", "l4"), ("h100", "h200")
PRODUCTS, ALL = BY_TRITON + HOPPERS, (*BY_TRITON, *HOPPERS, "b200")
INSTRUCTIONS = ("wgmma", "mma", "TMA loads", "TMA stores", "cp.async")
HEAD = ("kernel", "GPU", "registers", "spilled", "shared", "blocks of an SM", *INSTRUCTIONS)


def array(*shape, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(shape, dtype)


def linear_of(activation, save=False):
    layer = functools.partial(linear.linear, activation=activation)
    return (lambda *args: jax.vjp(layer, *args)[0]) if save else layer


SQUARE, VECTOR = array(4096, 4096), array(4096)
ROWS, WEIGHT = array(4096, 8192), array(8192)
HEADS = array(4, 16, 2048, 128)
# name -> the function, its arguments, its GPUs
KERNELS = {
    "matmul": (matmul.matmul, (SQUARE, SQUARE), PRODUCTS),
    "matmul, x stored transposed": (
        functools.partial(matmul.matmul_transposed, transpose_x=True),
        (SQUARE, SQUARE),
        PRODUCTS,
    ),
    "matmul, y stored transposed": (
        functools.partial(matmul.matmul_transposed, transpose_y=True),
        (SQUARE, SQUARE),
        PRODUCTS,
    ),
    "matmul, a small result": (matmul.matmul, (array(512, 4096), array(4096, 512)), PRODUCTS),
    **{f"linear, {name}": (linear_of(name), (SQUARE, SQUARE, VECTOR), PRODUCTS) for name in activations.ACTIVATIONS},
    "linear, gelu, z saved": (linear_of("gelu", save=True), (SQUARE, SQUARE, VECTOR), PRODUCTS),
    "flash_attention": (attention.flash_attention, (HEADS, HEADS, HEADS), PRODUCTS),
    "flash_attention, causal": (functools.partial(attention.flash_attention, causal=True), (HEADS,) * 3, PRODUCTS),
    "rms_norm": (norm.rms_norm, (ROWS, WEIGHT), ALL),
    "rms_norm_residual": (norm.rms_norm_residual, (ROWS, ROWS, WEIGHT), BY_TRITON),
    "layer_norm": (norm.layer_norm, (ROWS, WEIGHT, WEIGHT), ALL),
    "softmax": (softmax.softmax, (ROWS,), ALL),
    "softmax, ragged": (softmax.softmax, (array(4093, 1000),), BY_TRITON),
    "add": (elementwise.add, (SQUARE, SQUARE), ALL),
    "gelu": (activations.gelu, (SQUARE,), ALL),
}


def lines(name: str) -> list[str]:
    """Return the rows of one kernel, in which GPUs with identical ptxas figures share a row."""
    fn, args, chips = KERNELS[name]
    said: dict[tuple[str, ...], list[str]] = {}
    for chip in chips:
        with launch.gpu_kernels(strict=True):
            report = compiler.compile_gpu(fn, *args, chip=chip)
        if not report.ok:
            raise SystemExit(str(report))
        (kernel,) = report.kernels
        counts = (kernel.instructions.get(what, 0) for what in INSTRUCTIONS)
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


def written(page: str, table: str) -> str:
    """Return the page with ``table`` between its marks."""
    begin, end = "<!-- ptxas -->\n", "\n<!-- end of ptxas -->"
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: begin + table + end, page, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/gpu.md too")
    arguments = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    table = ptxas_table()
    print(table)
    if arguments.write:
        PAGE.write_text(written(PAGE.read_text(), table))


if __name__ == "__main__":
    main()
