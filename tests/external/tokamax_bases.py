"""The test bases that Tokamax ships, one for each of its ops; a module that imports this is skipped without them."""

import importlib
import importlib.util
import os
import sys
import types
import warnings

import pytest
from sweeps import share

# Tokamax's benchmarks import xprof, 100 MB; its test bases do not use it: a module of that name will do.
XPROF = ("xprof", "xprof.cli", "xprof.cli.tools", "xprof.cli.tools.get_kernel_stats_tool")
EVERYTHING = os.environ.get("EXAMINE") == "all"


def test_base(op: str) -> types.ModuleType:
    """``tokamax._src.ops.<op>.test_base``. Skips the module that asks where Tokamax is missing or does not start."""
    if importlib.util.find_spec("tokamax") is None:
        pytest.skip("tokamax is not installed: see tests/external/README.md", allow_module_level=True)
    stand_ins = {} if importlib.util.find_spec("xprof") else {n: types.ModuleType(n) for n in XPROF}
    sys.modules.update(stand_ins)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # theirs
            return importlib.import_module(f"tokamax._src.ops.{op}.test_base")
    except ImportError as error:
        pytest.skip(f"tokamax is installed and does not start: {error}", allow_module_level=True)
    finally:
        for name in stand_ins:
            del sys.modules[name]


def cases(base: type, wanted: tuple[str, ...], but: tuple[str, ...] = ()) -> dict:
    """For a subclass of ``base``: None for all tests that it shall not inherit.

    Of those whose names begin with ``wanted`` and not with ``but``, it inherits one in three.
    """
    names = [name for name in dir(base) if name.startswith("test")]
    turn = share(names, one_in=1 if EVERYTHING else 3)
    kept = [name for name in turn if name.startswith(wanted) and not name.startswith(but or ("-",))]
    return {name: None for name in names if name not in kept}
