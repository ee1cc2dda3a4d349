"""The stored corpus: one archive of inputs per target, in addition to the generated seeds.

The same inputs always give the same archive, so that a diff shows real changes.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def targets() -> list[str]:
    """Return the names of the targets that have inputs."""
    return sorted(path.stem for path in CORPUS.glob("*.zip"))


def inputs(target: str) -> dict[str, bytes]:
    """Return the seeds and the stored inputs of a target, by name."""
    from .seeds import seeds  # not at the top, because its imports must be instrumented first

    made = {f"seed-{name}": data for where, name, data in seeds() if where == target}
    path = CORPUS / f"{target}.zip"
    if not path.exists():  # a source distribution contains no archives
        return made
    with zipfile.ZipFile(path) as archive:
        return made | {name: archive.read(name) for name in archive.namelist()}


def unpack(target: str, folder: Path) -> Path:
    """Write all inputs of a target as files; return their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in inputs(target).items():
        (folder / name).write_bytes(data)
    return folder


def pack(target: str, folder: Path) -> None:
    """Replace a target's archive with the files in a folder, without the seeds."""
    CORPUS.mkdir(exist_ok=True)
    with zipfile.ZipFile(CORPUS / f"{target}.zip", "w") as archive:
        for path in sorted(folder.iterdir()):
            if not path.name.startswith("seed-"):
                entry = zipfile.ZipInfo(path.name, _EPOCH)
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
