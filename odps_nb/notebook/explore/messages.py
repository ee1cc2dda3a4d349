"""Messages of an explorer to the browser. Their texts are data: the browser shows them as text."""

from __future__ import annotations

from typing import Any

from odps_nb.errors import visible
from odps_nb.notebook.explore.cells import is_number, type_label
from odps_nb.notebook.explore.pages import Page
from odps_nb.notebook.explore.static import profile_words
from odps_nb.notebook.explore.view import RowView
from odps_nb.schema import ArrayType, MapType, StructType, TypeCode

__all__ = ["page_message", "profile_message", "table_message"]

_NAME, _COMMENT, _CONDITION = 200, 500, 300


def table_message(view: RowView) -> dict[str, Any]:
    """Return title and columns."""
    columns = [
        {
            "name": visible(column.name)[:_NAME],
            "type": type_label(column, view.timezone)[:_NAME],
            "comment": visible(column.comment)[:_COMMENT],
            "number": is_number(column),
            "blob": column.type.code is TypeCode.BLOB,
            "nested": isinstance(column.type, (ArrayType, MapType, StructType)),
        }
        for column in view.columns
    ]
    return {
        "kind": "table",
        "title": visible(view.title)[:_NAME],
        "rows": view.all_rows,
        "all_columns": view.all_columns,
        "page_rows": view.page_rows,
        "columns": columns,
    }


def page_message(view: RowView, page: Page) -> dict[str, Any]:
    """Return what stands around a page; its cells are the buffer of the message."""
    choice = view.choice
    names = [column.name for column in view.columns]
    return {
        "kind": "page",
        "start": page.start,
        "count": page.count,
        "total": view.total,
        "conditions": [visible(one)[:_CONDITION] for one in choice.conditions],
        "search": choice.search,
        "order": None if choice.order is None else names.index(choice.order),
        "descending": choice.descending,
        "note": " · ".join(filter(None, (view.note, page.note))),
        "code": visible(view.code),
    }


def profile_message(view: RowView) -> dict[str, Any]:
    """Return the profiles of the columns."""
    profile = view.profile
    assert profile is not None  # the caller made it
    columns = [
        {
            "words": profile_words(one),
            "rows": one.rows,
            "nulls": one.nulls,
            "distinct": one.distinct,
            "more_distinct": one.more_distinct,
            "least": visible(one.least),
            "greatest": visible(one.greatest),
            "is_range": one.is_range,
            "bars": [[visible(bar.label), bar.count] for bar in one.bars],
        }
        for one in profile.columns
    ]
    whole = profile.total is not None and profile.rows >= profile.total
    return {"kind": "profile", "label": profile.label, "whole": whole, "columns": columns}
