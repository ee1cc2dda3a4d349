"""Statements for daily use: SHOW, DESC, max_pt, ALTER, MERGE, and errors for unsupported ones."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odps_nb.errors import InvalidRequestError, QueryError, ServiceError
from odps_nb.terms import SplitMode
from tests.support.named import NewTable
from tests.support.service.peer import Peer

TRANSACTIONAL = "TBLPROPERTIES ('transactional'='true')"


def test_a_table_can_be_created_from_its_own_definition(peer: Peer, new_table: NewTable) -> None:
    name = new_table(
        "(id BIGINT NOT NULL COMMENT 'the key; it\\'s \"one\"', `from` DECIMAL(18,2),"
        " s STRUCT<a:INT,b:ARRAY<STRING>>, PRIMARY KEY (id)) COMMENT 'a \\\\ table'"
        f" PARTITIONED BY (ds STRING COMMENT 'day', h BIGINT) {TRANSACTIONAL} LIFECYCLE 7"
    )
    (row,) = peer.query(f"SHOW CREATE TABLE {name};").to_pylist()
    peer.sql(f"DROP TABLE {name};")
    peer.sql(row["statement"])
    assert peer.query(f"SHOW CREATE TABLE {name};").to_pylist() == [row]


def test_a_view_can_be_created_from_its_own_definition(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint)")
    peer.sql(f"CREATE VIEW {name}_v (b) COMMENT 'c' AS SELECT a + 1 FROM {name};")
    (row,) = peer.query(f"SHOW CREATE TABLE {name}_v;").to_pylist()
    peer.sql(f"DROP VIEW {name}_v;")
    peer.sql(row["statement"])
    assert peer.query(f"SELECT b FROM {name}_v;").column_names == ["b"]


def test_a_partition_is_described_with_its_rows(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint) PARTITIONED BY (ds string)")
    peer.sql(f"INSERT INTO {name} PARTITION (ds='x') VALUES (1), (2);")
    rows = peer.query(f"DESC {name} PARTITION (ds='x');").to_pylist()
    found = {row["property"]: row["value"] for row in rows}
    assert (found["partition"], found["rows"], found["files"]) == ("ds=x", "2", "1")
    with pytest.raises(QueryError, match="partition does not exist"):
        peer.sql(f"DESC {name} PARTITION (ds='y');")
    extended = peer.query(f"DESC EXTENDED {name};").to_pylist()
    assert {row["name"]: row["type"] for row in extended}["rows"] == "2"
    assert peer.query(f"DESC {name};").column_names == ["name", "type", "comment"]


def test_schemas_and_partitions_are_listed(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint) PARTITIONED BY (ds string, h string)")
    peer.sql(f"ALTER TABLE {name} ADD PARTITION (ds='x', h='1') PARTITION (ds='y', h='1');")
    shown = peer.query(f"SHOW PARTITIONS {name} PARTITION (ds='y');").to_pylist()
    assert shown == [{"partition": "ds=y/h=1"}]
    project = peer.service.project
    for scope in ("", f" IN {project}", " LIKE 'def*'"):
        with pytest.raises(ServiceError, match=r"ODPS-0110061: .* on two-tier model"):
            peer.sql(f"SHOW SCHEMAS{scope};")
    for scope in ("", f" IN {project}", " IN default", f" IN {project}.default"):
        assert {"table_name": name} in peer.query(f"SHOW TABLES{scope};").to_pylist(), scope


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("qualified", [False, True])
def test_max_pt_is_the_greatest_partition_that_has_rows(
    peer: Peer, new_table: NewTable, quote: str, qualified: bool
) -> None:
    name = new_table("(a bigint) PARTITIONED BY (ds string, h string)")
    peer.sql(f"INSERT INTO {name} PARTITION (ds='1', h='9') VALUES (1);")
    peer.sql(f"INSERT INTO {name} PARTITION (ds='2', h='1') VALUES (2), (3);")
    peer.sql(f"ALTER TABLE {name} ADD PARTITION (ds='3', h='1');")  # empty
    written = f"{peer.service.project}.{name}" if qualified else name
    call = f"max_pt({quote}{written}{quote})"
    read = peer.query(f"SELECT a, {call} AS p FROM {name} WHERE ds = {call} ORDER BY a;")
    assert read.to_pylist() == [{"a": 2, "p": "2"}, {"a": 3, "p": "2"}]
    peer.sql(f"CREATE VIEW {name}_v AS SELECT a FROM {name} WHERE ds = {call};")
    peer.sql(f"INSERT INTO {name} PARTITION (ds='4', h='1') VALUES (4);")
    assert peer.query(f"SELECT a FROM {name}_v;").to_pylist() == [{"a": 4}]


def test_max_pt_needs_the_name_of_a_partitioned_table(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint)")
    with pytest.raises(QueryError, match="has no partitions"):
        peer.sql(f"SELECT max_pt('{name}');")
    with pytest.raises(QueryError, match=r"\[1,8\].*one table name in quotes") as caught:
        peer.sql(f"SELECT max_pt({name});")
    assert "max_pt('table')" in (caught.value.hint or "")


def test_an_insert_may_follow_common_table_expressions(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint)")
    peer.sql(f"WITH s AS (SELECT 1 AS a), u AS (SELECT 2 AS a) INSERT INTO {name} SELECT a FROM u;")
    assert peer.read(name).to_pylist() == [{"a": 2}]


# -- MERGE, UPDATE, DELETE ------------------------------------------------------------------------

KINDS = {"key": f"(id bigint not null, v string, PRIMARY KEY (id)) {TRANSACTIONAL}"}
KINDS["append"] = f"(id bigint, v string) {TRANSACTIONAL}"
KINDS["partitioned"] = f"(id bigint, v string) PARTITIONED BY (ds string) {TRANSACTIONAL}"


@pytest.fixture(params=KINDS)
def changed(request: pytest.FixtureRequest, peer: Peer, new_table: NewTable) -> str:
    """A transactional table with rows 1, 2 and 3 (evidence 170: also without a primary key)."""
    name = new_table(KINDS[request.param])
    ds = " PARTITION (ds='x')" if request.param == "partitioned" else ""
    peer.sql(f"INSERT INTO {name}{ds} VALUES (1, 'a'), (2, 'b'), (3, null);")
    return name


def rows(peer: Peer, name: str) -> dict[int, str | None]:
    read = peer.query(f"SELECT id, v FROM {name};").to_pylist()
    assert len({row["id"] for row in read}) == len(read)
    return {row["id"]: row["v"] for row in read}


def version(peer: Peer, name: str) -> int:
    return peer.open_read(name, split_mode=SplitMode.ROW_OFFSET).latest_version


def source(*values: tuple[int, str]) -> str:
    return "(" + " UNION ALL ".join(f"SELECT {i} AS id, '{v}' AS v" for i, v in values) + ") AS s"


def test_merge_updates_deletes_and_inserts_in_one_version(peer: Peer, changed: str) -> None:
    before = version(peer, changed)
    ds = ", 'y'" if "ds" in peer.query(f"SELECT * FROM {changed};").column_names else ""
    peer.sql(
        f"MERGE INTO {changed} AS t USING {source((1, 'A'), (2, 'gone'), (9, 'new'), (8, 'no'))}"
        " ON t.id = s.id WHEN MATCHED AND s.v = 'gone' THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET v = concat(s.v, t.v)"
        f" WHEN NOT MATCHED AND s.v <> 'no' THEN INSERT VALUES (s.id, s.v{ds});"
    )
    assert rows(peer, changed) == {1: "Aa", 3: None, 9: "new"}
    assert version(peer, changed) == before + 1


def test_merge_names_the_columns_that_it_inserts(peer: Peer, changed: str) -> None:
    ds = (", ds", ", 'z'") if "ds" in peer.query(f"SELECT * FROM {changed};").column_names else ""
    names, values = ds or ("", "")
    peer.sql(
        f"MERGE INTO {changed} USING {source((7, 'x'))} ON {changed}.id = s.id"
        f" WHEN NOT MATCHED THEN INSERT (id{names}) VALUES (s.id{values});"
    )
    assert rows(peer, changed) == {1: "a", 2: "b", 3: None, 7: None}


@pytest.mark.parametrize("do", ["UPDATE SET v = s.v", "DELETE"])
def test_a_merge_fails_and_changes_nothing_if_two_rows_match_one(
    peer: Peer, changed: str, do: str
) -> None:
    with pytest.raises(QueryError, match="matched by 2 rows"):
        peer.sql(
            f"MERGE INTO {changed} t USING {source((1, 'x'), (1, 'y'))} ON t.id = s.id"
            f" WHEN MATCHED THEN {do};"
        )
    assert rows(peer, changed) == {1: "a", 2: "b", 3: None}


def test_a_case_expression_does_not_end_a_merge_clause(peer: Peer, changed: str) -> None:
    new = "CASE WHEN {0} IS NULL THEN 'none' ELSE {0} END"
    peer.sql(f"UPDATE {changed} SET v = {new.format('v')} WHERE CASE WHEN id > 2 THEN true END;")
    assert rows(peer, changed) == {1: "a", 2: "b", 3: "none"}
    peer.sql(
        f"MERGE INTO {changed} t USING {source((1, 'x'), (2, 'y'))}"
        " ON t.id = CASE WHEN s.id = 1 THEN 1 ELSE 2 END"
        " WHEN MATCHED AND CASE WHEN s.v = 'x' THEN true ELSE false END"
        f" THEN UPDATE SET v = {new.format('s.v')}"
        " WHEN MATCHED THEN DELETE;"
    )
    assert rows(peer, changed) == {1: "x", 3: "none"}


def test_an_error_in_a_change_has_the_right_position(peer: Peer, changed: str) -> None:
    for text in (
        f"UPDATE {changed} SET v = vv",
        f"MERGE INTO {changed} t USING {source((1, 'x'))} ON t.id = s.nope"
        " WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(QueryError, match=r"\[1,1\].*column (vv|nope) cannot be resolved"):
            peer.sql(f"{text};")


def test_update_and_delete_keep_the_other_rows(peer: Peer, changed: str) -> None:
    peer.sql(f"UPDATE {changed} SET v = concat(v, '!') WHERE id >= 2;")
    assert rows(peer, changed) == {1: "a", 2: "b!", 3: None}
    peer.sql(f"DELETE FROM {changed} WHERE v = 'a';")  # a null condition does not match
    assert rows(peer, changed) == {2: "b!", 3: None}
    peer.sql(f"DELETE FROM {changed};")
    assert rows(peer, changed) == {}


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE {} SET v = 'x'",
        "DELETE FROM {}",
        "MERGE INTO {} t USING {} s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_a_plain_table_refuses_changes_and_the_error_names_transactional_tables(
    peer: Peer, new_table: NewTable, text: str
) -> None:
    name = new_table("(id bigint, v string)")
    with pytest.raises(QueryError, match="'transactional'='true'"):
        peer.sql(text.format(name, name) + ";")


@pytest.mark.parametrize("column", ["s.v", "st.v", "x.{0}.v"])
@pytest.mark.parametrize(
    "text",
    [
        "UPDATE {0} SET id = id, %s = 'x'",
        "UPDATE {0} t SET %s = 'x'",
        "MERGE INTO {0} t USING {0} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET %s = 'x'",
    ],
)
def test_a_member_or_a_column_of_another_table_is_not_set(
    peer: Peer, new_table: NewTable, text: str, column: str
) -> None:
    name = new_table(
        "(id bigint, v string, st struct<v:string>) tblproperties ('transactional'='true')"
    )
    peer.sql(f"insert into {name} values (1, 'a', named_struct('v', 'b'))")
    with pytest.raises(ServiceError, match="SET changes columns of"):
        peer.sql((text % column).format(name))
    assert rows(peer, name) == {1: "a"}


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE {0} SET {0}.v = 'x'",
        "UPDATE {0} t SET T.v = 'x'",
        "MERGE INTO {0} t USING {0} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.v = 'x'",
        "MERGE INTO {0} USING {0} s ON {0}.id = s.id WHEN MATCHED THEN UPDATE SET {0}.v = 'x'",
    ],
)
def test_a_set_column_may_be_qualified(peer: Peer, new_table: NewTable, text: str) -> None:
    name = new_table("(id bigint, v string) tblproperties ('transactional'='true')")
    peer.sql(f"insert into {name} values (1, 'a')")
    peer.sql(text.format(name))
    assert rows(peer, name) == {1: "x"}


# -- statements that the embedded service does not support --------------------------------------


@pytest.mark.parametrize(
    ("text", "near", "column"),
    [
        ("SELCT 1", "SELECT", 1),
        ("SHWO TABLES", "SHOW", 1),
        ("SHOW TABELS", "TABLES", 6),
        ("CREATE TABEL t (a bigint)", "TABLE", 8),
        ("ALTER TABLE t RENAM TO u", "RENAME", 15),
        ("CREATE TABLE t (a bigint) COMENT 'x'", "COMMENT", 27),
    ],
)
def test_a_misspelt_word_is_marked_and_a_similar_one_suggested(
    peer: Peer, text: str, near: str, column: int
) -> None:
    with pytest.raises(ServiceError) as caught:
        peer.sql(f"{text};")
    assert f"[1,{column}]" in caught.value.message
    assert caught.value.hint == f"check the spelling: did you mean {near}?"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE {} (a bigint); SELECT 1",
        "SELECT 1; CREATE TABLE {} (a bigint);",
        "SET a=b; CREATE TABLE {} (a bigint); SELECT * FROM no_such_table",
    ],
)
def test_a_text_with_two_statements_is_refused(peer: Peer, new_table: NewTable, text: str) -> None:
    name = f"{new_table('(a bigint)')}_b"
    with pytest.raises(InvalidRequestError, match="more than one statement") as caught:
        peer.sql(text.format(name))
    assert "with a separate call" in (caught.value.hint or "")
    assert {"table_name": name} not in peer.query("SHOW TABLES;").to_pylist()


SCRIPT = {"odps.sql.submit.mode": "script"}


@pytest.mark.parametrize("way", ["setting", "SET"])
def test_the_statements_of_a_script_run_in_order(peer: Peer, new_table: NewTable, way: str) -> None:
    """dbt-maxcompute sends ``delete from …; insert into …;`` as one script."""
    name = new_table("(a bigint, t timestamp) TBLPROPERTIES ('transactional'='true')")
    text = (
        f"INSERT INTO {name} VALUES (1, NULL), (2, NULL);\n"
        f"-- a far time, for which only this statement runs again\n"
        f"INSERT INTO {name} SELECT 3, CAST('9999-12-31 00:00:00' AS TIMESTAMP);\n"
        f"DELETE FROM {name} WHERE a = 1;\n"
        f"SELECT a FROM {name} ORDER BY a LIMIT 5;\n"
        f"DROP TABLE {name};"
    )
    if way == "SET":
        read = peer.query(f"SET odps.sql.submit.mode = script;{text}")
    else:
        read = peer.query(text, SCRIPT)
    assert read.to_pylist() == [{"a": 2}, {"a": 3}]
    assert {"table_name": name} not in peer.query("SHOW TABLES;").to_pylist()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("DROP TABLE {0}; SELECT 1; SELECT 2;", r"\[1,\d+\].* only one statement that returns"),
        ("DROP TABLE {0}; @a := SELECT 1;", "variables of script mode"),
        ("DROP TABLE {0}; SELEC 1;", r"ODPS-0130161"),
    ],
)
def test_a_script_with_a_syntax_error_runs_no_statement(
    peer: Peer, new_table: NewTable, text: str, problem: str
) -> None:
    name = new_table("(a bigint)")
    with pytest.raises(ServiceError, match=problem):
        peer.sql(text.format(name), SCRIPT)
    assert peer.read(name).num_rows == 0


def test_a_script_ends_at_the_first_statement_that_fails(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint)")
    insert = f"INSERT INTO {name} VALUES (1);"
    with pytest.raises(ServiceError, match=r"ODPS-0130131:\[1,\d+\]"):
        peer.sql(f"{insert} SELECT * FROM no_such_table; {insert}", SCRIPT)
    assert peer.read(name).num_rows == 1


@pytest.mark.parametrize("text", ["-- only a comment", "/* a */;;", "SET a=b;"])
def test_a_job_without_statements_succeeds(peer: Peer, text: str) -> None:
    peer.sql(text)
    with pytest.raises(ServiceError, match="no result rows"):
        peer.query(text)
    with pytest.raises(ServiceError, match="there is no statement"):
        peer.sql(" ")


def test_a_table_that_changes_during_a_rewrite_keeps_the_other_change(
    peer: Peer, new_table: NewTable
) -> None:
    name = new_table(KINDS["append"])
    peer.write(name, pa.table({"id": pa.array([1], pa.int64()), "v": ["a"]}))
    started = peer.start(
        f"UPDATE {name} SET v = 'z' WHERE id IN"
        " (SELECT x * 0 + 1 FROM (SELECT explode(sequence(1, 2000000)) AS x) s);"
    )
    peer.write(name, pa.table({"id": pa.array([2], pa.int64()), "v": ["b"]}))
    (task,) = peer.wait(started).tasks
    found = rows(peer, name)
    assert found[2] == "b"
    assert found[1] == ("z" if task.status == "Success" else "a")


NESTED = (
    "SELECT 1 AS id, array('x', 'y') AS a, map('p', 1, 'q', 2) AS m UNION ALL"
    " SELECT 2, array(), cast(null AS map<string, int>)"
)


@pytest.mark.parametrize(
    ("view", "rows"),
    [
        ("explode(a) v AS c", [(1, "x"), (1, "y")]),
        ("OUTER explode(a) v AS c", [(1, "x"), (1, "y"), (2, None)]),
        ("explode(m) v AS k, n", [(1, "p", 1), (1, "q", 2)]),
        ("OUTER explode(m) v AS k, n", [(1, "p", 1), (1, "q", 2), (2, None, None)]),
        ("posexplode(a) v AS i, c", [(1, 0, "x"), (1, 1, "y")]),
        ("OUTER posexplode(a) v AS i, c", [(1, 0, "x"), (1, 1, "y"), (2, None, None)]),
    ],
)
def test_a_lateral_view_accepts_maps_and_keeps_empty_rows_if_outer(
    peer: Peer, view: str, rows: list[tuple[object, ...]]
) -> None:
    """Vendor's manual, *LATERAL VIEW*: OUTER returns a row of nulls if there is no value."""
    found = peer.query(f"SELECT id, v.* FROM ({NESTED}) t LATERAL VIEW {view};")
    assert sorted((tuple(row.values()) for row in found.to_pylist()), key=str) == rows


def test_a_lateral_view_can_use_earlier_ones(peer: Peer) -> None:
    found = peer.query(
        f"SELECT c, n FROM ({NESTED}) t LATERAL VIEW explode(map('k', a)) v AS k, l"
        " LATERAL VIEW explode(l) w AS c LATERAL VIEW explode(m) x AS p, n;"
    )
    pairs = sorted((row["c"], row["n"]) for row in found.to_pylist())
    assert pairs == [("x", 1), ("x", 2), ("y", 1), ("y", 2)]


def test_percentile_interpolates(peer: Peer) -> None:
    """Vendor's manual, *PERCENTILE*: 0.3 of 100, 200 and 300 is 160."""
    (row,) = peer.query(
        "SELECT percentile(n, 0.3) AS one, percentile(n, array(0.0, 0.25, 1)) AS more,"
        " percentile(DISTINCT n, 0.5) AS half, percentile(cast(n AS decimal(10,2)), 0.3) AS d"
        " FROM (SELECT explode(array(100, 200, 300)) AS n) t;"
    ).to_pylist()
    assert row == {"one": 160.0, "more": [100.0, 150.0, 300.0], "half": 200.0, "d": 160.0}


@pytest.mark.parametrize(
    "text",
    [
        "insert into {t} values (3)",
        "drop table {t}",
        "create table {t}_2 (id bigint)",
        "truncate table {t}",
        "alter table {t} set lifecycle 3",
        "create table {t}_2 as select 1 as id",
        "create view {t}_2 as select * from {t}",
        "insert overwrite table {t} select 1",
    ],
)
@pytest.mark.parametrize("way", ["settings", "statement"])
def test_a_read_only_job_changes_no_rows(
    peer: Peer, new_table: NewTable, text: str, way: str
) -> None:
    """Evidence 192: the vendor's MCP server relies on this."""
    name = new_table("(id bigint)")
    peer.sql(f"insert into {name} values (1)")
    key = "odps.sql.read.only"
    given = {key: "true"} if way == "settings" else {}
    before = f"set {key}=true;" if way == "statement" else ""
    with pytest.raises(ServiceError, match="the statement changes data"):
        peer.sql(before + text.format(t=name), settings=given)
    assert peer.query(f"{before}select * from {name}").num_rows == 1


MODES = (
    *("odps.sql.hive.compatible=true", "odps.sql.bigquery.compatible=true"),
    *("odps.sql.type.system.odps2=false", "odps.sql.udf.getjsonobj.new=false"),
    *("odps.sql.decimal.tostring.trimzero=false",),
    *("odps.sql.executionengine.enable.string.to.date.full.format=true",),
)


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_with_other_results_is_refused_where_it_matters(
    peer: Peer, new_table: NewTable, mode: str
) -> None:
    name = new_table("(id bigint, v string)")
    given = dict([mode.split("=")])
    peer.sql(f"INSERT INTO {name} VALUES (1, 'a');", given)
    plain = f"SELECT id, v FROM {name} WHERE id >= 1 AND v IS NOT NULL"
    totals = f"SELECT v, sum(id) AS s, count(DISTINCT nvl(id, 0)) AS n FROM {name} GROUP BY v"
    clock = f"SELECT trunc_time(current_timestamp_ntz(), 'day') AS pt FROM {name}"
    for text in (plain, totals, clock):
        assert peer.query(f"{text};", given).num_rows == 1
    for computed in ("id + 1", "substr(v, 0)", "cast(id AS string)", "sum(id) OVER ()"):
        with pytest.raises(QueryError, match=f"functions and operators with SET {mode}"):
            peer.sql(f"SELECT {computed} AS c FROM {name};", given)
        peer.sql(f"SELECT {computed} AS c FROM {name};")


def test_a_mode_does_not_prevent_an_insert_into_generated_partitions(
    peer: Peer, new_table: NewTable
) -> None:
    """pyodps' own tests insert with odps.sql.hive.compatible=true."""
    name = new_table("(ts TIMESTAMP_NTZ) AUTO PARTITIONED BY (trunc_time(ts, 'day') AS pt)")
    given = {"odps.sql.hive.compatible": "true"}
    peer.sql(f"INSERT INTO {name} SELECT TIMESTAMP_NTZ '2025-02-21 11:23:41' AS ts;", given)
    assert peer.query(f"SELECT pt FROM {name}").to_pylist() == [{"pt": "2025-02-21"}]
