"""The projects, one file each; a new file is found by itself."""

import importlib
import pkgutil

from public_kernels.adapter import Project

PROJECTS: dict[str, Project] = {
    project.name: project
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__))
    for project in importlib.import_module(f"{__name__}.{module}").PROJECTS
}
