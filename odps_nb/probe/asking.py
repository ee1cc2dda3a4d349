"""Sends each request of a question once, within the question's limits, and records it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.arrow_body import RowStream
from odps_nb.client.sql.query import SqlInstance, run_sql
from odps_nb.client.sql.result import iter_result, open_result
from odps_nb.client.transfer_check import TransferCheck, check_transfers, sample_of
from odps_nb.errors import AccessDeniedError, OdpsNbError, ServiceError
from odps_nb.http.transport import HttpRequest, HttpResponse, Transport
from odps_nb.probe.question import ANY, POLLS, CannotTell, Observation
from odps_nb.probe.redaction import Redactor, shown_code, shown_headers, shown_members
from odps_nb.terms import TableName, TextMode, TextOptions, Transfer
from odps_nb.wire.calls import ROUTE_TOKEN, STREAM_TYPE, Scope, WireRequest, find_header
from odps_nb.wire.calls.core import JSON_TYPE, NO_SCOPE, storage_request, table_target
from odps_nb.wire.control import CancelInstance, SubmitSql

MAX_DOCUMENT = 1 << 22  # maximum bytes of a response without rows
MAX_MESSAGE = 1 << 26  # maximum bytes of one batch of rows
CANCEL_SECONDS = 10.0  # seconds of the time limit to reserve for cancelling a slow statement


class BoundedTransport:
    """Transport that enforces the current question's limits by raising `CannotTell`."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._left, self._deadline = 0, 0.0
        self.sent = 0

    def begin(self, *, requests: int, seconds: float) -> None:
        """Set the maximum number of requests and the time limit, which starts now."""
        self._left, self._deadline = requests, time.monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """Seconds left for the current question; at least 0.1."""
        return max(0.1, self._deadline - time.monotonic())

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request; raise `CannotTell` if a limit is reached."""
        if self._left <= 0:
            raise CannotTell("the request limit was reached")
        if time.monotonic() >= self._deadline:
            raise CannotTell("the time limit was reached")
        self._left -= 1
        self.sent += 1
        left = self.seconds_left
        return self._inner.send(
            replace(
                request,
                connect_timeout=min(request.connect_timeout, left),
                read_timeout=min(request.read_timeout, left),
                send_timeout=min(request.send_timeout or left, left),
                document_timeout=min(request.document_timeout, left),
            )
        )

    def close(self) -> None:
        """Close all connections."""
        self._inner.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response: JSON ``members``, or ``rows`` with their ``types`` as sent, or raw ``data``."""

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

    @property
    def word(self) -> str:
        """``refused`` if the service refused the request, else ``taken``."""
        return "refused" if self.is_refusal else "taken"

    def outcome(self) -> Observation:
        """Return the status, the error code, and whether the service refused the request."""
        return {"refused": self.is_refusal, "status": self.status, "code": self.code}

    def need(self) -> Response:
        """Return the response itself; raise `CannotTell` for a refusal or failure."""
        if self.status >= 400:
            raise CannotTell(f"a preparatory request failed ({self.status} {self.code})")
        return self

    def table(self) -> pa.Table:
        """Return the rows."""
        self.need()
        assert self.rows is not None
        return self.rows

    def shown(self) -> dict[str, object]:
        """Return the parts of the response that may be recorded."""
        shown: dict[str, object] = {"status": self.status}
        if self.code:
            shown["code"] = self.code
        if self.headers:
            shown["headers"] = shown_headers(self.headers)
        if self.members:
            shown["members"] = shown_members(self.members)
        if self.rows is not None:
            shown["rows"] = self.rows.num_rows
            # record only the text before `<`: a struct type contains the names of the user's fields
            shown["types"] = [type_name.partition("<")[0] for type_name in self.types]
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A Storage API request whose parameters, body and headers a question chooses."""

    ACTION: ClassVar[str] = "probe"
    idempotent: ClassVar[bool] = False

    action: str
    target: str
    params: Mapping[str, object]
    body: Mapping[str, object]
    data: bytes | None
    headers: Mapping[str, str | None]

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request for the wire."""
        wire = storage_request(
            self.action,
            self.target,
            tuple((key, str(value)) for key, value in self.params.items()),
            api_version=api_version,
            scope=scope,
            body=dict(self.body),
            content_type=JSON_TYPE if self.data is None else STREAM_TYPE,
            headers=self.headers.items(),
        )
        return wire if self.data is None else replace(wire, body=self.data)

    def shown(self) -> dict[str, object]:
        """Return the parts of the request to record; truncate long lists, such as references."""
        body: object = (
            f"<{len(self.data)} bytes>"
            if self.data is not None
            else {
                key: [*value[:2], f"… {len(value)} in all"]
                if isinstance(value, list) and len(value) > 10
                else value
                for key, value in self.body.items()
            }
        )
        return {
            "action": self.action,
            "target": self.target,
            "params": dict(self.params),
            "body": body,
        }


class Asker:
    """Sends the questions' requests, counts rows, and records requests and responses.

    ``own`` is the user's table. ``tables`` maps each kind of table to its full name. The kinds are
    ``table`` and `ANY` (the user's table or a scratch table) and those in `scratch.KINDS`.
    """

    def __init__(
        self,
        storage: StorageClient,
        transport: BoundedTransport,
        redactor: Redactor,
        own: TableName | None = None,
    ) -> None:
        self.storage, self.redactor, self.own = storage, redactor, own
        self.tables: dict[str, TableName] = {} if own is None else {"table": own, ANY: own}
        self._lacks_storage_api = False
        self.exchanges: list[dict[str, object]] = []
        self._transport = transport
        self._rows_left = 0
        self._routes: dict[str, str] = {}
        self._writing: dict[str, str] = {}  # targets of open write sessions, by session id

    def begin(self, *, requests: int, rows: int, seconds: float) -> None:
        """Begin a question: set its limits and clear the recorded requests and responses."""
        self._transport.begin(requests=requests, seconds=seconds)
        self._rows_left, self.exchanges, self._routes = rows, [], {}

    # -- the Storage API ----------------------------------------------------------------------

    def send(
        self,
        action: str,
        target: str,
        params: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
        kind: str = "json",
        may_deny: bool = False,
        may_fail: bool = False,
    ) -> Response:
        """Send one request, without retries.

        ``target`` is a kind of table in ``tables``, or the text of a ``Target``. The body is JSON
        (``body``) or bytes (``data``). ``kind`` is what a successful response contains: ``json``,
        ``rows`` or ``data``. A status of 401 or 403 raises `CannotTell` unless ``may_deny`` is set;
        so does a status of 500 or above, unless ``may_fail`` is set. If `check_transfers` found
        that the account lacks the Storage API, nothing is sent, because a refusal would say nothing
        about the request.
        """
        if self._lacks_storage_api:
            raise CannotTell("the account lacks the Storage API")
        if target in self.tables:
            target = table_target(self.tables[target])
        params = params or {}
        session = str(params.get("SessionId"))
        request = _Request(
            action=action,
            target=target,
            params=params,
            body=body or {},
            data=data,
            headers={ROUTE_TOKEN: self._routes.get(session), **(headers or {})},
        )
        try:
            with self.storage.open(request, attempts=self.storage.attempts(action)) as response:
                received = self._read(response, kind)
        except ServiceError as error:
            code = shown_code(error.code)
            if isinstance(error, AccessDeniedError) and not may_deny:
                self._record(request.shown(), {"status": error.status, "code": code})
                raise CannotTell(f"the account lacks permission ({error.status} {code})") from None
            received = Response(status=error.status or 500, code=code)
        self._learn(received, target)
        if received.status < 300 and action == "TableCreateWriteSession":
            self._writing[str(received.members.get("SessionId"))] = target
        elif received.status < 300 and action in (
            "TableCommitWriteSession",
            "TableAbortWriteSession",
        ):
            self._writing.pop(session, None)
        self._record(request.shown(), received.shown())
        if received.status >= 500 and not may_fail:
            raise CannotTell(f"the service failed ({received.status} {received.code})")
        return received

    def check_transfers(self, table: str) -> list[TransferCheck]:
        """Open a session of a table by each service that transfers rows; return the results."""
        try:
            sample = sample_of(self.storage, self.tables[table])
        except ServiceError as error:
            code = shown_code(error.code)
            raise CannotTell(f"the table cannot be described ({error.status} {code})") from None
        if sample is None:
            raise CannotTell(
                "no service can read the table: it is a view or an external table, or it has no "
                "readable column or partition"
            )
        checks = check_transfers(self.storage, sample)
        for check in checks:
            self._record({"action": f"open a session by the {check.service}"}, _shown(check))
        first = checks[0].error
        denied = isinstance(first, AccessDeniedError) and not checks[0].missing
        if denied and not any(check.ok for check in checks):
            raise CannotTell(f"the account lacks permission ({answer_of(checks[0])})")
        self._lacks_storage_api = any(
            check.missing and check.service is Transfer.STORAGE for check in checks
        )
        return checks

    def abort_writes(self) -> None:
        """Abort the write sessions that a question left open; if that fails, they expire later."""
        writing, self._writing = self._writing, {}
        self.begin(requests=len(writing), rows=0, seconds=30.0)
        for session, target in writing.items():
            with contextlib.suppress(CannotTell, OdpsNbError):
                self.send("TableAbortWriteSession", target, {"SessionId": session})

    def ready(self, response: Response, again: Callable[[], Response]) -> Response:
        """Call ``again``, which requests the session's state, until the session is ready."""
        for _ in range(POLLS):
            members = response.members
            status = str(members.get("SessionStatus") or members.get("Status"))
            if status.upper() not in ("INIT", "INITIATING"):
                return response
            time.sleep(min(1.0, self._transport.seconds_left))
            response = again()
        raise CannotTell(f"the session was not ready after {POLLS} requests")

    def _read(self, response: HttpResponse, kind: str) -> Response:
        response.end_in_time()
        status, headers = response.status, dict(response.headers)
        if kind == "rows":
            rows, types = self._rows(response)
            return Response(status=status, headers=headers, rows=rows, types=types)
        data = response.read(MAX_DOCUMENT)
        if kind == "data":
            return Response(status=status, headers=headers, data=data)
        try:
            members = json.loads(data) if data else {}
        except ValueError:
            members = None
        if not isinstance(members, dict):
            raise CannotTell("the response is not a JSON object")
        return Response(status=status, headers=headers, members=members)

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
            raise CannotTell("the row limit was reached")

    def _learn(self, response: Response, target: str) -> None:
        members = response.members
        if self.own is not None and target == table_target(self.own):
            self.redactor.learn_schema(members)
        session = members.get("SessionId") or members.get("DownloadID")
        route = find_header(response.headers, ROUTE_TOKEN)
        if session and route:
            self._routes[str(session)] = route
        self.redactor.number(session, "session")
        self.redactor.number(route, "route")
        self.redactor.number(members.get("AccessToken"), "token")
        self.redactor.number(members.get("QuotaToken"), "token")
        self.redactor.number(members.get("BlobReference"), "reference")

    def _record(self, request: Mapping[str, object], answer: Mapping[str, object]) -> None:
        self.exchanges.append({"request": request, "answer": answer})

    # -- SQL ----------------------------------------------------------------------------------

    def run(self, sql: str, settings: Mapping[str, str] | None = None) -> SqlInstance:
        """Run a statement and wait until it ends; raise `ServiceError` if it fails."""
        left = max(0.1, self._transport.seconds_left - CANCEL_SECONDS)
        request = {"action": "SQL", "text": sql}
        try:
            instance = run_sql(self.storage, sql, settings=settings, timeout=left)
        except ServiceError as error:
            code, kind = shown_code(error.code), type(error).__name__
            self._record(request, {"kind": kind, "status": error.status, "code": code})
            if isinstance(error, AccessDeniedError):
                raise CannotTell("the account lacks permission to run this statement") from None
            raise
        self.redactor.number(instance.instance_id, "instance")
        self._record(request, {"ended": "well"})
        return instance

    def submit(self, sql: str, guid: str) -> str:
        """Submit a SQL job with the Guid that the caller chose; return the job's instance id."""
        request = SubmitSql(project=self.storage.profile.project, sql=sql, unique_id=guid)
        instance = self.storage.submit(request).instance_id
        self.redactor.number(instance, "instance")
        self._record({"action": "SQL", "text": sql}, {"ended": "well"})
        return instance

    def cancel(self, instance: SqlInstance) -> Observation:
        """Stop an instance; return the outcome of the request."""
        stop = CancelInstance(project=instance.project, instance_id=instance.instance_id)
        response = Response(status=200)
        try:
            self.storage.control(stop)
        except ServiceError as error:
            response = Response(status=error.status or 500, code=shown_code(error.code))
        self._record({"action": "CancelInstance"}, response.outcome())
        return response.outcome()

    def select(self, sql: str, settings: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Run a query and return its rows; raise `CannotTell` above the question's row limit."""
        session = open_result(self.storage, self.run(sql, settings))
        self.redactor.number(session.session_id, "session")
        self._count(session.row_count)
        batches = iter_result(self.storage, session, workers=1, text=TextOptions(TextMode.REPLACE))
        return [row for batch in batches for row in batch.to_pylist()]


def _shown(check: TransferCheck) -> dict[str, object]:
    """Return the parts of a service's response that may be recorded: no ids and no messages."""
    if check.error is None:
        return {"status": 200}
    if not isinstance(check.error, ServiceError):
        return {"kind": type(check.error).__name__}
    return {"status": check.error.status, "code": shown_code(check.error.code)}


def answer_of(check: TransferCheck) -> str:
    """Return a service's response as text: ``answered``, or the status and code of the error."""
    if check.error is None:
        return "answered"
    return " ".join(str(value) for value in _shown(check).values() if value is not None)
