"""The process in the box: runs the cells, traces and calls what they define, and says what came of it, as data.

Everything a student wrote runs in this process, and may change it as it likes. So nothing that it says is believed:
what it sends are programs and values, and others judge them.

Each request is a list, and so is each answer:

    ["run", source]             ["ok"] or ["raised", [[class, text], ...]], what caused it first
    ["what", name, defines]     what the cells have defined by that name
    ["call", ref, args, kwargs, chip]
                                ["value", ...], ["program", jaxpr, structure], ["raised", ...] or ["unportable", text]
    ["method", ref, name, args, kwargs]
"""

import contextlib
import inspect
import os
import sys

import jax
import numpy as np
from jax._src import api_util, core, linear_util
from jax._src.state import types as state
from jax.experimental.pallas import tpu as pltpu
from jax.interpreters import partial_eval

from course_lib import chips, compat, grid
from course_lib.checks.kinds.kernel import named, way_back_of
from course_lib.checks.result import does_nothing
from course_lib.grading.box import pipes, values, writing

_LONGEST = 4000  # characters of an exception's text


class Box:
    """The cells' names, and what has been handed out of them, by number."""

    def __init__(self, fd_in: int, fd_out: int):
        self.fd_in, self.fd_out = fd_in, fd_out
        self.names = {"__name__": "__main__", "__builtins__": __builtins__}
        self.held: list = []
        self.assessed: dict[str, str] = {}

    def serve(self, until: str = "") -> object:
        """Answer requests; return what comes with ``until``, and at the end of all, None."""
        while data := pipes.blocking_receive(self.fd_in):
            kind, *parts = values.loads(data)
            if kind == until:
                return parts[0]
            self.say(self.answer(kind, parts))
        return None

    def say(self, node: list) -> None:
        try:
            data = values.dumps(node)
            if len(data) > values.MAX_BYTES:
                raise values.Unportable(f"it is a program of {len(data):,} bytes.")
        except ValueError as error:
            data = values.dumps(["unportable", str(error)[:_LONGEST]])
        pipes.blocking_send(self.fd_out, data)

    def answer(self, kind: str, parts: list) -> list:
        try:
            return {"run": self.run, "what": self.what, "call": self.call, "method": self.method}[kind](*parts)
        except values.Unportable as error:
            return ["unportable", str(error)]
        except BaseException as error:  # SystemExit and all: whatever a student's code may raise
            return ["raised", _chain(error)]

    def run(self, source: str) -> list:
        """Run a cell."""
        from IPython.core.inputtransformer2 import TransformerManager

        exec(compile(TransformerManager().transform_cell(source), "<answer>", "exec"), self.names)
        return ["ok"]

    def what(self, name: str, defines: str) -> list:
        """What the cells call ``name``; for an explanation also how it was assessed."""
        if name not in self.names:
            return ["missing"]
        return ["value", self.written(self.names[name], defines), [list(pair) for pair in self.assessed.items()]]

    def call(self, ref: int, args: object, kwargs: object, chip: str) -> list:
        return self._called(self.held[ref], args, kwargs, chip)

    def method(self, ref: int, name: str, args: object, kwargs: object, chip: str) -> list:
        return self._called(getattr(self.held[ref], name), args, kwargs, chip)

    def _called(self, fn, args: object, kwargs: object, chip: str) -> list:
        """Call with plain values, or trace where some are types of arrays."""
        given = (self.read(args), self.read(kwargs))
        leaves, structure = jax.tree.flatten(given, is_leaf=_is_type)
        places = [n for n, leaf in enumerate(leaves) if _is_type(leaf)]
        if not places:
            return ["value", self.written(fn(*given[0], **given[1]))]

        def traced(*arrays):
            filled = list(leaves)
            for place, array in zip(places, arrays, strict=True):
                filled[place] = array
            args, kwargs = jax.tree.unflatten(structure, filled)
            return fn(*args, **kwargs)

        types = [leaves[n] for n in places]
        with chips.chip(chip).target(), pltpu.force_tpu_interpret_mode(False):
            if any(isinstance(t, state.AbstractRef) for t in types):
                jaxpr, result = _traced_with_refs(traced, types), None
            else:
                jaxpr, result = grid.trace_with_result(traced, *types, chip=chip)
            return ["program", writing.program(jaxpr), writing.tree(jax.tree.structure(result))]

    def read(self, node: object) -> object:
        return values.read(node, self._given)

    def _given(self, tag: str, parts: list, depth: int) -> object:
        """What a judge hands over: the type of an array, or something that stays with the judge."""
        if tag == "type":
            shape, dtype = parts
            return jax.ShapeDtypeStruct(tuple(shape), np.dtype(values.DTYPES[dtype]))
        if tag == "ref":
            shape, dtype = parts
            return state.AbstractRef(core.ShapedArray(tuple(shape), np.dtype(values.DTYPES[dtype])), None)
        if tag == "held":
            return self.held[parts[0]]
        return _Elsewhere(self, parts[0], parts[1])

    def written(self, value: object, defines: str = "") -> object:
        """A value as a node; functions and classes stay here, and go by number."""

        def other(value: object, depth: int) -> object:
            if isinstance(value, jax.Array):
                return values.array(np.asarray(value))
            if isinstance(value, bool | int | float | str):  # a class of the student's own
                return values.written({bool: bool, int: int}.get(type(value), type(value).__mro__[1])(value))
            self.held.append(value)
            ref, name = len(self.held) - 1, str(getattr(value, "__name__", type(value).__name__))[:100]
            if isinstance(value, type):
                return ["class", ref, name, _layer(value), does_nothing(value)]
            if callable(value):
                return ["function", ref, name, _parameters(value), _nothing(value, defines), _empty(value)]
            return ["thing", ref, _description(value)]

        return values.written(value, other)


class _Elsewhere:
    """An object that stays with the judge: what is called here is called there."""

    def __init__(self, box: Box, ref: int, methods: list[str]):
        for name in methods:
            setattr(self, name, self._method(box, ref, name))

    @staticmethod
    def _method(box: Box, ref: int, name: str):
        def call(*args):
            box.say(["back", ref, name, box.written(args)])
            return box.read(box.serve(until="result"))

        call.__name__ = name
        return call


def _is_type(leaf: object) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct | state.AbstractRef)


def _traced_with_refs(fn, types: list):
    """The jaxpr of a kernel: a function of places in memory that returns nothing."""
    info = api_util.debug_info("box", fn, tuple(types), {})

    def flat(*refs):
        fn(*refs)
        return []

    avals = [t if isinstance(t, state.AbstractRef) else core.ShapedArray(t.shape, t.dtype) for t in types]
    jaxpr, _, consts = partial_eval.trace_to_jaxpr_dynamic(linear_util.wrap_init(flat, debug_info=info), avals)
    return core.ClosedJaxpr(jaxpr, consts)


def _parameters(fn) -> list | None:
    """[name, kind, whether it has a default] of each; None for what is no function of Python's."""
    if not inspect.isfunction(fn):
        return None
    return [[p.name, int(p.kind), p.default is not p.empty] for p in inspect.signature(fn).parameters.values()]


def _nothing(fn, defines: str) -> bool:
    """Whether there is nothing in it yet."""
    return does_nothing(fn) or does_nothing(named(defines, way_back_of(fn)))


def _empty(fn) -> list[str]:
    """The names of the functions it uses in which there is nothing yet."""
    seen = inspect.getclosurevars(fn) if inspect.isfunction(fn) else None
    used = (seen.globals | seen.nonlocals).values() if seen else ()
    return sorted({v.__name__ for v in used if inspect.isfunction(v) and does_nothing(v)})


def _layer(kind: type) -> bool:
    keras = sys.modules.get("keras")
    return keras is not None and issubclass(kind, keras.layers.Layer)


def _description(value: object) -> str:
    from course_lib.checks.unfit import described

    return described(value)[:200]


def _chain(error: BaseException | None) -> list:
    """[class, text] of an exception and of those it was raised from, innermost first."""
    found = []
    while error is not None and len(found) < 6:
        text = ""
        with contextlib.suppress(Exception):
            text = str(error)[:_LONGEST]
        found.insert(0, [type(error).__name__[:100], text])
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def _quiet_checks(box: Box) -> None:
    """The checks as an answer cell may call them: here nobody is asked."""
    from course_lib import checks

    for name in ("check", "course_map", "doctor", "hint", "listing", "progress", "report", "solution", "start"):
        setattr(checks, name, lambda *args, **kwargs: None)
    checks.assess = lambda id, answer: box.assessed.update({str(id)[:10]: str(answer)[:20]})
    box.names["checks"] = checks


def main(modules: list[str]) -> None:
    """Serve on stdin and on what was stdout. ``modules`` are imported before the first request."""
    fd_in, fd_out = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    for name in modules:
        __import__(name)
    pltpu.set_tpu_interpret_mode(compat.interpret_params())
    box = Box(fd_in, fd_out)
    _quiet_checks(box)
    from IPython.core import inputtransformer2  # noqa: F401  before the first cell wants it

    box.say(["ready"])
    box.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
