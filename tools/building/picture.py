"""docs/learner.svg: what a learner sees of a wrong kernel, as the player's still image beside the check's verdict.

It is made in a process of its own (python -m building.picture), because it runs the kernel as a notebook does.
"""

import contextlib
import io
import re
import subprocess
import sys
import textwrap

from building import ROOT, BuildError
from building.run import environment

PATH = "docs/learner.svg"
_COLUMNS, _LINE, _LETTER = 54, 19, 7.9  # characters; pixels, for 13 px in the widest of the usual fonts
_GAP = 16
_MONOSPACE = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def learner() -> str:
    """Return the picture as SVG. Raise BuildError."""
    made = subprocess.run(
        [sys.executable, "-m", "building.picture"],
        cwd=ROOT / "tools",
        env=environment(),
        capture_output=True,
        text=True,
    )
    if made.returncode:
        raise BuildError(f"{PATH}: {made.stderr.strip().splitlines()[-1]}")
    return made.stdout


def _still_and_verdict() -> tuple[str, str]:
    """Return the grid player's drawing of a fold that revisits a block it has left, and the check's verdict on it."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl

    from course_lib import checks, viz

    def fold_kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    def fold(x):
        return pl.pallas_call(
            fold_kernel,
            out_shape=jax.ShapeDtypeStruct((8, x.shape[1]), x.dtype),
            grid=(x.shape[0] // 8, pl.cdiv(x.shape[1], 128)),
            in_specs=[pl.BlockSpec((8, 128), lambda k, j: (k, j))],
            out_specs=pl.BlockSpec((8, 128), lambda k, j: (0, j)),
        )(x)

    with contextlib.redirect_stdout(io.StringIO()):
        checks.start()
        said = checks.check("04.7", fold)
    if said.outcome != "not yet":
        raise BuildError(f"04.7 {said.outcome}, and the picture is of one that is not.")
    pictures, _ = viz.grid_player(fold, jnp.zeros((32, 384)))._repr_mimebundle_()
    return pictures["image/svg+xml"], str(said)


def svg(still: str, verdict: str) -> str:
    """Return the two side by side on white cards, because the page around them may be dark."""
    from course_lib.viz.common import draw

    width, height = (int(re.search(rf'\b{name}="(\d+)"', still)[1]) for name in ("width", "height"))
    lines = ['checks.check("04.7", fold)', ""]
    lines += [piece for line in verdict.splitlines() for piece in textwrap.wrap(line, _COLUMNS)]
    room = round(_COLUMNS * _LETTER) + 2 * draw.PAD
    texts = "".join(
        f'<text x="{width + _GAP + draw.PAD}" y="{draw.PAD + 14 + n * _LINE}" xml:space="preserve"'
        f"{' fill=' + chr(34) + draw.MUTED + chr(34) if n == 0 else ''}>{draw.escape(line)}</text>"
        for n, line in enumerate(lines)
    )
    high = max(height, 2 * draw.PAD + _LINE * len(lines))
    whole = width + _GAP + room
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{high}" viewBox="0 0 {whole} {high}" '
        f'role="img"><title>A kernel in the grid player, and what its check says</title>{still}'
        f'<rect x="{width + _GAP}.5" y="0.5" width="{room - 1}" height="{high - 1}" rx="6" fill="{draw.PAPER}" '
        f'stroke="{draw.LINE}"/><g font-family="{_MONOSPACE}" font-size="13" fill="{draw.INK}">{texts}</g></svg>\n'
    )


if __name__ == "__main__":
    print(svg(*_still_and_verdict()), end="")
