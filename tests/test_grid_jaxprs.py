"""course_lib.grid.jaxprs: what stands inside the equations of a traced function, and how to change and run it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from course_lib.grid import jaxprs

X = jnp.arange(4.0)
TABLE = np.arange(1.0, 5.0, dtype=np.float32)


def counted(x):
    """A scan around a condition, and a while around a jit."""
    x, total = jax.lax.scan(
        lambda c, t: (jax.lax.cond(t > 1, jnp.sin, lambda v: v * 2, c), c.sum()), x, jnp.arange(3.0)
    )
    return jax.lax.while_loop(lambda v: v[0] < 9, lambda v: jax.jit(lambda w: w + 5)(v), x), total


def doubled(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    return pl.pallas_call(kernel, out_shape=x)(x) + 1


def names(jaxpr, **options) -> list[str]:
    return [eqn.primitive.name for eqn in jaxprs.equations(jaxpr, **options)]


def test_equations_are_those_inside_too_but_not_inside_a_kernel():
    found = names(jax.make_jaxpr(counted)(X))
    assert {"scan", "cond", "sin", "while", "jit", "lt"} <= set(found)
    kernel = jax.make_jaxpr(doubled)(X)
    assert "pallas_call" in names(kernel) and "mul" not in names(kernel)
    assert "mul" in names(kernel, closed=())
    assert names(jax.make_jaxpr(counted)(X), closed=("scan", "while")).count("cond") == 0


def test_what_holds_a_kernel():
    (eqn,) = jax.make_jaxpr(jax.jit(doubled))(X).eqns
    assert jaxprs.holds_a_kernel(eqn)
    (eqn,) = jax.make_jaxpr(jax.jit(jnp.sin))(X).eqns
    assert not jaxprs.holds_a_kernel(eqn) and jaxprs.holds_a_kernel(eqn, ("sin",))


def test_what_an_equation_runs():
    scan, loop = (e for e in jax.make_jaxpr(counted)(X).eqns if e.primitive.name in ("scan", "while"))
    (cond,) = (e for e in jaxprs.equations(scan.params["jaxpr"]) if e.primitive.name == "cond")
    assert jaxprs.bodies(scan) == [scan.params["jaxpr"]] and len(jaxprs.bodies(cond)) == 2
    assert jaxprs.bodies(loop) == [loop.params["body_jaxpr"]] and len(jaxprs.inside(loop)) == 2
    (call,) = (e for e in jaxprs.equations(loop.params["body_jaxpr"]) if e.primitive.name == "jit")
    assert jaxprs.called(call) is call.params["jaxpr"] and jaxprs.bodies(call) == []
    (add,) = jaxprs.called(call).eqns
    assert jaxprs.called(add) is None and jaxprs.inside(add) == []


def test_what_stands_inside_can_be_changed_and_the_rest_stays():
    def without_sin(eqn):
        changed = jaxprs.map_inside(eqn, lambda jaxpr: jaxpr.replace(eqns=list(map(without_sin, jaxpr.eqns))))
        return changed.replace(primitive=jax.lax.cos_p) if eqn.primitive.name == "sin" else changed

    jaxpr = jax.make_jaxpr(counted)(X)
    changed = jaxpr.replace(eqns=list(map(without_sin, jaxpr.eqns)))
    assert "sin" in names(jaxpr), "the function itself is as it was"
    assert names(changed) == ["cos" if name == "sin" else name for name in names(jaxpr)]


def test_constants_are_found_inside_calls_too():
    def calling(jaxpr):
        """x + 1, and a call of ``jaxpr``."""
        (call,) = jax.make_jaxpr(jax.jit(jnp.sin))(X).eqns
        outer = jax.make_jaxpr(lambda x: x + 1)(X)
        return outer.replace(eqns=[*outer.eqns, call.replace(params=call.params | {"jaxpr": jaxpr})])

    table = jax.make_jaxpr(lambda x: x * TABLE)(X)
    assert len(table.consts) == 1
    for jaxpr in (table, calling(table), calling(calling(table))):
        assert [id(c) for c in jaxprs.constants(jaxpr)] == [id(c) for c in table.consts]
    assert jaxprs.constants(calling(jax.make_jaxpr(jnp.sin)(X))) == []


@pytest.mark.parametrize("start", [0.0, 3.0])
def test_loops_and_conditions_are_run_anew(start):
    """Each value goes with a mark, as the judges' error bounds do."""
    met = set()

    def run(jaxpr, inputs):
        values = dict(zip(jaxpr.constvars, [(c, None) for c in jaxpr.consts], strict=True))
        values |= dict(zip(jaxpr.invars, inputs, strict=True))
        for eqn in jaxpr.eqns:
            given = [values[v] if jaxprs.is_variable(v) else (v.val, None) for v in eqn.invars]
            met.add(eqn.primitive.name)
            if eqn.primitive.name in ("scan", "while", "cond"):
                made = jaxprs.run_anew(eqn, given, run, lambda pair: pair[0])
            elif (inner := jaxprs.called(eqn)) is not None:
                made = run(inner, given)
            else:
                out = eqn.primitive.bind(*(v for v, _ in given), **eqn.params)
                made = [(v, None) for v in (out if eqn.primitive.multiple_results else [out])]
            values |= dict(zip(eqn.outvars, made, strict=True))
        return [values[v] if jaxprs.is_variable(v) else (v.val, None) for v in jaxpr.outvars]

    got = run(jax.make_jaxpr(counted)(X), [(X + start, None)])
    for (value, _), wanted in zip(got, counted(X + start), strict=True):
        np.testing.assert_array_equal(value, wanted)
    assert {"scan", "while", "cond", "jit"} <= met
