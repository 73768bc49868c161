"""Whatever JAX has traced leaves the box as it is, or is refused with a sentence that says what to write instead."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu
from programs_in_the_box import ON_A_TPU, PROGRAMS, REFUSED, TYPE
from sweeps import daily

from course_lib import grid
from course_lib.checks import borrowed
from course_lib.grading.box import calls, reading, values
from course_lib.kernels import softmax


def carried(fn):
    """The function as it comes out of a box, and the structure of its result."""
    _, *nodes = calls.answered(fn, (TYPE,), {}, "v5e", None)
    program, structure = values.loads(values.dumps(nodes))
    return reading.program(program), reading.structure(structure)


EVERY_DAY = (
    "numpy: pad", "grid: numpy", "in: roll", "checkpoint: plain", "fft: real", "random: a constant", "print: pl.when",
    "loop: psum", "call: pl.kernel", "derivative: of integers", "result: an ordered dict",
)  # fmt: skip


@pytest.mark.parametrize("name", daily(*EVERY_DAY, of=PROGRAMS))
def test_what_jax_has_traced_leaves_the_box_as_it_is(name):
    fn = PROGRAMS[name]
    jaxpr, result = grid.trace_with_result(fn, TYPE)
    read, structure = carried(fn)
    x = jax.random.normal(jax.random.key(0), TYPE.shape)
    ours = plain(jax.tree.unflatten(jax.tree.structure(result), grid.run(jaxpr, True, x)))
    its = jax.tree.unflatten(structure, grid.run(grid.trace(read, TYPE), True, x))
    assert jax.tree.structure(its) == jax.tree.structure(ours)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(its), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), rtol=1e-5, atol=1e-5)


def plain(result):
    """The result with tuples for its named tuples and dicts for their like, as the judges read it."""
    if isinstance(result, dict):
        return {key: plain(result[key]) for key in result}
    if isinstance(result, list | tuple):
        return (list if type(result) is list else tuple)(map(plain, result))
    return result


def test_a_kernel_of_the_library_is_known_outside_the_box_too():
    """Some exercises ask for a kernel of one's own, others for one of the library's."""
    ours, own = carried(softmax.softmax)[0], carried(PROGRAMS["call: static"])[0]
    (call,) = borrowed.calls(ours, jnp.ones(TYPE.shape))
    assert call.outvars[0].aval.shape == TYPE.shape
    assert "should be yours" in borrowed.complaint(ours, TYPE, next="write it.")[0]
    assert borrowed.calls(softmax.softmax, TYPE) and borrowed.complaint(own, TYPE, next="") is None


@pytest.mark.parametrize("name", ["derivative: nondiff", "derivative: symbolic zeros"])
def test_a_rule_of_derivatives_leaves_the_box_too(name):
    x, read = jax.random.normal(jax.random.key(0), TYPE.shape), carried(PROGRAMS[name])[0]
    with pltpu.force_tpu_interpret_mode():
        ours, its = (jax.grad(lambda x, f=f: jnp.sum(f(x)))(x) for f in (PROGRAMS[name], lambda x: read(x)[0]))
    assert (ours == its).all() and ours.any()


@pytest.mark.parametrize("name", daily("random bits", of=ON_A_TPU))
def test_what_only_a_tpu_runs_leaves_the_box_too(name):
    traced = [eqn.primitive for each in (ON_A_TPU[name], carried(ON_A_TPU[name])[0]) for eqn in _kernel(each).eqns]
    assert traced[: len(traced) // 2] == traced[len(traced) // 2 :]


def _kernel(fn):
    return next(e.params["jaxpr"] for e in grid.trace(fn, TYPE).eqns if e.primitive.name == "pallas_call")


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_leave_the_box_says_what_to_write(name):
    fn, instead = REFUSED[name]
    with pytest.raises(values.Unportable, match=instead) as error:
        carried(fn)
    assert name in str(error.value) and str(error.value).endswith(".") and len(str(error.value)) < 200
