"""Products of float32 that a chip makes in one pass of bfloat16, and the simulator exactly."""

from collections.abc import Callable

from jax.lax import Precision

from course_lib.lessons.lesson_07.bfloat16_dots import dots

_SAID = (
    "A product in it has operands of float32 and no precision. The simulator multiplies them exactly; a chip "
    "rounds them to bfloat16, and more than the rounding of float32 is lost."
)
_NEXT = 'jnp.sum adds float32 as it is. A product does with precision="highest", in several passes of the MXU.'


def refused(arguments: Callable[[], list[tuple]]) -> Callable:
    """The demand, for ``Exercise.also``, that no product of float32 is left to the chip's rounding."""

    def none_is_rounded(fn):
        for eqn in dots(fn, *arguments()[0]):
            asked = eqn.params["precision"] or (None, None)
            narrow = {None, Precision.DEFAULT} & set(asked if isinstance(asked, tuple) else (asked,))
            if narrow and any(str(v.aval.dtype) == "float32" for v in eqn.invars):
                return _SAID, _NEXT
        return None

    return none_is_rounded
