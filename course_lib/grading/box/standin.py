"""Stand-ins in the judge's process for objects in the box: when called, they ask the box for a program or a value.

A function of arrays is traced in the box, and the judges call the program that comes out: the box sees neither the
arrays nor which judge asks.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable

import jax
import numpy as np
from jax.experimental import pallas as pl

from course_lib.errors.table import CARRIED
from course_lib.grading.box import calls, reading, values
from course_lib.grading.box.values import Damaged, items


class Answers:
    """A judge's queries to the box. ``ask`` takes a request and returns the answer, both nodes."""

    def __init__(self, ask: Callable[[list], object], chip: str = "v5e", axes: dict[str, int] | None = None):
        self.ask, self.chip, self.axes = ask, chip, [list(pair) for pair in (axes or {}).items()]
        self.programs: dict[str, tuple] = {}  # by request, because JAX asks for the same trace repeatedly
        self.lent: list = []  # objects that stay here, and are called from the box

    def defined(self, name: str, defines: str) -> tuple[object, dict[str, str]]:
        """Return what the cells call ``name``, with stand-ins where needed, and how explanations were assessed."""
        node, assessed = self._asked_for("what", name, defines)
        said = [items(pair, 2) for pair in items(assessed)]
        return self.value(node), {str(id): str(word) for id, word in said}

    def beside(self, name: str) -> object:
        """Return what else the answer calls ``name``; None if it does not."""
        try:
            return self.value(self._asked_for("also", name, name)[0])
        except NameError:
            return None

    def _asked_for(self, how: str, name: str, defines: str) -> list:
        tag, *parts = items(self.ask([how, name, defines]))
        if tag == "missing":
            raise NameError(f"The name {name} is not defined.")
        return items(self._or_raised([tag, *parts], "value"), 2)

    def value(self, node: object) -> object:
        return values.read(node, self._other)

    def _other(self, tag: str, parts: list, depth: int) -> object:
        if tag == "function":
            return self._function(*items(parts, 5))
        if tag == "class":
            return self._class(*items(parts, 4))
        if tag == "spec":
            return self._spec(*items(parts, 4))
        if tag == "thing":
            return Thing(_text(items(parts, 2)[1]))
        raise Damaged(f"it has a node {tag[:40]!r}.")

    def _function(self, ref: object, name: object, parameters: object, nothing: object, empty: object) -> object:
        """Return a function that asks the box, or an empty one if the box's function does nothing."""
        if nothing is True:
            return _does_nothing

        def standin(*args, **kwargs):
            return self.called(["call", ref], args, kwargs)

        name = _text(name)
        standin.__name__ = standin.__qualname__ = name if name.isidentifier() else "function"
        standin.uses = {_text(each): _does_nothing for each in items(empty)}
        if parameters is not None:
            standin.__signature__ = _signature(items(parameters))
        return standin

    def _spec(self, sizes: object, index_map: object, space: object, mode: object) -> pl.BlockSpec:
        sizes, index_map, mode = reading.value(sizes), self.value(index_map), reading.value(mode)
        known = space is None or (isinstance(space, str) and space in calls.MEMORY)
        good = sizes is None or (isinstance(sizes, tuple) and all(isinstance(n, _SIZES) for n in sizes))
        if not good or not known or not (index_map is None or callable(index_map)):
            raise Damaged("it has a block spec that is none.")
        return pl.BlockSpec(sizes, index_map, memory_space=space and calls.MEMORY[space], pipeline_mode=mode)

    def _class(self, ref: object, name: object, layer: object, nothing: object) -> object:
        from course_lib.grading.box import layers

        if nothing is True:
            return _does_nothing
        return layers.standin(self, ref, _text(name)) if layer is True else type(_identifier(name), (), {"_ref": ref})

    def called(self, request: list, args: tuple, kwargs: dict) -> object:
        """Return what the box's function returns for plain values, or what its program returns for arrays."""
        node, arrays = calls.arguments(args, self._lent)
        named, more = calls.arguments(kwargs, self._lent)
        request = [*request, node, named, calls.traced_for(self.chip), self.axes]
        if not arrays + more:
            return self.value(items(self._or_raised(self.asked(request), "value"), 1)[0])
        key = repr(request)
        if key not in self.programs:
            program, structure = items(self._or_raised(self.asked(request), "program"), 2)
            self.programs[key] = reading.program(program), reading.structure(structure)
        program, structure = self.programs[key]
        results = program(*arrays, *more)
        return jax.tree.unflatten(structure, results)

    def asked(self, request: list) -> object:
        """Return the box's answer, after serving its calls to objects that were lent to it."""
        node = self.ask(request)
        while (reply := self.answered(node)) is not None:
            node = self.ask(reply)
        return node

    def answered(self, node: object) -> list | None:
        """Return the answer to a call from the box to a lent object's method; None if the node is no such call."""
        if not isinstance(node, list) or len(node) != 4 or node[0] != "back":
            return None
        _, ref, name, args = node
        lent = self.lent[ref] if type(ref) is int and 0 <= ref < len(self.lent) else None
        if not isinstance(name, str) or name not in _methods(lent):
            raise Damaged("it calls what was not lent.")
        given = values.read(args, self._handed_back)
        method = lent if name == "__call__" else getattr(lent, name)
        written = functools.partial(values.written, other=self._lent)
        return ["result", calls.answered(method, given, {}, self.chip, written)]

    def _handed_back(self, tag: str, parts: list, depth: int) -> object:
        return calls.type_of(tag, parts) if tag in ("type", "ref") else self._other(tag, parts, depth)

    def _lent(self, value: object, depth: int) -> object:
        """Return a node for an object that is not a value: it stays here, and calls there are executed here."""
        if type(getattr(value, "_ref", None)) is int:
            return ["held", value._ref]
        self.lent.append(value)
        return ["lent", len(self.lent) - 1, _methods(value)]

    def _or_raised(self, node: object, wanted: str) -> list:
        """Return the parts of an answer. Raise what was raised in the box, and Damaged for an invalid answer."""
        tag, *parts = items(node)
        if tag == wanted:
            return parts
        if tag == "raised":
            chain, line = items(parts, 2)
            raise raised(chain, _text(line))
        if tag == "unportable":
            raise ValueError(f"It cannot be carried out of the box: {_text(items(parts, 1)[0])}")
        raise Damaged("the box gave another answer than was asked for.")


_SIZES = (type(None), int, np.integer, pl.Blocked, pl.BoundedSlice, pl.Element, pl.Squeezed)  # of a block


class Thing:
    """A value that is neither a number nor text, nor callable."""

    def __init__(self, description: str):
        self.description = description

    def __repr__(self) -> str:
        return self.description


def raised(chain: object, line: str) -> BaseException:
    """Return the exception that a box described, with its causes and the line to look at."""
    error = None
    for each in items(chain):
        name, text = map(_text, items(each, 2))
        kind = getattr(builtins, name, None) or getattr(jax.errors, name, None)
        good = isinstance(kind, type) and issubclass(kind, Exception) and kind.__init__ in _PLAIN
        kind = kind if good else type(_identifier(name), (Exception,), {})
        made = kind(text)
        made.__cause__, error = error, made
    error = error or Exception("")
    vars(error)[CARRIED] = line
    return error


# Exceptions whose only argument is a text.
_PLAIN = {kind.__init__ for kind in (Exception, ValueError, TypeError, RuntimeError, ArithmeticError, LookupError)} | {
    kind.__init__ for kind in (NotImplementedError, NameError, AttributeError, KeyError, AssertionError, SyntaxError)
}


def _does_nothing():
    pass


def _methods(value: object) -> list[str]:
    """Return what may be called on a lent object: the object itself, or its public methods."""
    if callable(value):
        return ["__call__"]
    return [name for name in dir(value) if not name.startswith("_") and callable(getattr(value, name))]


def _signature(parameters: list) -> inspect.Signature:
    found = []
    for each in parameters:
        name, kind, has_default = items(each, 3)
        default = None if has_default is True else inspect.Parameter.empty
        found.append(inspect.Parameter(_identifier(name), list(inspect._ParameterKind)[kind], default=default))
    return inspect.Signature(found)


def _identifier(name: object) -> str:
    return name if isinstance(name, str) and name.isidentifier() and len(name) < 100 else "unnamed"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Damaged("a text is wanted.")
    return value[: values.MAX_TEXT]
