"""Both JSON forms of a schema: the worked example, round trips, and malicious documents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.errors import FramingError
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
    UnknownType,
    VectorType,
)
from odps_nb.wire.schema_json import (
    DEFAULT_MAX_FIELD_SIZE,
    MAX_COLUMNS,
    WriteSchema,
    assign_column_ids,
    decode_flat,
    decode_nested,
    encode_flat,
    encode_nested,
)
from odps_nb.wire.type_text import MAX_DEPTH, parse_columns
from tests.support.wire.schemas import described, json_values, outcome, schemas

EXAMPLE = TableSchema(
    columns=parse_columns("c1 bigint, c2 array<blob>, c3 array<struct<f1:string,f2:blob>>"),
    partition_columns=parse_columns("pt string not null"),
)
IDS = {
    "c1": 1,
    "c2": 2,
    "c2.element": 3,
    "c3": 4,
    "c3.element": 5,
    "c3.element.f1": 6,
    "c3.element.f2": 7,
    "pt": 8,
}
CONSTANT = {
    "Nullable": True,
    "Precision": 0,
    "Scale": 0,
    "SpecifiedLength": 0,
    "SubTypes": [],
    "IsDistributionKey": False,
    "HasDefaultValue": False,
    "DefaultValue": "",
}


def level(name: str, column_id: int, code: int, *inner: dict[str, Any]) -> dict[str, Any]:
    return {
        **CONSTANT,
        "MemberName": name,
        "ColumnId": column_id,
        "Type": code,
        "SubTypes": list(inner),
    }


def column(**members: Any) -> dict[str, Any]:
    return {"comment": "", "label": "", "extendedLabels": [], "columnType": members}


# -- the worked example of ``docs/protocol.md`` section 3.11 ----------------------------------


def test_the_flat_form_of_the_worked_example_is_that_of_the_protocol_page() -> None:
    flat = encode_flat(EXAMPLE)
    assert flat == {
        "DataColumns": [
            {"Name": "c1", "Type": "bigint", "Comment": "", "Nullable": True, "ColumnId": 1},
            {"Name": "c2", "Type": "array<blob>", "Comment": "", "Nullable": True, "ColumnId": 2},
            {
                "Name": "c3",
                "Type": "array<struct<f1:string,f2:blob>>",
                "Comment": "",
                "Nullable": True,
                "ColumnId": 4,
            },
        ],
        "PartitionColumns": [
            {"Name": "pt", "Type": "string", "Comment": "", "Nullable": False, "ColumnId": 8}
        ],
    }
    assert decode_flat(flat) == assign_column_ids(EXAMPLE)


def test_the_nested_form_of_the_worked_example_is_that_of_the_protocol_page() -> None:
    assert encode_nested(EXAMPLE) == {
        "DataColumns": [
            column(**level("c1", 1, 0)),
            column(**level("c2", 2, 17, level("element", 3, 22))),
            column(
                **level("c3", 4, 17, level("element", 5, 19, level("f1", 6, 4), level("f2", 7, 22)))
            ),
        ],
        "PartitionColumns": [column(**level("pt", 8, 4) | {"Nullable": False})],
        "SystemColumns": [],
        "MaxFieldSize": 8388608,
    }


def test_the_ids_of_the_worked_example_are_those_of_the_protocol_page() -> None:
    found = decode_nested(encode_nested(EXAMPLE))
    assert found == WriteSchema.of(EXAMPLE)
    assert found.column_ids == IDS
    assert found.blob_ids == {"c2.element": 3, "c3.element.f2": 7}
    assert [c.column_id for c in found.schema] == [1, 2, 4, 8]


def test_the_levels_of_a_map_are_key_and_value() -> None:
    schema = TableSchema(columns=parse_columns("m map<string,array<blob>>"))
    ids = WriteSchema.of(schema).column_ids
    assert ids == {"m": 1, "m.key": 2, "m.value": 3, "m.value.element": 4}


# -- round trips ------------------------------------------------------------------------------


@settings(max_examples=40)
@given(schemas())
def test_the_flat_form_is_unchanged_by_a_round_trip(schema: TableSchema) -> None:
    assert decode_flat(json.loads(json.dumps(encode_flat(schema)))) == assign_column_ids(schema)


@settings(max_examples=40)
@given(schemas())
def test_the_nested_form_is_unchanged_by_a_round_trip(schema: TableSchema) -> None:
    """The only change is that a bare DECIMAL becomes DECIMAL(38,18)."""
    full = WriteSchema.of(described(schema))
    found = decode_nested(json.loads(json.dumps(encode_nested(schema))))
    assert found.schema == full.schema
    assert found.column_ids == full.column_ids
    assert found.blob_ids == full.blob_ids


def test_system_and_key_columns_and_field_size_are_unchanged_by_a_round_trip() -> None:
    full = WriteSchema.of(
        EXAMPLE,
        system_columns=parse_columns("__operation tinyint"),
        max_field_size=1024,
        key_columns=("c1",),
    )
    found = decode_nested(encode_nested(full))
    assert found == full
    assert found.system_columns[0].column_id == 9
    assert found.key_columns == ("c1",)


def test_column_ids_from_the_server_are_kept() -> None:
    schema = TableSchema(columns=(Column(name="a", type=PrimitiveType(TypeCode.INT), column_id=9),))
    columns = encode_flat(schema)["DataColumns"]
    assert columns[0]["ColumnId"] == 9  # type: ignore[index]
    given_ids = WriteSchema(schema=schema, column_ids={"a": 9})
    assert decode_nested(encode_nested(given_ids)) == given_ids


def test_a_column_without_an_id_is_not_a_blob_target() -> None:
    schema = TableSchema(columns=parse_columns("b blob"))
    plain = WriteSchema(schema=schema)
    assert plain.blob_ids == {}
    assert decode_nested(encode_nested(plain)) == plain


# -- documents of other servers ---------------------------------------------------------------


@pytest.mark.parametrize("given_id", ["5", 5])
def test_an_id_may_be_sent_as_text(given_id: object) -> None:
    flat = {"DataColumns": [{"Name": "a", "Type": "BIGINT", "ColumnId": given_id}]}
    assert decode_flat(flat).columns[0].column_id == 5
    nested = {"DataColumns": [column(MemberName="a", Type=0, ColumnId=given_id)]}
    assert decode_nested(nested).column_ids == {"a": 5}


@pytest.mark.parametrize("absent", [-1, "-1", None])
def test_an_id_of_minus_one_means_no_id(absent: object) -> None:
    nested = {"DataColumns": [column(MemberName="a", Type=0, ColumnId=absent)]}
    found = decode_nested(nested)
    assert (found.column_ids, found.schema.columns[0].column_id) == ({}, None)


def test_absent_members_have_defaults_and_unknown_ones_are_ignored() -> None:
    assert decode_flat({}) == TableSchema()
    assert decode_flat({"DataColumns": None, "Else": 1}) == TableSchema()
    found = decode_nested({"DataColumns": [{"columnType": {"MemberName": "a", "Type": 4, "X": 0}}]})
    assert found.schema.columns == (Column(name="a", type=PrimitiveType(TypeCode.STRING)),)
    assert found.max_field_size == DEFAULT_MAX_FIELD_SIZE


def test_members_without_names_get_the_names_in_the_protocol() -> None:
    inner = {"Type": 4, "ColumnId": 1}
    nested = {
        "DataColumns": [
            column(MemberName="a", Type=17, SubTypes=[inner]),
            column(MemberName="m", Type=18, SubTypes=[inner, inner | {"ColumnId": 2}]),
            column(MemberName="x", Type=17, SubTypes=[inner | {"MemberName": "item"}]),
        ]
    }
    found = decode_nested(nested)
    assert found.column_ids == {"a.element": 1, "m.key": 1, "m.value": 2, "x.item": 1}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"Type": 5, "Precision": 38, "Scale": 18}, DecimalType(38, 18)),
        ({"Type": 9, "SpecifiedLength": 255}, LengthType(TypeCode.CHAR, 255)),
        ({"Type": 10, "SpecifiedLength": 65535}, LengthType(TypeCode.VARCHAR, 65535)),
        (
            {"Type": 18, "SubTypes": [{"Type": 4}, {"Type": 17, "SubTypes": [{"Type": 22}]}]},
            MapType(PrimitiveType(TypeCode.STRING), ArrayType(PrimitiveType(TypeCode.BLOB))),
        ),
        (
            {"Type": 19, "SubTypes": [{"Type": 23, "MemberName": "v"}]},
            StructType((StructField("v", PrimitiveType(TypeCode.VARIANT)),)),
        ),
        # Evidence 154, 155: numbers without a documented type, and types that cannot be parsed
        ({}, UnknownType("type -1")),
        ({"Type": 24}, UnknownType("type 24")),
        ({"Type": "geometry"}, UnknownType("geometry")),
        ({"Type": 17, "SubTypes": [{"Type": 99}]}, ArrayType(UnknownType("type 99"))),
        ({"Type": 5, "Precision": 77}, UnknownType("decimal(77,0)")),
        ({"Type": 5, "Precision": 3, "Scale": 4}, UnknownType("decimal(3,4)")),
        ({"Type": 9, "SpecifiedLength": 256}, UnknownType("char(256)")),
        ({"Type": 10}, UnknownType("varchar(0)")),
    ],
)
def test_a_nested_type_is_decoded_from_its_members(
    members: dict[str, Any], expected: object
) -> None:
    found = decode_nested({"DataColumns": [column(MemberName="a", **members)]})
    assert found.schema.columns[0].type == expected
    assert decode_nested(encode_nested(found)) == found


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"Type": ""}, UnknownType("type -1")),
        ({"Type": None}, UnknownType("type -1")),
        ({"Type": "geography"}, PrimitiveType(TypeCode.GEOGRAPHY)),
        ({"Type": 4.5}, UnknownType("4.5")),
        ({"Type": True}, UnknownType("true")),
        ({"Type": "vector(float,4)"}, VectorType(PrimitiveType(TypeCode.FLOAT), 4)),
        ({"Type": "ARRAY<bigint>"}, ArrayType(PrimitiveType(TypeCode.BIGINT))),
        ({"Type": "array<foo(3)>"}, ArrayType(UnknownType("foo(3)"))),
        ({"Type": "BIGINT"}, PrimitiveType(TypeCode.BIGINT)),
        ({"Type": "decimal(9,2)"}, DecimalType(9, 2)),
        ({"Type": "Decimal", "Precision": 9, "Scale": 2}, DecimalType(9, 2)),
        ({"Type": "char", "SpecifiedLength": 7}, LengthType(TypeCode.CHAR, 7)),
    ],
)
def test_a_nested_type_that_is_not_a_number_is_parsed_as_text(
    members: dict[str, Any], expected: object
) -> None:
    """Evidence 154: the value may be the name of a type instead of its number, or neither."""
    found = decode_nested({"DataColumns": [column(MemberName="a", **members)]})
    assert found.schema.columns[0].type == expected


def test_types_without_a_known_number_are_sent_as_unknown() -> None:
    """The stock client treats an unknown number as STRING, and fails on text."""
    nested: Any = encode_nested(
        TableSchema(columns=parse_columns("g geography, v vector(float,2)"))
    )
    assert [one["columnType"]["Type"] for one in nested["DataColumns"]] == [-1, -1]


def test_a_bare_decimal_is_written_as_decimal_38_18() -> None:
    """pyodps rejects a precision of 0, and Java also rejects a missing precision."""
    nested: Any = encode_nested(TableSchema(columns=parse_columns("d decimal")))
    level = nested["DataColumns"][0]["columnType"]
    assert (level["Precision"], level["Scale"]) == (38, 18)


@pytest.mark.parametrize("members", [{}, {"Precision": 0, "Scale": 0}])
def test_a_decimal_without_precision_is_read_as_bare_decimal(members: dict[str, int]) -> None:
    found = decode_nested({"DataColumns": [column(MemberName="a", Type=5, **members)]})
    assert found.schema.columns[0].type == DecimalType()


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"Type": 0, "ColumnId": "x"}, "ColumnId is not an integer"),
        ({"Type": 0, "ColumnId": 1.5}, "ColumnId is a number, but"),
        ({"Type": 0, "Nullable": 1}, "Nullable is a number"),
        ({"Type": 17}, "for ARRAY: 0 found, 1 needed"),
        ({"Type": 18, "SubTypes": [{"Type": 4}]}, "for MAP: 1 found, 2 needed"),
        ({"Type": 19, "SubTypes": []}, "missing or duplicate names"),
        ({"Type": 19, "SubTypes": [{"Type": 4}]}, "MemberName is missing"),
        (
            {
                "Type": 19,
                "SubTypes": [{"Type": 4, "MemberName": "a"}, {"Type": 4, "MemberName": "A"}],
            },
            "missing or duplicate names",
        ),
        ({"Type": 17, "SubTypes": {}}, "SubTypes is an object, but a list"),
        ({"Type": 17, "SubTypes": [4]}, "is a number, but an object"),
    ],
)
def test_a_malformed_nested_type_raises_an_error(members: dict[str, Any], problem: str) -> None:
    with pytest.raises(FramingError, match=problem):
        decode_nested({"DataColumns": [column(MemberName="a", **members)]})


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"Type": "bigint"}, "Name is missing"),
        ({"Name": 3, "Type": "bigint"}, "Name is a number, but text"),
        ({"Name": "a\ud800", "Type": "bigint"}, "is not valid Unicode"),
    ],
)
def test_a_malformed_flat_column_raises_an_error(members: dict[str, Any], problem: str) -> None:
    with pytest.raises(FramingError, match=problem):
        decode_flat({"DataColumns": [members]})


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({}, "unknown"),
        ({"Type": ""}, "unknown"),
        ({"Type": " "}, "unknown"),
        ({"Type": None}, "unknown"),
        ({"Type": []}, "unknown"),
        ({"Type": 3}, "3"),
        ({"Type": 1.5}, "1.5"),
        ({"Type": False}, "false"),
    ],
)
def test_a_type_without_parsable_text_is_unknown(members: dict[str, Any], text: str) -> None:
    """Evidence 154: the other columns of the table stay readable."""
    known = {"Name": "id", "Type": "bigint"}
    found = decode_flat({"DataColumns": [known, {"Name": "a", **members}]})
    assert [one.type for one in found.columns] == [
        PrimitiveType(TypeCode.BIGINT),
        UnknownType(text),
    ]


def test_depth_and_width_are_limited() -> None:
    deep: dict[str, Any] = {"Type": 22}
    for _ in range(MAX_DEPTH + 1):
        deep = {"Type": 17, "SubTypes": [deep]}
    with pytest.raises(FramingError, match="nested deeper than"):
        decode_nested({"DataColumns": [column(MemberName="a", **deep)]})
    wide = [{"Name": "a", "Type": "bigint"}] * (MAX_COLUMNS + 1)
    with pytest.raises(FramingError, match="columns; the limit is"):
        decode_flat({"DataColumns": wide})


KEYS = ["DataColumns", "PartitionColumns", "SystemColumns", "MaxFieldSize"]
INNER = [
    "Name",
    "Type",
    "columnType",
    "MemberName",
    "SubTypes",
    "ColumnId",
    "Nullable",
    "Precision",
    "comment",
]
hostile = st.dictionaries(
    st.sampled_from(KEYS),
    st.one_of(json_values, st.lists(st.dictionaries(st.sampled_from(INNER), json_values))),
)


@pytest.mark.nightly
@settings(max_examples=50)
@given(hostile)
def test_any_json_gives_a_schema_or_an_odps_nb_error(members: dict[str, Any]) -> None:
    assert isinstance(outcome(decode_flat, members), (TableSchema, FramingError))
    assert isinstance(outcome(decode_nested, members), (WriteSchema, FramingError))


def test_a_partition_key_among_the_data_columns_keeps_both_of_its_ids() -> None:
    """A stream whose rows name their partition has the key in both lists."""
    nested = {
        "DataColumns": [{"columnType": {"MemberName": "ds", "Type": 4, "ColumnId": 0}}],
        "PartitionColumns": [{"columnType": {"MemberName": "ds", "Type": 4, "ColumnId": 9}}],
    }
    found = decode_nested(nested)
    assert [column.column_id for column in found.schema.all_columns] == [0, 9]
    assert decode_nested(encode_nested(found)).schema == found.schema
