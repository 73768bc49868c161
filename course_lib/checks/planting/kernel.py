"""A kernel's body as the families of mistakes read it: what makes a value, which refs it comes from, under what."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from course_lib.grid.jaxprs import called, inside, is_variable, while_parts

MOST_ALIKE = 32
_SAME = ("broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "expand_dims", "copy", "reduce_precision")
_SCOPED = "run_scoped"
_LOOPS = ("scan", _SCOPED)  # whose parameter is called like that of a call


class Site(NamedTuple):
    """An equation of a kernel's body, and the conditions that it is under, the outermost first."""

    eqn: object
    conditions: tuple


class Sources(NamedTuple):
    """What a value is computed from: the operations on the way, the refs that are read, and the axes of the grid."""

    operations: frozenset[str]
    refs: frozenset[str]
    axes: frozenset[int]  # that ``program_id`` asks for


class Kernel:
    """One kernel call of a traced function. ``params`` are those of its equation."""

    def __init__(self, eqn):
        self.params, self.body = eqn.params, eqn.params["jaxpr"]
        self._made: dict = {}  # variable -> the equation that binds it
        self._outside: dict = {}  # variable of a jaxpr inside the body -> the atoms outside that it stands for
        self._names: dict = {}  # variable of a ref -> its name
        self._taken: set = set()  # the variables that an equation, or the result of a jaxpr, takes
        self.sites: list[Site] = []
        names = self.body.debug_info.arg_names or ()
        self._name(self.body.invars, names)
        self._enter(self.body, ())

    @functools.cached_property
    def grid(self) -> tuple:
        """The sizes of the grid; those that are known only at run time are no integers."""
        return tuple(self.params["grid_mapping"].grid)

    @functools.cached_property
    def scratch(self) -> frozenset[str]:
        """The names of the refs that are neither inputs nor outputs."""
        mapping = self.params["grid_mapping"]
        first = mapping.num_index_operands + mapping.num_inputs + mapping.num_outputs
        operands = {self._names[v] for v in self.body.invars[:first]}
        return frozenset(self._names.values()) - operands

    @functools.cached_property
    def inputs(self) -> frozenset[str]:
        """The names of the refs of the inputs."""
        mapping = self.params["grid_mapping"]
        first = mapping.num_index_operands
        return frozenset(self._names[v] for v in self.body.invars[first : first + mapping.num_inputs])

    @functools.cached_property
    def read(self) -> dict[str, int]:
        """How many equations read each ref."""
        found: dict[str, int] = {}
        for eqn, _ in self.sites:
            if eqn.primitive.name == "get" or (eqn.primitive.name == "swap" and self.is_used(eqn.outvars[0])):
                name = self.ref(eqn.invars[0])
                found[name] = found.get(name, 0) + 1
        return found

    def is_used(self, variable) -> bool:
        """Whether anything takes the value of a variable."""
        return variable in self._taken

    def named(self, *operations: str) -> Iterator[Site]:
        """Yield equations of the body that are one of ``operations``, in program order.

        Of a body that is unrolled into very many, some stand for all: they are alike, and each costs a look at what it
        is computed from.
        """
        found = [site for site in self.sites if site.eqn.primitive.name in operations]
        return iter(found if len(found) <= MOST_ALIKE else spread(found, MOST_ALIKE))

    def ref(self, atom) -> str:
        """Return the name of the ref that an atom stands for; "" for one that is no ref of this kernel."""
        seen = set()
        while atom not in self._names and atom in self._outside and atom not in seen:
            seen.add(atom)
            atom = self._outside[atom][0]
        return self._names.get(atom, "")

    def origin(self, atom):
        """Return the equation that computes a value, through casts, reshapes and calls; None for a constant or a ref.

        A value that differs from branch to branch, or from one iteration to the next, comes from the condition or the
        loop itself.
        """
        while is_variable(atom):
            eqn = self._made.get(atom)
            if eqn is None:
                outside = self._outside.get(atom, ())
                if len(outside) != 1:
                    return None
                (atom,) = outside
            elif eqn.primitive.name in _SAME:
                atom = eqn.invars[0]
            elif eqn.primitive.name not in _LOOPS and (inner := called(eqn)) is not None:
                atom = inner.outvars[_number(atom, eqn.outvars)]
            else:
                return eqn
        return None

    def sources(self, *atoms) -> Sources:
        """Return what values are computed from, over all branches and iterations."""
        operations, refs, axes, seen, left = set(), set(), set(), set(), list(atoms)
        while left:
            atom = left.pop()
            if not is_variable(atom) or atom in seen:
                continue
            seen.add(atom)
            eqn = self._made.get(atom)
            if eqn is None:
                left += self._outside.get(atom, ())
                continue
            name = eqn.primitive.name
            operations.add(name)
            if name in ("get", "swap"):
                refs.add(self.ref(eqn.invars[0]))
                left += eqn.invars[1:]
            elif name == "program_id":
                axes.add(eqn.params["axis"])
            elif inner := inside(eqn):
                left += eqn.invars
                left += [out for one in inner for out in one.outvars]
            else:
                left += eqn.invars
        return Sources(frozenset(operations), frozenset(refs), frozenset(axes))

    def is_constant(self, atom) -> bool:
        """Whether a value has the same elements everywhere, in every step."""
        found = self.sources(atom)
        return not found.refs and not found.axes and "iota" not in found.operations

    def with_body(self, body) -> dict:
        """Return the parameters of the call with another body."""
        return self.params | {"jaxpr": body}

    def _name(self, variables, names) -> None:
        for number, variable in enumerate(variables):
            self._names[variable] = str(names[number]) if number < len(names) else f"ref {number}"

    def _enter(self, jaxpr, conditions: tuple) -> None:
        self._taken.update(filter(is_variable, jaxpr.outvars))
        for eqn in jaxpr.eqns:
            self._taken.update(filter(is_variable, eqn.invars))
            self._made.update(dict.fromkeys(eqn.outvars, eqn))
            self.sites.append(Site(eqn, conditions))
            under = (*conditions, eqn) if eqn.primitive.name == "cond" else conditions
            for inner in inside(eqn):
                self._stand_for(eqn, inner)
                self._enter(inner, under)

    def _stand_for(self, eqn, inner) -> None:
        """Note which values outside the inputs of an inner jaxpr stand for."""
        name = eqn.primitive.name
        if name == _SCOPED:
            self._pair(inner.constvars, eqn.invars)
            self._name(inner.invars, inner.debug_info.arg_names or ())
            return
        given = eqn.invars
        if name == "cond":
            given = given[1:]
        elif name == "while":
            of_cond, of_body, carry = while_parts(eqn, list(given))
            given = [*(of_cond if inner is eqn.params["cond_jaxpr"] else of_body), *carry]
        self._pair(inner.invars, given)
        if name in ("scan", "while") and inner is not eqn.params.get("cond_jaxpr"):
            self._come_back(eqn, inner)

    def _pair(self, variables, atoms) -> None:
        for variable, atom in zip(variables, atoms, strict=False):
            self._outside[variable] = (atom,)

    def _come_back(self, eqn, body) -> None:
        """Note that what a loop carries comes from the iteration before, too."""
        carried = min(len(eqn.outvars), len(body.outvars))
        if eqn.primitive.name == "scan":
            consts, carry, _ = (len(list(part.vals)) for part in eqn.params["ft_in"].unpack())
        else:
            consts, carry = eqn.params["body_nconsts"], carried
        for variable, again in zip(body.invars[consts : consts + carry], body.outvars[:carry], strict=False):
            if again is not variable:
                self._outside[variable] = (*self._outside.get(variable, ()), again)


def spread(items: list, count: int) -> list:
    """Return ``count`` of the items, evenly spread, the first and the last among them."""
    return [items[round(n * (len(items) - 1) / (count - 1))] for n in range(count)]


def _number(variable, variables) -> int:
    return next(n for n, each in enumerate(variables) if each is variable)
