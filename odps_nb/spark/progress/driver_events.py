"""Sends the plan and commit events of a data source to the driver.

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
from odps_nb.errors import ProtocolError
from odps_nb.spark.progress.messages import (
    MAX_LINE,
    Answer,
    PlanEvent,
    ReportTo,
    WriteEvent,
    decode,
    encode,
)
from odps_nb.spark.reading.split_list import SplitList

if TYPE_CHECKING:
    from odps_nb.client.read.splits import ReadSession
    from odps_nb.client.write.session import WriteSessionRef

__all__ = ["announce_read", "announce_write", "report_abandoned", "reported_commit", "row_count"]

_WITHIN = 5.0  # a busy driver answers late; one that is gone refuses at once

_log = logging.getLogger("odps_nb")


def announce_read(to: ReportTo | None, session: ReadSession, splits: SplitList) -> ReportTo | None:
    """Announce a read session and its splits; return where its tasks report."""
    return _announce(
        to,
        PlanEvent(
            activity=0,
            operation="read",
            title=str(session.table),
            session=session.session_id,
            parts=len(splits),
            ranges=splits.rows is not None,
            rows=row_count(session) if splits.rows is None else splits.rows,
        ),
    )


def announce_write(to: ReportTo | None, session: WriteSessionRef) -> ReportTo | None:
    """Announce a write session; return where its tasks report."""
    title, session_id = str(session.table), session.session_id
    return _announce(to, PlanEvent(activity=0, operation="write", title=title, session=session_id))


def row_count(session: ReadSession) -> int | None:
    """Return the rows that the tasks of a session will read; ``None`` where nobody knows."""
    if session.row_count is None:
        return None
    return session.row_count if session.limit is None else min(session.row_count, session.limit)


@contextlib.contextmanager
def reported_commit(to: ReportTo | None, *, rows: int) -> Iterator[None]:
    """Report that a commit runs inside, and how it ended."""
    _send(to, WriteEvent(activity=0, phase=Phase.COMMITTING, rows=rows))
    try:
        yield
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"
        _send(to, WriteEvent(activity=0, phase=Phase.FAILED, rows=rows, message=message))
        raise
    _send(to, WriteEvent(activity=0, phase=Phase.DONE, rows=rows))


def report_abandoned(to: ReportTo | None) -> None:
    """Report that a write was given up."""
    _send(to, WriteEvent(activity=0, phase=Phase.CANCELLED))


def _announce(to: ReportTo | None, plan: PlanEvent) -> ReportTo | None:
    activity = _send(to, plan)
    return dataclasses.replace(to, activity=activity) if to is not None and activity else None


def _send(to: ReportTo | None, event: PlanEvent | WriteEvent) -> int:
    """Send an event for the activity of an address; return the answer, 0 if there is none."""
    if to is None:
        return 0
    try:
        with socket.create_connection((to.host, to.port), _WITHIN) as link:
            link.sendall(encode(dataclasses.replace(event, activity=to.activity), to.token))
            with link.makefile("rb") as lines:
                return decode(lines.readline(MAX_LINE), Answer).activity
    except (OSError, ProtocolError) as error:
        _log.debug("the driver was not told of %s: %s", event, error)
        return 0
