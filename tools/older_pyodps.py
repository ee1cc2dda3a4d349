"""The pyodps before `odps.maxstorage`, beside the one that is installed: its `storage_api_v2`.

One environment holds one pyodps, so the older one lies in a folder of ``.venv`` that nothing
finds by itself: a process of its own, with that folder first on its path, imports it.

    python3 tools/older_pyodps.py      # installs it, once
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "0.13.1"
ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venv" / "peers" / f"pyodps-{VERSION}"
PYTHON = ROOT / ".venv" / "bin" / "python"


def ensure() -> Path:
    """Return the folder to put on ``sys.path``; installs into it unless that was done already.

    Raises
    ------
    RuntimeError
        It cannot be installed, e.g. since no package index is reachable.
    """
    if (HOME / "odps" / "__init__.py").exists():
        return HOME
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HOME.parent) as place:
        whole = Path(place) / "whole"
        _install(whole)
        try:
            whole.rename(HOME)  # in one step: a folder that is there is whole
        except OSError:
            if not (HOME / "odps" / "__init__.py").exists():  # else another process was faster
                raise
    return HOME


def _install(place: Path) -> None:
    python = str(PYTHON) if PYTHON.exists() else sys.executable
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--target", str(place), f"pyodps=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"pyodps {VERSION} cannot be installed into {HOME.relative_to(ROOT)}; tests of "
            "clients that use its storage_api_v2 need it. Make the package index reachable, "
            "then run: make setup\n" + done.stderr.strip()[-600:]
        )


if __name__ == "__main__":
    try:
        print(ensure())
    except RuntimeError as error:
        sys.exit(f"set-up: {error}")
