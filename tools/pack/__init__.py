"""The instructor's pack, which `make pack` makes (build_pack.py): slides, handouts, and the times of a day."""

import re


class PackError(Exception):
    """Something that the pack cannot show; the message names the page, what is wrong, and what to do."""


EXERCISE = re.compile(r"\b\d\d\.\d+\b")
