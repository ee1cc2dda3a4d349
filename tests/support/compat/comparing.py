"""Normalise recorded requests of two clients, and compare them.

What a server makes up (session ids, tokens, commit messages) is replaced by placeholders; bodies
are taken as text, as Arrow rows or as blob frames, by what they are.
"""

from __future__ import annotations

import io
import json
import struct
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tests.support.compat.recorder import Recorded

__all__ = ["Sent", "comparable", "without_file_names"]

STORAGE_PATH = "/api/storage/"
SHOWN_HEADERS = (
    "content-type",
    "content-encoding",
    "accept-encoding",
    "x-odps-max-storage-route-token",
    "x-odps-max-storage-write-access-token",
)
MADE_UP_PARAMS = ("SessionId", "quotaToken")
LENGTH = struct.Struct("<q")


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One request: all fields are compared but ``framing``, which is only told."""

    action: str
    method: str
    path: str
    params: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: object
    framing: str = field(compare=False)

    @property
    def line(self) -> str:
        """Method, path and parameters on one line, decoded."""
        query = "&".join(f"{key}={value}" for key, value in self.params)
        return f"{self.method} {self.path}?{query}"


def comparable(recorded: list[Recorded], only: tuple[str, ...] = ()) -> list[Sent]:
    """Return the Storage API requests, of some actions or of all."""
    storage = [one for one in recorded if one.path.startswith(STORAGE_PATH)]
    names = _inventions(storage)
    return [_sent(one, names) for one in storage if not only or one.action in only]


def without_file_names(sent: Sent) -> Sent:
    """Return the request as it would be without names of files in its frames."""
    assert isinstance(sent.body, list)
    return replace(
        sent,
        body=[
            ({k: v for k, v in header.items() if k != "CustomFileName"}, data, footer)
            for header, data, footer in sent.body
        ],
    )


def _inventions(recorded: list[Recorded]) -> dict[str, str]:
    """Value that a server made up -> placeholder."""
    found: dict[str, str] = {}
    for one in recorded:
        answer = one.answer_json
        told = {
            "session": answer.get("SessionId") or answer.get("DownloadID"),
            "access token": answer.get("AccessToken"),
            "quota token": answer.get("QuotaToken"),
            "commit message": answer.get("CommitMessage"),
            "route token": one.answer_headers.get("x-odps-max-storage-route-token"),
        }
        for what, value in told.items():
            if value and value not in found:
                found[value] = f"<{what}>"
    return found


def _sent(one: Recorded, names: dict[str, str]) -> Sent:
    chunked = one.headers.get("transfer-encoding", "").lower() == "chunked"
    return Sent(
        action=one.action or "",
        method=one.method,
        path=one.path,
        params=tuple(
            (key, names.get(value, value) if key in MADE_UP_PARAMS else value)
            for key, value in one.params
        ),
        headers={
            key: names.get(value, value)
            for key, value in one.headers.items()
            if key in SHOWN_HEADERS
        },
        body=_body(one, names),
        framing="chunked" if chunked else "sized",
    )


def _body(one: Recorded, names: dict[str, str]) -> object:
    if one.action == "TableWrite":
        return _rows(one.body)
    if ("Mode", "Batch") in one.params:
        return _frames(one.body)
    if "json" not in one.headers.get("content-type", ""):
        return one.body
    text = one.body.decode()
    for value, name in names.items():
        text = text.replace(json.dumps(value), json.dumps(name))
    return text


def _rows(body: bytes) -> dict[str, object]:
    with pa.ipc.open_stream(io.BytesIO(body)) as stream:
        table = stream.read_all()
    return {"schema": str(table.schema), "rows": table.to_pylist()}


def _frames(body: bytes) -> list[tuple[dict[str, Any], bytes, dict[str, Any]]]:
    parts = []
    while body:
        (length,) = LENGTH.unpack_from(body)
        parts.append(body[8 : 8 + length])
        body = body[8 + length :]
    triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return [(json.loads(head), data, json.loads(foot)) for head, data, foot in triples]
