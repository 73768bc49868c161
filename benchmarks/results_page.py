"""docs/results.md: a page that is rewritten as a whole, except for its last part, which collects the tables of GPUs."""

import pathlib

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/results.md"
ON_GPUS = "## Measured on GPUs"
NOTHING = "Nothing yet. On a machine with an NVIDIA GPU `make bench ARGS=--write` adds its tables here."


def write(predicted: str) -> None:
    """Write the page, but keep the measurements on GPUs."""
    PAGE.write_text(f"{predicted.rstrip()}\n\n{ON_GPUS}\n\n{_on_gpus() or NOTHING}\n")


def append(part: str) -> None:
    """Append the tables of a GPU."""
    before = PAGE.read_text().partition(ON_GPUS)[0].rstrip()
    PAGE.write_text("\n\n".join(filter(None, [before, ON_GPUS, _on_gpus(), part.strip()])) + "\n")


def _on_gpus() -> str:
    text = PAGE.read_text().partition(ON_GPUS)[2].strip() if PAGE.is_file() else ""
    return "" if text == NOTHING else text
