"""One vocabulary: what binds, whose figure it is, names one dot deep, ``chip=`` by keyword.

Every place that says one of these is asked here, or read; vocabulary.py has the words.
"""

import ast
import importlib
import inspect
import pathlib
import re
import types

import jax.numpy as jnp
import pytest
from sample_kernels import array, matmul
from viz_samples import EXTRAPOLATION, add, bare, parsed, refused
from viz_samples import matmul as matmul_report

from course_lib import bench, compiler, roofline, viz, vocabulary
from course_lib.judges.tpu import budget
from course_lib.viz.report import comparison, report
from course_lib.viz.roof_plot import blocked_product, roofs
from course_lib.viz.roof_plot.roof_plot import readout

ROOT = pathlib.Path(__file__).parent.parent
CELLS = sorted(
    [*ROOT.glob("notebooks/src/*.py"), *ROOT.glob("solutions/src/*.py"), *ROOT.glob("solutions/mutants/*.py")]
)
LESSONS = sorted((ROOT / "course_lib/lessons").rglob("*.py"))
LIBRARY = sorted(
    file
    for file in (ROOT / "course_lib").rglob("*")
    if file.suffix in (".py", ".js", ".css") and file not in LESSONS and "kernels" not in file.parts
)
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", *ROOT.glob("tools/*.py"), *ROOT.glob("benchmarks/*.py")])
PACKAGES = ("bench", "checks", "compiler", "cost", "errors", "grid", "judges", "kernels", "roofline", "viz")


def ids(file: pathlib.Path) -> str:
    return file.relative_to(ROOT).as_posix()


def arrays(*sizes: int) -> list:
    return [array((n, n), jnp.bfloat16) for n in sizes]


# What binds

ROOFS = [
    ((3.0, 1.0, 0.1), "compute"),
    ((1.0, 3.0, 0.1), "HBM"),
    ((1.0, 2.0, 3.0), "grid steps"),
    ((2.0, 2.05, 0.0), "both"),
    ((1.0, 2.05, 1.0), "both"),  # arithmetic and steps add up
    ((1.0, 1.5, 1.0), "compute"),  # neither alone takes as long as the copies; together they take longer
    ((0.0, 1.0, 0.0), "HBM"),
]


@pytest.mark.parametrize(("seconds", "says"), ROOFS, ids=str)
def test_the_words_of_three_roofs(seconds, says):
    assert vocabulary.bound_of_roofs(*seconds) == says


def test_cycles_that_mostly_wait_are_called_so():
    said = [vocabulary.bound_of_program(2.0, 1.0, waiting) for waiting in (0, 0.5, 0.51, 1)]
    assert said == ["core", "core", "waiting for copies", "waiting for copies"]
    assert vocabulary.bound_of_program(1.0, 1.0, 0.9) == vocabulary.bound_of_program(1.0, 2.0, 0.9) == "HBM"


def test_both_turns_at_five_percent():
    said = [vocabulary.bound_of_program(core, 1.0) for core in (0.9, 0.949, 0.951, 1, 1.05, 1.06, 2)]
    assert said == ["HBM", "HBM", "both", "both", "both", "core", "core"]


def spoken() -> list[str]:
    """What every place calls the bound of something."""
    products = [functools_blocks(n, b) for n, b in ((1024, 128), (1024, 512), (256, 256))]
    predictions = [roofline.predict(fn, *args) for fn, args in products]
    predictions += [roofline.predict(jnp.add, *arrays(1024, 1024)), roofline.predict(jnp.matmul, *arrays(8192, 8192))]
    waits = matmul_report(time_split={"DMA wait": 9, "issue": 1})
    reports = [matmul_report(), waits, add(), bare(cycles=1500, hbm_bytes=820_000)]
    ideals = [blocked_product.Product(m=n, k=n, n=n, blocks=None, dtype="bfloat16") for n in (64, 720, 4096)]
    rates = blocked_product.rates(chip="v5e")
    return [
        *(p.bound for p in predictions),
        *(bench.bound(jnp.matmul, *arrays(n, n)).by for n in (64, 720, 4096)),
        *(r.bound for r in reports),
        *(dict(readout(p, rates))["binds"] for p in ideals),
    ]


def functools_blocks(n: int, block: int):
    return (lambda x, y: matmul(x, y, blocks=(block,) * 3)), arrays(n, n)


def test_what_binds_is_called_by_the_six_words_and_no_others():
    assert set(spoken()) == set(vocabulary.BOUNDS), "each is said by somebody, and nothing else is"


def test_the_browser_knows_these_words_only():
    source = (ROOT / "course_lib/viz/roof_plot/roof_model.js").read_text()
    binding = source[source.index("export function bindingRoofs") : source.index("export function readout")]
    assert set(re.findall(r'"([^"]*)"', binding)) == set(vocabulary.BOUNDS) - {vocabulary.CORE, vocabulary.WAITING}
    drawn = (ROOT / "course_lib/viz/roof_plot/roof_plot.js").read_text()
    named = set(re.findall(r'(?:roof|mark|includes)\("([^"]*)"', drawn))
    assert named == {vocabulary.HBM, vocabulary.COMPUTE, vocabulary.STEPS}
    assert f'"{vocabulary.MODEL}"' in source
    lanes = (ROOT / "course_lib/viz/pipeline_chart/pipeline_lanes.js").read_text()
    bound = lanes[lanes.index("function bound(") : lanes.index("export function lanes")]
    assert set(re.findall(r'"([^"]*)"', bound)) == set(vocabulary.BOUNDS) - {vocabulary.CORE, vocabulary.WAITING}


# "memory-bound" and the like are the field's words: lesson 3 defines them, lessons and their pages may use them.
OTHER_WORDS = re.compile(
    r"bound_by_hbm|(?:MXU|memory) roof|(?:cycle|core|hbm|overhead|step)s?[- ]bound"
    r"|[Bb]ound by (?!compute\b|grid steps\b|the core\b|waiting for copies\b|HBM\b|both\b|\{|this|copies of)[a-zA-Z]+",
    re.IGNORECASE,
)
FIELD = re.compile(r"(?:memory|compute|network)-bound", re.IGNORECASE)


@pytest.mark.parametrize("file", [*CELLS, *LESSONS, *LIBRARY, *PAGES], ids=ids)
def test_no_page_says_it_in_other_words(file):
    found = OTHER_WORDS.findall(text := file.read_text())
    if file in LIBRARY:
        found += FIELD.findall(text)
    assert not found


def test_other_words_are_found():
    for wrong in (
        "bound by memory",
        "bound by the MXU",
        "HBM bound",
        "cycle-bound",
        "the MXU roof",
        "Bound by overhead",
    ):
        assert OTHER_WORDS.search(wrong), wrong
    for right in (
        "bound by HBM",
        "bound by the core",
        "bound by waiting for copies",
        "bound by both core and HBM",
        "bound by {word}",
        "a lower bound",
    ):
        assert not OTHER_WORDS.search(right), right


# Whose figure it is

WHOSE = re.compile(r"(?i)predicted(?! \((?:compiler|model)\))")


def said_with_figures() -> dict[str, str]:
    """Everything that shows a predicted figure, as a reader sees it."""
    both = compiler.Comparison(reports={"mine": matmul_report(), "XLA": add()})
    prediction = roofline.predict(jnp.matmul, *arrays(1024, 1024))
    picture = viz.three_roofs({"mine": prediction, "other": prediction})
    plot = viz.roof_plot()._repr_mimebundle_()[0]
    candidate = bench.Candidate(blocks="(8, 128)", seconds=1e-6, cycles=1, hbm_bytes=1, vmem_bytes=1, spills=0)
    slow = budget._time(matmul_report(), add(), 1.0)
    return {
        "report": str(matmul_report(extrapolation=EXTRAPOLATION)),
        "card": report.sentence(matmul_report()) + drawn(report.html(matmul_report(ops=matmul_report().ops * 2))),
        "comparison": str(both),
        "comparison's card": comparison.sentence(both.reports),
        "prediction": str(prediction),
        "roofs": picture.text + drawn_svg(picture.svg),
        "roof plot": plot["text/plain"] + drawn_svg(plot["image/svg+xml"]),
        "autotune": str(bench.Tuned(op="f", chip="v5e", versions="", candidates=(candidate,))),
        "budget": slow.what,
    }


def drawn(html: str) -> str:
    import base64

    return " ".join(
        drawn_svg(base64.b64decode(data).decode()) for data in re.findall(r"svg\+xml;base64,([^\"]+)", html)
    )


def drawn_svg(svg: str) -> str:
    return " ".join("".join(node.itertext()) for node in parsed(svg).iter() if node.tag.endswith("text"))


@pytest.mark.parametrize("name", said_with_figures())
def test_a_predicted_figure_says_by_whom(name):
    said = said_with_figures()[name]
    assert re.search(r"(?i)predicted \((compiler|model)\)", said) and not WHOSE.search(said), said


def test_a_refusal_has_no_figure_and_claims_none():
    assert "predicted" not in str(refused()).lower()


@pytest.mark.parametrize("file", CELLS, ids=ids)
def test_what_a_cell_prints_says_by_whom(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not WHOSE.search(node.value), f"line {node.lineno}: {node.value!r}"


def test_a_figure_without_its_source_is_found():
    assert WHOSE.search("11 us predicted") and WHOSE.search("Predicted: 11 us")
    assert not WHOSE.search("11 us, predicted (model)") and not WHOSE.search("Predicted (compiler): 11 us")


# Names one dot deep


def deep_names(text: str) -> list[str]:
    """``viz.roofs.Point``: names in a package's module, by way of the package."""
    found = []
    for package, middle, name in re.findall(rf"\b({'|'.join(PACKAGES)})\.([a-z_]\w*)\.([A-Za-z_]\w*)", text):
        there = getattr(importlib.import_module(f"course_lib.{package}"), middle, None)
        if there is None or isinstance(there, types.ModuleType):
            found.append(f"{package}.{middle}.{name}")
    return found


def deep_imports(text: str) -> list[str]:
    """Imports of a package's modules; the families of kernels, and the frameworks, are modules that people import."""
    nodes = list(ast.walk(ast.parse(text)))
    found = [n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)]
    found += [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
    return [name for name in found if re.match(r"course_lib\.(?!kernels$|frameworks\.\w+$)", name)]


@pytest.mark.parametrize("file", CELLS, ids=ids)
def test_cells_use_names_one_dot_deep(file):
    text = file.read_text()
    assert deep_names(text) == [] and deep_imports(text) == []


@pytest.mark.parametrize("file", LESSONS, ids=ids)
def test_hints_and_models_use_names_one_dot_deep(file):
    said = [node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)]
    assert deep_names("\n".join(text for text in said if isinstance(text, str))) == []


def test_deep_names_are_found():
    assert deep_names(
        "viz.roofs.Point(1); bench.possible.refuse(2); viz.PLOT_STYLE.keys(); chips.chip('v5e').name"
    ) == [
        "viz.roofs.Point",
        "bench.possible.refuse",
    ]
    assert deep_imports("from course_lib.viz import roofs\nimport course_lib.bench.possible\nimport jax.numpy") == [
        "course_lib.viz",
        "course_lib.bench.possible",
    ]
    assert deep_imports("from course_lib import viz\nfrom course_lib.kernels import matmul") == []


# chip= by keyword, a v5e if nothing is said


@pytest.mark.parametrize("package", [p for p in PACKAGES if p != "kernels"])
def test_chip_is_a_keyword(package):
    module = importlib.import_module(f"course_lib.{package}")
    for name in module.__all__:
        thing = getattr(module, name)
        if not inspect.isfunction(thing) or "chip" not in inspect.signature(thing).parameters:
            continue
        chip = inspect.signature(thing).parameters["chip"]
        default = "h100" if name.endswith("_gpu") else "v6e" if "sparse_core" in name else "v5e"  # a v5e has none
        assert (chip.kind, chip.default) == (chip.KEYWORD_ONLY, default), f"{package}.{name}"


def test_what_depends_on_the_chip_asks_for_it():
    for function in (viz.grid_player, viz.roof_plot, viz.vmem_table, roofline.ridge_point, roofs.of_chip, bench.bound):
        assert "chip" in inspect.signature(function).parameters, function.__name__
