"""A client that sends raw text and returns responses without interpreting them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import requests

from odps_nb.local.server.launch import LocalService
from odps_nb.wire import calls
from tests.support.service.peer import Peer, make_table


class Raw:
    """Sends hand-written Storage API requests to one service."""

    def __init__(self, service: LocalService) -> None:
        self.service = service
        self._peer = Peer(service)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.session.close()

    # -- requests -----------------------------------------------------------------------------

    def send(self, wire: calls.WireRequest, data: bytes | None = None) -> requests.Response:
        """Sign and send a request; read the whole response without decoding it."""
        answer = self._peer.send(wire, data)
        answer.content  # noqa: B018  reads it
        return answer

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

    def sql(self, text: str) -> str:
        """Run a statement to its end; return the id of the instance."""
        self._peer.sql(text)
        return self._peer.last_instance

    def make(self, definition: str) -> str:
        """Create a table with a new name and the settings for a BLOB column; return the name."""
        return make_table(self._peer, definition)

    def write(self, name: str, rows: pa.Table, partition: str = "") -> None:
        """Write rows as one stream, which becomes one file, and commit it."""
        self._peer.write(name, rows, partition=partition)


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
