"""Resources: parts, ranges and invalid requests. tests/compat tests the stock client."""

from __future__ import annotations

import hashlib

import pytest

from odps_nb.wire.calls import WireRequest
from tests.support.service.peer import Peer

PARTS = {"p.0": b"first ", "p.1": b"second"}
MD5 = hashlib.md5(b"".join(PARTS.values()), usedforsecurity=False).hexdigest()


def ask(
    peer: Peer, method: str, name: str = "", body: bytes = b"", kind: str = "file", **more: str
) -> tuple[int, bytes]:
    """Send a request; arguments such as ``rSize`` are query parameters, all others are headers."""
    of = f"/projects/{peer.service.project}/resources"
    path = of if method == "POST" else f"{of}/{name}"
    params = tuple((key, value) for key, value in more.items() if key[1].isupper())
    headers = {f"x-odps-{key.replace('_', '-')}": value for key, value in more.items()}
    headers |= {"x-odps-resource-name": name, "x-odps-resource-type": kind}
    answer = peer.send(
        WireRequest(
            method=method, path=path, params=params, headers=tuple(headers.items()), body=body
        )
    )
    return answer.status_code, answer.content


@pytest.fixture
def parts(peer: Peer) -> Peer:
    ask(peer, "DELETE", "whole")
    for name, body in PARTS.items():
        for content in (b"an earlier part", body):
            assert ask(peer, "POST", name, content, rIsPart="true")[0] == 201
    return peer


@pytest.mark.parametrize(
    ("offset", "size", "content"),
    [
        ("0", "5", b"first"),
        ("6", "99", b"second"),
        ("12", "1", b""),
        ("99", "1", b""),
        ("3", "", b"st second"),
    ],
)
def test_parts_become_one_file_that_is_read_in_ranges(
    parts: Peer, offset: str, size: str, content: bytes
) -> None:
    of = {"rOpMerge": "true", "resource_merge_total_bytes": "12"}
    merge = f"{MD5}|{','.join(PARTS)}".encode()
    assert ask(parts, "POST", "whole", merge, **of)[0] == 201
    assert ask(parts, "GET", "whole", rOffset=offset, rSize=size) == (200, content)
    assert all(ask(parts, "GET", name)[0] == 404 for name in PARTS)


@pytest.mark.parametrize(
    ("body", "size", "status"),
    [
        (f"{MD5}|p.0,p.1", "13", 400),
        (f"{MD5}|p.0,p.1", "x", 400),
        (f"{MD5}|p.0,p.1", "", 400),
        (f"{MD5}|p.1,p.0", "12", 400),
        (f"{MD5}|p.0", "6", 400),
        (f"{MD5}|p.0,p.1,missing", "12", 404),
        ("", "0", 400),
    ],
)
def test_parts_that_differ_from_the_announcement_are_refused_and_kept(
    parts: Peer, body: str, size: str, status: int
) -> None:
    of = {"rOpMerge": "true", "resource_merge_total_bytes": size}
    assert ask(parts, "POST", "whole", body.encode(), **of)[0] == status
    assert ask(parts, "GET", "whole")[0] == 404
    assert {name: ask(parts, "GET", name)[1] for name in PARTS} == PARTS


@pytest.mark.parametrize(
    ("kind", "name", "more", "said"),
    [
        ("volumefile", "n", {}, "does not support resources of the type 'volumefile'"),
        ("", "n", {}, "does not support resources of the type ''"),
        ("table", "n", {}, "names no table"),
        ("file", "", {}, "not a valid name"),
        ("file", "a b", {}, "not a valid name"),
        ("file", "n" * 256, {}, "not a valid name"),
        ("file", "n", {"rOther": ""}, "?rOther"),
    ],
)
def test_invalid_resources_are_refused(
    peer: Peer, kind: str, name: str, more: dict[str, str], said: str
) -> None:
    status, answer = ask(peer, "POST", name, b"body", kind, **more)
    assert status == (404 if more else 400)
    assert said in answer.decode().replace("&apos;", "'")


def test_a_resource_keeps_its_type_and_a_table_has_no_content(peer: Peer) -> None:
    assert ask(peer, "POST", "typed", b"body")[0] == 201
    assert ask(peer, "PUT", "typed", b"body", "jar")[0] == 400
    assert ask(peer, "PUT", "unknown", b"body")[0] == 404
    assert ask(peer, "POST", "t", kind="table", copy_table_source="a_table")[0] == 201
    status, answer = ask(peer, "GET", "t")
    assert (status, b"read the table" in answer) == (400, True)
    assert ask(peer, "GET", "typed", rOffset="-1")[0] == 400
