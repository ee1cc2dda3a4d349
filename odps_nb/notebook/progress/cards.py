"""Shows progress as a card in the notebook: HTML without scripts, updated in place."""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from odps_nb.client.calls.progress import (
    ItemProgress,
    Phase,
    ProgressSnapshot,
    ProgressTracker,
    SplitProgress,
)
from odps_nb.convert.loaded import loaded
from odps_nb.errors import MissingDependencyError
from odps_nb.html import STATUS, STATUS_SMALL, bundle, escape
from odps_nb.notebook.display import output
from odps_nb.notebook.live.live_view import widget_bundle, widget_class
from odps_nb.notebook.progress import words
from odps_nb.notebook.progress.operations import SHOW_AFTER, Flusher, Options
from odps_nb.terms import count_of, format_bytes, shorten

MAX_BARS = 16
MAX_EVENT = 700
"""Maximum characters of an event; two refusals of a transfer service, with request ids, fit."""

_CANCEL = Path(__file__).with_name("cancel.js")
# Only accents have fixed colours: text inherits the page's colour, light or dark.
_ACCENT = {Phase.DONE: "#1e8e3e", Phase.CANCELLED: "#c77700", Phase.FAILED: "#d93025"}
_RUNNING = "#1a73e8"
_GRID = (
    "display:grid;grid-template-columns:repeat(auto-fill,minmax(160px,1fr));gap:2px 14px;"
    "margin:4px 0;font-size:85%;white-space:nowrap"
)


def card_html(snapshot: ProgressSnapshot) -> str:
    """Return a snapshot as escaped HTML without scripts (about 1 KB for a final snapshot)."""
    accent = _ACCENT.get(snapshot.phase, _RUNNING)
    name, state = f"{snapshot.operation} {snapshot.title}", words.ending(snapshot)
    parts = [f"<div><b>{escape(name)}</b> · {escape(state)}</div>", _main_bar(snapshot, accent)]
    if figures := words.figures(snapshot):
        tabular = "font-variant-numeric:tabular-nums"
        parts.append(f'<div style="{tabular}">{escape(" · ".join(figures))}</div>')
    if snapshot.message:
        parts.append(f"<div>{escape(shorten(snapshot.message, 400))}</div>")
    parts += _record(snapshot) if snapshot.phase.is_final else _live(snapshot, accent)
    return f'<div role="status" style="{STATUS.format(accent)}">{"".join(parts)}</div>'


def card_text(snapshot: ProgressSnapshot) -> str:
    """Return a snapshot as plain text, for terminals, diffs and screen readers."""
    lines = [f"{snapshot.operation} {snapshot.title}: {words.ending(snapshot)}"]
    if figures := words.figures(snapshot):
        lines.append("  " + " · ".join(figures))
    if snapshot.message:
        lines.append("  " + shorten(snapshot.message, 400))
    times = [] if snapshot.phase.is_final else words.times(snapshot)
    if details := [*words.ids(snapshot), *times]:
        lines.append("  " + " · ".join(details))
    return "\n".join(lines)


def _main_bar(snapshot: ProgressSnapshot, accent: str) -> str:
    share = 1.0 if snapshot.phase is Phase.DONE else snapshot.fraction
    if not share and snapshot.phase.is_final:
        return ""  # the share is unknown; an empty bar would look like 0 %
    label = f"{snapshot.operation} {snapshot.title}"
    return _bar(share or None, label, accent, height=10, elapsed=snapshot.elapsed)


def _bar(share: float | None, label: str, accent: str, *, height: int, elapsed: float) -> str:
    """Return a progress bar; a share of 0 is drawn as a small amount, never as an empty bar.

    If the share is unknown, each redraw moves a block according to ``elapsed``, because a
    ``<progress>`` without a value would stay animated after the kernel has ended. A ``<progress>``
    with a value is only for screen readers; it is hidden, because its track is white on dark pages.
    """
    shape = f"height:{height}px;border-radius:{height // 2}px"
    track = f"{shape};background:rgba(127,127,127,.25)"
    if share is not None:
        value = f"{max(share * 100, 0.5):.4g}"
        about = f'aria-label="{escape(label)}" max="100" value="{value}"'
        accessible = f'<progress {about} style="opacity:0;width:100%"></progress>'
        block = f'<div style="{shape};width:{value}%;background:{accent}">{accessible}</div>'
        return f'<div style="{track};overflow:hidden">{block}</div>'
    offset = 40 * (1 + math.sin(elapsed * 1.5))
    block = f'<div style="{shape};margin-left:{offset:.0f}%;width:20%;background:{accent}"></div>'
    about = f'role="progressbar" aria-label="{escape(label)}"'
    return f'<div {about} style="{track}">{block}</div>'


def _live(snapshot: ProgressSnapshot, accent: str) -> list[str]:
    """Return a running card's details, unfolded, because each redraw would fold them again."""
    parts = [_file(item, accent) for item in snapshot.moving[:MAX_BARS]]
    if len(snapshot.splits) > 1:
        cells = [
            f"<div>{escape(label)}"
            f"{_bar(share, label, accent, height=6, elapsed=snapshot.elapsed)}</div>"
            for label, share in _groups(snapshot.splits)
        ]
        parts.append(f'<div style="{_GRID}">{"".join(cells)}</div>')
    small = [*snapshot.events[-1:], *words.ids(snapshot), *words.times(snapshot)]
    if small:
        parts.append(f'<div style="{STATUS_SMALL}">{escape(" · ".join(small))}</div>')
    return parts


def _file(item: ItemProgress, accent: str) -> str:
    """Return the progress bar of one file being sent."""
    label = escape(f"{shorten(item.name, 80)} · {words.sent(item)}")
    share = item.sent / item.size if item.size else 1.0
    bar = _bar(share, item.name, accent, height=6, elapsed=0.0)
    return f'<div style="{STATUS_SMALL}">{label}{bar}</div>'


def _record(snapshot: ProgressSnapshot) -> list[str]:
    """Return a final card's details: numbers, then folded sizes, ids and events."""
    summary = []
    if total := len(snapshot.splits):
        done = sum(split.done for split in snapshot.splits)
        whole = count_of(total, "split")
        partly = snapshot.phase is not Phase.DONE and done < total
        summary.append(f"{done} of {whole} finished" if partly else whole)
    sizes, ids, events = words.sizes(snapshot), words.ids(snapshot), words.events(snapshot)
    details = [shorten(line, 160) for line in (*([" · ".join(sizes)] if sizes else []), *ids)]
    details += [shorten(line, MAX_EVENT) for line in events]
    if details:
        sections = (("sizes", sizes), ("ids", ids), ("events", events))
        summary.append(", ".join(name for name, lines in sections if lines))
        lines = "<br>".join(escape(line) for line in details)
        fold = f"<summary>{escape(' · '.join(summary))}</summary>{lines}"
        return [f'<details style="{STATUS_SMALL}">{fold}</details>']
    return [f'<div style="{STATUS_SMALL}">{escape(" · ".join(summary))}</div>'] if summary else []


def _groups(splits: Sequence[SplitProgress]) -> list[tuple[str, float | None]]:
    """Return at most `MAX_BARS` bars as (label, share); adjacent splits share a bar if needed."""
    if len(splits) <= MAX_BARS:
        return [(split.label, _share([split])) for split in splits]
    edges = [len(splits) * i // MAX_BARS for i in range(MAX_BARS + 1)]
    return [
        (f"{low + 1}–{high} of {len(splits)}", _share(splits[low:high]))
        for low, high in pairwise(edges)
    ]


def _share(splits: Sequence[SplitProgress]) -> float | None:
    if all(split.done for split in splits):
        return 1.0
    if all(split.rows_total for split in splits):
        total = sum(split.rows_total or 0 for split in splits)
        return min(1.0, sum(split.rows for split in splits) / total)
    if len(splits) > 1:
        return sum(split.done for split in splits) / len(splits)
    # Without a total, a bar can only show "not started" or "running".
    return None if splits[0].rows or splits[0].wire_bytes else 0.0


@dataclass(slots=True)
class _Loop:
    """Totals of the operations of one kind that have succeeded in the running cell, and a card."""

    count: int = 0
    rows: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    display_id: str | None = None

    def add(self, snapshot: ProgressSnapshot) -> None:
        self.count, self.rows = self.count + 1, self.rows + snapshot.rows
        self.nbytes += snapshot.wire_bytes or snapshot.item_bytes
        self.seconds += snapshot.elapsed

    @property
    def words(self) -> str:
        known = ((self.rows, count_of(self.rows, "row")), (self.nbytes, format_bytes(self.nbytes)))
        parts = [text for amount, text in known if amount]
        return f"{', '.join(parts) or 'no rows'} in {words.format_seconds(self.seconds)}"


class CardListener(Flusher):
    """Shows one operation as a card in the cell that started it; see `Flusher`.

    In a loop, an operation replaces the card of the previous operation if that has succeeded and
    has the same title. The card then shows the totals of these operations.
    """

    _loops: ClassVar[dict[tuple[str, str], _Loop]] = {}

    def __init__(
        self,
        *,
        options: Options | None = None,
        delay: float = SHOW_AFTER,
        on_cancel: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(options=options, delay=delay, on_cancel=on_cancel)
        self._display_id = f"odps-nb-{uuid.uuid4().hex}"
        self._placed = self._lasts = False
        self._loop: _Loop | None = None
        self._button: CancelButton | None = None

    def start(self, tracker: ProgressTracker) -> None:
        """Start drawing; in Colab, draw now, because Colab may drop messages from threads."""
        now = tracker.snapshot()
        if self._in_colab and not self._placed and self._is_shown():
            self._join(now)
            self._draw(now)
        super().start(tracker)

    @property
    def _in_colab(self) -> bool:
        is_main = threading.current_thread() is threading.main_thread()
        return is_main and loaded("google.colab") is not None

    def _join(self, snapshot: ProgressSnapshot) -> None:
        """Replace the previous card of a loop."""
        self._loop = None if self._lasts else self._loops.get(_kind(snapshot))
        if self._loop is not None and self._loop.display_id is not None:
            self._display_id, self._placed = self._loop.display_id, True
            self._loop.display_id = None  # an operation in another thread needs a card of its own

    def _end_in_loop(self, snapshot: ProgressSnapshot) -> None:
        if snapshot.phase is not Phase.DONE or self._lasts:
            self._loops.pop(_kind(snapshot), None)
            return
        if not self._loops:
            registered: list[Callable[[], None]] = []

            def forget(_: BaseException | None) -> None:
                self._loops.clear()
                for remove in registered:
                    remove()

            registered.append(output.after_cell(forget))
        loop = self._loops.setdefault(_kind(snapshot), _Loop())
        loop.add(snapshot)
        if self._placed:
            loop.display_id = self._display_id

    def place(self, operation: str, title: str) -> None:
        """Display the card in the current cell now, for an operation that outlives the cell.

        Output displayed later by a thread would appear in whichever cell is running; updates of
        this card find its cell by the display id.
        """
        self._delay, self._lasts = 0.0, True
        if not self._is_shown():
            return
        self._draw(ProgressSnapshot(operation=operation, title=title, phase=Phase.CREATING))
        if self._on_cancel is not None and self._mode != "text":
            self._button = CancelButton(self._on_cancel)

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Show the final card, if a card was shown, and join the thread."""
        if snapshot.error and not self._lasts:  # the cell shows the full error below the card
            snapshot = replace(snapshot, message=snapshot.error)
        super().stop(snapshot)
        self._end_in_loop(snapshot)
        if self._in_colab and self._placed:
            self._draw(snapshot)
        if self._lasts and self._placed:
            self._draw(snapshot)  # draw a card even if the operation never started
            self._draw_again(snapshot)
        if self._button is not None:
            self._button.remove()

    def _draw_again(self, snapshot: ProgressSnapshot) -> None:
        """Draw the final card again at the end of the cell.

        Programs that execute notebooks only receive messages sent while a cell runs.
        """
        registered: list[Callable[[], None]] = []

        def once(_: BaseException | None) -> None:
            for remove in registered:  # the list is empty if a cell in another thread ends first
                remove()
            self._draw(snapshot)

        registered.append(output.after_cell(once))

    def _draw(self, snapshot: ProgressSnapshot) -> None:
        if not self._placed:
            self._join(snapshot)
        if self._loop is not None and self._loop.count:
            count = count_of(self._loop.count, f"other {snapshot.operation} operation")
            earlier = f"after {count} in this cell: {self._loop.words}"
            message = " · ".join(filter(None, (earlier, snapshot.message)))
            snapshot = replace(snapshot, message=message)
        mime_bundle = bundle(card_html(snapshot), card_text(snapshot))
        if self._mode == "text":
            del mime_bundle["text/html"]
        if self._placed:
            output.replace(mime_bundle, display_id=self._display_id)
        else:
            self._placed = True
            output.show(mime_bundle, display_id=self._display_id)


def _kind(snapshot: ProgressSnapshot) -> tuple[str, str]:
    return snapshot.operation, snapshot.title


class CancelButton:
    """A button in the current cell that calls ``cancel``; not shown without anywidget.

    Like every live view, the button is hidden until the kernel responds, and after it has stopped.
    """

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._display_id = f"odps-nb-{uuid.uuid4().hex}"
        self._widget: Any = None
        try:
            self._widget = widget_class(_CANCEL, ())()
        except MissingDependencyError:
            return
        self._widget.on_msg(self._receive)
        # with empty text, nothing is shown when the notebook is reopened without its kernel
        output.show(widget_bundle(self._widget, ""), display_id=self._display_id)

    def remove(self) -> None:
        """Remove the button; may be called from any thread. Idempotent."""
        if self._widget is not None:
            output.close_widget(self._widget)
            self._widget = None
            output.replace({"text/plain": ""}, display_id=self._display_id)

    def _receive(self, widget: Any, content: object, _: object) -> None:
        if content == {"do": "ready"}:
            widget.send({"kind": "ready"})
        elif content == {"do": "cancel"}:
            self._cancel()
