"""Makes small random changes to a request; a seed determines them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tests.support.reverse_proxy import Request

MOST_OF_A_BODY = 1 << 20

TEXTS = (
    *("", "0", "-1", "1", "9" * 18, "9" * 19, "9" * 400, "1e9", "null", "true", "NaN", " ", "\0"),
    *("..", "../../etc", "%", "%00", "é", "\u202e", "a" * 5000, "a=b", "a,b", "(0,1)", "(1,0)"),
    *("(0,999999999999999999)", "zstd", "Batch", "BatchCompatible", "*", "'", "`", ";", "/", "\n"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 10**400, 0.5, 1e308),
    *("", "x", "0", "-1", "9" * 30, "\ud800", "a" * 5000, [], {}, [[]], [None], [{}], {"a": {}}),
)
HEADERS = (
    *("content-type", "content-encoding", "accept-encoding", "content-md5", "if-match", "range"),
    *("x-odps-max-storage-route-token", "x-odps-max-storage-write-access-token", "expect"),
    *("x-odps-user-agent", "user-agent", "date", "accept", "cookie"),
)
CODINGS = ("zstd", "x-lz4-frame", "deflate", "gzip", "identity", "x", "", "zstd, deflate")


def damaged(request: Request, choose: random.Random) -> Request:
    """Return a slightly damaged copy of a request."""
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        ways = [_param, _param, _header, _method, _path]
        if request.body:
            ways += [_body, _body, _document, _document, _document]
        request = choose.choice(ways)(request, choose)
    return request


def _param(request: Request, choose: random.Random) -> Request:
    params = list(request.params)
    if not params or choose.random() < 0.1:
        params.append((choose.choice(("partition", "Action", "curr_schema", "x")), _text(choose)))
        return replace(request, params=tuple(params))
    at = choose.randrange(len(params))
    name, value = params[at]
    way = choose.random()
    if way < 0.15:
        del params[at]
    elif way < 0.25:
        params.insert(at, (name, _text(choose)))
    elif way < 0.35:
        params[at] = (choose.choice((name.lower(), name.upper(), _text(choose))), value)
    elif way < 0.45:
        params[at] = (name, choose.choice(params)[1])
    elif way < 0.6:
        params[at] = (name, _bent(value, choose))
    else:
        params[at] = (name, _text(choose))
    return replace(request, params=tuple(params))


def _text(choose: random.Random) -> str:
    return choose.choice(TEXTS)


def _bent(text: str, choose: random.Random) -> str:
    at = choose.randrange(len(text) + 1)
    return text[:at] + choose.choice((_text(choose), text, "")) + text[at + 1 :]


def _header(request: Request, choose: random.Random) -> Request:
    name = choose.choice(HEADERS)
    value = choose.choice(CODINGS) if "encoding" in name else _text(choose)
    kept = tuple(pair for pair in request.headers if pair[0] != name)
    value = "".join(c for c in value if " " <= c <= "~")  # the characters allowed in a header
    return replace(request, headers=(*kept, (name, value)))


def _method(request: Request, choose: random.Random) -> Request:
    return replace(request, method=choose.choice(("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH")))


def _path(request: Request, choose: random.Random) -> Request:
    parts = request.path.split("/")
    at = choose.randrange(1, len(parts)) if len(parts) > 1 else 0
    parts[at] = choose.choice((_text(choose), _bent(parts[at], choose), "tables", "instances"))
    return replace(request, path="/" + "/".join(parts).lstrip("/"))


def _body(request: Request, choose: random.Random) -> Request:
    raw = bytearray(request.body)
    at = choose.randrange(len(raw))
    way = choose.random()
    if way < 0.4:
        raw[at] ^= 1 << choose.randrange(8)
    elif way < 0.55:
        del raw[at:]
    elif way < 0.7:
        raw[at:at] = choose.randbytes(choose.choice((1, 4, 8, 100)))
    elif way < 0.85:
        raw[at : at + 8] = choose.choice((bytes(8), b"\xff" * 8, b"\xff\xff\xff\x7f" + bytes(4)))
    else:
        raw += raw[at:]
    return replace(request, body=bytes(raw[:MOST_OF_A_BODY]))


def _document(request: Request, choose: random.Random) -> Request:
    """Change a member of a JSON body, or a word of any other body."""
    try:
        found = json.loads(request.body)
    except ValueError:
        return _in_text(request, choose)
    places = list(_places(found)) if isinstance(found, dict | list) else []
    if not places:
        return replace(request, body=json.dumps(choose.choice(VALUES)).encode())
    home, key = choose.choice(places)
    way = choose.random()
    if way < 0.15:
        del home[key]
    elif way < 0.3 and isinstance(home[key], str):
        home[key] = _bent(home[key], choose)
    elif way < 0.4:
        home[key] = choose.choice([place[0][place[1]] for place in places])
    elif way < 0.5:
        home[key] = [home[key]] * choose.choice((2, 1000))
    else:
        home[key] = choose.choice(VALUES)
    with suppress(RecursionError, ValueError):  # the document may now contain itself
        return replace(request, body=json.dumps(found).encode()[:MOST_OF_A_BODY])
    return request


def _places(found: Any) -> Iterator[tuple[Any, Any]]:
    keys: Any = range(len(found)) if isinstance(found, list) else found
    for key in list(keys):
        yield found, key
        if isinstance(found[key], dict | list):
            yield from _places(found[key])


def _in_text(request: Request, choose: random.Random) -> Request:
    try:
        words = request.body.decode("utf-8").replace("<", " <").split(" ")
    except ValueError:
        return _body(request, choose)
    at, other = choose.randrange(len(words)), choose.choice(words)
    words[at] = choose.choice((other, "", _text(choose), _bent(words[at], choose)))
    return replace(request, body=" ".join(words).encode("utf-8", "replace")[:MOST_OF_A_BODY])
