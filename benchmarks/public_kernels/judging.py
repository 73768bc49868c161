"""What is found out about one kernel, in a process of its own: the verdicts, the chips, and the predicted time.

Each finding is sent when it is known, so a process that is stopped has told what it knew.
"""

import pathlib
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import jax
import numpy as np

from course_lib import chips, compiler, judges
from public_kernels import importing, projects
from public_kernels.adapter import Adapter

Say = Callable[[dict], None]
_WORDS = {True: "passed", False: "refused", None: "skipped"}


def _message(verdict: judges.Verdict) -> str:
    return " ".join(f"{verdict.message} {verdict.next}".split())[:900]


def judged(say: Say, fn, adapter: Adapter) -> compiler.Report | None:
    """Send each judge's verdict; all are asked, also after a refusal. Return the compiler's report."""
    report = None
    trial = judges.Trial(fn, adapter.reference, judges.drawn(adapter.args()), adapter.chip)
    if adapter.sparse_core:
        for verdict in judges.asked(trial):
            say(
                {
                    "judge": verdict.judge,
                    "said": _WORDS[verdict.passed],
                    "message": _message(verdict),
                }
            )
            report = verdict.report or report
        return report
    for name, ask in judges.JUDGES.items():
        start = time.process_time()
        try:
            verdict = ask(trial)
        except Exception as error:  # a judge must not raise: this is a finding about the judge
            say(
                {
                    "judge": name,
                    "said": "crashed",
                    "message": f"{type(error).__name__}: {error}"[:600],
                }
            )
            continue
        report = verdict.report or report
        seconds = round(time.process_time() - start, 1)
        say(
            {
                "judge": name,
                "said": _WORDS[verdict.passed],
                "message": _message(verdict),
                "cpu_s": seconds,
            }
        )
    return report


def taken(say: Say, fn, adapter: Adapter) -> None:
    """Send for each other chip whether its compiler takes the kernel, and what it says if not."""
    args = judges.drawn(adapter.args())
    for chip in chips.NAMES:
        if chip == adapter.chip:  # the compiler judge has said it
            continue
        report = compiler.compile_tpu(fn, *args, chip=chip, simulate=False)
        words = "" if report.ok else " ".join(report.error.what.split())[:300]
        say({"chip": chip, "takes": report.ok, "message": words})


def priced(say: Say, fn, adapter: Adapter, report: compiler.Report | None) -> None:
    """Send the predicted (compiler) time, and the bytes and FLOPs behind the least time on that chip.

    ``report``: the compiler's on the small arguments, which counts if the adapter has no large ones.
    """
    args = adapter.large or judges.drawn(adapter.args())
    if adapter.large or report is None:
        report = compiler.compile_tpu(fn, *args, chip=adapter.chip)
    if not report.ok:
        return
    result = jax.eval_shape(adapter.reference, *args)
    sizes = [np.prod(a.shape) * np.dtype(a.dtype).itemsize for a in jax.tree.leaves((args, result))]
    say(
        {
            "price": adapter.large_arrays or adapter.arrays,
            "seconds": report.seconds,
            "bound": report.bound,
            "moved": report.hbm_bytes,
            "least_bytes": int(sum(sizes)),
            "flops": report.flops,
            "notes": [" ".join(note.split())[:200] for note in report.notes],
        }
    )


def main(
    memory_bytes: int, answer: Connection, what: str, project_name: str, kernel: str, clones: pathlib.Path
) -> None:
    """Send the findings about one kernel, "verdicts" or "chips".

    The process may use ``memory_bytes`` from here on. Raises what importing the kernel raises.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    jax.config.update("jax_platforms", "cpu")
    project = projects.PROJECTS[project_name]
    if project.package:
        importing.prepare(clones / project.folder, project.package, project.stubs, project.whole)
    adapter = next(adapter for adapter in project.adapters if adapter.name == kernel)
    fn = adapter.load()
    if what == "verdicts":
        priced(answer.send, fn, adapter, judged(answer.send, fn, adapter))
    else:
        taken(answer.send, fn, adapter)
