"""Choose one request of each kind from a recorded log, and write them for the fast tests.

Record a small job of a client, then choose::

    RECORD_REQUESTS=/tmp/log pytest tests/versions/java_clients.py -k "one_partition and records"
    python -m tests.support.clients /tmp/log java-core

The requests are sent to a new service before ``tests/local/server/clients/java-core.jsonl`` is
written; rows and other bodies whose responses then differ are omitted. The suites start their
service with `tests.support.clients.recording.start`.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from odps_nb.local.server.launch import start
from tests.support.clients.replaying import Replay, binary, essence, fields_of, scalars_of

PLACE = Path(__file__).parents[2] / "local" / "server" / "clients"
MAX_BODY = 4000  # bytes of a body
NAMES = re.compile(r"((?:tables|projects|instances|schemas)/)[^/]+")
WAIT = re.compile(r".*/instances/\{\{\w+\}\}(\?curr_project=\w+)?")
READS = re.compile(r"[?&]downloads\b|sign_bearer_token|Action=\w*(?:Read|Preview)")
KEPT = re.compile(
    r"accept|content-(type|encoding|md5)|x-odps-(?!bearer|user-agent)|odps-(?!tunnel-retry)|if-|range"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("client", help="name of the file to write")
    chosen = parser.parse_args()
    log = [json.loads(line) for line in chosen.log.read_text("utf-8").splitlines()]
    lines = _choose(list(_templates([one for one in log if _is_recorded(one)])))
    with start(samples=False) as service:
        replay = Replay(service)
        for line in lines:
            expected, found = replay.send(line)
            for key in ("rows", "answer64"):  # these contain values of the service
                if key in line and found[key] != expected[key]:
                    del line[key], found[key], expected[key]
            if found != expected:
                raise SystemExit(f"{line['method']} {line['target']}: {found}, not {expected}")
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    (PLACE / f"{chosen.client}.jsonl").write_text(text, "utf-8")
    print(f"{len(lines)} of {len(log)} requests")


def _is_recorded(one: dict[str, Any]) -> bool:
    """Return whether a client sent the request, or odps_nb sent it to create a table."""
    ours = one["headers"].get("user-agent", "").startswith("odps_nb/")
    return not ours or "/instances" in one["target"]


def _templates(log: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the lines; a name replaces each value that the service generated."""
    sent = [_sent(one) for one in log]
    names: dict[str, str] = {}  # names by value
    for number, (one, line) in enumerate(zip(log, sent, strict=True)):
        for value, name in names.items():
            _replace(line, value, name)
        if len(line.get("body64", line.get("body", ""))) > MAX_BODY:
            raise SystemExit(f"{line['method']} {line['target']}: the body is too long")
        answer = base64.b64decode(one["answer"])
        line |= essence(one["status"], one["answer_headers"], answer)
        if line["method"] == "GET":  # this request is repeated until the job has ended
            ended = {"Running": "Terminated"}
            fields = {key: ended.get(of, of) for key, of in line.get("fields", {}).items()}
            line |= {"fields": fields} if fields else {}
        for field, value in scalars_of(one["answer_headers"], answer):
            if len(value) < 8 or value in names or "{{" in value:
                continue
            before = any(_sends(other, value) for other in sent[: number + 1])
            if not before and any(_sends(other, value) for other in sent[number + 1 :]):
                names[value] = f"v{len(names) + 1}"
                line.setdefault("take", {})[names[value]] = field
        yield line


def _sent(one: dict[str, Any]) -> dict[str, Any]:
    headers = {name: of for name, of in one["headers"].items() if KEPT.match(name)}
    line = {"method": one["method"], "target": one["target"], "headers": headers}
    body = base64.b64decode(one["body"])
    try:
        return line | ({"body": body.decode()} if body else {})
    except UnicodeDecodeError:
        return line | {"body64": one["body"]}


def _spellings(value: str) -> tuple[str, ...]:
    return tuple({value: 0, quote(value, safe=""): 0, json.dumps(value)[1:-1]: 0})


def _sends(line: dict[str, Any], value: str) -> bool:
    text = "\n".join((line["target"], *line["headers"].values(), line.get("body", "")))
    return any(one in text for one in _spellings(value)) or binary(value) in _binary(line)


def _binary(line: dict[str, Any]) -> bytes:
    return base64.b64decode(line.get("body64", ""))


def _replace(line: dict[str, Any], value: str, name: str) -> None:
    if binary(value) in _binary(line):
        line.setdefault("put", {})[name] = value
    for one in _spellings(value):
        for key in ("target", "body"):
            if key in line:
                line[key] = line[key].replace(one, f"{{{{{name}}}}}")
        line["headers"] = {
            key: of.replace(one, f"{{{{{name}}}}}") for key, of in line["headers"].items()
        }


def _choose(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop reads that equal a later read, and reads of a known kind whose response is not used."""
    known = {_kind(line) for path in PLACE.glob("*.jsonl") for line in _read(path)}
    last = {_place(line): number for number, line in enumerate(lines)}
    new = []
    for number, line in enumerate(lines):
        kind = _kind(line)
        if kind not in known or WAIT.fullmatch(line["target"]):
            new += [number] if last[_place(line)] == number or not _reads(line) else []
        known.add(kind)
    chosen: list[dict[str, Any]] = []
    for number, line in reversed(list(enumerate(lines))):
        used = any(_uses(other, name) for name in line.get("take", ()) for other in chosen)
        if number in new or used or not _reads(line):
            chosen.insert(0, line)
    return chosen


def _read(path: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, path.read_text("utf-8").splitlines())


def _uses(line: dict[str, Any], name: str) -> bool:
    return f"{{{{{name}}}}}" in json.dumps(line) or name in line.get("put", ())


def _place(line: dict[str, Any]) -> tuple[str, ...]:
    return line["method"], line["target"], line.get("body", "")


def _reads(line: dict[str, Any]) -> bool:
    return line["method"] == "GET" or READS.search(line["target"]) is not None


def _kind(line: dict[str, Any]) -> tuple[object, ...]:
    """Return the kind of a request: all of it except names and values."""
    url = urlsplit(line["target"])
    path = NAMES.sub(r"\1*", url.path)
    query = [(key, of if key == "Action" else "") for key, of in parse_qsl(url.query, True)]
    fields = tuple(fields_of(line.get("body", "").encode()))
    return line["method"], path, tuple(sorted(query)), line["headers"].get("content-type"), fields


if __name__ == "__main__":
    main()
