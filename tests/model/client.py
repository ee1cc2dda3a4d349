"""The client of the model: `StorageClient` without HTTP, and the checkpoint of a query.

The deciding code (sessions, streams, retries, commits) is the code that users run; only the
transport of requests belongs to the explorer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import OdpsNbError
from odps_nb.http.hosts import Host
from odps_nb.http.retry import RetryPolicy
from odps_nb.local.routes.tunnel_arrow import decode_arrow
from odps_nb.spark.source.commit_log import CommitLog, Intent, _taken
from odps_nb.terms import TableName
from odps_nb.wire import control
from odps_nb.wire.calls import WireRequest
from odps_nb.wire.tunnel.calls import UploadBlock
from tests.model.explorer import History
from tests.model.service import Rows

__all__ = ["PROFILE", "TABLE", "ModelLog", "ModelStorage", "Statements", "Upload", "batch"]

_DIGITS = re.compile("(?<=_)[0-9a-f]{16}$")
_ROWS = pa.schema([("id", pa.int64())])

TABLE = TableName(project="p", table="t")
PROFILE = Profile(
    endpoint="http://127.0.0.1:1/api",
    tunnel_endpoint="http://127.0.0.1:1",
    project="p",
    access_id="nobody",
    access_key="nothing",
)


class Statements(StorageClient):
    """Sends the control plane's requests as calls. Tables' metadata are known without a request.

    A SQL statement is submitted by the code that users run.
    """

    history: Any

    def control(self, request: Any, **_: Any) -> Any:
        if isinstance(request, (control.GetTable, control.ListTables)):
            return self.history.service.others.answer(request)
        return self.call(request)

    def _send(self, wire: WireRequest, *_: Any, **__: Any) -> Any:
        return Submitted(self.history.exchange(_statement(wire.body or b"")))


@cache
def _statement(body: bytes) -> control.SubmitSql:
    return control.SubmitSql.decode(WireRequest(method="POST", path="", body=body), project="p")


class Submitted:
    """The response to a submitted statement."""

    def __init__(self, answer: control.SubmittedInstance) -> None:
        self._body, self.headers = answer.encode(location="http://127.0.0.1:1/instances")
        self.wire_bytes = len(self._body)
        self.host, self.request_id = Host.of(PROFILE.endpoint), None

    headers: Mapping[str, str]

    def chunks(self) -> Iterator[bytes]:
        yield self._body

    def end_in_time(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Submitted:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class ModelStorage(Statements):
    """Sends calls to the service of a history, up to ``tries`` times each."""

    def __init__(self, history: History, *, tries: int = 2) -> None:
        super().__init__(
            PROFILE,
            retry=RetryPolicy(max_attempts=tries, spread=0.0),
            sleep=lambda seconds: None,
            monotonic=lambda: 0.0,
        )
        self.history = history

    def call(self, request: Any, *, tracker: Any = None, cancel: Any = None, **_: Any) -> Any:
        attempts = self.attempts(type(request).__name__, tracker=tracker, cancel=cancel)
        while True:
            try:
                return self.history.exchange(request)
            except OdpsNbError as error:
                attempts.again(error, idempotent=request.idempotent)

    @contextmanager
    def upload(self, request: Any, **_: Any) -> Iterator[Upload]:
        yield Upload(self.history, request)


@dataclass
class Upload:
    """A request whose body is an Arrow stream."""

    history: History
    request: Any
    body: bytearray = field(default_factory=bytearray)
    sent_bytes: int = 0

    def write(self, data: Any) -> int:
        self.body += data
        return len(data)

    def finish(self) -> Any:
        whole = isinstance(self.request, UploadBlock)
        values = _checked_values if whole else _values
        return self.history.exchange(Rows(self.request, values(bytes(self.body))))


@cache
def _checked_values(body: bytes) -> tuple[int, ...]:
    """Return the values of the tunnel's stream."""
    batches = decode_arrow(_ROWS, memoryview(body))
    return tuple(value for batch in batches for value in batch["id"].to_pylist())


@cache
def _values(body: bytes) -> tuple[int, ...]:
    with pa.ipc.open_stream(body) as reader:
        return tuple(reader.read_all()["id"].to_pylist())


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(values, pa.int64())})


class ModelLog(CommitLog):
    """The files of a checkpoint, which survive a driver; a driver may crash at each step."""

    def __init__(self, history: History, files: dict[tuple[int, str], bytes]) -> None:
        self._history, self._kept = history, files

    def find(self, batch: int) -> Intent | None:
        content = self._step("looks for its note", lambda: self._kept.get((batch, "json")))
        return None if content is None else Intent.decode(content, "note")

    def is_done(self, batch: int) -> bool:
        return bool(self._step("looks for .done", lambda: (batch, "done") in self._kept))

    def note(self, batch: int, intent: Intent, *, instead_of: Intent | None = None) -> None:
        def compare_and_set() -> bool:
            before = None if instead_of is None else instead_of.encode()
            if self._kept.get((batch, "json")) != before:
                return False
            self._kept[batch, "json"] = intent.encode()
            return True

        session = _DIGITS.sub("", intent.session)  # without the random digits of a staging table
        if not self._step(f"notes the commit of {session}", compare_and_set):
            raise _taken(batch, "its note")

    def note_done(self, batch: int) -> None:
        self._step("notes .done", lambda: self._kept.update({(batch, "done"): b""}))

    def path(self, batch: int, kind: str = "json") -> str:
        return f"{batch}.{kind}"

    def _step(self, says: str, function: Any) -> Any:
        function.says = says
        return self._history.step(function)
