"""Draws one blob as a tile: a preview and a caption.

If one blob is damaged or deleted, or a parser fails, the tile of this blob states the reason.
Errors that concern all blobs are raised: see `OF_ALL`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from odps_nb.errors import (
    CancelledError,
    ConfigError,
    LimitExceededError,
    MissingDependencyError,
    NotFoundError,
    OdpsNbError,
    ServiceError,
    StateError,
    TransportError,
    visible,
)
from odps_nb.formats.drawing import Drawing, Excerpt, placeholder, reason_to_show, refusal
from odps_nb.formats.kind import TOO_LARGE, UNKNOWN, Format
from odps_nb.formats.kinds import binary
from odps_nb.formats.registry import differs, kinds
from odps_nb.formats.shared import GRID, SINGLE, Size
from odps_nb.html import LINE, MUTED, SMALL, Html, bundle, element, join
from odps_nb.notebook.preview.peek import peek
from odps_nb.parsing.client import ParserStoppedError
from odps_nb.parsing.encodings import decode_detected
from odps_nb.parsing.lengths import ends_early
from odps_nb.parsing.reasons import ENDS_EARLY, refusal_of
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, format_bytes, shorten

if TYPE_CHECKING:
    from odps_nb.client.blob.streamed import StreamedBlob

_log = logging.getLogger("odps_nb")

#: Maximum characters of markup in one tile.
TILE_BUDGET: Final = 512 * 1024
#: Format of a blob that was not read.
UNREAD: Final = Format(mime=UNKNOWN, label="not read", kind="binary")
#: Errors that concern the connection or the caller, not one blob; except `NotFoundError`.
OF_ALL: Final = (TransportError, ServiceError, ConfigError, StateError, CancelledError)
_CAPTION: Final = 4096  # characters


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A drawn blob with its caption: ``html`` is the whole tile, ``text`` a one-line summary.

    ``declared`` is the media type declared by the uploader, ``size`` the blob's size in bytes,
    ``space`` the space available.
    """

    name: str
    format: Format
    drawing: Drawing
    space: Size
    declared: str = ""
    size: int | None = None
    verified: bool = False
    notes: tuple[str, ...] = ()
    row: str = ""

    def __repr__(self) -> str:
        return f"Tile({self.text!r}, <{len(self.html)} characters>)"

    @cached_property
    def words(self) -> str:
        """Format, facts, encoding and size as one string."""
        what = [self.format.label, *self.drawing.facts]
        if self.format.encoding not in ("", "utf-8", "utf-8-sig"):
            name = self.format.encoding.replace("_", "-")
            what.append(f"{name} (guessed)" if self.format.guessed else name)
        if self.size is not None:
            what.append(format_bytes(self.size))
        return " · ".join(what)

    @property
    def row_caption(self) -> str:
        """The caption of the row, without a value that equals the tile's name."""
        return caption_of_row(self.row, self.name, self.size)

    @property
    def lines(self) -> tuple[str, ...]:
        """The notes, except a reason that is already drawn in place of the content."""
        refused = self.drawing.note if self.drawing.refused else None
        return tuple(note for note in self.notes if note != refused)

    @property
    def text(self) -> str:
        """One-line summary of the blob."""
        parts = [shorten(self.name, 48), self.words]
        parts += ["verified"] if self.verified else []
        parts += [shorten(" ".join(self.row_caption.split()), 80)] if self.row_caption else []
        return "  ".join(parts)

    @cached_property
    def html(self) -> Html:
        """The tile: the drawing with its caption, which can receive the keyboard focus."""
        drawn, width = self.drawing.html, self.space.width
        frame = f"margin:0;border:{LINE};border-radius:8px;overflow:hidden"
        if self.space.layout == "row":
            frame += ";display:flex;flex-wrap:wrap;align-items:center"
            drawn = element("div", drawn, style=f"width:{width}px;max-width:100%")
            text = "padding:8px 14px;flex:1;min-width:200px"
        else:
            fixed = f"width:{width}px;max-width:100%"
            fluid = f"width:100%;max-width:{2 * width}px"
            frame += f";{fluid if self.space.layout == 'tile' else fixed};box-sizing:border-box"
            text = "padding:8px 10px"
        return element(
            "figure",
            drawn,
            element("figcaption", join(self._caption()), style=text),
            attributes={"tabindex": 0, "aria-label": f"{shorten(self.name, 120)}, {self.words}"},
            style=frame,
        )

    def _caption(self) -> Iterator[Html]:
        yield element(
            "div",
            element("bdi", shorten(self.name, 120)),
            attributes={"title": shorten(self.name, 400)},
            style="font-weight:bold;overflow:hidden;text-overflow:ellipsis;white-space:nowrap",
        )
        yield element("div", self.words, style=f"{SMALL};{MUTED}")
        small = f"{SMALL};overflow-wrap:anywhere"
        if self.row_caption:
            yield element(
                "div", element("bdi", shorten(visible(self.row_caption), 240)), style=small
            )
        badges = []
        if self.verified:
            badges.append(_badge("✓ verified", "rgba(34,160,80,0.22)", None))
        if differs(self.declared, self.format):
            words, title = f"uploaded as {self.declared}", shorten(self.declared, 400)
            badges.append(_badge(words, "rgba(235,140,20,0.30)", title))
        if badges:
            yield element("div", *badges)
        for note in self.lines:
            yield element("div", shorten(visible(note), 240), style=small)


def _badge(words: str, colour: str, title: str | None) -> Html:
    return element(
        "span",
        shorten(words, 200),
        attributes={"title": title},
        style="display:inline-block;padding:0 8px;margin:4px 4px 0 0;border-radius:9px;"
        "max-width:100%;box-sizing:border-box;vertical-align:bottom;"
        f"overflow:hidden;text-overflow:ellipsis;white-space:nowrap;{SMALL};"
        f"background-color:{colour}",
    )


def caption_of_row(row: str, name: str, size: int | None) -> str:
    """Return a caption such as ``id 12 · size 9`` without the blob's name and its size in bytes."""

    def is_known(part: str) -> bool:
        column, _, value = part.partition(" ")
        is_size = column.rstrip(":").lower() in ("size", "bytes", "length") and value == str(size)
        return is_size or (name in (part, value) and column != "row")

    return " · ".join(part for part in row.split(" · ") if not is_known(part))


def tile(
    blob: StreamedBlob,
    *,
    size: Size = GRID,
    fallback_name: str = "blob",
    row: str = "",
    render: bool = False,
    budget: int = TILE_BUDGET,
) -> Tile:
    """Read one blob, opening and closing it once, and draw it as a tile.

    Parameters
    ----------
    size
        Space for the preview.
    fallback_name
        Name to show if the uploader declared none.
    row
        Label of the blob's row.
    render
        Draw HTML in a sandbox instead of as source.
    budget
        Maximum characters of markup; beyond this, the tile shows a hex dump of the head and a note.
    """
    try:
        return _tile(blob, size, fallback_name=fallback_name, row=row, render=render, budget=budget)
    except Exception as error:  # noqa: BLE001  # a defect of one blob must not end a gallery
        return unread_tile(why_unread(error), size=size, name=fallback_name, row=row)


def why_unread(error: Exception) -> str:
    """Return the reason why one blob is not shown; raise an error that concerns all blobs."""
    if isinstance(error, OF_ALL) and not isinstance(error, NotFoundError):
        raise error
    if isinstance(error, OdpsNbError):
        return f"{type(error).__name__}: {error}"
    _log.warning("a blob is not shown: %s", error, exc_info=error)
    return refusal_of(error)


def _tile(
    blob: StreamedBlob, size: Size, *, fallback_name: str, row: str, render: bool, budget: int
) -> Tile:
    # three embedded bytes take four characters; the caption also needs space
    room = max(0, min(budget, TILE_BUDGET) - _CAPTION) // 4 * 3
    format, excerpt = peek(blob, embed=room, alone=size.layout == "single")
    name = " ".join(visible(blob.file_name or "").split()) or fallback_name
    drawing = _draw(excerpt, format, size, name=name, render=render)
    notes = [drawing.note, _invalid(excerpt, format)]
    if excerpt.whole and ends_early(excerpt.data) and ENDS_EARLY not in drawing.note:
        notes.append(ENDS_EARLY)
    notes += [] if excerpt.whole else [_head_note(excerpt)]
    drawn = Tile(
        name=name,
        format=format,
        drawing=drawing,
        space=size,
        declared=blob.mime_type or "",
        size=excerpt.size,
        verified=excerpt.verified,
        notes=tuple(filter(None, notes)),
        row=row,
    )
    if len(drawn.html) <= budget:
        return drawn
    small = binary.draw(excerpt, format, size, name=name)
    return replace(
        drawn, drawing=small, notes=("too large to show; use save(path) to save the blob",)
    )


def mimebundle(blob: StreamedBlob, *, render: bool = False) -> dict[str, str]:
    """Return the MIME bundle of one blob: ``text/html`` without scripts, and ``text/plain``.

    With ``render``, an HTML page is drawn in a sandbox. Raises `TransportError` if the service does
    not respond; other errors are shown on the tile.
    """
    drawn = tile(blob, size=SINGLE, render=render)
    return bundle(drawn.html, f"<Blob {drawn.text}>")


def unread_tile(reason: str, *, size: Size = GRID, name: str = "blob", row: str = "") -> Tile:
    """Return a tile with the reason why a blob was not read."""
    drawing = placeholder("not read", size)
    return Tile(name=name, format=UNREAD, drawing=drawing, space=size, notes=(reason,), row=row)


# -- drawing ------------------------------------------------------------------------------------


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str, render: bool) -> Drawing:
    kind = kinds()[format.kind]
    draw = (kind.draw_rendered if render else None) or kind.draw
    try:
        if kind.whole and not excerpt.whole:
            raise UnshowableError(TOO_LARGE)
        return draw(excerpt, format, size, name=name)
    except ParserStoppedError as error:
        note = f"{error}; use save(path) to save the blob"
    except (UnshowableError, MissingDependencyError, LimitExceededError, ConfigError) as error:
        note = reason_to_show(error)
    except Exception as error:  # noqa: BLE001 - decoders may raise anything for malicious bytes
        # show the reason on this tile, so that the other tiles are still drawn
        note = refusal_of(error)
    if kind.fallback is not None:
        try:
            return replace(kind.fallback(excerpt, format, size, name=name), note=note)
        except Exception:  # noqa: BLE001  # e.g. the bytes are invalid in the text's encoding
            _log.debug("the fallback of %s failed", format.kind, exc_info=True)
    return refusal(note, size)


def _invalid(excerpt: Excerpt, format: Format) -> str:
    if not format.encoding:
        return ""
    try:
        _, count = decode_detected(excerpt.data, format.encoding, whole=excerpt.whole)
    except UnicodeDecodeError:
        return ""  # already in the drawing
    return f"{count_of(count, 'invalid byte')} shown as �" if count else ""


def _head_note(excerpt: Excerpt) -> str:
    of_all = f" of {format_bytes(excerpt.size)}" if excerpt.size is not None else ""
    read = f"only the first {format_bytes(len(excerpt.data))}{of_all} were read"
    return f"{read}; save(path) saves the whole blob"
