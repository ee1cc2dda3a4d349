"""The first page of rows and the profile of their columns, as script-free HTML and as text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from odps_nb.access.blob import iter_inspected
from odps_nb.access.paging.browsing import rows_of
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import CancelledError, OdpsNbError, RequestTimeoutError
from odps_nb.formats.shared import Size
from odps_nb.html import (
    LINE,
    MUTED,
    NOT_WIDER,
    Html,
    bundle,
    element,
    join,
    scroller,
    text_page,
)
from odps_nb.notebook.explore.charts.chart import Chart
from odps_nb.notebook.explore.pages import Page, drawn_page
from odps_nb.notebook.explore.profiles.profile import ColumnProfile, TableProfile
from odps_nb.notebook.explore.profiles.sampling import bounded
from odps_nb.notebook.explore.values.cells import (
    bytes_text,
    has_separators,
    is_number,
    nested_text,
    separated,
    type_label,
)
from odps_nb.notebook.explore.view import RowView
from odps_nb.notebook.live.heads import side_by_side
from odps_nb.notebook.preview.tile import tile
from odps_nb.schema import Column, DecimalType, TypeCode
from odps_nb.terms import count_of

if TYPE_CHECKING:
    import pandas as pd

    from odps_nb.access.connection import Connection
    from odps_nb.access.row_forms import RowForms
    from odps_nb.access.table import Table
    from odps_nb.client.blob.streamed import StreamedBlob

HTML_BYTES = 250_000
ROWS, TEXT_ROWS, FRAME_ROWS = 20, 10, 60
SAMPLE = 8_000
SECONDS = 2.0
"""Maximum seconds to search for matching rows to show, or to read the pictures of first rows."""
CELL, FOLDED, TEXT_CELL, CHOSEN = 60, 500, 24, 500
TEXT_WIDTH = 100
BARS = 12
BUDGET = 24 * 1024
MOST_PICTURES = 6
SIDE_BY_SIDE = 4
SMALL = Size(layout="tile", width=96, height=64, rows=2, columns=2, lines=2)
LARGE = Size(layout="single", width=480, height=320, rows=8, columns=8, lines=20)
LARGE_BUDGET = 256 * 1024

_CELL = f"padding:2px 10px;border-bottom:{LINE};white-space:nowrap;vertical-align:top"
_LEFT, _RIGHT = ";text-align:left", ";text-align:right;font-variant-numeric:tabular-nums"
_BLUE = "#4c8bf5"
_VERIFIED = "✓ verified"
_BAR = f"display:inline-block;width:5px;margin-right:1px;vertical-align:bottom;background:{_BLUE}"


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A ``data:`` URL (empty if the blob is not a picture), and a line about the blob."""

    src: str = field(repr=False)
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The content of the static view: a page, the profile if available, and thumbnails by cell.

    ``hint`` is text to show in the HTML in place of the live controls.
    """

    view: RowView
    page: Page
    profile: TableProfile | None = None
    pictures: dict[tuple[int, int], Thumbnail] | None = None
    note: str = ""
    chart: Chart | None = None
    hint: str = ""


def static_page(source: RowForms) -> dict[str, str]:
    """Return the static page of a read or a SQL result: its first rows and a profile."""
    if _is_running(source):
        return text_page(f"{source!r}\nthe query is running; call .wait() to wait for it")
    if not len(source.schema):
        return text_page(f"{source!r}\ndone; the statement returns no rows")
    return shown_bundle(_looked_up(source))


def _is_running(source: RowForms) -> bool:
    try:
        if (wait := getattr(source, "wait", None)) is not None:
            wait(timeout=0)
    except RequestTimeoutError:
        return True
    return False


def _looked_up(source: RowForms) -> Shown:
    rows = rows_of(source)
    view = RowView(rows, page_rows=ROWS, sample=SAMPLE, seed=0)  # seeded, so output is repeatable
    if view.all_rows is None:
        page, note = first_found(view)
        return Shown(view=view, page=page, note=note)
    page = view.page(0)
    pictures = thumbnails(view, page, most=MOST_PICTURES)
    profile = view.describe() if view.all_rows else None
    return Shown(view=view, page=page, profile=profile, pictures=pictures)


def first_found(view: RowView) -> tuple[Page, str]:
    """Return the first rows that a filtered read finds within `SECONDS`, and a note to display."""
    until = time.monotonic() + SECONDS
    batches = list(view.first_rows(ROWS, seconds=SECONDS))
    is_late = time.monotonic() >= until
    page = drawn_page(0, batches, view.columns)
    if page.count >= ROWS:
        return page, "there may be more rows; use explore()"
    if is_late:
        return page, f"found within {SECONDS:.0f} s; explore() continues the search"
    view._profiles.know(view.where, page.count)
    return page, ""


def shown_bundle(shown: Shown) -> dict[str, str]:
    """Return a static view as ``text/html`` (at most `HTML_BYTES`) and ``text/plain``."""
    rows = min(ROWS, shown.page.count)
    html = _html(shown, rows)
    if len(html.encode()) > HTML_BYTES and shown.chart is not None:
        shown = replace(shown, chart=None)
        html = _html(shown, rows)
    while len(html.encode()) > HTML_BYTES and rows > 1:
        rows //= 2
        html = _html(shown, rows)
    if len(html.encode()) > HTML_BYTES:
        html = element("div", "too wide to show here; use explore()", style=MUTED)
    return bundle(html, _text(shown))


def count_label(view: RowView) -> str:
    """Describe how many rows match, e.g. ``3,412 of 243,008 rows``, or ``""`` if unknown."""
    matching, every = view.matching, view.all_rows
    if view.where is None and matching is not None:
        return count_of(matching, "row")
    of = f" of {every:,}" if view.where is not None and every is not None else ""
    if matching is not None:
        return f"{matching:,}{of} rows"
    return f"at least {view.at_least:,}{of} rows" if view.at_least else ""


def _heading(shown: Shown) -> str:
    parts = (count_label(shown.view), count_of(shown.view.all_columns, "column"))
    return " · ".join(filter(None, parts))


def _foot(shown: Shown, rows: int) -> str:
    total = shown.view.total
    if total is None:
        count = f"first {rows:,} rows" if rows else "no rows"
    elif not total:
        count = "no rows"
    else:
        count = f"rows 1–{rows:,} of {total:,}" if rows < total else ""
    described = ""
    if shown.profile is not None:
        described = f"profile: {shown.profile.label}{shown.view.unprofiled}"
    choice = shown.view.choice
    chosen = ", ".join(condition.text for condition in choice.conditions)
    chosen = f"filter: {chosen}"[:CHOSEN] if chosen else ""
    searched = f"search: {choice.search}" if choice.search else ""
    notes = (shown.note, shown.view.note, shown.page.note)
    return " · ".join(part for part in (count, chosen, searched, described, *notes) if part)


# -- HTML ---------------------------------------------------------------------------------------


def _html(shown: Shown, rows: int) -> Html:
    view, cells = shown.view, shown.page.columns
    profiles: Sequence[ColumnProfile | None] = (
        shown.profile.columns if shown.profile is not None else [None] * len(view.columns)
    )
    heads = [
        _head(column.name, type_label(column, view.timezone), column, profile)
        for column, profile in zip(view.columns, profiles, strict=True)
    ]
    pictures = shown.pictures or {}
    body = [
        element(
            "tr",
            *(
                _td(column, cells[n][row], pictures.get((row, n)))
                for n, column in enumerate(view.columns)
            ),
        )
        for row in range(rows)
    ]
    table, title = _table(heads, body), _title(view.title, _heading(shown))
    foot = element("div", _foot(shown, rows), style=f"font-size:12px;{MUTED};margin:6px 0 0 0")
    hint = (element("div", shown.hint, style=MUTED),) if shown.hint else ()
    rows_of_page = scroller(
        "div", table, label=f"rows of {view.title[:200]}", style="max-height:480px"
    )
    box = element("div", rows_of_page, style=NOT_WIDER)
    chart = () if shown.chart is None else (element("div", shown.chart.title), shown.chart.image())
    return element("div", title, *chart, *hint, box, foot, style="padding:4px 0")


def frame_html(
    frame: pd.DataFrame, table: Table, columns: Sequence[Column], total: int | None
) -> Html:
    """Return the first rows of a table's data frame, with types and thumbnails.

    ``total`` is the number of rows of the table, if the frame is the beginning of the whole table.
    """
    known = {column.name: column for column in columns}
    rows, missing = min(len(frame), FRAME_ROWS), frame.isna()
    matched = [known.get(str(key)) for key in frame.columns]
    zone = table.connection.profile.timezone
    heads = [element("th", style=_CELL)]
    for n, (label, column) in enumerate(zip(frame.columns, matched, strict=True)):
        kind = str(frame.dtypes.iloc[n]) if column is None else type_label(column, zone)
        heads.append(_head(str(label), kind, column))
    pictures: dict[tuple[int, int], Thumbnail] = {}
    references = islice(_references(frame, matched, rows), MOST_PICTURES)
    # without pictures, the names and sizes of the blobs are shown
    with suppress(OdpsNbError), bounded(SECONDS, CancelToken()) as within:
        pictures = _drawn(table.connection, references, within)
    body = []
    for row in range(rows):
        cells = [element("td", str(frame.index[row])[:CELL], style=f"{_CELL}{_RIGHT};{MUTED}")]
        for n, column in enumerate(matched):
            is_blob = column is not None and column.type.code is TypeCode.BLOB
            text = None if missing.iat[row, n] else _frame_text(frame.iloc[:, n], row, column)
            preview = pictures.get((row, n))
            if preview is not None and preview.text.startswith(_VERIFIED):
                preview = replace(preview, text=f"{text} · {_VERIFIED}")  # contains the file name
            cells.append(_td(None if is_blob else column, text, preview))
        body.append(element("tr", *cells))
    count = f"{count_of(len(frame), 'row')} · {count_of(len(matched), 'column')}"
    name = str(table.name)
    if total is not None and total > len(frame):
        count = f"first {len(frame):,} of {total:,} rows · {count_of(len(matched), 'column')}"
    elif rows < len(frame):
        count = f"first {rows:,} of {count}"
    title = _title(name, count)
    box = scroller(
        "div", _table(heads, body), label=f"rows of {name[:200]}", style="max-height:480px"
    )
    return element("div", title, box, style="padding:4px 0")


def _references(
    frame: pd.DataFrame, columns: Sequence[Column | None], rows: int
) -> Iterator[tuple[int, int, str]]:
    for row in range(rows):
        for n, column in enumerate(columns):
            if column is not None and column.type.code is TypeCode.BLOB:
                value = frame.iloc[row, n]
                if isinstance(value, str):
                    yield row, n, value


def _frame_text(series: pd.Series, row: int, column: Column | None) -> str:
    """Return a value as the explorer shows it; a time as pandas does, in its full precision."""
    value, kind = series.iat[row], None if column is None else column.type
    if column is None or kind is None:
        return str(value)
    if kind.code is TypeCode.BLOB:
        return str(series.array._formatter(True)(value))
    if isinstance(kind, DecimalType) and kind.scale is not None and isinstance(value, float):
        return f"{value:.{kind.scale}f}"
    if isinstance(value, bytes):
        return str(bytes_text(value))
    if isinstance(value, (list, dict)):
        return nested_text(value, column)
    return str(value)[:10] if kind.code is TypeCode.DATE else str(value)


def _title(name: str, about: str) -> Html:
    return element(
        "div",
        element("b", name[:200]),
        element("span", f" · {about}", style=MUTED),
        style="margin:0 0 6px 0",
    )


def _table(heads: Iterable[Html], body: Iterable[Html]) -> Html:
    return element(
        "table",
        element("thead", element("tr", *heads)),
        element("tbody", *body),
        style="border-collapse:collapse;margin:0;font-size:12px;line-height:1.4",
    )


def _head(
    name: str, kind: str, column: Column | None, profile: ColumnProfile | None = None
) -> Html:
    side = _RIGHT if column is not None and is_number(column) else _LEFT
    parts = [
        element("div", element("bdi", name[:120]), style="font-weight:bold"),
        element("div", kind[:40], style=f"font-weight:normal;{MUTED}"),
    ]
    if profile is not None:
        parts.append(_bars(profile))
        parts.append(element("div", profile.words, style=f"font-weight:normal;{MUTED}"))
    return element(
        "th",
        *parts,
        attributes={"scope": "col", "title": column.comment[:400] or None if column else None},
        style=_CELL + side + ";background:none",
    )


def _bars(profile: ColumnProfile) -> Html:
    undrawn = [bar for bar in profile.bars if bar.is_undrawn]
    bars = [bar for bar in profile.bars if not bar.is_undrawn]
    shown = bars if profile.is_range else bars[:BARS]
    most = max((max(bar.count, bar.whole or 0) for bar in shown), default=0)
    drawn = []
    for bar in shown:
        height, whole = (
            max(1, round(24 * rows / most)) if rows else 0 for rows in (bar.count, bar.whole or 0)
        )
        style = f"{_BAR};height:{max(height, whole)}px"
        if whole > height:  # rows that the filter excludes, in grey
            style += f";background:linear-gradient(#8886 {whole - height}px,{_BLUE} 0)"
        drawn.append(
            element(
                "span",
                attributes={"title": f"{bar.label}: {profile.amount(bar.count)}"},
                style=style,
            )
        )
    label = "; ".join(
        f"{bar.label}: {profile.amount(bar.count)}" for bar in (*shown[:BARS], *undrawn)
    )
    return element(
        "div",
        *drawn,
        attributes={"role": "img", "aria-label": label or "no bars"},
        style="height:26px;margin-top:4px;white-space:nowrap",
    )


def _td(of: Column | None, cell: object, preview: Thumbnail | None = None) -> Html:
    side = _RIGHT if of is not None and is_number(of) else _LEFT
    if cell is None:
        return element("td", element("em", "null", style="opacity:.5"), style=_CELL + side)
    if preview is not None or (of is not None and of.type.code is TypeCode.BLOB):
        return element("td", _blob(preview), style=_CELL + _LEFT)
    text, cut = (str(cell[0]), True) if isinstance(cell, list) else (str(cell), False)
    text = separated(text) if of is not None and has_separators(of) and not cut else text
    if len(text) <= CELL and not cut:
        return element("td", text, attributes={"dir": "auto"}, style=_CELL + side)
    more = text[:FOLDED] + ("…" if cut or len(text) > FOLDED else "")
    folded = element(
        "details",
        element("summary", text[:CELL] + "…", attributes={"dir": "auto"}),
        element(
            "div",
            more,
            attributes={"dir": "auto"},
            style="white-space:pre-wrap;overflow-wrap:anywhere;max-width:40em",
        ),
    )
    return element("td", folded, style=_CELL + side)


def _blob(preview: Thumbnail | None) -> Html:
    if preview is None:
        return element("span", "blob", style=MUTED)
    words = element("div", preview.text, style=f"font-size:11px;{MUTED}")
    if not preview.src:
        return words
    picture = element(
        "img",
        attributes={"src": preview.src, "alt": preview.text},
        style="max-width:96px;max-height:64px;width:auto;height:auto",
    )
    return join((picture, words))


# -- text ---------------------------------------------------------------------------------------


def _text(shown: Shown) -> str:
    view, cells = shown.view, shown.page.columns
    rows = min(TEXT_ROWS, shown.page.count)
    columns: list[list[str]] = []
    used_width = 0
    for n, column in enumerate(view.columns):
        lines = [column.name[:TEXT_CELL]]
        lines += [_short(cells[n][row], column) for row in range(rows)]
        width = max(map(len, lines))
        if used_width + width > TEXT_WIDTH and columns:
            break
        used_width += width + 2
        right = is_number(column)
        columns.append([line.rjust(width) if right else line.ljust(width) for line in lines])
    table = ["  ".join(parts).rstrip() for parts in zip(*columns, strict=True)]
    hidden = len(view.columns) - len(columns)
    more = [f"… and {hidden:,} more columns"] if hidden else []
    foot = _foot(shown, rows)
    return "\n".join(
        [f"{view.title} · {_heading(shown)}", *table, *more, *([foot] if foot else [])]
    )


def _short(cell: object, column: Column) -> str:
    if cell is None:
        return "null"
    if column.type.code is TypeCode.BLOB:
        return "<blob>"
    text = str(cell[0] if isinstance(cell, list) else cell)
    line = "".join(
        character if character.isprintable() else " " for character in text[: TEXT_CELL + 1]
    )
    return line if len(line) <= TEXT_CELL and not isinstance(cell, list) else line[:23] + "…"


# -- pictures ------------------------------------------------------------------------------------


def thumbnail(blob: StreamedBlob, *, size: Size = SMALL, budget: int = BUDGET) -> Thumbnail:
    """Read a blob and draw a thumbnail; if that fails, the thumbnail's text is the error."""
    try:
        drawn = tile(blob, size=size, budget=budget)
    except CancelledError:
        raise
    except OdpsNbError as error:
        return Thumbnail("", f"not read: {error}"[:200])
    mark = f"{_VERIFIED} · " if drawn.verified else ""
    return Thumbnail(drawn.drawing.picture, f"{mark}{drawn.words}")


def thumbnails(
    view: RowView,
    page: Page,
    *,
    cells: Iterable[tuple[int, int]] | None = None,
    most: int = 24,
    cancel: CancelToken | None = None,
) -> dict[tuple[int, int], Thumbnail]:
    """Return thumbnails of ``cells`` by ``(row of the page, column)``.

    By default, these are the first ``most`` BLOBs of the page.
    """
    blobs = [n for n, column in enumerate(view.columns) if column.type.code is TypeCode.BLOB]
    if not blobs:
        return {}
    texts = page.columns
    candidates = cells or (
        (row, column) for row in range(min(ROWS, page.count)) for column in blobs
    )
    references: list[tuple[int, int, str]] = []
    for row, column in candidates:
        reference = texts[column][row] if column in blobs and 0 <= row < page.count else None
        if isinstance(reference, str) and len(references) < most:
            references.append((row, column, reference))

    return _drawn(view.connection, references, cancel)


def _drawn(
    connection: Connection,
    references: Iterable[tuple[int, int, str]],
    cancel: CancelToken | None = None,
) -> dict[tuple[int, int], Thumbnail]:
    """Return thumbnails by row and column of the blobs with these references."""

    def draw(
        run: Sequence[tuple[int, int, str]], token: CancelToken
    ) -> Iterator[tuple[tuple[int, int], Thumbnail]]:
        handles = [connection.blob(reference) for _, _, reference in run]
        with closing(iter_inspected(handles, token)) as blobs:
            for (row, column, _), blob in zip(run, blobs, strict=True):
                yield (row, column), thumbnail(blob)

    return dict(side_by_side(draw, list(references), cancel, workers=SIDE_BY_SIDE))
