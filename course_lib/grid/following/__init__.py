"""The evaluation of a kernel's scalars over its grid: the branches it takes, its loop counts, its copies by hand.

The scalar core of a TPU decides where copies go and what runs. It works with grid indices, loop counters and prefetched
integers, all of which are known here. So the body is evaluated for these scalars, at all grid steps at once, and array
values stay unknown. If a decision depends on an array's values, the result says so; nothing is guessed.
"""
