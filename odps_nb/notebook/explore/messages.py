"""Messages from an explorer to the browser, which shows all their strings as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odps_nb.access.paging.ordering import can_be_sorted
from odps_nb.errors import visible
from odps_nb.notebook.explore.charts.choice import TIMES, can_be_axis
from odps_nb.notebook.explore.choosing.conditions import Condition, operations, typed_texts
from odps_nb.notebook.explore.exports import opened
from odps_nb.notebook.explore.pages import Page
from odps_nb.notebook.explore.profiles.profile import ColumnProfile
from odps_nb.notebook.explore.static import count_label
from odps_nb.notebook.explore.values.cells import has_separators, is_number, kind_of, type_label
from odps_nb.notebook.explore.values.typed import text_of
from odps_nb.notebook.explore.view import RowView
from odps_nb.schema import ArrayType, Column, MapType, StructType, TypeCode

_NAME, _COMMENT, MOST_WHERE = 200, 500, 300  # maximum characters of each string in a message
_EDITED = 4000  # maximum characters of all values of a condition that the browser edits
INPUTS = {
    **dict.fromkeys(("INTEGER", "FLOAT", "DOUBLE", "DECIMAL"), "number"),
    **dict.fromkeys(("INSTANT", "CLOCK"), "datetime-local"),
    "DATE": "date",
}


def table_message(view: RowView) -> dict[str, Any]:
    """Return the message with the title and the columns."""
    columns = [
        {
            "name": visible(column.name)[:_NAME],
            "type": type_label(column, view.timezone)[:_NAME],
            "comment": visible(column.comment)[:_COMMENT],
            "number": is_number(column),
            "separated": has_separators(column),
            "blob": column.type.code is TypeCode.BLOB,
            "axis": can_be_axis(column),
            "time": kind_of(column) in TIMES,
            "nested": isinstance(column.type, (ArrayType, MapType, StructType)),
            "sortable": can_be_sorted(column),
            "conditions": operations(column),
            "input": INPUTS.get(kind_of(column), "text"),
        }
        for column in view.columns
    ]
    return {
        "kind": "table",
        "title": visible(view.title)[:_NAME],
        "all_columns": view.all_columns,
        "page_rows": view.page_rows,
        "columns": columns,
    }


def page_message(view: RowView, page: Page) -> dict[str, Any]:
    """Return the message for a page; its cells are sent separately as a buffer."""
    choice = view.choice
    names = [column.name for column in view.columns]
    opening, code = opened(view.code, view.connection)
    return {
        "kind": "page",
        "start": page.start,
        "count": page.count,
        "total": view.total,
        "rows": count_label(view),
        "conditions": [condition_message(view, condition) for condition in choice.conditions],
        "profiled": view.is_profiled,
        "unprofiled": view.unprofiled,
        "search": choice.search,
        "searched": view.searched,
        "order": [[names.index(name), descending] for name, descending in choice.order],
        "note": view.note,
        "about": page.note,
        "code": visible(code),
        "opening": opening,
    }


def condition_message(view: RowView, one: Condition) -> dict[str, Any]:
    """Return the part of a message that shows a condition and lets the user edit its values."""
    names = [column.name for column in view.columns]
    values = typed_texts(one, view.timezone) if one.op else []
    edit = None
    if one.op and sum(map(len, values)) <= _EDITED:
        edit = {
            "column": names.index(one.column),
            "op": one.op,
            "values": values,
            "exclude": one.exclude,
            "below": one.below,
        }
    return {
        "text": visible(one.text)[:MOST_WHERE],
        "where": visible(one.where)[:MOST_WHERE],
        "edit": edit,
    }


def count_message(view: RowView) -> dict[str, Any]:
    """Return the message with the number of rows that match the filter."""
    return {
        "kind": "count",
        "total": view.total,
        "rows": count_label(view),
        "note": view.note,
        "why": "",
    }


def _offered(
    view: RowView, column: Column, profile: ColumnProfile
) -> Iterator[tuple[str, int, str]]:
    """Yield label, row count and typed text of each value that the filter builder offers."""
    for bar in profile.frequent if "values" in operations(column) else ():
        text = "" if bar.value is None else text_of(bar.value, view.timezone)
        if bar.value is not None and len(text) <= _NAME:
            yield visible(bar.label), bar.count, text


def profile_message(view: RowView) -> dict[str, Any]:
    """Return the message with the profiles of the columns."""
    profile = view.profile
    assert profile is not None  # created by the caller
    columns = [
        {
            "rows": column_profile.rows,
            "sample": column_profile.is_sample,
            "nulls": column_profile.nulls,
            "words": column_profile.words,
            "ends": list(map(visible, column_profile.ends)),
            "facts": [[name, visible(text)] for name, text in column_profile.facts],
            "bars": [[visible(bar.label), bar.count, bar.whole] for bar in column_profile.bars],
            "beside": [n for n, bar in enumerate(column_profile.bars) if bar.is_undrawn],
            "frequent": list(_offered(view, column, column_profile)),
            "is_line": column_profile.is_range or is_number(column),
            "is_log": column_profile.is_log,
        }
        for column, column_profile in zip(view.columns, profile.columns, strict=True)
    ]
    whole = profile.total is not None and profile.rows >= profile.total
    return {"kind": "profile", "label": profile.label, "whole": whole, "columns": columns}
