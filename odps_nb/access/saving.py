"""Writes a stream of chunks to a file under a safe name, either completely or not at all."""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import BinaryIO

from odps_nb.errors import ConfigError
from odps_nb.explained import expanded
from odps_nb.formats.media_types import ending_of
from odps_nb.terms import shorten

MAX_NAME_BYTES = 150
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f-\x9f<>:"|?*\ud800-\udfff]')
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Invisible characters that Unicode classifies as letters, marks or symbols."""
_LOADED = re.compile(
    r"(?i).*\.(py[cdiow]?|pth|so(\.[\d.]+)?|dll|dylib|egg-link)"
    r"|(desktop|autorun|pytest|tox|mypy)\.ini|((gnu)?makefile|dockerfile|justfile|package\.json"
    r"|pyproject\.toml|setup\.cfg|thumbs\.db)"
)
"""File names that Python, a build tool or a file manager loads from the current folder."""
_ACTED_ON = re.compile(
    r"(?i).*\.(scf|lnk|url|library-ms|searchconnector-ms|theme|desktop|webloc|inetloc)"
)
"""File names that may make a file manager contact a server or start a program."""
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[\d¹²³])\s*(\.|$)")


def safe_name(stated: str) -> str:
    """Return a safe form of a file name stated by an uploader; empty if nothing is left.

    The result has at most 150 bytes and keeps the extension. It has no folder and no leading dot,
    and it contains no control, direction or invisible characters. It is never a device name or a
    command option (``-rf``). A name that Python or another tool would load, such as ``pandas.py``,
    gets the prefix ``blob-``, so that ``import`` does not find it. An extension that a file manager
    acts on (``.scf``) gets a final ``_``.
    """
    name, cleaned = "", _FORBIDDEN.sub("_", stated.replace("\\", "/").rsplit("/", 1)[-1])
    cleaned = "".join(
        "_" if sign in _UNSEEN or unicodedata.category(sign) in ("Cf", "Zl", "Zp") else sign
        for sign in cleaned
    )
    while cleaned != name:  # truncation may leave a trailing space or a device name
        name, cleaned = cleaned, re.sub(r"\s+", " ", cleaned.strip()).strip(".")
        cleaned = _not_loaded(f"_{cleaned}" if cleaned.startswith("-") else cleaned)
        cleaned = _cut(f"_{cleaned}" if _DEVICES.match(cleaned) else cleaned)
    return name


def _not_loaded(name: str) -> str:
    if _ACTED_ON.fullmatch(name):
        return f"{name}_"
    return f"blob-{name}" if _LOADED.fullmatch(name) and not name.startswith("blob-") else name


def _cut(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    if not dot or len(ending.encode()) > 16:
        stem, ending = name, ""
    room = MAX_NAME_BYTES - len(ending.encode()) - 1
    stem = stem.encode()[:room].decode("utf-8", "ignore")
    return f"{stem}.{ending}" if ending else stem


def file_name_for(stated: str, mime_type: str, token: str) -> str:
    """Return a safe file name for a blob: its own, or one built from its reference and type."""
    if name := safe_name(stated):
        return name
    ending = ending_of(mime_type) or ".bin"
    return f"blob-{hashlib.sha256(token.encode()).hexdigest()[:12]}{ending}"


def save_stream(chunks: Iterable[bytes], target: Path, *, overwrite: bool) -> Path:
    """Write chunks to a file, completely or not at all, and return its path."""
    _check_folder(target.parent)
    _check_length(target)
    if target.is_dir():
        raise ConfigError(f"{target} is a folder", option="path", hint="pass the name of a file")
    if target.exists() and not overwrite:
        raise _taken(target)
    names = iter([target])
    return _save(lambda file: file.writelines(chunks), names, target.parent, overwrite=overwrite)


class Folder:
    """Saves many files in a folder, appending a number to each name that is taken.

    Names that differ only in case or Unicode normalization are treated as equal, as on some file
    systems. ``overwrite`` applies to existing files; files saved by the same object never replace
    each other.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        _make_folder(path)
        self._path, self._overwrite = path, overwrite
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}  # next number to try for each name

    def save(self, chunks: Iterable[bytes], name: str) -> Path:
        """Write chunks to a file and return its path; ``name`` must be a safe name."""
        return self.fill(lambda file: file.writelines(chunks), name)

    def fill(self, write: Callable[[BinaryIO], object], name: str) -> Path:
        """Call ``write`` with an open file, and return the path; ``name`` must be a safe name."""
        saved = _save(write, self._free(name), self._path, overwrite=self._overwrite)
        self._taken.add(_as_one(saved.name))
        return saved

    def _free(self, name: str) -> Iterator[Path]:
        stem = _as_one(name)
        # Start after the last number used: many equal names would take quadratic time otherwise.
        for number in itertools.count(self._numbers.get(stem, 1)):
            self._numbers[stem] = number + 1
            candidate = _with_number(name, number)
            if _as_one(candidate) not in self._taken:
                yield self._path / candidate


def _as_one(name: str) -> str:
    """Return a key that is the same for all names that a file system may treat as equal."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def made_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder with its parents if it is missing, and return its path."""
    folder = expanded(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot(f"create the folder {shorten(str(folder), 80)}", error) from error
    return folder


def _check_folder(path: Path) -> None:
    if os.path.isdir(path):  # noqa: PTH112  does not raise for a long name
        return
    if os.path.exists(path):  # noqa: PTH110
        raise ConfigError(f"{path} is not a folder", option="path", hint="pass a folder")
    raise ConfigError(f"the folder {path} does not exist", option="path", hint="create it first")


def _make_folder(path: Path) -> None:
    """Create the folder if only its last part is missing; otherwise, the path is probably wrong."""
    try:
        path.mkdir(exist_ok=True)
    except FileExistsError:
        _check_folder(path)
    except FileNotFoundError:
        _check_folder(path.parent)
    except OSError as error:
        raise _cannot(f"create the folder {shorten(str(path), 80)}", error) from error


def _cannot(
    act: str, error: OSError, hint: str = "choose a folder that you may write to"
) -> ConfigError:
    return ConfigError(f"cannot {act}: {error.strerror}", option="path", hint=hint)


def _save(
    write: Callable[[BinaryIO], object], names: Iterator[Path], folder: Path, *, overwrite: bool
) -> Path:
    """Write a temporary file and rename it atomically to the first free name."""
    temporary = folder / f".odps-nb-{secrets.token_hex(8)}"
    try:
        try:
            with _made(temporary) as file:
                _filled(file, write)
            return _claim(temporary, names, overwrite=overwrite)
        finally:
            temporary.unlink(missing_ok=True)
    finally:  # repeated, because an interrupt may have skipped the line above
        temporary.unlink(missing_ok=True)


def _made(temporary: Path) -> BinaryIO:
    try:
        return temporary.open("xb")
    except OSError as error:
        raise _cannot(f"create a file in {temporary.parent}", error) from error


def _filled(file: BinaryIO, write: Callable[[BinaryIO], object]) -> None:
    try:
        write(file)
        file.flush()
    except OSError as error:
        if error.errno not in _FULL:
            raise
        folder = Path(file.name).parent
        raise _cannot(f"write a file in {folder}", error, "free space on its disk") from error


def _claim(temporary: Path, names: Iterator[Path], *, overwrite: bool) -> Path:
    """Rename the file atomically to the first free name."""
    for name in names:
        if overwrite and not name.is_dir():
            temporary.replace(name)
            return name
        try:
            os.link(temporary, name)
        except FileExistsError:
            continue
        except OSError:  # the file system does not support hard links
            if not _claim_empty(temporary, name):
                continue
        return name
    raise _taken(name)


def _check_length(name: Path) -> None:
    try:
        name.exists()
    except OSError as error:
        hint = "pass a shorter name"
        raise _cannot(f"create {shorten(str(name), 80)}", error, hint) from error


def _claim_empty(temporary: Path, name: Path) -> bool:
    """Reserve a name with an empty file, which the complete file then replaces."""
    try:
        name.touch(exist_ok=False)
    except FileExistsError:
        return False
    try:
        temporary.replace(name)
    except BaseException:
        name.unlink()
        raise
    return True


def _with_number(name: str, number: int) -> str:
    if number == 1:
        return name
    path = PurePath(name)
    return f"{path.stem}-{number}{path.suffix}"


def _taken(target: Path) -> ConfigError:
    return ConfigError(
        f"{target} already exists", option="path", hint="use another name, or overwrite=True"
    )
