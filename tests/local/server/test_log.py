"""The service's log contains failures and no secrets."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pytest
import requests

from odps_nb.errors import AccessDeniedError
from odps_nb.local.server.launch import LocalService
from odps_nb.terms import IndexSplit
from tests.support.service.peer import Peer

ROWS = 70_000


def logged(shape: LocalService, *options: str) -> tuple[str, LocalService]:
    """Send some requests to a service with these options; return its log and address."""
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


@pytest.mark.gate(1)
@pytest.mark.parametrize("options", [(), ("--verbose",)], ids=["quiet", "verbose"])
def test_the_log_shows_failures_and_no_secret(bare: LocalService, options: tuple[str, ...]) -> None:
    text, service = logged(bare, *options)
    assert "InvalidRequestError" in text  # the response that broke
    for secret in (service.access_key, "a-wrong-key", "Authorization", "ODPS4-"):
        assert secret not in text
