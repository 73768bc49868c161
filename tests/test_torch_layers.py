"""FusedLinear and FlashAttention beside PyTorch's own modules: values, gradients, parameters, graphs, what is refused.

Skipped where PyTorch, an extra of several GB, is not installed.
"""

import copy
import pickle

import pytest
from conftest import needs_libtpu
from sweeps import daily

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from test_torch import near, normal  # noqa: E402

from course_lib.frameworks.torch import FlashAttention, FusedLinear, proof  # noqa: E402

# PyTorch's opinion of this Python, not ours.
pytestmark = pytest.mark.filterwarnings("ignore:Guards may run slower on Python:RuntimeWarning")
THEIRS = {
    None: lambda z: z,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda z: torch.nn.functional.gelu(z, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}
X, Y, Z = normal(4, 10, 32), normal(4, 6, 20), normal(4, 6, 12)
PADDED = torch.arange(10) >= torch.tensor([[10], [7], [3], [1]])
CAUSAL = torch.nn.Transformer.generate_square_subsequent_mask(10)


def twin(ours, their_class, *args, **how):
    """Return PyTorch's module with the parameters of ours."""
    theirs = their_class(*args, **how)
    theirs.load_state_dict(ours.state_dict())
    return theirs


def assert_same(ours, theirs, *args, call=None, their_call=None, after=lambda z: z):
    """Compare values, and the gradients of arguments and parameters."""
    found = []
    for module, how in ((ours, call or {}), (theirs, call if their_call is None else their_call)):
        given = [arg.clone().requires_grad_() for arg in args]
        value = module(*given, **(how or {}))
        value = value[0] if isinstance(value, tuple) else value
        value = after(value) if module is theirs else value
        value.backward(normal(*value.shape))
        found.append([value, *(arg.grad for arg in given), *(one.grad for one in module.parameters())])
    near(*found, 1e-4)


@pytest.mark.parametrize("activation", daily("gelu", of=THEIRS))
def test_a_linear_layer_is_pytorchs(activation):
    ours = FusedLinear(32, 7, activation=activation)
    assert_same(ours, twin(ours, torch.nn.Linear, 32, 7), X, after=THEIRS[activation])


def test_a_linear_layer_without_a_bias_by_the_kernels_themselves():
    ours = FusedLinear(32, 7, False, activation="silu", mode="interpreted")
    assert list(ours.state_dict()) == ["weight"]
    assert_same(ours, twin(ours, torch.nn.Linear, 32, 7, False), X, after=THEIRS["silu"])


def mha(**call):
    return {"need_weights": False} | call


ATTENTION = {
    "itself": ((X, X, X), {}, {}, mha()),
    "causal": ((X, X, X), {}, {"is_causal": True}, mha(is_causal=True, attn_mask=CAUSAL)),
    "padded keys": ((X, X, X), {}, {"key_padding_mask": PADDED}, mha(key_padding_mask=PADDED)),
    "other keys and values": ((X, Y, Z), {"kdim": 20, "vdim": 12, "bias": False}, {}, mha()),
}
BY_PYTORCH = {
    "weights": ((X, X, X), {}, {"need_weights": True}, None),
    "a mask": ((X, X, X), {}, mha(attn_mask=CAUSAL.T), None),
    "no batch": ((X[0], X[0], X[0]), {}, mha(), None),
    "bias_kv": ((X, X, X), {"add_bias_kv": True}, mha(), None),
}


@pytest.mark.parametrize("name", daily("causal", "padded keys", "other keys and values", of=ATTENTION | BY_PYTORCH))
@pytest.mark.parametrize("batch_first", daily(True, of=[True, False]))
def test_attention_is_pytorchs(name, batch_first):
    args, how, call, their_call = (ATTENTION | BY_PYTORCH)[name]
    if not batch_first and args[0].dim() == 3:
        args = [arg.transpose(0, 1) for arg in args]
    ours = FlashAttention(32, 4, batch_first=batch_first, **how)
    theirs = twin(ours, torch.nn.MultiheadAttention, 32, 4, batch_first=batch_first, **how)
    assert_same(ours, theirs, *args, call=call, their_call=their_call)


def runs_ours(module, *args, **call) -> bool:
    graph = torch.export.export(module, args, call).graph
    return any("course_lib" in str(node.target) for node in graph.nodes)


@pytest.mark.parametrize("name", ATTENTION | BY_PYTORCH)
def test_the_kernel_runs_where_the_docstring_says(name):
    args, how, call, _ = (ATTENTION | BY_PYTORCH)[name]
    assert runs_ours(FlashAttention(32, 4, batch_first=True, **how), *args, **call) == (name in ATTENTION)


def test_dropout_is_pytorchs_while_it_trains():
    module = FlashAttention(32, 4, dropout=0.5, batch_first=True)
    assert not runs_ours(module.train(), X, X, X) and runs_ours(module.eval(), X, X, X)


def test_a_query_that_sees_no_key_gets_zeros():
    module = FlashAttention(32, 4, batch_first=True, mode="interpreted")
    none = torch.ones(4, 10, dtype=torch.bool)
    near([module(X, X, X, key_padding_mask=none)[0]], [module.out_proj.bias.expand(4, 10, 32)], 1e-6)


def test_autocast_casts_the_arguments_and_the_gradient_is_the_parameters():
    layer = FusedLinear(32, 7, activation="relu")
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(X)
    y.float().sum().backward()
    assert y.dtype == torch.bfloat16 and layer.weight.grad.dtype == torch.float32


def test_a_module_is_copied_pickled_compiled_and_shown():
    layer = FusedLinear(32, 7, activation="gelu", mode="interpreted")
    again = pickle.loads(pickle.dumps(copy.deepcopy(layer)))
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    near([again(X), compiled(X)], [layer(X)] * 2, 1e-6)
    assert repr(layer).endswith("bias=True, activation='gelu', mode='interpreted')")


@needs_libtpu
def test_the_operators_of_the_modules_compile_for_a_tpu():
    layer = FusedLinear(256, 128, activation="relu", device="meta", dtype=torch.bfloat16)
    x = torch.empty((64, 256), dtype=torch.bfloat16, device="meta")
    heads = torch.empty((1, 2, 256, 128), dtype=torch.bfloat16, device="meta")
    proofs = [
        proof(layer.operator, x, layer.weight, layer.bias, activation="relu", simulate=False),
        proof(FlashAttention.operator, heads, heads, heads, causal=True, simulate=False),
    ]
    # As docs/pytorch.md says of a matrix that is stored as (units, features).
    assert "copy" in {op.name for op in proofs[0].forward.ops}
    kernels = [{op.name for op in report.ops if op.kind == "kernel"} for one in proofs for report in one if report.ok]
    assert kernels == [
        {"linear"},
        {"linear", "linear_dx", "linear_dw"},
        {"flash_attention"},
        {"flash_attention", "flash_attention_gradient"},
    ]


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: FusedLinear(3, 2)(torch.ones(2, 4)), r"x has shape \(2, 4\); its last axis must have in_features=3"),
        (lambda: FusedLinear(3, 2)(torch.ones(2, 3).double()), "course_lib::linear: x is torch.float64; it may be"),
        (lambda: FusedLinear(3, 2)(torch.ones(2, 3).bfloat16()), "all must be float32 or all bfloat16"),
        (lambda: FusedLinear(3, 2, activation="tanh"), "FusedLinear: activation is 'tanh'; it may be one of"),
        (lambda: FusedLinear(3, 2, precision="most"), "FusedLinear: precision is 'most'; it may be"),
        (lambda: FusedLinear(3, 2, mode="fast"), "FusedLinear: mode is 'fast'; it may be plain"),
        (lambda: FlashAttention(32, 4, precision="most"), "FlashAttention: precision is 'most'; it may be"),
        (lambda: FlashAttention(32, 4, mode="fast"), "FlashAttention: mode is 'fast'; it may be plain"),
        (lambda: FlashAttention(32, 4).double()(*[X.double()] * 3), "flash_attention: q is torch.float64; it may be"),
    ],
)
def test_a_wrong_argument_gets_one_sentence(call, says):
    with pytest.raises(ValueError, match=says):
        call()
