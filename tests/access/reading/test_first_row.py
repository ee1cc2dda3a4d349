"""The first row of a large table takes as few requests as that of a small table."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

import odps_nb
from benchmarks import _made_rows
from odps_nb.access.connection import Connection

ROWS = 10**8
Asked = list[str]


class _Handler(_made_rows._Handler):
    """Generates rows while it sends them, and records the requests."""

    rows = ROWS
    asked: Asked

    def do_GET(self) -> None:
        self.asked.append(urlsplit(self.path).path)
        super().do_GET()

    def do_POST(self) -> None:
        self.asked.append(parse_qs(urlsplit(self.path).query)["Action"][0])
        super().do_POST()


@pytest.fixture
def large() -> Iterator[tuple[Connection, Asked]]:
    """A connection that knows only the endpoint, and the requests that it sends."""
    _Handler.asked = []
    with _made_rows._Server(("127.0.0.1", 0), _Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        url = f"http://127.0.0.1:{server.server_port}/api"
        with odps_nb.connect(
            endpoint=url, project=_made_rows.PROJECT, access_id="anybody", access_key="is-let-in"
        ) as odps:
            yield odps, _Handler.asked
        server.shutdown()
        serving.join()


def test_the_head_of_a_table_of_100_million_rows_takes_three_requests(
    large: tuple[Connection, Asked],
) -> None:
    odps, asked = large
    assert odps.table(_made_rows.TABLE).head(5)["id"].tolist() == [0, 1, 2, 3, 4]
    assert len(asked) == 3  # columns, Storage API endpoint, rows
    assert asked[-1] == "TablePreview"


def test_the_first_row_of_a_read_takes_three_requests(large: tuple[Connection, Asked]) -> None:
    odps, asked = large
    batches = odps.table(_made_rows.TABLE).read(limit=1).batches()
    first = next(batches)
    batches.close()
    assert first.column("id").to_pylist() == [0]
    assert len(asked) == 3, asked  # Storage API endpoint, session, rows
    assert asked[-1] == "TableRead"
