"""Float32 matmuls that a chip computes in one bfloat16 pass, but the simulator exactly."""

from collections.abc import Callable

from jax.lax import Precision

from course_lib.lessons.lesson_07.bfloat16_dots import dots

_SAID = (
    "A product in it has operands of float32 and no precision. The simulator multiplies them exactly; a chip "
    "rounds them to bfloat16, and more than the rounding of float32 is lost."
)
_NEXT = 'jnp.sum adds float32 as it is. A product does with precision="highest", in several passes of the MXU.'


def refused(arguments: Callable[[], list[tuple]]) -> Callable:
    """Return a demand, for ``Exercise.also``, that no float32 matmul is left to the chip's default rounding."""

    def none_is_rounded(fn):
        for eqn in dots(fn, *arguments()[0]):
            asked = eqn.params["precision"] or (None, None)
            narrow = {None, Precision.DEFAULT} & set(asked if isinstance(asked, tuple) else (asked,))
            if narrow and any(str(v.aval.dtype) == "float32" for v in eqn.invars):
                return _SAID, _NEXT
        return None

    return none_is_rounded
