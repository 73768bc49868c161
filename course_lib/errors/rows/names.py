"""Names that are outdated or misspelled."""

import difflib
import inspect
import sys

from course_lib.errors.row import Row

# How authors of kernels abbreviate JAX's modules.
_ALIASES = {
    "jax.experimental.pallas": "pl",
    "jax.experimental.pallas.tpu": "pltpu",
    "jax.experimental.pallas.mosaic_gpu": "plgpu",
    "jax.numpy": "jnp",
    "jax.nn": "jax.nn",
    "jax.lax": "jax.lax",
    "jax": "jax",
}


# Names in old tutorials, with their replacements; a test checks that the new names exist.
RENAMED = {
    "TPUCompilerParams": "pltpu.CompilerParams",
    "TPUInterpretParams": "pltpu.InterpretParams",
    "TPUMemorySpace": "pltpu.MemorySpace",
    "Unblocked": "pl.Element",
    "unblocked": "pl.Element",
    "repeat": "jnp.tile",
}


_WITHOUT_HEIR = ("load", "store", "swap")  # no successor: pltpu's load and store are something else


def _new_name(module: str, name: str) -> dict[str, str] | None:
    return {"new": RENAMED[name], "alias": _ALIASES[module]} if name in RENAMED else None


def _nearest_name(module: str, name: str) -> dict[str, str] | None:
    """Find the same name in another module of JAX, or the most similar name in this module."""
    if name in _WITHOUT_HEIR or module not in _ALIASES:
        return None
    for other, alias in _ALIASES.items():
        if name in _names(other):
            return {"alias": _ALIASES[module], "found": f"{alias}.{name}"}
    if close := difflib.get_close_matches(name, _names(module), n=1, cutoff=0.8):
        return {"alias": _ALIASES[module], "found": f"{_ALIASES[module]}.{close[0]}"}
    return None


def _names(module: str) -> list[str]:
    """Return the names in a module; none if nobody has imported it, because then no failure is about it."""
    return dir(sys.modules[module]) if module in sys.modules else []


_NO_BACKEND = "remove it: on a GPU pl.pallas_call uses Triton, and plgpu.kernel uses Mosaic GPU."
# pallas_call and kernel call the same things by other names.
_COUSINS = {
    "out_type": "out_shape",
    "out_shape": "out_type",
    "scratch_types": "scratch_shapes",
    "scratch_shapes": "scratch_types",
}


def _nearest_keyword(who: str, name: str) -> dict[str, str]:
    """Return the function as its caller writes it and, for a Pallas function, the parameter most like ``name``."""
    who = who.removesuffix(".__init__")
    function, hint = who, "check the names of its parameters; arrays and refs are passed by position, without names."
    for module in ("jax.experimental.pallas", "jax.experimental.pallas.tpu", "jax.experimental.pallas.mosaic_gpu"):
        if who not in _names(module):
            continue
        parameters, called = [*inspect.signature(getattr(sys.modules[module], who)).parameters], who
        if who == "Mesh":  # plgpu.kernel passes on to plgpu.Mesh what it does not know
            parameters, called = [*parameters, *inspect.signature(sys.modules[module].kernel).parameters], "kernel"
        known = [_COUSINS.get(name)] if _COUSINS.get(name) in parameters else _closest(name, parameters)
        if known:
            return {"function": f"{_ALIASES[module]}.{called}", "hint": f"write {known[0]}=."}
        if called in ("pallas_call", "kernel"):
            function = f"{_ALIASES[module]}.{called}"
            hint = _NO_BACKEND if name == "backend" else hint
    return {"function": function, "hint": hint}


def _closest(name: str, parameters: list[str]) -> list[str]:
    return difflib.get_close_matches(name, parameters, n=1)


def _suggestion(near: str, **_) -> dict[str, str]:
    """Say what to do about an undefined name; Python itself may suggest a similar one."""
    if near != "?":
        return {"next": f"write {near}, if that is what you meant."}
    return {"next": "check its spelling; otherwise run the cell that defines it, or import it."}


ROWS = (
    Row(
        "undefined",
        r"NameError: name '(?P<name>\w+)' is not defined(?:\. Did you mean: '(?P<near>\w+)'\?)?",
        "The name {name} is not defined.",
        "{next}",
        "",
        _suggestion,
    ),
    Row(
        "keyword",
        r"TypeError: (?P<who>[\w.<>]+)\(\) got an unexpected keyword argument '(?P<name>\w+)'",
        "{function} has no parameter {name}.",
        "{hint}",
        more=_nearest_keyword,
    ),
    Row(
        "renamed",
        r"AttributeError: module '(?P<module>jax\.experimental\.pallas(?:\.tpu)?)' has no attribute '(?P<name>\w+)'",
        "{alias}.{name} is an old name; {new} has replaced it.",
        "write {new}; the rest of your tutorial may be just as old.",
        more=_new_name,
    ),
    Row(
        "misspelt",
        r"AttributeError: module '(?P<module>jax[\w.]*)' has no attribute '(?P<name>\w+)'",
        "{alias}.{name} does not exist, but {found} does.",
        "write {found}.",
        more=_nearest_name,
    ),
    Row(
        "old-name",
        r"AttributeError: (?P<what>(?:module '(?:jax\.experimental\.pallas|jaxlib)[^']*' has no attribute '\w+'|"
        r"pl\.\w+ was deprecated).*)",
        "That name is gone from Pallas: {what}",
        "your tutorial may be old. Read with x_ref[...], write with o_ref[...] = v, and multiply with jnp.dot.",
        "01",
    ),
)
