"""What a kind of preview declares: its formats, how they are recognised, limits and drawing.

A kind is one file in `odps_nb.notebook.preview.kinds` with a constant ``KIND``. A parser in native
code is one file in `odps_nb.notebook.preview.parsers` with ``parse(data, options)``, which runs in
the parser process. Both raise `UnshowableError` with a reason for what cannot be shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final

from odps_nb.notebook.preview.drawing import Drawing, Excerpt
from odps_nb.parsing.encodings import decode, detect
from odps_nb.parsing.values import UnshowableError

#: Bytes that recognition sees at most, and that every preview may read.
HEAD: Final = 64 * 1024
MIB: Final = 1024 * 1024
#: Media type of bytes that nothing is known of.
UNKNOWN: Final = "application/octet-stream"

# Values of `Kind.precedence`: lower ones are asked first.
FIRST: Final = 0  #: asked before texts: bytes that may be readable and still are no text (PDF)
TEXTS: Final = 100  #: up to `BINARIES`: asked only about bytes that are text
BINARIES: Final = 200  #: everything else; no text gets here
LAST: Final = 300  #: when no other kind fits


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: its names, and the bytes that prove it."""

    mime: str  #: Our media type, the only one that gets into a ``data:`` URL.
    label: str  #: Displayed name: ``PNG``, ``CSV``, ….
    _: KW_ONLY
    aliases: tuple[str, ...] = ()  #: Other media types that people declare for it.
    starts: tuple[bytes, ...] = ()  #: First bytes that prove the format; see `Kind.recognise`.
    brands: tuple[bytes, ...] = ()  #: Brands of an ISO base media file that prove it.
    limit: int = 0  #: Bytes that are read of it at most, where that is more than `Kind.limit`.
    kind: str = ""  #: Of recognised bytes: name of the kind.
    encoding: str = ""  #: Of recognised text: Python's name of its encoding.
    guessed: bool = False  #: Whether the encoding was guessed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first bytes of a blob, which a kind recognises or not."""

    data: bytes  #: At most `HEAD` bytes.
    whole: bool  #: Whether they are all there are.
    text: str = ""  #: The bytes as text; empty when they are no text.
    encoding: str = ""  #: The encoding of the text.
    guessed: bool = False  #: Whether the encoding was guessed.
    brand: bytes = b""  #: The first known brand of an ISO base media file.

    @classmethod
    def of(
        cls, data: bytes, *, whole: bool, brands: Set[bytes] = frozenset(), guess: bool = False
    ) -> Head:
        """Decode the bytes if they are text; look for one of ``brands``.

        With ``guess``, an encoding is guessed where none is stated and it is not UTF-8.
        """
        found = detect(data, whole=whole, guess=guess) if data else None
        return cls(
            data=data,
            whole=whole,
            text=decode(data, found.name, whole=whole) if found else "",
            encoding=found.name if found else "",
            guessed=found is not None and found.guessed,
            brand=_brand(data, brands),
        )

    def __repr__(self) -> str:
        return f"Head(<{len(self.data)} bytes>, whole={self.whole}, encoding={self.encoding!r})"


#: Draws the first bytes of a blob: ``draw(excerpt, format, size, *, name)``, where ``name`` is the
#: displayed name of the blob. After an `UnshowableError`, the tile shows its reason and the bytes
#: in hex.
Draw = Callable[..., Drawing]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of preview: which formats it has, how to recognise and how to draw them."""

    name: str  #: What a gallery filters by.
    formats: tuple[Format, ...]
    draw: Draw
    draw_rendered: Draw | None = None  #: Draws in place of ``draw`` for ``render=True``.
    fallback: Draw | None = None  #: Draws what ``draw`` refuses, in place of bytes in hex.
    #: Returns one of the formats; asked when no ``starts`` or ``brands`` fits. It looks at bytes
    #: and text only: libraries belong in the parser process.
    recognise: Callable[[Head], Format | None] | None = None
    #: Lower ones are asked first: `FIRST`, `TEXTS`, `BINARIES` or `LAST`, or a little more.
    precedence: int = BINARIES
    limit: int = HEAD  #: Bytes that are read at most before it is drawn.
    head: int = HEAD  #: Bytes that are read of a larger blob.
    alone: int = 0  #: Bytes that are read at most for a large preview, if more than ``limit``.
    whole: bool = False  #: Whether it is drawn only where all of it was read.
    #: Whether the bytes go into the page as they are, if it has room for them; then at least what
    #: it has room for is read.
    embedded: bool = False

    @property
    def is_text(self) -> bool:
        """Whether it is asked only about bytes that are text."""
        return TEXTS <= self.precedence < BINARIES

    def match(self, head: Head) -> Format | None:
        """Return the format that the bytes have, or ``None`` when they are of another kind."""
        if self.is_text and not head.encoding:
            return None
        found = next((format for format in self.formats if _proves(head, format)), None)
        if found is None and self.recognise is not None:
            found = self.recognise(head)
        if found is None:
            return None
        encoding = head.encoding if self.is_text else ""
        return replace(
            found, kind=self.name, encoding=encoding, guessed=self.is_text and head.guessed
        )


def _proves(head: Head, format: Format) -> bool:
    return head.data.startswith(format.starts) or head.brand in format.brands


def _brand(data: bytes, known: Set[bytes]) -> bytes:
    if data[4:8] != b"ftyp":
        return b""
    # the major brand, then the compatible ones after a version number
    end = min(int.from_bytes(data[:4], "big"), len(data), 128)
    brands = (data[8:12], *(data[at : at + 4] for at in range(16, end - 3, 4)))
    return next((brand for brand in brands if brand in known), b"")


def text_of(excerpt: Excerpt, format: Format) -> str:
    """Return the excerpt as text."""
    try:
        return decode(excerpt.data, format.encoding, whole=excerpt.whole)
    except UnicodeDecodeError as error:
        raise UnshowableError(f"not {format.encoding} from byte {error.start} on") from None


def load_json(text: str | bytes, number: Callable[[str], Any] = str) -> Any:
    """Return the value of a JSON text, ``None`` where it is none.

    Numbers are texts unless ``number`` converts them: one of a million digits costs nothing.
    """
    try:
        return json.loads(text, parse_int=number, parse_float=number)
    except (ValueError, RecursionError):
        return None
