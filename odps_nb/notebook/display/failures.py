"""Shows an odps_nb error in a cell as three lines instead of a traceback.

The lines become an ordinary ``error`` output through IPython's custom exception hook. Every
tool therefore sees a failed cell, "Run All" stops, and each front end escapes the text.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from IPython.core import error as ipython

from odps_nb.errors import OdpsNbError, explain, visible
from odps_nb.terms import shorten

MAX_LINE = 600

# No colours: some front ends show errors on a red background.
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"


class UsageError(ipython.UsageError):
    """An invalid command line of ``%odps``.

    IPython only prints its own ``UsageError`` on stderr, so a program that runs notebooks finds no
    error output and cannot report why the job failed. `FailureHook` shows this error in an output.
    """


def error_lines(error: BaseException) -> list[str]:
    """Return three printable lines of bounded length: what failed, where, and what to do.

    `explain` has already escaped characters that move the cursor or hide text; other unprintable
    characters become spaces.
    """
    plain = ("".join(c if c.isprintable() else " " for c in line) for line in explain(error))
    return [shorten(" ".join(line.split()), MAX_LINE) for line in plain]


class FailureHook:
    """An IPython error hook that shows `error_lines` instead of tracebacks for odps_nb errors.

    It shows a `UsageError` as an error output of one line.

    ``wants_traceback`` is called for each error; ``True`` shows IPython's own traceback.
    """

    def __init__(self, shell: Any, *, wants_traceback: Callable[[], bool]) -> None:
        self._shell, self._wants_traceback = shell, wants_traceback
        self._before: tuple[tuple[type[BaseException], ...], Any] | None = None
        self._last: traceback.TracebackException | None = None

    def install(self) -> None:
        """Install the hook; a hook that exists already still handles its own errors."""
        shell = self._shell
        self._before = (shell.custom_exceptions, shell.CustomTB)
        earlier = tuple(shell.custom_exceptions)
        shell.set_custom_exc((OdpsNbError, UsageError, *earlier), self._handle)
        self._installed = shell.CustomTB

    def remove(self) -> None:
        """Restore the previous hook, unless another one has been installed since."""
        if self._before is None:
            return
        if self._shell.CustomTB is self._installed:
            self._shell.custom_exceptions, self._shell.CustomTB = self._before
        self._before = None

    def last_traceback(self) -> str | None:
        """Return the traceback of the last odps_nb error as text, or ``None``."""
        return None if self._last is None else "".join(self._last.format())

    def _handle(
        self,
        shell: Any,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
        tb_offset: int | None = None,
    ) -> list[str]:
        if isinstance(error, UsageError):
            lines = [f"{_BOLD}UsageError{_RESET}: {visible(str(error))}"]
            shell._showtraceback(kind, error, lines)  # see the comment below
            return lines
        if not isinstance(error, OdpsNbError):  # the previous hook handles it
            assert self._before is not None
            return self._before[1](kind, error, trace, tb_offset=tb_offset) or []
        # Set the last error for ``%tb``, ``%debug`` and ``%odps traceback``, as IPython does.
        sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
        if sys.version_info >= (3, 12):
            sys.last_exc = error
        # Keep only a summary, because the frames would keep all data read so far in memory.
        self._last = traceback.TracebackException(kind, error, trace)
        if self._wants_traceback():
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
            return []
        lines = error_lines(error)
        head, sign, rest = lines[0].partition(":")
        excerpt = visible(getattr(error, "excerpt", None) or "").splitlines()
        shown = [f"{_BOLD}{head}{_RESET}{sign}{rest}", *excerpt, *lines[1:]]
        # Call this private method because terminal and kernel shells override it to show errors.
        shell._showtraceback(kind, error, shown)
        return shown
