"""The SparseCores of a chip beside its TensorCore: subcores, their memories, and copies that take a list of rows."""

from course_lib import chips, text
from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture
from course_lib.viz.pictures import machine

_WIDE = 190  # of the TensorCore
_LEFT, _RIGHT = 226, draw.INNER - 14  # edges of the first SparseCore; the others look out behind it
_IN, _FIRST = _LEFT + 14, 224  # left edge and width of the first subcore
_STREAM = _IN + 32  # x of the copies
_TOP, _SUBCORES, _SHARED, _END = 128, 168, 350, 430  # y of a SparseCore and its parts


def sparse_core_picture(*, chip: str = "v6e") -> Picture:
    """Draw the SparseCores of a chip beside a TensorCore: HBM, subcores with their memories, shared memory, copies.

    Sizes come from ``chips.sparse_cores`` and ``chips.chip``, for one device. Raises ValueError for an unknown chip,
    and for one without SparseCores.
    """
    of, cores = chips.chip(chip), chips.sparse_cores(chip)
    if cores is None:
        some = ", ".join(name for name in chips.NAMES if chips.sparse_cores(name))
        raise ValueError(f"chip={chip!r} has no SparseCores. Choose one of: {some}.")
    title = f"The {cores.cores} SparseCores of a {chip}, beside a TensorCore"
    panel = draw.Panel("".join([*_units(of, cores), *_flows(), *_rules(cores)]), _END + 62)
    drawn = draw.stacked([draw.paragraph(title, size=machine.BIG, bold=True), panel], gap=8)
    words = as_text(of, cores, title)
    return Picture(svg=draw.card(drawn, title, words), text=words)


def as_text(of: chips.Chip, cores: chips.SparseCores, title: str) -> str:
    """Return the picture in words, line by line."""
    lines = (
        f"{title}.",
        f"HBM: {machine.gib(of.cores * of.hbm_bytes)} at {text.byte_rate(of.program_bandwidth)}, for both "
        "kinds of cores.",
        f"TensorCore: {text.size(of.vmem_bytes)} of VMEM, and {of.mxus} MXUs. It reads whole tiles.",
        f"SparseCore: {cores.subcores} vector subcores, which compute with {cores.lanes} lanes of 32 bits.",
        f"VMEM of a subcore (TileSpmem): {text.size(cores.vmem_bytes)}.",
        f"Shared VMEM (Spmem): what the subcores leave of the {_pool(cores)} of a SparseCore.",
        "stream.indirect.gather copies rows of HBM that a list in a subcore's VMEM names.",
        "stream.indirect.scatter.add adds rows to shared VMEM, at places that a list names.",
        *_said(cores),
    )
    return "\n".join(lines)


def _pool(cores: chips.SparseCores) -> str:
    return text.size(cores.subcores * cores.vmem_bytes)


def _said(cores: chips.SparseCores) -> tuple[str, ...]:
    return (
        f"plsc.subcore_barrier(): the {cores.subcores} subcores of one SparseCore wait for each other.",
        "Nothing orders two SparseCores before the kernel ends.",
    )


def _units(of: chips.Chip, cores: chips.SparseCores) -> list[str]:
    behind = [
        draw.box(_LEFT + 7 * n, _TOP - 7 * n, _RIGHT - _LEFT, _END - _TOP, draw.PAPER, stroke=draw.MUTED, radius=8)
        for n in reversed(range(min(3, cores.cores)))
    ]
    tensor = (f"VMEM {text.size(of.vmem_bytes)},", f"{of.mxus} MXUs.", "Reads whole tiles", "of 8 x 128")
    tensor += (f"(One of {of.cores})",) if of.cores > 1 else ()
    own = (f"VMEM {text.size(cores.vmem_bytes)}", "(TileSpmem)", f"{cores.lanes} lanes of 32 bits")
    others = cores.subcores - 1
    left = _IN + _FIRST + 12
    each = (_RIGHT - 14 - left) / others
    shared = f"what the subcores leave of {_pool(cores)}"
    return [
        machine.unit(
            0,
            4,
            draw.INNER,
            62,
            machine.OUTSIDE,
            f"HBM {machine.gib(of.cores * of.hbm_bytes)}",
            f"tables and results, at {text.byte_rate(of.program_bandwidth)} for all cores",
        ),
        machine.unit(0, _TOP, _WIDE, 130, machine.UNIT, "TensorCore", *tensor),
        *behind,
        draw.label(_STREAM + 16, _TOP + 26, "SparseCore 0", size=machine.BIG, bold=True),
        machine.unit(_IN, _SUBCORES, _FIRST, 104, machine.MEMORY, "Vector subcore 0", *own),
        *(
            draw.box(left + n * each, _SUBCORES, each - 3, 104, machine.MEMORY, stroke=draw.INK, radius=2)
            for n in range(others)
        ),
        draw.label(left, _SUBCORES - 8, f"{others} more", size=machine.SMALL),
        machine.unit(_IN, _SHARED, _RIGHT - 14 - _IN, 62, machine.MEMORY, "Shared VMEM (Spmem)", shared),
    ]


def _flows() -> list[str]:
    """Draw the copies."""
    tensor = 40
    return [
        machine.arrow(tensor, 66, tensor, _TOP, both=True, thick=6),
        machine.arrow(_STREAM, 66, _STREAM, _SUBCORES, both=True),
        draw.label(
            _STREAM + 16, 92, "rows by a list: stream.indirect.gather", size=machine.PLAIN, bold=True, halo=True
        ),
        machine.arrow(_STREAM, _SUBCORES + 104, _STREAM, _SHARED, both=True),
        draw.label(_STREAM + 16, 304, "add=True, rows by a list:", size=machine.PLAIN, bold=True),
        draw.label(_STREAM + 16, 326, "stream.indirect.scatter.add", size=machine.PLAIN, bold=True),
    ]


def _rules(cores: chips.SparseCores) -> list[str]:
    return [
        draw.label(0, _END + 34 + 24 * n, line, draw.INNER, size=machine.SMALL) for n, line in enumerate(_said(cores))
    ]
