"""A reader for programs that came out of a box as data: it makes functions that contain no Python of the box's.

Every operation, class and type comes from a closed list, and JAX type-checks every operation again when it runs.
Everything else raises Damaged.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable

import jax
import numpy as np
from jax._src import config, core, flattree, frozen_dict, linear_util, literals, tree_util
from jax._src.state import types as state

from course_lib.grading.box import classes, keys, rules, values
from course_lib.grading.box.values import Damaged, items
from course_lib.grid.jaxprs import KERNELS

_DERIVED = ("custom_jvp_call", "custom_vjp_call")
MAX_EQUATIONS = 50_000


@dataclasses.dataclass(frozen=True)
class Program:
    """A traced function: called with arrays, it returns a list of arrays."""

    inputs: tuple  # their types
    outputs: tuple
    _run: Callable

    def __call__(self, *args) -> list:
        return self._run(*args)


def program(node: object) -> Program:
    """Return the function of a node that ``writing.program`` made, or claims to have made. Raise Damaged."""
    try:
        return _Reader().program(node)
    except Damaged:
        raise
    except Exception as error:  # from JAX's own constructors and type rules
        raise Damaged(f"it is no program. {type(error).__name__}: {str(error)[:200]}") from None


def value(node: object) -> object:
    """Return a parameter of an operation, such as the size of a block, from its node. Raise Damaged."""
    try:
        return _Reader().value(node)
    except Damaged:
        raise
    except Exception as error:
        raise Damaged(f"it is no value. {type(error).__name__}: {str(error)[:200]}") from None


def structure(node: object):
    """Return the tree of lists, tuples and dicts that holds a program's results. Raise Damaged."""
    return _Reader().structure(node, jax.tree_util.default_registry)


class _Reader:
    def __init__(self) -> None:
        self.equations = 0

    def program(self, node: object) -> Program:
        inputs, consts, equations, outputs, effects, names = self._parts(node)
        variables = [core.Var(self.aval(t)) for t in inputs]
        read = [self._equation(e, variables) for e in equations]
        results = [self._atom(a, variables) for a in outputs]
        consts = [self.value(c) for c in consts]
        arguments = variables[len(consts) : len(inputs)]

        def run(*args):
            held = dict(zip(variables, [*consts, *args], strict=False))

            def get(atom):
                return atom.val if isinstance(atom, core.Literal) else held[atom]

            for does, ins, outs in read:
                held.update(zip(outs, does(*map(get, ins)), strict=True))
            return [get(atom) for atom in results]

        return Program(tuple(v.aval for v in arguments), tuple(a.aval for a in results), run)

    def _parts(self, node: object) -> list:
        tag, *parts = items(node)
        if tag != "jaxpr":
            raise Damaged("a program is wanted.")
        parts = items(parts, 6)
        for part in parts[:5]:
            items(part)
        self.equations += len(parts[2])
        if self.equations > MAX_EQUATIONS:
            raise Damaged(f"it has more than {MAX_EQUATIONS:,} operations.")
        return parts

    def _equation(self, node: object, variables: list):
        """Return (what it does with its inputs, its inputs, the variables that it binds)."""
        name, atoms, types, effects, params = items(node, 5)
        ins = [self._atom(a, variables) for a in items(atoms)]
        outs = [core.Var(self.aval(t)) for t in items(types)]
        if name in _DERIVED:
            does = self._derived(name, items(params), ins)
        else:
            does = _bound(*self._given(name, params))
        variables += outs
        return does, ins, outs

    def _given(self, name: object, params: object) -> tuple[core.Primitive, dict]:
        """Return an operation with its parameters."""
        found = classes.operations().get(name) if isinstance(name, str) else None
        if found is None:
            raise Damaged(f"it uses {str(name)[:60]!r}, which no program may.")
        given = self._params(params)
        if name == "reduce":  # JAX wants the function beside the program that it was traced to
            given["computation"] = core.jaxpr_as_fun(given["jaxpr"])
        return found, given

    def _params(self, node: object) -> dict:
        params = {}
        for pair in items(node):
            key, inner = items(pair, 2)
            if not isinstance(key, str):
                raise Damaged("an operation has a parameter without a name.")
            params[key] = inner if key == "ft" else self.value(inner)
        if (counts := params.pop("ft", None)) is not None:
            consts, carry, xs, ys = values.sizes(items(counts, 4))
            params["ft_in"] = flattree.pack(tuple(map(flattree.nones, (consts, carry, xs))))
            params["ft_out"] = flattree.pack(tuple(map(flattree.nones, (carry, ys))))
        return params

    def _derived(self, name: str, parts: list, ins: list) -> Callable:
        """Return the call of a function with a custom derivative, with its rules restored."""
        count, call, *own = parts
        count = values.sizes([count])[0]
        function = self.program(call)
        if name == "custom_jvp_call":
            return rules.with_tangents(function, count, self.program(items(own, 2)[0]), items(own[1]))
        forwards, forwarded, backwards = items(own, 3)
        where = [None if n is None else values.sizes([n])[0] for n in items(forwarded)]
        return rules.with_way_back(function, count, self.program(forwards), where, self.program(backwards))

    def jaxpr(self, node: object) -> core.Jaxpr:
        """Return a jaxpr from the parameter of an operation, type-checked."""
        inputs, consts, equations, outputs, effects, names = self._parts(node)
        variables = [core.Var(self.aval(t)) for t in inputs]
        bound = [self._bare(e, variables) for e in equations]
        results = [self._atom(a, variables) for a in outputs]
        info = _info(names, len(inputs) - len(consts), len(results))
        made = core.Jaxpr(
            variables[: len(consts)], variables[len(consts) : len(inputs)], results, bound,
            self._effects(effects, variables), info, consts=[self.value(c) for c in consts],
        )  # fmt: skip
        return made

    def _bare(self, node: object, variables: list):
        name, atoms, types, effects, params = items(node, 5)
        ins = [self._atom(a, variables) for a in items(atoms)]
        outs = [core.Var(self.aval(t)) for t in items(types)]
        operation, params = self._given(name, params)
        made = core.new_jaxpr_eqn(ins, outs, operation, params, self._effects(effects, variables))
        variables += outs
        return made

    def _atom(self, node: object, variables: list):
        if type(node) is int:
            if not 0 <= node < len(variables):
                raise Damaged("it uses a value before there is one.")
            return variables[node]
        tag, inner, kind = items(node, 3)
        if tag != "literal":
            raise Damaged("an operation takes what is no value.")
        return core.Literal(self.value(inner), self.aval(kind))

    def _effects(self, node: object, variables: list) -> frozenset:
        found = set()
        for each in items(node):
            name, atom = items(each, 2)
            if isinstance(name, str) and name in classes.effects():
                found.add(classes.effects()[name])
                continue
            if name == "axis" and isinstance(atom, str):
                found.add(core.NamedAxisEffect(atom))
                continue
            kind = classes.classes().get(name) if isinstance(name, str) else None
            if kind is None or not issubclass(kind, state.RefEffect):
                raise Damaged(f"it has the effect {str(name)[:60]!r}.")
            found.add(kind(self._atom(atom, variables)))
        return frozenset(found)

    def aval(self, node: object) -> core.AbstractValue:
        tag, *parts = items(node)
        if tag == "ref":
            inner, space, kind = items(parts, 3)
            return state.AbstractRef(self.aval(inner), self.value(space), self.value(kind))
        if tag == classes.ACCUMULATOR:
            inner, space = items(parts, 2)
            return classes.accumulator_type()(self.aval(inner), self.value(space))
        if tag == "type":
            shape, dtype, weak = items(parts, 3)
            dtype = self.value(dtype)
            known = isinstance(dtype, np.dtype) or keys.is_type(dtype) or classes.name_of(type(dtype)) is not None
            if not known or type(weak) is not bool:
                raise Damaged("it has a type of no dtype.")
            return core.ShapedArray(values.sizes(shape), dtype, weak_type=weak)
        raise Damaged("a type is wanted.")

    def value(self, node: object) -> object:
        return values.read(node, self._other)

    def _other(self, tag: str, parts: list, depth: int) -> object:
        if tag == "jaxpr":
            return self.jaxpr([tag, *parts])
        if tag in ("type", "ref", classes.ACCUMULATOR):
            return self.aval([tag, *parts])
        if tag == "tree":
            return self._tree([tag, *parts])
        if tag == "frozen":
            return frozen_dict.FrozenDict(self.value(items(parts, 1)[0]))
        if tag in keys.TAGS:
            return keys.read(tag, parts)
        if tag == "number":
            plain, dtype = (self.value(part) for part in items(parts, 2))
            typed = {int: literals.TypedInt, float: literals.TypedFloat, complex: literals.TypedComplex}
            return typed[type(plain)](plain, dtype)
        name, inner = items(parts, 2)
        kind = classes.classes().get(name) if isinstance(name, str) else None
        if kind is None:
            raise Damaged(f"it holds a {str(name)[:60]!r}.")
        if tag == "member" and issubclass(kind, enum.Enum):
            return kind[inner]
        if tag != "object" or issubclass(kind, enum.Enum):
            raise Damaged(f"it has a node {tag[:40]!r}.")
        fields = {}
        for pair in items(inner):
            key, held = items(pair, 2)
            fields[key] = values.read(held, self._other, depth + 1)
        return _made(kind, fields)

    def _tree(self, node: object):
        """Return a structure; some of JAX's own classes are registered only for tracing."""
        try:
            return self.structure(node, jax.tree_util.default_registry)
        except RuntimeError:
            return self.structure(node, tree_util.tracing_registry)

    def structure(self, node: object, registry):
        tag, name, own, inside = items(node, 4)
        if tag != "tree" or not isinstance(name, str):
            raise Damaged("a structure is wanted.")
        if name in ("leaf", "none"):
            return registry.flatten(0 if name == "leaf" else None)[1]
        kind = {"tuple": tuple, "list": list, "dict": dict}.get(name) or classes.classes().get(name)
        if kind is None:
            raise Damaged(f"it has a structure of {name[:60]!r}.")
        children = [self.structure(c, registry) for c in items(inside)]
        return jax.tree_util.PyTreeDef.from_node_data_and_children(registry, (kind, self.value(own)), children)


def _made(kind: type, fields: dict) -> object:
    """Return an object of one of JAX's classes with these fields."""
    if dataclasses.is_dataclass(kind):
        if set(fields) != {f.name for f in dataclasses.fields(kind)}:
            raise Damaged(f"it holds a {kind.__name__} with other fields.")
        made = object.__new__(kind)
        for name, held in fields.items():
            object.__setattr__(made, name, held)
        return made
    if issubclass(kind, tuple):
        return kind(**fields)
    if fields:
        raise Damaged(f"it holds a {kind.__name__} with fields.")
    return classes.only_one(kind) or kind()


def _bound(operation: core.Primitive, params: dict) -> Callable:
    def does(*args):
        given = params
        if operation.name in KERNELS:  # with the interpret mode of this process
            given = params | {"interpret": config.pallas_tpu_interpret_mode_context_manager.value or False}
        results = operation.bind(*args, **operation.get_bind_params(given))
        return results if operation.multiple_results else [results]

    return does


def _info(names: object, inputs: int, outputs: int):
    """Return what a jaxpr was traced for and what it calls its arguments."""
    what, function, arguments = items(names, 3)
    if not isinstance(what, str) or not isinstance(function, str) or len(function) > 200:
        raise Damaged("a program has no name.")
    if arguments is not None:
        arguments = tuple(str(n)[:200] for n in items(arguments))
    return linear_util.DebugInfo(what, function, arguments, ("",) * outputs)
