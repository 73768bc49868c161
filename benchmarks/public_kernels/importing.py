"""Import single files of a project whose dependencies are not installed.

Two finders stand in front of Python's own. One makes the packages of the project without running their
``__init__.py``, so that only the files of the kernel are executed. The other makes stand-ins for third-party packages
that such a file imports for type annotations, logging or tests.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
import types


class _StandIn:
    """Whatever is asked of a missing package: an attribute, a call, a base class. As a decorator it changes nothing."""

    def __init__(self, name: str = "stand-in") -> None:
        self.__name__ = name

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(name)

    def __call__(self, *args, **options):
        is_function = len(args) == 1 and not options and isinstance(args[0], (types.FunctionType, type))
        return args[0] if is_function else self

    def __getitem__(self, item):
        return self

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases):
        return (object,)


class _StandInModule(types.ModuleType):
    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(name)


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(self, name, path=None, target=None):
        wanted = any(name == stub or name.startswith(f"{stub}.") for stub in self.names)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if wanted else None

    def create_module(self, spec):
        return _StandInModule(spec.name)

    def exec_module(self, module) -> None:
        module.__path__ = []


class _BarePackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, root: pathlib.Path, whole: tuple[str, ...]) -> None:
        self.root, self.whole = root, whole

    def find_spec(self, name, path=None, target=None):
        folder = self.root.joinpath(*name.split("."))
        top = self.root / name.partition(".")[0]
        if not top.is_dir() or not folder.is_dir() or name in self.whole:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module) -> None:
        """Leave the package empty; Python has set its ``__path__``."""


def prepare(clone: pathlib.Path, package: str, stubs: tuple[str, ...], whole: tuple[str, ...]) -> None:
    """Make ``import`` find the project in ``clone``. ``package`` is its package's path, such as "src/name".

    Raises FileNotFoundError if the clone has no such folder.
    """
    folder = clone / package
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist. CLONES names the folder in which {clone.name} is cloned.")
    sys.path.insert(0, str(folder.parent))
    sys.meta_path[:0] = [_StandIns(stubs), _BarePackages(folder.parent, whole)]
