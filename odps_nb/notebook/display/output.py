"""Displays MIME bundles: a new one in the current cell, or in place of an earlier one."""

from __future__ import annotations

from collections.abc import Mapping


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
