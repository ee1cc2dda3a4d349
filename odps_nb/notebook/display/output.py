"""The one place that displays: a bundle into the current cell, or over an earlier one."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["replace", "show"]


def show(bundle: Mapping[str, str], *, display_id: str | None = None) -> None:
    """Display a bundle in the current cell, under an id if it will be replaced."""
    from IPython.display import display

    known = {} if display_id is None else {"display_id": display_id}
    display(dict(bundle), raw=True, **known)  # type: ignore[no-untyped-call]  # IPython's own


def replace(bundle: Mapping[str, str], *, display_id: str) -> None:
    """Put a bundle where ``display_id`` was displayed, whatever cell that was."""
    from IPython.display import update_display

    update_display(  # type: ignore[no-untyped-call]  # IPython's own
        dict(bundle), raw=True, display_id=display_id
    )
