"""Formats progress as plain text (not escaped) for cards, terminal lines and ``%odps status``."""

from __future__ import annotations

import math
from datetime import datetime

from odps_nb.client.calls.progress import ItemProgress, Phase, ProgressSnapshot
from odps_nb.client.calls.snapshot import STALL
from odps_nb.terms import count_of, format_bytes, shorten

MAX_ID = 140
"""Maximum characters of a session id."""


def format_seconds(seconds: float) -> str:
    """Return a duration as text: ``3.2 s``, ``1 min 05 s``, ``2 h 03 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def format_percent(share: float) -> str:
    """Return a share as a percentage, e.g. ``2.5 %``; only 0 gives 0 %, and only 1 gives 100 %."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    step = 0.1 if percent < 10 or percent > 99 else 1
    return f"{math.floor(percent / step + 0.5) * step:.1f}".removesuffix(".0") + " %"


def about_percent(share: float) -> str:
    """Return a share of a sample in words, rounded to whole percent: ``about 8 %``."""
    if share <= 0 or share >= 1:
        return "all" if share > 0 else "none seen"
    if share < 0.01:
        return "under 1 %"
    return "over 99 %" if share > 0.99 else f"about {math.floor(100 * share + 0.5)} %"


def ending(snapshot: ProgressSnapshot) -> str:
    """Return the state or the outcome: ``done in 3.2 s``, ``cancelled at 41 %``."""
    if snapshot.phase is Phase.DONE:
        return f"done in {format_seconds(snapshot.elapsed)}"
    share = snapshot.fraction
    if not snapshot.phase.is_final:
        return f"{snapshot.phase.value}, {format_percent(share)}" if share else snapshot.phase.value
    how = snapshot.phase.value
    if share and share < 1.0:
        return f"{how} at {format_percent(share)}"
    if snapshot.items and not snapshot.rows:
        return f"{how} after {count_of(snapshot.items, 'blob')}"
    if share or snapshot.rows:
        return f"{how} after {count_of(snapshot.rows, 'row')}"
    return f"{how} after {format_seconds(snapshot.elapsed)}"


def figures(snapshot: ProgressSnapshot) -> list[str]:
    """Return the numbers to show: amounts, rate, time left, and retries."""
    trouble = ((snapshot.retries, "retry"), (snapshot.resumes, "resume"))
    troubles = [count_of(count, noun) for count, noun in trouble if count]
    return [*amounts(snapshot), *_pace(snapshot), *troubles]


def amounts(snapshot: ProgressSnapshot) -> list[str]:
    """Return the amounts: rows, blobs, tasks, and the first of `sizes`."""
    texts = []
    for count, total, noun in (
        (snapshot.rows, snapshot.rows_total, "row"),
        (snapshot.items, snapshot.items_total, "blob"),
        (snapshot.tasks if snapshot.tasks_total else 0, snapshot.tasks_total or None, "task"),
    ):
        if total is not None and total != count:
            texts.append(f"{count:,} of {count_of(total, noun)}")
        elif count or total is not None:
            texts.append(count_of(count, noun))
    return [*texts, *(format_bytes(amount) for amount, _ in _sizes(snapshot)[:1])]


def sizes(snapshot: ProgressSnapshot) -> list[str]:
    """Return the byte counts: transferred, decoded, complete, verified."""
    return [f"{format_bytes(amount)} {what}" for amount, what in _sizes(snapshot)]


def _sizes(snapshot: ProgressSnapshot) -> list[tuple[int, str]]:
    pairs = (
        (snapshot.wire_bytes, "transferred"),
        (snapshot.decoded_bytes, "decoded"),
        (snapshot.complete_bytes, "complete"),
        (snapshot.verified_bytes, "verified"),
    )
    return [(amount, what) for amount, what in pairs if amount]


def sent(one: ItemProgress) -> str:
    """Return how much of a file has been sent: ``1.2 MB of 3.4 MB``."""
    return f"{format_bytes(one.sent)} of {format_bytes(one.size)}"


def ids(snapshot: ProgressSnapshot, *, last: int | None = None) -> list[str]:
    """Return the ids needed for support: session or instance id, and the ``last`` request ids."""
    label = "instance" if snapshot.operation == "sql" else "session"
    # a read by the tunnel has one id for each partition
    texts = [f"{label} {shorten(snapshot.session_id, MAX_ID)}"] if snapshot.session_id else []
    requests = snapshot.request_ids[-last:] if last else snapshot.request_ids
    if requests:
        label = "request" if len(requests) == 1 else "requests"
        texts.append(f"{label} {', '.join(requests)}")
    return texts


def events(snapshot: ProgressSnapshot, *, most: int = 5) -> list[str]:
    """Return the events to show: the first one, and the latest; ``most`` is at least 2."""
    recorded = snapshot.events
    return list(recorded if len(recorded) <= most else (recorded[0], *recorded[1 - most :]))


def times(snapshot: ProgressSnapshot) -> list[str]:
    """Return the times of the start and of the last update, which dates a card without a kernel."""
    if not snapshot.started_at:
        return []
    began = datetime.fromtimestamp(snapshot.started_at)
    drawn = datetime.fromtimestamp(snapshot.started_at + snapshot.elapsed)
    return [f"started {began:%Y-%m-%d %H:%M:%S}", f"as of {drawn:%H:%M:%S}"]


def _pace(snapshot: ProgressSnapshot) -> list[str]:
    texts = []
    if snapshot.quiet >= STALL:
        return [f"no progress for {format_seconds(snapshot.quiet)}"]
    if snapshot.elapsed > 0.5:
        if snapshot.rows >= snapshot.elapsed:
            texts.append(f"{count_of(_round(snapshot.rows / snapshot.elapsed), 'row')}/s")
        elif snapshot.wire_bytes and not snapshot.rows:
            texts.append(f"{format_bytes(snapshot.wire_bytes / snapshot.elapsed)}/s")
    if snapshot.eta is not None:
        left = format_seconds(snapshot.eta) if snapshot.eta >= 1 else "1 s"
        texts.append(f"about {left} left")
    return texts


def _round(rate: float) -> int:
    """Round a rate to three significant digits, so that it does not flicker."""
    whole = int(rate)
    return round(whole, 3 - len(str(whole))) if whole >= 1000 else whole


def what_was_done(sql: str) -> str:
    """Describe the effect of SQL whose last statement returns no rows, e.g. ``table created``.

    >>> what_was_done("set a=b; create table if not exists t (id bigint);")
    'table created'
    """
    last = [part for part in sql.split(";") if part.strip()][-1]
    verb, *more = last.casefold().split()
    rest = [word for word in more[:2] if word not in ("or", "replace", "external")]
    if verb in ("insert", "delete", "update", "merge"):
        return f"rows {_DONE[verb]}"
    return f"{rest[0]} {_DONE[verb]}" if verb in _DONE and rest else "the statement returns no rows"


_DONE = {
    "create": "created",
    "drop": "dropped",
    "alter": "altered",
    "truncate": "truncated",
    "insert": "inserted",
    "delete": "deleted",
    "update": "updated",
    "merge": "merged",
}
