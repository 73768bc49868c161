"""Your own scores of golf and of projects, beside par and ours."""

from course_lib import text
from course_lib.checks import record
from course_lib.checks.exercise import exercises
from course_lib.checks.kinds import golf as scoring


def golf() -> None:
    """Print your best score in every exercise that has one, beside par and ours; fewer is better."""
    known, rows = record.entries(), [("", "", "yours", "par", "ours", "")]
    for task in exercises().values():
        if task.golf is None:
            continue
        best, ours = known[task.id].best if task.id in known else 0, scoring.ours(task.id)
        rows.append(
            (task.id, task.title, f"{best:,}" if best else "", f"{task.golf.par:,}", text.count(ours), task.golf.unit)
        )
    print("\n".join(text.table(rows, right={2, 3, 4}, gives_way=1)))
    played = sum(entry.best > 0 for entry in known.values())
    print(
        f"You have a score in {played} of {len(rows) - 1}." if played else "You have no score yet: 01.11 is the first."
    )
