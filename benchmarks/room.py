"""What a room costs: learners on one machine, each with a kernel of their own, who all check an answer at once.

    python benchmarks/room.py [--learners 1 4 10 30] [--cores 2] [--exercise 07.1] [--spread 60]

Each learner is a Jupyter kernel with a cache of its own, as on a hub. It runs the first cell and defines our answer;
then all check it in the same moment, or with --spread at moments drawn evenly from so many seconds. The second attempt
is a new definition of the same answer. Prints the seconds from a learner's check to its verdict, the processor seconds
that one verdict takes ("work", which depends little on other work on the machine), and the memory of a learner's
kernel and compiler: before the first check, after the second, and the highest that the two have had. In the
first two figures a page that n processes share counts for 1/n, in the third it counts fully. Stops before the memory
runs out. Other work on the machine counts in the seconds, so the load is printed too.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Sequence

import psutil
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 2**20
_KEEP_FREE = 1536 * MIB
_START_S = 300  # that a kernel may take to start


class RoomError(Exception):
    """A measurement that cannot be made; the message says why."""


@dataclasses.dataclass(frozen=True)
class Found:
    """What so many learners saw: seconds to each verdict, processor seconds for one, and the MiB that one takes."""

    first: list[float]
    second: list[float]
    first_work: float
    second_work: float
    before: float
    after: float
    highest: float


def main() -> None:
    options = _options()
    cores = sorted(os.sched_getaffinity(0))[: options.cores]
    os.sched_setaffinity(0, cores)  # kernels and their compilers inherit it
    load = os.getloadavg()[0]
    print(f"{len(cores)} cores, load {load:.1f} before, exercise {options.exercise}, {_how(options.spread)}; seconds:")
    print(f"{'':8} {'first attempt':>28} {'second attempt':>28} {'MiB a learner':>24}")
    of_an_attempt = ("median", "95 %", "last", "work")
    print("learners " + "".join(f"{name:>7}" for name in 2 * of_an_attempt) + "  before   after highest    load")
    try:
        for learners in options.learners:
            found = room(learners, options.exercise, options.spread)
            attempts = (*_spread_of(found.first), found.first_work, *_spread_of(found.second), found.second_work)
            memory = "".join(f"{value:8.0f}" for value in (found.before, found.after, found.highest))
            times = "".join(f"{value:7.1f}" for value in attempts)
            print(f"{learners:8} {times}{memory}{os.getloadavg()[0]:8.1f}", flush=True)
        print(f"a JupyterLab server without kernels: {server_mib():.0f} MiB")
    except RoomError as error:
        sys.exit(f"room: {error}")


def room(learners: int, exercise: str, spread: float = 0.0) -> Found:
    """Return what ``learners`` at once see. Raise RoomError if they do not fit into memory, or an answer fails."""
    return asyncio.run(_room(learners, *cells(exercise), spread))


async def _room(learners: int, setup: str, answer: str, check: str, spread: float) -> Found:
    with tempfile.TemporaryDirectory(prefix="course-room-") as folder:
        async with _kernels(learners, pathlib.Path(folder)) as found:
            kernels, clients = zip(*found, strict=True)
            await _each(clients, setup)
            before = sum(map(_mib, kernels)) / learners
            starts = [random.Random(number).uniform(0, spread) for number in range(learners)]
            worked, attempts = [_worked_s(kernels)], []
            for _ in range(2):
                attempts.append(await _each(clients, f"{answer}\n{check}", starts))
                worked.append(_worked_s(kernels))
            work = [(end - begin) / learners for begin, end in itertools.pairwise(worked)]
            after, highest = (sum(map(mib, kernels)) / learners for mib in (_mib, _highest_mib))
    return Found(*attempts, *work, before, after, highest)


def _worked_s(kernels: Sequence[int]) -> float:
    """Return the processor seconds that kernels and their children have had."""
    times = [process.cpu_times() for pid in kernels for process in _family(pid)]
    return sum(time.user + time.system + time.children_user + time.children_system for time in times)


def _mib(pid: int) -> float:
    """Return the MiB of a process and its children, with shared pages counted by share."""
    return sum(process.memory_full_info().pss for process in _family(pid)) / MIB


def _highest_mib(pid: int) -> float:
    """Return the sum of the most MiB that a process and its children have each had."""
    texts = [pathlib.Path(f"/proc/{process.pid}/status").read_text() for process in _family(pid)]
    return sum(int(text.partition("VmHWM:")[2].split()[0]) for text in texts) / 1024


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def cells(exercise: str) -> tuple[str, str, str]:
    """Return what our solution runs before an exercise, its answer, and a check that fails unless it passes."""
    files = sorted((ROOT / "solutions").glob(f"{exercise[:2]}_*.ipynb"))
    notebook = json.loads(files[0].read_text())["cells"] if files else []
    code = {cell["id"]: "".join(cell["source"]) for cell in notebook if cell["cell_type"] == "code"}
    name = exercise.replace(".", "-")
    if f"{name}-check" not in code:
        raise RoomError(f"solutions/ has no check of {exercise}: --exercise is one of the course's, such as 07.1.")
    others = list(code)[: list(code).index(name)]
    before = [code[id] for id in others if "-" not in id or id == "first-cell"]  # no answer, and no check, of another
    own = [text for id, text in code.items() if id in (name, f"{name}-given")]
    return "\n".join(before), "\n".join(own), f"assert {code[f'{name}-check'].strip()}.passed"


@contextlib.asynccontextmanager
async def _kernels(count: int, folder: pathlib.Path) -> AsyncIterator[list[tuple[int, AsyncKernelClient]]]:
    """Start so many kernels, each with a cache of its own, and yield (pid, client) of each; end them all at the end."""
    managers, clients = [], []
    try:
        for number in range(count):
            # Files instead of ports: with many kernels at once, one would take the port that is meant for another.
            manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(folder / f"{number}-kernel"))
            ours = {"COURSE_CACHE": str(folder / str(number)), "COURSE_RECORD": "0", "COURSE_PROGRESS": "0"}
            await manager.start_kernel(env=os.environ | ours | {"PYTHONPATH": str(ROOT)}, cwd=str(ROOT))
            managers.append(manager)
            _check_memory(count)
        for manager in managers:
            clients.append(manager.client())
            clients[-1].start_channels()
            await clients[-1].wait_for_ready(timeout=_START_S)
        yield [(manager.provisioner.pid, client) for manager, client in zip(managers, clients, strict=True)]
    finally:
        for client in clients:
            client.stop_channels()
        for manager in managers:
            await manager.shutdown_kernel(now=True)


async def _each(clients: Sequence[AsyncKernelClient], code: str, starts: Sequence[float] | None = None) -> list[float]:
    """Run a cell in all kernels at once, or each after its seconds; return how long each took."""
    starts = starts or [0.0] * len(clients)
    all_of = asyncio.gather(*(_seconds(client, code, wait) for client, wait in zip(clients, starts, strict=True)))
    try:
        while not all_of.done():
            _check_memory(len(clients))
            await asyncio.wait([all_of], timeout=0.2)
        return await all_of
    finally:
        all_of.cancel()


async def _seconds(client: AsyncKernelClient, code: str, wait: float) -> float:
    await asyncio.sleep(wait)
    began, asked = time.perf_counter(), client.execute(code)
    while (reply := await client.get_shell_msg())["parent_header"].get("msg_id") != asked:
        pass  # an answer to what was asked before
    if reply["content"]["status"] != "ok":
        raise RoomError(f"a learner's cell failed: {reply['content'].get('evalue')}")
    return time.perf_counter() - began


def _check_memory(learners: int) -> None:
    left = psutil.virtual_memory().available
    if left < _KEEP_FREE:
        raise RoomError(f"{learners} learners do not fit: {left // MIB} MiB are left of this machine's memory.")


def server_mib() -> float:
    """Return the MiB of a JupyterLab server that has just answered, pages that others share counted by share."""
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.port=8941", "--allow-root"]
    with subprocess.Popen(
        [*command, "--log-level=ERROR"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            end = time.monotonic() + 120
            while not _answers(8941):
                if server.poll() is not None or time.monotonic() > end:
                    raise RoomError("JupyterLab does not start: is port 8941 taken?")
                time.sleep(0.5)
            return psutil.Process(server.pid).memory_full_info().pss / MIB
        finally:
            server.terminate()


def _answers(port: int) -> bool:
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=5).status == 200
    except OSError:
        return False


def _spread_of(times: list[float]) -> tuple[float, float, float]:
    values = sorted(times)
    return statistics.median(values), values[math.ceil(0.95 * len(values)) - 1], values[-1]


def _how(spread: float) -> str:
    return f"checks within {spread:g} s" if spread else "all at once"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", type=int, nargs="+", default=[1, 4, 10, 30], metavar="N")
    parser.add_argument("--cores", type=int, default=2, metavar="N", help="that all of them share: 2")
    parser.add_argument("--exercise", default="07.1", metavar="ID", help="07.1")
    parser.add_argument("--spread", type=float, default=0.0, metavar="SECONDS", help="0: all at once")
    return parser.parse_args()


if __name__ == "__main__":
    main()
