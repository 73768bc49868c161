"""What ptxas was given and said: registers, spills, shared memory, and the instructions of a kernel."""

import dataclasses
import math
import pathlib
import re

_ENTRY = re.compile(r"^\.(?:visible|weak)?\s*\.?entry\s+([\w$.]+)\s*\(", re.MULTILINE)
_THREADS = re.compile(r"\.(?:reqntid|maxntid) ([\d, ]+)")
_SAID = re.compile(
    r"Compiling entry function '([^']+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?"
    r"Used (\d+) registers([^\n]*)",
    re.DOTALL,
)
_STATIC = re.compile(r"(\d+) bytes smem")
_REMARK = re.compile(
    r"^ptxas (?:info|warning)\s*: ((?:\(C\d+\) )?[^\n]*(?:wgmma|[Pp]otential|warning)[^\n]*)", re.MULTILINE
)
_MOSAIC_LAUNCH = re.compile(
    r"gpu\.launch_func [^@]*@\w+::@([\w$.]+) .*?blocks in \(([^)]*)\) threads in \(([^)]*)\)"
    r"\s*dynamic_shared_memory_size %c(\d+)"
)
_XLA_LAUNCH = re.compile(
    r"(\S+) grid: \[([\d, ]+)\] threads: \[([\d, ]+)\](?: cluster: \S+)?\s+shared_memory: (\d+) bytes"
)
_MOSAIC_NAME, _LOG = "_mosaic_gpu_kernel", ".mlir-passes.log"

# Which PTX counts as which instruction. A loop's body counts once, as it stands in the program.
_INSTRUCTIONS = {
    "wgmma": r"wgmma\.mma_async",
    "mma": r"mma\.sync",
    "tcgen05": r"tcgen05\.mma",
    "TMA loads": r"cp\.async\.bulk(?:\.tensor\.\dd)?\.shared",
    "TMA stores": r"cp\.(?:reduce\.)?async\.bulk(?:\.tensor\.\dd)?\.global",
    "cp.async": r"cp\.async\.c[ag]",
    "global loads": r"ld\.global",
    "global stores": r"st\.global",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """One kernel: what ptxas said about it, and how it is launched."""

    name: str
    mosaic: bool  # a kernel of Mosaic GPU
    registers: int  # per thread
    spill_stores: int  # bytes per thread
    spill_loads: int
    static_shared: int  # bytes per block
    dynamic_shared: int | None  # requested by the launch; None if that was not found
    threads: int | None  # per block
    grid: tuple[int, ...] | None
    instructions: dict[str, int]
    remarks: tuple[str, ...]  # from ptxas, about speed
    ptx: str  # the kernel's part of what ptxas was given


def program(*, grid, remarks, **others) -> Program:
    """Return a program from its fields, as JSON restores them. Raises TypeError for other fields."""
    return Program(grid=None if grid is None else tuple(grid), remarks=tuple(remarks), **others)


def read(folder: pathlib.Path) -> tuple[Program, ...]:
    """Return every kernel that went through ptxas: Mosaic GPU's in program order, then XLA's by name.

    Mosaic GPU keeps three files for each of its kernels, "matmul_0.ptx" and so on. Our stand-in for ptxas keeps what
    XLA compiles, under a number.
    """
    found = []
    for log in sorted(folder.glob(f"*{_LOG}")):
        stem = folder / log.name.removesuffix(_LOG)
        found += _programs(f"{stem}.ptx", f"{stem}.ptxas", _mosaic_launches(log), mosaic=True)
    launches, xlas = _xla_launches(folder), {}
    for file in folder.glob("*.ptx"):
        if file.stem.isdigit():
            for program in _programs(file, file.with_suffix(".ptxas"), launches, mosaic=False):
                xlas[program.name] = program  # XLA compiles some of them twice
    return (*found, *(xlas[name] for name in sorted(xlas)))


def _programs(ptx, said, launches: dict[str, tuple], *, mosaic: bool) -> list[Program]:
    try:
        ptx, said = (pathlib.Path(file).read_text(errors="replace") for file in (ptx, said))
    except FileNotFoundError:
        return []
    heads = list(_ENTRY.finditer(ptx))
    ends = [*(head.start() for head in heads), len(ptx)][1:]
    bodies = {head[1]: ptx[head.start() : end] for head, end in zip(heads, ends, strict=False)}
    programs = []
    for entry, stores, loads, registers, rest in _SAID.findall(said):
        if entry.endswith(_MOSAIC_NAME) != mosaic:
            continue
        body, static = bodies.get(entry, ""), _STATIC.search(rest)
        threads = _THREADS.search(body)
        grid, block, shared = launches.get(entry, (None, None, None))
        counts = {name: len(re.findall(words, body)) for name, words in _INSTRUCTIONS.items()}
        programs.append(
            Program(
                name=entry.removesuffix(_MOSAIC_NAME),
                mosaic=mosaic,
                registers=int(registers),
                spill_stores=int(stores),
                spill_loads=int(loads),
                static_shared=int(static[1]) if static and not mosaic else 0,  # Mosaic GPU: an alias of the dynamic one
                dynamic_shared=shared,
                threads=block or (math.prod(_numbers(threads[1])) if threads else None),
                grid=grid,
                instructions={name: count for name, count in counts.items() if count},
                remarks=tuple(
                    line.strip() for line in _REMARK.findall(said) if entry in line or "function" not in line
                ),
                ptx=body,
            )
        )
    return programs


def _xla_launches(folder: pathlib.Path) -> dict[str, tuple]:
    """Return {entry: (grid, threads per block, dynamic shared memory)} from XLA's files."""
    return {
        entry: (_numbers(grid), math.prod(_numbers(block)), int(shared))
        for file in folder.glob("*.thunk_sequence.txt")
        for entry, grid, block, shared in _XLA_LAUNCH.findall(file.read_text(errors="replace"))
    }


def _mosaic_launches(log: pathlib.Path) -> dict[str, tuple]:
    """Return the same from Mosaic GPU's passes; those in the middle spell the sizes out."""
    launches = {}
    with log.open(errors="replace") as lines:  # which may be megabytes
        for line in lines:
            if "gpu.launch_func" in line and (launch := _MOSAIC_LAUNCH.search(line)):
                entry, grid, block, shared = launch.groups()
                launches[entry] = _constants(grid), math.prod(_constants(block)), int(shared)
    return launches


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(","))


def _constants(text: str) -> tuple[int, ...]:
    """Return (8, 1, 1) for "%c8, %c1, %c1_0": MLIR names a constant by its value."""
    return tuple(int(n) for n in re.findall(r"%c(\d+)", text))
