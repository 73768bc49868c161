"""The child process that compiles one module for a GPU and ends. CUDA's compiler may abort, hang or exhaust memory.

Each compile has its own process, because Mosaic GPU sets its passes up once per process, for the first GPU it compiles
for, and never sends a kernel that it has compiled before to ptxas again. This file imports nothing of course_lib;
``gpu_service`` runs it by its path.

    python gpu_worker.py MEMORY_BYTES CONFIG_FILE ANSWER_FILE <MODULE
"""

import json
import pathlib
import resource
import sys


def main() -> None:
    memory_bytes, config, answer = int(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))  # ptxas, our own child, inherits it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer.write_text(json.dumps(compiled(config.read_text(), sys.stdin.buffer.read())))


def compiled(config: str, module: bytes) -> dict:
    """Return {"ok": True, "hlo": XLA's optimized module}, or {"ok": False, "stage", "error"}.

    Stage "start": CUDA's part of JAX does not work here; "compile": the compiler refused, with this error.
    """
    from jax.experimental import topologies
    from jax.extend.mlir import ir
    from jax.interpreters import mlir
    from jaxlib import xla_client

    stage = "start"
    try:
        device = topologies.get_topology_desc(platform="cuda", target_config=config, topology="1x1x1").devices[0]
        stage = "compile"
        options = xla_client.CompileOptions()
        options.num_replicas = options.num_partitions = 1
        with mlir.make_ir_context():
            program = device.client.compile(ir.Module.parse(module), xla_client.DeviceList((device,)), options)
        hlo = "\n".join(module.to_string() for module in program.hlo_modules())
    except Exception as error:
        return {"ok": False, "stage": stage, "error": f"{type(error).__name__}: {error}"}
    return {"ok": True, "hlo": hlo}


if __name__ == "__main__":
    main()
