"""A button below the card of a background operation that cancels it.

Needs ipywidgets; without them, or where widgets are not shown, ``%odps cancel`` does the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from odps_nb.notebook.display import output
from odps_nb.notebook.live.twin import close_widget

__all__ = ["CancelButton"]


class CancelButton:
    """Shows a button in the current cell that calls ``cancel`` once; `remove` takes it away.

    Examples
    --------
    ::

        button = CancelButton(scan.cancel)
        …
        button.remove()
    """

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._display_id = f"odps-nb-{uuid.uuid4().hex}"
        self._widget: Any = _button()
        if self._widget is None:
            return
        self._widget.on_click(self._clicked)
        # no text: a notebook that is reopened without its kernel has nothing to click at
        shown = {**self._widget._repr_mimebundle_(), "text/plain": ""}
        output.show(shown, display_id=self._display_id)

    def remove(self) -> None:
        """Take the button away, from any thread. Idempotent."""
        if self._widget is not None:
            close_widget(self._widget)
            self._widget = None
            output.replace({"text/plain": ""}, display_id=self._display_id)

    def _clicked(self, button: Any) -> None:
        button.disabled, button.description = True, "Cancelling …"
        self._cancel()


def _button() -> Any:
    try:
        import ipywidgets as widgets
    except ImportError:
        return None
    return widgets.Button(description="Cancel", tooltip="cancel this operation")
