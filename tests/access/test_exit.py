"""A script can end during any operation without a crash, output or delay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from odps_nb.client.write.operations import WriteSessionRef
from odps_nb.client.write.session import fetch_write_status
from tests.support.service.connecting import account_of
from tests.support.service.services import by_storage_api

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")

PRELUDE = """
import json, sys, threading
import pyarrow as pa
import odps_nb
from odps_nb.client.write.session import open_write_session
settings, table = json.loads(sys.argv[1])
odps = odps_nb.connect(**settings)
"""
MEDIA = "odps.table('media').read(['content'], limit=8).to_arrow()['content'].to_pylist()"
UNFINISHED = {
    "batches": "it = odps.table(table).read(splits=4).batches(); next(it)",
    "batches that wait for nobody": (
        "it = odps.table(table).read(splits=4).batches(read_ahead=2**17); next(it)"
    ),
    "one split": "it = odps.table(table).read(splits=1).batches(workers=1); next(it)",
    "storage level": (
        "from odps_nb.client.read.plan import ReadPlan\n"
        "from odps_nb.client.reading import open_read_session\n"
        "from odps_nb.client.read.splits import iter_batches\n"
        "session = open_read_session(odps._storage, ReadPlan(table=odps.table(table).name))\n"
        "it = iter_batches(odps._storage, session, workers=4); next(it)"
    ),
    "reader": "reader = odps.table(table).read(splits=4).reader(); reader.read_next_batch()",
    "sql": "it = odps.sql(f'select * from {table} limit 200000').batches(); next(it)",
    "blob file": (f"blob = odps.blob({MEDIA}[0]).open(); blob.read(10)"),
    "blobs": f"it = odps.blobs({MEDIA}).fetch(); next(it)",
    "passing blobs": (
        "def work():\n"
        f"    for blob in odps.blobs({MEDIA}).stream():\n"
        "        begun.set(); threading.Event().wait(600)\n"
        "begun = threading.Event()\n"
        "threading.Thread(target=work, daemon=True).start(); assert begun.wait(60)"
    ),
    "write": (
        "session = open_write_session(odps._storage, odps.table(table).name)\n"
        "stream = session.open_stream()\n"
        "stream.write([pa.record_batch({'id': [1], 'text': ['x']})])\n"
        "print(session.session_id)"
    ),
    "upload": (
        "from odps_nb.wire.calls import WriteRows\n"
        "session = open_write_session(odps._storage, odps.table(table).name)\n"
        "stream = session.open_stream()\n"
        "upload = odps._storage.upload(WriteRows(table=session.ref.table,"
        " session_id=session.session_id, stream_id='0', stream_version=1, count=1))\n"
        "upload.write(b'x' * 10**6)\n"
        "print(session.session_id)"
    ),
    "background": (
        "from odps_nb.notebook.progress.background import BackgroundResult\n"
        "scan = odps.table(table).read(splits=4)\n"
        "done = BackgroundResult('a read', scan.to_arrow, cancel=odps.cancel)"
    ),
}
ENDINGS = {"end": "", "exit": "sys.exit(0)", "error": "1 / 0", "close": "odps.close()"}
#: Unfinished operations that exist only with the Storage API.
ONLY = {"blob file": "blobs", "blobs": "blobs", "passing blobs": "blobs", "upload": "its requests"}
CASES = [(work, ending) for work in UNFINISHED for ending in ("end", "close")]
ALONE = [("batches", "end"), ("write", "error")]  # these cases run in a new interpreter
CASES += [(work, ending) for work in ("batches", "write") for ending in ("exit", "error")]


def with_marks(cases: list[tuple[str, ...]]) -> list[Any]:
    """Return the cases, marked if they need the Storage API."""
    return [
        pytest.param(*case, marks=pytest.mark.storage_api(ONLY[case[0]]) if case[0] in ONLY else ())
        for case in cases
    ]


@pytest.fixture(scope="module")
def table(odps):
    """A table with so many rows that reads are still active when the script ends."""
    name = "exit_rows"
    odps.create_table(name, "id bigint, text string", if_not_exists=True)
    odps.table(name).write(pa.table({"id": range(400_000), "text": ["x" * 100] * 400_000}))
    yield name
    odps.drop_table(name)


@pytest.fixture(scope="module")
def arguments(service, table) -> str:
    """The arguments of a script: the settings of the connection and the table."""
    settings = account_of(service)
    return json.dumps([settings, table])


@pytest.fixture
def run_forked(forking, arguments) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run a script in a child of an interpreter that has already imported the modules."""
    return lambda script: forking.run(PRELUDE + script, arguments)


@pytest.fixture
def run_alone(arguments) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run a script in a new interpreter."""

    def run(script: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", PRELUDE + script, arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=100)

    return run


@pytest.mark.gate(3)
@pytest.mark.parametrize(("work", "ending"), with_marks(CASES))
def test_a_script_with_an_unfinished_operation_ends_cleanly(
    run_alone, run_forked, odps, table, work, ending
):
    run = run_alone if (work, ending) in ALONE else run_forked
    done = run(f"{UNFINISHED[work]}\n{ENDINGS[ending]}")
    if ending == "error":
        assert done.returncode == 1
        assert done.stderr.strip().endswith("ZeroDivisionError: division by zero")
        assert done.stderr.count("Traceback") == 1
    else:
        assert (done.returncode, done.stderr) == (0, "")
    # No other process can finish the write, so its session must be aborted and not just expire. The
    # tunnel and version 1 cannot abort.
    if work == "write" and by_storage_api():
        ref = WriteSessionRef(table=odps.table(table).name, session_id=done.stdout.strip())
        assert fetch_write_status(odps._storage, ref) == "ABORTED"


AFTER_CLOSE = """
from odps_nb.errors import CancelledError, StateError
odps.close()
try:
    came = len(list(it))
except (CancelledError, StateError) as error:
    print(type(error).__name__)
else:
    raise AssertionError(f"{came} more arrived after close() without an error")
"""


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    "work", with_marks([("batches",), ("one split",), ("storage level",), ("sql",), ("blobs",)])
)
def test_an_unfinished_read_raises_an_error_after_close(run_forked, work):
    done = run_forked(UNFINISHED[work] + AFTER_CLOSE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[-1] in ("CancelledError", "StateError")
