"""The partitions and number of rows that a query reads according to its plan."""

from __future__ import annotations

import pytest

from odps_nb.filters.tree import text_of
from odps_nb.spark.pushdown.conditions import computed_in
from odps_nb.spark.pushdown.plan import with_partitions
from odps_nb.terms import PartitionSpec
from tests.support.spark.plans import DAYS, KNOWN, reads


def kept(where: str, known: list[PartitionSpec] | None = None) -> list[str] | None:
    (read,) = reads(f"select id from a where {where}")
    found = with_partitions(read, KNOWN if known is None else known).partitions
    return None if found is None else [str(spec) for spec in found]


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("ds = '20240101'", 2),
        ("ds = '20240101' and hour = 1", 1),
        ("ds > '20240101' and hour <> 1", 2),
        ("ds between '20240102' and '20240103'", 4),
        ("hour < 9", 3),  # as a number, not as text
        ("ds in ('20240101', '20240103')", 4),
        ("not (ds = '20240101' or hour = 1)", 2),
        ("ds like '2024%3'", 2),
        ("ds like '%02'", 2),
        ("ds not like '%01' and ds like '2%0%3'", 2),
        ("ds like '2.*'", 0),
        ("ds is null", 0),
        ("ds = 'never'", 0),
    ],
)
def test_partitions_are_pruned_by_their_values(where, count):
    assert len(kept(where) or ()) == count


@pytest.mark.parametrize(
    "where",
    ["ds >= '2024'", "ds = 'x' or n = 1", "hour = '1'", "ds like '%\\_1'", "ds = 20240101"],
)
def test_a_read_of_all_partitions_lists_none(where):
    (read,) = reads(f"select id from a where {where}")
    assert not read.partition_conditions or with_partitions(read, KNOWN).partitions is None


def test_a_partition_with_an_ambiguous_value_is_kept():
    odd = ["ds=__HIVE_DEFAULT_PARTITION__,hour=1", "ds=x,hour=01", "ds=020240101,hour=1"]
    known = [PartitionSpec.of(text) for text in odd]
    assert kept("ds is null", known) == ["ds=__HIVE_DEFAULT_PARTITION__,hour=1"]
    assert kept("hour = 7", known) == ["ds=x,hour=01"]
    assert kept("hour = 1", known) is None


def test_too_many_partitions_are_filtered_by_a_condition():
    known = [PartitionSpec.of(f"ds={number},hour=1") for number in range(3000)]
    (read,) = reads("select id from a where ds <> '7' and hour = 1")
    read = with_partitions(read, known)
    assert read.partitions is None
    assert [text_of(one) for one in read.conditions] == ["ds <> '7'", "hour = 1"]
    (loose,) = reads("select id from a where ds <> 7")
    assert with_partitions(loose, known).conditions == ()


# -- limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("select * from a limit 5", 5),
        ("select id as z, a.n from a limit 5", 5),
        ("select id from a where ds = '20240101' limit 5", 5),
        ("select id from a where ds = 20240101 limit 5", 5),
        ("select id from a where ds = 20240101 and n = 1 limit 5", None),
        ("select id from a", None),
        ("select id from a where n = 1 limit 5", None),
        ("select id from a where ds = '20240101' and n = 1 limit 5", None),
        ("select id from a where ds = '20240101' and upper(status) = 'X' limit 5", None),
        ("select id from a order by id limit 5", None),
        ("select count(*) from a limit 5", None),
        ("select explode(tags) from a limit 5", None),
        ("select distinct id from a limit 5", None),
        ("select id from a limit 5 offset 2", None),
        ("select a.id from a join b on true limit 5", None),
        ("select * from (select * from a limit 5) limit 3", None),
        ("(select * from a limit 5)", None),
        ("select id from a group by id limit 5", None),
        ("select * from a tablesample (50 percent) limit 5", None),
        ("select id from a limit 0", 0),
        ("select id from a limit 2 + 3", None),
        ("select id from a limit 1 * 5", None),
        ("select id from a limit (5)", None),
        ("select id from a limit -5", None),
        ("select id from a limit 5L", None),
        ("select id from a limit 5.0", None),
        ("select id from a limit '5'", None),
        ("select id from a limit cast(5 as int)", None),
        ("select id from a limit all", None),
        ("select id from a limit null", None),
        ("select id from a limit :n", None),
        ("select id from a limit ?", None),
        ("select id from a limit n", None),
        ("select id from a limit (select 5)", None),
        ("select id from a limit 5 percent", None),
        ("select id from a limit 2, 5", None),
        ("select id from a fetch first 5 rows only", None),
        ("select id, rand(3) from a limit 5", None),
        ("select id from a qualify count(*) over () = 1 limit 5", None),
    ],
)
def test_a_limit_is_sent_only_if_spark_drops_no_rows(text, limit):
    (read, *_) = reads(text)
    asked = [one for condition in read.partition_conditions for one in computed_in(condition)]
    answers = {one: {(day,): day == "20240101" for day in DAYS} for one in asked}
    assert with_partitions(read, KNOWN, answers).limit == limit


def test_a_limit_is_sent_only_after_computed_conditions_were_evaluated_for_all_partitions():
    (read,) = reads("select id from a where ds = 20240101 limit 5")
    (asked,) = computed_in(read.partition_conditions[0])
    told: dict[tuple[object, ...], bool | None] = {(DAYS[0],): True, (DAYS[1],): None}
    assert with_partitions(read, KNOWN).limit is None
    assert with_partitions(read, KNOWN, {asked: told}).limit is None
    chosen = with_partitions(read, KNOWN, {asked: {**told, (DAYS[2],): False}})
    assert (chosen.limit, [str(one) for one in chosen.partitions]) == (
        5,
        ["ds=20240101,hour=1", "ds=20240101,hour=22"],
    )


def test_of_two_limits_the_smaller_one_applies():
    assert [reads("select * from a limit 5", limit=n)[0].limit for n in (3, 9, None)] == [3, 5, 5]
    assert reads("select * from a", limit=3)[0].limit == 3
    assert reads("select * from a limit 1 + 1", limit=3)[0].limit is None


def test_if_a_partition_is_ambiguous_spark_applies_the_limit():
    known = [PartitionSpec.of("ds=x,hour=01"), PartitionSpec.of("ds=y,hour=1")]
    (read,) = reads("select id from a where hour = 1 limit 5")
    assert with_partitions(read, known).limit is None
