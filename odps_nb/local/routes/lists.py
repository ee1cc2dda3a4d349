"""Query parameters of the control plane: pages and filters of lists, and unknown parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from odps_nb.local import errors
from odps_nb.local.routes.table import PAGE, At, RequestContext, To

T = TypeVar("T")

# Parameters of every request. ``accountformat`` (Java SDK) selects how account names are written;
# here, all formats are the same.
_OF_ALL = frozenset({"curr_project", "curr_schema", "accountformat"})
_OF_LISTS = frozenset({"expectmarker", "marker", "maxitems"})


def check_params(row: At | To, context: RequestContext) -> None:
    """Raise 404 for an unknown sub-resource, and 400 for a parameter that a list would ignore.

    A parameter without a value, such as ``?policy``, names a sub-resource. Without this check, a
    client would mistake the resource's document for the sub-resource's.
    """
    known = _OF_ALL | frozenset(row.accepts.split()) | (_OF_LISTS if row.is_list else frozenset())
    keys = row.keys if isinstance(row, At) else frozenset()
    for key, value in context.wire.params:
        if key in known or key in keys:
            continue
        if row.is_list:
            raise errors.invalid(
                f"the embedded service does not support the parameter {key!r} of this list"
            )
        if not value:
            raise errors.no_such(f"there is no resource at {context.wire.path}?{key}")


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """A part of a list. ``marker`` requests the next part; ``most`` is the maximum length."""

    items: Sequence[T]
    marker: str
    most: int


def page_of(
    items: Sequence[T],
    context: RequestContext,
    *,
    start: str = "marker",
    most: str = "maxitems",
    page: int = PAGE,
) -> ListPage[T]:
    """Return the page that the parameters ``start`` and ``most`` select, up to ``page`` items."""
    first, length = page_range(context, start=start, most=most, page=page)
    marker = str(first + length) if len(items) > first + length else ""
    return ListPage(items[first : first + length], marker, length)


def page_range(
    context: RequestContext, *, start: str = "marker", most: str = "maxitems", page: int = PAGE
) -> tuple[int, int]:
    """Return the position of the first item, and the maximum number of items."""
    return number(context, start, 0), max(1, min(number(context, most, page), page))


def number(context: RequestContext, key: str, default: int) -> int:
    """Return a query parameter that is a number, or raise 400."""
    text = context.params.get(key, "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise errors.invalid(f"the parameter {key} is {text[:40]!r}; it must be a number")
    return int(text) if text else default
