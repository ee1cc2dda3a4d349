"""Check that every public name has a type that all type checkers infer in the same way.

``make typed`` runs ``pyright --verifytypes`` in a separate environment below ``.venv`` (pyright
includes its own Node) and fails for each symbol outside of `INTERNAL` whose type is unknown or
partially unknown, or which checkers could infer differently.
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
# Internal packages, and classes whose bases (of Spark, pandas, pyarrow) have no types. The bases in
# odps_nb.torch are classes of torch, which is not installed here.
INTERNAL = (
    *("odps_nb.local.", "odps_nb.notebook.", "odps_nb.probe.", "odps_nb.spark.source."),
    "odps_nb.torch.",
    "odps_nb.convert.blob_columns.arrow_blob.ArrowBlob",
    "odps_nb.convert.blob_columns.blob_array.Blob",
)


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
    # exits with 1 if anything is unknown, also in internal packages
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
    """Return the number of public symbols, and those whose type is not fully known."""
    public = [one for one in found["symbols"] if not one["name"].startswith(INTERNAL)]
    bad = [one["name"] for one in public if not one["isTypeKnown"] or one["isTypeAmbiguous"]]
    return len(public), sorted(bad)


def main() -> int:
    count, bad = incomplete(report(ensure()))
    for name in bad:
        print(f"not fully typed: {name}")
    share = 100 * (count - len(bad)) / max(count, 1)
    print(f"{share:.1f}% of {count:,} public symbols have a known type")
    return (
        1 if bad or count < 1000 else 0
    )  # fewer symbols mean that pyright did not find the package


if __name__ == "__main__":
    raise SystemExit(main())
