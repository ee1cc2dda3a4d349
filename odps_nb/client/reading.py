"""Opens read sessions by the first transfer service that the account has."""

from __future__ import annotations

from collections.abc import Callable

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.columns import increment_of
from odps_nb.client.read.needs_query import NeedsQuery
from odps_nb.client.read.plan import ReadPlan, ReadSession
from odps_nb.client.read.requests import OLD_PREFIX
from odps_nb.client.read.resume import rows_of
from odps_nb.client.read.session import open_storage_session, reopen_storage_session
from odps_nb.client.read.tunnel import PREFIX, open_downloads, reopen_downloads
from odps_nb.client.sql.by_query import QUERY_PREFIX, open_by_query, reopen_query
from odps_nb.errors import ArgumentError
from odps_nb.terms import Transfer


def open_read_session(
    storage: StorageClient,
    plan: ReadPlan,
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> ReadSession:
    """Open a read session: a snapshot of the table, divided into splits.

    The first transfer service that the account has opens the session (`TransferChoice`). For a
    view, an external table or a JSON column that the service cannot read, the session reads the
    result of a query.
    """
    ways: dict[Transfer, Callable[[], ReadSession]] = {
        Transfer.STORAGE: lambda: open_storage_session(
            storage, plan, tracker=tracker, cancel=cancel
        )
    }
    if not increment_of(plan):
        ways[Transfer.STORAGE_V1] = lambda: open_storage_session(
            storage, plan, tracker=tracker, cancel=cancel, old=True
        )
        ways[Transfer.TUNNEL] = lambda: open_downloads(
            storage, plan, tracker=tracker, cancel=cancel
        )
    what = f"reading changes of {plan.table}" if increment_of(plan) else f"reading {plan.table}"
    try:
        session = storage.transfer.run(ways, what=what, table=plan.table, tracker=tracker)
    except NeedsQuery as refusal:
        if increment_of(plan):
            raise ArgumentError(
                f"{refusal.why}, whose changes cannot be read",
                hint="read all rows: omit since=, until= and changes=",
            ) from None
        session = open_by_query(storage, plan, refusal, tracker=tracker, cancel=cancel)
    if tracker is not None:
        rows = session.row_count
        if rows is not None and session.limit is not None:
            rows = min(session.limit, rows)
        tracker.plan(session_id=session.session_id, rows_total=rows)
        for split in session.splits:
            tracker.plan_split(str(split), rows=rows_of(split))
    return session


def reopen_read_session(storage: StorageClient, plan: ReadPlan, session_id: str) -> ReadSession:
    """Return a plan's session with the same rows; raise if it has expired.

    The prefix of the id names the service.
    """
    if session_id.startswith(PREFIX):
        return reopen_downloads(storage, plan, session_id)
    if session_id.startswith(QUERY_PREFIX):
        return reopen_query(storage, plan, session_id)
    if not session_id.startswith(OLD_PREFIX):
        storage.transfer.require_storage(f"reading session {session_id}")
    return reopen_storage_session(storage, plan, session_id)
