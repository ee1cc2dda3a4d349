"""Trailing blanks of CHAR values are removed in every Arrow layout of text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from odps_nb.arrow.char import char_columns, padded, stripped
from odps_nb.wire.type_text import parse_columns

VALUES = ["ab  ", "ab", None, "    ", "", "é\u3000 ", "\t\n  ", "abcd"]
STRIPPED = ["ab", "ab", None, "", "", "é\u3000", "\t\n", "abcd"]
LAYOUTS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def changed(array: pa.Array, kind: str) -> pa.Array:
    batch = pa.record_batch({"c": array})
    chars = char_columns(["c"], parse_columns(f"C {kind}"))
    found = stripped(batch, chars)
    assert found.schema.equals(batch.schema)
    found.validate(full=True)
    return found.column(0)


def values_of(array: pa.Array) -> list[Any]:
    return [one.decode() if isinstance(one, bytes) else one for one in array.to_pylist()]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_trailing_blanks_are_removed_in_every_text_layout(layout: pa.DataType) -> None:
    array = pa.array(VALUES, pa.string()).cast(layout)
    assert values_of(changed(array, "char(4)")) == STRIPPED
    assert values_of(changed(array.slice(3, 3), "char(4)")) == STRIPPED[3:6]
    assert changed(array.slice(0, 0), "char(4)").to_pylist() == []
    for kind in ("varchar(4)", "string"):
        assert values_of(changed(array, kind)) == VALUES


NESTED = [
    (pa.list_(pa.string()), "array<char(3)>", [["a  ", None], None, [], ["b"]]),
    (pa.large_list(pa.string()), "array<char(3)>", [["a  ", None], None, [], ["b"]]),
    (pa.list_(pa.string(), 2), "array<char(3)>", [["a  ", None], None, ["", " "], ["b", "c "]]),
    (
        pa.map_(pa.string(), pa.string()),
        "map<char(3),string>",
        [[("k  ", "v ")], None, [], [("l", None)]],
    ),
    (
        pa.struct([("X", pa.string()), ("y", pa.string())]),
        "struct<x:char(3),y:string>",
        [{"X": "q  ", "y": "q "}, None, {"X": None, "y": " "}, {"X": " ", "y": None}],
    ),
    (
        pa.list_(pa.struct([("x", pa.list_(pa.string()))])),
        "array<struct<x:array<char(3)>>>",
        [[{"x": ["q  "]}, None], None, [], [{"x": None}]],
    ),
]


def without(value: Any, kind: str) -> Any:
    """Return the expected value; members named ``y`` and MAP values are STRING and unchanged."""
    if isinstance(value, str):
        return value.rstrip(" ")
    if isinstance(value, tuple):
        return (without(value[0], kind), value[1])
    if isinstance(value, list):
        return [without(one, kind) for one in value]
    if isinstance(value, dict):
        return {key: one if key == "y" else without(one, kind) for key, one in value.items()}
    return value


@pytest.mark.parametrize(("layout", "kind", "values"), NESTED, ids=str)
def test_trailing_blanks_are_removed_in_nested_values_of_slices(
    layout: pa.DataType, kind: str, values: list[Any]
) -> None:
    array, wanted = pa.array(values, layout), [without(one, kind) for one in values]
    for first in range(4):
        for count in range(5 - first):
            found = changed(array.slice(first, count), kind)
            assert found.to_pylist() == wanted[first : first + count]


def test_a_null_may_hide_bytes_that_are_not_utf8() -> None:
    bitmap, offsets = pa.py_buffer(b"\x02"), pa.array([0, 2, 4], pa.int32()).buffers()[1]
    array = pa.Array.from_buffers(pa.string(), 2, [bitmap, offsets, pa.py_buffer(b"\xff a ")])
    chars = char_columns(["c"], parse_columns("c char(4)"))
    found = stripped(pa.record_batch({"c": array}), chars)
    assert found.column(0).to_pylist() == [None, "a"]


def test_batches_without_char_and_values_without_blanks_are_not_copied() -> None:
    batch = pa.record_batch({"c": ["ab"], "s": ["a "]})
    schema = parse_columns("c char(2), s string")
    assert list(char_columns(["s"], schema)) == []
    assert stripped(batch, []) is batch
    found = stripped(batch, char_columns(batch.schema.names, schema))
    assert [one.buffers()[2].address for one in found.columns] == [
        one.buffers()[2].address for one in batch.columns
    ]


def test_char_padding_counts_characters_and_not_bytes() -> None:
    chars = char_columns(["c"], parse_columns("c char(4)"))
    batch = pa.record_batch({"c": ["", "é", "𝄞𝄞𝄞𝄞", None]})
    assert padded(batch, chars).column(0).to_pylist() == ["    ", "é   ", "𝄞𝄞𝄞𝄞", None]


def test_columns_of_one_name_are_distinguished_by_position() -> None:
    columns = (*parse_columns("c char(4)"), *parse_columns("c string"))
    batch = pa.record_batch([pa.array(["a "]), pa.array(["a "])], names=["c", "C"])
    found = stripped(batch, char_columns(batch.schema.names, columns))
    assert [column.to_pylist() for column in found.columns] == [["a"], ["a "]]
