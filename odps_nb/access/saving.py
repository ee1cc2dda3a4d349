"""Writing a stream to a file safely (floor 4): whole or not at all, no surprises in names.

Knows no blobs and no service: chunks in, a file out.
"""

from __future__ import annotations

import contextlib
import hashlib
import mimetypes
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from odps_nb.errors import ConfigError

__all__ = ["file_name_for", "safe_name", "save_stream"]

MAX_NAME_BYTES = 150
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f-\x9f<>:"|?*\u202a-\u202e\u2066-\u2069\ud800-\udfff]')
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")


def safe_name(stated: str) -> str:
    """Return a plain file name from whatever an uploader wrote; empty if nothing is left.

    No folders, no hidden files, no control or direction marks, no device names, at most
    150 bytes with the ending kept.
    """
    name = _FORBIDDEN.sub("_", stated.replace("\\", "/").rsplit("/", 1)[-1])
    name = name.strip().strip(".").strip()
    if _DEVICES.match(name):
        name = f"_{name}"
    stem, dot, ending = name.rpartition(".")
    if not dot or len(ending.encode()) > 16:
        stem, ending = name, ""
    room = MAX_NAME_BYTES - len(ending.encode()) - 1
    stem = stem.encode()[:room].decode("utf-8", "ignore")
    return f"{stem}.{ending}" if ending else stem


def file_name_for(stated: str, mime_type: str, token: str) -> str:
    """Return a safe name for a blob: its own, or one made from its reference and type."""
    if name := safe_name(stated):
        return name
    ending = mimetypes.guess_extension(mime_type.split(";")[0].strip()) or ".bin"
    return f"blob-{hashlib.sha256(token.encode()).hexdigest()[:12]}{ending}"


def save_stream(
    chunks: Iterable[bytes], target: Path, *, overwrite: bool, number_if_taken: bool = False
) -> tuple[Path, int]:
    """Write chunks to a file; return where it is and how many bytes it has.

    The bytes go into a temporary file beside the target, which takes the name in one step when
    all of them are there. With ``number_if_taken`` a taken name gets ``-2``, ``-3``, ….

    Raises
    ------
    ConfigError
        The target exists (``overwrite`` would allow that), or its folder does not.
    """
    if not target.parent.is_dir():
        raise ConfigError(
            f"the folder {target.parent} does not exist", option="path", hint="make it first"
        )
    if target.exists() and not overwrite and not number_if_taken:
        raise _taken(target)
    temporary = target.with_name(f".odps-nb-{secrets.token_hex(8)}")
    try:
        size = 0
        with temporary.open("xb") as file:
            for chunk in chunks:
                size += file.write(chunk)
        if overwrite:
            temporary.replace(target)
            return target, size
        return _claim(temporary, target, number_if_taken=number_if_taken), size
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _claim(temporary: Path, target: Path, *, number_if_taken: bool) -> Path:
    """Give the file its name unless somebody has it; checking and taking is one step."""
    names: Iterator[Path] = _numbered(target) if number_if_taken else iter([target])
    for name in names:
        try:
            os.link(temporary, name)
        except FileExistsError:
            continue
        except OSError:  # a file system without links: claim the name with an empty file
            try:
                name.touch(exist_ok=False)
            except FileExistsError:
                continue
            temporary.replace(name)
        return name
    raise _taken(target)


def _numbered(target: Path) -> Iterator[Path]:
    yield target
    for number in range(2, 10_000):
        yield target.with_name(f"{target.stem}-{number}{target.suffix}")


def _taken(target: Path) -> ConfigError:
    return ConfigError(
        f"{target} exists already", option="path", hint="choose another name or overwrite=True"
    )
