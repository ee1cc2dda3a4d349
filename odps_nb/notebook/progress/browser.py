"""Reports the progress of a task to the browser side of a live view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odps_nb.client.calls.progress import ProgressSnapshot
from odps_nb.notebook.progress import words
from odps_nb.notebook.progress.operations import Flusher


class BrowserProgress(Flusher):
    """A progress listener that reports a task's progress to the browser."""

    def __init__(
        self, send: Callable[[Mapping[str, Any]], None], cancel: Callable[[], None], task: str = ""
    ) -> None:
        super().__init__(delay=0.0, on_cancel=cancel)
        self._send, self._task = send, task

    def _is_shown(self) -> bool:
        return True

    def _draw(self, snapshot: ProgressSnapshot) -> None:
        text = " · ".join([words.ending(snapshot), *words.figures(snapshot)])
        message = {
            "kind": "busy",
            "task": self._task,
            "text": f"{self._task}: {text}" if self._task else text,
            "share": snapshot.fraction,
        }
        self._send(message)

    def _draw_end(self, snapshot: ProgressSnapshot) -> None:
        pass  # the result is sent in a separate message
