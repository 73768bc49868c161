"""The doctor: where the notebook runs, which judges work here, why others do not, and what to do about it."""

import contextlib
import importlib.metadata
import importlib.util
import logging
import os
import platform

import jax
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, compat, compiler, environment
from course_lib.checks import cards
from course_lib.compiler.child import idle, service

CPU_DEVICES = 8  # that kernels for several chips are simulated on; one that nobody uses costs nothing
SUPPORTED_JAX = ((0, 11, 2), (0, 13))


def start() -> None:
    """Prepare a notebook, and print one line about where it runs.

    JAX gets eight CPU devices for kernels on several chips. With no TPU attached, it is told not to look for one, and
    every ``pallas_call`` runs in the TPU simulator, so that the same cells work on a laptop and on a chip. The
    compiler's process is started in the background.
    """
    os.environ.setdefault("KERAS_BACKEND", "jax")
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # its first import may log how long it takes
    if problem := jax_problem():
        raise SystemExit(problem)
    with contextlib.suppress(RuntimeError):  # JAX is in use already, so it is too late
        jax.config.update("jax_num_cpu_devices", CPU_DEVICES)
    where = "in Colab" if environment.on_colab() else "on this machine"
    if chips.on_a_tpu():
        device = f"on {jax.devices()[0].device_kind}; kernels run on the chip"
    else:
        jax.config.update("jax_platforms", "cpu")
        pltpu.set_tpu_interpret_mode(compat.interpret_params())
        device = "no TPU here; kernels run in the TPU simulator"
    if compiler.libtpu_version() is not None:
        service.warm_up()
        idle.asked()
    print(f"jax {jax.__version__} {where}, {device}. {judges_line()}")


def doctor() -> None:
    """Show where we are, the versions, and each judge with its requirements."""
    where = "Colab" if environment.on_colab() else f"{platform.system()} {platform.machine()}"
    unused = "" if _jax_knows_gpus() else "; but this JAX supports only the CPU and the TPU"
    rows = [("Where", where, None), ("Device", _device(), None)]
    rows += [("GPU", f"{gpu}{unused}", None) for gpu in dict.fromkeys(chips.attached_gpus())]  # identical ones once
    rows += [("Python", platform.python_version(), None)]
    rows += [(name, _version(name), None) for name in ("jax", "jaxlib", "libtpu", "keras", "jupyterlab")]
    rows += [
        (judge, f"{'works' if works else 'missing'}: {why}", works) for judge, (works, why) in judges_here().items()
    ]
    last = jax_problem() or ("All is well." if _all_work() else "Everything else works; go on to lesson 1.")
    plain = "\n".join([*(f"{name:<10} {words}" for name, words, _ in rows), last])
    cards.shown(cards.rows("This machine", rows, last), plain)


def judges_here() -> dict[str, tuple[bool, str]]:
    """Return judge -> (whether it works here, why or why not and what to do)."""
    has_libtpu = compiler.libtpu_version() is not None
    return {
        "numbers": (True, "compares with plain JAX"),
        "simulator": (True, "JAX's TPU simulator, on the CPU"),
        "races": (True, "the same with two cores and a race detector"),
        "compiler": (has_libtpu, "libtpu compiles for a v5e, on the CPU" if has_libtpu else compiler.missing_libtpu()),
    }


def judges_line() -> str:
    """Say in one sentence how many of the judges work here."""
    here = judges_here()
    missing = [name for name, (works, _) in here.items() if not works]
    return "All four judges work." if not missing else f"Missing: {', '.join(missing)} (checks.doctor() says why)."


def jax_problem() -> str | None:
    """Return what is wrong with the installed JAX and what to do; None if nothing is."""
    version = tuple(int(part) for part in jax.__version__.split(".")[:3])
    low, high = SUPPORTED_JAX
    if low <= version < high:
        return None
    return (
        f"The course needs JAX {'.'.join(map(str, low))} or later, but earlier than {'.'.join(map(str, high))}; "
        f"this is {jax.__version__}. In Colab: Runtime, Restart session, and run the first cell again. Elsewhere: "
        "make setup."
    )


def _all_work() -> bool:
    return all(works for works, _ in judges_here().values())


def _device() -> str:
    if not chips.tpu_attached():
        return "no TPU; kernels run in the TPU simulator"
    return ", ".join(sorted({d.device_kind for d in jax.devices()}))


def _jax_knows_gpus() -> bool:
    return any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
