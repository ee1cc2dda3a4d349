"""The log as JSON lines: one about each request, and never a secret."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
import requests

from odps_nb.errors import AccessDeniedError
from odps_nb.local.server.launch import LocalService, start
from odps_nb.terms import IndexSplit
from odps_nb.wire import calls
from tests.support.service.peer import Peer

ROWS = 70_000


def logged(*options: str) -> tuple[str, LocalService]:
    """Ask some things of a service and return its log."""
    command = [
        sys.executable,
        "-m",
        "odps_nb.local.server.serve",
        "--json",
        "--no-samples",
        *options,
    ]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.PIPE
    )
    assert child.stdout is not None
    facts = json.loads(child.stdout.readline())
    with start(samples=False) as shape:
        service = replace(shape, **facts)
    try:
        ask(Peer(service))
    finally:
        child.terminate()
        _, errors = child.communicate(timeout=30)
    return errors, service


def ask(peer: Peer) -> None:
    peer.sql("CREATE TABLE t (a bigint, s string);")
    notes = [*(f"{i:0200d}" for i in range(ROWS)), "no number"]
    peer.write("t", pa.table({"a": range(ROWS + 1), "s": notes}))
    assert peer.read("t", data_columns=("a",)).num_rows == ROWS + 1
    session = peer.open_read("t", filter_predicate="cast(s as decimal(38,0)) >= 0 or s > 1")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        peer.split("t", session.session_id, IndexSplit(0))
    with pytest.raises(AccessDeniedError):
        Peer(peer.service, access_key="a-wrong-key").open_read("t")


def test_each_request_is_a_line_without_secrets() -> None:
    text, service = logged("--log-json")
    lines = [json.loads(line) for line in text.splitlines()]
    done = [line for line in lines if line["message"] == "request"]
    for line in done:
        assert line["milliseconds"] >= 0
        assert line["request_id"]
    by_action: dict[str, list[dict[str, Any]]] = {}
    for line in done:
        by_action.setdefault(line["action"], []).append(line)
    (wrote,) = by_action[calls.WriteRows.ACTION]
    assert (wrote["status"], wrote["whole"]) == (200, True)
    assert wrote["bytes_in"] > ROWS * 200
    whole, cut = by_action[calls.ReadRows.ACTION]
    assert (whole["status"], whole["whole"]) == (200, True)
    assert whole["bytes_out"] > ROWS * 8
    assert (cut["status"], cut["whole"], cut["error"]) == (200, False, "InvalidRequestError")
    assert by_action[calls.CreateReadSession.ACTION][-1]["status"] == 403
    for secret in (service.access_key, "a-wrong-key", "Authorization", "ODPS4-"):
        assert secret not in text


def test_without_the_option_requests_are_not_logged() -> None:
    text, _ = logged()
    assert "InvalidRequestError" in text  # the answer that broke
    assert calls.WriteRows.ACTION not in text
