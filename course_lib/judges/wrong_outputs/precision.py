"""Values that are nearly right, and the dtype that they were kept in on the way."""

import functools

import jax.numpy as jnp
import numpy as np

from course_lib import grid
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.dependence import argument_name
from course_lib.judges.wrong_outputs.finding import Finding, confirmed

_FAR = 0.5  # of the values' size: no element is this far off
_MOVES = ("concatenate", "transpose", "reshape", "broadcast_in_dim", "slice", "squeeze")
_NEARLY = 0.1  # of the values' size: half of the wrong elements are closer


def through_float32(found: Finding) -> Complaint | None:
    """Report large integers that are off by less than the 24 bits of a float32."""
    got, want = found.got, found.want.value
    if got.dtype.kind not in "iu":
        return None
    numbers = [a for a in (*found.leaves, want) if a.dtype.kind in "iu" and a.size]
    largest = max(float(np.abs(a.astype(float)).max()) for a in numbers)
    if not np.abs(got.astype(float) - want).max() <= largest * 2.0**-22:
        return None
    return Complaint(
        "",
        "integers this large are off by less than one part in four million, so an intermediate value was float32, "
        "which holds 24 bits. Compute in the dtype of the arguments.",
    )


@functools.partial(confirmed, same=False)
def too_few_bits(found: Finding) -> Complaint | None:
    """Report an output that is nearly right, and the narrow dtype or the approximation that the kernel has in it."""
    if (off := _nearly_right(found)) is None:
        return None
    what, error = off
    if error <= float(jnp.finfo(jnp.bfloat16).eps) / 8:
        if not _approximates(found):
            return None
        return Complaint(
            f"{what} The kernel calls pl.reciprocal(..., approx=True), which gives 8 bits here; one Newton step makes "
            "that 16, and a float32 has 24.",
            "add one more Newton step, or remove approx=True; or find a formula without a division.",
        )
    if _approximates(found):
        return Complaint(
            f"{what} The kernel calls pl.reciprocal(..., approx=True), which is accurate to only a few digits.",
            "remove approx=True.",
        )
    if not _is_narrow_somewhere(found):
        return None
    kept = _kept_narrow(found)
    if not kept and _rounds_a_factor(found):
        return Complaint(
            f"{what} The kernel rounds values to bfloat16, which has 8 bits, and then multiplies them.",
            "multiply them in float32. If this is intended, as in flash attention in bfloat16, round the same values "
            "in the reference: jax.lax.reduce_precision(p, 8, 7).",
        )
    return Complaint(
        what
        + (f" {kept} is bfloat16." if kept else "")
        + " An error this large comes from storing values, or accumulating, in bfloat16, which has 8 bits.",
        "accumulate in float32: use a float32 scratch or output block, and preferred_element_type=jnp.float32 in "
        "every dot. Convert to bfloat16 only in the last line, never before a matmul.",
    )


@functools.partial(confirmed, same=False)
def nearly_right(found: Finding) -> Complaint | None:
    """Report such an output where nothing in the kernel says why."""
    if (off := _nearly_right(found)) is None:
        return None
    what, error = off
    if error > float(jnp.finfo(jnp.bfloat16).eps) / 8:
        return Complaint(
            what,
            "check for a constant that is slightly off, n instead of n - 1, a missing term, or a formula that cancels.",
        )
    return Complaint(
        what,
        "check for a missing term, a rounded constant, or a formula that cancels. Compute in the dtype asked for.",
    )


def _nearly_right(found: Finding) -> tuple[str, float] | None:
    """Return (how far off an output is in which every element is about right, the same as a share); None if it is not.

    The share is one of the size of the values.
    """
    if found.want.exact is None or found.want.bound is None:
        return None
    got, exact = found.got.astype(np.float64), found.want.exact
    size = np.sqrt(np.mean(exact**2, where=np.isfinite(exact))) if np.isfinite(exact).any() else 0.0
    if not size or not np.isfinite(size):
        return None
    if not (np.isfinite(got) & np.isfinite(exact))[found.wrong].all():
        return None
    sound = np.isfinite(exact) & np.isfinite(found.want.bound)
    worst = np.argmax(np.where(sound, np.abs(got - exact) - found.want.bound, -np.inf))
    error, allowed = np.abs(got - exact).flat[worst] / size, found.want.bound.flat[worst] / size
    if error > _FAR or np.median(np.abs(got - exact)[found.wrong]) / size > _NEARLY:
        return None
    if ((exact == 0) & (found.want.bound == 0))[found.wrong].any():  # no rounding makes something of nothing
        return None
    return (
        f"The whole output is nearly right: it is off by up to {_share(error)}, but only {_share(allowed)} is allowed.",
        error,
    )


def narrowed(found: Finding) -> Complaint | None:
    """Report wrong integers where a kernel converts larger integers to a float of 8 or 11 bits."""
    numbers = [a for a in found.leaves if a.dtype.kind in "iu" and a.dtype.itemsize > 1 and a.size]
    if found.got.dtype.kind not in "iu" or not numbers:
        return None
    largest = max(int(np.abs(a.astype(np.int64)).max()) for a in numbers)
    for eqn in (eqn for call in found.walk.calls for eqn in grid.equations(call.kernel)):
        new = eqn.params.get("new_dtype") if eqn.primitive.name == "convert_element_type" else None
        if new not in (jnp.bfloat16, jnp.float16) or eqn.invars[0].aval.dtype.kind not in "iu":
            continue
        bits = int(jnp.finfo(new).nmant) + 1
        if largest > 2**bits:
            return Complaint(
                f"The kernel converts integers to {np.dtype(new).name}, which holds {bits} bits, but the arguments "
                f"contain integers up to {largest:,}.",
                "use float32, which holds every integer up to 16,777,216, or keep them integers.",
            )
    return None


def overflowed(found: Finding) -> Complaint | None:
    """Report that all is right where an integer argument is small, and nearly nothing where it is large."""
    if found.got.dtype != np.int32:
        return None
    for place, arg in enumerate(found.leaves):
        if arg.shape != found.got.shape or arg.dtype != np.int32:
            continue
        least = int(arg[found.wrong].min())
        if least > 0 and (arg < least).mean() > 0.1 and found.wrong[arg >= least].mean() > 0.9:
            name = argument_name(found, place)
            return Complaint(
                f"The output is right where {name} is below {least:,}, and almost all wrong from there on.",
                "check how large each intermediate result gets. An int32 ends at 2,147,483,647 and an int16 at "
                f"32,767, and both wrap around: shift {name} down before you multiply, or multiply by less.",
            )
    return None


def wrapped(found: Finding) -> Complaint | None:
    """Report integers that are off by a multiple of 256 or 65,536, because a narrower dtype has wrapped them."""
    got, want = found.got, found.want.value
    if got.dtype.kind not in "iu":
        return None
    got, want = got[found.wrong].astype(np.int64), want[found.wrong].astype(np.int64)
    for bits in (8, 16):
        limit = 1 << (bits - 1)
        fits = (-limit <= got) & (got < limit) & ~((-limit <= want) & (want < limit))
        if (fits & ((got - want) % (1 << bits) == 0)).all():
            return Complaint(
                f"Values too large for int{bits} have wrapped around: each is off by a multiple of {1 << bits:,}.",
                "widen before you compute: x_ref[...].astype(jnp.int32), or preferred_element_type=jnp.int32 in a dot.",
            )
    return None


def _kept_narrow(found: Finding) -> str:
    """Return the name of a scratch ref in bfloat16; "" if there is none."""
    names = (
        s.name
        for call in found.walk.calls
        for s in (*call.scratch, *grid.scoped_scratch(call))
        if s.dtype == jnp.bfloat16
    )
    return next(names, "")


def _rounds_a_factor(found: Finding) -> bool:
    """Whether a kernel rounds float32 to bfloat16 and passes it to a matmul, as it is or moved about."""
    rounded = set()
    for eqn in (eqn for call in found.walk.calls for eqn in grid.equations(call.kernel)):
        name, given = eqn.primitive.name, {id(v) for v in eqn.invars}
        if name == "dot_general" and not rounded.isdisjoint(given):
            return True
        turned = name == "convert_element_type" and eqn.params["new_dtype"] == jnp.bfloat16
        if (turned and eqn.invars[0].aval.dtype == jnp.float32) or (name in _MOVES and not rounded.isdisjoint(given)):
            rounded.add(id(eqn.outvars[0]))
    return False


def _approximates(found: Finding) -> bool:
    """Whether a kernel asks for an approximate reciprocal."""
    equations = (eqn for call in found.walk.calls for eqn in grid.equations(call.kernel))
    return any(eqn.primitive.name == "reciprocal" and eqn.params.get("approx") for eqn in equations)


def _is_narrow_somewhere(found: Finding) -> bool:
    """Whether anything in the function is kept in less than float32."""
    equations = [*grid.equations(found.walk.jaxpr.jaxpr)]
    equations += [eqn for call in found.walk.calls for eqn in grid.equations(call.kernel)]
    variables = (v for eqn in equations for v in (*eqn.invars, *eqn.outvars))
    dtypes = (getattr(v.aval, "dtype", None) for v in variables)
    return any(d is not None and jnp.issubdtype(d, jnp.floating) and jnp.finfo(d).bits < 32 for d in dtypes)


def _share(value: float) -> str:
    return f"{100 * value:.2g} %"
