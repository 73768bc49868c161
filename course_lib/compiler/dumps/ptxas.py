"""What ptxas was given and said: registers, spills, shared memory, and which instructions a kernel has."""

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
_MOSAIC_NAME = "_mosaic_gpu_kernel"

# What counts as which instruction, in PTX. A loop's body counts once, as it stands in the program.
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
    """One kernel: what ptxas said of it, and how it is launched."""

    name: str
    mosaic: bool  # a kernel of Mosaic GPU's
    registers: int  # of a thread
    spill_stores: int  # bytes of a thread
    spill_loads: int
    static_shared: int  # bytes of a block
    dynamic_shared: int | None  # asked for by the launch; None where that was not found
    threads: int | None  # of a block
    grid: tuple[int, ...] | None
    instructions: dict[str, int]
    remarks: tuple[str, ...]  # of ptxas, about speed


def read(folder: pathlib.Path) -> tuple[Program, ...]:
    """Every kernel that went through ptxas, by name."""
    launches, found = _launches(folder), []
    for file in folder.glob("*.ptx"):
        said = file.with_suffix(".ptxas")
        if file.stem.isdigit() and said.is_file():
            found += _programs(file.read_text(errors="replace"), said.read_text(errors="replace"), launches)
    once = {program.name: program for program in found}  # XLA compiles some of its fusions twice
    return tuple(once[name] for name in sorted(once))


def _programs(ptx: str, said: str, launches: dict[str, tuple]) -> list[Program]:
    heads = list(_ENTRY.finditer(ptx))
    ends = [head.start() for head in heads[1:]] + [len(ptx)]
    bodies = {head[1]: ptx[head.start() : end] for head, end in zip(heads, ends, strict=True)}
    programs = []
    for entry, stores, loads, registers, rest in _SAID.findall(said):
        body, static = bodies.get(entry, ""), _STATIC.search(rest)
        threads = _THREADS.search(body)
        mosaic = entry.endswith(_MOSAIC_NAME)
        grid, block, shared = launches.get(entry, (None, None, None))
        programs.append(
            Program(
                name=entry.removesuffix(_MOSAIC_NAME),
                mosaic=mosaic,
                registers=int(registers),
                spill_stores=int(stores),
                spill_loads=int(loads),
                static_shared=int(static[1]) if static and not mosaic else 0,  # Mosaic GPU: a name for the dynamic one
                dynamic_shared=shared,
                threads=block or (math.prod(_numbers(threads[1])) if threads else None),
                grid=grid,
                instructions={
                    name: count for name, words in _INSTRUCTIONS.items() if (count := len(re.findall(words, body)))
                },
                remarks=tuple(
                    line.strip() for line in _REMARK.findall(said) if entry in line or "function" not in line
                ),
            )
        )
    return programs


def _launches(folder: pathlib.Path) -> dict[str, tuple]:
    """Entry -> (grid, threads of a block, dynamic shared memory), as Mosaic GPU and XLA write them down."""
    launches = {}
    for file in folder.glob("*.thunk_sequence.txt"):
        for entry, grid, block, shared in _XLA_LAUNCH.findall(file.read_text(errors="replace")):
            launches[entry] = _numbers(grid), math.prod(_numbers(block)), int(shared)
    for file in folder.glob("*.mlir-passes.log"):
        for entry, grid, block, shared in _MOSAIC_LAUNCH.findall(file.read_text(errors="replace")):
            launches[entry] = _constants(grid), math.prod(_constants(block)), int(shared)
    return launches


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(","))


def _constants(text: str) -> tuple[int, ...]:
    """(8, 1, 1) of "%c8, %c1, %c1_0": MLIR names a constant by its value."""
    return tuple(int(n) for n in re.findall(r"%c(\d+)", text))
