"""Recorded requests of clients: the form of a line, and sending them again.

A line of a file is the JSON of one request: ``method``, ``target`` (path and query as sent),
``headers``, ``body`` (or ``body64``), and what clients need from the response: ``status``,
``answer_headers`` (names), ``fields`` (of JSON or XML, see `fields_of`), ``rows`` (of Arrow),
``answer64`` (other short bodies). ``take`` maps names to fields of the response; a later request
contains a name in double braces where it sends the value. ``put`` maps names to the bytes that
``body64`` contains in place of their values.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa

from odps_nb.local.server.launch import LocalService
from odps_nb.wire.signing import Credentials, sign

SECONDS = 30.0
"""How long to repeat a GET until its response is the recorded one, such as the end of a job."""
NEEDED = re.compile(r"x-odps-|odps-|location$|content-encoding$|etag$")
"""The headers of a response that clients read."""
EXACT = 1000
"""Bytes of other bodies that are compared, if they are not Arrow in chunks of the tunnel."""
ARROW = b"\xff\xff\xff\xff"


class Replay:
    """Sends the recorded requests of one client to a service, signed with its keys."""

    def __init__(self, service: LocalService) -> None:
        self._endpoint, self._tunnel = service.endpoint, service.tunnel_endpoint
        self._keys = Credentials(access_id=service.access_id, access_key=service.access_key)
        self._values: dict[str, str] = {}

    def send(self, line: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Send a request; return the expected and the received parts of the response."""
        expected = {key: line[key] for key in EXPECTED if key in line}
        until = time.monotonic() + SECONDS
        while True:
            status, headers, body = self._answer(line)
            found = essence(status, headers, body)
            found = {key: _part(found.get(key), of) for key, of in expected.items()}
            if found == expected or line["method"] != "GET" or time.monotonic() > until:
                break
            time.sleep(0.05)
        if "location" in headers:
            self._wait(headers["location"])
        scalars = dict(scalars_of(headers, body))
        self._values |= {
            name: scalars[field] for name, field in line.get("take", {}).items() if field in scalars
        }
        return expected, found

    def _wait(self, location: str) -> None:
        """Wait for the end of a job, because it may take longer than when it was recorded."""
        path = location.removeprefix(self._tunnel)
        fields = {"/Instance/Status": "Terminated"}
        self.send({"method": "GET", "target": path, "headers": {}, "fields": fields})

    def _answer(self, line: Mapping[str, Any]) -> tuple[int, dict[str, str], bytes]:
        target = self._filled(line["target"], lambda value: quote(value, safe=""))
        headers = {name: self._filled(value, str) for name, value in line["headers"].items()}
        if "body64" in line:
            body = base64.b64decode(line["body64"])
            for name, value in line.get("put", {}).items():
                body = body.replace(binary(value), binary(self._values[name]))
        else:
            body = self._filled(
                line.get("body", ""), lambda value: json.dumps(value)[1:-1]
            ).encode()
        rest = urlsplit(self._endpoint).path
        is_rest = target.startswith(f"{rest}/") and not target.startswith(f"{rest}/storage")
        signature = sign(
            line["method"],
            f"{self._tunnel}{target}",
            headers,
            endpoint=self._endpoint if is_rest else self._tunnel,
            credentials=self._keys,
            now=time.time(),
        )
        connection = http.client.HTTPConnection(urlsplit(self._tunnel).netloc, timeout=SECONDS)
        try:
            connection.putrequest(line["method"], target, skip_accept_encoding=True)
            for name, value in {**headers, **signature, "Content-Length": str(len(body))}.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return response.status, told, response.read()
        finally:
            connection.close()

    def _filled(self, text: str, spell: Any) -> str:
        return re.sub(r"\{\{(\w+)\}\}", lambda found: spell(self._values[found[1]]), text)


def _part(found: Any, expected: Any) -> Any:
    """Leave out fields and headers that the service has added since the recording."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {key: value for key, value in found.items() if key in expected}
    if isinstance(found, list) and isinstance(expected, list):
        return [one for one in found if one in expected]
    return found


EXPECTED = ("status", "answer_headers", "fields", "rows", "answer64")


def essence(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Return what clients need from a response, in the form of a line."""
    if "location" in headers:  # the job may already have ended
        return {"status": 201, "answer_headers": ["location"]}
    needed = sorted(name for name in headers if NEEDED.match(name) and name != "x-odps-request-id")
    found: dict[str, Any] = {"status": status, "answer_headers": needed}
    if not body or "content-encoding" in headers:
        return found
    body = re.sub(rb"127\.0\.0\.1:\d+", b"HOST", body)
    if fields := fields_of(body):
        return found | {"fields": fields}
    try:
        return found | {"rows": str(pa.ipc.open_stream(io.BytesIO(body)).read_all().to_pydict())}
    except (pa.ArrowInvalid, OSError):  # no Arrow
        exact = len(body) <= EXACT and ARROW not in body[:16]
        return found | ({"answer64": base64.b64encode(body).decode()} if exact else {})


def binary(value: str) -> bytes:
    """Return a value as it is in Arrow rows, where references to blobs are not base64."""
    return base64.b64decode(value) if value.endswith("=") else value.encode()


def fields_of(body: bytes) -> dict[str, str]:
    """Return the fields of a JSON or XML document: list items once, values only for a status."""
    fields = {}
    for path, value in _scalars(body):
        name = re.sub(r"\[\d+\]", "[]", path)
        fields[name] = value if name.lower().endswith("status") else ""
    return fields


def scalars_of(headers: Mapping[str, str], body: bytes) -> Iterator[tuple[str, str]]:
    """Yield the values of a response that a client can send back, by name.

    A header is yielded without the text up to its last slash, so ``Location`` yields an id.
    """
    for name, value in headers.items():
        if NEEDED.match(name):
            yield name, value.rpartition("/")[2]
    yield from _scalars(body)


def _scalars(body: bytes | str) -> Iterator[tuple[str, str]]:
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    if text.lstrip().startswith("<"):
        yield from _of_xml(ET.fromstring(text), "")  # placeholders of our own service
    elif text.lstrip().startswith(("{", "[")):
        try:
            yield from _of_json(json.loads(text), "")
        except ValueError:
            return


def _of_json(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _of_json(inner, f"{path}/{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _of_json(inner, f"{path}[{number}]")
    elif isinstance(value, str) and (inside := list(_scalars(value))):
        yield from ((f"{path}{name}", of) for name, of in inside)
    else:
        yield path, str(value)


def _of_xml(element: ET.Element, path: str) -> Iterator[tuple[str, str]]:
    path = f"{path}/{element.tag}"
    for name, value in element.attrib.items():
        yield f"{path}@{name}", value
    for inner in element:
        yield from _of_xml(inner, path)
    text = (element.text or "").strip()
    if text or not len(element):
        yield from _of_json(text, path)
