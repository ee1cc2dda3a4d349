"""Warnings that point at the line of the caller."""

from __future__ import annotations

import sys
import warnings

from odps_nb.errors import OdpsNbWarning

__all__ = ["warn"]


def warn(message: str, *, through: tuple[str, ...] = ()) -> None:
    """Warn at the first caller outside of this package and of the packages in ``through``."""
    inside = (__name__.partition(".")[0], *through)
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, OdpsNbWarning, stacklevel=level)
