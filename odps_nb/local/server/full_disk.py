"""Recognises a full disk in errors of Python, Arrow and SQLite."""

from __future__ import annotations

import errno
import sqlite3

__all__ = ["MESSAGE", "is_full"]

MESSAGE = "the disk of the service is full; nothing that was committed is lost"
_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_full(error: BaseException | None) -> bool:
    """Return whether an error, or its cause or context, is a full disk."""
    while error is not None:
        if isinstance(error, OSError) and (
            error.errno in _ERRNOS or "No space left on device" in str(error)
        ):
            return True
        if isinstance(error, sqlite3.OperationalError) and "disk is full" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
