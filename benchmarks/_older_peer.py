"""The stream classes of pyodps before `odps.maxstorage`: last shipped with pyodps 0.13.1.

Installed by name into ``build/peers`` and loaded under a package name of its own, beside the
pyodps that is installed, so that both are measured in the same run.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

VERSION = "0.13.1"
_HOME = Path(__file__).parent.parent / "build" / "peers" / f"pyodps-{VERSION}"
_ALIAS = "pyodps_older"


def load() -> ModuleType | None:
    """Return its stream module, or ``None`` where it cannot be had."""
    package = _HOME / "odps" / "__init__.py"
    if not package.exists() and not _install():
        return None
    spec = importlib.util.spec_from_file_location(
        _ALIAS, package, submodule_search_locations=[str(package.parent)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[_ALIAS] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return importlib.import_module(f"{_ALIAS}.apis.storage_api_v2.stream_io")


def _install() -> bool:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    done = subprocess.run([*command, str(_HOME), f"pyodps=={VERSION}"], capture_output=True)
    if done.returncode:
        print(f"note: pyodps {VERSION} cannot be installed here; its older class is not measured")
    return done.returncode == 0
