"""Failures of emit_pipeline, each provoked for real, and what a learner reads."""

import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import X, call, compiled, copy

ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)


def piped(index_map=lambda i: (i, 0), mode=None, outputs=1):
    """A copy of X in blocks of 8 rows, by emit_pipeline."""

    def kernel(x_hbm, o_hbm):
        block = pl.BlockSpec((8, 512), index_map, pipeline_mode=mode)
        out_specs = [pl.BlockSpec((8, 512), lambda i: (i, 0))] * outputs
        pltpu.emit_pipeline(copy, grid=(32,), in_specs=[block], out_specs=out_specs)(x_hbm, o_hbm)

    return compiled(call(kernel, in_specs=[ANYWHERE], out_specs=ANYWHERE))


def calls_inside(x_ref, o_ref):
    o_ref[...] = pl.pallas_call(copy, out_shape=X)(x_ref)


FAILURES = {
    "pipeline-mode": (piped(mode=3), "A pipeline_mode is a plain number."),
    "pipeline-index-map": (piped(lambda i: i), "differ in length"),
    "pipeline-refs": (piped(outputs=0), "differs from the number of refs that its function was given"),
    "pipeline-refs, of outputs": (piped(outputs=2), "differs from the number of refs that its function was given"),
    "pallas-call-of-a-ref": (compiled(call(calls_inside)), "A pallas_call was given a ref."),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_a_cure_compiles():
    provoke.assert_compiles(piped(mode=pl.Buffered(3)))
