"""Second derivatives of every op: eagerly, jitted, and translated for a TPU, where gradients are kernels too."""

import jax
import jax.numpy as jnp
import kernel_calls
import numpy as np
import pytest
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh
from kernel_calls import CALLS
from sweeps import daily

X = jnp.cos(jnp.arange(8.0 * 14).reshape(8, 14))
W = X[:5].T / 4
OPS = [(family, op) for family in CALLS for op in CALLS[family] if op != "matmul_one_block"]  # which has no gradient
V5E = AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu")


def op_and_reference(family, op):
    """Both as functions of the first argument, and that."""
    module, (args, named) = vars(kernel_calls.module(family)), kernel_calls.arguments(family, op, X, W)
    reference = module.get(f"{op}_reference") or module["reference"]
    return *(lambda first, fn=fn: fn(first, *args[1:], **named) for fn in (module[op], reference)), args[0]


def squares(fn):
    return lambda x: sum(jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in jax.tree.leaves(fn(x)))


def second(fn):
    return jax.grad(squares(jax.grad(squares(fn))))


def kernels_on_a_tpu(fn, x) -> int:
    with use_abstract_mesh(AbstractMesh((), (), abstract_device=V5E)):
        return jax.jit(fn).trace(x).lower(lowering_platforms=("tpu",)).as_text().count("tpu_custom_call")


def assert_same(change, fn, reference, x):
    fn, reference = change(fn), change(reference)
    found, wanted = jax.jit(lambda x: (fn(x), reference(x)))(x)  # one program takes XLA less than two
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3 * max(1e-3, float(jnp.abs(wanted).max())))


@pytest.mark.parametrize("family, op", daily(*{family: (family, op) for family, op in OPS}.values(), of=OPS))
def test_second_derivatives_are_jaxs_own_and_keep_the_kernels(family, op):
    """A program with the second derivative has the kernels of the first, and of the op itself."""
    fn, reference, x = op_and_reference(family, op)
    assert_same(second, fn, reference, x)
    assert kernels_on_a_tpu(second(fn), x) >= kernels_on_a_tpu(jax.grad(squares(fn)), x) >= kernels_on_a_tpu(fn, x) > 0


def along(fn):
    """The derivative along one tangent, forwards."""
    return lambda x: jax.jvp(fn, (x,), (jnp.cos(3 * x),))[1]


@pytest.mark.parametrize(
    "family, op",
    daily(
        ("linear", "linear"),
        ("linear_int8", "linear_int8"),
        ("norm", "rms_norm_residual"),
        ("reduce", "max_over"),
        of=OPS,
    ),
)
def test_forwards_and_forwards_over_reverse(family, op):
    """What jax.custom_vjp would refuse; and the kernels of the gradient are still there."""
    fn, reference, x = op_and_reference(family, op)
    for change in (lambda f: along(along(squares(f))), lambda f: along(jax.grad(squares(f)))):
        assert_same(change, fn, reference, x)
    assert kernels_on_a_tpu(along(jax.grad(squares(fn))), x) >= kernels_on_a_tpu(fn, x) > 0


@pytest.mark.parametrize("family, op", daily(("softmax", "softmax"), of=OPS))
@pytest.mark.parametrize("change", [jax.hessian, lambda f: jax.grad(along(f))], ids=["hessian", "gradient of jvp"])
def test_hessians_and_reverse_over_forwards(family, op, change):
    assert_same(lambda f: change(squares(f)), *op_and_reference(family, op))


@pytest.mark.parametrize("family, op", daily(("norm", "layer_norm"), of=OPS))
def test_eagerly_and_behind_a_checkpoint_they_are_the_same(family, op):
    fn, reference, x = op_and_reference(family, op)
    wanted = jax.jit(second(reference))(x)
    for found in (second(fn)(x), jax.jit(second(jax.checkpoint(fn)))(x)):
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3 * max(1e-3, float(jnp.abs(wanted).max())))
