"""The process in the box: it runs the cells, traces and calls what they define, and reports the results as data.

Everything a student wrote runs in this process and may change it at will. So nothing it says is trusted: it sends
programs and values, and others judge them.

Each request is a list, and so is each answer:

    ["run", source]             ["ok"] or ["raised", [[class, text], ...], line]: root cause first, then the line
    ["what", name, defines]     what the cells have defined by that name
    ["also", name, defines]     the same, of another name that belongs to the same answer
    ["call", ref, args, kwargs, chip, axes]    axes: [[name, size], ...] of the mesh; [] on one chip
                                ["value", ...], ["program", jaxpr, structure], ["raised", ...] or ["unportable", text]
    ["method", ref, name, args, kwargs, chip, axes]
    and those of ``layers_inside``

While a function is called, ["back", ref, method, args] asks for a method of an object that was lent to it, and the
answer is ["result", value].
"""

import contextlib
import functools
import inspect
import linecache
import os
import sys
import types

import jax
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compat
from course_lib.checks.kinds.kernel import named, way_back_of
from course_lib.checks.result import does_nothing
from course_lib.errors import raw, table
from course_lib.grading.box import calls, layers_inside, magics, pipes, reading, values, writing

_LONGEST = 4000  # characters of an exception's text


class Box:
    """The cells' names, and the objects that have been handed out, by number."""

    def __init__(self, fd_in: int, fd_out: int):
        self.fd_in, self.fd_out = fd_in, fd_out
        self.names = {"__name__": "__main__", "__builtins__": __builtins__}
        self.held: list = []
        self.assessed: dict[str, str] = {}
        self.kinds = {"run": self.run, "what": self.what, "also": self.also, "call": self.call, "method": self.method}
        self.kinds |= {kind: functools.partial(answer, self) for kind, answer in layers_inside.KINDS.items()}

    def serve(self, until: str = "") -> object:
        """Answer requests; return the payload of ``until`` when it arrives, and None at the end of input."""
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
            return self.kinds[kind](*parts)
        except values.Unportable as error:
            return ["unportable", str(error)]
        except BaseException as error:  # SystemExit too: a student's code may raise anything
            return ["raised", _chain(error), _line(error)]

    def run(self, source: str) -> list:
        """Run a cell."""
        self.names["get_ipython"] = magics.Magics(self._run)
        self._run(source)
        return ["ok"]

    def _run(self, source: str) -> None:
        from IPython.core.inputtransformer2 import TransformerManager

        name, code = f"<cell {len(linecache.cache)}>", TransformerManager().transform_cell(source)
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)  # lets errors quote the line
        exec(compile(code, name, "exec"), self.names)

    def what(self, name: str, defines: str) -> list:
        """Return what the cells call ``name``, and how explanations were assessed."""
        self.held.clear()  # numbers start over for each exercise
        return self.also(name, defines)

    def also(self, name: str, defines: str) -> list:
        """Return the same, and keep what has been handed out before."""
        if name not in self.names:
            return ["missing"]
        return ["value", self.written(self.names[name], defines), [list(pair) for pair in self.assessed.items()]]

    def call(self, ref: int, args: object, kwargs: object, chip: str, axes: list) -> list:
        return self.called(self.held[ref], args, kwargs, chip, axes)

    def method(self, ref: int, name: str, args: object, kwargs: object, chip: str, axes: list) -> list:
        return self.called(getattr(self.held[ref], name), args, kwargs, chip, axes)

    def called(self, fn, args: object, kwargs: object, chip: str, axes: list) -> list:
        """Call ``fn`` with plain values, or trace it if some arguments are types of arrays."""
        fn = getattr(fn, "function", fn)  # of an operator of PyTorch, which takes no JAX arrays, the function it runs
        return calls.answered(fn, self.read(args), self.read(kwargs), chip, self.written, dict(map(tuple, axes)))

    def read(self, node: object) -> object:
        return values.read(node, self._given)

    def _given(self, tag: str, parts: list, depth: int) -> object:
        """Read what a judge passes: an array's type, an object of ours, or a reference to one that stays with it."""
        if tag == "held":
            return self.held[parts[0]]
        return self._lent(*parts) if tag == "lent" else calls.type_of(tag, parts)

    def _lent(self, ref: int, methods: list[str]) -> object:
        """Return a proxy for an object or a function that stays with the judge: calls here are executed there."""

        def method(name: str):
            def call(*args):
                node, arrays = calls.arguments(args, lambda value, depth: self.written(value))
                self.say(["back", ref, name, node])
                kind, *parts = self.serve(until="result")
                if kind == "value":
                    return self.read(parts[0])
                program, structure = reading.program(parts[0]), reading.structure(parts[1])
                return jax.tree.unflatten(structure, program(*arrays))

            return call

        if methods == ["__call__"]:
            return method("__call__")
        return types.SimpleNamespace(**{name: method(name) for name in methods})

    def written(self, value: object, defines: str = "") -> object:
        """Return a value as a node; functions and classes stay here and are sent by number."""

        def other(value: object, depth: int) -> object:
            if isinstance(value, jax.Array):
                return values.array(np.asarray(value))
            if (plain := _plain(value)) is not value:
                return values.written(plain, other, depth + 1)
            if type(value) is pl.BlockSpec:
                return spec(value, depth)
            self.held.append(value)
            ref, name = len(self.held) - 1, str(getattr(value, "__name__", type(value).__name__))[:100]
            if isinstance(value, type):
                return ["class", ref, name, _layer(value), does_nothing(value)]
            if callable(value):
                return ["function", ref, name, _parameters(value), _nothing(value, defines), _empty(value)]
            return ["thing", ref, _description(value)]

        def spec(value: pl.BlockSpec, depth: int) -> object:
            """Return sizes, index map, memory and pipeline mode of a block: a judge builds the same spec from them."""
            space = value.memory_space
            if not (space is None or space in calls.MEMORY.values()):
                raise values.Unportable("it has a BlockSpec in a memory that is none of ANY, VMEM, SMEM and HBM.")
            sizes, mode = (
                writing.value(value.block_shape and tuple(value.block_shape)),
                writing.value(value.pipeline_mode),
            )
            name = space and next(n for n, s in calls.MEMORY.items() if s is space)
            return ["spec", sizes, values.written(value.index_map, other, depth + 1), name, mode]

        return values.written(value, other)


def _plain(value: object) -> object:
    """Return what a subclass of a plain type holds: a member of an IntEnum, a named tuple; anything else as it is."""
    for kind, held in ((int, int.__int__), (float, float.__float__), (str, str.__str__)):
        if isinstance(value, kind):
            return held(value)
    kind = next((kind for kind in (tuple, list, dict) if isinstance(value, kind)), None)
    return value if kind is None else kind(value)


def _parameters(fn) -> list | None:
    """Return [name, kind, whether it has a default] for each parameter; None if it is not a Python function."""
    if not inspect.isfunction(fn):
        return None
    return [[p.name, int(p.kind), p.default is not p.empty] for p in inspect.signature(fn).parameters.values()]


def _nothing(fn, defines: str) -> bool:
    """Whether the function is still empty."""
    return does_nothing(fn) or does_nothing(named(defines, way_back_of(fn)))


def _empty(fn) -> list[str]:
    """Return the names of the functions it uses that are still empty."""
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
    """Return [class, text] for an exception and for those it was raised from, innermost first."""
    found = []
    while error is not None and len(found) < 6:
        text = ""
        with contextlib.suppress(Exception):
            text = raw.words(error)[:_LONGEST]
        found.insert(0, [type(error).__name__[:100], text])
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def _line(error: BaseException) -> str:
    with contextlib.suppress(Exception):
        return table.line_of(error)[:_LONGEST]
    return ""


_SILENT = (
    "check", "course_map", "doctor", "golf", "hint", "listing", "planted", "predict", "progress", "report", "solution",
    "start", "tuned",
)  # fmt: skip


def _quiet_checks(box: Box) -> None:
    """Replace the checks that an answer cell may call by silent ones: no judge runs here."""
    from course_lib import checks

    for name in _SILENT:
        setattr(checks, name, lambda *args, **kwargs: None)
    checks.assess = lambda id, answer: box.assessed.update({str(id)[:10]: str(answer)[:20]})
    box.names["checks"] = checks


def main(modules: list[str]) -> None:
    """Serve on the original stdin and stdout, after importing ``modules``."""
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
