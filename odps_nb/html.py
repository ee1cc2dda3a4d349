"""Builds HTML that is safe by construction: all elements go through one escaping function.

Inline styles with inherited text colours and semi-transparent greys work in light and dark themes
and in exports. They survive JupyterLab's sanitizer, which drops ``var(…)``, ``aria-…`` and
``tabindex`` when a notebook is reopened untrusted.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable
from typing import Final

from odps_nb.errors import OdpsNbError, explain, visible

LINE: Final = "1px solid rgba(128,128,128,0.35)"
TINT: Final = "rgba(128,128,128,0.12)"
MUTED: Final = "opacity:0.75"
SMALL: Final = "font-size:12px;line-height:1.4"
MONO: Final = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:11px;line-height:1.45"
#: Style of a box around wide content that scrolls. It keeps the boxes of hosts such as Solara,
#: which grow with their content, from becoming wider than the page.
NOT_WIDER: Final = "display:grid;grid-template-columns:minmax(0,1fr)"
#: Styles of a status card and of its small print. The edge colour ``{}`` shows the state.
STATUS: Final = (
    "border:1px solid rgba(127,127,127,.35);border-left:4px solid {};border-radius:4px;"
    "padding:6px 12px;max-width:60em;line-height:1.5"
)
STATUS_SMALL: Final = "font-size:85%;opacity:.75;overflow-wrap:anywhere"
# a mid-grey checkerboard behind transparent pictures, so that both black and white are visible
BACKDROP: Final = "background:repeating-conic-gradient(#b4b4b4 0% 25%,#cccccc 0% 50%) 0 0/16px 16px"

# Direction marks that `escape` keeps, because each element isolates its text direction.
_MARKS = "\u061c\u200e\u200f"
_BLANK = re.compile(r"\r?\n(?=[ \t]*\r?\n)")  # the end of a line before a blank line

_VOID = frozenset({"br", "img"})
_BLOCKS = frozenset({"details", "div", "figcaption", "figure", "iframe", "p", "pre", "summary"})
_INLINE = frozenset({"b", "bdi", "code", "em", "i", "small", "span", "strong"})
_LISTS = frozenset({"caption", "li", "ol", "table", "tbody", "td", "th", "thead", "tr", "ul"})
_TAGS = _VOID | _BLOCKS | _INLINE | _LISTS | {"audio", "video"}
_ARIA = frozenset({"alt", "aria-hidden", "aria-label", "role", "scope", "tabindex", "title"})
_ATTRIBUTES = _ARIA | frozenset(
    {"colspan", "controls", "dir", "height", "open", "preload", "sandbox"}
    | {"poster", "src", "srcdoc", "start", "style", "width"}
)


class Html(str):
    """Markup that needs no escaping: a constant, or a result of `escape`, `element` or `join`."""

    __slots__ = ()


def escape(value: object) -> Html:
    """Escape ``str(value)`` for HTML, and make characters that hide or reorder text visible."""
    return Html(html.escape(visible(value, keep=_MARKS), quote=True))


def bundle(html: str, text: str) -> dict[str, str]:
    r"""Return a MIME bundle of text and of HTML in which no Markdown or formulas are rendered.

    MathJax would turn ``$\href…$`` in user data into a link. In a notebook converted to Markdown,
    a blank line ends an element (CommonMark, HTML blocks), so the text after it, such as
    ``![](https://…)``, would be an image.
    """
    joined = _BLANK.sub("&#10;", html)
    return {
        "text/html": f'<div class="mathjax_ignore tex2jax_ignore">{joined}</div>',
        "text/plain": visible(text),
    }


def text_page(text: str) -> dict[str, str]:
    """Return a static page that consists of text."""
    return bundle(element("pre", visible(text), style="white-space:pre-wrap"), text)


def failed_page(thing: object, error: OdpsNbError) -> dict[str, str]:
    """Return a static page that shows an object's repr and an error."""
    return text_page("\n".join([repr(thing), *explain(error)]))


def element(
    tag: str,
    *children: object,
    attributes: dict[str, str | int | None] | None = None,
    style: str = "",
) -> Html:
    """Return an element, escaping attribute values and all children that are not `Html`.

    Attributes that are ``None`` are omitted. ``style`` must be a constant, never built from data.
    Raises ``ValueError`` for tags and attributes that this module does not list (scripts, style
    sheets, links, event handlers), for sources other than ``data:``, and for frames without a
    sandbox.
    """
    if tag not in _TAGS:
        raise ValueError(f"<{tag}> is not allowed")
    all_attributes = {**(attributes or {}), **({"style": style} if style else {})}
    unknown = all_attributes.keys() - _ATTRIBUTES
    if unknown:
        raise ValueError(f"<{tag}> must not have {sorted(unknown)}")
    if tag == "iframe" and all_attributes.get("sandbox") != "":
        raise ValueError('a frame needs sandbox="", the strictest sandbox')
    if not all(
        str(all_attributes.get(name, "data:")).startswith("data:") for name in ("src", "poster")
    ):
        raise ValueError("a source must be a data: URL")
    head = "".join(
        f' {name}="{escape(value)}"' for name, value in all_attributes.items() if value is not None
    )
    return Html(f"<{tag}{head}>" if tag in _VOID else f"<{tag}{head}>{join(children)}</{tag}>")


def join(parts: Iterable[object], separator: str = "") -> Html:
    """Join the parts, escaping those that are not `Html`."""
    return Html(separator.join(part if isinstance(part, Html) else escape(part) for part in parts))


def scroller(tag: str, *children: object, label: str, style: str = "") -> Html:
    """Return a box that scrolls with the wheel or the keyboard if its content does not fit."""
    return element(
        tag,
        *children,
        attributes={"tabindex": 0, "role": "region", "aria-label": label},
        style=f"overflow:auto;{style}",
    )


def data_url(mime: str, data: bytes) -> str:
    """Return ``data`` as a ``data:`` URL; ``mime`` must be a constant, never user data."""
    return f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"
