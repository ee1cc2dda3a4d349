"""Gives window functions the frames and defaults of MaxCompute.

Source: the vendor's page *Window functions* (default frame, LAG, LEAD).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from odps_nb.local import errors
from odps_nb.local.sql.trees import CALLED, REALS, TEXTS, WHOLE, place_of

if TYPE_CHECKING:  # `types_of_query` uses the dialect
    from odps_nb.local.sql.types_of_query import Types

_RUNNING = (
    *(exp.Avg, exp.Count, exp.Max, exp.Min, exp.Sum),
    *(exp.StddevPop, exp.StddevSamp),
)
"""Functions whose frame ends at the current row, not at the last row with an equal sort key."""


def frame_windows(query: Any) -> None:
    """Add the default frame of running aggregates, in place."""
    for window in query.find_all(exp.Window):
        function = window.this
        while isinstance(function, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
            function = function.this
        if isinstance(function, (exp.Lag, exp.Lead)):
            _check_offset(function)
        if not isinstance(function, _RUNNING):
            continue
        definition = _definition(window)
        if not definition.args.get("order") or definition.args.get("spec"):
            continue
        if isinstance(function.this, exp.Distinct):
            raise errors.semantic(
                f"{function.meta.get(CALLED, 'the function').upper()} with DISTINCT does not"
                " support ORDER BY in OVER",
                at=place_of(function),
                advice="remove ORDER BY from OVER (…)",
            )
        frame = {"start": "UNBOUNDED", "start_side": "PRECEDING", "end": "CURRENT ROW"}
        window.set("spec", exp.WindowSpec(kind="ROWS", **frame))


def _definition(window: Any) -> Any:
    """Return the node with the clauses of a window: the window, or the one that it names."""
    select = window.find_ancestor(exp.Select)
    named = (select.args.get("windows") or ()) if select is not None else ()
    own = window.args.get("order") or window.args.get("partition_by") or window.args.get("spec")
    same = (one for one in named if one.name.casefold() == window.alias.casefold())
    return window if own or not window.alias else next(same, window)


def _check_offset(function: Any) -> None:
    offset = function.args.get("offset")
    if offset is not None and not (
        isinstance(offset, exp.Literal)
        and not offset.is_string
        and offset.name.strip("0").isdigit()
    ):
        raise errors.semantic(
            f"the offset of {function.meta[CALLED].upper()} must be a constant greater than 0",
            at=place_of(offset),
            advice="use LAG for rows before the current row, and LEAD for rows after it",
        )


def check_default(function: Any, types: Types) -> None:
    """Raise 400 if the default of LAG or LEAD has another type than the value."""
    default = function.args.get("default")
    if default is None or isinstance(default, exp.Null):
        return
    kinds = types.name(function.this), types.name(default)
    fits = kinds[0] == kinds[1] or "" in kinds
    fits |= kinds[0] in (*WHOLE, *REALS) and kinds[1] in WHOLE
    fits |= kinds[0] in REALS and kinds[1] in REALS
    fits |= kinds[0] not in (*WHOLE, *REALS, "BOOLEAN") and kinds[1] in TEXTS
    if not fits:
        raise errors.semantic(
            f"the default of {function.meta[CALLED].upper()} must have the type of its value",
            at=place_of(default),
            advice="cast the default to the type of the first argument",
        )
