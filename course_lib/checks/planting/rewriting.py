"""Rewriting of a jaxpr: one equation is dropped or replaced, wherever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.extend.core
import jax.numpy as jnp

from course_lib.grid.jaxprs import inside, is_variable, map_inside, with_equations


def replaced(jaxpr, target, by: Sequence = (), instead: dict | None = None):
    """Return ``jaxpr``, and the jaxprs inside it, with the equations ``by`` in the place of ``target``.

    ``instead`` maps results of ``target`` that ``by`` does not compute to the atoms that take their place. A jaxpr
    without ``target`` is returned as it is.
    """
    if not any(eqn is target for eqn in jaxpr.eqns):
        return _replaced_inside(jaxpr, target, by, instead)
    eqns = []
    for eqn in jaxpr.eqns:
        eqns += by if eqn is target else [eqn]
    return substituted(with_equations(jaxpr, eqns), instead) if instead else with_equations(jaxpr, eqns)


def _replaced_inside(jaxpr, target, by: Sequence, instead: dict | None):
    changed = [_with_inside_replaced(eqn, target, by, instead) for eqn in jaxpr.eqns]
    if all(new is old for new, old in zip(changed, jaxpr.eqns, strict=True)):
        return jaxpr
    return with_equations(jaxpr, changed)


def _with_inside_replaced(eqn, target, by: Sequence, instead: dict | None):
    new = {id(inner): replaced(inner, target, by, instead) for inner in inside(eqn)}
    if all(id(inner) == old for old, inner in new.items()):
        return eqn
    return map_inside(eqn, lambda inner: new[id(inner)])


def substituted(jaxpr, instead: dict):
    """Return ``jaxpr`` with variables replaced by other atoms in its equations and its results."""

    def other(atom):
        return instead.get(atom, atom) if is_variable(atom) else atom

    eqns = [eqn.replace(invars=list(map(other, eqn.invars))) for eqn in jaxpr.eqns]
    bare = getattr(jaxpr, "jaxpr", jaxpr)
    made = bare.replace(eqns=eqns, outvars=list(map(other, bare.outvars)))
    return made if bare is jaxpr else jaxpr.replace(jaxpr=made)


def computed(fn: Callable, inputs: Sequence, results: Sequence) -> list:
    """Return equations that compute ``results`` (variables) as ``fn`` of ``inputs`` (atoms)."""
    types = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in inputs]
    traced = jax.make_jaxpr(fn)(*types)
    atoms = dict(zip(traced.invars, inputs, strict=True)) | dict(zip(traced.outvars, results, strict=True))
    if len(atoms) < len(inputs) + len(results):
        raise ValueError("each result must be computed: it is one of the inputs, or a constant.")
    eqns = []
    for eqn in traced.eqns:
        for variable in eqn.outvars:
            atoms.setdefault(variable, fresh(variable.aval))
        invars = [atoms[atom] if is_variable(atom) else atom for atom in eqn.invars]
        eqns.append(eqn.replace(invars=invars, outvars=[atoms[variable] for variable in eqn.outvars]))
    return eqns


def fresh(aval):
    """Return a new variable of a type."""
    return jax.extend.core.Var(aval)


def literal(value: int, like):
    """Return a scalar constant of the type of the atom ``like``."""
    return jax.extend.core.Literal(jnp.dtype(like.aval.dtype).type(value), like.aval)
