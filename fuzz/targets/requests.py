"""Targets for the service's request parsers: parameters, documents, signatures, rows."""

from __future__ import annotations

from typing import Any
from unittest import mock
from urllib.parse import parse_qsl

from odps_nb.errors import AccessDeniedError, ArgumentError, InvalidRequestError
from odps_nb.local.routes import tunnel_rows
from odps_nb.wire.calls import WireRequest, decode_request
from odps_nb.wire.control import SubmitSql, decode_control
from odps_nb.wire.signing import verify
from odps_nb.wire.type_text import parse_columns

_COLUMNS = tuple(
    parse_columns(
        "i bigint, b boolean, f float, d double, s string, raw binary, day date, dt datetime, "
        "ts timestamp, ntz timestamp_ntz, dec decimal(10,2), tags array<string>, "
        "m map<string,bigint>, r struct<a:bigint,b:array<double>>"
    )
)


def _request(data: bytes) -> WireRequest | None:
    """Parse an input as a request: first line, headers, an empty line, the body."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.decode("utf-8", "replace").split("\n")
    method, _, target = first.partition(" ")
    path, _, query = target.partition("?")
    try:
        params = tuple(parse_qsl(query, keep_blank_values=True, max_num_fields=200))
    except ValueError:  # the service rejects such a query, too
        return None
    headers = tuple((name, value) for name, _, value in (line.partition(": ") for line in lines))
    return WireRequest(method=method, path=path, params=params, headers=headers, body=body)


def storage_requests(data: bytes) -> None:
    """Any Storage API request is decoded to a value that survives encoding and decoding."""
    wire = _request(data)
    if wire is not None:
        _same_again(wire, decode_request)


def control_requests(data: bytes) -> None:
    """A control plane request is unknown, raises an error, or is a value that survives encoding."""
    wire = _request(data)
    if wire is not None:
        _same_again(wire, decode_control)


def _same_again(wire: WireRequest, decode: Any) -> None:
    try:
        found = decode(wire)
    except InvalidRequestError as error:
        assert error.status == 400
        assert error.code
        return
    if found is None:
        return
    try:
        written = found.encode()
    except ArgumentError:  # odps_nb never sends this request
        return
    again = decode(written)
    if isinstance(found, SubmitSql):  # encoding adds a missing final semicolon
        found = again
        again = decode(found.encode())
    assert again == found


def signatures(data: bytes) -> None:
    """Any request that is not signed with the key is denied with 401 or 403."""
    head, *lines = data.decode("latin-1").split("\n")
    method, _, target = head.partition(" ")
    headers = {name: value for name, _, value in (line.partition(": ") for line in lines)}
    try:
        verify(method, target, headers, keys={"id": "key"}.get, now=1.7e9)
    except AccessDeniedError as error:
        assert error.status in (401, 403)
        return
    raise AssertionError("a request without a valid signature was accepted")


def tunnel_upload(data: bytes) -> None:
    """Any stream decodes to rows that survive encoding and decoding, or is rejected."""
    # once unchanged, and once as if all of its checksums were valid
    for crc32c in (tunnel_rows.crc32c, lambda data, crc=0: 0):
        with mock.patch.object(tunnel_rows, "crc32c", crc32c):
            try:
                rows = list(tunnel_rows.decode_rows(_COLUMNS, memoryview(data)))
            except InvalidRequestError as error:
                assert error.status == 400
                continue
            written = b"".join(tunnel_rows.encode_rows(_COLUMNS, iter(rows)))
            again = list(tunnel_rows.decode_rows(_COLUMNS, memoryview(written)))
            # compare bytes, because NaN does not equal itself
            assert [batch.serialize() for batch in again] == [batch.serialize() for batch in rows]


TARGETS = (storage_requests, control_requests, signatures, tunnel_upload)
