"""Sends the requests of a question and records them with their answers.

Each request is sent once. Rows are read up to the question's bound. Must not
know: single questions.
"""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.arrow_body import RowStream
from odps_nb.client.sql.query import SqlInstance, run_sql
from odps_nb.client.sql.result import iter_result, open_result
from odps_nb.errors import AccessDeniedError, OdpsNbError, ServiceError
from odps_nb.http.transport import HttpResponse
from odps_nb.probe.bounded import BoundedTransport
from odps_nb.probe.question import POLLS, CannotTell, Observation
from odps_nb.probe.redaction import Redactor, shown_code, shown_headers, shown_members
from odps_nb.terms import TableName, TextMode, TextOptions
from odps_nb.wire.calls import ROUTE_TOKEN, STREAM_TYPE, Scope, WireRequest, find_header
from odps_nb.wire.calls.core import HTTP_CODINGS, JSON_TYPE, NO_SCOPE, storage_request, table_target
from odps_nb.wire.control import CancelInstance, SubmitSql

CODINGS = ",".join(HTTP_CODINGS.values())
MAX_DOCUMENT = 1 << 22  # bytes of an answer that is not rows
MAX_MESSAGE = 1 << 26  # bytes of one batch of rows
CANCEL_SECONDS = 10.0  # reserved in a question's time, to stop a statement that takes too long


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and its answer as plain JSON, not redacted yet."""

    request: Mapping[str, object]
    answer: Mapping[str, object]

    def as_json(self) -> dict[str, object]:
        """Return both as one JSON object."""
        return {"request": dict(self.request), "answer": dict(self.answer)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer: ``members`` of its JSON, or ``rows`` of its stream, or raw ``data``.

    ``types`` are the Arrow types of the stream as they were sent.
    """

    status: int
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, Any] = field(default_factory=dict)
    rows: pa.Table | None = None
    types: tuple[str, ...] = ()
    data: bytes = b""

    @property
    def is_refusal(self) -> bool:
        """Whether the service refused the request (4xx)."""
        return 400 <= self.status < 500

    def outcome(self) -> Observation:
        """Return whether it was refused, with status and code."""
        return {"refused": self.is_refusal, "status": self.status, "code": self.code}

    def need(self) -> Answer:
        """Return itself; raise `CannotTell` for a refusal or failure."""
        if self.status >= 400:
            raise CannotTell(f"a preparing request was refused: {self.status} {self.code}")
        return self

    def table(self) -> pa.Table:
        """Return the rows."""
        self.need()
        if self.rows is None:
            raise CannotTell("the answer has no rows")
        return self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spelled:
    """A request of the Storage API, given in parts by a question."""

    ACTION: ClassVar[str] = "probe"
    idempotent: ClassVar[bool] = False

    action: str
    target: str
    params: Mapping[str, object]
    body: Mapping[str, object] | None
    data: bytes | None
    headers: Mapping[str, str | None]

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode it for the wire."""
        wire = storage_request(
            self.action,
            self.target,
            tuple((key, str(value)) for key, value in self.params.items()),
            api_version=api_version,
            scope=scope,
            body=None if self.body is None else dict(self.body),
            content_type=JSON_TYPE if self.data is None else STREAM_TYPE,
            headers=self.headers.items(),
        )
        if self.data is None:
            return wire
        return WireRequest(
            method=wire.method,
            path=wire.path,
            params=wire.params,
            headers=wire.headers,
            body=self.data,
        )


class Asker:
    """Sends the requests of questions; counts rows, keeps the exchanges.

    Parameters
    ----------
    storage, transport
        The connection, and the transport that it sends by.
    redactor
        Replaces names in the report; is told those of sessions and columns here.
    own
        The user's own table. ``tables`` has full names by kind: ``table``, which is this one or a
        scratch table, and those of `scratch.KINDS` that were made.
    """

    def __init__(
        self,
        storage: StorageClient,
        transport: BoundedTransport,
        redactor: Redactor,
        own: TableName | None = None,
    ) -> None:
        self.storage, self.redactor, self.own = storage, redactor, own
        self.tables: dict[str, TableName] = {} if own is None else {"table": own}
        self.exchanges: list[Exchange] = []
        self._transport = transport
        self._rows_left = 0
        self._routes: dict[str, str] = {}
        self._writing: dict[str, str] = {}

    def begin(self, *, requests: int, rows: int, seconds: float) -> None:
        """Begin a question: set its bounds and clear what was recorded."""
        self._transport.begin(requests=requests, seconds=seconds)
        self._rows_left, self.exchanges, self._routes = rows, [], {}

    # -- the Storage API ----------------------------------------------------------------------

    def send(
        self,
        action: str,
        table: TableName | str,
        params: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
        kind: str = "json",
        may_deny: bool = False,
        may_fail: bool = False,
    ) -> Answer:
        """Send one request, once.

        Parameters
        ----------
        table
            A table, or the text of a ``Target``.
        body, data
            A JSON body, or bytes instead.
        kind
            Content of a successful answer: ``json``, ``rows`` or ``data``.
        may_deny
            Whether 401 and 403 answer the question, instead of meaning that the account lacks
            rights.
        may_fail
            Whether a status of 500 and more answers the question.
        """
        target = table if isinstance(table, str) else table_target(table)
        named = dict(params or {})
        route = self._routes.get(str(named.get("SessionId")))
        spelled = _Spelled(
            action=action,
            target=target,
            params=named,
            body=body if data is not None or body is not None else {},
            data=data,
            headers={ROUTE_TOKEN: route, **(headers or {})},
        )
        try:
            tries = self.storage.attempts(action)
            with self.storage.open(spelled, attempts=tries) as response:
                answer = self._read(response, kind)
        except ServiceError as error:
            if isinstance(error, AccessDeniedError) and not may_deny:
                self._record(spelled, {"status": error.status, "code": error.code})
                raise CannotTell(
                    f"the account lacks the right for it: {error.status} {shown_code(error.code)}"
                ) from None
            answer = Answer(status=error.status or 500, code=shown_code(error.code))
        self._learn(answer, target)
        if answer.status < 300:
            self._follow_write(action, target, str(named.get("SessionId")), answer)
        self._record(spelled, self._shown(answer))
        if answer.status >= 500 and not may_fail:
            raise CannotTell(f"the service failed: {answer.status} {answer.code}")
        return answer

    def ready(self, answer: Answer, again: Callable[[], Answer]) -> Answer:
        """Wait until a session is prepared; ``again`` gets its state once more."""
        for _ in range(POLLS):
            status = str(answer.members.get("SessionStatus") or answer.members.get("Status"))
            if status.upper() not in ("INIT", "INITIATING"):
                return answer
            time.sleep(min(1.0, self._transport.seconds_left))
            answer = again()
        raise CannotTell("the session was not prepared in time")

    def _follow_write(self, action: str, target: str, session: str, answer: Answer) -> None:
        if action == "TableCreateWriteSession":
            self._writing[str(answer.members.get("SessionId"))] = target
        elif action in ("TableCommitWriteSession", "TableAbortWriteSession"):
            self._writing.pop(session, None)

    def abort_writes(self) -> None:
        """Abort the write sessions that a question left open; one that remains expires."""
        writing, self._writing = self._writing, {}
        self.begin(requests=len(writing), rows=0, seconds=30.0)
        for session, target in writing.items():
            with contextlib.suppress(CannotTell, OdpsNbError):
                self.send("TableAbortWriteSession", target, {"SessionId": session})

    def _read(self, response: HttpResponse, kind: str) -> Answer:
        response.end_in_time()
        headers = dict(response.headers)
        if kind == "rows":
            rows, types = self._rows(response)
            return Answer(status=response.status, headers=headers, rows=rows, types=types)
        data = response.read(MAX_DOCUMENT)
        if kind == "data":
            return Answer(status=response.status, headers=headers, data=data)
        try:
            members = json.loads(data) if data else {}
        except ValueError:
            raise CannotTell("the answer is not JSON") from None
        if not isinstance(members, dict):
            raise CannotTell("the answer is not a JSON object")
        return Answer(status=response.status, headers=headers, members=members)

    def _rows(self, response: HttpResponse) -> tuple[pa.Table, tuple[str, ...]]:
        with RowStream(
            response,
            max_message=MAX_MESSAGE,
            max_decompressed=MAX_MESSAGE,
            text=TextMode.REPLACE,
        ) as stream:
            batches = []
            while (batch := stream.next()) is not None:
                self._count(batch.num_rows)
                batches.append(batch)
            rows = pa.Table.from_batches(batches, schema=stream.schema)
            return rows, tuple(map(str, stream.sent.types))

    def _count(self, rows: int) -> None:
        self._rows_left -= rows
        if self._rows_left < 0:
            raise CannotTell("the bound on rows was reached")

    def _learn(self, answer: Answer, target: str) -> None:
        if self.own is not None and target == table_target(self.own):
            self.redactor.learn_schema(answer.members)
        session = answer.members.get("SessionId") or answer.members.get("DownloadID")
        self.redactor.number(session, "session")
        route = find_header(answer.headers, ROUTE_TOKEN)
        self.redactor.number(route, "route")
        if session and route:
            self._routes[str(session)] = route
        for key in ("AccessToken", "QuotaToken"):
            self.redactor.number(answer.members.get(key), "token")
        self.redactor.number(answer.members.get("BlobReference"), "reference")

    def _shown(self, answer: Answer) -> dict[str, object]:
        shown: dict[str, object] = {"status": answer.status}
        if answer.code:
            shown["code"] = answer.code
        if answer.headers:
            shown["headers"] = shown_headers(answer.headers)
        if answer.members:
            shown["members"] = shown_members(answer.members)
        if answer.rows is not None:
            shown["rows"] = answer.rows.num_rows
            # names of fields are the user's: of a struct only its kind is shown
            shown["types"] = [one.partition("<")[0] for one in answer.types]
        return shown

    def _record(self, spelled: _Spelled, answer: Mapping[str, object]) -> None:
        body: object = spelled.body
        if spelled.data is not None:
            body = f"<{len(spelled.data)} bytes>"
        request: dict[str, object] = {
            "action": spelled.action,
            "target": spelled.target,
            "params": dict(spelled.params),
            "body": _short(body),
        }
        coding = spelled.headers.get("Accept-Encoding")
        if coding:
            request["accept_encoding"] = coding
        self.exchanges.append(Exchange(request=request, answer=dict(answer)))

    # -- SQL ----------------------------------------------------------------------------------

    def run(self, sql: str, settings: Mapping[str, str] | None = None) -> SqlInstance:
        """Run a statement and wait for its end.

        Raises `ServiceError`: it failed, or was refused.
        """
        left = max(0.1, self._transport.seconds_left - CANCEL_SECONDS)
        request = {"action": "SQL", "text": sql}
        try:
            instance = run_sql(self.storage, sql, settings=settings, timeout=left)
        except ServiceError as error:
            code = shown_code(error.code)
            answer = {"kind": type(error).__name__, "status": error.status, "code": code}
            self.exchanges.append(Exchange(request=request, answer=answer))
            if isinstance(error, AccessDeniedError):
                raise CannotTell("the account may not run this statement") from None
            raise
        self.redactor.number(instance.instance_id, "instance")
        self.exchanges.append(Exchange(request=request, answer={"ended": "well"}))
        return instance

    def submit(self, sql: str, guid: str) -> str:
        """Submit a job with this Guid, and return the id of its instance."""
        request = SubmitSql(project=self.storage.profile.project, sql=sql, unique_id=guid)
        instance = self.storage.submit(request).instance_id
        self.redactor.number(instance, "instance")
        self.exchanges.append(
            Exchange(request={"action": "SQL", "text": sql}, answer={"ended": "well"})
        )
        return instance

    def cancel(self, instance: SqlInstance) -> Answer:
        """Stop an instance; return whether that was refused."""
        stop = CancelInstance(project=instance.project, instance_id=instance.instance_id)
        answer = Answer(status=200)
        try:
            self.storage.control(stop)
        except ServiceError as error:
            answer = Answer(status=error.status or 500, code=shown_code(error.code))
        request = {"action": "CancelInstance"}
        self.exchanges.append(Exchange(request=request, answer=answer.outcome()))
        return answer

    def select(self, sql: str, settings: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Run a query and return its rows, up to the question's bound."""
        session = open_result(self.storage, self.run(sql, settings))
        self.redactor.number(session.session_id, "session")
        self._count(session.row_count)
        found: list[dict[str, Any]] = []
        for batch in iter_result(
            self.storage, session, workers=1, text=TextOptions(TextMode.REPLACE)
        ):
            found += batch.to_pylist()
        return found


def _short(body: object) -> object:
    """Shorten long lists, such as a thousand references."""
    if not isinstance(body, Mapping):
        return body
    return {
        key: [*value[:2], f"… {len(value)} in all"]
        if isinstance(value, list) and len(value) > 10
        else value
        for key, value in body.items()
    }


def ipc_bytes(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Encode rows as an Arrow stream without compression."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()
