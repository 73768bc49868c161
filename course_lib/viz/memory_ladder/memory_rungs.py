"""The memories of a chip and its links as rungs: capacity, bandwidth, latency, and the source of each figure.

A rung is plain data for the browser: ``name``, ``what``, ``core`` and ``chip`` with ``capacity`` in bytes and
``bandwidth`` in bytes/s (None if not published; if cores share a rung, both are the same and ``of_chip`` is set),
``latency_s``, ``latency`` in words, and ``whose``: a key of WHOSE for each of the three. ``words`` and ``from`` hold
what the functions ``words`` and ``source`` return for each figure. memory_ladder.js repeats ``time_words``, because the
time follows the slider; a test compares them.
"""

from course_lib import chips, text
from course_lib.roofline import constants

REGISTRY, COMPILER, SHEET, BOOK, NOBODY = "R", "C", "D", "B", ""
WHOSE = {
    REGISTRY: "JAX's registry of chips",
    COMPILER: "predicted (compiler): from the slots of a bundle and the registers that libtpu uses, and its simulator",
    SHEET: "the vendor's pages: Google's about its TPUs; NVIDIA's data sheets and tuning guide",
    BOOK: "the book How to Scale Your Model",
}
UNKNOWN = "not published"
_HOST = "its memory, over PCIe, one way"
NAMES = (*chips.NAMES, *chips.GPU_NAMES)
VIEWS = ("core", "chip")
_FIGURES = ("capacity", "bandwidth")
_ADD_CYCLES = 2  # until the result of an addition can be used: the scaling book, for a v5
# One word of SMEM per cycle, usable after six: simulated by libtpu 0.0.48, the same on every chip except the v4, which
# it does not simulate. A test repeats the simulation.
SMEM_CYCLES = 6


def ladder(name: str) -> dict:
    """Return all rungs of a chip, the fastest first. Raises ValueError for a name that is not in NAMES."""
    if name not in NAMES:
        raise ValueError(f"chip={name!r} is not known. Choose one of: {', '.join(NAMES)}.")
    found = _gpu(chips.gpu(name)) if name in chips.GPU_NAMES else _tpu(chips.chip(name))
    for rung in found["rungs"]:
        rung["words"] = {view: {field: words(rung, view, field) for field in _FIGURES} for view in VIEWS}
        rung["from"] = {view: {field: source(rung, view, field) for field in (*_FIGURES, "latency")} for view in VIEWS}
    return found


def _rung(
    name: str, what: str, *, whose: tuple[str, str, str], cores: int = 1, of_chip: bool = False, **figures
) -> dict:
    """Return a rung. ``figures``: capacity, bandwidth and bytes per_cycle of one core, or of the chip if ``of_chip``;
    latency_s, latency.
    """
    known = {field: figures.get(field) for field in ("capacity", "bandwidth", "per_cycle")}
    chip = {field: value if of_chip or value is None else value * cores for field, value in known.items()}
    return {
        "name": name,
        "what": what,
        "core": known,
        "chip": chip,
        "of_chip": of_chip,
        "latency_s": figures.get("latency_s"),
        "latency": figures.get("latency", UNKNOWN),
        "whose": dict(zip(("capacity", "bandwidth", "latency"), whose, strict=True)),
    }


def _tpu(chip: chips.Chip) -> dict:
    clock, out, word = chip.clock_hz, chips.links(chip.name), chip.register_bytes
    loads, alus = chip.slots["load"], chip.slots["VPU"]
    link = out.link_bandwidth
    rungs = [
        _rung(
            "vector registers",
            f"{chip.registers} of {text.size(word)}; {alus} operations a cycle read two each",
            cores=chip.tensor_cores,
            capacity=chip.registers * word,
            **_rate(2 * alus * word, clock),
            whose=(COMPILER, COMPILER, BOOK if chip.name in ("v5e", "v5p") else NOBODY),
            **(_cycles(_ADD_CYCLES, clock) if chip.name in ("v5e", "v5p") else {}),
        ),
        _smem(chip),
        _rung(
            "VMEM",
            f"{text.counted(loads, 'load')} of {text.size(word)} a cycle into registers",
            cores=chip.tensor_cores,
            capacity=chip.vmem_bytes,
            **_rate(loads * word, clock),
            whose=(REGISTRY, COMPILER, NOBODY),
        ),
        _hbm(chip),
        _rung(
            "a neighbouring chip",
            f"ICI, {out.neighbours} neighbours; one way. Core: one link; chip: all of them",
            bandwidth=link,
            whose=(NOBODY, BOOK if link else NOBODY, BOOK if out.hop_s else NOBODY),
            **({"latency_s": out.hop_s, "latency": text.duration(out.hop_s)} if out.hop_s else {}),
        ),
        _rung(
            "the host",
            _HOST,
            of_chip=True,
            bandwidth=out.host_bandwidth,
            whose=(NOBODY, BOOK if out.host_bandwidth else NOBODY, NOBODY),
        ),
    ]
    rungs[4] |= {"chip": {"capacity": None, "bandwidth": out.chip_bandwidth, "per_cycle": None}}
    rungs[4]["whose"]["chip"] = SHEET if out.chip_bandwidth else NOBODY
    return {"name": chip.name, "core": "TensorCore", "cores": chip.tensor_cores, "rungs": rungs}


def _smem(chip: chips.Chip) -> dict:
    simulated = chip.name != "v4"
    return _rung(
        "SMEM",
        "for the scalar unit: one 32-bit word per load",
        cores=chip.tensor_cores,
        capacity=chip.smem_bytes,
        whose=(REGISTRY, *(2 * (COMPILER if simulated else NOBODY,))),
        **(_rate(4, chip.clock_hz) | _cycles(SMEM_CYCLES, chip.clock_hz) if simulated else {}),
    )


def _hbm(chip: chips.Chip) -> dict:
    read, _ = constants.LATENCY_CYCLES.get(chip.name, (None, None))
    shared = f"; {chip.tensor_cores} cores share it, and each counts half of it" if chip.tensor_cores > 1 else ""
    return _rung(
        "HBM",
        f"copied to and from VMEM{shared}",
        cores=chip.tensor_cores,
        capacity=chip.hbm_bytes,
        bandwidth=chip.hbm_bandwidth,
        whose=(REGISTRY, REGISTRY, COMPILER if read else NOBODY),
        **(_cycles(read, chip.clock_hz) if read else {}),
    )


def _rate(per_cycle: int, clock: float | None) -> dict:
    """Return the bytes per cycle, and per second if the clock is known."""
    return {"per_cycle": per_cycle, "bandwidth": clock and per_cycle * clock}


def _cycles(cycles: float, clock: float | None) -> dict:
    """Return a latency in cycles, and in seconds if the clock is known, from two sources that agree."""
    words = f"{cycles:,.0f} cycles"
    if not clock:
        return {"latency": f"{words}; clock not published"}
    return {"latency_s": cycles / clock, "latency": f"{text.duration(cycles / clock)} ({words})"}


def _gpu(gpu: chips.Gpu) -> dict:
    store, link = (SHEET, NOBODY, NOBODY), (NOBODY, SHEET, NOBODY)
    size, shared, all_sms = gpu.sm_register_bytes, gpu.sm_shared_bytes, "of all SMs together"
    hbm = {"capacity": gpu.hbm_bytes, "bandwidth": gpu.hbm_bandwidth}
    rungs = [
        _rung("registers", "65,536 of 32 bits in each SM", cores=gpu.sms, capacity=size, whose=store),
        _rung("shared memory", "of 256 KiB, with the L1 cache", cores=gpu.sms, capacity=shared, whose=store),
        _rung("L2 cache", all_sms, of_chip=True, capacity=gpu.l2_bytes, whose=store),
        _rung("HBM", all_sms, of_chip=True, whose=(SHEET, SHEET, NOBODY), **hbm),
        _rung("another GPU", "NVLink, all links, one way", of_chip=True, bandwidth=gpu.nvlink_bandwidth, whose=link),
        _rung("the host", _HOST, of_chip=True, bandwidth=gpu.pcie_bandwidth, whose=link),
    ]
    return {"name": gpu.name.upper(), "core": "SM", "cores": gpu.sms, "rungs": rungs}


def words(rung: dict, view: str, field: str) -> str:
    """Describe the ``capacity`` or ``bandwidth`` of a rung, for one core or the whole chip."""
    value, per_cycle = rung[view][field], rung[view]["per_cycle"]
    if field == "capacity":
        return "no store of its own" if value is None else text.size(value)
    if value is None:
        return f"{text.size(per_cycle)} a cycle" if per_cycle else UNKNOWN
    return text.byte_rate(value)


def source(rung: dict, view: str, field: str) -> str:
    """Return the source of a figure as a key of WHOSE; "" if there is no figure."""
    if field == "latency":
        return rung["whose"][field]
    figures = rung[view]
    if figures[field] is None and (field == "capacity" or not figures["per_cycle"]):
        return NOBODY
    return rung["whose"]["chip"] if view == "chip" and "chip" in rung["whose"] else rung["whose"][field]


def time_words(rung: dict, view: str, size: int) -> str:
    """Say how long ``size`` bytes take: the latency plus the bytes at full bandwidth, a lower bound if the latency is
    unknown.
    """
    capacity, bandwidth, per_cycle = (rung[view][field] for field in ("capacity", "bandwidth", "per_cycle"))
    over = f", {text.significant(size / capacity, 2)} times what it holds" if capacity and size > capacity else ""
    if bandwidth is None:
        return f"at least {text.count(-(-size // per_cycle))} cycles{over}" if per_cycle else UNKNOWN
    least = "" if rung["latency_s"] is not None else "at least "
    return f"{least}{text.duration((rung['latency_s'] or 0) + size / bandwidth)}{over}"
