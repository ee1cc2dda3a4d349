"""Warnings that point to the caller's line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable

from odps_nb.errors import OdpsNbWarning
from odps_nb.schema import Column, OdpsType
from odps_nb.wire.type_text import format_type


def warn(message: str) -> None:
    """Issue a warning that points to the first caller outside this package."""
    package = __name__.partition(".")[0]
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, OdpsNbWarning, stacklevel=level)


def columns_with_types(
    columns: Iterable[Column], has_type: Callable[[OdpsType], bool], what: str
) -> tuple[Column, ...]:
    """Return the columns whose types the target (``what``) supports; warn once about the others.

    If no type is supported, return all columns, so that a specific error is raised later.
    """
    columns = tuple(columns)
    supported = tuple(column for column in columns if has_type(column.type))
    if not supported or len(supported) == len(columns):
        return columns
    omitted = [
        f"{column.name} ({format_type(column.type)})"
        for column in columns
        if column not in supported
    ]
    warn(
        f"{what} has no type for {', '.join(omitted)}, which the result omits. "
        "Pass columns=[…] to avoid this warning; to_arrow() of a read returns all columns"
    )
    return supported
