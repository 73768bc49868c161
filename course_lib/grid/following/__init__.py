"""Follow a kernel's scalars through its grid: which branches it takes, how often it loops, what it copies by hand.

The scalar core of a TPU decides where copies go and what runs; it works with grid indices, loop counters and
prefetched integers, and all of those are known here. So the body is evaluated for them, at all grid steps at
once, and array values are left open. Where a decision depends on an array's values, that is said, never guessed.
"""
