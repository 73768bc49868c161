"""How long the grid player takes to open, how smoothly it plays, and how large a notebook with it is.

For a matmul of n x n arrays in blocks of 128 x 128, in a Chromium without a GPU: seconds in Python, bytes sent to the
browser, milliseconds from the first line of JavaScript to the second frame drawn, frames per second while it plays.
Timings depend on this machine and its current load; compare them only within a run.
"""

import base64
import json
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "browser")]  # the tests have the matmul and the bare page
SIZES = (512, 2816, 4096, 12800)  # 64, 10,648, 32,768 and 1,000,000 steps
ROUNDS = 5
PLAYED_S = 4

# Frames that the browser draws while the player plays, and how many of them show a new step.
COUNT_FRAMES = """(seconds) => new Promise((done) => {
    let frames = 0, changed = 0, last = "";
    const caption = document.querySelector(".course-caption"), began = performance.now();
    const look = (now) => {
        frames += 1;
        changed += caption.textContent !== last;
        last = caption.textContent;
        if (now - began < 1000 * seconds) requestAnimationFrame(look);
        else done([frames / seconds, changed / seconds]);
    };
    document.querySelector(".course-play").click();
    requestAnimationFrame(look);
})"""
SET_SPEED = "(speed) => { document.querySelector('.course-speed').value = speed }"


def main() -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from chromium import open_browser

    print(f"{os.cpu_count()} cores; matmul of n x n bfloat16 in blocks of 128 x 128; median of {ROUNDS} where it opens")
    head = ("n", "steps", "Python s", "sent KB", "of it arrays KB", "opens ms", "frames/s", "steps shown/s", "steps/s")
    print(("{:>16}" * len(head)).format(*head))
    with open_browser() as browser:
        for n in SIZES:
            print(("{:>16}" * len(head)).format(*row(browser, n)), flush=True)
    print_notebook(4096)


def player(n: int):
    """Return the player of one matmul, and the seconds that Python took for it."""
    import jax
    import jax.numpy as jnp
    from test_grid import matmul

    from course_lib import viz

    square = jax.ShapeDtypeStruct((n, n), jnp.bfloat16)
    began = time.perf_counter()
    widget = viz.grid_player(matmul, square, square)
    widget._repr_mimebundle_()
    return widget, time.perf_counter() - began


def row(browser, n: int) -> list[str]:
    """Return one line of the table."""
    from widget_page import open_widget

    seconds = statistics.median(player(n)[1] for _ in range(ROUNDS))
    widget, opened = player(n)[0], []
    steps = widget.kernels[0]["steps"]
    for _ in range(ROUNDS):
        with open_widget(browser, widget) as page:
            opened.append(page.evaluate("openedMs"))
    with open_widget(browser, widget) as page:
        speeds = page.locator(".course-speed option").evaluate_all("options => options.map((o) => o.value)")
        page.evaluate(SET_SPEED, [speed for speed in speeds if steps > int(speed) * (PLAYED_S + 1)][-1])
        frames, shown = page.evaluate(COUNT_FRAMES, PLAYED_S)
        step = int(page.locator(".course-slider").input_value())
    return [
        f"{n:,}",
        f"{steps:,}",
        f"{seconds:.3f}",
        f"{len(state(widget)) / 1000:,.1f}",
        f"{len(widget.frames) / 1000:,.1f}",
        f"{statistics.median(opened):.0f}",
        f"{frames:.0f}",
        f"{shown:.0f}",
        f"{step / PLAYED_S:,.0f}",
    ]


def print_notebook(n: int) -> None:
    """Print the size of a notebook with the player: its output alone, and with the widget's state saved."""
    widget = player(n)[0]
    bundle = widget._repr_mimebundle_()
    output = len(json.dumps(bundle[0] if isinstance(bundle, tuple) else bundle))
    steps = widget.kernels[0]["steps"]
    print(f"notebook with {steps:,} steps: output {output / 1000:.1f} KB, and saved with the widget's state ", end="")
    print(f"{(output + len(state(widget))) / 1000:.1f} KB")


def state(widget) -> str:
    """Return what is sent to the browser, as a notebook would store it."""

    def encoded(value: object) -> str:
        return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)

    return json.dumps(widget.get_state(), default=encoded)


if __name__ == "__main__":
    main()
