"""Costs of elementwise operations as ``make op-costs`` found them: the figures of docs/op_costs.md."""

import dataclasses
import functools
import importlib.resources
import json
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpPrice:
    """One operation. ``says``: "cheap", "medium", "expensive" or "", as JAX's page on Pallas for TPUs rates it."""

    says: str
    cycles: Mapping[str, float | None]  # "f32, v5e" -> cycles for 1024 elements, predicted (compiler); None: refused
    slots: Mapping[str, float]  # "VPU", "EUP" -> operations for 1024 f32 elements on a v5e


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpPrices:
    """The costs of all operations. ``columns``: dtype and chip, in the page's order; ``versions``: of the compiler."""

    versions: str
    columns: tuple[str, ...]
    rows: Mapping[str, OpPrice]


@functools.cache
def op_prices() -> OpPrices:
    """Return the costs that ship with the course, without a compiler; ``op_cost`` asks one about any operation."""
    said = json.loads(importlib.resources.files("course_lib.compiler").joinpath("op_prices.json").read_text())
    rows = {name: OpPrice(**row) for name, row in said["rows"].items()}
    return OpPrices(versions=said["versions"], columns=tuple(said["columns"]), rows=rows)
