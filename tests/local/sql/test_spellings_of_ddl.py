"""Statements about tables as users type them and as older clients send them.

Statements that the embedded service does not run raise an error that states this.
"""

from __future__ import annotations

import pytest

from odps_nb.access.connection import Connection
from odps_nb.errors import OdpsNbError
from odps_nb.wire.type_text import format_type
from tests.support.named import NewName

COLUMNS = "(id bigint not null comment \"the 'key'\", note string comment 'x;y')"
PARTS = 'partitioned by (ds string comment "day", hh bigint)'


@pytest.fixture
def name(odps: Connection, new_name: NewName) -> str:
    made = new_name("ddl")
    odps.sql(f"create table {made} {COLUMNS} comment \"a 'c'\" {PARTS} lifecycle 3")
    odps.sql(f"insert into {made} partition (ds='1', hh=1) values (1, 'a'), (2, 'b')")
    return made


def _column(odps: Connection, text: str, name: str) -> list[object]:
    found: list[object] = odps.sql(text).to_pandas()[name].tolist()
    return found


@pytest.mark.parametrize(
    "rest",
    [
        "(id bigint) stored as aliorc",
        '(id bigint) STORED AS ALIORC TBLPROPERTIES ("a"="b") LIFECYCLE 7',
        "(id bigint) lifecycle 7 comment 'after' tblproperties ('a'='b')",
        "(id BIGINT /* a, b */, note String -- c,\n, d Double) lifecycle 1",
        "(id bigint) clustered by (id) sorted by (id desc) into 4 buckets",
        "(id bigint) range clustered by (id) sorted by (id asc) into 4 buckets",
        "(id bigint) range clustered by (id)",
        "(id bigint primary key) tblproperties ('transactional'='true')",
        "lifecycle 3 as select 1 as id",
        "comment 'c' lifecycle 2 as select 1 as id",
    ],
)
def test_a_table_is_created(odps: Connection, new_name: NewName, rest: str) -> None:
    made = new_name("ddl")
    odps.sql(f"create table if not exists {made} {rest};")
    assert odps.table(made).schema.names[0].lower() == "id"


def test_a_table_created_like_another_has_its_own_lifecycle(odps: Connection, name: str) -> None:
    odps.sql(f"create table if not exists {name}_like like {name} lifecycle 9")
    made = odps.table(f"{name}_like")
    assert (made.info.lifecycle, made.schema.names) == (9, ("id", "note", "ds", "hh"))
    odps.drop_table(made.name.table)
    with pytest.raises(OdpsNbError, match="unexpected text after the statement"):
        odps.sql(f"create table {name}_like like {name} 9")


def test_create_or_replace_may_read_the_table_that_it_replaces(odps: Connection, name: str) -> None:
    odps.sql(f"create or replace table {name} as select id, hh from {name} where id = 2")
    assert odps.table(name).read().to_pandas().values.tolist() == [[2, 1]]
    odps.sql(f"create or replace table {name} (other string)")
    assert (odps.table(name).schema.names, odps.table(name).info.record_count) == (("other",), 0)
    with pytest.raises(OdpsNbError, match="no_such"):
        odps.sql(f"create or replace table {name} as select no_such from {name}")
    assert odps.table(name).schema.names == ("other",)


def test_added_columns_are_in_the_description_of_a_table(odps: Connection, name: str) -> None:
    for rest in (
        "add column c string",
        'add columns (c1 string, c2 bigint comment "x")',
        "add columns c3 string, c4 bigint",
        "add column if not exists c string",
        "add columns if not exists (c string, c5 array<string>)",
        "ADD COLUMN (c6 string COMMENT 'x')",
        "ADD COLUMNS c7 string COMMENT 'x, y'",
        "change column note note string comment 'anew'",
        'change c c string comment "c\'s"',
        "change column c1 comment 'c1'",
        "change column id null",
    ):
        odps.sql(f"alter table {name} {rest}")
    table = odps.table(name)
    assert [(c.name, c.comment) for c in table.schema.columns] == [
        *(("id", "the 'key'"), ("note", "anew"), ("c", "c's"), ("c1", "c1"), ("c2", "x")),
        *(("c3", ""), ("c4", ""), ("c5", ""), ("c6", "x"), ("c7", "x, y")),
    ]
    types = [format_type(c.type) for c in table.schema.columns]
    assert types == ["bigint", *["string"] * 3, "bigint", "string", "bigint", "array<string>"] + (
        ["string"] * 2
    )
    odps.sql(f"insert into {name} partition (ds='1', hh=1) (note) values ('n')")
    found = table.read(["id", "note"]).to_pandas().sort_values("note")
    assert found["note"].tolist() == ["a", "b", "n"]
    assert found["id"].isna().tolist() == [False, False, True]


def test_partitions_are_added_renamed_touched_and_dropped(odps: Connection, name: str) -> None:
    for rest in (
        "add if not exists partition (ds='1', hh=1) partition (ds='2', hh=2)",
        "add partition (ds='3', hh=3), partition (ds='4'/hh=4)",
        "touch partition (ds='1', hh=1)",
        "partition (ds='1', hh=1) rename to partition (ds='5', hh=5)",
        "drop if exists partition (ds='3', hh=3), partition (ds='9', hh=9)",
        "drop partition (ds='2', hh=2)",
    ):
        odps.sql(f"alter table {name} {rest}")
    table = odps.table(name)
    assert [str(one) for one in table.partitions()] == ["ds=4,hh=4", "ds=5,hh=5"]
    assert table.read(partitions="ds=5").to_pandas()["ds"].tolist() == ["5", "5"]
    assert table.read(partitions="ds=4").to_pandas().empty
    shown = odps.sql(f"show partitions {name}").to_pandas()["partition"].tolist()
    assert shown == ["ds=4/hh=4", "ds=5/hh=5"]
    for again in (
        "add partition (ds='4', hh=4)",
        "partition (ds='4', hh=4) rename to partition (ds='5', hh=5)",
    ):
        with pytest.raises(OdpsNbError, match="exists"):
            odps.sql(f"alter table {name} {again}")
    for gone in (
        "touch partition (ds='9')",
        "partition (ds='9', hh=9) rename to partition (ds='8', hh=8)",
    ):
        with pytest.raises(OdpsNbError, match="partition does not exist"):
            odps.sql(f"alter table {name} {gone}")
    odps.sql(f"truncate table {name} partition (ds='5', hh=5), partition (ds='4', hh=4)")
    assert table.read().to_pandas().empty


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ("partition (ds='1') rename to partition (ds='8', hh=8)", "no value for 'hh'"),
        ("partition (ds='1', hh=1) rename to partition (ds='8')", "no value for 'hh'"),
        ("partition (ds='1', hh=1) rename to t", "expected one PARTITION"),
        ("partition (ds='1', hh=1) partition (ds='2', hh=2) rename to t", "expected one PARTITION"),
        ("partition (ds='1', hh=1) rename to partition (ds='2', hh='x')", "hh"),
        ("drop partition (ds='1', hh>0)", "expected AND or OR"),
        ("drop partition (ds='9'), partition (hh in (1, 2), ds='1')", "expected AND or OR"),
        ("change column", "expected a name"),
        ("change column note", "expected an expression"),
        ("change column note note", "expected a type"),
    ],
)
def test_an_incomplete_statement_is_refused(
    odps: Connection, name: str, rest: str, problem: str
) -> None:
    with pytest.raises(OdpsNbError, match=problem):
        odps.sql(f"alter table {name} {rest}")
    assert [str(one) for one in odps.table(name).partitions()] == ["ds=1,hh=1"]


@pytest.mark.parametrize(
    "text",
    [
        "alter table {0} add partition (ds='2', hh=2) partition (ds='1', hh=1)",
        "alter table {0} add partition (ds='2', hh=2) partition (ds='3', hh='x')",
        "alter table {0} drop partition (ds='1', hh=1) partition (ds='2', hh=2)",
        f"create or replace table {{0}} (id bigint) comment '{'x' * 1025}'",
    ],
)
def test_a_refused_statement_changes_nothing(odps: Connection, name: str, text: str) -> None:
    with pytest.raises(OdpsNbError):
        odps.sql(text.format(name))
    assert [str(one) for one in odps.table(name).partitions()] == ["ds=1,hh=1"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("table x (a bigint) comment 'a' comment 'b'", "COMMENT"),
        ("table x (a bigint) partitioned by (b string) partitioned by (c string)", "PARTITIONED"),
        ("table x lifecycle 1 lifecycle 2 as select 1 as a", "LIFECYCLE"),
        ("materialized view x comment 'a' lifecycle 1 comment 'b' as select 1 as a", "COMMENT"),
    ],
)
def test_a_repeated_clause_is_refused(odps: Connection, text: str, word: str) -> None:
    with pytest.raises(OdpsNbError, match=f"{word} occurs twice"):
        odps.sql(f"create {text}")


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_rename_keeps_the_project_and_the_schema(
    odps: Connection, name: str, new_name: NewName, kind: str
) -> None:
    new = new_name("new")
    if kind == "view":
        odps.sql(f"create view {(name := new_name('old'))} as select 1 as a")
    full = f"{odps.table(name)}"
    with pytest.raises(OdpsNbError, match="RENAME TO cannot move a table"):
        odps.sql(f"alter {kind} {name} rename to other.{new}")
    odps.sql(f"alter {kind} {full} rename to {full.replace(name, new)}")
    assert odps.table(new).schema.names


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("partition (ds > '1')", ["1"]),
        ("partition (ds > '1' and hh < 3)", ["1", "3"]),
        ("partition (substr(ds, 1, 1) = '2' or ds in ('3'))", ["1"]),
        ("partition (ds = '1', hh = 1), partition (hh >= 3)", ["2"]),
        ("partition (ds > '7')", ["1", "2", "3"]),
    ],
)
@pytest.mark.parametrize("action", ["alter table {0} drop", "truncate table {0}"])
def test_partitions_are_chosen_by_a_condition(
    odps: Connection, name: str, action: str, condition: str, left: list[str]
) -> None:
    odps.sql(f"insert into {name} partition (ds, hh) values (3, 'c', '2', 2), (4, 'd', '3', 3)")
    odps.sql(f"{action.format(name)} {condition}")
    assert sorted(odps.table(name).read(["ds"]).to_pandas()["ds"].unique()) == left
    there = [one.items[0][1] for one in odps.table(name).partitions()]
    assert there == (left if "drop" in action else ["1", "2", "3"])


@pytest.mark.parametrize("condition", ["id > 1", "1 = 0", "1 < 2", "ds > no_such"])
def test_a_condition_on_other_columns_does_not_truncate_a_partition(
    odps: Connection, name: str, condition: str
) -> None:
    with pytest.raises(OdpsNbError):
        odps.sql(f"truncate table {name} partition ({condition})")
    assert odps.table(name).read().to_arrow().num_rows == 2


def test_a_table_is_renamed_and_described(odps: Connection, name: str) -> None:
    for rest in ("set lifecycle 7", 'set comment "new"', "touch", f"rename to {name}_b"):
        odps.sql(f"alter table {name} {rest}")
    info = odps.table(f"{name}_b").info
    assert (info.lifecycle, info.comment) == (7, "new")
    for text in (f"desc table {name}_b", f"describe extended {name}_b", f"desc {name}_b"):
        assert _column(odps, text, "name")[:2] == ["id", "note"]
    assert _column(odps, f'show tables like "{name}*"', "table_name") == [f"{name}_b"]
    assert _column(odps, f"show partitions {name}_b", "partition") == ["ds=1/hh=1"]
    odps.sql(f"drop table if exists {name}_b purge;")
    odps.sql(f"drop table if exists {name}_b")


@pytest.mark.parametrize(
    ("text", "lacked"),
    [
        ("create table {0}_x (id bigint) stored as orc", "STORED AS ORC in CREATE TABLE"),
        ("create table {0}_x (id bigint default 3)", "a DEFAULT value for a column"),
        ("alter table {0} add column c string default 'x'", "a DEFAULT value for a column"),
        ("alter table {0} touch partition (ds < '2')", r"condition in PARTITION \(…\)"),
        (
            "alter table {0} change column id id int",
            "changing the type of a column with CHANGE COLUMN",
        ),
        ("alter table {0} partition (ds='1', hh=1) merge smallfiles", "MERGE SMALLFILES in ALTER"),
        ("alter table {0} disable lifecycle", "DISABLE LIFECYCLE in ALTER TABLE"),
        ("EXPLAIN INSERT INTO t SELECT 1", "EXPLAIN INSERT"),
        ("@a := SELECT 1", "variables of script mode"),
        ("ANALYZE TABLE {0} COMPUTE STATISTICS", "ANALYZE TABLE"),
        ("GRANT SELECT ON TABLE {0} TO USER u", "GRANT"),
        ("UNLOAD FROM t INTO LOCATION 'oss://x'", "UNLOAD"),
        ("LOAD OVERWRITE TABLE t FROM LOCATION 'oss://x'", "LOAD OVERWRITE"),
        ("CLONE TABLE {0} TO u IF EXISTS OVERWRITE", "IF EXISTS in CLONE TABLE"),
        ("KILL 123", "KILL"),
        ("USE other", "USE"),
        ("CREATE FUNCTION f AS 'x'", "CREATE FUNCTION"),
        ("ALTER MATERIALIZED VIEW v ENABLE REWRITE", "ENABLE in ALTER MATERIALIZED"),
        ("CREATE TABLE t (a bigint) STORED AS parquet", "STORED"),
        ("CREATE TABLE t (a bigint) LOCATION 'oss://x'", "LOCATION in CREATE TABLE"),
        ("DROP FUNCTION f", "DROP FUNCTION"),
        ("SHOW FUNCTIONS", "SHOW FUNCTIONS"),
        ("SHOW GRANTS", "SHOW GRANTS"),
        ("ALTER TABLE {0} MERGE SMALLFILES", "MERGE SMALLFILES in ALTER TABLE"),
        ("SELECT some_udf(1)", "function some_udf"),
    ],
)
def test_the_error_names_an_unsupported_statement(
    odps: Connection, name: str, text: str, lacked: str
) -> None:
    with pytest.raises(
        OdpsNbError, match=f"the embedded service does not support {lacked}.*; MaxCompute "
    ) as caught:
        odps.sql(text.format(name))
    assert caught.value.hint == "rewrite the statement without it, or run it in MaxCompute"
    assert odps.table(name).schema.names == ("id", "note", "ds", "hh")


def test_a_missing_column_cannot_be_changed(odps: Connection, name: str) -> None:
    with pytest.raises(OdpsNbError, match="has no column 'none'"):
        odps.sql(f"alter table {name} change column none comment 'x'")


def test_names_that_begin_with_digits_need_no_back_quotes(odps: Connection, name: str) -> None:
    name += "_digits"
    odps.sql(f"CREATE TABLE {name} (2id bigint)").wait()
    odps.sql(f"ALTER TABLE {name} ADD COLUMNS (3_x string)").wait()
    odps.sql(f"INSERT INTO {name} (3_x, 2id) SELECT 'x', 1").wait()
    found = odps.sql(f"SELECT 2id, t.3_x FROM {name} t WHERE 2id < 2L").to_arrow()
    assert found.to_pylist() == [{"2id": 1, "3_x": "x"}]


@pytest.mark.parametrize("column", ["2", "10L", "1e5", "2bd"])
def test_numbers_are_refused_as_names(odps: Connection, name: str, column: str) -> None:
    with pytest.raises(OdpsNbError, match=r"is not a column name|expected a name"):
        odps.sql(f"CREATE TABLE {name}_2 ({column} bigint)").wait()
