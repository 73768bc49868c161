"""Every widget of ``viz``: how to make one, and what a page and a keyboard find in it. For the tests of all of them."""

from collections.abc import Callable
from typing import NamedTuple

from bundle_samples import code, viewer
from flow_samples import GELU, SOFTMAX
from player_samples import SAMPLES
from ring_samples import both_ways
from sample_kernels import array, matmul
from viz_samples import BLOCKS, DENSE, EXPERTS, PAGED, SCORES, by_density

from course_lib import compiler, viz
from course_lib.viz.common.widget import Widget


class Kind(NamedTuple):
    """A way to make a widget, and what is particular to it where all are held to the same."""

    make: Callable[[], Widget]
    root: str  # the class of its outermost element
    control: str  # selects what takes the keyboard
    key: str  # changes the trait there
    trait: str
    other: object  # another value of the trait
    letters: int = 13  # pixels of the smallest


def a_player() -> Widget:
    fn, args = SAMPLES["matmul"]
    return viz.grid_player(fn, *args)


def a_splitter() -> Widget:
    fn, args = SAMPLES["matmul"]
    return viz.core_splitter(fn, *args)


def an_explorer() -> Widget:
    errors = {"bf16": {128: 2.3e-3, 512: 2.4e-3}, "f32, one pass": {128: 2.1e-3, 512: 2.2e-3}}
    return viz.precision_explorer(errors, {"bf16": 20_000})


def a_table() -> Widget:
    square = array((1024, 1024))
    return viz.vmem_table(matmul, square, square)


PRICES, SLIDER, SMALLER = compiler.op_prices(), ".course-slider", [[8, 512], *[[512, 512]] * 3]
UNROLLED = {1: code(), 2: code(length=58)}
WIDGETS = {
    "attention_roof": Kind(viz.attention_roof, "course-pick", "input:checked", "ArrowRight", "at", [0, 1]),
    "expert_map": Kind(lambda: viz.expert_map(EXPERTS), "course-pick", "input:checked", "ArrowRight", "at", [1, 2]),
    "block_map": Kind(lambda: viz.block_map(**BLOCKS), "course-pick", "input:checked", "ArrowLeft", "at", [0, 1]),
    "bundle_viewer": Kind(viewer, "course-bundles", "[role=grid]", "ArrowDown", "row", 45),
    "capability_matrix": Kind(viz.capability_matrix, "course-capabilities", ".course-cell[tabindex='0']", "ArrowDown",
                              "picked", [3, 2]),
    "cost_bars": Kind(lambda: viz.cost_bars(PRICES, all_rows=True), "course-costs", "select", "ArrowDown", "column",
                      PRICES.columns[1]),
    "core_splitter": Kind(a_splitter, "course-pick", "input:checked", "ArrowRight", "at", [1, 0, 1]),
    "density_dial": Kind(lambda: viz.density_dial(by_density(), DENSE, shown=1 / 8), "course-pick", "input:checked",
                         "ArrowRight", "at", [3]),
    "gradient_flow": Kind(lambda: viz.gradient_flow(GELU), "course-flows", SLIDER, "ArrowLeft", "step", 1),
    "grid_player": Kind(a_player, "course-player", SLIDER, "ArrowRight", "step", 17),
    "mask_painter": Kind(lambda: viz.mask_painter((20, 300), (8, 128)), "course-pick", "input:checked", "ArrowRight",
                         "at", [2, 2, 3]),
    "memory_ladder": Kind(viz.memory_ladder, "course-ladder", "input", "ArrowRight", "bytes", 4096),
    "page_player": Kind(lambda: viz.page_player(**PAGED), "course-pages", SLIDER, "ArrowRight", "step", 7),
    "pipeline_chart": Kind(viz.pipeline_chart, "course-pipeline", ".course-plot", "ArrowRight", "step", 5),
    "precision_explorer": Kind(an_explorer, "course-precision", SLIDER, "ArrowLeft", "cursor", 0),
    "ring_player": Kind(lambda: viz.ring_player(both_ways()), "course-devices", SLIDER, "ArrowRight", "step", 4),
    "roof_plot": Kind(viz.roof_plot, "course-roofs", ".course-point", "ArrowLeft", "m", 1024),
    "softmax_stepper": Kind(lambda: viz.softmax_stepper(SCORES), "course-softmax", ".course-next", "ArrowRight", "step",
                            2),
    "systolic_stepper": Kind(viz.systolic_stepper, "course-systolic", SLIDER, "ArrowRight", "cycle", 7),
    "three_engines": Kind(viz.three_engines, "course-engines", SLIDER, "ArrowRight", "step", 4, letters=12),
    "tile_painter": Kind(viz.tile_painter, "course-tiles", ".course-shape", "ArrowUp", "shape", [3, 20, 200]),
    "token_meter": Kind(viz.token_meter, "course-meter", "input", "ArrowRight", "sequences", 64),
    "traffic": Kind(lambda: viz.traffic(SOFTMAX), "course-flows", SLIDER, "ArrowLeft", "step", 1),
    "unroll_viewer": Kind(lambda: viz.unroll_viewer(UNROLLED, {1: 30, 2: 9.96}), "course-pick", "input:checked",
                          "ArrowRight", "at", [1], letters=12),
    "vmem_table": Kind(a_table, "course-vmem-table", "input", "ArrowDown", "shapes", SMALLER),
}  # fmt: skip
