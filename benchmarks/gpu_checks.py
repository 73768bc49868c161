"""Whether the GPU kernels are right on this machine's NVIDIA GPU: every op and its gradient, by Mosaic GPU
and by Triton.

    python benchmarks/gpu_checks.py              the table
    python benchmarks/gpu_checks.py softmax      only cases whose name contains "softmax"

A result is compared with plain JAX in f32 on the same GPU, and computed REPEATS times, while other processes use the
GPU too: results that differ from each other are a race. A process that a kernel brings down loses its case alone.
"""

import argparse
import dataclasses
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share the GPU's memory
# The reference need not be fast: on an H100 the search for the fastest product in f32 took half a minute.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"

import jax
import jax.numpy as jnp
from bench_gpu import error_of

from course_lib.kernels import activations, attention, elementwise, linear, matmul, norm, softmax
from course_lib.kernels.dispatch import launch
from course_lib.kernels.matmul import mosaic_gpu

BF16, F32 = jnp.bfloat16, jnp.float32
REPEATS = 20
LIMIT = {"bfloat16": 2**-6, "float32": 2**-16}  # an error from here on is not rounding
AS_PLAIN = 4
PROCESSES = 12
LIMIT_S = 75  # then the processes that still run are ended
ROADS = ("Mosaic GPU", "Triton")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One function of arrays of these shapes and dtypes.

    ``far``: with infinities and rows of large numbers. ``cancels``: a difference of larger numbers, which vanishes in
    some rows. Its errors are relative to the rms of all rows, and may be ``AS_PLAIN`` times those of plain JAX.
    """

    fn: Callable
    args: tuple[jax.ShapeDtypeStruct, ...]
    roads: tuple[str, ...] = ROADS
    far: bool = False
    cancels: bool = False


def array(*shape: int, dtype=BF16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def gradient(op: Callable, count: int) -> Callable:
    """Return the gradient of the mean of the squares of the results, with respect to all ``count`` arguments."""

    def loss(*args):
        return sum(jnp.sum(out.astype(F32) ** 2) / out.size**0.5 for out in jax.tree.leaves(op(*args)))

    return jax.grad(loss, tuple(range(count)))


def product(m: int, k: int, n: int, turned: str = "") -> Case:
    x, y = array(*((k, m) if "x" in turned else (m, k))), array(*((n, k) if "y" in turned else (k, n)))
    how = {"transpose_x": "x" in turned, "transpose_y": "y" in turned}
    unfit = "8 rows of 64" in mosaic_gpu.unfit(x, y, **how)
    return Case(fn=functools.partial(matmul.matmul_transposed, **how), args=(x, y), roads=ROADS[1:] if unfit else ROADS)


def layer(m: int, k: int, n: int, activation: str | None) -> Case:
    return Case(fn=functools.partial(linear.linear, activation=activation), args=(array(m, k), array(k, n), array(n)))


def with_gradient(case: Case, *, cancels: bool = False) -> Case:
    return dataclasses.replace(case, fn=gradient(case.fn, len(case.args)), cancels=cancels)


def cases() -> dict[str, Case]:
    found = {
        f"matmul {m} x {k} x {n}{turned and f', {turned} transposed'}": product(m, k, n, turned)
        for m, k, n, turned in (
            (1024, 1024, 1024, ""),
            (8, 8, 8, ""),
            (1, 4096, 4096, ""),
            (200, 192, 320, ""),
            (1000, 1024, 1024 - 64, ""),
            (7, 8, 24, ""),
            (1000, 1000, 1000, ""),
            (4096, 64, 4096, ""),
            (128, 65536, 128, ""),
            (3152, 768, 3072, ""),
            (513, 1025, 2049, ""),
            (4096, 4096, 4096, ""),
            (960, 1000, 1024, "x"),
            (1000, 960, 1024, "y"),
            (1024 - 64, 2048 - 64, 1024 - 64, "x y"),
            (64, 8, 24, "x"),
            (1000, 1000, 1000, "x y"),
            (300, 77, 111, "x y"),
        )
    }
    found |= {f"linear, {act}": layer(1000, 512 + 64, 768 + 64, act) for act in activations.ACTIVATIONS}
    found |= {
        "gradient of matmul": with_gradient(product(1000, 576, 832)),
        "gradient of linear, gelu": with_gradient(layer(1000, 576, 832, "gelu")),
        "gradient of linear, none": with_gradient(layer(4096, 1024, 4096, None)),
        "linear, vmapped": Case(
            fn=jax.vmap(functools.partial(linear.linear, activation="silu"), (0, None, None)),
            args=(array(3, 200, 256), array(256, 192), array(192)),
        ),
    }
    for dtype in (BF16, F32):
        name = "bf16" if dtype == BF16 else "f32"
        for rows, columns in ((2048, 8192), (1003, 256), (1, 128), (700, 1000)):
            roads = ROADS if columns % 128 == 0 else ROADS[1:]
            x, w = array(rows, columns, dtype=dtype), array(columns, dtype=dtype)
            shape = f"{rows} x {columns} {name}"
            found |= {
                f"softmax {shape}": Case(fn=softmax.softmax, args=(x,), roads=roads),
                f"softmax {shape}, far numbers": Case(fn=softmax.softmax, args=(x,), roads=roads, far=True),
                f"rms_norm {shape}": Case(fn=norm.rms_norm, args=(x, w), roads=roads),
                f"layer_norm {shape}": Case(fn=norm.layer_norm, args=(x, w, w), roads=roads),
                f"rms_norm_residual {shape}": Case(fn=norm.rms_norm_residual, args=(x, x, w), roads=ROADS[1:]),
            }
        x, w = array(3, 500, 1024, dtype=dtype), array(1024, dtype=dtype)
        found |= {
            f"gradient of softmax {name}": with_gradient(Case(fn=softmax.softmax, args=(x,))),
            f"gradient of rms_norm {name}": with_gradient(Case(fn=norm.rms_norm, args=(x, w))),
            f"gradient of layer_norm {name}": with_gradient(Case(fn=norm.layer_norm, args=(x, w, w))),
        }
        for op in (elementwise.add, elementwise.subtract, elementwise.multiply):
            found[f"{op.__name__} {name}"] = Case(fn=op, args=(x, x))
        for act in activations.ACTIVATIONS:
            fn = getattr(activations, act, None)
            if fn is not None:
                found[f"{act} {name}"] = Case(fn=fn, args=(x,))
                found[f"gradient of {act} {name}"] = with_gradient(Case(fn=fn, args=(x,)))
    for heads, kv_heads, s, t, d, causal in (
        (2, 2, 128, 128, 64, False),
        (4, 2, 1024, 1024, 128, False),
        (4, 1, 1024, 1024, 128, True),
        (2, 2, 392, 1000, 64, False),
        (2, 2, 1000, 1000, 128, True),
        (3, 1, 8, 2048, 64, False),
        (2, 2, 2056, 2056, 64, True),
        (2, 1, 555, 555, 64, True),
        (2, 1, 333, 555, 64, False),
    ):
        name = f"attention {heads} of {kv_heads}, {s} x {t} x {d}{causal and ', causal' or ''}"
        q, k = array(2, heads, s, d), array(2, kv_heads, t, d)
        roads = ROADS if s % 8 == t % 8 == 0 else ROADS[1:]
        case = Case(fn=functools.partial(attention.flash_attention, causal=causal), args=(q, k, k), roads=roads)
        found |= {name: case, f"gradient of {name}": with_gradient(case, cancels=True)}
    x = array(333, 7)
    found["add, 2331 elements"] = Case(fn=elementwise.add, args=(x, x), roads=ROADS[1:])
    for a in (F32, BF16, jnp.int32, jnp.int8):
        for b in (F32, BF16, jnp.int32, jnp.int8):
            if a != b:
                name = f"cast {jnp.dtype(a).name} to {jnp.dtype(b).name}"
                found[name] = Case(fn=functools.partial(_cast, dtype=b), args=(array(64, 1024, dtype=a),))
    return found


def _cast(x, dtype):
    return elementwise.cast(x, dtype)


def operands(case: Case) -> list[jax.Array]:
    """Return normally distributed values; integers are 20 times as large."""
    arrays = []
    for key, arg in zip(jax.random.split(jax.random.key(0), len(case.args)), case.args, strict=True):
        values = jax.random.normal(key, arg.shape)
        if case.far:
            values = values * 1e4 + 1e5 * (jnp.arange(arg.shape[0]) % 3 - 1)[:, None]
            values = jnp.where(jax.random.bernoulli(key, 0.1, arg.shape), -jnp.inf, values)
            values = values.at[0].set(-jnp.inf)
        arrays.append((values * 20 if jnp.issubdtype(arg.dtype, jnp.integer) else values).astype(arg.dtype))
    return arrays


def in_f32(array: jax.Array) -> jax.Array:
    return array.astype(F32) if array.dtype == BF16 else array


@jax.jit
def identical(a, b) -> jax.Array:
    """Return whether two results are the same numbers, NaN for NaN."""
    same = jax.tree.map(lambda x, y: jnp.all((x == y) | ((x != x) & (y != y))), a, b)
    return jnp.all(jnp.stack(jax.tree.leaves(same)))


def run(case: Case, road: str) -> dict:
    """Return what is to be said of a case on a road: its error and plain JAX's, whether it repeats, what was raised."""
    arrays = operands(case)
    with launch.gpu_kernels(False):
        rounded = jax.jit(case.fn)(*arrays)
        with jax.default_matmul_precision("highest"):
            right = jax.jit(case.fn)(*map(in_f32, arrays))
    try:
        with launch.gpu_kernels(strict=True, by_triton=road == "Triton"):
            compiled = jax.jit(case.fn).lower(*arrays).compile()
            out = compiled(*arrays)
            same = jnp.all(jnp.stack([identical(out, compiled(*arrays)) for _ in range(REPEATS - 1)]))
    except Exception as failure:  # whatever a compiler raises: it is what the table is for
        return {"raised": f"{type(failure).__name__}: {failure}"[:600]}
    limit = max(LIMIT.get(array.dtype.name, 2**-20) for array in jax.tree.leaves(out))
    axis = None if case.cancels else -1
    of_plain = float(error_of(rounded, right, axis=axis))
    program = compiled.as_text()
    return {
        "error": float(error_of(out, right, axis=axis)),
        "limit": max(limit, AS_PLAIN * of_plain) if case.cancels else limit,
        "plain": of_plain,
        "repeats": bool(same),
        "kernels": program.count("mosaic_gpu") + program.count("__gpu$xla.gpu.triton"),
    }


def works(part: int, of: int, only: str) -> None:
    """Run every ``of``-th case from ``part`` on, and print one JSON line before and after each."""
    todo = [(name, road) for name, case in cases().items() for road in case.roads if only in name]
    table = cases()
    for name, road in todo[part::of]:
        print(json.dumps({"begins": [name, road]}), flush=True)
        began = time.perf_counter()
        said = run(table[name], road)
        print(json.dumps({"case": [name, road], "seconds": time.perf_counter() - began, **said}), flush=True)


def in_parts(only: str) -> dict[tuple[str, str], dict]:
    """Run all cases, divided among processes; whatever the processes have said counts, also of one that ends early."""
    files = [tempfile.TemporaryFile("w+") for _ in range(PROCESSES)]
    command = [sys.executable, __file__, only, "--part"]
    processes = [subprocess.Popen([*command, str(part)], stdout=file) for part, file in enumerate(files)]
    until = time.monotonic() + LIMIT_S
    for process in processes:
        try:
            process.wait(max(0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    results = {}
    for process, file in zip(processes, files, strict=True):
        file.seek(0)
        lines = [json.loads(line) for line in file if line.startswith("{")]
        results |= {tuple(line["case"]): line for line in lines if "case" in line}
        if process.returncode and lines and "begins" in lines[-1]:
            how = signal.Signals(-process.returncode).name if process.returncode < 0 else process.returncode
            results[tuple(lines[-1]["begins"])] = {"raised": f"its process ended with {how}"}
    return results


def verdict(said: dict) -> str:
    if "raised" in said:
        return said["raised"]
    wrong = [] if said["error"] < said["limit"] else [f"wrong, its error is {said['error']:.2g}"]
    wrong += [] if said["repeats"] else ["differs from run to run"]
    wrong += [] if said["kernels"] else ["no kernel ran"]
    return "; ".join(wrong) or "right"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="?", default="", help="only cases whose name contains this")
    parser.add_argument("--json", help="write everything to this file too")
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part is not None:
        works(arguments.part, PROCESSES, arguments.only)
        return
    device = jax.devices()[0]
    if device.platform != "gpu":
        parser.exit(1, "This machine has no GPU that JAX can use.\n")
    results = in_parts(arguments.only)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump([{"case": case, **said} for case, said in results.items()], file, indent=1)
    bad = {case: verdict(said) for case, said in results.items() if verdict(said) != "right"}
    wanted = {(name, road) for name, case in cases().items() for road in case.roads if arguments.only in name}
    for road in ROADS:
        here = [said for (_, on), said in results.items() if on == road and "error" in said]
        print(f"{road}: {len(here)} cases, largest error {max((said['error'] for said in here), default=0):.2g}")
    print(f"{len(results) - len(bad)} of {len(wanted)} right; not run: {sorted(wanted - set(results))[:5]}")
    for case, why in bad.items():
        print(f"- {case[0]} by {case[1]}: {why}")
    sys.exit(bool(bad) or wanted != set(results))


if __name__ == "__main__":
    main()
