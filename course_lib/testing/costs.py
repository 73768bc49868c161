"""The recorded costs of kernels: a file of figures beside the tests that the next run is compared with.

All figures are the compiler's, the same on every machine with the same libtpu: cycles are predicted, nothing is
measured. A later libtpu may predict others, so the file names the version.
"""

import dataclasses
import json
import pathlib
from typing import Self

from course_lib import compiler, text

FILE = "kernel_costs.json"
MORE = 0.01  # the relative increase of a cost that is tolerated
_WHAT = {"cycles": "cycles, predicted", "hbm_bytes": "HBM traffic", "vmem_bytes": "VMEM", "spills": "spills"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """Costs of one function on one chip. None: the compiler did not say. ``versions``: what the figures depend on."""

    chip: str
    cycles: int | None
    hbm_bytes: int | None
    vmem_bytes: int | None
    spills: int | None
    versions: str

    @classmethod
    def of(cls, report: compiler.Report) -> Self:
        return cls(**{field.name: getattr(report, field.name) for field in dataclasses.fields(cls)})

    def more_than(self, kept: Self) -> list[str]:
        """Return one line for each cost that is higher than the recorded one; [] if none is."""
        return [
            f"{what}: {_words(name, now)}, but {_words(name, was)} was recorded" + _per_cent(now, was)
            for name, what in _WHAT.items()
            if _larger(now := getattr(self, name), was := getattr(kept, name))
        ]


class KeptCosts:
    """The costs of one test's kernels in ``file``, under the test's ``name``; the second is ``name #2``, and so on.

    With ``update`` the costs are written, and nothing is refused. ``cheaper`` lists kernels that cost less than
    recorded.
    """

    def __init__(self, file: pathlib.Path, name: str, update: bool = False):
        self.file, self.name, self.update = file, name, update
        self.cheaper: list[str] = []
        self._asked = 0

    def complaint(self, costs: Costs) -> str:
        """Return why the next kernel costs too much; "" if it does not, or with ``update``."""
        self._asked += 1
        name = self.name if self._asked == 1 else f"{self.name} #{self._asked}"
        all_kept = _read(self.file)
        if self.update:
            _write(self.file, all_kept | {name: dataclasses.asdict(costs)})
            return ""
        if name not in all_kept:
            return f"{self.file.name} has no entry for {name!r}. Run pytest --kernel-costs=update, and commit it."
        kept = _costs(self.file, name, all_kept[name])
        if kept.chip != costs.chip:
            return (
                f"{name!r} was recorded for a {kept.chip}, but this is for a {costs.chip}: run --kernel-costs=update."
            )
        if kept.more_than(costs) and not costs.more_than(kept):
            self.cheaper.append(name)
        return self._told(costs, kept)

    def _told(self, costs: Costs, kept: Costs) -> str:
        more = costs.more_than(kept)
        if not more:
            return ""
        other = "" if costs.versions == kept.versions else f"\nRecorded with {kept.versions}; this is {costs.versions}."
        return "\n".join(more) + f"{other}\nTo accept the new costs: pytest --kernel-costs=update."


def _larger(now: int | None, was: int | None) -> bool:
    return now is not None and was is not None and now > was * (1 + MORE)


def _words(name: str, value: int) -> str:
    return text.size(value) if name.endswith("bytes") else text.count(value)


def _per_cent(now: int, was: int) -> str:
    return f" ({100 * (now / was - 1):+.1f} %)" if was else ""


def _read(file: pathlib.Path) -> dict:
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(
            f"{file} is not JSON: {error}. Restore it, or run pytest --kernel-costs=update without it."
        ) from None
    if not isinstance(found, dict):
        raise ValueError(f"{file} must hold a JSON object with a name for each test; it holds {type(found).__name__}.")
    return found


def _costs(file: pathlib.Path, name: str, kept) -> Costs:
    try:
        return Costs(**kept)
    except TypeError:
        raise ValueError(f"{file}: the entry {name!r} does not hold costs. Run pytest --kernel-costs=update.") from None


def _write(file: pathlib.Path, all_kept: dict) -> None:
    file.write_text(json.dumps(all_kept, indent=1, sort_keys=True) + "\n")
