"""Text and values in a query, as they are sent."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from odps_nb.access.engines.comparable import partition_value, takes_value
from odps_nb.errors import ArgumentError
from odps_nb.filters.parse import column_value
from odps_nb.filters.tree import Compare, Constant, ValueKind
from odps_nb.schema import Column
from odps_nb.spark.pushdown.parse import fill, parse_query, value_of_text
from odps_nb.spark.pushdown.plan import TableRead, with_partitions
from odps_nb.wire.type_text import parse_type
from tests.support.spark.plans import KNOWN, A, reads

# -- text -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("select '{x}', id from a", "select '{{x}}', id from ({t0} as `a`)"),
        ("select p.a.id from p.a", "select a.id from ({t0} as `a`)"),
        ("select `P` . a.id from p.`A`", "select a.id from ({t0} as `A`)"),
        ("select '👋' from a z, b", "select '👋' from ({t0} as `a`) z, ({t1} as `b`)"),
        ("with a as (select 1) select * from a", "with a as (select 1) select * from a"),
        (
            "with a as (select * from a) select * from a",
            "with a as (select * from ({t0} as `a`)) select * from a",
        ),
        (
            "select * from (with a as (select 1) select * from A) t, a",
            "select * from (with a as (select 1) select * from A) t, ({t0} as `a`)",
        ),
        (
            "with recursive a as (select 1 union all select * from a) select * from a",
            "with recursive a as (select 1 union all select * from a) select * from a",
        ),
        ("select * from range(3), parquet.`/x`", "select * from range(3), parquet.`/x`"),
        (
            "select /*+ broadcast(b), merge(a) */ * from a, b",
            "select /*+ broadcast(b), merge(a) */ * from ({t0} as `a`), ({t1} as `b`)",
        ),
    ],
)  # fmt: skip
def test_table_names_are_replaced_at_their_positions(text, filled):
    query = parse_query(text)
    assert fill(query, {ref: f"t{n}" for n, ref in enumerate(query.references)}) == filled


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("  -- nothing", "empty"),
        ("insert into a select 1", "odps_nb.spark.write"),
        ("with q as (select 1) insert into a select * from q", "odps_nb.spark.write"),
        ("create table q (id int)", "%%odps sql"),
        ("drop table a", "%%odps sql"),
        ("explain select 1", "explain_sql"),
        ("table a", "select"),
        ("select 1; select 2", "one query"),
        ("select from from", "line 1, column 16"),
        ("select *\nfrom a\nwhere (n = 1", "line 3"),
        ("select 'abc", "cannot be parsed"),
    ],
)
def test_other_statements_are_refused_with_an_alternative(text, said):
    with pytest.raises(ArgumentError) as caught:
        parse_query(text)
    assert said in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("'a'", "a"),
        ('"it\'s"', "it's"),
        (r"'a\\b'", r"a\b"),
        (r'"\""', '"'),
        ("'a''b'", None),
        (r"'\n'", None),
        (r"'\u0041'", None),
        (r"'\%'", None),
        ("r'a'", None),
        ("'", None),
    ],
)
def test_a_literal_is_used_only_with_escapes_common_to_all_versions(raw, value):
    assert value_of_text(raw) == value


# -- values -----------------------------------------------------------------------------------


def column(kind: str) -> Column:
    return Column(name="c", type=parse_type(kind))


@pytest.mark.parametrize(
    ("kind", "value", "taken"),
    [
        ("tinyint", 127, True),
        ("tinyint", 128, False),
        ("bigint", 2**63 - 1, True),
        ("bigint", True, False),
        ("boolean", True, True),
        ("boolean", 1, False),
        ("decimal(5,2)", Decimal("999.99"), True),
        ("decimal(5,2)", Decimal("1000"), False),
        ("decimal(5,2)", Decimal("0.001"), False),
        ("decimal(5,2)", True, False),
        ("decimal", Decimal("1"), False),
        ("decimal(40,2)", Decimal("1"), False),
        ("string", "a\tb", False),
        ("string", "a\u200bb", False),
        ("varchar(3)", "a", False),
        ("date", datetime.date(2024, 1, 1), True),
    ],
)
def test_a_value_is_used_only_for_a_column_of_its_type(kind, value, taken):
    assert takes_value(column(kind), value) is taken


def test_partition_values_are_parsed_as_their_column_type():
    assert partition_value(column("string"), "007") == "007"
    assert partition_value(column("int"), "7") == 7
    assert partition_value(column("date"), "2024-01-31") == datetime.date(2024, 1, 31)
    for kind, text in (("int", "007"), ("date", "2024-1-31"), ("varchar(3)", "x"), ("int", "x")):
        assert partition_value(column(kind), text) is None


def test_a_plan_describes_what_is_read():
    (read,) = reads("select id from a where ds = '20240101' and n > 1 and status = 'paid'")
    assert str(with_partitions(read, KNOWN)) == (
        "a: 4 of 13 columns, 2 of 6 partitions (ds = '20240101'), n > 1 and status = 'paid'"
    )
    status = A.find("status")
    assert status is not None
    long = Compare("=", column_value(status), Constant(ValueKind.TEXT, "x" * 1000))
    assert len(str(TableRead(name="a", table=read.table, schema=A, columns=("id",),
                             conditions=(long,)))) < 300  # fmt: skip
