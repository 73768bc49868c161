"""This library's own errors: a call it cannot read, a compiler that crashed or took too long."""

import re

from course_lib.errors.row import Row

_FOR_MEMORY = re.compile(r"memory|bad_alloc|out of space|RESOURCE_EXHAUSTED", re.IGNORECASE)


def _crashed(how: str, limit: str, words: str) -> dict[str, str]:
    """Say that it was for want of memory if it was: SIGSEGV and SIGKILL end it so, or its last words say it."""
    said = "" if words == "?" else f" Its last words: {words.removesuffix('.')}."
    if "SIGSEGV" in how or "SIGKILL" in how or _FOR_MEMORY.search(said):
        return {"more": f" It may use {limit} GiB of memory.{said}", "next": "try a smaller array or block."}
    if words.endswith("Bf16"):
        return {
            "more": said,
            "next": "cast to float32 before the operation that it names, which does not support bfloat16.",
        }
    return {
        "more": said,
        "next": (
            "remove parts of the kernel until it compiles: write the last part that you removed in another way. A "
            "crash is always a bug in the compiler."
        ),
    }


ROWS = (
    Row(
        "unreadable",
        r"UnreadableCall: (?P<words>.*)",
        "{words}",
        "",  # the message of grid.UnreadableCall says what to do
    ),
    Row(
        "time-limit",
        r"WorkerDied: the compiler gave no answer within (?P<limit>[\d.]+) s",
        "The compiler gave no answer within {limit} s and was stopped.",
        "try smaller blocks, then a smaller array: huge blocks and loops whose length depends on data keep it busy. "
        "compile_tpu(..., time_limit_s=) waits longer.",
    ),
    Row(
        "crash",
        r"WorkerDied: the compiler's process (?P<how>.*?) \(it may use (?P<limit>[\d.]+) GiB of memory\)"
        r"(?:; its last words: (?!.*Check failed: rem == 0)(?P<words>[^\n]*)|\s*$)",
        "The compiler crashed on this kernel: its process {how}.{more}",
        "{next} Nothing else is lost: the compiler runs in a process of its own.",
        more=_crashed,
    ),
)
