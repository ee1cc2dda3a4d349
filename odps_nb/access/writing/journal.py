"""A journal on this machine of one upload of a folder, so that the same call can resume it.

The service knows which streams of a session are closed, the journal which files they hold. It has
lines of JSON, each written before the step that it records::

    {"format": 1, "session": …, "route": …}                   a write session was opened
    {"stream": …, "files": [[path, size, modified], …]}       rows of these are sent into a stream
    {"commit": [stream, …]}                                   the commit of these is asked for

It holds no reference, no key and no content of files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odps_nb.access.writing.folder_files import FolderFile
from odps_nb.client.write.operations import WriteSessionRef
from odps_nb.errors import ConfigError, ConflictError

_FORMAT = 1
_OLD = 30 * 86400.0  # seconds

NotedFile = tuple[str, int, int]
"""Path below the folder, size, time of the last change in nanoseconds."""


@dataclass(slots=True)
class Noted:
    """What an earlier call noted; ``committed`` are the streams whose commit it requested."""

    session_id: str
    route_token: str | None
    streams: dict[str, list[NotedFile]] = field(default_factory=dict)
    committed: tuple[str, ...] | None = None


class Journal:
    """The notes of one upload, open in this process alone; made by `open_journal`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path: Path = path
        self._descriptor = descriptor

    def read(self) -> Noted | None:
        """Return what an earlier call noted, or ``None``; a line that was cut is left out."""
        noted: Noted | None = None
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(0)
            for line in file:
                try:
                    noted = _with(noted, json.loads(line))
                except (ValueError, KeyError, TypeError):
                    break
        return noted

    def begin(self, session: WriteSessionRef) -> None:
        """Forget what was noted, and note a session."""
        os.ftruncate(self._descriptor, 0)
        ids = {"session": session.session_id, "route": session.route_token}
        self._append({"format": _FORMAT, **ids})

    def add(self, stream_id: str, files: Iterable[FolderFile]) -> None:
        """Note the files whose rows are to be sent into a stream now."""
        named = [[one.path, one.size, one.modified] for one in files]
        self._append({"stream": stream_id, "files": named})

    def commits(self, streams: Iterable[str]) -> None:
        """Note that the commit of these streams is to be asked for now."""
        self._append({"commit": [*streams]})

    def remove(self) -> None:
        """Forget the upload: it is over."""
        self.path.unlink(missing_ok=True)

    def _append(self, line: dict[str, Any]) -> None:
        data = memoryview((json.dumps(line) + "\n").encode())
        os.lseek(self._descriptor, 0, os.SEEK_END)
        while data:
            data = data[os.write(self._descriptor, data) :]


def _with(noted: Noted | None, line: dict[str, Any]) -> Noted | None:
    if noted is None:
        if line["format"] != _FORMAT:
            return None
        return Noted(str(line["session"]), line["route"])
    if "commit" in line:
        noted.committed = tuple(line["commit"])
    else:
        files = [(str(path), int(size), int(when)) for path, size, when in line["files"]]
        noted.streams[line["stream"]] = files
    return noted


@contextmanager
def open_journal(*key: object) -> Iterator[Journal]:
    """Open and lock the journal of one upload, named by service, table, folder and patterns."""
    from platformdirs import user_state_path

    folder = user_state_path("odps_nb", appauthor=False) / "uploads"
    path = folder / (hashlib.sha256(repr(key).encode()).hexdigest()[:32] + ".jsonl")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_old(folder)
        descriptor = _locked(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or error}",
            option="resume",
            hint="make it writable, set XDG_STATE_HOME, or leave resume= out",
        ) from error
    try:
        yield Journal(path, descriptor)
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Return a descriptor of the file that this process alone has locked."""
    try:
        import fcntl
    except ImportError:
        raise ConfigError(
            "this system has no locks for files", option="resume", hint="leave resume= out"
        ) from None
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise ConflictError(
                "this folder is being written to this table already",
                code="UploadUnderWay",
                hint="wait for the other call, or stop it",
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # whoever had it has just ended and removed it


def _remove_old(folder: Path) -> None:
    for path in folder.glob("*.jsonl"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _OLD:
                path.unlink()
