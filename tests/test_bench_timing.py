"""Timing on a device, tested without one: clocks and profiles made for the purpose, and the CPU.

No test here says how long anything takes.
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_kernels import array, pipelined_matmul
from sample_kernels import matmul as tiled

from course_lib import bench, chips, grid
from course_lib.bench import measured, possible, timing, traces

# --- which machine


def test_a_machine_without_an_accelerator_is_told_so_and_no_runtime_is_asked(monkeypatch):
    monkeypatch.setattr(chips, "tpu_attached", lambda: False)
    monkeypatch.setattr(timing.hardware_utils, "has_visible_nvidia_gpu", lambda: False)
    monkeypatch.setattr(jax, "default_backend", lambda: pytest.fail("the runtime was started"))
    with pytest.raises(bench.NoAccelerator, match="no TPU or GPU that JAX can use"):
        bench.measure(jnp.add, jnp.ones(8), jnp.ones(8))


def test_a_tpu_that_jax_does_not_use_is_none(monkeypatch):
    monkeypatch.setattr(chips, "tpu_attached", lambda: True)
    with pytest.raises(bench.NoAccelerator):  # the tests run on the CPU
        bench.measure(jnp.add, jnp.ones(8), jnp.ones(8))


@pytest.mark.parametrize(
    "args, options, said",
    [
        ((array((8, 8)),), {}, "needs arrays, not ShapeDtypeStructs"),
        ((jnp.ones(8),), {"rounds": 2}, "rounds=2"),
        ((jnp.ones(8),), {"rounds": 2.5}, "rounds=2.5"),
        ((), {}, "array with elements"),
        ((jnp.ones((0, 8)),), {}, "array with elements"),
    ],
)
def test_clear_errors(args, options, said):
    with pytest.raises(ValueError, match=said):
        bench.measure(jnp.negative, *args, **options)


# --- the device's own clock, out of a profile


def profile(*planes):
    """A ProfileData of (plane name, {line name: [(event, start in ns, length in ns, module), ...]})."""
    text = ""
    for plane, lines in planes:
        names = sorted({event[0] for events in lines.values() for event in events})
        modules = sorted({event[3] for events in lines.values() for event in events if len(event) > 3})
        text += f'planes {{ name: "{plane}"\n'
        for number, name in enumerate(names, 1):
            text += f'event_metadata {{ key: {number} value {{ id: {number} name: "{name}" }} }}\n'
        text += 'stat_metadata { key: 1 value { id: 1 name: "hlo_module" } }\n'
        for number, name in enumerate(modules, 2):
            text += f'stat_metadata {{ key: {number} value {{ id: {number} name: "{name}" }} }}\n'
        for number, (line, events) in enumerate(lines.items(), 1):
            text += f'lines {{ id: {number} name: "{line}" timestamp_ns: 1000\n'
            for name, start, length, *module in events:
                stat = f"stats {{ metadata_id: 1 ref_value: {modules.index(module[0]) + 2} }}" if module else ""
                text += (
                    f"events {{ metadata_id: {names.index(name) + 1} offset_ps: {1000 * start} "
                    f"duration_ps: {1000 * length} {stat} }}\n"
                )
            text += "}\n"
        text += "}\n"
    data = jax.profiler.ProfileData
    return data.from_serialized_xspace(data.text_proto_to_serialized_xspace(text))


TPU = (
    "/device:TPU:0",
    {
        "Steps": [("1", 0, 900)],
        "XLA Modules": [
            ("jit_f(77)", 300, 20),
            ("jit_f(77)", 0, 10),
            ("jit_other(5)", 100, 90),
            ("jit_f(77)", 600, 31),
        ],
        "XLA Ops": [("fusion", 0, 9), ("fusion", 300, 19), ("fusion", 600, 30)],
    },
)
HOST = ("/host:CPU", {"python": [("jit_f(77)", 0, 500), ("jit_f(77)", 600, 500)]})


def test_a_tpus_profile_has_one_event_for_each_run():
    np.testing.assert_allclose(traces.device_times(profile(HOST, TPU), "jit_f", 3), [10e-9, 20e-9, 31e-9])
    np.testing.assert_allclose(traces.device_times(profile(TPU), "jit_other", 1), [90e-9])


def test_a_gpus_profile_has_kernels_in_streams_and_what_overlaps_counts_once():
    streams = {
        "Stream #13(Compute)": [
            ("a", 0, 10, "jit_f"),
            ("b", 12, 4, "jit_f"),
            ("a", 50, 10, "jit_f"),
            ("z", 70, 9, "jit_g"),
        ],
        "Stream #14(Compute)": [("b", 55, 10, "jit_f")],
        "XLA Ops": [("a", 0, 99, "jit_f")],  # derived from the streams: not counted again
    }
    times = traces.device_times(profile(("/device:GPU:0", streams)), "jit_f", 2)
    np.testing.assert_allclose(times, [14e-9, 15e-9])


@pytest.mark.parametrize(
    "planes, runs, said",
    [
        ([HOST], 2, "no plane of a TPU or a GPU"),
        ([], 2, "no plane of a TPU or a GPU"),
        ([TPU], 4, "/device:TPU:0: 3 events of jit_f in the line XLA Modules, for 4 runs"),
        ([("/device:TPU:0", {"Steps": [("1", 0, 1)]})], 1, "0 events"),
        ([("/device:GPU:0", {"Stream #1": [("a", 0, 1, "jit_f")] * 3})], 2, "3 kernels of jit_f in its streams"),
    ],
)
def test_a_profile_that_does_not_tell_is_refused(planes, runs, said):
    with pytest.raises(traces.NoDeviceTime, match=said):
        traces.device_times(profile(*planes), "jit_f", runs)


def test_a_real_profile_of_the_cpu_is_never_taken_for_a_devices():
    """The whole way, on the CPU: warm-up, profile, file, reading. It ends where a device's plane is looked for."""
    turned = timing.copies((jnp.ones((64, 64)),))
    with pytest.raises(traces.NoDeviceTime, match="no plane of a TPU or a GPU"):
        timing.by_profile(jnp.sin, turned, 3)
    assert timing.program(jax.jit(jnp.sin).lower(*turned[0]).compile()) == "jit_sin"


# --- the host's clock, where the profile does not tell


class Clock:
    """A clock that stands still unless something takes time."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_dispatch_cancels_between_a_short_loop_and_a_long_one():
    clock, lengths = Clock(), []

    def run(n):
        lengths.append(n)
        clock.now += 130e-6 + 5 * 40e-6 * n  # dispatch, and five calls a turn

    times = timing.differences(run, rounds=4, calls=5, clock=clock)
    np.testing.assert_allclose(times, [40e-6] * 4)
    assert 5 * 40e-6 * lengths[-1] >= timing._LOOP_S  # long enough for any clock
    assert lengths[-2] == 3 * lengths[-1]


def test_a_loop_of_nothing_ends():
    clock = Clock()
    times = timing.differences(lambda n: None, rounds=3, calls=1, clock=clock)
    assert times == (0, 0, 0)
    with pytest.raises(bench.Impossible, match="which is not a valid duration"):
        possible.refuse_the_impossible("f", np.median(times), None)


def test_the_loop_calls_the_function_with_every_copy_and_leaves_the_arguments_as_they_are():
    x, y = jnp.arange(64.0).reshape(8, 8), jnp.ones((8, 8), jnp.int32)
    turned = [(x, {"y": y}), (x + 1, {"y": y})]

    def f(x, rest):
        return x @ rest["y"].astype(x.dtype), rest["y"]

    for args, out in zip(turned, timing.on_device(f)(7, False, turned), strict=True):
        np.testing.assert_array_equal(out[0], f(*args)[0])
        np.testing.assert_array_equal(out[1], args[1]["y"])


def test_the_compiler_cannot_take_the_work_out_of_the_loop():
    """Each call hangs on the one before it: the optimised program has the products inside the loop's body."""
    turned = timing.copies((jnp.ones((64, 64)), jnp.ones((64, 64))))
    for fn in (jnp.matmul, lambda x, y: jnp.tanh(x) + y):
        loop = timing.on_device(fn)
        changed = loop(3, True, turned)  # the link that is never used, used: results change
        assert not np.array_equal(changed[0], loop(3, False, turned)[0])


def test_copies_are_many_where_arguments_are_small_and_their_own_memory():
    x = jnp.ones((128, 128))
    turned = timing.copies((x,))
    assert len(turned) == 64
    assert len({a.unsafe_buffer_pointer() for (a,) in turned} | {x.unsafe_buffer_pointer()}) == 65
    assert len(timing.copies((jnp.ones((1 << 25)),))) == 2  # 128 MiB each


# --- what cannot be


def test_the_bound_of_a_product_and_of_a_copy():
    x = array((8192, 8192), jnp.bfloat16)
    v5e = chips.chip("v5e")
    product = bench.bound(jnp.matmul, x, x)
    assert (product.flops, product.by) == (2 * 8192**3, "compute")
    assert product.seconds == product.flops / v5e.bf16_flops
    assert str(product) == "1,099.5 GFLOPs of matmuls take a v5e at least 5.58 ms"
    add = bench.bound(jnp.add, x, x)
    assert (add.hbm_bytes, add.by) == (3 * 2 * 8192**2, "HBM")
    assert add.seconds == add.hbm_bytes / v5e.hbm_bandwidth
    assert bench.bound(jnp.add, x, x, chip="v5p").seconds == add.hbm_bytes / (
        2 * chips.chip("v5p").hbm_bandwidth  # both cores of a chip that run one program
    )


def test_the_bound_is_never_too_long():
    """What need not be read is not counted: parts of arguments, unused ones, what is read again. int8 is faster."""
    x, n = array((1024, 1024), jnp.bfloat16), array((1,), jnp.int32)
    size = 2 * 1024**2
    assert bench.bound(lambda x, unused: x + 1, x, x).hbm_bytes == 2 * size
    assert bench.bound(lambda x: x[:8], x).hbm_bytes == size // 128
    assert bench.bound(lambda x, n: x[n[0]], x, n).hbm_bytes == size // 1024
    assert bench.bound(lambda x, y: tiled(x, y, blocks=(128, 128, 128)), x, x).hbm_bytes == 3 * size
    assert bench.bound(pipelined_matmul, x, x).hbm_bytes == 4 * 1024**2  # copies by hand: only the result is sure
    assert bench.bound(lambda x: x, x).hbm_bytes == 0
    i = array((1024, 1024), jnp.int8)
    dot = lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.int32)  # noqa: E731
    assert bench.bound(dot, i, i).compute_s == 2 * 1024**3 / chips.chip("v5e").int8_ops

    def unknown(x, n):
        return jax.lax.fori_loop(0, n[0], lambda _, x: x @ x, x)

    assert bench.bound(unknown, x, n).flops == 0


def test_a_published_time_that_cannot_be_is_refused():
    """An 8192 x 8192 product in 2.107 ms on a v5e, as a guide once said: 522 TFLOP/s, of 197."""
    least = bench.bound(jnp.matmul, *[array((8192, 8192))] * 2)
    with pytest.raises(bench.Impossible, match="f: 2.11 ms is 2.65 times faster than the chip can be") as error:
        possible.refuse_the_impossible("f", 2.107e-3, least)
    assert "Was its result waited for?" in str(error.value)
    possible.refuse_the_impossible("f", 7.8e-3, least)
    possible.refuse_the_impossible("f", 0.99 * least.seconds, least)  # the registry's peaks are rounded
    possible.refuse_the_impossible("f", 1e-9, None)  # of an unknown chip nothing can be said
    for nothing in (0, -1e-6, float("nan")):
        with pytest.raises(bench.Impossible, match="not a valid duration"):
            possible.refuse_the_impossible("f", nothing, least)


# --- all together, on a device that is made up


@pytest.fixture
def pretended(monkeypatch):
    """``measure`` with a device of that kind, whose runs take so long; by loops where there is no profile."""

    def pretend(kind, seconds, profile=True):
        def by_profile(fn, turned, rounds):
            if not profile:
                raise traces.NoDeviceTime("the profiler wrote nothing")
            return tuple(seconds * scale for scale in np.linspace(0.9, 1.3, rounds))

        monkeypatch.setattr(timing, "accelerator", lambda: types.SimpleNamespace(device_kind=kind))
        monkeypatch.setattr(jax, "default_device", lambda device: jax.disable_jit(False))
        monkeypatch.setattr(timing, "by_profile", by_profile)
        monkeypatch.setattr(timing, "by_loops", lambda fn, turned, rounds: (seconds,) * rounds)

    return pretend


def test_median_spread_and_share_of_the_peak(pretended):
    x = jnp.ones((1024, 1024))
    least = bench.bound(jnp.add, x, x).seconds
    pretended("TPU v5 lite", 2 * least)
    found = bench.measure(jnp.add, x, x, rounds=5)
    assert found.times == tuple(2 * least * np.linspace(0.9, 1.3, 5))
    assert found.seconds == pytest.approx(2.2 * least)
    assert found.quartiles == pytest.approx((2.0 * least, 2.4 * least))
    assert found.spread == pytest.approx(0.4 / 2.2)
    text = " ".join(str(found).split())
    assert "add on TPU v5 lite: 33.8 us measured, the median of 5 rounds" in text
    assert "half of them lie between 30.7 us and 36.8 us" in text
    assert "the device's own, from jax.profiler" in text
    assert "this reaches 45 % of that" in text


def test_a_device_that_is_too_fast_is_refused(pretended):
    x = jnp.ones((1024, 1024))
    pretended("TPU v5 lite", 0.5 * bench.bound(jnp.add, x, x).seconds)
    with pytest.raises(bench.Impossible, match="times faster than the chip can be"):
        bench.measure(jnp.add, x, x)


def test_a_gpu_that_is_known_is_bounded_by_what_the_kernel_computes(pretended):
    """A kernel for a GPU is not counted: what it computes is, in plain JAX."""
    x = jnp.ones((1024, 1024), jnp.bfloat16)
    least = bench.bound(jnp.matmul, x, x, chip="h200")
    assert least.compute_s == 2 * 1024**3 / 989.5e12 and least.memory_s == 3 * 2 * 1024**2 / 4.8e12
    kernel = lambda x, y: jax.pure_callback(jnp.matmul, x, x, y)  # noqa: E731  nothing to count in it
    pretended("NVIDIA H200", 3 * least.seconds)
    assert bench.measure(kernel, x, x, plain=jnp.matmul).bound == least
    pretended("NVIDIA H200", 0.5 * least.seconds)
    with pytest.raises(bench.Impossible, match="FLOPs of matmuls take a h200 at least"):
        bench.measure(kernel, x, x, plain=jnp.matmul)


def test_a_gpu_whose_peaks_are_not_known_says_so(pretended):
    pretended("NVIDIA H100", 1e-9, profile=False)
    found = bench.measure(jnp.add, jnp.ones(8), jnp.ones(8))
    assert found.bound is None
    assert "nothing says whether this time is possible" in " ".join(str(found).split())
    assert "minus a short one (the profiler wrote nothing)" in " ".join(str(found).split())


def test_a_call_that_cannot_be_read_has_no_bound(monkeypatch):
    def unreadable(*args, **options):
        raise grid.UnreadableCall("who knows")

    monkeypatch.setattr(timing, "bound", unreadable)
    device = types.SimpleNamespace(device_kind="TPU v5 lite")
    assert timing.shortest(jnp.add, (jnp.ones(8), jnp.ones(8)), device) is None


def test_quartiles_of_one_value():
    one = measured.Measured(name="f", device="d", times=(2.0,) * 3, how="", copies=2, bound=None, versions="")
    assert (one.seconds, one.quartiles, one.spread) == (2.0, (2.0, 2.0), 0.0)
