"""Reports made by hand for the tests of ``viz``, and a look into the SVG that comes out."""

import re
import xml.etree.ElementTree as ElementTree

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from shapes import words_on_words

from course_lib import errors, viz
from course_lib.compiler.report import Bundle, Extrapolation, Op, Report
from course_lib.cost import Allocation
from course_lib.viz.common import draw

HOSTILE = "<script>alert('&\"')</script>\x00\ud800"
SVG = "{http://www.w3.org/2000/svg}"
VERSIONS = "jax 0.11.2, libtpu 0.0.48.1"

X = jax.ShapeDtypeStruct((32, 256), jnp.float32)


def copy(x):
    """A copy in blocks of (8, 128)."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    return pl.pallas_call(kernel, out_shape=x, grid=(4, 2), in_specs=[block], out_specs=block)(x)


def matmul(**changes) -> Report:
    """Bound by its cycles: 23,884 of them, and 10 MiB of traffic, which take 12.8 us."""
    facts = dict(
        name="matmul",
        chip="v5e",
        ok=True,
        cycles=23_884,
        seconds=15.9e-6,
        hbm_bytes=10 << 20,
        vmem_bytes=4_550_656,
        vmem_limit=16 << 20,
        vmem=(
            Allocation(op="mm", bytes=1 << 20, purpose="scratch", name="acc_ref"),
            Allocation(op="mm", bytes=1 << 20, purpose="input window", name="x_ref", buffers=2),
            Allocation(op="mm", bytes=1 << 20, purpose="input window", name="y_ref", buffers=2),
            Allocation(op="mm", bytes=1 << 20, purpose="output window", name="o_ref", buffers=2),
            Allocation(op="mm", bytes=356_352, purpose="spill slots"),
        ),
        bundles=2424,
        slots={"MXU": 0.73, "XLU": 0.0, "VPU": 0.15, "load": 0.18, "store": 0.3, "scalar": 0.04},
        spills=87,
        fills=257,
        code_bytes=184 << 10,
        time_split={"issue": 17_727, "DMA wait": 3_553, "VPU": 1_848, "MXU": 756},
        ops=(Op(name="mm", kind="kernel", cycles=23_884, hbm_bytes=10 << 20, seconds=15.9e-6),),
        listing=program(),
        versions=VERSIONS,
    )
    return Report(**facts | changes)


def add(**changes) -> Report:
    """Bound by HBM traffic: 12.792 MB take 15.6 us, 2,340 cycles only 1.56 us."""
    facts = dict(
        name="add",
        chip="v5e",
        ok=True,
        cycles=2_340,
        seconds=15.6e-6,
        hbm_bytes=12_792_000,
        spills=0,
        fills=0,
        time_split={"issue": 210, "DMA wait": 2_130},
        versions=VERSIONS,
    )
    return Report(**facts | changes)


def bare(**changes) -> Report:
    """Compiles, and the compiler said nothing else."""
    return Report(**dict(name="bare", chip="v5e", ok=True) | changes)


def refused(**changes) -> Report:
    error = errors.Explanation(name="vmem", what="The kernel needs 18 MiB.", next="make the blocks smaller.")
    return Report(**dict(name="too_big", chip="v5e", ok=False, error=error, versions=VERSIONS) | changes)


def program(op: str = "mm", length: int = 200, loop: range = range(20, 180), full: range = range(60, 110)):
    """A program with one loop, busiest in ``full``; its second full bundle spills."""
    return tuple(_bundle(op, n, loop, full) for n in range(length))


DENSITIES = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
DENSE = bare(name="dense", seconds=91.9 / 1e6, hbm_bytes=25_200_000)


def by_density() -> dict[str, list[viz.Sparse]]:
    """Two sparse kernels: one breaks even between 1/8 and 1/4, the other is faster than DENSE at every density."""
    figures = {
        "one block a step": ((53.8, 24.6, 64), (88.9, 28.8, 128), (161.1, 33.6, 256), (311.4, 41.9, 512)),
        "eight blocks a step": ((25.9, 18.9, 8), (33.7, 21.0, 16), (49.3, 25.2, 32), (80.7, 33.6, 64)),
    }
    return {
        name: [
            viz.Sparse(density, steps, bare(seconds=us / 1e6, hbm_bytes=round(mb * 1e6)))
            for density, (us, mb, steps) in zip(DENSITIES, rows, strict=True)
        ]
        for name, rows in figures.items()
    }


SCORES = [2, 1, 0.5, -1, 5, 1, 1, 2, 3, -1, 4, 0.25]  # of one query; the maximum grows in the second block of four
# Six sequences share a pool, a seventh waits; in reserved pieces only three would fit. As in lesson 14.
REQUESTS = [(0, 40, 24), (1, 70, 30), (2, 20, 12), (3, 50, 20), (5, 10, 60), (8, 60, 18), (16, 90, 12)]
PAGED = dict(requests=REQUESTS, room=24, page=16, reserve=128)
EXPERTS = {"even": [512] * 8, "40 % to one": [300, 1638, 400, 351, 380, 326, 351, 350]}
BLOCKS = dict(queries=1024, keys=1024, bq=128, bk=128, causal=True, window=300, segments=[200, 500, 324])
EXTRAPOLATION = Extrapolation(steps=512, small=(32, 79_928), large=(64, 156_074))


def is_legible(svg: str) -> bool:
    """Whether a picture is whole, and its words stay in it and apart."""
    return parsed(svg) is not None and overflowing(svg) == [] == words_on_words(svg)


def _bundle(op: str, n: int, loop: range, full: range) -> Bundle:
    slots = {"MXU": 2, "VPU": 1} if n in full else {"scalar": 1}
    instructions = ("%v4204_v49 = vadd.f32 %v4203_v18, %v4035_v31",) if n in full else ("%s7_s1 = sadd.s32 1, %s3_s2",)
    if n == full.start + 1:
        slots = slots | {"store": 1, "spill": 1}
        instructions += ("%5 = vst [vmem:[#allocation60_spill] sm:$0xff] /*vst_source=*/%v1_v2",)
    if n == full.start + 2:  # libtpu prints an empty bundle without its loop marks
        return Bundle(op=op, address=n, depth=0)
    label = "LB" if n == loop.start else ""
    return Bundle(op=op, address=n, depth=int(n in loop), label=label, instructions=instructions, slots=slots)


def parsed(svg: str) -> ElementTree.Element:
    """The picture as a tree; its parts have names and descriptions, and nothing comes from elsewhere."""
    tree = ElementTree.fromstring(svg)
    assert tree.find(f"{SVG}title").text and tree.find(f"{SVG}desc").text
    assert not re.search(r"(href|src)=|url\(|<script|<style|<foreignObject", svg)
    return tree


def words(svg: str) -> list[str]:
    """What is written in the picture, line by line."""
    return ["".join(text.itertext()) for text in parsed(svg).iter(f"{SVG}text")]


def boxes(svg: str, fill: str) -> list[tuple[float, float, float, float]]:
    """(left, top, width, height) of the boxes of a colour, before they are moved."""
    found = [box for box in parsed(svg).iter(f"{SVG}rect") if box.get("fill") == fill]
    return [tuple(float(box.get(side, 0)) for side in ("x", "y", "width", "height")) for box in found]


def overflowing(svg: str) -> list[str]:
    """Lines of text that leave the picture, by the estimate of ``draw.width_of``; rotated ones are not looked at."""
    tree = parsed(svg)
    return _overflowing(tree, 0.0, float(tree.get("width")))


def _overflowing(node: ElementTree.Element, shift: float, width: float) -> list[str]:
    found = []
    if "rotate" in node.get("transform", ""):
        return found
    if move := re.match(r"translate\((\S+) ", node.get("transform", "")):
        shift += float(move[1])
    if node.tag == f"{SVG}text":
        shown = node.find(f"{SVG}title").tail if node.find(f"{SVG}title") is not None else node.text
        size = float(node.get("font-size"))
        assert size >= 11, shown
        long = draw.width_of(shown, size, node.get("font-weight") is not None)
        left = (
            float(node.get("x"))
            + shift
            - {"start": 0, "middle": long / 2, "end": long}[node.get("text-anchor", "start")]
        )
        if left < -1 or left + long > width + 1:
            found.append(shown)
    return found + [line for child in node for line in _overflowing(child, shift, width)]
