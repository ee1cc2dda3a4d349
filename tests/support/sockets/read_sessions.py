"""A read session of 100 rows in 4 splits, and a scripted service for it."""

from __future__ import annotations

from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.session import plan_ranges
from odps_nb.terms import IndexSplit, SplitMode
from odps_nb.wire.calls import ReadRows, ReadSessionAnswer
from tests.support.sockets.scripted import SCHEMA, TABLE, cut, ipc, numbers

ROWS = 100

SESSION = ReadSession(
    table=TABLE,
    session_id="s",
    schema=SCHEMA,
    splits=plan_ranges(ROWS, 4),
    row_count=ROWS,
    route_token="rt",
)

ANSWER = ReadSessionAnswer(
    session_id="s",
    split_mode=SplitMode.ROW_OFFSET,
    record_count=ROWS,
    schema=SCHEMA,
    estimated_size=4 * 64 * 2**20,
    route_token="rt",
)


def serve_rows(line, seen) -> None:
    """Respond to any TableRead with the requested rows."""
    line.answer(ipc(wanted(line)))


def wanted(line):
    request: ReadRows = line.peer.calls["ReadRows"][-1]
    split = request.split
    if isinstance(split, IndexSplit):
        return numbers(split.index * 25 + request.skip_rows, split.index * 25 + 25)
    return numbers(split.offset + request.skip_rows, split.offset + split.count)


def cut_rows(share: float, *, chunked: bool = False):
    def step(line, seen) -> None:
        body = ipc(wanted(line))
        cut(body, int(len(body) * share), chunked=chunked)(line, seen)

    return step
