"""The service's write sessions as a small state machine: the basis of the commit protocol.

The model has the rules of ``docs/protocol.md`` section 7, without bytes on a wire.
`tests/model/test_commit_protocol.py` explores histories of clients with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from odps_nb.errors import ConflictError, OdpsNbError, SessionExpiredError
from odps_nb.local import errors
from odps_nb.wire import calls
from odps_nb.wire.schema_json import WriteSchema
from tests.model.tunnel import SCHEMA, Accounts

__all__ = ["SCHEMA", "Rows", "Service"]

_WRITE_SCHEMA = WriteSchema.of(SCHEMA)
OPEN, COMMITTED, ABORTED = "NORMAL", "COMMITTED", "ABORTED"


@dataclass(frozen=True)
class Rows:
    """An upload: the call, and the values of its only column."""

    call: Any
    values: tuple[int, ...]


@dataclass
class Stream:
    """A version of a stream; ``token`` counts how often it was opened or looked up."""

    is_open: bool = True
    token: int = 1
    values: list[int] = field(default_factory=list)


@dataclass
class Session:
    """A write session and its streams, by (id, version)."""

    status: str = OPEN
    streams: dict[tuple[str, int], Stream] = field(default_factory=dict)

    def newest(self, stream_id: str) -> int:
        return max((version for name, version in self.streams if name == stream_id), default=0)

    def stream(self, stream_id: str, version: int) -> Stream:
        if (stream_id, version) not in self.streams:
            raise errors.no_such_stream(stream_id)
        return self.streams[stream_id, version]


@dataclass
class Service:
    """One table that only grows, and its write sessions; ``log`` records requests and results."""

    table: list[int] = field(default_factory=list)
    sessions: dict[str, Session] = field(default_factory=dict)
    log: list[tuple[Any, str, Any]] = field(default_factory=list)  # requests with responses
    others: Accounts = field(init=False)  # the other services, which write to the same table

    def __post_init__(self) -> None:
        self.others = Accounts(self.table)

    def answer(self, request: Any) -> Any:
        """Execute a request; rejections are raised as the client sees them."""
        kind = request.call if isinstance(request, Rows) else request
        try:
            action = _ACTIONS.get(type(kind))
            answer = action(self, request) if action else self.others.answer(request)
        except OdpsNbError as error:
            self.log.append((request, type(error).__name__, None))
            raise
        self.log.append((request, "done", answer))
        return answer

    def _session(self, session_id: str) -> Session:
        if session_id not in self.sessions:
            raise SessionExpiredError("no such session", status=404, code="NoSuchSession")
        return self.sessions[session_id]

    def _create(self, request: calls.CreateWriteSession) -> calls.WriteSessionAnswer:
        name = f"s{len(self.sessions)}"
        self.sessions[name] = Session()
        return calls.WriteSessionAnswer(session_id=name)

    def _get(self, request: calls.GetWriteSession) -> calls.WriteSessionStateAnswer:
        session = self._session(request.session_id)
        return calls.WriteSessionStateAnswer(streams=dict(_closed(session)), status=session.status)

    def _commit(self, request: calls.CommitWriteSession) -> calls.EmptyAnswer:
        session = self._session(request.session_id)
        if session.status == COMMITTED:
            return calls.EmptyAnswer()
        _require_open(session)
        for stream_id, version in request.streams or _closed(session):
            self.table += session.stream(stream_id, version).values
        session.status = COMMITTED
        return calls.EmptyAnswer()

    def _abort(self, request: calls.AbortWriteSession) -> calls.EmptyAnswer:
        session = self._session(request.session_id)
        if session.status == COMMITTED:
            raise ConflictError("the session is committed", status=409, code="InvalidState")
        session.status = ABORTED
        return calls.EmptyAnswer()

    def _open_stream(self, request: calls.CreateWriteStream) -> calls.WriteStreamAnswer:
        session = self._session(request.session_id)
        _require_open(session)
        newest = session.newest(request.stream_id)
        if request.stream_version < newest:
            raise errors.invalid_state("a newer version is there")
        if request.stream_version > newest:
            session.streams[request.stream_id, request.stream_version] = Stream()
        else:
            session.stream(request.stream_id, request.stream_version).token += 1
        return _about(session.stream(request.stream_id, request.stream_version))

    def _get_stream(self, request: calls.GetWriteStream) -> calls.WriteStreamAnswer:
        stream = self._session(request.session_id).stream(request.stream_id, request.stream_version)
        stream.token += bool(request.exactly_once)
        return _about(stream)

    def _close_stream(self, request: calls.CloseWriteStream) -> calls.EmptyAnswer:
        session = self._session(request.session_id)
        stream = session.stream(request.stream_id, request.stream_version)
        if session.status == ABORTED:
            raise errors.invalid_state("the session is aborted")
        stream.is_open = False
        return calls.EmptyAnswer()

    def _write(self, request: Rows) -> calls.WriteRowsAnswer:
        call = request.call
        session = self._session(call.session_id)
        stream = session.stream(call.stream_id, call.stream_version)
        _require_open(session)
        if session.newest(call.stream_id) > call.stream_version or not stream.is_open:
            raise errors.invalid_state("the stream is closed or replaced")
        if call.row_offset is not None:
            if call.access_token != str(stream.token):
                raise errors.forbidden("not the newest token")
            if call.row_offset + len(request.values) <= len(stream.values):
                return calls.WriteRowsAnswer(row_offset=len(stream.values))
            if call.row_offset != len(stream.values):
                raise errors.offset_conflict(len(stream.values), call.row_offset)
        stream.values += request.values
        return calls.WriteRowsAnswer(
            row_offset=None if call.row_offset is None else len(stream.values)
        )


_ACTIONS: dict[type, Any] = {
    calls.CreateWriteSession: Service._create,
    calls.GetWriteSession: Service._get,
    calls.CommitWriteSession: Service._commit,
    calls.AbortWriteSession: Service._abort,
    calls.CreateWriteStream: Service._open_stream,
    calls.GetWriteStream: Service._get_stream,
    calls.CloseWriteStream: Service._close_stream,
    calls.WriteRows: Service._write,
}


def _require_open(session: Session) -> None:
    if session.status != OPEN:
        raise errors.invalid_state(f"the session is {session.status}")


def _closed(session: Session) -> list[tuple[str, int]]:
    """The highest closed version of each stream, in the order of their names."""
    found = {
        name: version for (name, version), one in sorted(session.streams.items()) if not one.is_open
    }
    return sorted(found.items())


def _about(stream: Stream) -> calls.WriteStreamAnswer:
    return calls.WriteStreamAnswer(
        schema=_WRITE_SCHEMA,
        table_id="1",
        schema_version="1",
        access_token=str(stream.token),
        row_offset=len(stream.values),
        record_count=len(stream.values),
    )
