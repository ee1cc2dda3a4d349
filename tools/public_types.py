"""Say whether every name that users reach has a type that each type checker sees alike.

``make typed``. Runs ``pyright --verifytypes`` in an environment of its own below ``.venv``
(pyright brings its own Node) and fails for each symbol outside of `INTERNAL` whose type is
unknown, in part too, or which checkers could infer differently.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".venv" / "pyright"
PYRIGHT = "pyright[nodejs]==1.1.414"
# Rooms that nobody imports from, and classes whose bases have no types: of Spark, pandas, pyarrow.
# So does odps_nb.torch: the bases of its classes are torch's, which is not installed here.
INTERNAL = (
    *("odps_nb.local.", "odps_nb.notebook.", "odps_nb.probe.", "odps_nb.spark.source."),
    "odps_nb.torch.",
    "odps_nb.convert.blob_columns.arrow_blob.ArrowBlob",
    "odps_nb.convert.blob_columns.blob_array.Blob",
)


def ensure() -> Path:
    """Return the pyright of an environment of its own; install it there if it is not."""
    program = HOME / "bin" / "pyright"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
        install = [str(HOME / "bin" / "python"), "-m", "pip", "install", "-q", PYRIGHT]
        subprocess.run(install, check=True)
    return program


def report(program: Path) -> dict[str, Any]:
    """Return what pyright says of the package, as it stands here."""
    words = ["--verifytypes", "odps_nb", "--ignoreexternal", "--outputjson"]
    command = [str(program), "--pythonpath", sys.executable, *words]
    # exits with 1 where anything is unknown, in the rooms that do not count too
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


def incomplete(found: dict[str, Any]) -> tuple[int, list[str]]:
    """Return how many public symbols there are, and those that are not fully known."""
    public = [one for one in found["symbols"] if not one["name"].startswith(INTERNAL)]
    bad = [one["name"] for one in public if not one["isTypeKnown"] or one["isTypeAmbiguous"]]
    return len(public), sorted(bad)


def main() -> int:
    count, bad = incomplete(report(ensure()))
    for name in bad:
        print(f"not fully typed: {name}")
    share = 100 * (count - len(bad)) / max(count, 1)
    print(f"{share:.1f}% of {count:,} public symbols have a known type")
    return 1 if bad or count < 1000 else 0  # fewer: pyright did not find the package


if __name__ == "__main__":
    raise SystemExit(main())
