"""A widget with the roofs of a chip over one blocked matmul: drag the point, or change its sizes."""

import json
import math
from collections.abc import Sequence

import traitlets

from course_lib import chips, text, vocabulary
from course_lib.roofline import Prediction
from course_lib.viz.common import draw
from course_lib.viz.common.widget import Widget, source
from course_lib.viz.roof_plot import blocked_product, roofs
from course_lib.viz.roof_plot.blocked_product import ITEMSIZE, MOST_STEPS, RESULT, Product

MOST = 65536  # of an axis, or of a side of a block
_ALIKE = 0.005  # roofs this near count as equally long
_MORE = 1.1  # times the lowest roof: from there on the parts count as adding up
_BLOCKS = (512, 1024, 1024)  # initial values of the controls when the ideal is shown first


def roof_plot(
    m: int = 4096,
    k: int = 4096,
    n: int = 4096,
    *,
    blocks: tuple[int, int, int] | None = _BLOCKS,
    dtype: str = "bfloat16",
    chip: str = "v5e",
    published: Sequence[roofs.Point] = (),
) -> "RoofPlot":
    """Show three roofs over the matmul x[m, k] @ y[k, n], and its predicted point under them.

    ``blocks`` is (bm, bk, bn), and the grid is (i, j, k) with k innermost; None is the ideal, which copies every array
    once and reaches the data sheet's rates. ``dtype`` is that of x and y: "bfloat16", "float32" (one pass of the MXU)
    or "int8" (with an int32 result). ``published`` are points that somebody measured on this chip, drawn as hollow
    diamonds while this chip is selected. Times are predicted by the model of ``roofline``. Nothing is compiled or run;
    the browser computes whatever changes. Raises ValueError for values that the controls would not accept.
    """
    kind = _dtype_name(dtype)
    for name, size in (("m", m), ("k", k), ("n", n)):
        if not _whole(size) or not 1 <= size <= MOST:
            raise ValueError(
                f"roof_plot: {name}={size!r} is not the size of an axis: it must be a whole number from 1 to {MOST}."
            )
    bm, bk, bn = _checked_blocks(blocks, kind) if blocks is not None else _BLOCKS
    return RoofPlot(
        m=m,
        k=k,
        n=n,
        bm=bm,
        bk=bk,
        bn=bn,
        ideal=blocks is None,
        dtype=kind,
        chip=chips.chip(chip).name,
        chips={name: blocked_product.rates(chip=name) for name in chips.NAMES},
        published=[_published(point) for point in published],
        published_on=chip,
    )


class RoofPlot(Widget):
    """The widget. Its traits are its settings."""

    _esm, _css = source(__file__, "dom.js", "units.js", "pipeline_model.js", "roof_model.js", "names.js")
    m = traitlets.Int(4096).tag(sync=True)
    k = traitlets.Int(4096).tag(sync=True)
    n = traitlets.Int(4096).tag(sync=True)
    bm = traitlets.Int(512).tag(sync=True)
    bk = traitlets.Int(1024).tag(sync=True)
    bn = traitlets.Int(1024).tag(sync=True)
    ideal = traitlets.Bool(False).tag(sync=True)
    dtype = traitlets.Enum(list(ITEMSIZE), "bfloat16").tag(sync=True)
    chip = traitlets.Enum(list(chips.NAMES), "v5e").tag(sync=True)
    chips = traitlets.Dict().tag(sync=True)
    published = traitlets.List().tag(sync=True)
    published_on = traitlets.Unicode("v5e").tag(sync=True)

    @property
    def product(self) -> Product:
        """The matmul shown now."""
        blocks = None if self.ideal else (self.bm, self.bk, self.bn)
        return Product(m=self.m, k=self.k, n=self.n, blocks=blocks, dtype=self.dtype)

    def _still(self) -> tuple[str, str]:
        product, chip = self.product, self.chips[self.chip]
        if product.blocks and math.prod(product.grid) > MOST_STEPS:
            return _without_a_point(product), _too_many(product)
        points = [roofs.Point(**point) for point in self.published] if self.chip == self.published_on else []
        return still(product, chip, points), as_text(product, chip)


def still(product: Product, chip: dict, published: Sequence[roofs.Point] = ()) -> str:
    """Draw the plot as a card; ``chip`` is from ``blocked_product.rates``."""
    first = roofs.point("this matmul", blocked_product.predicted(product, chip=chip["name"]))
    kind = "int8" if product.dtype == "int8" and chip["int8"] else "bf16"
    over = roofs.Roofs(
        chip=chip["name"], flop_rate=blocked_product.peak(product, chip), bandwidth=chip["bandwidth"], dtype=kind
    )
    points = [first, *published]
    figures = "; ".join(f"{name}: {value}" for name, value in readout(product, chip))
    words = [draw.paragraph(line, size=13) for line in (f"{shape(product)}. {figures}.", *hints(product, chip))]
    panel = draw.stacked([roofs.panel(points, over), *words], gap=6)
    return draw.card(panel, f"Roofs of a {chip['name']}", as_text(product, chip))


def _without_a_point(product: Product) -> str:
    return draw.card(draw.paragraph(_too_many(product), size=13), "Three roofs", shape(product))


def _too_many(product: Product) -> str:
    return (
        f"{shape(product)}: {math.prod(product.grid):,} grid steps. There is no still picture of more than "
        f"{MOST_STEPS:,}; a running notebook has one to drag."
    )


def as_text(product: Product, chip: dict) -> str:
    """Return the readout as lines of text."""
    lines = [f"{shape(product)} on a {chip['name']}", *(f"  {name}: {value}" for name, value in readout(product, chip))]
    return "\n".join([*lines, *hints(product, chip)])


def shape(p: Product) -> str:
    """Describe the matmul in one line."""
    blocks = f"blocks bm, bk, bn = {', '.join(map(str, p.blocks))}" if p.blocks else "ideal, no blocks"
    return f"x[{p.m}, {p.k}] @ y[{p.k}, {p.n}], {p.dtype}, {blocks}"


def readout(p: Product, chip: dict) -> list[tuple[str, str]]:
    """Return what the model says, as (name, value with its unit) rows. roof_model.js writes the same words."""
    found = blocked_product.predicted(p, chip=chip["name"])
    steps = "none counted" if p.blocks is None else f"{found.steps:,} × {text.duration(chip['step_s'])}"
    share = found.flops / found.seconds / blocked_product.peak(p, chip)
    rows = [
        ("FLOPs", text.amount(found.flops, "FLOPs")),
        ("HBM traffic", text.amount(found.hbm_bytes, "B")),
        ("intensity", text.intensity(found.flops / found.hbm_bytes)),
        ("compute roof", text.duration(found.compute_s)),
        ("HBM roof", text.duration(found.memory_s)),
        ("grid steps", f"{steps} = {text.duration(found.steps_s)}" if found.steps else steps),
        ("binds", found.bound),
        (vocabulary.MODEL, text.duration(found.seconds)),
        ("share of the peak", text.percent(share)),
    ]
    return [*rows, ("VMEM needed", text.size(blocked_product.vmem_bytes(p)))] if found.steps else rows


def hints(p: Product, chip: dict) -> list[str]:
    """Say what there is to see at this point, in sentences. roof_model.js writes the same words."""
    found, size = blocked_product.predicted(p, chip=chip["name"]), ITEMSIZE[p.dtype]
    peak = blocked_product.peak(p, chip)
    said, at_the_ridge = [], abs(found.compute_s / found.memory_s - 1) < _ALIKE
    if at_the_ridge:
        sizes = f"N = {p.m}" if p.m == p.k == p.n else f"m = {p.m}, k = {p.k}, n = {p.n}"
        said.append(f"At {sizes}, compute and HBM take equally long.")
    if p.blocks is None:
        each = (2 * size + (2 if p.dtype == "bfloat16" else 4)) // 2  # bytes per FLOP, times N
        from_there = f": from N = {math.ceil(peak / chip['bandwidth'] * each):,} on, compute binds on a {chip['name']}"
        said.append(f"Square matmuls of {p.dtype} have N/{each} FLOPs/byte{from_there if at_the_ridge else ''}.")
    elif p.cut[1] < p.k and p.cut[::2] == p.blocks[::2]:
        bm, _, bn = p.blocks
        said.append(
            f"However large the matmul, bm = {bm} and bn = {bn} give at most "
            f"{text.intensity(2 / (size / bm + size / bn))}; copies, at {text.percent(chip['hbm'])} of the bandwidth, "
            f"keep up with the MXU from {text.significant(peak / (chip['bandwidth'] * chip['hbm']), 3)} on."
        )
    if found.seconds > _MORE * max(found.compute_s, found.memory_s, found.steps_s):
        said.append(
            f"{text.duration(found.seconds)} is more than any single roof, because with two buffers the latency, bytes "
            "and work of a step do not fully hide one another."
        )
    said += _warnings(p, chip, found)
    return [*said, _constants(p, chip)]


def _warnings(p: Product, chip: dict, found: Prediction) -> list[str]:
    name, vmem, said = chip["name"], blocked_product.vmem_bytes(p), []
    needs = text.size(vmem)
    if vmem > chip["vmem"]:
        said.append(f"Cannot run: the blocks need {needs} of VMEM, and a {name} has {text.size(chip['vmem'])}.")
    elif vmem > chip["scoped"]:
        said.append(
            f"The blocks need {needs} of VMEM. Above {text.size(chip['scoped'])}, the compiler for a {name} refuses "
            "a kernel that does not ask for more (vmem_limit_bytes)."
        )
    padding = 1 - found.flops / (found.compute_s * blocked_product.peak(p, chip))
    if padding > 0.01:
        said.append(f"{text.percent(padding)} of the MXU's work is padding, because the sizes do not fill the blocks.")
    if p.dtype == "int8":
        said.append(f"The result of int8 is {RESULT['int8']}.")
        if not chip["int8"]:
            said.append(f"JAX's registry has no int8 rate for a {name}, so the bf16 rate counts.")
    if p.dtype == "float32":
        said.append("float32 in one pass: the MXU rounds x and y to bf16.")
    return said


def _constants(p: Product, chip: dict) -> str:
    if p.blocks is None:
        whose = f", for one of {chip['cores']} cores and the HBM that they share" if chip["cores"] > 1 else ""
        return f"Ideal: every array is copied once, behind the arithmetic, at the data sheet's rates{whose}."
    share = text.percent(chip["hbm"])
    each = f"a step takes {text.duration(chip['step_s'])} at least, and copies reach {share} of the HBM bandwidth"
    if chip["cores"] > 1:
        each += f", which one of {chip['cores']} cores has to itself"
    if chip["fitted"] == chip["name"]:
        return f"Fitted to published timings of a {chip['name']}: {each}."
    return f"No published timings of a {chip['name']} were available. Fitted to those of a {chip['fitted']}: {each}."


def _checked_blocks(blocks: object, dtype: str) -> tuple[int, int, int]:
    rows = 32 if dtype == "int8" else 8
    wanted = f"blocks=(bm, bk, bn) with bm a multiple of {rows}, bk and bn of 128, none above {MOST}; or None"
    try:
        bm, bk, bn = blocks
    except (TypeError, ValueError):
        raise ValueError(f"roof_plot: blocks={blocks!r} is not three sizes. Give {wanted}.") from None
    for name, size, unit in (("bm", bm, rows), ("bk", bk, 128), ("bn", bn, 128)):
        if not _whole(size) or not unit <= size <= MOST or size % unit:
            raise ValueError(f"roof_plot: {name}={size!r} in blocks={blocks!r} is not legal. Give {wanted}.")
    return bm, bk, bn


def _dtype_name(dtype: object) -> str:
    name = getattr(dtype, "__name__", None) or getattr(dtype, "name", None) or str(dtype)
    if name not in ITEMSIZE:
        raise ValueError(f"roof_plot: dtype={dtype!r} is not known here. Choose one of: {', '.join(ITEMSIZE)}.")
    return name


def _whole(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool)


def _published(point: object) -> dict:
    if not isinstance(point, roofs.Point) or not point.measured_by:
        raise ValueError(
            f"roof_plot: {point!r} among published= is not a viz.Point with measured_by='who measured it'."
        )
    fields = ("name", "flops", "hbm_bytes", "seconds", "measured_by")
    return json.loads(json.dumps({field: getattr(point, field) for field in fields}))
