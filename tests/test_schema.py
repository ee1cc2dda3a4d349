"""Types, columns and schemas as values."""

from __future__ import annotations

import pickle

import pytest
from IPython.lib.pretty import pretty

from odps_nb.schema import (
    ArrayType,
    Column,
    DecimalType,
    LengthType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    TableSchema,
    TypeCode,
)

BIGINT, STRING = PrimitiveType(TypeCode.BIGINT), PrimitiveType(TypeCode.STRING)
BLOB = PrimitiveType(TypeCode.BLOB)
SCHEMA = TableSchema(
    columns=(Column(name="id", type=BIGINT, nullable=False), Column(name="Größe", type=STRING)),
    partition_columns=(Column(name="ds", type=STRING),),
)
TYPES = [
    BIGINT,
    DecimalType(),
    DecimalType(18, 2),
    LengthType(TypeCode.CHAR, 3),
    ArrayType(BLOB),
    MapType(STRING, ArrayType(BIGINT)),
    StructType((StructField("a", BIGINT), StructField("b", StructType((StructField("c", BLOB),))))),
]


def test_type_codes_equal_those_of_the_protocol() -> None:
    assert [code.name for code in sorted(TypeCode)] == [
        "VECTOR",
        "GEOGRAPHY",
        "UNKNOWN",
        "BIGINT",
        "DOUBLE",
        "BOOLEAN",
        "DATETIME",
        "STRING",
        "DECIMAL",
        "TINYINT",
        "SMALLINT",
        "INT",
        "CHAR",
        "VARCHAR",
        "BINARY",
        "DATE",
        "TIMESTAMP",
        "FLOAT",
        "INTERVAL_YEAR_MONTH",
        "INTERVAL_DAY_TIME",
        "ARRAY",
        "MAP",
        "STRUCT",
        "JSON",
        "TIMESTAMP_NTZ",
        "BLOB",
        "VARIANT",
    ]
    assert [int(code) for code in sorted(TypeCode)] == list(range(-3, 24))


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_types_are_compared_and_pickled_by_value(type_: object) -> None:
    back = pickle.loads(pickle.dumps(type_))
    assert back == type_
    assert hash(back) == hash(type_)
    assert [other for other in TYPES if other == type_] == [type_]


def test_every_type_has_a_type_code() -> None:
    assert [type_.code.name for type_ in TYPES] == [
        "BIGINT",
        "DECIMAL",
        "DECIMAL",
        "CHAR",
        "ARRAY",
        "MAP",
        "STRUCT",
    ]


def test_a_schema_lists_data_columns_before_partition_columns() -> None:
    assert SCHEMA.names == ("id", "Größe", "ds")
    assert [column.name for column in SCHEMA] == ["id", "Größe", "ds"]
    assert SCHEMA.all_columns == SCHEMA.columns + SCHEMA.partition_columns
    assert len(SCHEMA) == 3
    assert pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA


def test_ipython_displays_one_column_of_a_schema_per_line() -> None:
    assert pretty(SCHEMA) == "id     bigint\nGröße  string\nds     string  (partition)"
    assert pretty(TableSchema()) == "no columns"


def test_an_empty_schema_is_allowed() -> None:
    assert (len(TableSchema()), TableSchema().names, list(TableSchema())) == (0, (), [])


@pytest.mark.parametrize(("name", "found"), [("ID", "id"), ("grösse", "Größe"), ("DS", "ds")])
def test_a_column_is_found_in_any_letter_case(name: str, found: str) -> None:
    column = SCHEMA.find(name)
    assert column is not None
    assert column.name == found


def test_looking_up_a_missing_column_returns_none() -> None:
    assert SCHEMA.find("nope") is None


def test_a_column_has_the_defaults_of_the_protocol() -> None:
    column = Column(name="a", type=BIGINT)
    assert (column.comment, column.nullable, column.column_id) == ("", True, None)
