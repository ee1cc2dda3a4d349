"""What plans and commits a data source tells the driver what it does.

Runs in the Python processes that Spark starts beside the driver. A driver that cannot be reached,
or does not want to know, costs a moment and changes nothing: the read or write goes on unseen.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from odps_nb.client.calls.progress import Phase
from odps_nb.errors import ProtocolError, TruncatedError
from odps_nb.spark.progress.messages import LineBuffer, ReportTo
from odps_nb.spark.progress.planner_messages import Plan, State, decode_answer, encode_said
from odps_nb.spark.reading.split_list import SplitList

if TYPE_CHECKING:
    from odps_nb.client.read.splits import ReadSession
    from odps_nb.client.write.session import WriteSessionRef

__all__ = ["ended", "planned_read", "planned_write", "rows_of", "told_commit"]

_WITHIN = 1.0
_CHUNK = 4096

_log = logging.getLogger("odps_nb")


def planned_read(to: ReportTo | None, session: ReadSession, splits: SplitList) -> ReportTo | None:
    """Tell of a read session and its splits; return where its tasks report."""
    if to is None:
        return None
    plan = Plan(
        source=to.source,
        operation="read",
        title=str(session.table),
        session=session.session_id,
        parts=len(splits),
        ranges=splits.rows is not None,
        rows=rows_of(session) if splits.rows is None else splits.rows,
    )
    return _planned(to, plan)


def planned_write(to: ReportTo | None, session: WriteSessionRef) -> ReportTo | None:
    """Tell of a write session; return where its tasks report."""
    if to is None:
        return None
    plan = Plan(
        source=to.source,
        operation="write",
        title=str(session.table),
        session=session.session_id,
    )
    return _planned(to, plan)


def rows_of(session: ReadSession) -> int | None:
    """Return the rows that the tasks of a session will read; ``None`` where nobody knows."""
    if session.row_count is None:
        return None
    return session.row_count if session.limit is None else min(session.row_count, session.limit)


@contextlib.contextmanager
def told_commit(to: ReportTo | None, *, rows: int) -> Iterator[None]:
    """Tell that a commit goes on inside, and how it ended."""
    _say(to, Phase.COMMITTING, rows=rows)
    try:
        yield
    except BaseException as error:
        _say(to, Phase.FAILED, rows=rows, message=f"{type(error).__name__}: {error}")
        raise
    _say(to, Phase.DONE, rows=rows)


def ended(to: ReportTo | None) -> None:
    """Tell that a write came to nothing."""
    _say(to, Phase.CANCELLED)


def _say(to: ReportTo | None, phase: Phase, *, rows: int = 0, message: str = "") -> None:
    if to is not None:
        _asked(to, State(source=to.source, phase=phase, rows=rows, message=message))


def _planned(to: ReportTo, plan: Plan) -> ReportTo | None:
    source = _asked(to, plan)
    return dataclasses.replace(to, source=source) if source else None


def _asked(to: ReportTo, said: Plan | State) -> int:
    """Say it and return the answer, 0 if there is none."""
    try:
        with socket.create_connection((to.host, to.port), _WITHIN) as link:
            link.sendall(encode_said(to, said))
            return decode_answer(_line(link))
    except (OSError, ProtocolError) as error:
        _log.debug("the driver was not told of %s: %s", said, error)
        return 0


def _line(link: socket.socket) -> bytes:
    lines = LineBuffer()
    while chunk := link.recv(_CHUNK):
        if found := lines.feed(chunk):
            return found[0]
    raise TruncatedError("the driver gave no answer")
