"""A writer, inside the box, for traced functions as nodes. Calls are inlined, so that only operations remain."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core, frozen_dict, literals
from jax._src.state import types as state

from course_lib.checks import borrowed
from course_lib.grading.box import classes, keys, unportable, values
from course_lib.grading.box.values import Unportable
from course_lib.grid.jaxprs import scan_parts

_DERIVED = ("custom_jvp_call", "custom_vjp_call")  # functions with a custom derivative


def program(jaxpr: core.Jaxpr) -> object:
    """Return the node of a traced function, including its custom derivatives. Raise Unportable."""
    return _Writer(keeps_derivatives=True).jaxpr(jaxpr)


@dataclasses.dataclass
class _Writer:
    """A writer for one jaxpr. Writers for the jaxprs in its parameters drop the derivatives, which nobody asks for."""

    keeps_derivatives: bool
    atoms: dict = dataclasses.field(default_factory=dict)  # variable -> its number, or its literal
    count: int = 0  # variables are numbered in the order in which they are bound

    def jaxpr(self, jaxpr: core.Jaxpr) -> list:
        """Return ["jaxpr", input types, constants, equations, outputs, effects, names]."""
        inputs = [self._new(v) for v in jaxpr.all_invars]
        equations = [e for eqn in jaxpr.eqns for e in self._equations(eqn)]
        consts = [None if isinstance(c, core.Tracer) else value(c) for c in jaxpr.consts]
        outputs = [self._atom(v) for v in jaxpr.outvars]
        return ["jaxpr", inputs, consts, equations, outputs, self._effects(jaxpr.effects), _names(jaxpr)]

    def _new(self, variable: core.Var) -> list:
        self.atoms[variable] = self.count
        self.count += 1
        return aval(variable.aval)

    def _atom(self, atom) -> object:
        if isinstance(atom, core.Literal):
            return ["literal", value(atom.val), aval(atom.aval)]
        return self.atoms[atom]

    def _equations(self, eqn) -> Iterator[list]:
        name = eqn.primitive.name
        if name in classes.SHOWS or (name == "check" and eqn.params.get("debug")):
            return  # like JAX, which ignores pl.debug_check unless it is told to heed it
        if name in classes.KEEPS:
            self.atoms.update(zip(eqn.outvars, map(self._atom, eqn.invars), strict=True))
        elif name in classes.CALLS:
            inner = eqn.params[classes.CALLS[name]]
            yield from self._entered(eqn, inner, inner.consts)
        elif name == "call_hi_primitive":
            inner = _expanded(eqn)
            yield from self._entered(eqn, inner, inner.consts)
        elif name in _DERIVED and (parts := _derived(eqn) if self.keeps_derivatives else None) is None:
            yield from self._entered(eqn, eqn.params["call_jaxpr"], eqn.params["call_jaxpr"].consts)
        elif name in _DERIVED:
            yield [name, [self._atom(v) for v in eqn.invars], [self._new(v) for v in eqn.outvars], [], parts]
        else:
            known = classes.operation_name(eqn.primitive)
            if known is None:
                raise Unportable(unportable.operation(name))
            atoms = [self._atom(v) for v in eqn.invars]
            effects = self._effects(eqn.effects)
            node = [[k, None if k == "metadata" else value(v)] for k, v in eqn.params.items() if k not in _LEFT_OUT]
            if "ft_in" in eqn.params:
                node.append(["ft", _scan_counts(eqn)])
            yield [known, atoms, [self._new(v) for v in eqn.outvars], effects, node]

    def _entered(self, eqn, inner: core.Jaxpr, consts) -> Iterator[list]:
        """Inline the equations of a call, in terms of this jaxpr's own variables."""
        given = [["literal", value(c), aval(v.aval)] for c, v in zip(consts, inner.constvars, strict=True)]
        given += [self._atom(v) for v in eqn.invars]
        self.atoms.update(zip(inner.all_invars, given, strict=True))
        for each in inner.eqns:
            yield from self._equations(each)
        self.atoms.update(zip(eqn.outvars, [self._atom(v) for v in inner.outvars], strict=True))

    def _effects(self, effects) -> list:
        found = []
        for effect in effects:
            name, kind = type(effect).__name__, classes.name_of(type(effect))
            plain = f"{type(effect).__module__}.{name}"
            if plain in classes.effects():
                found.append([plain, None])
            elif isinstance(effect, core.NamedAxisEffect):
                found.append(["axis", effect.name])
            elif kind is not None:
                found.append([kind, self._atom(effect.input)])
            elif name not in classes.SHOWN:
                raise Unportable(unportable.effect(name))
        return sorted(found, key=str)


def value(v: object) -> object:
    """Return a value in an equation as a node. Raise Unportable."""
    return values.written(v, _other)


def aval(a) -> object:
    """Return the type of a variable as a node."""
    if type(a) is classes.accumulator_type():
        return [classes.ACCUMULATOR, aval(a.inner_aval), value(a.memory_space)]
    if type(a) is state.AbstractRef:
        return ["ref", aval(a.inner_aval), value(a.memory_space), value(a.kind)]
    if isinstance(a, core.ShapedArray):
        return ["type", [int(n) for n in a.shape], value(a.dtype), bool(a.weak_type)]
    raise Unportable(f"it has a value of the type {type(a).__name__:.60}; write it with arrays.")


def tree(t) -> object:
    """Return a structure of lists, tuples and indexers: ["tree", class or "leaf", its own data, its children]."""
    data = t.node_data()
    if data is None:
        return ["tree", "leaf", None, []] if t.num_leaves else ["tree", "none", None, []]
    kind, own = data
    children = [tree(c) for c in t.children()]
    if kind not in classes.classes().values():  # the judges take a named tuple for a tuple, and any dict for a dict
        if issubclass(kind, tuple):
            return ["tree", "tuple", None, children]
        if issubclass(kind, dict):
            names = own[1] if issubclass(kind, collections.defaultdict) else own
            return ["tree", "dict", value(list(names)), children]
    name = kind.__name__ if kind in (tuple, list) else "none" if kind is type(None) else classes.name_of(kind)
    if name is None:
        raise Unportable(f"it has a structure of the class {kind.__name__:.60}; return arrays, or a tuple of arrays.")
    return ["tree", name, value(own), children]


def _other(v: object, depth: int) -> object:
    if isinstance(v, core.Jaxpr):
        return _Writer(keeps_derivatives=False).jaxpr(v)
    if isinstance(v, core.AbstractValue):
        return aval(v)
    if isinstance(v, jax.tree_util.PyTreeDef):
        return tree(v)
    if isinstance(v, literals.TypedInt | literals.TypedFloat | literals.TypedComplex):
        plain = next(kind for kind in (int, float, complex) if isinstance(v, kind))(v)
        return ["number", value(plain), value(np.dtype(v.dtype))]
    if (node := keys.written(v)) is not None:
        return node
    if isinstance(v, frozen_dict.FrozenDict):
        return ["frozen", value(dict(v))]
    if isinstance(v, str):  # one of JAX's own subclasses of str
        return values.written(str(v))
    if isinstance(v, type) and (issubclass(v, np.generic) or isinstance(getattr(v, "dtype", None), np.dtype)):
        return value(np.dtype(getattr(v, "dtype", v) if not issubclass(v, np.generic) else v))
    if hasattr(v, "dtype") and hasattr(v, "shape") and not isinstance(v, core.Tracer):
        return values.array(np.asarray(v))
    name = classes.name_of(type(v))
    if name is None:
        raise Unportable(unportable.holds(v))
    if isinstance(v, enum.Enum):
        return ["member", name, v.name]
    if dataclasses.is_dataclass(v):
        fields = {f.name: getattr(v, f.name) for f in dataclasses.fields(v)}
    elif isinstance(v, tuple):
        fields = v._asdict()
    else:
        fields = {}
    return ["object", name, [[k, values.written(x, _other, depth + 1)] for k, x in fields.items()]]


# Parameters that are counted instead, or built again from another one.
_LEFT_OUT = ("ft_in", "ft_out", "computation")


def _expanded(eqn) -> core.Jaxpr:
    """Return what one of JAX's own functions of functions, such as lax.custom_root, does."""
    prim = eqn.params["_prim"]
    structure = jax.tree.structure(prim.in_avals)

    def plain(*given):
        return jax.tree.leaves(prim.expand(*jax.tree.unflatten(structure, given)))

    return jax.make_jaxpr(plain)(*[jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars])


def _scan_counts(eqn) -> list[int]:
    """Return the number of constants, carried values and slices that enter a scan, and of slices that leave it."""
    consts, carry, xs = scan_parts(eqn, eqn.invars)
    return [len(consts), len(carry), len(xs), len(eqn.outvars) - len(carry)]


def _derived(eqn) -> list | None:
    """Return ``_rules``; None for a rule that cannot take integers, which have no derivative that anybody asks for.

    Nor can the derivative of an integer be written, a float0, which a rule has that came out of a box.
    """
    try:
        return _rules(eqn)
    except Exception:
        if all(jnp.issubdtype(v.aval.dtype, jnp.inexact) for v in eqn.invars):
            raise
        return None


def _rules(eqn) -> list:
    """Return the number of constants among a function's arguments, the function, and its derivative, as programs.

    Second derivatives are dropped: nobody asks for them, and the derivative of relu, for example, uses relu itself.
    """
    call, params = eqn.params["call_jaxpr"], eqn.params
    count = params["num_consts"]
    if eqn.primitive.name == "custom_jvp_call":
        jaxpr, consts, zeros = params["jvp_jaxpr_fun"].call_wrapped(*[False] * (len(eqn.invars) - count))
        return [count, _once(call), _once(_closed(jaxpr, consts)), [bool(z) for z in zeros]]
    jaxpr, consts = params["fwd_jaxpr_thunk"].call_wrapped(*[True] * (len(eqn.invars) - count))
    return [count, _once(call), *_way_back(eqn, _closed(jaxpr, consts), params["out_trees"]()[2])]


def _way_back(eqn, forwards: core.Jaxpr, forwarded: list) -> list:
    """Return the forward rule; which residuals are arguments, by number; and the backward rule, for floats only."""
    outputs, primals = [v.aval for v in eqn.outvars], [v.aval for v in eqn.invars]
    made = iter(forwards.out_avals)
    residuals = [next(made) if f is None else primals[f] for f in forwarded]
    wanted = primals[eqn.params["num_consts"] :]

    def backwards(*given):
        found = eqn.params["bwd"].call_wrapped(*given)
        found = found[0] if isinstance(found, tuple) and isinstance(found[0], list) else found  # newer JAX adds a log
        none = ("Zero", "SymbolicZero")  # JAX's names for a gradient of 0 that was never computed
        return [
            jnp.zeros(p.shape, p.dtype) if type(c).__name__ in none else c
            for c, p in zip(found, wanted, strict=True)
            if jnp.issubdtype(p.dtype, jnp.floating)
        ]

    given = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (*residuals, *outputs)]
    return [_once(forwards), list(forwarded), _once(jax.make_jaxpr(backwards)(*given))]


def _once(jaxpr: core.Jaxpr) -> list:
    return _Writer(keeps_derivatives=False).jaxpr(jaxpr)


def _closed(jaxpr: core.Jaxpr, consts) -> core.Jaxpr:
    return jax.extend.core.ClosedJaxpr(jaxpr, consts)


def _names(jaxpr: core.Jaxpr) -> list:
    """Return what it was traced for, the function's name, and the names of its arguments."""
    info = jaxpr.debug_info
    names = info.arg_names
    where = info.func_src_info.partition(" at ")[0]
    if borrowed.is_ours(jaxpr):  # which some exercises refuse
        where += f" at {borrowed.FOLDER}"
    return [info.traced_for[:60], where[:120], None if names is None else [str(n)[:120] for n in names]]
