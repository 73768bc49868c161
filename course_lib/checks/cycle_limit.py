"""A limit on predicted cycles at sizes that the judges need not run: a demand for ``also`` of an exercise."""

from collections.abc import Callable

from course_lib import compiler


def exceeded(
    fn: Callable, args: tuple, most: int, sizes: str, advice: Callable[[compiler.Report], tuple[str, str]]
) -> tuple[str, str] | None:
    """Return what is wrong and what to try unless ``fn(*args)`` takes at most ``most`` cycles on a v5e.

    ``sizes`` begins the sentence ("For 2 heads of 2048"). ``advice`` gets the report of a kernel that takes more, and
    returns what its cycles go to and what to try. A kernel without cycles does not meet the limit. Returns None where
    there is no compiler.
    """
    try:
        report = compiler.compile_tpu(fn, *args)
    except compiler.Unavailable:
        return None
    if not report.ok:
        return f"{sizes}, the compiler refuses it: {report.error}", "reduce the VMEM that it needs for large arrays."
    if report.cycles is None:
        why = " ".join(report.notes)
        return (
            f"{sizes}, the limit is {most:,} cycles, but the compiler's simulator gives none. {why}".rstrip(),
            "write it in another way. If the machine is busy with other things, check once more.",
        )
    if report.cycles <= most:
        return None
    where, next_ = advice(report)
    what = f"{sizes}, it takes {report.cycles:,} cycles, predicted (compiler); the limit is {most:,}."
    return f"{what} {where}", next_
