"""Plans for times, dates as text, floats, CHAR, VARCHAR, patterns, unions, computed partitions.

Without a service: only the requests for each table. ``test_differential_of_types.py`` compares the
results with plain Spark.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest

from odps_nb.filters.row_filter import RowFilter
from odps_nb.filters.tree import text_of
from odps_nb.schema import TableSchema
from odps_nb.spark.pushdown.conditions import Computed
from odps_nb.spark.pushdown.parse import fill, parse_query
from odps_nb.spark.pushdown.plan import Answers, TableRead, plan_reads, with_partitions
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import parse_columns

T = TableSchema(
    columns=parse_columns(
        "id bigint, status string, due date, weight double, light float, code char(3), "
        "word varchar(9), made timestamp, begun datetime, shown timestamp_ntz, "
        "paid decimal(38,18)"
    ),
    partition_columns=parse_columns("ds string, hour int"),
)
U = TableSchema(columns=parse_columns("id bigint, ds string, weight double, n int"))
SCHEMAS = {"t": T, "u": U}


def reads(text: str, zone: str | None = "UTC") -> list[TableRead]:
    query = dataclasses.replace(parse_query(text), zone=zone)
    tables = {
        ref: (TableName(project="p", table=ref.alias), SCHEMAS[ref.alias])
        for ref in query.references
    }
    return list(plan_reads(query, tables).values())


def only(where: str, zone: str | None = "UTC") -> str:
    (read,) = reads(f"select id from t where {where}", zone)
    return "; ".join(map(text_of, read.conditions))


@pytest.mark.parametrize(
    ("where", "condition"),
    [
        (
            "made > timestamp '2024-01-01 00:00:00'",
            "made > '2024-01-01 00:00:00'",
        ),
        ("paid > -12345678901.000000000000000001", "paid > -12345678901.000000000000000001"),
        ("begun <= '2024-01-01'", "begun <= '2024-01-01 00:00:00'"),
        ("begun = date '2024-01-01'", "begun = '2024-01-01 00:00:00'"),
        (
            "shown < '2024-01-01T10:00:00.25'",
            "shown < '2024-01-01 10:00:00.250000'",
        ),
        (
            "shown >= timestamp_ntz '2024-01-01 10:00:00'",
            "shown >= '2024-01-01 10:00:00'",
        ),
        (
            "begun in (timestamp '2024-01-01 00:00:00')",
            "begun in ('2024-01-01 00:00:00')",
        ),
        ("due = '2024-01-31'", "due = '2024-01-31'"),
        ("due not in ('2024-01-31')", "not (due in ('2024-01-31'))"),
        ("weight < 1.5", "weight < 1.5"),
        ("weight <= 1e3", "weight <= 1000.0"),
        ("weight > 1.5", "not (weight <= 1.5)"),
        ("weight >= -2", "not (weight < -2.0)"),
        ("weight <> 0.0", "not (weight = 0.0)"),
        ("light in (1, 2.5)", "light = 1.0 or light = 2.5"),
        ("word >= 'a'", "word >= 'a'"),
        ("word like 'a_%'", "word like 'a_%'"),
        ("code = 'EUR'", "code = 'EUR'"),
        ("code in ('EUR', 'US')", "code = 'EUR' or code = 'US'"),
        ("code = 'EUR' or id = 1", "code = 'EUR' or id = 1"),
        ("status like 'p_'", "status like 'p_'"),
        ("status not like '_%'", "not (status like '_%')"),
    ],
)
def test_equivalent_comparisons_are_pushed_down(where: str, condition: str) -> None:
    assert only(where) == condition


@pytest.mark.parametrize(
    "where",
    [
        "made > '2024-1-1'",
        "made > '2024-01-01 00:00'",
        "made > '2024-01-01 00:00:00+08:00'",
        "made > '2024-01-01 00:00:00.1234567'",
        "made > timestamp '1500-01-01 00:00:00'",
        "made > timestamp 'today'",
        "made in ('2024-01-01 00:00:00')",
        "made = timestamp_ntz '2024-01-01 00:00:00'",
        "shown > timestamp '2024-01-01 00:00:00'",
        "shown in ('2024-01-01 00:00:00')",
        "due > timestamp '2024-01-01 00:00:00'",
        "due = '2024-01-32'",
        "due = '24-01-31'",
        "weight = '1.5'",
        "weight = 9007199254740993",
        "light = 16777217",
        "weight = 1.2345678901234567",
        "code <> 'EUR'",
        "code < 'EUR'",
        "code not in ('EUR')",
        "not (code = 'EUR')",
        "not (id = 1 or code = 'EUR')",
        "code like 'E__'",
        "word = 1",
        "word < 'ü'",
        "status like 'p\\\\_'",
    ],
)
def test_ambiguous_comparisons_are_not_pushed_down(where: str) -> None:
    assert only(where) == ""


@pytest.mark.parametrize(
    ("zone", "text", "sent"),
    [
        ("Asia/Shanghai", "2024-01-01 08:00:00", "2024-01-01 00:00:00"),
        ("Europe/Berlin", "2024-07-01 02:00:00", "2024-07-01 00:00:00"),
        ("Europe/Berlin", "2024-03-31 02:30:00", ""),  # a local time that does not exist
        ("Europe/Berlin", "2024-10-27 02:30:00", ""),  # a local time that occurs twice
        ("Asia/Shanghai", "1900-01-01 08:00:00", ""),  # zone databases differ here
        ("GMT+8", "2024-01-01 08:00:00", ""),
        ("Nowhere/City", "2024-01-01 08:00:00", ""),
        (None, "2024-01-01 08:00:00", ""),
    ],
)
def test_time_literals_are_in_the_zone_of_the_session(
    zone: str | None, text: str, sent: str
) -> None:
    wanted = f"made >= '{sent}'" if sent else ""
    assert only(f"made >= '{text}'", zone) == wanted


def test_the_predicate_contains_only_supported_comparisons() -> None:
    where = (
        "`begun` >= '2024-01-05 00:00:00' and "
        "`made` >= '2024-01-05 00:00:00' and "
        "`shown` >= '2024-01-05 00:00:00' and "
        "`light` < 1.5 and `weight` < 1.5 and not (`weight` <= 0.5) and "
        "`code` = 'EUR' and `word` = 'x' and `status` like 'p_'"
    )
    sent = RowFilter.parse(where, T).predicate
    assert sent == "begun >= '2024-01-03 22:00:00' and weight < 1.5 and word = 'x'"


def test_an_underscore_matches_one_character_of_a_partition() -> None:
    (read,) = reads("select id from t where ds like '2024_1%'")
    specs = [PartitionSpec.of(f"ds={ds},hour=1") for ds in ("2024-1", "20241", "202411x")]
    assert with_partitions(read, specs).partitions == (specs[0], specs[2])


# -- set operations -----------------------------------------------------------------------------


# -- computed -----------------------------------------------------------------------------------


def computed(text: str) -> list[Computed]:
    (read, *_) = reads(text)
    return [one for one in read.partition_conditions if isinstance(one, Computed)]


@pytest.mark.parametrize(
    ("where", "text", "clock"),
    [
        ("ds = date_format(current_date(), 'yyyyMMdd')", "", {"current_date()": "date"}),
        ("id = 1 and ds >= date_sub(CURRENT_DATE, 7) and id < 9", "ds >= date_sub(CURRENT_DATE, 7)",
         {"CURRENT_DATE": "date"}),
        ("ds between date_sub(curdate(), 2) and curdate() and id = 1",
         "ds between date_sub(curdate(), 2) and curdate()", {"curdate()": "date"}),
        ("id = 1 and (hour(now()) = hour or t.ds > 'x')", "(hour(now()) = hour or t.ds > 'x')",
         {"now()": "time"}),
        ("substr(ds, 1, 6) = '202401' /* month */ and id = 1", "substr(ds, 1, 6) = '202401'", {}),
        ("ds rlike '^2024' group by id", "ds rlike '^2024'", {}),
        ("cast(ds as int) % 2 = hour and hour in (1, 2)", "cast(ds as int) % 2 = hour", {}),
    ],
)  # fmt: skip
def test_a_computed_condition_on_partitions_keeps_its_text(
    where: str, text: str, clock: dict[str, str]
) -> None:
    query = f"select count(*) from t where {where}"
    (one,) = computed(query)
    assert one.text.strip("()") == (text or where).strip("()")
    assert query[one.start : one.start + len(one.text)] == one.text
    assert {query[start:end]: kind for start, end, kind in one.clocks} == clock
    fixed = one.at({"date": "date'2024-01-03'", "time": "timestamp_micros(7)"})
    assert not any(word in fixed.lower() for word in ("current_date", "curdate", "now("))


@pytest.mark.parametrize(
    "where",
    [
        "ds = date_format(made, 'yyyyMMdd')",
        "ds = date_format(current_date(), 'yyyyMMdd') or id = 1",
        "ds = (select max(ds) from u)",
        "ds in (select ds from u)",
        "ds = cast(rand() as string)",
        "ds = uuid()",
        "ds = cast(unix_timestamp() as string)",
        "ds = current_user()",
        "ds = current_timezone()",
        "ds = cast(localtimestamp as string)",
        "ds = date 'today'",
        "ds = my_own(3)",
        "upper(ds) = upper(status)",
        "1 = 1",
    ],
)
def test_nondeterministic_conditions_do_not_prune_partitions(where: str) -> None:
    assert computed(f"select id from t where {where}") == []


@pytest.mark.parametrize(
    ("where", "chooses"),
    [
        ("coalesce(t.ds, 'x') = 'x'", False),
        ("t.ds <=> 20240101", False),
        ("t.ds = 20240101 or t.ds is null", False),
        ("t.ds = 20240101", True),
        ("-1 < t.ds", True),
        ("not (t.ds in (20240101, 20240102))", True),
        ("t.ds between 20240101 and 20240131", True),
    ],
)
def test_only_conditions_that_reject_nulls_prune_the_nullable_side_of_a_join(
    where: str, *, chooses: bool
) -> None:
    joined = f"select u.id from u left join t on u.id = t.id where {where}"
    query = dataclasses.replace(parse_query(joined), zone="UTC")
    tables = {
        ref: (TableName(project="p", table=ref.alias), SCHEMAS[ref.alias])
        for ref in query.references
    }
    of_u, of_t = plan_reads(query, tables).values()
    assert (of_u.partition_conditions, len(of_t.partition_conditions)) == ((), int(chooses))


def test_computed_conditions_prune_partitions_and_freeze_the_current_time() -> None:
    text = "select id from t where ds = date_format(current_date(), 'yyyyMMdd') and id = 1"
    (read,) = reads(text)
    (one,) = read.partition_conditions
    assert isinstance(one, Computed)
    specs = [PartitionSpec.of(f"ds={ds},hour=1") for ds in ("20240102", "20240103", "20240104")]
    assert with_partitions(read, specs).partitions is None  # not evaluated yet
    answers: Answers = {one: {("20240103",): True, ("20240102",): False}}
    left: Any = with_partitions(read, specs, answers).partitions
    assert [str(spec) for spec in left] == [str(spec) for spec in specs[1:]]
    assert "of 3 partitions (ds = date_format(current_date(), 'yyyyMMdd'))" in str(
        with_partitions(read, specs, answers)
    )
    query = parse_query(text)
    places = tuple((start, end, "date'2024-01-03'") for start, end, _ in one.clocks)
    fixed = dataclasses.replace(query, fixed=places)
    filled = fill(fixed, dict.fromkeys(query.references, "x"))
    assert "date_format(date'2024-01-03', 'yyyyMMdd')" in filled
    assert datetime.date(2024, 1, 3).isoformat() in one.at({"date": "date'2024-01-03'"})
