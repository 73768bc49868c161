"""A family as one page: its kernel, what that uses of ours, and the op on one device, run by JAX alone.

The page is kernel.py as it stands, the functions of other files that it uses before it, and page.py behind it. Checks of
arguments, meshes, GPUs and the choice of blocks for any shape are left to the library.
"""

import ast
import dataclasses
import functools
import pathlib

_FOLDER = pathlib.Path(__file__).parent
_OURS = "course_lib.kernels"
_ARRAYS = "course_lib.arrays"
_PLAIN = {"Array", "Ref", "ShapeDtypeStruct"}  # of course_lib.arrays, which takes them from JAX
_ANNOTATIONS = '''\
class Num:
    """Annotations are for reading: Num[Ref, "bm bk"] is a reference to a block of bm rows and bk columns."""

    def __class_getitem__(cls, annotated):
        return annotated[0]
'''


def families() -> dict[str, str]:
    """Return the name of every family, which is what has a page, and the first line of its docstring."""
    found = {file.parent.name: file.with_name("kernel.py") for file in _FOLDER.glob("*/page.py")}
    return {name: _Module(found[name]).docstring.splitlines()[0] for name in sorted(found)}


def one_page(family: str) -> str:
    """Return Python that defines the ops of ``family`` and imports nothing of ours. Raises KeyError for no family."""
    kernel, tail = (_module(f"{_OURS}.{family}.{name}") for name in ("kernel", "page"))
    page = _Page(printed=[])
    for module in (kernel, tail):
        for node in module.body:
            page.add(module, node)
    parts = [f'"""{kernel.docstring.rstrip()}\n\n{tail.docstring.rstrip()}\n"""', page.imports()]
    if page.annotations:
        others = "".join(f"{name} = " for name in sorted(page.annotations - {"Num"}))
        parts.append(_ANNOTATIONS + (f"\n\n{others}Num\n" if others else ""))
    return "\n\n".join([*parts[:2], *(f"\n{part}" for part in [*parts[2:], *page.printed])]).rstrip() + "\n"


class _Module:
    """A parsed file: its docstring, its definitions by name, what it imports, and the nodes that are not imports."""

    def __init__(self, file: pathlib.Path):
        source = file.read_text()
        self.lines, tree = source.splitlines(), ast.parse(source)
        self.docstring = ast.get_docstring(tree)
        self.body = [node for node in tree.body[1:] if not isinstance(node, ast.Import | ast.ImportFrom)]
        self.defined = {name: node for node in self.body for name in _names(node)}
        self.imported: dict[str, tuple[str, str]] = {}  # name here: (module, name there), the latter "" for a module
        for node in tree.body:
            if isinstance(node, ast.Import):
                self.imported |= {alias.asname or alias.name: (alias.name, "") for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                self.imported |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}

    def text(self, node: ast.stmt) -> str:
        """Return the source of a node with the comments right above it, without checks in ``__post_init__``."""
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1
        while self.lines[first - 1].startswith("#"):
            first -= 1
        lines = self.lines[first : node.end_lineno]
        for method in getattr(node, "body", []):
            if getattr(method, "name", "") == "__post_init__":
                lines[method.lineno - 1 - first : method.end_lineno - first] = []
        return "\n".join(lines).rstrip()


@functools.cache
def _module(name: str) -> _Module:
    file = _FOLDER / (name.removeprefix(_OURS).removeprefix(".").replace(".", "/") + ".py")
    if not file.exists():
        raise KeyError(name)
    return _Module(file)


@dataclasses.dataclass
class _Page:
    """The definitions printed so far, each behind those it uses, and what they import from elsewhere."""

    printed: list[str]
    owners: dict[str, _Module] = dataclasses.field(default_factory=dict)
    outside: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    annotations: set[str] = dataclasses.field(default_factory=set)

    def add(self, module: _Module, node: ast.stmt) -> None:
        """Print a node behind all that it uses. Raises ValueError if two files define the same name."""
        if not (names := _names(node)) or names[0] not in self.owners:
            for name in names:
                if self.owners.setdefault(name, module) is not module:
                    raise ValueError(f"{name} is defined in two files of one page: rename one of them")
            for name in _used(node):
                self._add_name(module, name)
            self.printed.append(module.text(node))
        elif self.owners[names[0]] is not module:
            raise ValueError(f"{names[0]} is defined in two files of one page: rename one of them")

    def _add_name(self, module: _Module, name: str) -> None:
        if name in module.defined:
            self.add(module, module.defined[name])
        elif name in module.imported:
            source, there = module.imported[name]
            if source == _ARRAYS and there not in _PLAIN:
                self.annotations |= {"Num", name}
            elif source == _ARRAYS:
                self.outside[name] = ("jax", there)
            elif not source.startswith("course_lib"):
                self.outside[name] = (source, there)
            elif there != name or not there or _is_module(source, there):
                raise ValueError(f"{name} of {source}: a page imports names of ours, under the names they have")
            else:
                origin = _module(source)
                self._add_name(origin, name)

    def imports(self) -> str:
        """Return the import lines: whole modules first, then names of modules."""
        whole = [_import(there, name) for name, (there, what) in sorted(self.outside.items()) if not what]
        several: dict[str, list[str]] = {}
        for name, (source, there) in sorted(self.outside.items()):
            if there:
                several.setdefault(source, []).append(there if there == name else f"{there} as {name}")
        return "\n".join(
            sorted(whole) + [f"from {m} import {', '.join(names)}" for m, names in sorted(several.items())]
        )


def _import(module: str, name: str) -> str:
    return f"import {module}" if name == module else f"import {module} as {name}"


def _is_module(package: str, name: str) -> bool:
    folder = _FOLDER / package.removeprefix(_OURS).removeprefix(".").replace(".", "/")
    return (folder / f"{name}.py").exists()


def _names(node: ast.stmt) -> list[str]:
    """Return what a node at the top of a file defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [name.id for target in targets if target for name in ast.walk(target) if isinstance(name, ast.Name)]


def _used(node: ast.stmt) -> list[str]:
    """Return the names a node loads, in order, those of ``__post_init__`` left out."""
    found, inner = {}, [node]
    while inner:
        one = inner.pop(0)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            found[one.id] = None
        inner += [child for child in ast.iter_child_nodes(one) if getattr(child, "name", "") != "__post_init__"]
    return list(found)
