"""Names that moved between the two JAX versions the course supports (0.11.2 and 0.12). Nothing else."""

import dataclasses

from jax._src.pallas.mosaic.interpret import interpret_pallas_call as _interpret
from jax.experimental.pallas import tpu as pltpu

_INTERPRET_FIELDS = {field.name for field in dataclasses.fields(pltpu.InterpretParams)}


def interpret_params(**fields) -> pltpu.InterpretParams:
    """``pltpu.InterpretParams`` with the fields this JAX knows; the others are dropped.

    0.12 added ``on_race`` and raises on a race by default; 0.11 prints and sets a flag.
    """
    known = {name: value for name, value in fields.items() if name in _INTERPRET_FIELDS}
    return pltpu.InterpretParams(**known)


def races_found() -> bool:
    """Whether the last simulated kernel with ``detect_races=True`` had a race (JAX 0.11 only says it here)."""
    return bool(_interpret.races is not None and _interpret.races.races_found)
