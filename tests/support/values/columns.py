"""Columns that are drawn for a source, and their expected values in a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from odps_nb.access.table import Table
from tests.support.values.drawn import cells, kinds, leaves
from tests.support.values.families import NoFormError, fits
from tests.support.values.reading import read_values
from tests.support.values.rules import TIMES, Kind, stored
from tests.support.values.sources import SOURCES, described, takes


@dataclass(repr=False)
class Drawn:
    """A column: its type, the values, and the data that contains them."""

    kind: Kind
    data: Any
    far: bool
    values: list[Any]

    def __repr__(self) -> str:
        return f"{self.kind} of {described(self.data, self.values)}"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:  # required by Hypothesis
        printer.text(repr(self))

    def expected(self, ahead: int = 0) -> list[Any]:
        """Return the stored values, for local times this many seconds ahead of UTC."""
        return [stored(self.kind, one, ahead) for one in self.values]

    def fits(self, ahead: int) -> bool:
        return all(fits(self.kind, one, ahead) for one in self.values)


@st.composite
def columns(
    draw: DrawFn,
    source: str,
    *,
    rows: int = 6,
    accept: Callable[[Kind], bool] = lambda _: True,
    plain: bool = False,
) -> dict[str, Drawn]:
    """Draw columns of several types with the same number of rows.

    Parameters
    ----------
    plain
        A column of Python objects contains values of one family.
    """
    count = draw(st.integers(0, rows))
    make, _ = SOURCES[source]
    found = {}
    for number in range(draw(st.integers(1, 6))):
        drawn = leaves if draw(st.booleans()) else kinds
        kind = draw(drawn.filter(lambda one: takes(source, one) and accept(one)))
        far = any(leaf.name in TIMES for leaf in kind.leaves()) and draw(st.booleans())
        offered = [draw(cells(kind, far=far)) for _ in range(count)]
        try:
            data, kept = make(draw, None if plain else kind, offered)
        except NoFormError:
            reject()
        found[f"c{number}"] = Drawn(kind, data, far, kept)
    return found


def gather(source: str, drawn: dict[str, Drawn]) -> Any:
    """Return the columns as data to write, with the row numbers as ``id``."""
    rows = len(next(iter(drawn.values())).values)
    _, make = SOURCES[source]
    return make({"id": list(range(rows)), **{name: one.data for name, one in drawn.items()}})


def check_stored(table: Table, drawn: dict[str, Drawn], ahead: int = 0) -> None:
    """Read the table and compare; read times of all years separately from nanoseconds."""
    near = [name for name, column in drawn.items() if not column.far]
    found = [table.read([*near, "id"]).to_arrow()]
    far = [name for name in drawn if name not in near]
    found += [table.read([name, "id"], timestamp_unit="us").to_arrow() for name in far]
    for rows in found:
        order = rows.column("id").to_pylist()
        for name in rows.column_names[:-1]:
            column = drawn[name]
            read = dict(zip(order, read_values(column.kind, rows.column(name)), strict=True))
            in_order = [read[number] for number in sorted(read)]
            assert in_order == column.expected(ahead), (column, rows.schema.field(name).type)
