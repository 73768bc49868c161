"""Timing of a function on this machine's TPU or GPU. Without one, nothing is timed.

What makes a timing wrong, and what this module does about it:

- A call returns before the device has finished, and dispatching it takes the host about 0.1 ms. So the device's own
  clock is read from a profile. If the profile has no device times, the function runs in a short and a long loop on the
  device, and dispatch cancels in their difference.
- The first calls compile and fill caches, so they are not counted.
- Arguments that are used again and again stay in a cache, so several copies are used in rotation.
- One number hides the scatter, so there are many rounds, with their median and quartiles.
- The clock may be wrong, so a time that beats the data sheet's peaks is refused (``possible``).

``measure`` has run on an H100, by the profile. There the loop said 16 % more for a copy of 32 MiB and 17 % more for a
matmul; we have not looked into why. It has never run on a TPU: the profile reader is
tested with synthetic profiles.
"""

import contextlib
import itertools
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax._src import hardware_utils

from course_lib import chips, grid
from course_lib.bench import traces
from course_lib.bench.measured import Measured
from course_lib.bench.possible import Bound, bound, refuse_the_impossible
from course_lib.compiler import progress, tpu

_TURNED = 256 << 20  # bytes: all copies of the arguments together exceed any cache
_MOST_COPIES = 64
_WARM_S = 0.2  # seconds of running before the clock counts: an idle GPU lowers its clock rate
_LOOP_S = 0.02  # seconds: the shorter loop takes at least this long, so that the clock's resolution does not matter
_LONGEST_LOOP = 1 << 20


class NoAccelerator(RuntimeError):
    """This machine has no TPU or GPU. The message says what to use instead."""


def measure(fn: Callable, *args, rounds: int = 20, plain: Callable | None = None) -> Measured:
    """Run ``jit(fn)(*args)`` ``rounds`` times on this machine's TPU or GPU and return the measured times.

    ``args`` are arrays; results are waited for and dropped. ``plain`` computes the same in plain JAX. Its FLOPs and
    bytes are counted when those of ``fn`` cannot be, as with a GPU kernel. Raises NoAccelerator if there is no TPU or
    GPU (a CPU's time says nothing about either), ValueError for bad arguments, and Impossible for a time below what the
    chip's data sheet allows. On a chip that is not in the registry no time is refused, and the result says so.
    """
    if not callable(fn):
        raise ValueError(f"measure: fn is {fn!r}; it must be a function. Try bench.measure(matmul.matmul, x, y).")
    if type(rounds) is not int or rounds < 3:
        raise ValueError(f"rounds={rounds!r}: it must be a whole number of 3 or more to show a spread. Try 20.")
    if any(isinstance(a, jax.ShapeDtypeStruct) for a in jax.tree.leaves(args)):
        raise ValueError("measure runs the function, so it needs arrays, not ShapeDtypeStructs. Try jax.random.normal.")
    if not any(jnp.size(a) for a in jax.tree.leaves(args)):
        raise ValueError(
            "measure needs an array with elements among the arguments, so that each call gets its own copy."
        )
    device, name = accelerator(), getattr(fn, "__name__", type(fn).__name__)
    with progress.shown(f"timing {name}"), jax.default_device(device):
        turned = copies(args)
        try:
            times, how = by_profile(fn, turned, rounds), "the device's own, from jax.profiler"
        except traces.NoDeviceTime as error:
            times = by_loops(fn, turned, rounds)
            how = f"the host's, a long loop on the device minus a short one ({error})"
    least = shortest(plain or fn, args, device)
    refuse_the_impossible(name, statistics.median(times), least)
    return Measured(
        name=name,
        device=device.device_kind,
        times=times,
        how=how,
        copies=len(turned),
        bound=least,
        versions=tpu.versions(),
    )


def accelerator() -> jax.Device:
    """Return the first TPU or GPU. Raise NoAccelerator if PCI shows none, without starting any runtime."""
    if (chips.tpu_attached() or hardware_utils.has_visible_nvidia_gpu()) and jax.default_backend() in ("tpu", "gpu"):
        return jax.devices()[0]
    raise NoAccelerator(
        "Nothing can be measured: this machine has no TPU or GPU that JAX can use, and a CPU's time says nothing about "
        "either. compiler.compile_tpu(f, x, y) predicts a TPU's time without one."
    )


def shortest(fn: Callable, args: tuple, device: jax.Device) -> Bound | None:
    """Return the shortest time the device allows; None if its peaks are unknown."""
    kind = device.device_kind
    name = next((n for n in chips.NAMES if chips.chip(n).device_kind == kind), None)
    if name is None and (gpu := chips.gpu_of_kind(kind)):
        name = gpu.name
    if name is None:
        return None
    with contextlib.suppress(grid.UnreadableCall):
        return bound(fn, *args, chip=name)
    return None


def copies(args: tuple) -> list[tuple]:
    """Return enough copies of the arguments that no cache holds them all: at least 2, at most 64."""
    size = sum(jnp.asarray(a).nbytes for a in jax.tree.leaves(args))
    many = min(_MOST_COPIES, max(2, -(-_TURNED // max(size, 1))))
    return [jax.tree.map(lambda a: jnp.array(a, copy=True), args) for _ in range(many)]


def by_profile(fn: Callable, turned: list[tuple], rounds: int) -> tuple[float, ...]:
    """Return the seconds on the device of each round, read from one profile of all rounds. Raise NoDeviceTime."""
    compiled = jax.jit(fn).lower(*turned[0]).compile()
    warm = time.perf_counter() + _WARM_S
    for number in itertools.count():
        jax.block_until_ready(compiled(*turned[number % len(turned)]))
        if number >= len(turned) and time.perf_counter() > warm:
            break
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = options.host_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            for number in range(rounds):
                jax.block_until_ready(compiled(*turned[number % len(turned)]))
        files = sorted(pathlib.Path(folder).rglob("*.xplane.pb"))
        if not files:
            raise traces.NoDeviceTime("the profiler wrote nothing")
        return traces.device_times(jax.profiler.ProfileData.from_file(str(files[-1])), program(compiled), rounds)


def program(compiled) -> str:
    """Return the name under which a compiled function appears in a profile: "jit_f"."""
    return compiled.runtime_executable().hlo_modules()[0].name


def by_loops(fn: Callable, turned: list[tuple], rounds: int) -> tuple[float, ...]:
    """Return ``rounds`` estimates of one call's seconds: a long device loop minus a short one, by the host's clock."""
    turns = on_device(fn)

    def run(n: int) -> None:
        jax.block_until_ready(turns(n, False, turned))

    return differences(run, rounds, calls=len(turned), clock=time.perf_counter)


def on_device(fn: Callable) -> Callable:
    """Return ``g(n, False, turned)``, which loops n times on the device and calls ``fn`` on every copy each time.

    XLA hoists loop-invariant work, drops unused results, and computes one element if only one is used.
    (``optimization_barrier`` does not prevent this: on the CPU the loop came out empty.) So each call's input depends
    on the previous call's result, through an element that is replaced only if the second argument is True; and every
    result is kept, whole, until the next iteration. Writing that element adds about a microsecond on a chip.
    """

    @jax.jit
    def turns(n, never, turned):
        def turn(_, state):
            turned, outs = map(list, state)
            for number in range(len(turned)):
                turned[number] = _after(outs[number - 1], turned[number], never)
                outs[number] = fn(*turned[number])
            return turned, outs

        nothing = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(fn, *turned[0]))
        return jax.lax.fori_loop(0, n, turn, (turned, [nothing for _ in turned]))[1]

    return turns


def _after(out, args: tuple, never) -> tuple:
    """Return ``args`` with a data dependence on ``out``, so that XLA cannot reorder or hoist the call."""
    leaves, tree = jax.tree.flatten(args)
    number, first = next((n, a) for n, a in enumerate(leaves) if a.size)
    result = next(leaf for leaf in jax.tree.leaves(out) if leaf.size)
    place = (0,) * first.ndim
    element = jnp.where(never, result[(0,) * result.ndim].astype(first.dtype), first[place])
    leaves[number] = first.at[place].set(element)
    return tree.unflatten(leaves)


def differences(run: Callable[[int], None], rounds: int, calls: int, clock: Callable[[], float]) -> tuple[float, ...]:
    """Return the seconds of one call, from pairs of runs with n and 3 n iterations of ``calls`` calls each.

    Fixed costs (dispatch, waiting for the result) are the same in both runs and cancel.
    """

    def timed(n: int) -> float:
        began = clock()
        run(n)
        return clock() - began

    timed(1)  # compiles
    n = 1
    while timed(n) < _LOOP_S and n < _LONGEST_LOOP:
        n *= 2
    return tuple((timed(3 * n) - timed(n)) / (2 * n * calls) for _ in range(rounds))
