"""The token meter: its arithmetic beside the sizes of arrays, its words, its still, what it refuses.

In a browser: tests/browser/test_token_meter.py and tests/browser/test_every_widget.py.
"""

import itertools
import math

import numpy as np
import pytest
from shapes import words_on_words
from viz_samples import overflowing, parsed, words

from course_lib import chips, text, viz
from course_lib.viz.token_meter.decode_costs import Memory, Model, Setting, binds, cost, fits
from course_lib.viz.token_meter.meter_still import BATCHES
from course_lib.viz.token_meter.token_meter import CHIPS

LLAMA = Model(8.03e9, 32, 8, 128)
SETTINGS = [
    Setting(*each) for each in itertools.product((1, 7, 256), (256, 8192, 131_072), (1, 2), (1, 2))
]  # fmt: skip


def memory(name: str) -> Memory:
    return Memory(**viz.token_meter().chips[name])


@pytest.mark.parametrize("name", CHIPS)
def test_a_chip_is_the_whole_of_it(name):
    chip = chips.chip(name)
    assert memory(name) == (chip.hbm_bandwidth * chip.tensor_cores, chip.hbm_bytes * chip.tensor_cores)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_step_reads_the_weights_and_the_keys_and_values(setting):
    v5e = memory("v5e")
    found = cost(LLAMA, setting, v5e)
    dtype = {1: np.int8, 2: np.float16}[setting.kept_bytes]
    keys = np.broadcast_to(np.empty((), dtype), (32, 8, setting.context, 128)).size * np.dtype(dtype).itemsize
    assert found.kept == 2 * keys * setting.sequences and found.weights == 8.03e9 * setting.weight_bytes
    assert found.kept_s == found.kept / chips.chip("v5e").hbm_bandwidth
    assert 1 / found.each == pytest.approx((found.weights + found.kept) / v5e.bandwidth)
    assert found.total == setting.sequences * found.each
    assert found.free == v5e.hbm_bytes - found.weights - found.kept


def test_what_is_kept_takes_longer_from_some_number_of_sequences_on_whatever_the_chip():
    def first(name: str) -> int:
        found = (cost(LLAMA, Setting(n, 2048, 1, 2), memory(name)) for n in range(1, 257))
        return 1 + [each.kept_s > each.weights_s for each in found].index(True)

    assert [first(name) for name in CHIPS] == [math.floor(8.03e9 / (2048 * 131_072)) + 1] * 3


def test_words():
    v5e = memory("v5e")
    few, many = (cost(LLAMA, Setting(n, 8192, 1, 2), v5e) for n in (7, 8))
    assert binds(few) == "The weights take longer: 52 % of a step."
    assert binds(many) == "The KV cache takes longer: 52 % of a step."
    assert binds(many._replace(kept_s=many.weights_s)) == "Weights and KV cache take equally long."
    whole = text.size(v5e.hbm_bytes)
    assert fits(many, v5e) == f"It fits: it needs 15.48 GiB of {whole}, and {text.size(many.free)} are free."
    large = cost(LLAMA, Setting(64, 8192, 2, 2), v5e)
    assert fits(large, v5e) == f"It does not fit: it needs 78.96 GiB, and the chip has {whole}."
    larger = cost(LLAMA._replace(parameters=70e9), Setting(1, 256, 1, 1), v5e)
    assert fits(larger, v5e).endswith("The weights alone are too large.")


def every_meter() -> list[viz.TokenMeter]:
    found = []
    for chip, given in itertools.product(CHIPS, ((8.03e9, 32, 8, 128), (1e6, 1, 1, 1), (1e13, 1000, 1024, 1024))):
        for sequences, context in ((8, 8192), (1, 256), (256, 131_072)):
            widget = viz.token_meter(*given, chip=chip)
            widget.sequences, widget.context = sequences, context
            found.append(widget)
    return found


@pytest.mark.parametrize("widget", every_meter(), ids=range(27))
def test_every_still_is_legible(widget):
    svg, told = widget._still()
    assert parsed(svg) is not None and overflowing(svg) == [] == words_on_words(svg) and len(svg) < 12_000
    assert [line for line in words(svg) if line.endswith("…")] == []
    assert "by bandwidth alone" in told and "predicted" not in told and max(map(len, told.splitlines())) <= 94


def test_the_still_shows_what_more_sequences_give():
    svg, told = viz.token_meter()._still()
    seen = words(svg)
    assert seen[0] == "Tokens per second, by bandwidth alone"
    assert "395 tokens/s in all, 49.3 tokens/s for each sequence." in seen
    start = seen.index("fits")
    rows = [seen[n : n + 6] for n in range(start + 1, len(seen), 6)]
    assert [row[0] for row in rows] == [str(n) for n in BATCHES] and [row[-1] for row in rows] == [
        "yes", "yes", "no", "no", "no",
    ]  # fmt: skip
    assert rows[0] == ["1", "9.79", "1.31", "90.1", "90.1", "yes"]
    assert "8.03 billion parameters on a v5e" in told


def test_the_still_follows_the_settings():
    widget = viz.token_meter(chip="v6e")
    widget.sequences, widget.context, widget.weight_bytes, widget.kept_bytes = 30, 2048, 2, 1
    told = " ".join(widget._still()[1].split())
    assert "on a v6e" in told and "30 sequences of 2,048 tokens, 2 bytes a weight, 1 byte a kept element." in told


NO_METER = [
    (
        {"parameters": 0},
        "parameters=0 is not a number of parameters. It may be a number from 1e.06 to 1e.13. Try parame",
    ),
    ({"parameters": math.nan}, "parameters=nan is not a number"),
    ({"parameters": math.inf}, "parameters=inf is not a number"),
    ({"parameters": "8b"}, "parameters='8b' is not a number"),
    ({"parameters": True}, "parameters=True is not a number"),
    ({"layers": 0}, "layers=0 is out of range. It may be an integer from 1 to 1,000. Try layers=32"),
    ({"kv_heads": 8.0}, "kv_heads=8.0 is out of range. It may be an integer from 1 to 1,024. Try kv_heads=8"),
    ({"head": 2048}, "head=2048 is out of range"),
    ({"head": True}, "head=True is out of range"),
    ({"chip": "v4"}, "chip='v4' is not one of the chips. It may be 'v5e', 'v6e', 'v5p'. Try chip='v5e'"),
    ({"chip": None}, "chip=None is not one of"),
]


@pytest.mark.parametrize("given, says", NO_METER, ids=range(len(NO_METER)))
def test_what_is_no_model_is_refused(given, says):
    with pytest.raises(ValueError, match=f"token_meter: {says}"):
        viz.token_meter(**given)
