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
        return f"{sizes} the compiler refuses it: {report.error}", "mind the VMEM that large arrays take."
    if report.cycles is None:
        why = " ".join(report.notes)
        return (
            f"{sizes} at most {most:,} cycles are asked for, and the compiler's simulator gives none. {why}".rstrip(),
            "write it in another way. Is the machine busy with other things? Then check once more.",
        )
    if report.cycles <= most:
        return None
    where, next_ = advice(report)
    what = f"{sizes} it takes {report.cycles:,} cycles, predicted (compiler), and {most:,} are asked for."
    return f"{what} {where}", next_
