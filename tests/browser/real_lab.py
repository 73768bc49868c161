"""JupyterLab as `make lab` starts it, in a copy of the course, and a real browser in front of it."""

import contextlib
import fcntl
import http.client
import os
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from chromium import ARTIFACTS, launch
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
# Never waited out: a test goes on as soon as what it waits for is there.
LIMIT_S = 120  # never waited out: beside much other work JupyterLab has taken more than 60 s
RUN_LIMIT_S = 240  # for a notebook or a check

READY = """async () => {
    const app = window.jupyterapp;
    await app.restored;
    const panel = app.shell.currentWidget;
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
    for (const cell of panel.content.widgets) cell.node.dataset.courseCell = cell.model.id;
}"""
# What JupyterLab writes into a notebook when its kernel has started, it has written one turn after these are known.
UNSAVED = """async () => {
    const { context } = window.jupyterapp.shell.currentWidget;
    const kernel = context.sessionContext.session.kernel;
    await Promise.all([kernel.info, kernel.spec]);
    await new Promise((done) => setTimeout(done));
    return context.model.dirty;
}"""
# The promise is kept on the page: a dialog may have to be answered before it is awaited.
EXECUTE = """([command, limit_s]) => { window.whenDone = Promise.race([
    window.jupyterapp.commands.execute(command),
    new Promise((_, reject) => setTimeout(() => reject(`not run to its end in ${limit_s} s`), 1000 * limit_s)),
]) }"""
DONE = "() => window.whenDone"
CELLS = "window.jupyterapp.shell.currentWidget.context.model.toJSON().cells"
CELL = "((id) => window.jupyterapp.shell.currentWidget.content.widgets.find((c) => c.model.id === id).model)"
HAS_RUN = f"""([id, before]) => {{
    const cell = {CELL}(id);
    return cell.executionCount > before && cell.executionState !== 'running';
}}"""

IS_DRAWN = """(id) => document.querySelector(`[data-course-cell="${id}"]`).innerText.trim() !== ''"""
# Tests kill the compiler while it is asked about an exercise: there it must be asked at every check.
ASKS_EVERY_TIME = """import os
if os.path.basename(os.getcwd()) == "exercises":
    os.environ["COURSE_CACHE"] = "0"
"""
NEXT_FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Notebook:
    """A notebook open in a browser tab. ``page_errors`` collects every uncaught error of the page's JavaScript."""

    def __init__(self, page: Page):
        self.page = page
        self.page_errors: list[str] = []
        page.on("pageerror", lambda error: self.page_errors.append(str(error)))

    def cell(self, id: str):
        return self.page.locator(f'[data-course-cell="{id}"]')

    def run_all(self) -> None:
        self.page.evaluate(EXECUTE, ["notebook:run-all-cells", RUN_LIMIT_S])
        self.page.evaluate(DONE)

    def restart_and_run_all(self) -> None:
        self.page.evaluate(EXECUTE, ["notebook:restart-run-all", RUN_LIMIT_S])
        self.page.locator(".jp-Dialog-button.jp-mod-accept").click()
        self.page.evaluate(DONE)

    def save(self) -> None:
        self.page.evaluate(EXECUTE, ["docmanager:save", LIMIT_S])
        self.page.evaluate(DONE)

    def interrupt(self) -> None:
        self.page.evaluate(EXECUTE, ["notebook:interrupt-kernel", LIMIT_S])
        self.page.evaluate(DONE)

    def choose_theme(self, name: str, *, light: str) -> None:
        """Switch to a theme; ``light`` is what it says of itself once its style sheet is there."""
        self.page.evaluate("(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", name)
        self.page.wait_for_function("(light) => document.body.dataset.jpThemeLight === light", arg=light)

    def unsaved(self) -> bool:
        """Whether JupyterLab shows the dot of a notebook with changes that are not saved."""
        return self.page.evaluate(UNSAVED)

    def press_shift_enter(self, first: str, last: str) -> int:
        """From one cell to another. Returns the last one's execution count before, for ``wait_until_run``."""
        ids = [cell["id"] for cell in self.page.evaluate(CELLS)]
        before = self.page.evaluate(f"(id) => {CELL}(id).executionCount ?? 0", last)
        for _ in range(ids.index(last) - ids.index(first) + 1):
            self.page.keyboard.press("Shift+Enter")
        return before

    def wait_until_run(self, id: str, before: int) -> None:
        self.page.wait_for_function(HAS_RUN, arg=[id, before], timeout=1000 * RUN_LIMIT_S)

    def click_into(self, id: str) -> None:
        self.cell(id).locator(".cm-content").click()

    def type_line(self, id: str, line: str, *, instead: bool = False) -> None:
        """Click into a cell and type a line at its end: a new one, or one instead of the last."""
        self.click_into(id)
        self.page.keyboard.press("Control+End")
        self.page.keyboard.press("Shift+Home" if instead else "Enter")
        self.page.keyboard.type(line)

    def source(self, id: str) -> str:
        return self.page.evaluate(f"(id) => {CELL}(id).sharedModel.source", id)

    def output(self, id: str) -> str:
        """The text below a cell, without outputs that are empty: a progress line leaves one when it is gone."""
        texts = self.cell(id).locator(".jp-OutputArea-output").all_text_contents()
        return "\n".join(text for text in texts if text.strip())

    def red(self) -> list[str]:
        """Every error output, with its cell."""
        return [
            f"{cell['id']}: {output['ename']}: {output['evalue']}"
            for cell in self.page.evaluate(CELLS)
            for output in cell.get("outputs", [])
            if output["output_type"] == "error"
        ]

    def never_ran(self) -> list[str]:
        """The code cells without an execution count."""
        cells = self.page.evaluate(CELLS)
        return [c["id"] for c in cells if c["cell_type"] == "code" and c["execution_count"] is None]

    def screenshot(self, name: str, *, of: str = "") -> None:
        """What the window shows, with this cell in view, into tests/artifacts (which git ignores)."""
        ARTIFACTS.mkdir(exist_ok=True)
        if of:
            self.cell(of).scroll_into_view_if_needed()
            self.page.wait_for_function(IS_DRAWN, arg=of)  # JupyterLab draws a cell when it comes into view
        self.page.evaluate(NEXT_FRAME)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")


class Lab:
    """A running JupyterLab and a browser."""

    def __init__(self, server: psutil.Popen, port: int, token: str, browser: Browser):
        self.server, self.port, self.token, self.browser = server, port, token, browser

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[Notebook]:
        """The notebook in a fresh tab, its kernel ready."""
        page = self.browser.new_page(viewport={"width": 1200, "height": 1000})
        page.set_default_timeout(1000 * LIMIT_S)
        notebook = Notebook(page)
        page.goto(f"http://127.0.0.1:{self.port}/lab/tree/{path}?token={self.token}&reset")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        page.evaluate(READY)
        yield notebook
        page.close()

    def compilers(self) -> list[psutil.Process]:
        """The compile workers of this server's kernels, and of nobody else's."""
        return [p for p in self.server.children(recursive=True) if _is_compiler(p)]

    def kill(self, compilers: list[psutil.Process]) -> None:
        """Kill them as the system does when memory runs out, and wait until they are dead."""
        for process in compilers:
            process.kill()
        _wait_until(lambda: not set(compilers) & set(self.compilers()), "a killed compiler lives on")


def _is_compiler(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return any(part.endswith("compiler/child/worker.py") for part in process.cmdline())
    return False  # a killed one is a zombie until its kernel takes note


def wait_until_asked(compilers: list[psutil.Process]) -> None:
    """Wait until a request lies unread before one of these (suspended) compilers. Linux only, as libtpu is."""
    _wait_until(lambda: any(_unread_bytes(p.pid) for p in compilers), "no compiler was asked anything")


def _wait_until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.05)  # before the next look


def _unread_bytes(pid: int) -> int:
    pipe = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"    "))[0]
    finally:
        os.close(pipe)


@contextlib.contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    """Server and browser, with everything they write under ``folder``. Skips the test where there is no browser."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        try:
            with _serve(_copy_of_the_course(folder / "course"), folder / "home") as (server, port, token):
                yield Lab(server, port, token, browser)
        finally:
            browser.close()


def _copy_of_the_course(copy: Path) -> Path:
    """What a learner opens, so that a test may write into it, and a venv/bin/python: ours, with the copy in front."""
    left_out = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for name in ("course_lib", "docs", "exercises", "notebooks", "tools"):
        shutil.copytree(ROOT / name, copy / name, ignore=left_out)
    python = copy / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{copy}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return copy


@contextlib.contextmanager
def _serve(course: Path, home: Path) -> Iterator[tuple[psutil.Popen, int, str]]:
    """tools/lab.sh on a free port. Of this machine's own Jupyter settings it sees nothing."""
    config = home / "config"
    news = config / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    news.mkdir(parents=True)
    # No question about news, as tools/setup.sh arranges it in .venv; and what a user does not have: the application
    # within reach of the page, so that a test can wait for it.
    (news / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    (config / "jupyter_lab_config.py").write_text("c.LabApp.expose_app_in_browser = True\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token, log = secrets.token_hex(16), home / "server.log"
    not_ours = ("COURSE", "COV_", "IPYTHON", "JAX", "JUPYTER", "KERAS", "PYTEST")
    env = {name: value for name, value in os.environ.items() if not name.startswith(not_ours)}
    env |= {"HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "JUPYTER_CONFIG_DIR": str(config)}
    env |= {"JUPYTER_DATA_DIR": str(home / "data"), "JUPYTER_RUNTIME_DIR": str(home / "runtime")}
    env |= {"JUPYTER_TOKEN": token, "PORT": str(port), "BROWSER": "none"}
    # What this session has compiled before is true here as well, and the next to compile it may have it from here.
    kept = ("COURSE_CACHE", "JAX_COMPILATION_CACHE_DIR", "JAX_DISABLE_MOST_OPTIMIZATIONS")
    kept += ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",)
    env |= {name: os.environ[name] for name in kept if name in os.environ}
    startup = home / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "asks_every_time.py").write_text(ASKS_EVERY_TIME)
    with log.open("w") as out:
        command = ["sh", str(course / "tools" / "lab.sh"), "venv"]
        server = psutil.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    try:
        _wait_until_it_answers(server, port, log)
        yield server, port, token
    finally:
        _end(server)


def _wait_until_it_answers(server: psutil.Popen, port: int, log: Path) -> None:
    _wait_until(lambda: _answers(port) or server.poll() is not None, "JupyterLab does not answer")
    assert server.poll() is None, f"JupyterLab ended at once. It wrote:\n{log.read_text()[-2000:]}"


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/api")
        connection.getresponse()
        return True
    return False


def _end(server: psutil.Popen) -> None:
    """End the server as Ctrl-C would, and see that its kernels and their compilers end with it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [server, *server.children(recursive=True)]
        server.terminate()
        _, alive = psutil.wait_procs(family, timeout=20)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=10)
        assert not alive, f"still there 20 s after the server was told to end: {alive}"
