"""`read_name`: how a plan of Spark shows a read of ours.

What ``explain()``, Spark's UI and its event log show: table, columns, partitions, condition, limit
and session. No endpoint, no key; the text of a condition is shown as Spark shows its own filters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odps_nb.errors import visible

if TYPE_CHECKING:
    from odps_nb.client.read.splits import ReadPlan, ReadSession

__all__ = ["read_name"]

_SHOWN = 200


def read_name(session: ReadSession, plan: ReadPlan | None) -> str:
    """Return the name of a read's function in plans, another one for each session."""
    told = [_columns(session, plan)]
    if plan is not None and plan.partitions:
        told.append(_short(" or ".join(map(str, plan.partitions))))
    if plan is not None and plan.where:
        told.append(f"where {_short(' '.join(plan.where.split()))}")
    if session.limit is not None:
        told.append(f"limit {session.limit}")
    told.append(f"session {session.session_id}")
    return visible(f"odps {session.table} [{'; '.join(told)}]")


def _columns(session: ReadSession, plan: ReadPlan | None) -> str:
    count, known = len(session.schema), None if plan is None else plan.schema
    if known is not None:
        return f"{count} of {len(known)} columns"
    return f"{count} columns" if session.selects else f"all {count} columns"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
