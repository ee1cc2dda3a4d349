"""Optional libraries that the user may have imported."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


def loaded(name: str) -> ModuleType | None:
    """Return a module if it was imported; wait for another thread that is still importing it.

    ``sys.modules`` alone would return a partially imported module, which lacks attributes.
    """
    return None if sys.modules.get(name) is None else importlib.import_module(name)
