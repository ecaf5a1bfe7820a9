"""The exceptions of the package: the command line's errors, with their hints."""

from __future__ import annotations

import os
from types import TracebackType

_HINT = "\nhint: "


def place(traceback: TracebackType) -> str | None:
    """The innermost line that is not this package's own, as ``file:line``: where a method of one's own has failed."""
    own = os.path.dirname(os.path.abspath(__file__)) + os.sep
    found: str | None = None
    at: TracebackType | None = traceback
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if not os.path.abspath(file).startswith(own):
            found = f"{file}:{at.tb_lineno}"
        at = at.tb_next
    return found


class FormantError(Exception):
    """Something that was asked for cannot be done, and what to do about it.

    >>> error = FormantError("x has the shape (3,)", hint="give (n, features)")
    >>> print(error)
    x has the shape (3,)
    hint: give (n, features)
    >>> FormantError("no such file\\nhint: look again").hint
    'look again'
    """

    message: str
    hint: str | None

    def __init__(self, message: str, hint: str | None = None) -> None:
        if hint is None and _HINT in message:
            message, hint = message.split(_HINT, 1)
        self.message = message
        self.hint = hint
        # Both go to Exception, so that pickling (worker processes) keeps them.
        super().__init__(message, hint)

    def __str__(self) -> str:
        return self.message if self.hint is None else self.message + _HINT + self.hint


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped a run at its last checkpoint; ``folder`` is where it lies.

    >>> print(Interrupted("runs/trial"))
    stopped at the last checkpoint; go on with formant.resume("runs/trial")
    """

    folder: str

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        super().__init__(self.folder)

    def __str__(self) -> str:
        return f'stopped at the last checkpoint; go on with formant.resume("{self.folder}")'
