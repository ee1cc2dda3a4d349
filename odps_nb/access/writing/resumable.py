"""Writes a folder so that the same call, made again, resumes where an earlier one ended.

Each group of files is a stream of its own in one write session. A stream that the service lists
as closed is complete; the journal says which files it holds. So a later process sends only the
other files, and commits streams by name, never those of a late writer. No stream is taken over and
no blob reference is used in another stream (``docs/protocol.md`` section 3.6).
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from odps_nb.access.progress import listener_of
from odps_nb.access.receipt import Receipt
from odps_nb.access.writing.files import checked, chunk_of, groups, make_table
from odps_nb.access.writing.folder_files import FolderFile, FolderFiles
from odps_nb.access.writing.journal import Journal, Noted, open_journal
from odps_nb.access.writing.rows import WriteOptions
from odps_nb.access.writing.sources import Target
from odps_nb.access.writing.uploading import BlobUploader
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.catalog import table_exists
from odps_nb.client.write.operations import WriteSessionRef
from odps_nb.client.write.session import (
    WriteSession,
    fetch_write_state,
    open_write_session,
)
from odps_nb.errors import ConflictError, NotFoundError, SessionExpiredError
from odps_nb.terms import SessionStatus

if TYPE_CHECKING:
    from odps_nb.access.table import Table

_log = logging.getLogger("odps_nb")


def write_files_resumable(
    files: FolderFiles, table: Table, options: WriteOptions, *, create: bool
) -> Receipt:
    """Write what an earlier call has not, and commit all once; see `Connection.write_files`."""
    files.check()
    if create and not table_exists(table.connection.storage, table.name):
        make_table(table, options)
    target, options = checked(table, options)
    service = table.connection.profile
    key = (service.endpoint, str(table.name), str(options.partition), options.overwrite)
    listener = listener_of(options.progress)
    with (
        open_journal(*key, *files.key()) as journal,
        ProgressTracker("write", str(table.name), listener=listener) as tracker,
    ):
        token = table.connection.storage.operation(options.cancel)
        upload = _Upload(table, target, list(files), options, journal, tracker, token)
        if (receipt := upload.begin(journal.read())) is not None:
            return receipt
        return upload.run()


@dataclass(slots=True)
class _Upload:
    """One call of `write_files_resumable`."""

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
    """Paths that the service has, by their closed stream."""
    size: int = 0  # bytes of Arrow sent by this call
    asked: bool = False  # for the commit

    # -- what an earlier call left --------------------------------------------------------------

    def begin(self, noted: Noted | None) -> Receipt | None:
        """Resume the session of an earlier call, or open one; return a receipt if all is done."""
        total = sum(one.size for one in self.files)
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
                self.table.connection.storage,
                self.table.name,
                partition=self.options.partition,
                overwrite=bool(self.options.overwrite),
                tracker=self.tracker,
                cancel=self.token,
            )
            opened.owned = False  # it stays for the next call, whatever happens to this one
            self.session = opened
            self.journal.begin(opened.ref)
        return None

    def _is_committed(self, ref: WriteSessionRef, noted: Noted) -> bool:
        """Whether an earlier call committed its session; resume one that is open."""
        storage = self.table.connection.storage
        try:
            state = fetch_write_state(storage, ref, tracker=self.tracker)
            status = (state.status or "").upper()
        except (NotFoundError, SessionExpiredError) as error:
            if noted.committed is not None:
                raise self._unknown(ref, str(error)) from error
            self._say(f"the session of an earlier call is gone, all is sent again: {error}")
            return False
        if status == SessionStatus.COMMITTED.value:
            if noted.committed is None:
                raise self._unknown(ref, "somebody else committed the session")
            return True
        if status == "ABORTED":
            self._say("the session of an earlier call was aborted, all is sent again")
            return False
        if not status and noted.committed is not None:
            raise self._unknown(ref, "the service does not say its status")
        self.session = WriteSession(
            storage, ref, tracker=self.tracker, cancel=self.token, owned=False
        )
        self.tracker.plan(session_id=ref.session_id)
        self._keep(noted, set(state.streams))
        return False

    def _keep(self, noted: Noted, closed: set[str]) -> None:
        """Keep the closed streams whose files have not changed."""
        here = {(one.path, one.size, one.modified) for one in self.files}
        done: set[str] = set()
        for stream, files in noted.streams.items():
            paths = {path for path, _, _ in files}
            if stream in closed and here.issuperset(files) and done.isdisjoint(paths):
                self.arrived[stream] = paths
                done |= paths
        sizes = sum(one.size for one in self.files if one.path in done)
        self.tracker.add(rows=len(done), items=len(done), item_bytes=sizes)
        self._say(f"{len(done):,} of {len(self.files):,} files had arrived before")

    def _unknown(self, ref: WriteSessionRef, why: str) -> ConflictError:
        return ConflictError(
            f"whether an earlier call committed session {ref.session_id} is unknown: {why}",
            code="CommitUnknown",
            hint=f"look whether the files are in {self.table.name}; to write them all again, "
            f"remove {self.journal.path}",
        )

    def _say(self, what: str) -> None:
        self.tracker.noted(what)
        _log.info("write of %s: %s", self.table.name, what)

    # -- this call ------------------------------------------------------------------------------

    def run(self) -> Receipt:
        """Send what has not arrived, and commit."""
        assert self.session is not None  # by begin
        before = sum(map(len, self.arrived.values()))
        done = set().union(*self.arrived.values())
        try:
            for group in groups(one for one in self.files if one.path not in done):
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
        sizes = [one.size for one in self.files]
        return self._receipt(self.session.ref, sizes, resumed=before)

    def _send(self, group: list[FolderFile]) -> None:
        assert self.session is not None
        first = sum(map(len, self.arrived.values()))
        name = f"{len(self.arrived) + 1}-{uuid.uuid4().hex[:12]}"  # new also after a crash
        with self.session.open_stream(name) as stream:
            uploader = BlobUploader(stream, self.target, self.table.connection)
            batch = uploader.finish(chunk_of(group, first, self.target))
            for one in group:  # they are uploaded by now: what was sent is what the rows say
                one.require_unchanged()
            self.journal.add(stream.stream_id, group)
            stream.write([batch], self.options.compression)
            self.size += stream.close().size
        self.arrived[stream.stream_id] = {one.path for one in group}

    def _how_far(self) -> str:
        if self.asked:
            return "the same call, made again, finds out what became of the commit, and goes on"
        count = sum(map(len, self.arrived.values()))
        return (
            f"{count:,} of {len(self.files):,} files have arrived, and nothing is committed: the "
            "same call, made again, goes on from there"
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
