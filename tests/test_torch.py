"""JAX functions as operators of PyTorch: values, gradients, shared memory, graphs, modes, and what is refused.

Skipped where PyTorch, an extra of several GB, is not installed. docs/pytorch.md says how to get it.
"""

import io
import shutil

import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from sweeps import daily

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from course_lib.frameworks import torch_tensors  # noqa: E402
from course_lib.frameworks.torch import operator, proof  # noqa: E402
from course_lib.kernels import elementwise, linear  # noqa: E402

# PyTorch's opinion of this Python, not ours.
pytestmark = pytest.mark.filterwarnings("ignore:Guards may run slower on Python:RuntimeWarning")


def normal(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def leaves(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Return copies of the tensors, of which the floats want gradients."""
    return [tensor.clone().requires_grad_(tensor.is_floating_point()) for tensor in tensors]


dense = operator("tests::dense", linear.linear, ("x", "w", "b"), options={"activation": "relu"})
square = operator("tests::square", lambda x: x * x)
rows = operator("tests::rows", lambda x, places: jnp.take(x, places, axis=0))
several = operator("tests::several", lambda x, n: (2 * x, n + 1, x), results=3)
DENSE = normal(64, 50), normal(50, 96) / 7, normal(96)
THEIRS = {"relu": torch.relu, "silu": torch.nn.functional.silu, "none": lambda z: z}
PLACES = torch.tensor([3, 1, 3], dtype=torch.int32)


def gradients(fn, *tensors, g=None):
    """Return the value of ``fn`` and the gradients of its arguments, all as float32."""
    given = leaves(*tensors)
    value = fn(*given)
    value.backward(torch.ones_like(value) if g is None else g.to(value.dtype))
    return [each.float() for each in (value.detach(), *(one.grad for one in given))]


def near(got, want, tolerance=1e-4):
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


CASES = [(activation, mode) for activation in THEIRS for mode in ("plain", "interpreted", "simulated")]


@pytest.mark.parametrize("activation, mode", daily(("relu", "plain"), ("silu", "interpreted"), of=CASES))
def test_values_and_gradients_are_pytorchs(activation, mode):
    g = normal(64, 96)
    got = gradients(lambda *args: dense(*args, activation=activation, mode=mode), *DENSE, g=g)
    near(got, gradients(lambda x, w, b: THEIRS[activation](x @ w + b), *DENSE, g=g))


def test_in_the_simulator_too():
    """A small case of what the sweep above does there."""
    x, y = normal(8, 128), normal(8, 128)
    add = operator("tests::add", elementwise.add)
    for one in gradients(lambda x, y: add(x, y, mode="simulated"), x, y)[1:]:
        assert torch.equal(one, torch.ones(8, 128))
    assert torch.equal(add(x, y, mode="simulated"), x + y)


def test_in_bfloat16():
    half, g = [tensor.bfloat16() for tensor in DENSE], normal(64, 96)
    assert dense(*half).dtype == torch.bfloat16
    got = gradients(lambda *args: dense(*args, activation="silu"), *half, g=g)
    theirs = gradients(lambda x, w, b: THEIRS["silu"](x @ w + b), *(tensor.float() for tensor in half), g=g)
    near(got, theirs, 5e-2)


@pytest.mark.parametrize(
    "op, args, options",
    [
        (dense, DENSE, {}),
        (dense, DENSE, {"activation": "silu", "mode": "interpreted"}),
        (rows, (DENSE[0], PLACES), {}),
        (several, (DENSE[0], PLACES), {}),
    ],
    ids=["dense", "options", "integers", "several results"],
)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # of opcheck's own tensors
def test_pytorchs_own_checks_of_an_operator(op, args, options):
    """Its schema, its registration with autograd, its fake tensors, and graphs with sizes left open."""
    found = torch.library.opcheck(op, tuple(leaves(*args)), options)
    assert len(found) == 4 and set(found.values()) == {"SUCCESS"}


# Memory


def test_nothing_is_copied(monkeypatch):
    """JAX gets the address of each argument, and each result has the address where JAX left it; backwards too."""
    read, returned = [], []
    to_jax, to_torch = torch_tensors.to_jax, torch_tensors.to_torch

    def spy_in(*args):
        read.append(to_jax(*args))
        return read[-1]

    def spy_out(arrays):
        returned.extend(arrays)
        return to_torch(arrays)

    monkeypatch.setattr(torch_tensors, "to_jax", spy_in)
    monkeypatch.setattr(torch_tensors, "to_torch", spy_out)
    args, g = leaves(*DENSE), normal(64, 96)
    y = dense(*args)
    y.backward(g)
    given = [*args, *args, g]
    assert [one.unsafe_buffer_pointer() for one in read] == [one.data_ptr() for one in given]
    made = [y, *(one.grad for one in args)]
    assert [one.unsafe_buffer_pointer() for one in returned] == [one.data_ptr() for one in made]


def test_a_view_with_gaps_is_copied_and_right():
    x = normal(64, 50)
    assert torch.equal(square(x.T), x.T * x.T) and torch.equal(square(x.flatten()[1:]), x.flatten()[1:] ** 2)
    assert square(x[:0]).shape == (0, 50)
    assert square(torch.tensor(3.0)) == 9


def test_a_result_never_shares_memory_with_an_argument_or_another_result():
    """PyTorch's user may write to a tensor. Outside ``jax.jit`` JAX would return the same memory here."""
    x, y = leaves(normal(4, 5), normal(4, 5))
    operator("tests::sum", lambda x, y: x + y)(x, y).sum().backward()
    x.grad.zero_()
    assert torch.equal(y.grad, torch.ones(4, 5))
    z = several(x, PLACES)[2]
    assert torch.equal(z, x) and z.data_ptr() != x.data_ptr()


def test_an_argument_may_be_written_to_right_after_the_call():
    """JAX computes in the background; an optimizer must not change a weight that is still being read."""
    product = operator("tests::product", jnp.matmul)
    x, y = normal(1000, 1000), normal(1000, 1000)
    want = x @ y
    for _ in range(3):
        given = x.clone()
        got = product(given, y)
        given.zero_()
        near([got], [want], 1e-3)


# Gradients


def test_integers_have_no_gradient_and_floats_beside_them_do():
    x, places = leaves(DENSE[0], PLACES)
    rows(x, places).sum().backward()
    assert places.grad is None and x.grad.sum(1).tolist()[:5] == [0, 50, 0, 100, 0]
    doubled, more, same = several(x, places)
    assert doubled.requires_grad and same.requires_grad and not more.requires_grad
    x.grad = None
    doubled.sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 2))
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require gradients"):
        PLACES.clone().requires_grad_()


def test_only_the_gradients_that_are_wanted_are_computed():
    """The input of a network's first layer wants none, and the program of its gradient then has no dx."""
    called = {}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, fn, types, args=(), kwargs=None):
            called[fn] = (kwargs, fn(*args, **(kwargs or {})))
            return called[fn][1]

    x, (w, b) = DENSE[0], leaves(*DENSE[1:])
    with Watch():
        dense(x, w, b).sum().backward()
    settings, returned = called[torch.ops.tests.dense_gradient.default]
    assert settings["wanted"] == [1, 2] and [one.shape for one in returned] == [w.shape, b.shape]
    assert x.grad is None and w.grad is not None


def test_a_gradient_of_the_gradient_is_refused():
    (x,) = leaves(normal(4, 5))
    (g,) = torch.autograd.grad(square(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward through tests.square_gradient.default"):
        g.sum().backward()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:FutureWarning")  # PyTorch's own use of it
def test_forward_mode_is_refused_and_not_zero():
    """PyTorch itself drops the tangent of a custom operator's argument."""
    x = normal(4, 5)
    with pytest.raises(ValueError, match=r"tests::square: forward-mode derivatives .* are not supported. Try reverse"):
        with torch.autograd.forward_ad.dual_level():
            square(torch.autograd.forward_ad.make_dual(x, x))
    assert torch.equal(square(x), x * x)


def test_what_the_page_says_of_functional_transforms():
    x = normal(4, 5)
    with pytest.warns(UserWarning, match="batching rule for tests::square"):
        assert torch.equal(torch.func.vmap(square)(x), x * x)
    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        torch.func.grad(lambda x: square(x).sum())(x)


# Graphs


class Network(torch.nn.Module):
    """Two layers, the first by our operator or by PyTorch alone."""

    def __init__(self, ours: bool):
        super().__init__()
        self.ours = ours
        self.w, self.b, self.v = (
            torch.nn.Parameter(one) for one in (DENSE[1].clone(), DENSE[2].clone(), normal(96, 1))
        )

    def forward(self, x):
        hidden = dense(x, self.w, self.b) if self.ours else torch.relu(x @ self.w + self.b)
        return hidden @ self.v


def losses(network: Network, backend: str | None = None, epochs: int = 20) -> list[float]:
    """Return the loss of each epoch of four batches."""
    step = torch.compile(network, backend=backend, fullgraph=True) if backend else network
    x = normal(256, 50)
    target, adam = x[:, :1] - x[:, 1:2].abs(), torch.optim.Adam(network.parameters(), 1e-2)
    found = []
    for _ in range(epochs):
        for batch in range(0, 256, 64):
            adam.zero_grad()
            loss = ((step(x[batch : batch + 64]) - target[batch : batch + 64]) ** 2).mean()
            loss.backward()
            adam.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("backend", daily(None, "aot_eager", of=[None, "aot_eager", "inductor"]), ids=str)
def test_twenty_epochs_are_pytorchs(backend):
    if backend == "inductor" and not shutil.which("c++"):
        pytest.skip("there is no C++ compiler, which inductor needs")
    want = losses(Network(ours=False))
    assert losses(Network(ours=True), backend) == pytest.approx(want, rel=1e-4)
    assert want[-1] < want[0] / 10


def test_an_exported_program_has_one_node_and_any_batch():
    x, batch = normal(64, 50), {"x": {0: torch.export.Dim("batch")}}
    network = Network(ours=True)
    program = torch.export.export(network, (x,), dynamic_shapes=batch)
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert targets.count(torch.ops.tests.dense.default) == 1
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file).module()
    for rows_of in (64, 7):
        near([again(x[:rows_of])], [network(x[:rows_of])], 1e-6)


def test_a_size_that_the_function_must_know_is_fixed():
    """No result of this function is as long as an argument, so PyTorch is told that the size is a number."""
    doubled = operator("tests::doubled", lambda x: jnp.concatenate([x, x]))
    compiled = torch.compile(lambda x: doubled(x) + 1, backend="aot_eager", dynamic=True, fullgraph=True)
    for count in (4, 6):
        assert torch.equal(compiled(torch.ones(count)), torch.full((2 * count,), 2.0))
    with pytest.raises(torch._dynamo.exc.UserError, match="batch as dynamic but your code specialized it"):

        class Doubles(torch.nn.Module):
            def forward(self, x):
                return doubled(x)

        torch.export.export(Doubles(), (torch.ones(4),), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})


def test_an_operator_may_be_defined_again():
    """As a notebook does, when its cell is run a second time."""
    for factor in (2, 3):
        op = operator("tests::again", lambda x, factor=factor: factor * x)
        assert op(torch.ones(2)).tolist() == [factor, factor]


# The compiler


@needs_libtpu
def test_the_compiler_of_a_tpu_accepts_it_forwards_and_backwards():
    shapes = [torch.empty(size, device="meta") for size in ((256, 512), (512, 256), (256,))]
    forward, backward = proof(dense, *shapes, simulate=False, activation="gelu")
    assert forward.ok and backward.ok, (forward.error, backward.error)
    assert [(op.name, op.kind) for op in forward.ops] == [("linear", "kernel")]  # and no copy
    assert {"linear_dx", "linear_dw"} <= {op.name for op in backward.ops if op.kind == "kernel"}


@needs_libtpu
def test_where_no_argument_is_a_float_there_is_no_backward_program():
    add = operator("tests::add_integers", elementwise.add)
    x = torch.ones((8, 128), dtype=torch.int32)
    forward, backward = proof(add, x, x, simulate=False)
    assert forward.ok and backward is None


# What is refused


def on_a_gpu():
    with FakeTensorMode():
        return dense(torch.empty(64, 50), torch.empty(50, 96, device="cuda"), torch.empty(96))


def only_for_a_tpu():
    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    return operator("tests::twice", lambda x: pl.pallas_call(kernel, out_shape=x)(x))


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: dense(DENSE[0].double(), *DENSE[1:]), "tests::dense: x is torch.float64; it may be any of float32, "),
        (lambda: rows(DENSE[0], PLACES.long()), r"places is torch.int64; it may .* Try places.int\(\)"),
        (lambda: square(torch.ones(2) * 1j), r"x is torch.complex64; it may be .* Try x.real"),
        (lambda: dense(DENSE[0], DENSE[1].T, DENSE[2]), r"x has shape \(64, 50\) and w \(96, 50\); they must be"),
        (on_a_gpu, r"tests::dense: w is on cuda:0; it must be on the CPU, whose memory JAX shares. Try w.cpu\(\)"),
        (lambda: dense(DENSE[0].to_sparse(), *DENSE[1:]), r"x is sparse, torch.sparse_coo; .* Try x.to_dense\(\)"),
        (lambda: dense(*DENSE, mode="fast"), "tests::dense: mode is 'fast'; it may be plain, interpreted, simulated"),
        (lambda: operator("tests::m", jnp.sin, mode="fast"), "operator: mode is 'fast'; it may be plain"),
        (lambda: only_for_a_tpu()(torch.ones(8, 128)), "has a kernel that only a TPU runs. Try mode='interpreted'"),
        (lambda: operator("dense", jnp.sin), "name is 'dense'; it must be 'namespace::name'. Try 'mine::dense'"),
        (lambda: operator("tests::n", lambda *x: x[0]), r"does not name its arrays. Try tensors=\('x', 'y'\)"),
        (
            lambda: operator("tests::o", jnp.sin, options={"a": None}),
            "option a of tests::o is None; its default may be",
        ),
        (lambda: operator("tests::p", jnp.sin, options={"mode": 1}), "is called 'mode', a keyword that every operator"),
        (
            lambda: operator("tests::two", lambda x: (x, x))(torch.ones(2)),
            "tests::two: the function returned 2 arrays; operator was told 1",
        ),
        (lambda: proof(torch.relu, torch.ones(2)), "was not made by course_lib.frameworks.torch.operator"),
        (lambda: proof(dense, *DENSE, mode="plain"), "proof: mode is no option of this operator; it has activation"),
    ],
)
def test_a_wrong_argument_gets_one_sentence(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_the_interpreter_runs_a_kernel_that_only_a_tpu_would():
    assert torch.equal(only_for_a_tpu()(torch.ones(8, 128), mode="interpreted"), torch.full((8, 128), 2.0))
