"""Draws one blob as a tile: preview and caption.

What is wrong with a blob (corrupt, cut, deleted) becomes a line on its tile; errors on the way to
the service (`TransportError`, `CancelledError`) are raised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from odps_nb.errors import (
    ConfigError,
    LimitExceededError,
    MissingDependencyError,
    NotFoundError,
    ProtocolError,
    visible,
)
from odps_nb.notebook.display.html import (
    MUTED,
    SMALL,
    Html,
    bundle,
    element,
    figure,
    join,
)
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, framed
from odps_nb.notebook.preview.kind import UNKNOWN, Format
from odps_nb.notebook.preview.kinds import binary
from odps_nb.notebook.preview.peek import BlobLike, peek
from odps_nb.notebook.preview.registry import differs, kinds
from odps_nb.notebook.preview.shared import GRID, SINGLE, Size
from odps_nb.parsing.client import ParserStoppedError
from odps_nb.parsing.reasons import refusal_of
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import format_bytes, shorten

#: Characters of markup that one tile may have.
TILE_BUDGET: Final = 512 * 1024
#: What stands for the format of a null.
NULL: Final = Format(mime="application/x-empty", label="null", kind="empty")
#: What stands for the format of a blob that was not read.
UNREAD: Final = Format(mime=UNKNOWN, label="not read", kind="binary")
_CAPTION: Final = 4096  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A drawn blob: markup, one line of text, and its properties.

    ``drawing`` is the markup without the caption; ``words``, ``verified`` and ``notes`` are what
    the caption says.
    """

    html: Html
    text: str
    format: Format
    name: str
    drawing: Html
    words: str
    declared: str = ""
    size: int | None = None
    verified: bool = False
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Tile({self.text!r}, <{len(self.html)} characters>)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caption:
    """What the caption of a tile says."""

    name: str
    format: Format
    declared: str = ""
    size: int | None = None
    verified: bool = False
    notes: tuple[str, ...] = ()
    row: str = ""


def tile(
    blob: BlobLike,
    *,
    size: Size = GRID,
    fallback_name: str = "blob",
    row: str = "",
    keep: str = "its save(path)",
    render: bool = False,
    budget: int = TILE_BUDGET,
) -> Tile:
    """Read one blob and draw it as a tile.

    Parameters
    ----------
    blob
        Opened and closed once; no more of it is read than `Kind.limit` of its kind, or `Kind.alone`
        for a large preview.
    size
        How much room the preview has.
    fallback_name
        Its name where the uploader gave none.
    row
        Which row it is of, and what else that says.
    keep
        How to save it, said where only the head is shown.
    render
        Draw HTML in a sandbox rather than as source.
    budget
        Characters of markup that it may take; over it, the head as hex and a note.
    """
    try:
        # what goes into a page as it is takes four characters for three bytes, and has a caption
        room = max(0, min(budget, TILE_BUDGET) - _CAPTION) // 4 * 3
        format, excerpt = peek(blob, embed=room, alone=size.layout == "single")
        stated, declared = blob.file_name, blob.mime_type
    except (ProtocolError, NotFoundError) as error:
        reason = f"{type(error).__name__}: {error}"
        return unread_tile(reason, size=size, name=fallback_name, row=row)
    name = " ".join(visible(stated or "").split()) or fallback_name
    drawing, notes = _draw(excerpt, format, size, name=name, render=render, keep=keep)
    about = _Caption(
        name=name,
        format=format,
        declared=declared or "",
        size=excerpt.size,
        verified=excerpt.verified,
        notes=notes if excerpt.whole else (*notes, _head_note(excerpt, keep)),
        row=row,
    )
    made = _assemble(drawing, about, size)
    if len(made.html) <= budget:
        return made
    small = binary.draw(excerpt, format, size, name=name)
    note = f"too large to show: keep it with {keep}"
    return _assemble(small, replace(about, notes=(note,)), size)


def mimebundle(blob: BlobLike, *, render: bool = False) -> dict[str, str]:
    """Return the MIME bundle of one blob: ``text/html`` without scripts, and ``text/plain``.

    Opens the blob once; reads no more of it than the preview needs.

    Parameters
    ----------
    blob
        What to show; see `BlobLike`.
    render
        Draw an HTML page in a sandbox rather than show its source.

    Raises
    ------
    TransportError
        When the service gives no answer. A blob that is corrupt or gone raises nothing: its tile
        says so.
    """
    made = tile(blob, size=SINGLE, render=render)
    return bundle(made.html, f"<Blob {made.text}>")


def null_tile(*, size: Size = GRID, name: str = "null") -> Tile:
    """Return the tile of a null cell."""
    words = element("em", "null", style=MUTED)
    about = _Caption(name=name, format=NULL)
    return _assemble(Drawing(html=framed(words, size)), about, size)


def unread_tile(reason: str, *, size: Size = GRID, name: str = "blob", row: str = "") -> Tile:
    """Return the tile of a blob that was not read, with the reason."""
    words = element("em", "not read", style=MUTED)
    about = _Caption(name=name, format=UNREAD, notes=(reason,), row=row)
    return _assemble(Drawing(html=framed(words, size)), about, size)


# -- drawing ------------------------------------------------------------------------------------


def _draw(
    excerpt: Excerpt, format: Format, size: Size, *, name: str, render: bool, keep: str
) -> tuple[Drawing, tuple[str, ...]]:
    kind = kinds()[format.kind]
    draw = (kind.draw_rendered if render else None) or kind.draw
    try:
        drawing = draw(excerpt, format, size, name=name)
    except MissingDependencyError as error:
        return binary.draw(excerpt, format, size, name=name), (f"{error}: {error.hint}",)
    except ParserStoppedError as error:
        return binary.draw(excerpt, format, size, name=name), (f"{error}; keep it with {keep}",)
    except (UnshowableError, LimitExceededError, ConfigError) as error:
        return binary.draw(excerpt, format, size, name=name), (str(error),)
    except Exception as error:  # noqa: BLE001 - hostile bytes meet decoders that are not ours,
        # and these raise what they like; the reason is shown, the other tiles live on
        return binary.draw(excerpt, format, size, name=name), (refusal_of(error),)
    return drawing, (drawing.note,) if drawing.note else ()


def _head_note(excerpt: Excerpt, keep: str) -> str:
    of_all = f" of {format_bytes(excerpt.size)}" if excerpt.size is not None else ""
    return f"read: the first {format_bytes(len(excerpt.data))}{of_all}; for all use {keep}"


def _assemble(drawing: Drawing, about: _Caption, size: Size) -> Tile:
    what = [about.format.label, *drawing.facts]
    if about.format.encoding not in ("", "utf-8", "utf-8-sig"):
        name = about.format.encoding.replace("_", "-")
        what.append(f"{name} (guessed)" if about.format.guessed else name)
    if about.size is not None:
        what.append(format_bytes(about.size))
    words = " · ".join(what)
    caption = join(
        (
            element(
                "div",
                element("bdi", shorten(about.name, 120)),
                attributes={"title": shorten(about.name, 400)},
                style="font-weight:bold;overflow:hidden;text-overflow:ellipsis;white-space:nowrap",
            ),
            element("div", words, style=f"{SMALL};{MUTED}"),
            *_row(about),
            *_badges(about),
            *(
                element("div", shorten(visible(note), 240), style=f"{SMALL};overflow-wrap:anywhere")
                for note in about.notes
            ),
        )
    )
    label = f"{shorten(about.name, 120)}, {words}"
    line = f"{shorten(about.name, 48)}  {words}"
    line += "  verified" if about.verified else ""
    line += f"  {shorten(about.row, 80)}" if _row(about) else ""
    return Tile(
        html=figure(
            drawing.html,
            caption,
            label=label,
            width=size.width,
            beside=size.layout == "row",
            fills=size.layout == "tile",
        ),
        text=line,
        format=about.format,
        name=about.name,
        drawing=drawing.html,
        words=words,
        declared=about.declared,
        size=about.size,
        verified=about.verified,
        notes=about.notes,
    )


def _row(about: _Caption) -> list[Html]:
    if about.row in ("", about.name):
        return []
    style = f"{SMALL};overflow-wrap:anywhere"
    return [element("div", element("bdi", shorten(visible(about.row), 240)), style=style)]


def _badges(about: _Caption) -> list[Html]:
    shape = (
        "display:inline-block;padding:0 8px;margin:4px 4px 0 0;border-radius:9px;"
        "max-width:100%;box-sizing:border-box;vertical-align:bottom;"
        "overflow:hidden;text-overflow:ellipsis;white-space:nowrap"
    )
    badges = []
    if about.verified:
        style = f"{shape};{SMALL};background-color:rgba(34,160,80,0.22)"
        badges.append(element("span", "✓ verified", style=style))
    if differs(about.declared, about.format):
        style = f"{shape};{SMALL};background-color:rgba(235,140,20,0.30)"
        declared = element(
            "span",
            f"declared {shorten(about.declared, 200)}",
            attributes={"title": shorten(about.declared, 400)},
            style=style,
        )
        badges.append(declared)
    return [element("div", *badges)] if badges else []
