"""A family as one file: the source of every file of ours that it needs, inlined, so that JAX alone can run it.

A file that the family imports becomes a function of that file's name, called once: what it defines are its locals, and
they are handed out as a module's names are. So nothing is renamed, and every comment stays.
"""

import ast
import collections
import pathlib
import textwrap

_FOLDER = pathlib.Path(__file__).parent
_OURS = "course_lib."
_ANNOTATIONS = """\
# Annotations are for reading: Float[Ref, "bm bk"] is a reference to a block of floats with bm rows and bk columns.
class Num:
    def __class_getitem__(cls, annotated):
        return annotated[0]


Bool = Float = Float32 = BFloat16 = Int8 = Int32 = Num
Described = Array | ShapeDtypeStruct
"""
_INLINED = '''\
def inlined(file):
    """What a function defines, under the names that a module would have."""
    return types.SimpleNamespace(**file())
'''


def families() -> dict[str, str]:
    """The name of every family, which is a file with a reference, and the first line of its docstring."""
    files = {path.stem: path for path in _FOLDER.glob("*.py")} | {
        p.parent.name: p for p in _FOLDER.glob("*/__init__.py")
    }
    trees = {name: ast.parse(files[name].read_text()) for name in sorted(files)}
    return {name: ast.get_docstring(tree).splitlines()[0] for name, tree in trees.items() if _is_family(tree)}


def one_file(family: str) -> str:
    """Python that defines what the file of ``family`` does, and imports nothing of ours."""
    imports: dict[str, set[str]] = collections.defaultdict(set)  # module -> names taken from it; "": whole modules
    imports[""].add("import types")
    imports["jax"] |= {"Array", "Ref", "ShapeDtypeStruct"}
    needed: dict[str, str] = {}  # file -> its source without imports, the files it needs before it
    _collect(family, needed, imports)
    body = needed.pop(family)
    parts = [_as_a_function(name, source) for name, source in needed.items()]
    doc = f'"""The kernels of course_lib.kernels.{family}, with all that they need: paste it into an empty notebook."""'
    return "\n\n".join([doc + "\n\n" + _import_lines(imports), _ANNOTATIONS, _INLINED, *parts, body])


def _is_family(tree: ast.Module) -> bool:
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    taken = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return any(name == "reference" or name.endswith("_reference") for name in defined | taken)


def _collect(name: str, needed: dict[str, str], imports: dict[str, set[str]]) -> None:
    """Adds a file to ``needed``, after those it imports, and what it imports from elsewhere to ``imports``."""
    source = _path(name).read_text()
    lines, tree = source.splitlines(), ast.parse(source)
    for node in tree.body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
        if isinstance(node, ast.Import):
            imports[""].add(ast.unparse(node))
        elif node.module == "course_lib.arrays":
            continue
        elif not node.module.startswith(_OURS):
            imports[node.module] |= {ast.unparse(alias) for alias in node.names}
        else:
            lines[node.lineno - 1] = _assignment(node)
            for file in _files(node):
                if file not in needed:
                    _collect(file, needed, imports)
    needed[name] = _spaced("\n".join(lines))


def _files(node: ast.ImportFrom) -> list[str]:
    """The files of ours that an import names."""
    module = node.module.removeprefix("course_lib.kernels").removeprefix(".")
    named = [f"{module}.{alias.name}".strip(".") for alias in node.names]
    return named if all(_path(name).exists() for name in named) else [module]


def _path(name: str) -> pathlib.Path:
    """The file of a module, named from this folder on: "matmul.blocks", or a package's own."""
    file = _FOLDER / f"{name.replace('.', '/')}.py"
    return file if file.exists() else file.with_suffix("") / "__init__.py"


def _function(name: str) -> str:
    return f"{name.replace('.', '_')}_py"


def _assignment(node: ast.ImportFrom) -> str:
    """The same names, from functions instead of files: ``dot, passes = products_py.dot, products_py.passes``."""
    files = _files(node)
    module = node.module.removeprefix("course_lib.kernels").removeprefix(".")
    whole = files != [module]
    if whole:
        values = [_function(file) for file in files]
    else:
        values = [f"{_function(files[0])}.{alias.name}" for alias in node.names]
    names = [alias.asname or alias.name for alias in node.names]
    return "\n".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))


def _as_a_function(name: str, source: str) -> str:
    return f"@inlined\ndef {_function(name)}():\n{textwrap.indent(source.rstrip(), '    ')}\n\n    return locals()\n"


def _import_lines(imports: dict[str, set[str]]) -> str:
    whole = sorted(imports.pop(""))
    return "\n".join(
        [*whole, *(f"from {module} import {', '.join(sorted(imports[module]))}" for module in sorted(imports))]
    )


def _spaced(source: str) -> str:
    """Without the empty lines that imports left: two at most, as between functions."""
    while "\n\n\n\n" in source:
        source = source.replace("\n\n\n\n", "\n\n\n")
    return source.strip() + "\n"
