"""Text, HTML and XML as escaped source; HTML drawn in a sandbox on request.

A drawn page is rebuilt without links, forms and scripts (`parsers.page`), and gets
``<iframe sandbox="">`` and a content security policy of its own: no script, no form, no navigation,
no request, another origin, nothing to click. The source stays beside it, folded, since a notebook
that is reopened untrusted loses the frame.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from odps_nb.errors import MissingDependencyError
from odps_nb.notebook.display.html import MONO, Html, element, escape, join, scroller
from odps_nb.notebook.preview.kinds.drawing import Drawing, Excerpt, Size, UnshowableError, count_of
from odps_nb.notebook.preview.media_types import Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.sniff_text import decode

__all__ = ["POLICY", "draw", "draw_rendered", "source_box"]

#: Stands before the page's own markup, so that nothing in it is parsed before the policy.
POLICY: Final = (
    '<!DOCTYPE html><meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
)
_LINE: Final = 400
_TALL: Final = 3


def text_of(excerpt: Excerpt, kind: Kind) -> str:
    """Return the excerpt as text."""
    try:
        return decode(excerpt.data, kind.encoding, whole=excerpt.whole)
    except UnicodeDecodeError as error:
        raise UnshowableError(f"not {kind.encoding} from byte {error.start} on") from None


def source_box(text: str, size: Size, *, label: str) -> tuple[Html, bool]:
    """Return the first lines, escaped, and whether something was left out."""
    lines = text.splitlines()
    shown = [line[:_LINE] + ("…" if len(line) > _LINE else "") for line in lines[: size.lines]]
    box = scroller(
        "div",
        element(
            "pre",
            "\n".join(shown),
            attributes={"dir": "auto"},
            style=f"margin:0;padding:8px 10px;white-space:pre-wrap;overflow-wrap:anywhere;"
            f"background:none;color:inherit;{MONO}",
        ),
        label=label,
        style=size.box,
    )
    return box, len(lines) > len(shown)


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw the first lines."""
    text = text_of(excerpt, kind)
    box, cut = source_box(text, size, label=f"text of {name}")
    facts = [count_of(len(text.splitlines()), "line")] if excerpt.whole else ["first lines"]
    if kind.encoding not in ("utf-8", "utf-8-sig"):
        facts.append(kind.encoding)
    return Drawing(html=box, facts=tuple(facts), note="" if excerpt.whole or not cut else "cut")


def draw_rendered(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw the page in a frame that may do nothing, with its source folded below.

    Raises
    ------
    UnshowableError
        When the page is larger than a tile may be.
    """
    if not excerpt.whole:
        raise UnshowableError("too large to draw")
    text = text_of(excerpt, kind)
    try:
        parsed = parse("page", text.encode("utf-8", "replace"), size)
    except (UnshowableError, MissingDependencyError) as error:
        hint = getattr(error, "hint", "")
        return replace(
            draw(excerpt, kind, size, name=name), note=f"{error}: {hint}" if hint else str(error)
        )
    page = POLICY + parsed.data.decode("utf-8", "replace")
    # Clicks pass through the frame; so it is higher than its box, which scrolls in its place.
    frame = element(
        "iframe",
        attributes={"sandbox": "", "srcdoc": page, "title": f"{name}, drawn in a sandbox"},
        style=f"display:block;width:100%;height:{size.height * _TALL}px;border:0;"
        "background-color:#ffffff;pointer-events:none",
    )
    window = scroller("div", frame, label=f"{name}, drawn", style=size.box)
    box, _ = source_box(text, size, label=f"source of {name}")
    source = element("details", element("summary", escape("source"), style="padding:2px 10px"), box)
    dropped = parsed.text("styles") == "dropped"
    return Drawing(
        html=join((window, source)),
        facts=("drawn in a sandbox",),
        note="without its styles, which load files" if dropped else "",
    )
