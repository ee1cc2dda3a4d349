"""Files of other projects, fetched by package name and kept outside of git.

pip, npm and apt provide the sources of their packages. pip also builds metadata of each source.
Only the unpacked source is needed here, so a failed build does not matter.

    python -m tests.support.corpora fetches all missing ones
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = Path(os.environ.get("ODPS_NB_CORPORA") or ROOT / ".corpora")

#: Package and version. Another version may have different files: change it in a separate commit.
PYPI = {
    "pillow": "13.0.0",
    "pydicom": "3.0.2",
    "fastavro": "1.13.1",
    "python-calamine": "0.9.1",
    "openpyxl": "3.1.5",
    "tablib": "3.10.0",
    "pypdf": "7.1.1",
    "imageio": "2.38.1",
    "tifffile": "2026.3.3",
    "scikit-image": "0.26.0",
    "mutagen": "1.48.1",
    "tinytag": "2.3.2",
    "chardet": "5.2.0",
    "nbformat": "5.11.1",
    "rdflib": "7.6.0",
    "gensim": "4.4.0",
}
NPM = {"vega-datasets": "3.2.1"}
DEBIAN = {"shared-mime-info": "2.2-1", "exiv2": "0.27.6-1"}
VERSIONS = {**PYPI, **NPM, **DEBIAN}
_SUITE = "bookworm"
_TESTS = {"shared-mime-info": "tests/mime-detection", "exiv2": "test/data"}
#: Extensions with many similar files, of which the first ones of a corpus are enough.
_SOURCES = (
    ".build .c .cpp .css .h .js .jsonld .md .n3 .nq .nt .otf .plist .py .pyi .pyx .rdf .rq .rst"
    " .ru .srx .trig .trix .ttf .ttl .typed .xml"
)
SOURCES = frozenset(_SOURCES.split())
ENOUGH = 25
_MADE_HERE = re.compile(r"\.egg-info/|/__pycache__/")  # created by pip and Python
_NO_NETWORK = re.compile(
    r"NewConnectionError|ConnectTimeoutError|name resolution|network is unreachable"
    r"|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|Could not resolve|Could not connect",
    re.IGNORECASE,
)


class NoNetworkError(Exception):
    """The registry could not be reached."""


def folder(name: str) -> Path:
    """Return the folder of a corpus; fetch it if it is missing.

    Raises
    ------
    NoNetworkError
        The registry cannot be reached.
    RuntimeError
        The registry can be reached, but does not return the package.
    """
    version = VERSIONS[name]
    place = PLACE / f"{name}-{version}"
    if not place.exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PLACE) as work:
            fetched = _from_pypi if name in PYPI else _from_npm if name in NPM else _from_debian
            unpacked = fetched(f"{name}=={version}", Path(work))
            try:
                unpacked.rename(place)
            except OSError:
                if not place.exists():  # otherwise, another test process was faster
                    raise
    return place


def files(name: str) -> Iterator[tuple[str, Path]]:
    """Yield the path in the corpus and the location of each non-empty file, in a fixed order."""
    place = folder(name)
    counts: Counter[str] = Counter()
    for path in sorted(place.rglob("*")):
        is_made_here = bool(_MADE_HERE.search(path.as_posix()))
        if path.is_file() and not path.is_symlink() and path.stat().st_size and not is_made_here:
            counts[path.suffix] += 1
            if path.suffix not in SOURCES or counts[path.suffix] <= ENOUGH:
                yield path.relative_to(place).as_posix(), path


def _from_pypi(wanted: str, work: Path) -> Path:
    name = wanted.partition("==")[0]
    unpacked = work / "unpacked"
    unpacked.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    # pip builds metadata after unpacking; with --no-clean, the source remains even if that fails
    command += ["--no-clean", "--no-build-isolation", "--no-binary", name, "-d", str(work), wanted]
    said = _run(command, {"TMPDIR": str(unpacked)})
    found = [path for path in unpacked.glob("pip-*/*") if path.name.startswith(f"{name}_")]
    return _only(found, wanted, said)


def _from_npm(wanted: str, work: Path) -> Path:
    require("npm", "npm")
    said = _run(["npm", "pack", "--silent", wanted.replace("==", "@")], {}, work)
    packed = _only([*work.glob("*.tgz")], wanted, said)
    with tarfile.open(packed) as archive:
        archive.extractall(work, filter="data")
    return work / "package"


def _from_debian(wanted: str, work: Path) -> Path:
    """Return the folder of test files, from the archive of this machine's own packages."""
    for program in ("apt-get", "dpkg-source"):
        require(program, "dpkg-dev")
    made = "Created-By: Packages"
    uris = _run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", made], {})
    archive = next((u for u, suite in map(str.split, uris.splitlines()) if suite == _SUITE), "")
    if not archive:
        raise RuntimeError(f"{wanted} was not fetched: apt has no sources of Debian {_SUITE}")
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (work / "sources").write_text(f"deb-src [signed-by={key}] {archive} {_SUITE} main\n")
    (work / "lists" / "partial").mkdir(parents=True)
    apt = ["apt-get", "-q", "-o", f"Dir::State::lists={work}/lists"]
    apt += ["-o", f"Dir::Etc::sourcelist={work}/sources", "-o", "Dir::Etc::sourceparts=-"]
    said = _run([*apt, "update"], {}) + _run([*apt, "source", wanted.replace("==", "=")], {}, work)
    name = wanted.partition("==")[0]
    return _only([*work.glob(f"{name}-*/{_TESTS[name]}")], wanted, said)


def _run(command: list[str], variables: dict[str, str], place: Path | None = None) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr


def require(program: str, package: str) -> None:
    """Raise an error that names the package to install if a program is missing."""
    if shutil.which(program) is None:
        raise RuntimeError(f"{program} is missing: install Debian's package {package}")


def _only(found: list[Path], wanted: str, said: str) -> Path:
    if len(found) == 1:
        return found[0]
    if _NO_NETWORK.search(said):
        raise NoNetworkError(f"{wanted} was not fetched: the registry cannot be reached")
    raise RuntimeError(f"{wanted} was not fetched:\n{said[-2000:]}")


def main() -> None:
    for name in VERSIONS:
        shown = sum(1 for _ in files(name))
        print(f"{name}: {shown} files", flush=True)


if __name__ == "__main__":
    main()
