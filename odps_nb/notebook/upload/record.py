"""What the notebook keeps of a file picker: where it writes to, and what it wrote last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odps_nb.notebook.display.html import Html, bundle, element, join
from odps_nb.terms import TableName

if TYPE_CHECKING:
    from odps_nb.access.receipt import Receipt

__all__ = ["record_bundle"]

MAX_NAMES = 20
_BOX = (
    "border:1px solid rgba(127,127,127,.35);border-left:4px solid {};border-radius:4px;"
    "padding:6px 12px;max-width:60em;line-height:1.5"
)
_WAITING, _DONE = _BOX.format("#1a73e8"), _BOX.format("#1e8e3e")
_SMALL = "font-size:85%;opacity:.75;overflow-wrap:anywhere"
_NOTHING = (
    "No file was written yet. Files are chosen here when the kernel has no cell to run; if it was "
    "restarted, run the cell again."
)


def record_bundle(
    table: TableName, receipt: Receipt | None, names: Sequence[str]
) -> dict[str, str]:
    """Return the card as HTML without scripts, and as text."""
    title = f"upload to {table}"
    said = _NOTHING if receipt is None else repr(receipt)[len("<Receipt: ") : -1]
    parts: list[object] = [element("div", element("b", title)), element("div", said)]
    if receipt is not None and names:
        parts.append(element("div", _listed(names), style=_SMALL))
    style = _WAITING if receipt is None else _DONE
    card = element("div", join(parts), attributes={"role": "status"}, style=style)
    return bundle(card, f"{title}: {said}")


def _listed(names: Sequence[str]) -> Html:
    shown: list[object] = [element("bdi", name[:200]) for name in names[:MAX_NAMES]]
    if len(names) > MAX_NAMES:
        shown.append(element("span", f"and {len(names) - MAX_NAMES:,} more"))
    return join(shown, ", ")
