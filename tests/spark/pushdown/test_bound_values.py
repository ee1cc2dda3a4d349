"""Values bound in Spark SQL select the same rows as in ``where=`` and in SQL."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import odps_nb
import odps_nb.spark
from odps_nb.access.connection import Connection
from odps_nb.access.table import Table
from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ArgumentError
from tests.support.bound_values import CASES, COLUMNS, rows, sampled

pytestmark = pytest.mark.spark
# Spark truncates digits below a microsecond, so some values are equal there.
IN_SPARK = [case for case in CASES if case.column not in ("ts", "n")]


@pytest.fixture(scope="module")
def table(odps: Connection) -> Iterator[Table]:
    made = odps.create_table("bound_in_spark", COLUMNS)
    made.write(rows())
    yield made
    odps.drop_table(made.name)


@pytest.fixture
def in_utc(few_tasks):
    before = few_tasks.conf.get("spark.sql.session.timeZone")
    few_tasks.conf.set("spark.sql.session.timeZone", "UTC")
    yield few_tasks
    few_tasks.conf.set("spark.sql.session.timeZone", before)


@pytest.fixture
def ask(in_utc, odps, table):
    def ask(condition: str, **params: object) -> list[int]:
        query = f"select id from bound_in_spark where {condition}"
        found = odps_nb.spark.sql(in_utc, odps, query, params=params).collect()
        return sorted(row.id for row in found)

    return ask


def test_every_bound_value_selects_its_row_in_spark(in_utc, odps, table):
    conditions = (case.where("=")[0].replace(":x", f":x{n}") for n, case in enumerate(IN_SPARK))
    told = ", ".join(f"({condition}) as c{n}" for n, condition in enumerate(conditions))
    params = {f"x{n}": case.value for n, case in enumerate(IN_SPARK)}
    query = f"select id, {told} from bound_in_spark order by id"
    found = odps_nb.spark.sql(in_utc, odps, query, params=params).collect()
    for n, case in enumerate(IN_SPARK):
        assert [row.id for row in found if row[f"c{n}"]] == case.where("=")[1], case


@pytest.mark.gate(4)
@pytest.mark.parametrize("case", sampled(IN_SPARK, lambda case: case.column))
def test_a_bound_value_finds_its_row(ask, case):
    condition, found = case.where("=")
    assert ask(condition, x=case.value) == found


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    "case",
    sampled(
        [case for case in CASES if case not in IN_SPARK],
        lambda case: (case.column, type(case.value), case.finer_than_spark),
    ),
)
def test_a_bound_time_that_spark_would_truncate_is_refused(ask, case):
    microseconds = rows()[case.column].cast("int64").to_numpy() // 1000
    found = np.flatnonzero(microseconds == microseconds[case.row]).tolist()
    value = case.value
    if case.finer_than_spark:
        with pytest.raises(ArgumentError, match="Spark supports only microseconds") as caught:
            ask(f"{case.column} = :x", x=value)
        assert "value.floor('us') in pandas, or .astype('datetime64[us]')" in caught.value.hint
        value = value.floor("us") if isinstance(value, pd.Timestamp) else None
        value = value or np.datetime64(int(microseconds[case.row]), "us")
    assert ask(f"{case.column} = :x", x=value) == found


@pytest.mark.parametrize("x", [0.1, -3.14159265358979])
def test_a_bound_float_is_a_double_in_expressions(in_utc, odps, table, x):
    query = "select :x as x, k / :x as ratio from bound_in_spark where k = 7"
    (row,) = odps_nb.spark.sql(in_utc, odps, query, params={"x": x}).collect()
    assert (row.x, row.ratio) == (x, 7 / x)
    assert odps.sql(query, params={"x": x}).to_pandas().iloc[0].tolist() == [x, 7 / x]


@pytest.mark.nightly
def test_text_is_compared_with_bytes_by_its_own_bytes(ask):
    for row, text in enumerate(rows()["s"].to_pylist()):
        assert ask("s = :x", x=text.encode()) == [row]


def test_a_null_in_a_list_after_not_in_is_refused(ask):
    with pytest.raises(ArgumentError, match="after NOT IN"):
        ask("k not in (:x)", x=pd.Series([7, None], dtype="Int64"))
    assert ask("k not in (:x)", x=pd.Series([7, -1], dtype="Int64")) == [0, 2, 4, 5]


@pytest.mark.gate(1)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_bound_instant_is_the_same_in_each_session_zone(
    few_tasks, profile: Profile, new_name, zone
):
    before = few_tasks.conf.get("spark.sql.session.timeZone")
    few_tasks.conf.set("spark.sql.session.timeZone", zone)
    try:
        with odps_nb.connect(profile, timezone="America/New_York") as odps:
            name = new_name("instants")
            table = odps.create_table(name, "id bigint, ts timestamp")
            hours = pd.to_datetime(["2024-11-03T05:30", "2024-11-03T06:30"], utc=True)
            table.write(pd.DataFrame({"id": [0, 1], "ts": hours}))
            for row, time in enumerate(table.read().to_pandas().sort_values("id")["ts"]):
                query = f"select id from {name} where ts = :x"
                found = odps_nb.spark.sql(few_tasks, odps, query, params={"x": time}).collect()
                assert [one.id for one in found] == [row]
    finally:
        few_tasks.conf.set("spark.sql.session.timeZone", before)


def test_a_name_in_braces_is_a_table_or_a_column(few_tasks, odps, table):
    query = "select {c} from {t} where {c} = :x"
    params = {"c": "k", "x": 7}
    for name in ("bound_in_spark", table):
        found = odps_nb.spark.sql(few_tasks, odps, query, params={**params, "t": name})
        assert [row.k for row in found.collect()] == [7]
    with pytest.raises(ArgumentError, match="must be the name of a table"):
        odps_nb.spark.sql(few_tasks, odps, query, params={**params, "t": "a union b"})
