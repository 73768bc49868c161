"""The child process that compiles one module and ends, so that libtpu writes down the programs of SparseCores.

libtpu reads the flag for it when it loads, which the warm child of ``service`` has done without it. This file imports
nothing of course_lib; ``listing_service`` runs it by its path.

    python listing_worker.py MEMORY_BYTES TOPOLOGY ANSWER_FILE <MODULE
"""

import importlib.util
import json
import pathlib
import resource
import sys


def main() -> None:
    memory_bytes, topology, answer = int(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    spec = importlib.util.spec_from_file_location("worker", pathlib.Path(__file__).with_name("worker.py"))
    worker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(worker)
    answer.write_text(json.dumps(worker.load_compiler()(topology, 0, sys.stdin.buffer.read())))


if __name__ == "__main__":
    main()
