"""A table that is created for some data stores each of its values unchanged."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings

from odps_nb import Connection
from odps_nb.errors import ConversionError
from odps_nb.schema import (
    ArrayType,
    DecimalType,
    LengthType,
    MapType,
    OdpsType,
    StructType,
)
from tests.support.named import NewName
from tests.support.values.columns import Drawn, check_stored, columns, gather
from tests.support.values.rules import Kind, Moment, array, mapping, members

EXAMPLES = int(os.environ.get("ODPS_NB_EXPLORE") or 6)


def kind_of(made: OdpsType) -> Kind:
    """Return the type of a created column as a `Kind`."""
    if isinstance(made, ArrayType):
        return array(kind_of(made.element))
    if isinstance(made, MapType):
        return mapping(kind_of(made.key), kind_of(made.value))
    if isinstance(made, StructType):
        return members(*((member.name, kind_of(member.type)) for member in made.fields))
    if isinstance(made, DecimalType) and made.precision is not None:
        return Kind("decimal", (made.precision, made.scale or 0))
    if isinstance(made, LengthType):
        return Kind(made.code.name.lower(), (made.length,))
    return Kind(made.code.name.lower())


def is_inferred(kind: Kind) -> bool:
    """Return whether Python values determine the type: no MAP, and only some DECIMALs."""
    leaves = list(kind.leaves())
    whole = kind.name not in ("map", "array", "struct") or "map<" not in kind.text
    return whole and all(
        leaf.name != "decimal" or (leaf.numbers or (38, 18)) in ((38, 18), (5, 2), (1, 0), (18, 2))
        for leaf in leaves
    )


def has_time_for_date(kind: Kind, value: Any) -> bool:
    """Return whether a value of type DATE has a time, so that its new column is a TIMESTAMP."""
    parts = dict(kind.parts)
    match kind.name:
        case _ if value is None:
            return False
        case "array":
            return any(has_time_for_date(parts["element"], one) for one in value)
        case "map":
            sides = (parts["key"], parts["value"])
            return any(any(map(has_time_for_date, sides, pair)) for pair in value)
        case "struct":
            return any(has_time_for_date(parts[name], one) for name, one in value.items())
    return kind.name == "date" and isinstance(value, Moment)


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    "source", ["objects", "arrow-backed", "arrow", "polars", "reader", "scalars"]
)
def test_a_new_table_stores_every_value(odps: Connection, new_name: NewName, source: str) -> None:
    of_objects = source == "objects"

    @settings(max_examples=EXAMPLES)
    @given(drawn=columns(source, plain=of_objects, accept=is_inferred if of_objects else bool))
    def made_and_read(drawn: dict[str, Drawn]) -> None:
        columns_and_values = ((one.kind, value) for one in drawn.values() for value in one.values)
        assume(not any(has_time_for_date(*one) for one in columns_and_values))
        table = odps.table(new_name("made"))
        try:
            table.write(gather(source, drawn), create=True)
            made = {
                name: replace(column, kind=kind_of(table.schema.find(name).type))
                for name, column in drawn.items()
            }
            check_stored(table, made)
        finally:
            if table.exists():
                odps.drop_table(table.name)

    made_and_read()


def test_an_object_column_of_mixed_kinds_creates_no_table(
    odps: Connection, new_name: NewName
) -> None:
    import pandas as pd

    table = odps.table(new_name("mixed"))
    with pytest.raises(ConversionError):
        table.write(pd.DataFrame({"v": pd.Series([1, "a"], dtype=object)}), create=True)
    assert not table.exists()
