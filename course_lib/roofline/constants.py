"""The fitted constants. ``tools/bench_model.py --fit`` prints them again from docs/measured.csv; a test compares.

Each constant was read off published timings that it rules: docs/measured.md says which.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fitted:
    """What no data sheet tells about a chip: one number for each roof."""

    step_s: float  # seconds a grid step takes beyond its arithmetic: index maps, starting and awaiting copies
    hbm: float  # share of the bandwidth in chips.Chip that copies reach
    xla: float  # share of the MXU's peak that XLA's own matrix products reach; kernels pay step_s instead


# The registry gives each of a v5p's two cores half of the chip's bandwidth; a kernel on one core draws more than its
# half, hence 1.7. Only for a v5e are timings of XLA's own dense products at hand: the others have its ``xla``.
FITTED = {
    "v5e": Fitted(step_s=0.33e-6, hbm=0.89, xla=0.96),
    "v5p": Fitted(step_s=0.31e-6, hbm=1.70, xla=0.96),
    "v6e": Fitted(step_s=0.95e-6, hbm=0.79, xla=0.96),
    "tpu7x": Fitted(step_s=0.87e-6, hbm=0.68, xla=0.96),
}

# What a call costs the host, where a call was timed from Python: the JAX documentation's notebooks, on a v5e.
DISPATCH_S = 110e-6

# Rows left out of the fit: how many, and the median and largest relative error of their predictions.
HELD_OUT = {
    "v5e": (24, 0.018, 0.133),
    "v5p": (15, 0.045, 0.128),
    "v6e": (15, 0.049, 0.253),
    "tpu7x": (15, 0.046, 0.194),
}
