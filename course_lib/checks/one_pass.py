"""Float32 matmuls that a chip computes in one bfloat16 pass, but every simulator exactly."""

import jax
from jax.lax import Precision

from course_lib import judges
from course_lib.checks.matmuls import dots_in

_SAID = (
    "A matmul in it has float32 operands and no precision. The simulator multiplies them exactly, but a chip rounds "
    "them to bfloat16, and the reference computes in float32."
)
_NEXT = (
    'ask for precision="highest", which takes six passes of the MXU, or avoid the matmul: jnp.sum adds float32 '
    "values as they are."
)


def complaint(trial: judges.Trial) -> tuple[str, str] | None:
    """Return (what is wrong, what to try) if a float32 matmul leaves the precision to the chip and may not; else None.

    It may if the reference does so as well: then a chip rounds both alike.
    """
    if not _rounds(trial.traced.jaxpr.jaxpr):
        return None
    try:
        allowed = _rounds(jax.make_jaxpr(trial.reference)(*trial.args).jaxpr)
    except Exception:  # a reference in NumPy, which shows no precision
        return None
    return None if allowed else (_SAID, _NEXT)


def _rounds(jaxpr) -> bool:
    """Whether some matmul has float32 operands and no precision."""
    for eqn in dots_in(jaxpr):
        asked = eqn.params["precision"]
        asked = set(asked) if isinstance(asked, tuple) else {asked}
        if asked & {None, Precision.DEFAULT} and any(str(v.aval.dtype) == "float32" for v in eqn.invars):
            return True
    return False
