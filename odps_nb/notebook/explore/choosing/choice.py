"""`Choice`: the conditions, the search text and the order of an explorer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from odps_nb.access.paging.ordering import Order
from odps_nb.errors import ArgumentError, shown
from odps_nb.notebook.explore.choosing.conditions import (
    Condition,
    all_of,
    make_condition,
    written,
)
from odps_nb.schema import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The rows to show: conditions (combined with AND), a search text and an order.

    The search covers the displayed values and ignores case (`TextSearch`). In the order, a null
    sorts below every value.

    A condition may also be a string, as in ``where=`` of a read.
    """

    conditions: tuple[Condition, ...] = ()
    search: str = ""
    order: Order = ()

    def __post_init__(self) -> None:
        given: tuple[Condition | str, ...] = self.conditions
        if not isinstance(self.search, str):
            raise ArgumentError(f"search is {shown(self.search)}; it must be a string")
        if any("\ud800" <= character <= "\udfff" for character in self.search):
            raise ArgumentError("the search text contains an unpaired surrogate, which is no text")
        if not (_are_conditions(given) and _are_keys(self.order)):
            raise ArgumentError(
                "conditions and order must be tuples: of conditions, and of names, each with True "
                "for descending order",
                hint="pass tuples such as ('quantity > 9',) and (('id', False),)",
            )
        parsed = tuple(
            written(condition) if isinstance(condition, str) else condition for condition in given
        )
        object.__setattr__(self, "conditions", parsed)
        object.__setattr__(self, "order", tuple(map(tuple, self.order)))

    @property
    def where(self) -> str | None:
        """The conjunction of the conditions; ``None`` if there are none."""
        return all_of([condition.where for condition in self.conditions])

    def with_only(self, of: Column, made: Condition, timezone: str | None) -> Choice:
        """Return the choice with ``made`` in place of all other conditions on the same column.

        If ``made`` excludes values, the column's other conditions stay, and exclusions are merged.
        """
        before = [condition for condition in self.conditions if condition.column == of.name]
        if made.exclude:
            before = [
                condition
                for condition in before
                if condition.exclude and condition.op == made.op == "values"
            ]
            values = dict.fromkeys(
                [value for old in before for value in old.values] + [*made.values]
            )
            if before:
                made = make_condition(of, "values", [*values], exclude=True, timezone=timezone)
        rest = [
            condition
            for condition in self.conditions
            if condition not in before and condition != made
        ]
        return replace(self, conditions=(*rest, made))


def _are_conditions(given: Any) -> bool:
    is_list = isinstance(given, (tuple, list))
    return is_list and all(isinstance(one, (str, Condition)) for one in given)


def _are_keys(given: Any) -> bool:
    """Whether an object has pairs of a column's name and a flag for descending order."""
    try:
        return all(isinstance(name, str) and isinstance(down, bool) for name, down in given)
    except (TypeError, ValueError):  # not pairs
        return False
