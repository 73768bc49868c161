"""The attacks of attacks.txt: (name, answer cell, source) each, and the names of those that use all their time."""

import pathlib
import re

_PARTS = re.split(r"^# %% ", pathlib.Path(__file__).with_suffix(".txt").read_text(), flags=re.M)[1:]
_READ = [(head.split(" | "), source) for head, _, source in (part.partition("\n") for part in _PARTS)]

ATTACKS = [(name, cell, source.strip() + "\n") for (name, cell, *_), source in _READ]
SLOW = {name for (name, _, *lasts), _ in _READ if lasts}
