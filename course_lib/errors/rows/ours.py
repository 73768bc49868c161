"""This library's own errors: a call it cannot read, a compiler that crashed or took too long."""

from course_lib.errors.row import Row

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
        r"WorkerDied: the compiler's process (?P<how>.*?) \(it may use (?P<limit>[\d.]+) GiB",
        "The compiler crashed on this kernel: its process {how}. It may use {limit} GiB of memory.",
        "try a smaller array or block; if a small one crashes it too, you have found a bug in the compiler. "
        "Nothing else is lost: it ran in a process of its own.",
    ),
)
