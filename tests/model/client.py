"""The client of the model: `StorageClient` without HTTP, and the checkpoint of a query.

The deciding code (sessions, streams, retries, commits) is the code that users run; only the
transport of requests belongs to the explorer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import OdpsNbError
from odps_nb.http.retry import RetryPolicy
from odps_nb.spark.source.commit_log import CommitLog, Intent, _taken
from odps_nb.terms import TableName
from tests.model.explorer import History
from tests.model.service import Rows

__all__ = ["PROFILE", "TABLE", "ModelLog", "ModelStorage", "batch"]

TABLE = TableName(project="p", table="t")
PROFILE = Profile(
    endpoint="http://127.0.0.1:1/api",
    tunnel_endpoint="http://127.0.0.1:1",
    project="p",
    access_id="nobody",
    access_key="nothing",
)


class ModelStorage(StorageClient):
    """Sends calls to the service of a history, up to ``tries`` times each."""

    def __init__(self, history: History, *, tries: int = 2) -> None:
        super().__init__(
            PROFILE,
            retry=RetryPolicy(max_attempts=tries, spread=0.0),
            sleep=lambda seconds: None,
            monotonic=lambda: 0.0,
        )
        self._history = history

    def call(self, request: Any, *, tracker: Any = None, cancel: Any = None, **_: Any) -> Any:
        attempts = self.attempts(type(request).__name__, tracker=tracker, cancel=cancel)
        while True:
            try:
                return self._history.exchange(request)
            except OdpsNbError as error:
                attempts.again(error, idempotent=request.idempotent)

    @contextmanager
    def upload(self, request: Any, **_: Any) -> Iterator[Upload]:
        yield Upload(self._history, request)


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
        return self.history.exchange(Rows(self.request, _values(bytes(self.body))))


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

        if not self._step(f"notes the commit of {intent.session}", compare_and_set):
            raise _taken(batch, "its note")

    def note_done(self, batch: int) -> None:
        self._step("notes .done", lambda: self._kept.update({(batch, "done"): b""}))

    def path(self, batch: int, kind: str = "json") -> str:
        return f"{batch}.{kind}"

    def _step(self, says: str, function: Any) -> Any:
        function.says = says
        return self._history.step(function)
