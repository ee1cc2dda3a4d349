"""Caches whole, verified blobs on disk, so that opening one again needs no request.

Each blob has one file in a private folder, named after a hash of service, project and reference::

    | the blob | magic, 8 | size, u64 LE | key, 32 | CRC32C of the blob | CRC32C since the magic |

A complete file is renamed into place, and fully verified whenever it is opened. Damaged files are
removed. Processes share the folder without a lock.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import logging
import os
import secrets
import shutil
import stat
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from odps_nb.errors import ConfigError
from odps_nb.explained import expanded
from odps_nb.secret import make_private
from odps_nb.terms import BlobReference, format_bytes, parse_bytes
from odps_nb.wire.crc32c import crc32c

if TYPE_CHECKING:
    from odps_nb.client.auth.profile import Profile

_MAGIC = b"odpsnb\x00\x01"
_FOOTER = struct.Struct("<8sQ32sII")
_PIECE = 1 << 20
_PART = ".part"
_PART_AGE = 3600.0  # seconds after which an unfinished file is removed
SPARE = 1 << 30  # bytes of disk space to leave free
_LARGEST = 4  # a blob may use at most a quarter of the cache
_LOOK_BYTES, _LOOK_FILES = 16, 1000  # rescan after writing 1/16 of the limit, or 1000 files

_log = logging.getLogger("odps_nb")


class CachedBlob:
    """A blob's bytes in a file; they stay readable after the file is removed."""

    def __init__(self, file: io.BytesIO | io.FileIO, size: int) -> None:
        self._file = file
        self.size: int = size

    def read_at(self, place: int, view: memoryview) -> int:
        """Fill ``view`` with bytes, starting at offset ``place``; return the number of bytes."""
        return read_file(self._file, place, view[: max(0, self.size - place)])

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._file.close()


class BlobCache:
    """A folder of verified blobs; the least recently used ones are removed first.

    Threads and processes may share the folder, even after a fork. Disk errors are not raised; the
    blob is then fetched without being cached.

    Parameters
    ----------
    folder
        Path of the folder, which is created when needed and readable only by this user. A folder
        that belongs to another user, or that others can write to, is never used.
    service
        Address of the service, and the project in which the references are valid.
    limit
        Maximum bytes in all files. A blob is not cached if it is larger than a quarter of this
        limit, or if less than 1 GiB of disk space would be left.
    """

    def __init__(self, folder: Path, service: tuple[str, str], *, limit: int) -> None:
        self.folder: Path = folder
        """The folder that contains the files."""
        self.limit: int = limit
        """Maximum bytes in all files; each process may briefly exceed this limit by 1/16."""
        self._service = service
        # Counts since the last scan of the folder; races between threads only make them inexact.
        self._bytes = self._files = -1
        self._warned = False

    @property
    def size(self) -> int:
        """Total bytes in all files; scans the folder."""
        return sum(status.st_size for _, status in self._entries())

    def find(self, reference: BlobReference) -> CachedBlob | None:
        """Return a cached blob with verified bytes, or ``None``; the caller closes it."""
        key = self._key(reference)
        path = self._path(key)
        try:
            if not self._is_private():
                return None
            descriptor = os.open(path, os.O_RDONLY | _SAFELY)
        except OSError:
            return None
        file = io.FileIO(descriptor, "rb")
        try:
            size = _checked(file, key)
            if size is not None:
                _touch(path)
                return CachedBlob(file, size)
        except OSError as error:
            _log.info("a cached blob is not readable: %s", error)
        except BaseException:
            file.close()
            raise
        file.close()
        _log.info("a cached blob is damaged; fetching it again")
        _remove(path)
        return None

    def keep(self, reference: BlobReference, size: int, pieces: Iterable[bytes]) -> bool:
        """Cache a whole, verified blob; return whether it was cached."""
        if size + _FOOTER.size > self.limit // _LARGEST:
            return False
        key = self._key(reference)
        path = self._path(key)
        part = path.with_name(f"{path.name}.{secrets.token_hex(6)}{_PART}")
        try:
            make_private(self.folder)
            if not self._is_private() or shutil.disk_usage(self.folder).free < size + SPARE:
                return False
            _write(part, key, pieces)
            part.replace(path)
        except OSError as error:
            _log.info("a blob was not cached: %s", error)
            return False
        finally:
            _remove(part)
        self._make_room(size + _FOOTER.size)
        return True

    def clear(self) -> int:
        """Remove the files of all services and projects; return the number of freed bytes.

        Blobs that are open stay readable.
        """
        freed = 0
        for path, status in self._entries():
            if _remove(path):
                freed += status.st_size
        return freed

    def __repr__(self) -> str:
        return f"BlobCache({str(self.folder)!r}, limit={format_bytes(self.limit)!r})"

    def _key(self, reference: BlobReference) -> bytes:
        named = "\0".join((*self._service, reference.token))
        return hashlib.sha256(named.encode()).digest()

    def _path(self, key: bytes) -> Path:
        return self.folder / key.hex()

    def _is_private(self) -> bool:
        status = self.folder.lstat()
        if os.name == "nt":  # user folders are private on Windows
            return True
        own = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not own or not stat.S_ISDIR(status.st_mode):  # reject links, which may lead anywhere
            level, self._warned = logging.INFO if self._warned else logging.WARNING, True
            why = "it is a link, or another user owns it or can write to it"
            _log.log(level, "no blobs are cached in %s: %s", self.folder, why)
            return False
        if status.st_mode & 0o077:
            self.folder.chmod(0o700)
        return True

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # another process may have removed it
                    if _is_ours(entry.name) and entry.is_file(follow_symlinks=False):
                        yield Path(entry.path), entry.stat(follow_symlinks=False)

    def _make_room(self, added: int) -> None:
        """Remove the least recently used files if the limit would be exceeded."""
        if self._files >= 0:
            self._bytes, self._files = self._bytes + added, self._files + 1
            if self._bytes < self.limit // _LOOK_BYTES and self._files < _LOOK_FILES:
                return
        self._bytes = self._files = 0
        entries = sorted(self._entries(), key=lambda entry: entry[1].st_mtime_ns)
        held, old = sum(status.st_size for _, status in entries), time.time() - _PART_AGE
        for path, status in entries:
            if path.name.endswith(_PART):
                if status.st_mtime < old and _remove(path):
                    held -= status.st_size
            elif held > self.limit - self.limit // _LOOK_BYTES and _remove(path):
                held -= status.st_size


_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def _is_ours(name: str) -> bool:
    stem = name.partition(".")[0]
    return len(stem) == 64 and set(stem) <= set("0123456789abcdef")


def _checked(file: io.FileIO, key: bytes) -> int | None:
    """Return the size of the blob in a file, or ``None`` if the file is damaged."""
    size = os.fstat(file.fileno()).st_size - _FOOTER.size
    footer = bytearray(_FOOTER.size)
    if size < 0 or read_file(file, size, memoryview(footer)) < len(footer):
        return None
    magic, stated, of, content, own = _FOOTER.unpack(footer)
    if (magic, stated, of, own) != (_MAGIC, size, key, crc32c(footer[:-4])):
        return None
    piece, offset, checksum = bytearray(_PIECE), 0, 0
    while offset < size:
        view = memoryview(piece)[: min(_PIECE, size - offset)]
        if read_file(file, offset, view) < len(view):
            return None
        checksum, offset = crc32c(view, checksum), offset + len(view)
    return size if checksum == content else None


def _write(part: Path, key: bytes, pieces: Iterable[bytes]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY
    # fsync is not needed, because verification detects a file damaged by a system crash.
    with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
        size = checksum = 0
        for piece in pieces:
            file.write(piece)
            size, checksum = size + len(piece), crc32c(piece, checksum)
        footer = _FOOTER.pack(_MAGIC, size, key, checksum, 0)[:-4]
        file.write(footer + crc32c(footer).to_bytes(4, "little"))


def read_file(file: io.BytesIO | io.FileIO, place: int, view: memoryview) -> int:
    """Fill ``view`` from an unbuffered file at offset ``place``; return the number of bytes."""
    file.seek(place)
    done = 0
    while done < len(view) and (count := file.readinto(view[done:])):
        done += count
    return done


def _touch(path: Path) -> None:
    with contextlib.suppress(OSError):  # the disk may be read-only, or the file removed
        os.utime(path)


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError as error:
        if error.errno != errno.ENOENT:
            _log.info("a cached blob cannot be removed: %s", error)
        return False
    return True


DEFAULT_LIMIT = 4 << 30
"""Default maximum bytes in the cache."""


def cache_limit(stated: str | None) -> int:
    """Return the limit in bytes for a setting such as ``20 GB`` or ``512 MiB``; 0 for ``off``.

    Examples
    --------
    >>> cache_limit("20 GB"), cache_limit("1 MiB"), cache_limit("off")
    (20000000000, 1048576, 0)
    """
    if stated is None:
        return DEFAULT_LIMIT
    text = str(stated).strip()
    if text.lower() == "off":
        return 0
    limit = parse_bytes(text)
    if limit is None:
        raise ConfigError(
            f"blob_cache is {text!r}; it must be a size or 'off'",
            option="blob_cache",
            hint='write e.g. "20 GB", or "off" to keep no blobs on disk',
        )
    return limit


def open_cache(profile: Profile) -> BlobCache | None:
    """Return a profile's cache, or ``None`` if it is disabled; does not access the disk."""
    limit = cache_limit(profile.blob_cache)
    if not limit:
        return None
    if stated := os.environ.get("ODPS_NB_CACHE_DIR"):
        folder = expanded(stated)
    else:
        from platformdirs import user_cache_path

        folder = user_cache_path("odps_nb", appauthor=False)
    return BlobCache(folder / "blobs", (profile.endpoint, profile.project), limit=limit)
