"""The child process that loads libtpu: compile requests come on stdin, answers go to a pipe.

libtpu may abort, hang or eat memory, so it never lives in the notebook's own process. A request is a line of
JSON and the bytes of an MLIR module; an answer is a line of JSON, and the dump files lie in a folder that the
parent reads. This file imports nothing of course_lib, so that it starts fast; ``service`` runs it by its path.

    python worker.py MEMORY_BYTES ANSWER_FD DUMP_FOLDER
"""

import json
import os
import pathlib
import queue
import resource
import shutil
import sys
import threading


def main() -> None:
    memory_bytes, answer_fd, dump = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    # RLIMIT_DATA, not RLIMIT_AS: libtpu maps 1.6 GiB of its own code and tables before it allocates anything.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests = read_requests(dump)
    compile_only = None  # imported with the first request: the parent warms us up while it does other things
    with os.fdopen(answer_fd, "w", buffering=1) as answers:
        while True:
            topology, partitions, module = requests.get()
            compile_only = compile_only or load_compiler()
            for file in dump.iterdir():
                file.unlink()
            answers.write(json.dumps(compile_only(topology, partitions, module)) + "\n")


def read_requests(dump: pathlib.Path) -> queue.Queue:
    """Return requests from stdin, read by a thread, so that the parent's death ends us even during a compile."""
    requests: queue.Queue = queue.Queue()

    def read() -> None:
        while line := sys.stdin.buffer.readline():
            header = json.loads(line)
            requests.put((header["topology"], header["partitions"], sys.stdin.buffer.read(header["bytes"])))
        shutil.rmtree(dump, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return requests


def load_compiler():
    """Import JAX and return ``compile_only(topology_name, partitions, mlir_bytecode)``.

    With 0 partitions the module has no mesh, and the topology is one chip; else it has a chip for each.
    It answers {"ok": True, "hlo": the optimized module, "code_bytes": size of the program}, or {"ok": False, "stage",
    "error"}: stage "start" if libtpu itself will not work here, "compile" if it said no to the module; its words are
    the answer.
    """
    import numpy as np
    from jax.experimental import topologies
    from jax.extend.mlir import ir
    from jax.interpreters import mlir
    from jaxlib import xla_client

    def compile_only(topology: str, partitions: int, module: bytes) -> dict:
        stage = "start"
        try:
            one_chip = {"chips_per_host_bounds": [1, 1, 1], "num_slices": 1} if partitions <= 1 else {}
            found = topologies.get_topology_desc(platform="tpu", topology_name=topology, **one_chip)
            devices = tuple(found.devices if partitions else found.devices[:1])
            stage = "compile"
            if partitions and len(devices) != partitions:
                raise ValueError(f"{topology} has {len(devices)} devices, but the mesh has {partitions}")
            options = xla_client.CompileOptions()
            options.num_replicas, options.num_partitions = 1, max(1, partitions)
            if partitions:
                build = options.executable_build_options
                build.num_replicas, build.num_partitions = 1, partitions
                build.use_spmd_partitioning = build.use_shardy_partitioner = True
                assignment = xla_client.DeviceAssignment.create(np.array([[device.id for device in devices]]))
                options.device_assignment = build.device_assignment = assignment
            with mlir.make_ir_context():
                program = devices[0].client.compile(ir.Module.parse(module), xla_client.DeviceList(devices), options)
            hlo = "\n".join(module.to_string() for module in program.hlo_modules())
            code_bytes = program.get_compiled_memory_stats().generated_code_size_in_bytes
        except Exception as error:
            return {"ok": False, "stage": stage, "error": f"{type(error).__name__}: {error}"}
        return {"ok": True, "hlo": hlo, "code_bytes": code_bytes}

    return compile_only


if __name__ == "__main__":
    main()
