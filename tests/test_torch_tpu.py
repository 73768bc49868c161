"""The operator that also runs on TorchTPU's device: its CPU side, and the program that a TPU would get.

Skipped where torch_tpu is not installed. It needs no TPU, but loads libtpu.
"""

import sys
import warnings

import jax
import jax.numpy as jnp
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from test_torch import DENSE, THEIRS, gradients, leaves, near  # noqa: E402

from course_lib.frameworks.torch import operator  # noqa: E402
from course_lib.kernels import linear  # noqa: E402

# TorchTPU about its own jax_op; opcheck about its own tensors.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*jax_op is experimental"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]


def test_without_torchtpu_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_tpu", None)
    with pytest.raises(ImportError, match="TorchTPU is not installed. Try pip install torch_tpu, or tpu=False"):
        operator("tests::nowhere", jnp.sin, tpu=True)


@pytest.fixture
def dense():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("torch_tpu", reason="TorchTPU is not installed: pip install torch_tpu")
    how = {"options": {"activation": "relu"}, "tpu": True}
    return operator("tests::dense_tpu", linear.linear, ("x", "w", "b"), **how)


def test_on_a_cpu_it_is_the_operator_that_it_is_without(dense):
    found = torch.library.opcheck(dense, tuple(leaves(*DENSE)), {"activation": "silu"})
    assert len(found) == 4 and set(found.values()) == {"SUCCESS"}
    got = gradients(lambda *args: dense(*args, activation="silu", mode="interpreted"), *DENSE)
    near(got, gradients(lambda x, w, b: THEIRS["silu"](x @ w + b), *DENSE))


def test_the_program_for_a_tpu_holds_our_kernels(dense):
    """What TorchTPU exports when it is called with tensors on its device; ``_init_fn`` is a private name of PyTorch."""
    arrays = [jax.ShapeDtypeStruct(tuple(one.shape), jnp.float32) for one in DENSE]
    gradient = torch._library.custom_ops.OPDEFS["tests::dense_tpu_gradient"]
    how = {"activation": "gelu", "mode": "plain"}
    forward = dense._init_fn.exported(*arrays, **how)
    backward = gradient._init_fn.exported(*arrays, *forward.out_avals, wanted=(1, 2), **how)
    assert [one.mlir_module().count("tpu_custom_call") for one in (forward, backward)] == [1, 3]
    assert [one.shape for one in backward.out_avals] == [tuple(one.shape) for one in DENSE[1:]]
