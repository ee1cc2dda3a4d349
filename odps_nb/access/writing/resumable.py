"""Writes a folder so that repeating the call resumes where an earlier call ended.

Each group of files is one stream of a write session. A stream that the service lists as closed is
complete, and the journal lists its files. So a later call sends only the remaining files. The
commit lists its streams by name, which excludes the streams of a stale writer. No open stream is
resumed, and no blob reference is used in another stream (``docs/protocol.md`` section 3.6).

The journal consists of JSON lines, each written before the step that it records. It contains no
blob references, access keys or file contents::

    {"format": 1, "session": …, "route": …}                   a write session was opened
    {"stream": …, "files": [[path, size, modified], …]}       these files are being sent
    {"commit": [stream, …]}                                   the commit is being requested
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odps_nb.access.progress import listener_of
from odps_nb.access.receipt import Receipt
from odps_nb.access.writing.files import checked, chunk_of, groups, make_table
from odps_nb.access.writing.folder_files import FolderFile, FolderFiles
from odps_nb.access.writing.rows import WriteOptions
from odps_nb.access.writing.sources import Target
from odps_nb.access.writing.uploading import CellUploader
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.catalog import table_exists
from odps_nb.client.write.base import WriteSession
from odps_nb.client.write.operations import WriteSessionRef
from odps_nb.client.write.session import (
    fetch_write_state,
    open_write_session,
    resume_write_session,
)
from odps_nb.errors import ConfigError, ConflictError, NotFoundError, SessionExpiredError
from odps_nb.secret import make_private
from odps_nb.terms import SessionStatus

if TYPE_CHECKING:
    from odps_nb.access.table import Table

_log = logging.getLogger("odps_nb")
_FORMAT = 1
_OLD = 30 * 86400.0  # seconds


def write_files_resumable(
    files: FolderFiles, table: Table, options: WriteOptions, *, create: bool
) -> Receipt:
    """Write the files that an earlier call did not write, and commit all of them."""
    files.check()
    if create and not table_exists(table.connection._storage, table.name):
        make_table(table, options)
    target, options = checked(table, options)
    service = table.connection.profile
    key = (service.endpoint, str(table.name), str(options.partition), options.overwrite)
    listener = listener_of(options.progress)
    with (
        open_journal(*key, *files.key()) as journal,
        ProgressTracker("write", str(table.name), listener=listener) as tracker,
    ):
        token = table.connection._storage.operation(options.cancel)
        upload = _Upload(table, target, list(files), options, journal, tracker, token)
        if (receipt := upload.begin(journal.read())) is not None:
            return receipt
        return upload.run()


@dataclass(slots=True)
class _Upload:
    """One call to `write_files_resumable`."""

    table: Table
    target: Target
    files: list[FolderFile]
    options: WriteOptions
    journal: Journal
    tracker: ProgressTracker
    token: CancelToken
    began: float = field(default_factory=time.monotonic)
    session: WriteSession | None = None
    arrived: dict[str, set[str]] = field(default_factory=dict)
    """Paths of the files that have arrived, by closed stream."""
    size: int = 0  # Arrow bytes sent by this call
    asked: bool = False  # whether the commit was requested

    # -- state of an earlier call --------------------------------------------------------------

    def begin(self, noted: Noted | None) -> Receipt | None:
        """Resume an earlier call's session or open one; if it was committed, return a receipt."""
        total = sum(file.size for file in self.files)
        self.tracker.plan(rows_total=len(self.files), bytes_total=total or None)
        if noted is not None:
            ref = WriteSessionRef(
                table=self.table.name,
                session_id=noted.session_id,
                partition=self.options.partition,
                route_token=noted.route_token,
            )
            if self._is_committed(ref, noted):
                self.journal.remove()
                streams = [noted.streams[stream] for stream in noted.committed or ()]
                sizes = [size for files in streams for _, size, _ in files]
                return self._receipt(ref, sizes, resumed=len(sizes))
        if self.session is None:
            opened = open_write_session(
                self.table.connection._storage,
                self.table.name,
                partition=self.options.partition,
                overwrite=bool(self.options.overwrite),
                shared=True,
                tracker=self.tracker,
                cancel=self.token,
            )
            opened.owned = False  # keep the session for the next call even if this one fails
            self.session = opened
            self.journal.begin(opened.ref)
        return None

    def _is_committed(self, ref: WriteSessionRef, noted: Noted) -> bool:
        """Return whether an earlier call committed its session; if it is open, resume it."""
        storage = self.table.connection._storage
        try:
            state = fetch_write_state(storage, ref, tracker=self.tracker)
            status = (state.status or "").upper()
        except (NotFoundError, SessionExpiredError) as error:
            if noted.committed is not None:
                raise self._unknown(ref, str(error)) from error
            self._say(f"the earlier session was not found; sending all files again: {error}")
            return False
        if status == SessionStatus.COMMITTED.value:
            if noted.committed is None:
                raise self._unknown(
                    ref, "the session is committed, but the journal does not record a commit"
                )
            return True
        if status == "ABORTED":
            self._say("the earlier session was aborted; sending all files again")
            return False
        if not status and noted.committed is not None:
            raise self._unknown(ref, "the service does not report its status")
        self.session = resume_write_session(storage, ref, tracker=self.tracker, cancel=self.token)
        self.tracker.plan(session_id=ref.session_id)
        self._keep(noted, set(state.streams))
        return False

    def _keep(self, noted: Noted, closed: set[str]) -> None:
        """Keep the closed streams whose files have not changed."""
        here = {(file.path, file.size, file.modified) for file in self.files}
        done: set[str] = set()
        for stream, files in noted.streams.items():
            paths = {path for path, _, _ in files}
            if stream in closed and here.issuperset(files) and done.isdisjoint(paths):
                self.arrived[stream] = paths
                done |= paths
        sizes = sum(file.size for file in self.files if file.path in done)
        self.tracker.add(rows=len(done), items=len(done), item_bytes=sizes)
        self._say(f"{len(done):,} of {len(self.files):,} files arrived in an earlier call")

    def _unknown(self, ref: WriteSessionRef, why: str) -> ConflictError:
        return ConflictError(
            f"it is unknown whether an earlier call committed session {ref.session_id}: {why}",
            code="CommitUnknown",
            hint=f"check whether the files are in {self.table.name}; to write them all again, "
            f"remove {self.journal.path}",
        )

    def _say(self, what: str) -> None:
        self.tracker.noted(what)
        _log.info("write of %s: %s", self.table.name, what)

    # -- this call ------------------------------------------------------------------------------

    def run(self) -> Receipt:
        """Send the files that have not arrived, and commit."""
        assert self.session is not None  # set by begin
        before = sum(map(len, self.arrived.values()))
        done = set().union(*self.arrived.values())
        try:
            for group in groups(file for file in self.files if file.path not in done):
                self._send(group)
            self.journal.commits(self.arrived)
            self.asked = True
            self.options.before_commit()
            self.session.commit([(stream, 1) for stream in self.arrived])
        except BaseException as error:
            error.add_note(self._how_far())
            raise
        self.journal.remove()
        self.table.reload()
        sizes = [file.size for file in self.files]
        return self._receipt(self.session.ref, sizes, resumed=before)

    def _send(self, group: list[FolderFile]) -> None:
        assert self.session is not None
        first = sum(map(len, self.arrived.values()))
        name = f"{len(self.arrived) + 1}-{uuid.uuid4().hex[:12]}"  # unique even after a crash
        with self.session.open_stream(name) as stream:
            uploader = CellUploader(stream, self.target, self.table.connection)
            batch = uploader.finish(chunk_of(group, first, self.target))
            for file in group:  # after the upload, verify that the rows describe the sent bytes
                file.require_unchanged()
            self.journal.add(stream.stream_id, group)
            stream.write([batch], self.options.compression)
            self.size += stream.close().size
        self.arrived[stream.stream_id] = {file.path for file in group}

    def _how_far(self) -> str:
        if self.asked:
            return "repeat the same call: it resumes unless the commit has succeeded"
        count = sum(map(len, self.arrived.values()))
        return (
            f"{count:,} of {len(self.files):,} files have arrived, and nothing is committed; "
            "repeat the same call to resume"
        )

    def _receipt(self, ref: WriteSessionRef, sizes: list[int], *, resumed: int) -> Receipt:
        return Receipt(
            table=self.table.name,
            partition=self.options.partition,
            overwrite=bool(self.options.overwrite),
            rows=len(sizes),
            bytes=self.size,
            blobs=len(sizes),
            blob_bytes=sum(sizes),
            session_id=ref.session_id,
            streams=len(self.arrived),
            seconds=time.monotonic() - self.began,
            resumed=resumed,
        )


# -- the journal ---------------------------------------------------------------------------------

NotedFile = tuple[str, int, int]
"""Path relative to the folder, size in bytes, modification time in nanoseconds."""


@dataclass(slots=True)
class Noted:
    """An earlier call's journal; ``committed`` lists the streams that the call tried to commit."""

    session_id: str
    route_token: str | None
    streams: dict[str, list[NotedFile]] = field(default_factory=dict)
    committed: tuple[str, ...] | None = None


class Journal:
    """The journal of one upload, locked by this process; created by `open_journal`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path: Path = path
        self._descriptor = descriptor

    def read(self) -> Noted | None:
        """Return the entries of an earlier call, or ``None``; ignore a truncated line."""
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
        """Clear the journal and record a session."""
        os.ftruncate(self._descriptor, 0)
        ids = {"session": session.session_id, "route": session.route_token}
        self._append({"format": _FORMAT, **ids})

    def add(self, stream_id: str, files: Iterable[FolderFile]) -> None:
        """Record the files whose rows are about to be sent to a stream."""
        named = [[file.path, file.size, file.modified] for file in files]
        self._append({"stream": stream_id, "files": named})

    def commits(self, streams: Iterable[str]) -> None:
        """Record that the commit of these streams is about to be requested."""
        self._append({"commit": [*streams]})

    def remove(self) -> None:
        """Delete the journal after the upload has ended."""
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
    """Open and lock the journal of an upload, identified by service, table, folder and patterns."""
    from platformdirs import user_state_path

    folder = user_state_path("odps_nb", appauthor=False) / "uploads"
    path = folder / (hashlib.sha256(repr(key).encode()).hexdigest()[:32] + ".jsonl")
    try:
        make_private(folder)
        _remove_old(folder)
        descriptor = _locked(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or error}",
            option="resume",
            hint="make it writable, set XDG_STATE_HOME, or omit resume=",
        ) from error
    try:
        yield Journal(path, descriptor)
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Lock the file exclusively for this process and return its descriptor."""
    try:
        import fcntl
    except ImportError:
        raise ConfigError(
            "this system has no file locks", option="resume", hint="omit resume="
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
                "another call is already writing this folder to this table",
                code="UploadUnderWay",
                hint="wait for the other call, or stop it",
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous owner has just removed the file, so create it again


def _remove_old(folder: Path) -> None:
    for path in folder.glob("*.jsonl"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _OLD:
                path.unlink()
