"""Lists the files of a folder one by one in a fixed order."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from odps_nb.client.blob.upload import open_file, require_size
from odps_nb.errors import ArgumentError, ConfigError, FramingError

_LATEST = 2**63
"""Limit of times in nanoseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFile:
    """One listed file.

    ``file`` is the full path, ``path`` the path relative to the folder, with ``/``; ``size`` is in
    bytes, ``modified`` in nanoseconds since 1970 (UTC).
    """

    file: Path
    path: str
    size: int
    modified: int

    def head(self, size: int) -> bytes:
        """Return the first bytes of the file."""
        try:
            with open_file(self.file) as opened:
                return opened.read(size)
        except OSError as error:
            raise _unreadable(self.file, error) from error

    def require_unchanged(self) -> None:
        """Raise if the file has changed since it was listed."""
        try:
            now = self.file.stat()
        except OSError as error:
            raise _unreadable(self.file, error) from error
        is_link = os.path.realpath(self.file) != str(self.file)
        if is_link or (now.st_size, now.st_mtime_ns) != (self.size, self.modified):
            raise FramingError(
                f"{self.file} changed while it was being sent",
                hint="repeat the call while no other program changes the folder",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFiles:
    """The files of a folder, sorted by path within each folder; see `Table.write_files`."""

    folder: Path
    patterns: Sequence[str] = ("*",)
    recursive: bool = True
    hidden: bool = False
    follow_links: bool = False

    def key(self) -> tuple[object, ...]:
        """Return a key that is equal for objects that select the same files."""
        chosen = (self.recursive, self.hidden, self.follow_links)
        return (os.path.realpath(self.folder), *chosen, *self.patterns)

    def check(self) -> tuple[int, int]:
        """Walk the folder once; return the number of files and their total size in bytes."""
        if not os.path.isdir(self.folder):  # noqa: PTH112  does not raise for a long name
            raise ConfigError(
                f"{self.folder} is not a folder", option="folder", hint="pass an existing folder"
            )
        count = size = 0
        for file in self:
            count, size = count + 1, size + file.size
            require_size(str(file.file), file.size)  # before any file is sent
            if not os.access(file.file, os.R_OK):
                raise _unreadable(file.file, PermissionError(13, "Permission denied"))
        if not count:
            raise ArgumentError(
                f"no file in {self.folder} matches {' or '.join(self.patterns)}",
                argument="pattern",
                hint="use '*' to match all files, even in subfolders, except hidden ones",
            )
        return count, size

    def __iter__(self) -> Iterator[FolderFile]:
        return self._walk(self.folder, "", ())

    def _walk(self, folder: Path, below: str, above: tuple[str, ...]) -> Iterator[FolderFile]:
        real = os.path.realpath(folder)
        if real in above:
            raise ConfigError(
                f"{folder} is a link to one of its parent folders",
                option="follow_links",
                hint="remove the link, or omit follow_links",
            )
        for entry in self._entries(folder):
            path = below + entry.name
            is_wanted = any(
                fnmatchcase(path if "/" in pattern else entry.name, pattern)
                for pattern in self.patterns
            )
            if not is_wanted and not _is_folder(entry):
                continue  # also a link or a broken link, which would raise an error
            status = self._stat(entry, path)
            if stat.S_ISDIR(status.st_mode):
                if self.recursive:
                    yield from self._walk(folder / entry.name, path + "/", (*above, real))
            elif is_wanted:
                _check_kind(entry.path, path, status)
                file = os.path.realpath(entry.path) if self.follow_links else f"{real}/{entry.name}"
                yield FolderFile(
                    file=Path(file), path=path, size=status.st_size, modified=status.st_mtime_ns
                )

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as error:
            raise _unreadable(folder, error) from error
        return entries if self.hidden else [entry for entry in entries if entry.name[0] != "."]

    def _stat(self, entry: os.DirEntry[str], path: str) -> os.stat_result:
        try:
            if not self.follow_links and entry.is_symlink():
                other = "remove it" if _is_folder(entry) else "exclude it with pattern="
                raise ConfigError(
                    f"{path} is a symbolic link",
                    option="follow_links",
                    hint=f"pass follow_links=True to write its target, or {other}",
                )
            return entry.stat()
        except OSError as error:
            raise _unreadable(entry.path, error) from error


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether this is a folder or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # e.g. a link to itself
        return False


def _check_kind(file: str, path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(
            f"{file} is a pipe, socket or device, not a regular file",
            option="folder",
            hint="move it, or exclude it with pattern=",
        )
    if not -_LATEST <= status.st_mtime_ns < _LATEST:
        raise ConfigError(
            f"{file} was modified at a time outside the years 1677 to 2262",
            option="folder",
            hint="set another time with touch, or exclude it with pattern=",
        )
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"the name of {path!r} is not valid UTF-8", option="folder", hint="rename it"
        ) from None


def _unreadable(file: Path | str, error: OSError) -> ConfigError:
    return ConfigError(
        f"{file} cannot be read: {error.strerror or error}",
        option="folder",
        hint="make it readable, or exclude it with pattern=; nothing was written",
    )
