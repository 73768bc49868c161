"""A widget with the tokens per second that a chip can write, by the bandwidth of its memory alone."""

import math

import traitlets

from course_lib import chips
from course_lib.viz.common.widget import Widget, source
from course_lib.viz.token_meter import meter_still
from course_lib.viz.token_meter.decode_costs import Memory, Model, Setting

CHIPS = ("v5e", "v6e", "v5p")
MOST_SEQUENCES, LEAST_CONTEXT, MOST_CONTEXT = 256, 256, 131_072
FEWEST_PARAMETERS, MOST_PARAMETERS = 1e6, 1e13
_MOST = {"layers": (1000, 32), "kv_heads": (1024, 8), "head": (1024, 128)}  # and what to try instead


def token_meter(
    parameters: float = 8.03e9, layers: int = 32, kv_heads: int = 8, head: int = 128, *, chip: str = "v5e"
) -> "TokenMeter":
    """Show how many tokens per second one chip decodes, by bandwidth alone, with sequences and context to change.

    A step reads all ``parameters``, a number from 1e6 to 1e13, and for each token of each sequence a key and a value of
    ``head`` elements, 1 to 1,024, for each of ``kv_heads``, 1 to 1,024, in each of ``layers``, 1 to 1,000. The reader
    sets the sequences (1 to 256), the context of each (256 to 131,072 tokens), the bytes of a weight and of a kept
    element (1 or 2), and the chip: "v5e", "v6e" or "v5p", all of it, with its bandwidth in bytes/s and its memory in
    bytes. Shown are bytes and milliseconds of a step, tokens per second, and whether it fits. Nothing is compiled or
    run. Raises ValueError for anything else.
    """
    if isinstance(parameters, bool) or not isinstance(parameters, int | float) or not _is_in_range(parameters):
        raise ValueError(
            f"token_meter: parameters={parameters!r} is not a number of parameters. It may be a number from "
            f"{FEWEST_PARAMETERS:g} to {MOST_PARAMETERS:g}. Try parameters=8.03e9."
        )
    for name, size in (("layers", layers), ("kv_heads", kv_heads), ("head", head)):
        most, instead = _MOST[name]
        if type(size) is not int or not 1 <= size <= most:
            raise ValueError(
                f"token_meter: {name}={size!r} is out of range. It may be an integer from 1 to {most:,}. "
                f"Try {name}={instead}."
            )
    if chip not in CHIPS:
        raise ValueError(
            f"token_meter: chip={chip!r} is not one of the chips. It may be {', '.join(map(repr, CHIPS))}. "
            "Try chip='v5e'."
        )
    model = Model(float(parameters), layers, kv_heads, head)
    return TokenMeter(model=model._asdict(), chip=chip, chips={name: _memory(name)._asdict() for name in CHIPS})


def _is_in_range(parameters: float) -> bool:
    return math.isfinite(parameters) and FEWEST_PARAMETERS <= parameters <= MOST_PARAMETERS


def _memory(name: str) -> Memory:
    """Return the memory of a whole chip; the registry gives it for one TensorCore."""
    chip = chips.chip(name)
    return Memory(chip.chip_bandwidth, chip.hbm_bytes * chip.tensor_cores)


class TokenMeter(Widget):
    """The widget. Its traits are its settings."""

    _esm, _css = source(__file__, "dom.js", "units.js", "decode_costs.js")
    model = traitlets.Dict().tag(sync=True)  # the fields of a Model
    chips = traitlets.Dict().tag(sync=True)  # the fields of a Memory, by the name of a chip
    chip = traitlets.Enum(list(CHIPS), "v5e").tag(sync=True)
    sequences = traitlets.Int(8, min=1, max=MOST_SEQUENCES).tag(sync=True)
    context = traitlets.Int(8192, min=LEAST_CONTEXT, max=MOST_CONTEXT).tag(sync=True)
    weight_bytes = traitlets.Enum([1, 2], 1).tag(sync=True)
    kept_bytes = traitlets.Enum([1, 2], 2).tag(sync=True)

    def _still(self) -> tuple[str, str]:
        setting = Setting(self.sequences, self.context, self.weight_bytes, self.kept_bytes)
        shown = meter_still.Shown(Model(**self.model), setting, self.chip, Memory(**self.chips[self.chip]))
        return meter_still.still(shown), meter_still.as_text(shown)
