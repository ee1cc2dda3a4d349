"""`make release`: what is uploaded, built and tried; nothing is sent anywhere.

Says that the version agrees wherever it stands, builds the wheel and the source distribution twice
and compares their bytes, looks at what is inside and at the long description, installs each into
an empty environment outside of the checkout, runs the quickstart from it, and writes an SBOM.
All stands in ``dist/`` then. twine and cyclonedx-bom get an environment of their own in
``build/``, for which the network is needed.

    python tools/release.py [--rehearsal]

``--rehearsal`` does the same with changes that are not committed and an open changelog.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

from package import ROOT, build, commit_time

DIST = ROOT / "dist"
TOOLS = ROOT / "build" / "release"
WANTED = ("twine>=6.1", "cyclonedx-bom>=7")
LABEXTENSION = re.compile(r"^odps_nb-[\d.]+\.data/data/share/jupyter/")


def stated_versions(root: Path) -> dict[str, str]:
    """Return the version that each place says, by file."""
    init = (root / "odps_nb" / "__init__.py").read_text("utf-8")
    extension = json.loads((root / "labextensions/odps-nb/package.json").read_text("utf-8"))
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    cited = re.search(r'^version: "(.+)"$', (root / "CITATION.cff").read_text("utf-8"), re.M)
    own = re.search(r'^__version__ = "(.+)"$', init, re.M)
    return {
        "pyproject.toml": project["version"],
        "odps_nb/__init__.py": own[1] if own else "none",
        "labextensions/odps-nb/package.json": extension["version"],
        "CITATION.cff": cited[1] if cited else "none",
    }


def open_points(changelog: str, version: str) -> list[str]:
    """Return what a changelog lacks to be that of a release."""
    parts = re.split(r"^## ", changelog, flags=re.M)[1:]
    found = {part.partition("\n")[0].strip(): part.partition("\n")[2].strip() for part in parts}
    points = []
    if found.get("Unreleased"):
        points.append("CHANGELOG.md: *Unreleased* is not empty")
    heading = next((name for name in found if name.split()[:1] == [version]), None)
    if heading is None:
        points.append(f"CHANGELOG.md has no part {version}")
    elif not re.search(r"\d{4}-\d\d-\d\d", heading):
        points.append(f"CHANGELOG.md: {version} has no date")
    return points


def wrong_contents(packages: list[Path], tracked: set[str]) -> list[str]:
    """Return what is missing in or does not belong into the two packages."""
    (wheel,) = [path for path in packages if path.suffix == ".whl"]
    (source,) = [path for path in packages if path.suffix == ".gz"]
    with tarfile.open(source) as packed:
        held = {one.name.partition("/")[2] for one in packed.getmembers() if one.isfile()}
    made = {name for name in held if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    wrong = [f"{source.name}: {name}" for name in sorted((held - made) ^ tracked)]
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        about = [name for name in names if ".dist-info/" in name]
        (metadata,) = [name for name in about if name.endswith("/METADATA")]
        fields = Parser().parsestr(packed.read(metadata).decode())
    held = {LABEXTENSION.sub("", name) for name in names if name not in about}
    wanted = {name for name in tracked if name.startswith(("odps_nb/", "labextensions/odps-nb/"))}
    wrong += [f"{wheel.name}: {name}" for name in sorted(held ^ wanted)]
    if not any(name.endswith("/licenses/LICENSE") for name in about):
        wrong.append(f"{wheel.name}: no LICENSE")
    if fields["License-Expression"] != "Apache-2.0":
        wrong.append(f"{wheel.name}: License-Expression is {fields['License-Expression']}")
    return wrong


def git(*words: str) -> str:
    """Return what git says."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def tools() -> Path:
    """Return the folder with twine and cyclonedx-py, which is made the first time."""
    if not (TOOLS / "bin" / "cyclonedx-py").exists():
        venv.create(TOOLS, with_pip=True, clear=True)
        pip = [str(TOOLS / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", *WANTED], check=True)
    return TOOLS / "bin"


def built_twice() -> list[Path]:
    """Build into ``dist/``, which is emptied before; end where a second build differs."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    packages = build(DIST, commit_time())
    with tempfile.TemporaryDirectory() as folder:
        for again in build(Path(folder), commit_time()):
            if again.read_bytes() != (DIST / again.name).read_bytes():
                sys.exit(f"{again.name} has other bytes when it is built again")
    return packages


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rehearsal", action="store_true", help="an unfinished tree is taken")
    rehearsal = parser.parse_args().rehearsal
    versions = stated_versions(ROOT)
    if len(set(versions.values())) > 1:
        sys.exit(f"the versions differ: {versions}")
    version = versions["pyproject.toml"]
    points = open_points((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
    if git("status", "--short"):
        points.append("there are changes that are not committed")
    if points and not rehearsal:
        sys.exit("\n".join(points))
    packages = built_twice()
    tracked = set(git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"))
    if wrong := wrong_contents(
        packages, {name for name in tracked if name and (ROOT / name).exists()}
    ):
        sys.exit("\n".join(["missing, or too many:", *wrong]))
    subprocess.run([tools() / "twine", "check", "--strict", *packages], check=True)
    sbom = DIST / f"odps_nb-{version}.cdx.json"
    tried = [tools() / "python", ROOT / "tools" / "check_package.py", DIST]
    subprocess.run([*tried, "--quickstart", "--sbom", sbom], check=True)
    print("\n".join(f"  {path.relative_to(ROOT)}" for path in sorted(DIST.iterdir())))
    for point in points:
        print(f"  not yet a release: {point}")


if __name__ == "__main__":
    main()
