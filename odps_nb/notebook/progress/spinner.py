"""Shows progress in marimo, which its user has imported."""

from __future__ import annotations

from typing import Any

from odps_nb.client.calls.progress import ProgressSnapshot
from odps_nb.convert.loaded import loaded
from odps_nb.html import escape
from odps_nb.notebook.progress import words
from odps_nb.notebook.progress.cards import card_html
from odps_nb.notebook.progress.operations import Flusher


class SpinnerListener(Flusher):
    """Shows one operation as marimo's spinner while it runs, and then as a card."""

    _spinner: Any = None

    def _new_thread(self, **options: Any) -> Any:
        marimo: Any = loaded("marimo")
        return marimo.Thread(**options)  # output of other threads is lost

    def _draw(self, snapshot: ProgressSnapshot) -> None:
        what = f"{snapshot.operation} {snapshot.title}: {words.ending(snapshot)}"
        # marimo encodes only plain strings
        title, details = (str(escape(text)) for text in (what, " · ".join(words.figures(snapshot))))
        if self._spinner is None:
            marimo: Any = loaded("marimo")
            self._running = marimo.status.spinner(title=title, subtitle=details)
            self._spinner = self._running.__enter__()
        else:
            self._spinner.update(title=title, subtitle=details)

    def _draw_end(self, snapshot: ProgressSnapshot) -> None:
        marimo: Any = loaded("marimo")
        self._running.__exit__(None, None, None)  # removes it
        marimo.output.append(marimo.Html(card_html(snapshot)))
