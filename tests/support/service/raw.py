"""A client that sends raw text and returns responses without interpreting them."""

from __future__ import annotations

import io
import itertools
import json
import re
import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import requests

from odps_nb.local.server.launch import LocalService
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire import calls, control
from odps_nb.wire.signing import Credentials, sign

_numbers = itertools.count()


class Raw:
    """Sends hand-written Storage API requests to one service."""

    def __init__(self, service: LocalService) -> None:
        self.service = service
        self._http = requests.Session()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    # -- requests -----------------------------------------------------------------------------

    def send(self, wire: calls.WireRequest, data: bytes | None = None) -> requests.Response:
        """Sign and send a request; read the whole response without decoding it."""
        rest = not wire.path.startswith("/api/")
        endpoint = self.service.endpoint if rest else self.service.tunnel_endpoint
        url, headers = wire.url(endpoint), dict(wire.headers)
        own = Credentials(access_id=self.service.access_id, access_key=self.service.access_key)
        headers |= sign(
            wire.method, url, headers, endpoint=endpoint, credentials=own, now=time.time()
        )
        headers.setdefault("Accept-Encoding", "identity")
        body = wire.body if data is None else data
        return self._http.request(wire.method, url, headers=headers, data=body, timeout=60)

    def ask(
        self,
        action: str,
        target: str,
        params: dict[str, object] | None = None,
        body: dict[str, object] | None = None,
        *,
        method: str = "POST",
        coding: str = "",
    ) -> requests.Response:
        """Send one action as the C++ client does: content type without a charset."""
        query = {"Action": action, "Target": target} | (params or {})
        headers = {"Content-Type": "application/json"}
        if coding:
            headers["Accept-Encoding"] = coding
        wire = calls.WireRequest(
            method=method,
            path="/api/storage/v2",
            params=tuple((key, str(value)) for key, value in query.items()),
            headers=tuple(headers.items()),
            body=None if body is None else json.dumps(body).encode(),
        )
        return self.send(wire)

    def table(self, name: str) -> str:
        """Return the target of a table as the C++ client writes it, always with the schema."""
        return f"projects.{self.service.project}.schemas.default.tables.{name}"

    def instance(self, instance_id: str) -> str:
        """Return the target of an instance."""
        return f"projects.{self.service.project}.instances.{instance_id}"

    # -- reading ------------------------------------------------------------------------------

    def session(self, table: str, **body: object) -> dict[str, Any]:
        """Open a read session; return the response."""
        return good(self.open(table, **body)).json()

    def open(self, table: str, **body: object) -> requests.Response:
        """Request a read session."""
        return self.ask("TableCreateReadSession", self.table(table), body=body)

    def read(
        self, table: str, session: dict[str, Any], place: dict[str, object], **body: object
    ) -> requests.Response:
        """Request the rows of a split; ``place`` is Index, or Offset and Count."""
        params = {"SessionId": session["SessionId"], **place}
        coding = "x-lz4-frame,zstd"
        return self.ask("TableRead", self.table(table), params, body, coding=coding)

    def rows(
        self, table: str, session: dict[str, Any], place: dict[str, object], **body: object
    ) -> pa.Table:
        """Return the rows of a split."""
        return rows_of(self.read(table, session, place, **body))

    def whole(self, table: str, session: dict[str, Any], **body: object) -> pa.Table:
        """Return the rows of all splits of a session."""
        places = [{"Index": index} for index in range(session["SplitsCount"])]
        if session["SplitMode"] == "RowOffset":
            places = [{"Offset": 0, "Count": session["RecordCount"]}]
        return pa.concat_tables(self.rows(table, session, place, **body) for place in places)

    # -- creating -------------------------------------------------------------------------------

    def sql(self, text: str, settings: Mapping[str, str] | None = None) -> str:
        """Run a statement to its end; return the id of the instance."""
        submit = control.SubmitSql(project=self.service.project, sql=text, settings=settings or {})
        made = good(self.send(submit.encode()))
        instance_id = submit.decode_answer(made.content, dict(made.headers)).instance_id
        status = control.GetTaskStatus(project=self.service.project, instance_id=instance_id)
        while True:
            answer = good(self.send(status.encode()))
            found = status.decode_answer(answer.content, dict(answer.headers))
            if found.is_over:
                break
            time.sleep(0.02)  # the protocol offers only polling
        assert [task.status for task in found.tasks] == ["Success"], text[:200]
        return instance_id

    def make(self, definition: str) -> str:
        """Create a table with a new name and the settings for a BLOB column; return the name."""
        name, settings = f"e{int(time.time() * 1e6)}_{next(_numbers)}", None
        if re.search(r"\bblob\b", definition):
            listed = ", ".join(f"'{k}'='{v}'" for k, v in control.BLOB_TABLE_PROPERTIES.items())
            definition = f"{definition} TBLPROPERTIES ({listed})"
            settings = control.BLOB_TABLE_SETTINGS
        self.sql(f"CREATE TABLE {name} {definition};", settings)
        return name

    def write(self, name: str, rows: pa.Table, partition: str = "") -> None:
        """Write rows as one stream, which becomes one file, and commit it."""
        table = TableName.parse(name, project=self.service.project)
        spec = PartitionSpec.of(partition)
        made = self._call(calls.CreateWriteSession(table=table, partition=spec))
        named = {"table": table, "session_id": made.session_id}
        stream = named | {"stream_id": "0", "stream_version": 1}
        self._call(calls.CreateWriteStream(**stream))
        self._call(calls.WriteRows(**stream, count=rows.num_rows), ipc_bytes(rows))
        self._call(calls.CloseWriteStream(**stream))
        self._call(calls.CommitWriteSession(**named, streams=(("0", 1),)))

    def _call(self, call: Any, data: bytes | None = None) -> Any:
        answer = good(self.send(call.encode(), data))
        return call.decode_answer(answer.content, dict(answer.headers))


def good(answer: requests.Response) -> requests.Response:
    """Return the response, after checking that the request was accepted."""
    assert 200 <= answer.status_code < 300, answer.text[:500]
    return answer


def refused(answer: requests.Response) -> str:
    """Return the message of a rejection, which has a status from 400 to 499."""
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.content[:200])
    message = answer.json()["Message"]
    assert isinstance(message, str)
    return message


def batches_of(answer: requests.Response) -> list[pa.RecordBatch]:
    """Read a body as a plain Arrow reader does, without decoding a content encoding."""
    assert "Content-Encoding" not in good(answer).headers
    return list(pa.ipc.open_stream(answer.content))


def rows_of(answer: requests.Response) -> pa.Table:
    """Return the rows of a body."""
    return pa.Table.from_batches(
        batches_of(answer), schema=pa.ipc.open_stream(answer.content).schema
    )


def ipc_bytes(table: pa.Table) -> bytes:
    """Encode rows as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue()
