"""Check that every public name has a type that all type checkers infer in the same way.

``make typed`` runs ``pyright --verifytypes`` in a separate environment below ``.venv`` (pyright
includes its own Node). It fails for each exported function, class and member of a class whose type
is unknown or partially unknown, or which checkers could infer differently.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".venv" / "pyright"
PYRIGHT = "pyright[nodejs]==1.1.414"
# The bases of the classes in odps_nb.torch are torch's, which is not installed here.
MODULES = ("odps_nb", "odps_nb.errors", "odps_nb.spark", "odps_nb.stream_io", "odps_nb.types")


def ensure() -> Path:
    """Return the pyright of the separate environment; install it if it is missing."""
    program = HOME / "bin" / "pyright"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
        install = [str(HOME / "bin" / "python"), "-m", "pip", "install", "-q", PYRIGHT]
        subprocess.run(install, check=True)
    return program


def report(program: Path) -> dict[str, Any]:
    """Return pyright's report about the package in this checkout."""
    words = ["--verifytypes", "odps_nb", "--ignoreexternal", "--outputjson"]
    command = [str(program), "--pythonpath", sys.executable, *words]
    # exits with 1 if anything is unknown, even in internal packages
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)["typeCompleteness"]
    return found


def exported() -> tuple[str, ...]:
    """Return the names of all exported objects, as pyright reports them."""
    modules = [importlib.import_module(name) for name in MODULES]
    found = {getattr(module, name) for module in modules for name in module.__all__}
    return tuple(f"{one.__module__}.{one.__qualname__}" for one in found if callable(one))


def incomplete(found: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the number of public symbols, and those whose type is not fully known."""
    names = exported()
    inside = tuple(f"{name}." for name in names)
    public = [s for s in found["symbols"] if s["name"] in names or s["name"].startswith(inside)]
    bad = [one["name"] for one in public if not one["isTypeKnown"] or one["isTypeAmbiguous"]]
    return len(public), sorted(bad)


def main() -> int:
    count, bad = incomplete(report(ensure()))
    for name in bad:
        print(f"not fully typed: {name}")
    share = 100 * (count - len(bad)) / max(count, 1)
    print(f"{share:.1f}% of {count:,} public symbols have a known type")
    return 1 if bad or count < 300 else 0  # with fewer symbols, pyright did not find the package


if __name__ == "__main__":
    raise SystemExit(main())
