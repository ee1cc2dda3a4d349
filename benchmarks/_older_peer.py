"""The stream classes of pyodps before `odps.maxstorage`, last shipped with pyodps 0.13.1.

They are loaded from the folder of ``tools/older_pyodps.py`` under a separate package name, in
addition to the installed pyodps, so that both are measured in the same run.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

from tools import older_pyodps

_ALIAS = "pyodps_older"


def load() -> ModuleType | None:
    """Return its stream module, or ``None`` if it cannot be installed."""
    try:
        package = older_pyodps.ensure() / "odps" / "__init__.py"
    except RuntimeError as error:
        print(f"note: its older class is not measured: {error}")
        return None
    spec = importlib.util.spec_from_file_location(
        _ALIAS, package, submodule_search_locations=[str(package.parent)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[_ALIAS] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return importlib.import_module(f"{_ALIAS}.apis.storage_api_v2.stream_io")
