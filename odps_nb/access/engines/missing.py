"""Imports optional libraries, with an error that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from odps_nb.errors import MissingDependencyError

__all__ = ["require"]


def require(module: str) -> Any:
    """Import a library that an extra of the same name installs.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    extra = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{error.name} is not installed", extra=extra, hint=f"pip install 'odps-nb[{extra}]'"
        ) from error
