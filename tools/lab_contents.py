"""How `make lab` reads notebooks from the disk (tools/lab.sh names this class to JupyterLab)."""

from ipykernel.ipkernel import IPythonKernel
from jupyter_client import kernelspec
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager


class Contents(AsyncLargeFileManager):
    """The files as they are, but a notebook comes with the particulars of the Python that will run it.

    As soon as a kernel runs, JupyterLab writes them into the open notebook, the version of Python among them. They
    cannot be stored for every reader's version, so each notebook of the course would count as changed when it is
    opened, and JupyterLab would ask whether to save it.
    """

    async def get(self, path, content=True, type=None, format=None, **more):
        """Return the model of a file or a folder, as the contents API describes it."""
        model = await super().get(path, content, type, format, **more)
        if content and model["type"] == "notebook":
            _describe_python(model["content"]["metadata"])
        return model


def _describe_python(metadata: dict) -> None:
    """Put name and version of this Python into a notebook's metadata, unless another kernel runs it."""
    if metadata.get("kernelspec", {}).get("name") == "python3":
        ours = kernelspec.get_kernel_spec("python3")
        metadata["kernelspec"] = {"name": "python3", "display_name": ours.display_name, "language": ours.language}
        metadata["language_info"] = dict(IPythonKernel.language_info)
