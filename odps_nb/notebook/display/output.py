"""Displays MIME bundles: a new one in the current cell, or in place of an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def show(bundle: Mapping[str, str], *, display_id: str | None = None) -> None:
    """Display a MIME bundle in the current cell; with an id, `replace` can update it."""
    from IPython.display import display

    known = {} if display_id is None else {"display_id": display_id}
    display(dict(bundle), raw=True, **known)  # type: ignore[no-untyped-call]  # IPython's own


def replace(bundle: Mapping[str, str], *, display_id: str) -> None:
    """Replace what `show` displayed under ``display_id``, in whichever cell it is."""
    from IPython.display import update_display

    update_display(  # type: ignore[no-untyped-call]  # IPython's own
        dict(bundle), raw=True, display_id=display_id
    )


def close_widget(widget: Any) -> None:
    """Take a widget out of the browser and of the kernel's list of widgets.

    Its layout and style are widgets, too, and stay on that list when it is closed alone.
    """
    parts = [getattr(widget, name, None) for name in ("layout", "style")]
    for one in (widget, *(part for part in parts if part is not None)):
        one.close()
