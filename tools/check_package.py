"""Install the wheel and the source distribution, each alone, and use what was installed.

Each goes into an empty environment in a temporary folder, with the extra `local`, and is asked
from there to write a table to the embedded service and read it again: nothing of the checkout is
on its path. pip fetches the dependencies.

    python tools/check_package.py FOLDER
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import sys
import pandas, odps_nb
assert odps_nb.__file__.startswith(sys.prefix), odps_nb.__file__
with odps_nb.connect("local") as odps:
    odps.create_table("tried", "id bigint, name string")
    frame = pandas.DataFrame({"id": [1, 2], "name": ["a", None]})
    assert odps.table("tried").write(frame).rows == 2
    assert odps.table("tried").read().to_arrow().column("id").to_pylist() == [1, 2]
    assert odps.table("orders").read(limit=3).to_arrow().num_rows == 3
print(odps_nb.__version__)
"""


def check(package: Path) -> str:
    """Install a package into an empty environment; return the version that it says it is."""
    with tempfile.TemporaryDirectory(prefix="odps_nb_package_") as folder:
        place = Path(folder)
        python = str(place / "env" / "bin" / "python")
        inherited = ("PYTHON", "ODPS_", "VIRTUAL_ENV")
        env = {name: value for name, value in os.environ.items() if not name.startswith(inherited)}

        def run(*command: str) -> str:
            done = subprocess.run(command, cwd=place, env=env, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                sys.exit(f"{package.name}: {' '.join(command[:4])} … failed; see above")
            return done.stdout.strip()

        run(sys.executable, "-m", "venv", str(place / "env"))
        pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input")
        run(*pip, "install", "--quiet", f"{package}[local]")
        run(*pip, "check")
        version = run(python, "-c", PROGRAM)
        told = run(str(place / "env" / "bin" / "odps-nb"), "--version")
        if version not in told or f"-{version}" not in package.name:
            sys.exit(f"{package.name} holds version {version}, and odps-nb says {told}")
        return version


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    packages = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    if len(packages) != 2:
        names = sorted(path.name for path in packages)
        sys.exit(f"{folder} should hold one wheel and one source distribution, and holds {names}")
    for package in packages:
        print(f"{package.name}: installed alone and used, version {check(package)}")


if __name__ == "__main__":
    main()
