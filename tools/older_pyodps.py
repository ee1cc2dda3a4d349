"""Install pyodps 0.13.1, the last version with `storage_api_v2`, next to the current one.

An environment has only one pyodps, so the older version is installed into a folder of ``.venv``
that is not on the path. A separate process with that folder first on its path imports it.

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
    """Return the folder to put on ``sys.path``; install pyodps into it if it is missing.

    Raises
    ------
    RuntimeError
        It cannot be installed, e.g. because no package index is reachable.
    """
    if (HOME / "odps" / "__init__.py").exists():
        return HOME
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HOME.parent) as place:
        whole = Path(place) / "whole"
        _install(whole)
        try:
            whole.rename(HOME)  # atomic, so that an existing folder is complete
        except OSError:
            if not (
                HOME / "odps" / "__init__.py"
            ).exists():  # otherwise another process has installed it
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
