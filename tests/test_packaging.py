"""The published files: built offline from a copy of the checkout, and inspected."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

EPOCH = "1700000000"
VERSIONED = {
    "pyproject.toml": r'^version = "(.+)"$',
    "odps_nb/__init__.py": r'^__version__ = "(.+)"$',
    "labextensions/odps-nb/package.json": r'^\s*"version": "(.+)",$',
    "CITATION.cff": r'^version: "(.+)"$',
}

ADVISORIES = {  # the first version without known defects, and the advisories for older versions
    "h5py": ("3.13", "CVE-2026-26200, in the HDF5 of older wheels"),
    "jupyterlab": ("4.5.7", "fixed in 4.5.7"),
    "nbconvert": ("7.17.1", "CVE-2026-39378"),
    "pillow": ("12.3", "CVE-2026-25990; CVE-2026-4775 in the libtiff of 12.1.1 and 12.2.0"),
    "starlette": ("1.3", "CVE-2026-48710, PYSEC-2026-248"),
    "urllib3": ("2.7", "CVE-2026-44431, CVE-2026-44432"),
}


def checked_in(repo: Path) -> set[str]:
    """Return the files of the checkout (those in git, if it is a repository)."""
    if not (repo / ".git").exists():  # an unpacked source distribution
        pytest.skip("this is not a checkout: `make test` in a checkout builds packages")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=repo, capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split("\0") if name and (repo / name).exists()}


def copied(repo: Path, target: Path, names: set[str], *, mtime: int) -> Path:
    for name in names:
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repo / name, path)
        os.utime(path, (mtime, mtime))
    return target


def build(checkout: Path, mask: int) -> dict[str, Path]:
    """Build in a separate process, with its own umask."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."],
        cwd=checkout,
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PIP_NO_INDEX": "1"},
        preexec_fn=lambda: os.umask(mask) and None,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: path for path in (checkout / "dist").iterdir()}


@pytest.fixture(scope="module")
def built(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A build with a umask that denies reading, in a folder with leftover files."""
    folder = tmp_path_factory.mktemp("one") / "odps"
    checkout = copied(repo, folder, checked_in(repo), mtime=1_650_000_000)
    (checkout / "odps_nb" / "__pycache__").mkdir()
    (checkout / "odps_nb" / "__pycache__" / "left.cpython-311.pyc").write_bytes(b"left over")
    return build(checkout, 0o077)


@pytest.mark.nightly  # a second build; `make test` checks the contents of the first
def test_two_builds_of_the_same_files_have_the_same_bytes(
    repo: Path, built: dict[str, Path], tmp_path: Path
) -> None:
    """The second build has another folder, other file times and another umask."""
    again = build(copied(repo, tmp_path / "other", checked_in(repo), mtime=1_600_000_000), 0o022)
    one, two = (
        {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items()}
        for found in (built, again)
    )
    assert one == two
    assert len(one) == 2


@pytest.mark.nightly
def test_the_source_distribution_is_the_checkout_without_the_fuzzing_corpus(
    repo: Path, built: dict[str, Path]
) -> None:
    (path,) = [path for name, path in built.items() if name.endswith(".tar.gz")]
    with tarfile.open(path) as packed:
        found = {one.name.partition("/")[2] for one in packed.getmembers() if one.isfile()}
    corpus = {name for name in checked_in(repo) if name.startswith("fuzz/corpus/")}
    assert found - {"PKG-INFO"} == checked_in(repo) - corpus


def test_the_wheel_contains_only_the_library_and_its_labextension(
    repo: Path, built: dict[str, Path]
) -> None:
    (path,) = [path for name, path in built.items() if name.endswith(".whl")]
    with zipfile.ZipFile(path) as packed:
        names = packed.namelist()
        found = {name for name in names if ".dist-info/" not in name}
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = packed.read(metadata).decode()
    # pip puts files below *.data/data/ where JupyterLab looks for extensions
    data = re.compile(r"^odps_nb-[\d.]+\.data/data/share/jupyter/")
    found = {data.sub("", name) for name in found}
    wanted = ("odps_nb/", "labextensions/odps-nb/")
    assert found == {name for name in checked_in(repo) if name.startswith(wanted)}
    assert "labextensions/odps-nb/static/remoteEntry.js" in found
    assert "License-Expression: Apache-2.0" in text
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_version_is_the_same_everywhere(repo: Path) -> None:
    texts = {name: (repo / name).read_text("utf-8") for name in VERSIONED}
    found = {name: re.search(pattern, texts[name], re.M) for name, pattern in VERSIONED.items()}
    assert len({one and one[1] for one in found.values()}) == 1, found


def test_the_citation_is_valid_and_names_the_authors_as_a_whole(repo: Path) -> None:
    cited = yaml.safe_load((repo / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)  # CFF 1.2.0 demands these
    assert cited["cff-version"] == "1.2.0"
    assert cited["authors"] == [{"name": "The odps_nb authors"}]
    project = (repo / "pyproject.toml").read_text("utf-8")
    assert f'license = "{cited["license"]}"' in project
    assert f'description = "{cited["abstract"]}"' in project


@pytest.mark.parametrize("name", ADVISORIES)
def test_no_version_with_a_known_defect_is_permitted(repo: Path, name: str) -> None:
    project = tomllib.loads((repo / "pyproject.toml").read_text("utf-8"))["project"]
    parts = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = [one for one in map(Requirement, itertools.chain(*parts)) if one.name == name]
    assert wanted
    faultless, why = ADVISORIES[name]
    for one in wanted:
        (floor,) = (each.version for each in one.specifier if each.operator == ">=")
        assert Version(floor) >= Version(faultless), why
