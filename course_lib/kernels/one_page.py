"""One page per kernel family, which runs with JAX alone: the kernel, the op on one device, and what they use.

A page is kernel.py as it stands, then page.py, then the functions of other files that these use. Checks of arguments,
meshes, GPUs, and the choice of blocks for any shape are left to the library.
"""

import ast
import functools
import pathlib

_FOLDER = pathlib.Path(__file__).parent
_OURS = "course_lib.kernels"
_ARRAYS = "course_lib.arrays"
_PLAIN = {"Array", "Ref", "ShapeDtypeStruct"}  # of course_lib.arrays, which takes them from JAX
_LEFT_OUT = "Left to the library: "  # begins the part of page.py's docstring that is printed
_ANNOTATIONS = """\
class Num:  # for reading: Num[Ref, "bm bk"] is a reference to a block of bm rows and bk columns
    __class_getitem__ = classmethod(lambda cls, annotated: annotated[0])
"""


def families() -> dict[str, str]:
    """Return the name of every family, which is what has a page, and the first line of its docstring."""
    found = {file.parent.name: file.with_name("kernel.py") for file in _FOLDER.glob("*/page.py")}
    return {name: _Module(found[name]).docstring.splitlines()[0] for name in sorted(found)}


def one_page(family: str) -> str:
    """Return Python that defines the ops of ``family`` and imports nothing of ours."""
    kernel, tail = (_module(f"{_OURS}.{family}.{name}") for name in ("kernel", "page"))
    page = _Page()
    for module in (kernel, tail):
        for node in module.body:
            page.add(module, node)
    page.add_the_rest()
    left_out = tail.docstring[tail.docstring.index(_LEFT_OUT) :]
    docstring = f'"""{kernel.docstring.rstrip()}\n\n{left_out.rstrip()}\n"""'
    return f"{docstring}\n\n{page.imports()}\n\n\n{page.text()}"


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
        """Return the source of a node with the comments right above it, without ``__post_init__``: its checks."""
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1
        while self.lines[first - 1].startswith("#") and self.lines[first - 1] != "# fmt: off":
            first -= 1
        lines = self.lines[first : node.end_lineno]
        for method in getattr(node, "body", []):
            if getattr(method, "name", "") == "__post_init__":
                lines[method.lineno - 1 - first : method.end_lineno - first] = []
        return "\n".join(lines).rstrip()


def _file(module: str) -> pathlib.Path:
    return _FOLDER / (module.removeprefix(_OURS + ".").replace(".", "/") + ".py")


@functools.cache
def _module(name: str) -> _Module:
    return _Module(_file(name))


class _Page:
    """The definitions of a page: those it was given, in order, each behind what Python needs when it is defined."""

    def __init__(self):
        self.owners: dict[str, _Module] = {}  # of each name that is defined
        self.nodes: list[tuple[_Module, ast.stmt]] = []
        self.outside: dict[str, tuple[str, str]] = {}  # name: (module, name there), as JAX has them
        self.annotations: set[str] = set()

    def add(self, module: _Module, node: ast.stmt) -> None:
        """Add a node behind what it needs at once. Raises ValueError if another file has defined its name."""
        names = _names(node)
        for name in names:
            if self.owners.get(name, module) is not module:
                raise ValueError(f"{name} is defined in two files of one page: rename one of them")
        if (module, node) in self.nodes:
            return
        self.owners |= dict.fromkeys(names, module)
        for name in _used(node, at_once=True):
            self._find(module, name)
        self.nodes.append((module, node))

    def add_the_rest(self) -> None:
        """Add what the functions on the page use when they run, and what that uses; these stand closer together."""
        self.rest = len(self.nodes)
        for module, node in self.nodes:  # grows meanwhile
            for name in _used(node):
                self._find(module, name)

    def _find(self, module: _Module, name: str) -> None:
        """Add what ``name`` is in ``module``: a definition of ours, or an import from elsewhere."""
        if name in module.defined:
            self.add(module, module.defined[name])
        elif name in module.imported:
            source, there = module.imported[name]
            if source == _ARRAYS and there not in _PLAIN:
                self.annotations.add(name)
            elif source == _ARRAYS:
                self.outside[name] = ("jax", there)
            elif not source.startswith("course_lib"):
                self.outside[name] = (source, there)
            elif there != name or not _file(source).exists() or there not in _module(source).defined:
                raise ValueError(f"{name} of {source}: a page imports definitions of ours, under their own names")
            else:
                self._find(_module(source), name)

    def imports(self) -> str:
        """Return the import lines: whole modules first, then names of modules."""
        whole, several = [], {}
        for name, (source, there) in sorted(self.outside.items()):
            if there:
                several.setdefault(source, []).append(there if there == name else f"{there} as {name}")
            else:
                whole.append(f"import {source}" if name == source else f"import {source} as {name}")
        return "\n".join(
            sorted(whole) + [f"from {m} import {', '.join(names)}" for m, names in sorted(several.items())]
        )

    def text(self) -> str:
        """Return all definitions, two lines apart; constants of one file stand together."""
        parts, before = [], None
        if self.annotations:
            others = "".join(f"{name} = " for name in sorted(self.annotations - {"Num"}))
            parts += [_ANNOTATIONS + (f"\n\n{others}Num\n" if others else ""), "\n\n"]
        for number, (module, node) in enumerate(self.nodes):
            is_constant = isinstance(node, ast.Assign | ast.AnnAssign)
            if before is not None:
                apart = "\n\n\n" if number <= self.rest else "\n\n"
                parts.append("\n" if is_constant and before is module else apart)
            if number == self.rest:
                parts.append("# What the code above uses from other files of the library.\n")
            parts.append(module.text(node))
            before = module if is_constant else False
        return "".join(parts) + "\n"


def _names(node: ast.stmt) -> list[str]:
    """Return what a node at the top of a file defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [name.id for target in targets if target for name in ast.walk(target) if isinstance(name, ast.Name)]


def _used(node: ast.AST, *, at_once: bool = False) -> list[str]:
    """Return the names a node loads, ``__post_init__`` left out; with ``at_once`` not those in bodies of functions."""
    found = {node.id: None} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else {}
    children = ast.iter_child_nodes(node)
    if at_once and isinstance(node, ast.FunctionDef):
        children = [node.args, *node.decorator_list, *filter(None, [node.returns])]
    elif at_once and isinstance(node, ast.Lambda):
        children = [node.args]
    for child in children:
        if getattr(child, "name", "") != "__post_init__":
            found |= dict.fromkeys(_used(child, at_once=at_once))
    return list(found)
