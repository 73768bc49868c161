"""The explanation of a refused or crashed compile, with the line of the kernel that it is about.

JAX forgets the caller's line inside jnp functions, such as jnp.sort; the kernel's trace still has it.
"""

import functools
import re
from collections.abc import Callable

from course_lib import compat, errors, grid
from course_lib.compiler.child import service
from course_lib.grid import jaxprs

# What gives a value another layout. The compiler may abort if the value is of booleans.
_LAYOUT = ("broadcast_in_dim", "concatenate", "expand_dims", "gather", "reshape", "roll", "squeeze", "transpose")
_NAMED = re.compile(r'Unimplemented primitive in Pallas TPU lowering for \w+: ([\w-]+)|loc\("([\w-]+):"')


def explained(error: Exception | str, jaxpr) -> errors.Explanation:
    """Explain what was refused, or how the compiler's child ended. ``jaxpr``: the program; None if it has no trace."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    find = None
    if isinstance(error, service.WorkerDied):
        find = _moves_booleans
        error = service.WorkerDied(f"{error}; its last words: {error.last_words}") if error.last_words else error
    elif named := _NAMED.search(text):
        find = functools.partial(_is, named[1] or named[2])
    return errors.explain(error, _line(jaxpr, find) if jaxpr is not None and find else "")


def _line(jaxpr, find: Callable) -> str:
    """Return "line 3 of kernel" for the first equation of a kernel that ``find`` accepts, itself or inside; else ""."""
    for call in grid.pallas_calls(jaxpr):
        for eqn in (eqn for inner in jaxprs.inside(call) for eqn in grid.equations(inner)):
            if find(eqn) or any(find(e) for inner in jaxprs.inside(eqn) for e in grid.equations(inner)):
                if line := compat.line_of(eqn):
                    return line
    return ""


def _is(name: str, eqn) -> bool:
    return eqn.primitive.name == name


def _moves_booleans(eqn) -> bool:
    return eqn.primitive.name in _LAYOUT and any(str(v.aval).startswith("bool[") and v.aval.shape for v in eqn.invars)
