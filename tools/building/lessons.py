"""The table of lessons that README.md and page 00 show, extracted from the sources."""

import json
import os
import pathlib
import re

from building import ROOT, BuildError, relative

PUBLIC = pathlib.Path("notebooks/src/public.json")  # {"repo": "owner/name", "tag": "v1"}: written by --colab
_TITLE = re.compile(r"^# # (?:Lesson \d+: )?(.*)$", re.M)
_MINUTES = re.compile(r"^# \*(\d+) minutes, then (\d+) for the exercises", re.M)


def readme() -> str:
    """Return README.md with its table of lessons regenerated."""
    text = (ROOT / "README.md").read_text()
    new = rf"\1{table(ROOT)}\n\2"
    return re.sub(r"(<!-- lessons -->\n).*?(<!-- /lessons -->)", new, text, flags=re.DOTALL)


def table(folder: pathlib.Path, but: str = "") -> str:
    """Return the lessons as a Markdown table, with links for a page in ``folder``; badges once the address is public.

    ``but`` is the name of the source whose notebook contains the table, which is left out.
    """
    public = address()
    lines = ["| | lesson | minutes | exercises |", "|---|---|---|---|"]
    if public["repo"]:
        lines = [lines[0] + " in Colab |", lines[1] + "---|"]
    for source in sorted(ROOT.glob("notebooks/src/[0-9]*.py")):
        if source.name == but:
            continue
        minutes = _MINUTES.search(source.read_text())
        cells = [
            source.stem[:2],
            f"[{title(source)}]({_link(folder, 'notebooks', source)})",
            f"{minutes[1]}, exercises {minutes[2]}" if minutes else "",
            f"[exercises]({_link(folder, 'exercises', source)})" if _has_exercises(source) else "",
        ]
        lines.append(f"| {' | '.join(cells + [badge(public, source)] * bool(public['repo']))} |")
    return "\n".join(lines)


def title(source: pathlib.Path) -> str:
    """Return the title of a lesson, without its number. Raise BuildError if it has none."""
    said = _TITLE.search(source.read_text())
    if said is None:
        raise BuildError(f"{relative(source)} has no title: no line begins with `# # `.")
    return said[1]


def minutes(stem: str) -> dict[str, int]:
    """Return {"lesson": 60, "exercises": 55} from the first cell of the lesson; {} if it does not say."""
    source = ROOT / f"notebooks/src/{stem}.py"
    said = _MINUTES.search(source.read_text()) if source.exists() else None
    return {"lesson": int(said[1]), "exercises": int(said[2])} if said else {}


def address() -> dict[str, str]:
    """Return the course's public address: {"repo": "owner/name" or "", "tag": ...}."""
    return json.loads((ROOT / PUBLIC).read_text())


def badge(public: dict, source: pathlib.Path) -> str:
    """Return Markdown for a badge that opens the notebook of ``source`` in Colab."""
    folder = "notebooks" if source.parent.parent.name == "notebooks" else "exercises"
    colab = "https://colab.research.google.com"
    link = f"{colab}/github/{public['repo']}/blob/{public['tag']}/{folder}/{source.stem}.ipynb"
    return f"[![Open in Colab]({colab}/assets/colab-badge.svg)]({link})"


def _link(folder: pathlib.Path, kind: str, source: pathlib.Path) -> str:
    return pathlib.Path(os.path.relpath(ROOT / kind / f"{source.stem}.ipynb", folder)).as_posix()


def _has_exercises(source: pathlib.Path) -> bool:
    return (ROOT / "solutions/src" / source.name).exists()
