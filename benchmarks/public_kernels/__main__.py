"""Judge the public kernels whose projects are cloned in a folder, and make docs/public_kernels.md.

    make public-kernels                               the page alone, from docs/public_kernels.json
    make public-kernels CLONES=~/public               judge first (ARGS="--only WORD": those with it in their name)

One kernel takes from ten seconds to some minutes. Each runs in a process of its own with limits on time and memory, and
its answers are written when it ends, so a run that is stopped can be continued with ARGS=--missing.
"""

import argparse
import multiprocessing
import pathlib
import subprocess
import sys
import time

import jax

from public_kernels import answers, judging, page
from public_kernels.adapter import Adapter, Project
from public_kernels.projects import PROJECTS

SERVER = multiprocessing.get_context("forkserver")  # imports JAX once, and forks before JAX starts its threads
SERVER.set_forkserver_preload(["public_kernels.judging"])
TIME_S, MEMORY_BYTES = 20 * 60, 12 << 30


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--clones",
        type=pathlib.Path,
        help="the folder with the clones, each under its project's name",
    )
    parser.add_argument(
        "--only",
        default="",
        help="judge kernels with this word in their project or name",
    )
    parser.add_argument(
        "--missing",
        action="store_true",
        help="judge only kernels that have no answers yet",
    )
    options = parser.parse_args(arguments)
    if options.clones:
        judge_all(options.clones.expanduser().resolve(), options.only, options.missing)
    page.PAGE.write_text(page.written(answers.read()))


def judge_all(clones: pathlib.Path, word: str, missing: bool) -> None:
    """Judge the kernels one by one, then ask the compilers of the other chips about each, and keep the answers."""
    for what in ("verdicts", "chips"):
        for project in PROJECTS.values():
            if not (commit := version(project, clones)):
                continue
            for adapter in project.adapters:
                known = answers.of(project.name, adapter.name)
                done = known and known.get(what)
                if word in f"{project.name} {adapter.name}" and not (missing and done):
                    print(f"{what} of {project.name}, {adapter.name}", flush=True)
                    found = ask(what, project, adapter, clones)
                    if not any("judge" in finding or "takes" in finding for finding in found):
                        print(
                            f"  left out: {found}", file=sys.stderr
                        )  # its adapter is at fault, and there is no answer
                        continue
                    answers.keep(project.name, commit, adapter, what, found)


def version(project: Project, clones: pathlib.Path) -> str:
    """Return the commit of the clone, or of the JAX wheel its version. "" without a clone."""
    if not project.package:
        return f"wheel {jax.__version__}"
    folder = clones / project.folder
    if not folder.is_dir():
        print(f"{project.name} is left out: there is no {folder}", file=sys.stderr)
        return ""
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def ask(what: str, project: Project, adapter: Adapter, clones: pathlib.Path) -> list[dict]:
    """Return what the child process found out. A process that is stopped, or dies, is one more finding."""
    listen, answer = SERVER.Pipe(duplex=False)
    process = SERVER.Process(target=judging.main, args=(MEMORY_BYTES, answer, what, project.name, adapter.name, clones))
    process.start()
    answer.close()
    end, found = time.monotonic() + TIME_S, []
    while listen.poll(max(0, end - time.monotonic())):
        try:
            found.append(listen.recv())
        except EOFError:
            break
    else:
        process.kill()
        found.append({"failed": f"no answer in {TIME_S // 60} minutes"})
    process.join()
    if process.exitcode and process.exitcode > 0:
        found.append({"failed": "the kernel cannot be imported or called"})
    elif process.exitcode and "failed" not in (found or [{}])[-1]:
        found.append({"failed": f"the process was ended by signal {-process.exitcode}"})
    return found


if __name__ == "__main__":
    main()
