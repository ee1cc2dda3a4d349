"""Allowed table definitions, and the expressions that generate partition columns."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from odps_nb.schema import Column, Generated, TableSchema
from odps_nb.wire.control.generated import (
    decode_generated,
    encode_generated,
    parse_generated,
    truncated,
)
from odps_nb.wire.control.table_limits import (
    MAX_COLUMNS,
    decimal_settings,
    definition_problem,
    is_column_name,
    is_table_name,
)
from odps_nb.wire.type_text import parse_columns


def schema_of(columns: str, partitions: str = "", made: Generated | None = None) -> TableSchema:
    keys = parse_columns(partitions) if partitions else ()
    if made is not None:
        keys = (replace(keys[0], generated=made), *keys[1:])
    return TableSchema(columns=parse_columns(columns), partition_columns=keys)


# -- names and limits -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "of_table", "of_column"),
    [
        ("orders_2024", True, True),
        ("_x", True, True),
        ("44", False, True),
        ("5列", False, True),
        ("'列七'", False, True),
        ("a b", False, False),
        ("a" * 128, True, True),
        ("a" * 129, False, False),
        ("列" * 43, False, False),
        ("", False, False),
    ],
)
def test_length_and_characters_of_names_are_limited(
    name: str, of_table: bool, of_column: bool
) -> None:
    assert (is_table_name(name), is_column_name(name)) == (of_table, of_column)


DAY = truncated("t", "day")


@pytest.mark.parametrize(
    ("schema", "comment", "problem"),
    [
        (schema_of("id bigint", "ds string, hour bigint"), "x" * 1024, None),
        (schema_of("t timestamp", "ds string", DAY), "", None),
        (
            schema_of(", ".join(f"c{n} int" for n in range(MAX_COLUMNS + 1))),
            "",
            "at most 1,200 columns; this one has 1,201",
        ),
        (
            schema_of("id bigint", ", ".join(f"p{n} string" for n in range(7))),
            "",
            "at most 6 partition levels; this one has 7",
        ),
        (schema_of("id bigint", "p double"), "", "DOUBLE cannot be the type"),
        (schema_of("id bigint", "`p'` string"), "", "cannot be named"),
        (schema_of("id bigint"), "x" * 1025, "the comment of the table has 1,025 bytes"),
        (
            schema_of(f"id bigint comment '{'列' * 342}'"),
            "",
            "the comment of the column 'id' has 1,026 bytes",
        ),
        (schema_of("t timestamp", "ds string, h string", DAY), "", "only one partition column"),
        (schema_of("t timestamp", "ds string", truncated("t", "week")), "", "one of the units"),
        (schema_of("u timestamp", "ds string", DAY), "", "needs a date or time column 't'"),
        (schema_of("t bigint", "ds string", DAY), "", "needs a date or time column 't'"),
    ],
)
def test_a_definition_beyond_a_limit_is_refused(
    schema: TableSchema, comment: str, problem: str | None
) -> None:
    found = definition_problem(schema, comment)
    assert found == problem if problem is None else problem in (found or "")


@pytest.mark.parametrize(
    ("columns", "settings"),
    [
        ("a decimal, b decimal(38,18)", []),
        ("a array<decimal(39,2)>", ["odps.sql.decimal256.enable"]),
        ("a decimal(38,19)", ["odps.sql.decimal2.extended.scale.enable"]),
        (
            "a decimal(76,19), b struct<c:decimal(30,20)>",
            ["odps.sql.decimal256.enable", "odps.sql.decimal2.extended.scale.enable"],
        ),
    ],
)
def test_wide_decimals_require_settings(columns: str, settings: list[str]) -> None:
    assert decimal_settings(schema_of(columns)) == dict.fromkeys(settings, "true")


# -- generated partition columns --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "made"),
    [
        ("trunc_time(t, 'day') as pt", "pt", DAY),
        (' TRUNC_TIME ( `t` , "DAY" ) AS `p``t` ', "p`t", DAY),
        ("trunc_time(`a``b`, 'hour')", "_pt_col_0_", truncated("a`b", "hour")),
    ],
)
def test_trunc_time_is_parsed(text: str, name: str, made: Generated) -> None:
    (column,) = parse_columns(f"`{name.replace('`', '``')}` string")
    assert parse_generated(text) == replace(column, generated=made)


def test_other_expressions_are_not_parsed() -> None:
    assert parse_generated("year(t) as pt") is None


@pytest.mark.parametrize("kind", ["date", "datetime", "timestamp_ntz"])
def test_trunc_time_is_unchanged_by_a_round_trip_as_json(kind: str) -> None:
    (source,) = parse_columns(f"t {kind}")
    text = encode_generated(DAY, source)
    assert json.loads(text)[0]["leafExprDesc"]["type"] == kind
    assert decode_generated(text) == DAY
    assert decode_generated(encode_generated(DAY, None)) == DAY


def test_an_expression_with_an_unknown_unit_is_kept_as_text() -> None:
    week = truncated("t", "week")
    assert week == Generated(text="trunc_time(`t`, 'week')")


LEAF = {"leafExprDesc": {"reference": {"name": "t", "type": "timestamp"}}}


@pytest.mark.parametrize(
    ("items", "shown"),
    [
        ([LEAF, {"functionCall": {"name": "YEAR", "parameterCount": 1}}], "year(`t`)"),
        ([{"functionCall": {"name": "current_timestamp_ntz"}}], "current_timestamp_ntz()"),
        ([LEAF, {"leafExprDesc": {"constant": "x"}}], "`t`, 'x'"),
    ],
)
def test_an_unknown_expression_is_shown_as_sql(items: list[object], shown: str) -> None:
    assert decode_generated(json.dumps(items)) == Generated(text=shown)


@pytest.mark.parametrize("text", ["no JSON", "7", '[{"x": 1}]', "[]", "[1]"])
def test_an_expression_that_cannot_be_parsed_is_shown_unchanged(text: str) -> None:
    assert decode_generated(text) == Generated(text=text)


def test_a_table_document_has_the_expression() -> None:
    from odps_nb.wire.control import TableInfo
    from tests.support.wire.control import TABLE

    info = TableInfo(name=TABLE, schema=schema_of("t timestamp", "ds string", DAY), created_at=1)
    found = TableInfo.decode(*info.encode(), asked=TABLE)
    assert found.schema.partition_columns == (
        Column(name="ds", type=found.schema.partition_columns[0].type, generated=DAY),
    )
