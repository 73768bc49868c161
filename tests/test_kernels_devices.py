"""The kernels on many devices: each op, set-up and transformation on 8 CPU devices; errors; what TPUs get."""

import json
import os
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.sharding import AbstractDevice, AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from many_devices import CASES, SETUPS, TRANSFORMATIONS
from sweeps import daily

from course_lib.kernels import attention, linear, matmul, norm, softmax

FOLDER = pathlib.Path(__file__).parent
DAILY = [
    ("linear", "Explicit", "gradient"),
    ("linear, K cut", "Explicit", "second derivative"),
    ("linear", "shard_map, types checked", "gradient"),
    ("linear", "shard_map in part", "gradient"),
    ("linear_int8", "Explicit", "gradient"),
    ("rms_norm", "Auto", "gradient"),
    ("rms_norm", "shard_map", "second derivative"),
    ("rms_norm, rows cut", "Explicit", "gradient"),
    ("layer_norm", "eager", "gradient"),
    ("matmul, K cut", "layout", "gradient"),
    ("matmul", "Explicit", "remat"),
    ("scale_add", "Explicit", "scan"),
    ("cumsum, its axis cut, in reverse", "Explicit", "value"),
    ("softmax", "one device", "second derivative"),
    ("rms_norm, eps an array", "Explicit", "vmap of the gradient"),
    ("matmul", "Explicit", "hessian times vector"),
    ("max_over", "layout", "jvp"),
    ("flash_attention", "shard_map", "gradient"),
    ("flash_attention, rows cut", "Explicit", "value"),
    ("paged_attention", "Explicit", "gradient"),
    ("dsd, the list cut", "Explicit", "gradient"),
    ("sdd, K cut", "layout", "gradient"),
    ("grouped_matmul, K cut", "Explicit", "gradient"),
    ("grouped_swiglu", "layout", "gradient"),
    ("matmul", "Explicit", "vmap, and its gradient"),
]


def all_cases():
    for name in CASES:
        for setup in SETUPS:
            for change in TRANSFORMATIONS:
                if name == "matmul_one_block" and change not in ("value", "vmap"):  # it has no gradient
                    continue
                if name.startswith(("sum_over", "grouped", "paged", "dsd", "sdd")) and setup.startswith("shard_map"):
                    continue  # each device's sum is no result, and its rows have groups or lengths of their own
                if name.startswith("paged_attention, ") and setup not in ("one device", "Explicit"):
                    continue  # they take no layout, and are paged_attention itself but for the pool
                yield name, setup, change


def wanted(name, setup, change):
    """Kernels everywhere but where the compiler divides the work, and where the row a kernel wants whole is cut."""
    cut = name.endswith("rows cut") and setup in ("Explicit", "eager", "layout")
    divided = setup == "Auto" and name != "matmul_pipelined"  # which is plain JAX on a CPU anyway
    return "right plain" if divided or cut else "right"


def outcomes(cases) -> dict:
    """What came of each case, in a process that has 8 devices."""
    path = os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
    out = subprocess.run(
        [sys.executable, FOLDER / "many_devices.py"],
        input=json.dumps(list(cases)),
        capture_output=True,
        text=True,
        env=os.environ
        | {
            "PYTHONPATH": path,
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        },
        timeout=3000,
    )
    assert out.returncode == 0, out.stderr[-2000:]
    return {(name, setup, change): result for name, setup, change, result in map(json.loads, out.stdout.splitlines())}


def assert_wanted(cases):
    """All in one process: a second one, for a test in another worker, would start and compile anew."""
    found = outcomes(cases)
    wrong = {", ".join(case): found[case] for case in cases if found[case] != wanted(*case)}
    assert not wrong, f"{len(wrong)} of {len(cases)}: {json.dumps(wrong, indent=1)[:3000]}"


def test_a_case_of_every_setup_and_transformation():
    assert_wanted(DAILY)


def test_every_setup_and_every_transformation_has_a_daily_case():
    assert {setup for _, setup, _ in DAILY} == set(SETUPS)
    assert {change for _, _, change in DAILY} | {"vmap"} == set(TRANSFORMATIONS)
    assert set(DAILY) <= set(all_cases())


@pytest.mark.sweep
@pytest.mark.parametrize("setup", SETUPS)
def test_every_op_in_every_setup_under_every_transformation(setup):
    assert_wanted([case for case in all_cases() if case[1] == setup])


def compiled_step(topology: str) -> dict:
    """Kernels and collectives of a step of training, as train_step.py counts them in a process of its own."""
    out = subprocess.run(
        [sys.executable, FOLDER / "train_step.py", topology],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])},
        timeout=900,
    )
    assert out.returncode == 0, out.stderr[-2000:]
    return json.loads(out.stdout)


@needs_libtpu
@pytest.mark.parametrize("topology", daily("v5e:2x2", of=["v5e:2x2", "v5e:4x4", "v6e:2x2", "v5p:2x2x1"]))
def test_the_collectives_of_a_compiled_step_are_those_of_the_docs(topology):
    """All gradients meet in one all-reduce, a sum cut in two takes another, and weights are gathered once."""
    combined = 3 if topology in ("v5e:4x4", "v5p:2x2x1") else 2  # XLA sees to which of the gradients travel together
    assert compiled_step(topology) == {
        "Explicit, batch": {"kernels": 6, "all-reduce": 1},
        "Explicit, batch and weights": {"kernels": 6, "all-reduce": 2},
        "Explicit, weights as the batch": {"kernels": 6, "all-reduce": combined, "all-gather": 2},
        "Auto, batch": {"all-reduce": 1, "warnings": 4},
        "Auto, batch and weights, layout=": {"kernels": 6, "all-reduce": 2},
        "shard_map, batch": {"kernels": 6, "all-reduce": 1},
    }


# What a TPU gets is told without one: a program can be lowered for devices that are not there.
V5E = AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu")


def lowered(fn, specs, shapes, kind):
    mesh = AbstractMesh((2, 2), ("d", "t"), axis_types=(getattr(AxisType, kind),) * 2, abstract_device=V5E)
    described = [
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
        for shape, spec in zip(shapes, specs, strict=True)
    ]
    return jax.jit(fn).trace(*described).lower(lowering_platforms=("tpu",)).as_text()


def layer(x, w):
    return linear.linear(x, w, activation="relu")


LAYER = (P("d"), P(None, "t")), ((16, 128), (128, 256))


def test_explicit_axes_take_the_kernel_and_auto_axes_plain_jax_with_one_warning():
    assert lowered(layer, *LAYER, "Explicit").count("tpu_custom_call") == 1
    with pytest.warns(UserWarning, match="linear: plain JAX instead of the kernel.*layout=.*jax.shard_map") as said:
        assert "tpu_custom_call" not in lowered(layer, *LAYER, "Auto")
    assert len(said) == 1
    text = lowered(lambda x, w: linear.linear(x, w, layout=LAYER[0]), *LAYER, "Auto")
    assert text.count("tpu_custom_call") == 1


def test_a_kernel_is_cut_to_the_part_of_one_device():
    """Blocks are chosen for the part."""
    text = lowered(layer, *LAYER, "Explicit")
    (call,) = (line for line in text.splitlines() if "tpu_custom_call" in line)
    assert "tensor<8x128xf32>" in call and "tensor<128x128xf32>" in call


def test_rows_that_are_cut_are_left_to_plain_jax():
    with pytest.warns(UserWarning, match="softmax: plain JAX.*an axis of its first operand whole that is cut over"):
        text = lowered(softmax.softmax, (P("d", "t"),), ((16, 256),), "Explicit")
    assert "tpu_custom_call" not in text


def test_what_plain_jax_has_no_type_for_either_is_refused():
    """Elements of a head, along which queries and keys meet."""

    def fn(q, k):
        return attention.flash_attention(q, k, k)

    says = "flash_attention: it cannot be the kernel, which needs .* over \\('t',\\). .* Try jax.sharding.reshard"
    with pytest.raises(ValueError, match=says):
        lowered(fn, (P(None, None, "t"),) * 2, ((2, 64, 128),) * 2, "Explicit")


def batched(x, w):
    return jax.vmap(layer, (0, None))(x, w)


def summed(fn):
    return jax.grad(lambda x, w: fn(x, w).sum(), (0, 1))


@pytest.mark.parametrize("fn, kernels", [(batched, 1), (summed(batched), 3)], ids=["value", "gradient"])
def test_a_mapped_axis_may_be_cut(fn, kernels):
    """Each device has its part of the batch."""
    text = lowered(fn, (P("d"), P(None, "t")), ((4, 16, 128), (128, 256)), "Explicit")
    calls = [line for line in text.splitlines() if "tpu_custom_call" in line]
    part = re.compile("tensor<(2x16|32)x128xf32>")  # of each example, or of all rows
    assert len(calls) == kernels and all(part.search(call) for call in calls)


def test_a_mapped_axis_may_be_named_on_auto_axes():
    def fn(x, w):
        return jax.vmap(lambda x, w: linear.linear(x, w, layout=P()), (0, None), spmd_axis_name="d")(x, w)

    for change, kernels in ((lambda f: f, 1), (summed, 2)):  # nobody reads the value whose gradient is taken
        text = lowered(change(fn), (P("d"), P()), ((4, 16, 128), (128, 256)), "Auto")
        assert text.count("tpu_custom_call") == kernels


def test_a_shard_map_over_some_axes_of_an_auto_mesh_is_plain_jax():
    """For the compiler divides the work among the others."""

    def fn(x, w):
        return jax.shard_map(layer, in_specs=(P("d"), P()), out_specs=P("d"), axis_names={"d"}, mesh=mesh)(x, w)

    mesh = AbstractMesh((2, 2), ("d", "t"), axis_types=(AxisType.Auto,) * 2, abstract_device=V5E)
    with pytest.warns(UserWarning, match="linear: plain JAX instead of the kernel"):
        assert "tpu_custom_call" not in lowered(fn, *LAYER, "Auto")


def test_what_does_not_divide_is_left_to_plain_jax():
    with pytest.warns(UserWarning, match="matmul: plain JAX.*cannot cut 15 elements into 2 equal parts. Pad the array"):
        text = lowered(lambda x, y: matmul.matmul(x, y, layout=P("d")), (P(), P()), ((15, 128), (128, 256)), "Auto")
    assert "tpu_custom_call" not in text


def test_a_vector_beside_the_rows_may_be_cut_as_it_likes():
    def fn(x, weight):
        return norm.rms_norm(x, weight, layout=(P("d"), P("t")))

    assert lowered(fn, (P("d"), P("t")), ((16, 256), (256,)), "Auto").count("tpu_custom_call") == 1


@pytest.mark.parametrize(
    "layout, says",
    [
        (P("rows"), "matmul: layout names {'rows'}; the mesh has ('d', 't'). Try jax.set_mesh."),
        ("d", "matmul: layout is 'd'; it must be a PartitionSpec, or a tuple of them, one for each operand."),
        ((P("d"), P(), P()), "matmul: layout has 3 PartitionSpecs, and there are 2 operands."),
        (P("d", None, "t"), "of shape (16, 128): one axis each."),
        ((P("d", "t"), P("d")), "matmul: layout cuts one axis in two ways, ('t',) and in operand 1 ('d',); axes that"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(layout, says):
    with pytest.raises(ValueError) as error:
        lowered(lambda x, y: matmul.matmul(x, y, layout=layout), *LAYER, "Auto")
    assert says in str(error.value)


def test_a_layout_without_a_mesh_is_refused():
    with pytest.raises(ValueError, match="rms_norm: layout names .* no mesh is known here. Try jax.set_mesh"):
        norm.rms_norm(jnp.ones((8, 128)), jnp.ones(128), layout=P("d"))
