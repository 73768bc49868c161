"""The error that is raised if a kernel call cannot be read."""

import enum


class Reason(enum.Enum):
    """Why a kernel call cannot be read."""

    NEGATIVE_GRID = "a size of its grid is below 0"
    LONG_GRID = "its grid has too many steps to list"
    UNKNOWN_SCALARS = "its grid or its index maps read scalars that are known only in a run"
    ARRAY_VALUES = "its copies depend on the values in an array"
    LONG_BODY = "its body is too long to follow"
    NOT_SUPPORTED = "it is built in a way that this library cannot read"


class UnreadableCall(ValueError):
    """A kernel whose grid or copies cannot be read. The message says why; nothing is guessed.

    ``reason`` says the same as a member of ``Reason``, for callers that must tell the cases apart. With
    ``NEGATIVE_GRID`` and ``LONG_GRID`` no judge can run the kernel either; in the other cases it can be run and
    compared.
    """

    def __init__(self, message: str, *, reason: Reason = Reason.NOT_SUPPORTED):
        super().__init__(message)
        self.reason = reason
