"""`make package`: source distribution and wheel in ``dist/``, the same bytes for the same commit.

Times inside both are those of the commit; owners and the order of files say nothing about the
machine. Nothing is fetched: setuptools is what the environment has.

    python tools/package.py [FOLDER]
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commit_time() -> str:
    """Return when the commit was made, in seconds; `SOURCE_DATE_EPOCH` goes before it."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    command = ["git", "log", "-1", "--format=%ct"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def build(folder: Path, epoch: str) -> list[Path]:
    """Build both into a folder; return them."""
    before = set(folder.glob("*"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    # what a file may be made readable for must not depend on the user's mask
    os.umask(0o022)
    subprocess.run(command, env={**os.environ, "SOURCE_DATE_EPOCH": epoch}, check=True)
    made = sorted(set(folder.glob("*")) - before) or sorted(folder.glob("*"))
    for path in made:
        if path.name.endswith(".tar.gz"):
            normalise(path, int(epoch))
    return made


def normalise(path: Path, epoch: int) -> None:
    """Write a tar again, without what setuptools takes from the machine: times, owners, order."""
    plain = io.BytesIO()
    with (
        tarfile.open(path) as source,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid = epoch, 0, 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            target.addfile(member, source.extractfile(member) if member.isfile() else None)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, epoch) as packed:
        packed.write(plain.getvalue())


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    folder.mkdir(parents=True, exist_ok=True)
    for path in build(folder, commit_time()):
        print(path)


if __name__ == "__main__":
    main()
