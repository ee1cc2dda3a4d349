"""Conditions on text that arrives as bytes, because some of it is not UTF-8."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odps_nb.filters.row_filter import RowFilter
from odps_nb.schema import TableSchema
from odps_nb.wire.type_text import parse_columns

TEXTS = [b"a  ", b"a\xe9 ", b"b", None]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize(
    ("columns", "where", "rows"),
    [
        ("c char(3)", "c = 'a'", [0]),  # trailing spaces are ignored
        ("c char(3)", "c > 'a'", [1, 2]),
        ("c char(3)", "c in ('a', 'b')", [0, 2]),
        ("c varchar(3)", "c = 'a'", []),
        ("c string", "c = 'a  '", [0]),
        ("c string", "c between 'a' and 'b'", [0, 1, 2]),
        ("c string", "rtrim(c) = 'a\ufffd'", [1]),
        ("c string", "c is null", [3]),
        ("c string", "not c like 'a%'", [2]),
    ],
)
def test_bytes_are_compared_like_text(
    kind: pa.DataType, columns: str, where: str, rows: list[int]
) -> None:
    schema = TableSchema(columns=parse_columns(columns))
    batch = pa.record_batch({"c": pa.array(TEXTS, kind)})
    found = RowFilter.parse(where, schema)
    assert found.rows(batch) == rows
    assert found.apply(batch).column("c").to_pylist() == [TEXTS[row] for row in rows]
