"""Install the wheel and the source distribution, each alone, and use what was installed.

Each goes into an empty environment in a temporary folder with an empty home: nothing of the
checkout is on its path. With the extra `local` it is asked to write a table to the embedded
service and to read it again; with ``--quickstart`` also to run the quickstart notebook, with the
extra `lab`. pip fetches the dependencies. ``--sbom FILE`` keeps what was installed beside the
wheel, as CycloneDX.

    python tools/check_package.py FOLDER [--quickstart] [--sbom FILE]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NOTEBOOK = Path(__file__).resolve().parent.parent / "notebooks" / "01_quickstart.ipynb"

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

QUICKSTART = """
import os
import nbformat
from nbclient import NotebookClient
from odps_nb.local.server.launch import start
notebook = nbformat.read("01_quickstart.ipynb", as_version=4)
with start() as service:
    for name in ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key"):
        os.environ[f"ODPS_{name.upper()}"] = getattr(service, name)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
code = [cell for cell in notebook.cells if cell.cell_type == "code"]
assert all(cell.execution_count for cell in code)
print(f"{len(code)} cells of the quickstart")
"""


class Place:
    """An empty environment and an empty home in a folder of their own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.commands = folder / "env" / "bin"
        self.python = str(self.commands / "python")
        inherited = ("PYTHON", "ODPS_", "VIRTUAL_ENV", "XDG_", "JUPYTER", "IPYTHON")
        self.env = {
            key: value for key, value in os.environ.items() if not key.startswith(inherited)
        }
        # pip's cache stays, so that nothing large is fetched twice
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pip"
        self.env.setdefault("PIP_CACHE_DIR", str(cache))
        home = folder / "home"
        home.mkdir()
        self.env["HOME"] = str(home)
        self.run(sys.executable, "-m", "venv", str(folder / "env"))

    def run(self, *command: str) -> str:
        """Run a command here; end the program where it fails."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.env, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            sys.exit(f"{self.name}: {' '.join(command[:4])} … failed; see above")
        return done.stdout.strip()

    def pip(self, *words: str) -> str:
        """Run the pip of this environment."""
        quiet = ("--disable-pip-version-check", "--no-input")
        return self.run(self.python, "-m", "pip", *quiet, *words)


def check(package: Path, *, quickstart: bool = False, sbom: Path | None = None) -> str:
    """Install a package into an empty environment; return the version that it says it is."""
    with tempfile.TemporaryDirectory(prefix="odps_nb_package_") as folder:
        place = Place(Path(folder), package.name)
        place.pip("install", "--quiet", f"{package}[{'lab' if quickstart else 'local'}]")
        place.pip("check")
        version = place.run(place.python, "-c", PROGRAM)
        told = place.run(str(place.commands / "odps-nb"), "--version")
        if version not in told or f"-{version}" not in package.name:
            sys.exit(f"{package.name} holds version {version}, and odps-nb says {told}")
        if quickstart:
            shutil.copy(NOTEBOOK, place.folder)
            print(f"{package.name}: {place.run(place.python, '-c', QUICKSTART)}", flush=True)
        if sbom is not None:
            list_parts(place, sbom)
        return version


def list_parts(place: Place, sbom: Path) -> None:
    """Write what is installed there, with versions and licences, as CycloneDX."""
    program = shutil.which("cyclonedx-py", path=str(Path(sys.executable).parent))
    if program is None:
        sys.exit("cyclonedx-py is not beside this Python: `pip install cyclonedx-bom`")
    for note in place.folder.glob("env/lib/*/site-packages/odps_nb-*/direct_url.json"):
        note.unlink()  # names the folder of this machine that the wheel came from
    place.pip("uninstall", "--yes", "--quiet", "pip")
    place.run(
        *(program, "environment", place.python),
        *("--output-reproducible", "--of", "JSON", "-o", str(sbom)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quickstart", action="store_true", help="run the notebook, too")
    parser.add_argument("--sbom", type=Path, metavar="FILE", help="keep what the wheel brought")
    options = parser.parse_args()
    folder = options.folder.resolve()
    packages = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    if len(packages) != 2:
        names = sorted(path.name for path in packages)
        sys.exit(f"{folder} should hold one wheel and one source distribution, and holds {names}")
    sbom = options.sbom and options.sbom.resolve()
    for package in packages:
        of_wheel = sbom if package.suffix == ".whl" else None
        version = check(package, quickstart=options.quickstart, sbom=of_wheel)
        print(f"{package.name}: installed alone and used, version {version}", flush=True)


if __name__ == "__main__":
    main()
