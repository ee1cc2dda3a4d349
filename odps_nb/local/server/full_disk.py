"""Recognises a full or failing disk in errors of Python, Arrow and SQLite."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator

__all__ = ["FAILED", "MESSAGE", "has_failed", "is_full"]

MESSAGE = "the disk of the service is full; nothing that was committed is lost"
FAILED = (
    "the disk of the service cannot be read or written (input/output error); nothing that was"
    " committed is lost"
)
_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_full(error: BaseException | None) -> bool:
    """Return whether an error, or its cause or context, is a full disk."""
    return any(_is(one, _ERRNOS, "No space left on device", "disk is full") for one in _all(error))


def has_failed(error: BaseException | None) -> bool:
    """Return whether an error, or its cause or context, is a disk that fails."""
    texts = ("Input/output error", "disk I/O error")
    return any(_is(one, (errno.EIO,), *texts) for one in _all(error))


def _is(error: BaseException, numbers: tuple[int, ...], system: str, sqlite: str) -> bool:
    if isinstance(error, OSError):
        return error.errno in numbers or system in str(error)
    return isinstance(error, sqlite3.OperationalError) and sqlite in str(error)


def _all(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
