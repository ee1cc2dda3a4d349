"""A value that does not fit a type is rejected before anything is written; the error names it.

`tests.support.values.rules` defines which values fit, in plain Python and without the library's own
rules.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from odps_nb import Connection
from odps_nb.access.table import Table
from odps_nb.errors import ConversionError
from tests.support.named import NewName
from tests.support.values.drawn import cells, kinds, leaves, planted
from tests.support.values.families import NoFormError, fits
from tests.support.values.python_forms import shown_texts
from tests.support.values.rules import Kind, Misfit, stored
from tests.support.values.sources import SOURCES, described

EXAMPLES = int(os.environ.get("ODPS_NB_EXPLORE") or 12)


@dataclass(repr=False)
class Refused:
    """A column with one value that does not fit, and the expected error."""

    kind: Kind
    data: Any
    row: int
    path: tuple[str, ...]
    bad: Any
    is_kind: bool
    values: list[Any]

    def __repr__(self) -> str:
        bad = f"{self.bad!r} in row {self.row} at {'.'.join(self.path)}"
        return f"{self.kind}: {bad} of {described(self.data, self.values)}"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:  # required by Hypothesis
        printer.text(repr(self))


@st.composite
def refused(draw: DrawFn, source: str) -> Refused:
    """Draw a column in which one cell is or contains a value that does not fit."""
    kind = draw(leaves if draw(st.booleans()) else kinds)
    cell, bad, leaf, path = draw(planted(kind))
    before, after = draw(st.tuples(*[st.lists(cells(kind), max_size=2)] * 2))
    make, _ = SOURCES[source]
    try:
        data, values = make(draw, kind, [*before, cell, *after])
    except NoFormError:
        reject()
    row = len(before)
    wrong = [place for place, value in enumerate(values) if not fits(kind, value)]
    # An Arrow column of structs has an unknown member in every row or in none.
    assert wrong == [row] or (bad == "stranger" and row in wrong), (kind, values)
    return Refused(kind, data, row, path, bad, _is_kind(leaf, bad), values)


def _is_kind(kind: Kind, value: Any) -> bool:
    try:
        stored(kind, value)
    except Misfit as misfit:
        return misfit.kind
    return True  # a null key, or an unknown member


def check_refused(table: Table, source: str, name: str, drawn: Refused) -> None:
    """Write the drawn column, and check the error."""
    _, gather = SOURCES[source]
    data = {"id": list(range(len(drawn.values))), name: drawn.data}
    with pytest.raises(ConversionError) as caught:
        table.write(gather(data))
    error, text = caught.value, str(caught.value)
    assert error.column is not None, drawn
    assert error.column.partition(".")[0].partition("[")[0] == name, drawn
    said = text.casefold()
    for part in drawn.path:
        assert part in ("element", "key", "value") or f".{part}" in said, (text, drawn)
    if drawn.is_kind and str(getattr(drawn.data, "dtype", "")) != "object":
        return  # no value of the column's type fits, so the error may name only the column
    assert error.row == drawn.row, (text, drawn)
    texts = shown_texts(drawn.bad)
    assert not texts or any(one.casefold() in said for one in texts), (text, texts, drawn)
    assert error.hint, text


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    "source", [name for name in SOURCES if name not in ("polars", "duckdb", "scalars")]
)
def test_a_value_that_does_not_fit_is_refused(
    odps: Connection, new_name: NewName, source: str
) -> None:
    @settings(max_examples=EXAMPLES)
    @given(drawn=st.lists(refused(source), min_size=1, max_size=3))
    def refused_and_not_written(drawn: list[Refused]) -> None:
        named = {f"c{number}": one for number, one in enumerate(drawn)}
        texts = ", ".join(f"{name} {one.kind.text}" for name, one in named.items())
        table = odps.create_table(new_name("refused"), f"id bigint, {texts}")
        try:
            for name, one in named.items():
                check_refused(table, source, name, one)
            assert table.read(["id"]).to_arrow().num_rows == 0
        finally:
            odps.drop_table(table.name)

    refused_and_not_written()
