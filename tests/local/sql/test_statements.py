"""SQL over real sockets: DDL, INSERT, SELECT, failures, and their isolation."""

from __future__ import annotations

import json
import time
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.client.sql.query import SqlInstance, cancel_sql
from odps_nb.errors import (
    ArgumentError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    QueryError,
    ServiceError,
)
from odps_nb.wire import calls, control
from tests.support.named import NewTable
from tests.support.service.peer import Peer


def test_the_document_of_a_table_has_its_definition(peer: Peer, new_table: NewTable) -> None:
    name = new_table(
        "(id BIGINT NOT NULL COMMENT 'the key; with (signs)', `from` DECIMAL(18,2),"
        " s STRUCT<a:INT,b:ARRAY<STRING>>)"
        " COMMENT 'a table' PARTITIONED BY (ds STRING COMMENT 'day') LIFECYCLE 7"
    )
    request = control.GetTable(table=peer.table(name))
    info = request.decode_answer(peer.ok(request.encode()).content, {})
    assert [c.name for c in info.schema] == ["id", "from", "s", "ds"]
    assert info.schema.columns[0].comment == "the key; with (signs)"
    assert not info.schema.columns[0].nullable
    assert (info.comment, info.lifecycle) == ("a table", 7)


def test_names_are_found_in_any_case(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(Id bigint)")
    peer.write(name, pa.table({"ID": [7]}))
    assert peer.query(f"SELECT iD AS x FROM {name.upper()};").to_pylist() == [{"x": 7}]
    request = control.GetTable(table=peer.table(name.upper()))
    body = peer.ok(request.encode()).text
    assert f"<Name>{name.upper()}</Name>" in body


def test_an_existing_table_is_created_again_only_if_allowed(
    peer: Peer, new_table: NewTable
) -> None:
    name = new_table("(a bigint)")
    with pytest.raises(ServiceError, match="already"):
        peer.sql(f"CREATE TABLE {name} (a bigint);")
    peer.sql(f"CREATE TABLE IF NOT EXISTS {name} (b string);")
    assert peer.read(name).column_names == ["a"]


def test_create_table_as_an_existing_name_writes_no_rows(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint)")
    rows = Path(peer.service.temporary_root or "") / "rows"
    before = set(rows.iterdir())
    with pytest.raises(ServiceError, match="already"):
        peer.sql(f"CREATE TABLE {name} AS SELECT 1 AS a;")
    assert set(rows.iterdir()) <= before
    peer.sql(f"CREATE TABLE {name}_of_rows AS SELECT 1 AS a;")
    assert not set(rows.iterdir()) <= before  # rows of a query add a file
    peer.sql(f"DROP TABLE {name}_of_rows;")


def test_dropping_a_missing_table_needs_if_exists(peer: Peer) -> None:
    peer.sql("DROP TABLE IF EXISTS never_was;")
    with pytest.raises(QueryError, match="never_was") as caught:
        peer.sql("DROP TABLE never_was;")
    assert caught.value.code == "NoSuchTable"


def test_a_select_returns_typed_columns_and_names_expressions_by_position(
    peer: Peer, new_table: NewTable
) -> None:
    name = new_table("(a bigint, b decimal(10,2), c datetime, d char(3), e date)")
    moment = datetime(2024, 2, 29, 1, 2, 3)
    peer.write(
        name,
        pa.table(
            {
                "a": [1, 2],
                "b": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
                "c": pa.array([moment, None], pa.timestamp("ms")),
                "d": ["abc", None],
                "e": pa.array([date(2024, 1, 1), None]),
            }
        ),
    )
    read = peer.query(f"SELECT *, a + 1, sum(a) OVER () AS total FROM {name} ORDER BY a;")
    assert read.column_names[-1] == "total"
    assert read.schema.field("c").type == pa.timestamp("ms")
    assert read.schema.field("total").type == pa.int64()
    assert read.to_pylist()[0] | {"c": moment} == read.to_pylist()[0]
    assert peer.query("SELECT 1, 'x' AS b;").column_names == ["_c0", "b"]


def test_rows_are_inserted_and_overwritten(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint, b string) PARTITIONED BY (ds string)")
    peer.sql(f"INSERT INTO TABLE {name} PARTITION (ds='x') VALUES (1, 'one'), (2, NULL);")
    peer.sql(f"INSERT INTO {name} PARTITION (ds) SELECT a + 10, b, 'y' FROM {name};")
    peer.sql(f"INSERT OVERWRITE TABLE {name} PARTITION (ds='x') (b) SELECT 'only b';")
    assert peer.query(f"SELECT a, b, ds FROM {name} ORDER BY ds, a;").to_pylist() == [
        {"a": None, "b": "only b", "ds": "x"},
        {"a": 11, "b": "one", "ds": "y"},
        {"a": 12, "b": None, "ds": "y"},
    ]


def test_an_insert_of_too_many_columns_changes_nothing(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint)")
    with pytest.raises(ServiceError, match="columns"):
        peer.sql(f"INSERT OVERWRITE TABLE {name} SELECT 1, 2;")
    with pytest.raises(ServiceError):
        peer.sql(f"INSERT INTO TABLE {name} SELECT 'not a number';")
    assert peer.read(name).num_rows == 0


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("CREATE TABLE never (b string) AS SELECT 1 AS a", "a column list in CREATE TABLE … AS"),
        ("CREATE TABLE never PARTITIONED BY (p string) AS SELECT 1 AS a", "PARTITIONED BY in"),
        ("CREATE TABLE never AS SELECT 1 AS a, 2 AS A", "the query returns two columns 'A'"),
        ("CREATE TABLE never (a bigint) LIFECYCLE 0", "a lifecycle is a positive number of days"),
        ("CREATE TABLE never (a bigint) LIFECYCLE -1", "a lifecycle is a positive number of days"),
        ("ALTER TABLE never SET LIFECYCLE 0", "a lifecycle is a positive number of days"),
    ],
)
def test_a_clause_of_create_table_that_would_be_ignored_is_refused(
    peer: Peer, statement: str, problem: str
) -> None:
    with pytest.raises(ServiceError, match=problem):
        peer.sql(f"{statement};")


def test_a_table_is_created_from_a_query_or_like_another(peer: Peer) -> None:
    name = f"ctas{time.time_ns()}"
    peer.sql(f"CREATE TABLE {name} AS SELECT 1 AS a, 'x' AS b;")
    assert peer.read(name).to_pylist() == [{"a": 1, "b": "x"}]
    peer.sql(f"CREATE TABLE {name}_2 LIKE {name};")
    assert peer.read(f"{name}_2").column_names == ["a", "b"]
    with pytest.raises(ServiceError):
        peer.sql(f"CREATE TABLE {name}_3 AS SELECT CAST('x' AS BIGINT) / 0 FROM no_such_table;")


def test_settings_and_comments_may_precede_a_statement(peer: Peer) -> None:
    read = peer.query(
        "SET odps.sql.allow.fullscan=true;\n-- a comment; here\nSELECT 1 AS n; -- and here;\n"
    )
    assert read.to_pylist() == [{"n": 1}]


@pytest.mark.parametrize("name", ["../x", "a/b", "a.b.c.d", "a;b", "x" * 200, "a b"])
def test_invalid_names_are_refused(peer: Peer, name: str) -> None:
    with pytest.raises(ServiceError):
        peer.sql(f"CREATE TABLE `{name}` (a bigint);")
    with pytest.raises(ArgumentError):
        peer.table(name)


def test_an_instance_has_a_status_and_a_result_as_text(peer: Peer) -> None:
    peer.sql("SELECT 1 AS a, NULL AS b;")
    result = control.GetInstanceResult(project=peer.service.project, instance_id=peer.last_instance)
    (task,) = result.decode_answer(peer.ok(result.encode()).content, {}).tasks
    assert task.text == '"a","b"\n"1",\\N\n'
    status = control.GetInstance(project=peer.service.project, instance_id=peer.last_instance)
    found = status.decode_answer(peer.ok(status.encode()).content, {})
    assert found.is_over
    missing = control.GetInstance(project=peer.service.project, instance_id="2024nope")
    with pytest.raises(NotFoundError):
        peer.ok(missing.encode())


def test_an_instance_without_rows_has_no_session(peer: Peer) -> None:
    peer.sql("CREATE TABLE IF NOT EXISTS without_rows (a bigint);")
    request = calls.CreateInstanceReadSession(
        project=peer.service.project, instance_id=peer.last_instance
    )
    with pytest.raises(InvalidRequestError):
        peer.call(request)


def test_a_running_query_is_cancelled(peer: Peer) -> None:
    submit = control.SubmitSql(
        project=peer.service.project,
        sql="SELECT count(*) FROM (SELECT explode(sequence(1, 1000000)) AS a) x"
        " CROSS JOIN (SELECT explode(sequence(1, 1000000)) AS b) y;",
    )
    response = peer.ok(submit.encode())
    assert response.status_code == 201
    instance = submit.decode_answer(response.content, dict(response.headers)).instance_id
    cancel = control.CancelInstance(project=peer.service.project, instance_id=instance)
    peer.ok(cancel.encode())
    status = control.GetTaskStatus(project=peer.service.project, instance_id=instance)
    (task,) = status.decode_answer(peer.ok(status.encode()).content, {}).tasks
    assert task.status == "Cancelled"


def test_queries_keep_blob_references(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(id bigint, b blob)")
    session = peer.open_write(name)
    peer.open_stream(name, session, "0")
    reference = peer.put_blob(name, session, "0", b"data", column_id=2).references[0]
    peer.put(name, session, "0", pa.table({"id": [1], "b": pa.array([reference.raw], pa.binary())}))
    peer.close_stream(name, session, "0")
    peer.commit(name, session)
    read = peer.query(f"SELECT b FROM {name};")
    assert read.column("b").to_pylist() == [reference.token.encode()]
    peer.sql(f"INSERT INTO {name} SELECT id + 1, b FROM {name};")
    assert peer.read(name).column("b").to_pylist() == [reference.token.encode()] * 2


OPERATORS = (
    ("split(note, ',')[1]", "b"),
    ("note rlike '^a'", True),
    ("id / 2", 0.5),
    ("id / 0", None),
    ("dateadd(dt, -3, 'hh') < dt", True),
    ("datediff(dt, dateadd(dt, -3, 'dd'))", 3),
)


def test_operators_return_the_same_as_in_maxcompute(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(id bigint, note string, dt datetime)")
    moment = pa.array([datetime(2024, 1, 31, 10, 20, 30)], pa.timestamp("ms"))
    peer.write(name, pa.table({"id": [1], "note": ["a,b"], "dt": moment}))
    shown = ", ".join(expression for expression, _ in OPERATORS)
    found = [column.to_pylist() for column in peer.query(f"SELECT {shown} FROM {name};").columns]
    assert found == [[expected] for _, expected in OPERATORS]


def test_grouping_hints_and_windows_are_parsed(peer: Peer) -> None:
    values = "(SELECT 'a' AS k, 1 AS v UNION ALL SELECT 'a', 2 UNION ALL SELECT 'b', 3) t"
    rolled = peer.query(f"SELECT k, sum(v) s FROM {values} GROUP BY k WITH ROLLUP;").to_pylist()
    assert {(row["k"], row["s"]) for row in rolled} == {("a", 3), ("b", 3), (None, 6)}
    ranked = peer.query(
        "SELECT /*+ mapjoin(t) */ v, row_number() OVER (PARTITION BY k ORDER BY v DESC) n"
        f" FROM {values};"
    )
    assert sorted(zip(*ranked.to_pydict().values(), strict=True)) == [(1, 2), (2, 1), (3, 1)]


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("to_char(getdate(), concat('yyyy', ''))", "TO_CHAR"),
        ("DISTINCT ON (n) n, s", "DISTINCT ON"),
        ("0x1F", "0x1F is not a number"),
        *[(f"if({one}, 1, 2)", "a condition must be BOOLEAN") for one in ("n", "s", "n AND b")],
        *[(f"1 FROM T WHERE {one}", "a condition must be BOOLEAN") for one in ("n", "NOT s")],
        *[(f"{one} = b", "BOOLEAN cannot be combined with") for one in ("n", "s", "'true'", "1")],
        ("CASE WHEN b THEN b ELSE s END", "BOOLEAN cannot be combined with"),
        ("b FROM T UNION ALL SELECT 1", "BOOLEAN cannot be combined with"),
        ("* FROM VALUES ('a'), (true) v (x)", "BOOLEAN cannot be combined with"),
        ("n IN ()", "IN requires at least one value"),
    ],
)
def test_a_query_that_duckdb_would_read_in_another_way_is_refused(
    peer: Peer, query: str, refusal: str
) -> None:
    table = "(SELECT 1 AS n, 'x' AS s, true AS b) t"
    text = query.replace("FROM T", f"FROM {table}") if "FROM" in query else f"{query} FROM {table}"
    with pytest.raises(ServiceError, match=refusal):
        peer.sql(f"SELECT {text};")


@pytest.mark.parametrize(
    "cast", ["'abc' AS varchar(1)", "'abc' AS char(1)", "array('abc') AS array<char(1)>"]
)
def test_a_cast_that_would_truncate_in_maxcompute_is_refused(peer: Peer, cast: str) -> None:
    with pytest.raises(ServiceError, match="does not truncate text"):
        peer.sql(f"SELECT cast({cast}) FROM (SELECT 1) t;")


@pytest.mark.parametrize("call", ["map('a')", "year()", "wm_concat(distinct 's')", "1 $$(1)"])
def test_text_on_which_the_parser_fails_is_refused(peer: Peer, call: str) -> None:
    with pytest.raises(ServiceError, match=r"ODPS-0130(161|071)"):
        peer.sql(f"SELECT {call} FROM (SELECT 1) t;")


@pytest.mark.parametrize(
    "column",
    ["map<blob,string>", "map<array<blob>,string>", "array<struct<x:map<string,map<blob,int>>>>"],
)
def test_a_blob_cannot_be_the_key_of_a_map(peer: Peer, column: str) -> None:
    with pytest.raises(QueryError, match="a MAP whose key contains a BLOB"):
        peer.sql(f"CREATE TABLE never (a {column});")


def test_a_table_with_a_blob_needs_its_properties_and_settings(peer: Peer) -> None:
    """Evidence 120, 121: pyodps' live tests (conftest.py); vendor page "Blob data type"."""
    made = "CREATE TABLE {} (a bigint, b {}) TBLPROPERTIES ({});"
    both = "'table.format.version'='2', 'transactional'='true'"
    append = {"odps.table.append2.enable": "true"}
    for settings, properties, missing in (
        ({}, both, "SET odps.table.append2.enable=true"),
        (append, "'transactional'='true'", "'table.format.version'='2'"),
        (append, "'table.format.version'='2'", "'transactional'='true'"),
    ):
        for column in ("blob", "array<struct<x:blob>>"):
            with pytest.raises(QueryError, match=missing):
                peer.sql(made.format("no_blobs", column, properties), settings)
    peer.sql(made.format("with_set", "blob", both), append)
    peer.sql("CREATE TABLE alike LIKE with_set;")
    with pytest.raises(QueryError, match="Append Delta"):
        peer.sql("CREATE TABLE taken AS SELECT * FROM alike;")


def test_a_blob_can_be_the_value_of_a_map(new_table: NewTable) -> None:
    assert new_table("(a map<string,blob>)")


def test_odps_nb_accepts_that_an_ended_instance_cannot_be_stopped(
    peer: Peer, odps: Connection
) -> None:
    """evidence 169: rejected with InvalidStateSetting (pyodps: test_create_instance)"""
    peer.sql("SELECT 1;")
    over = control.CancelInstance(project=peer.service.project, instance_id=peer.last_instance)
    with pytest.raises(ConflictError) as caught:
        peer.ok(over.encode())
    assert (caught.value.code, caught.value.status) == ("InvalidStateSetting", 409)
    result = odps.sql("select 1 as a").wait()
    result.cancel()
    unknown = SqlInstance(project=peer.service.project, instance_id="2024nope")
    with pytest.raises(NotFoundError):
        cancel_sql(odps._storage, unknown)


NESTED = (
    ("map('k', 'v')", '{"k":"v"}'),
    ("map(1, array('a', null))", '{"1":["a",null]}'),
    ("array(1, 2, null)", "[1,2,null]"),
    ("array('a', 'b\"c')", r'["a","b\"c"]'),
    ("named_struct('a', 1, 'b', array(true))", '{"a":1,"b":[true]}'),
    ("array(cast('1.50' as decimal(10,2)))", '["1.50"]'),
    ("array(cast('2024-01-01 10:00:00.5' as datetime))", '["2024-01-01 10:00:00"]'),
    ("array(timestamp_ntz '2024-01-01 10:00:00.5')", '["2024-01-01 10:00:00.500000000"]'),
    ("cast(null as array<bigint>)", None),
)


def test_nested_values_are_json_in_the_text_of_a_result(peer: Peer) -> None:
    """evidence 167: ``{"k":"v"}`` and ``[…]`` (pyodps: test_read_map_array_sql_instance)"""
    peer.sql(f"SELECT {', '.join(expression for expression, _ in NESTED)};")
    result = control.GetInstanceResult(project=peer.service.project, instance_id=peer.last_instance)
    (task,) = result.decode_answer(peer.ok(result.encode()).content, {}).tasks
    cells = ["\\N" if t is None else '"' + t.replace('"', '""') + '"' for _, t in NESTED]
    assert task.text.splitlines()[1:] == [",".join(cells)]


PARTITIONED = "(a string, b string) PARTITIONED BY (c string, d string)"
NAMED_INSERTS = [
    "INTO {} (b, a, d, c) SELECT 'B', 'A', 'D', 'C'",
    "INTO {} (b, a, d, c) VALUES ('B', 'A', 'D', 'C')",
    "INTO {} (C, A, B, D) SELECT * FROM (SELECT 'C', 'A', 'B', 'D') x",
    "INTO {} PARTITION (c, d) (a, c, b, d) SELECT 'A', 'C', 'B', 'D'",
    "INTO {} PARTITION (c, d) (d, c, b, a) VALUES ('D', 'C', 'B', 'A')",
    "INTO {} PARTITION (c, d) (b, a) SELECT 'B', 'A', 'C', 'D'",
    "INTO {} PARTITION (c='C', d) (d, b, a) SELECT 'D', 'B', 'A'",
    "INTO {} PARTITION (c='C', d) (b, a) SELECT 'B', 'A', 'D'",
    "INTO {} PARTITION (c='C', d='D') (b, a) SELECT 'B', 'A'",
    "INTO {} PARTITION (c='C') (b, D, a) SELECT 'B', 'D', 'A'",
    "OVERWRITE TABLE {} PARTITION (c, d) (a, c, b, d) SELECT 'A', 'C', 'B', 'D'",
    "OVERWRITE TABLE {} (b, d, a, c) SELECT 'B', 'D', 'A', 'C'",
    "OVERWRITE TABLE {} PARTITION (c='C', d) (d, a, b) VALUES ('D', 'A', 'B')",
]


@pytest.mark.parametrize("statement", NAMED_INSERTS)
def test_a_column_list_matches_names_including_partition_columns(
    peer: Peer, new_table: NewTable, statement: str
) -> None:
    """The vendor's page "VALUES" has ``insert into t partition (p)(key,p) values (…)``."""
    name = new_table(PARTITIONED)
    peer.sql(f"INSERT {statement.format(name)};")
    row = {"a": "A", "b": "B", "c": "C", "d": "D"}
    assert peer.query(f"SELECT a, b, c, d FROM {name};").to_pylist() == [row]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("(a, x, c, d) SELECT 'A', 'X', 'C', 'D'", "no column 'x'"),
        ("(a, A, c, d) SELECT 'A', 'A', 'C', 'D'", "'A' is listed twice"),
        ("PARTITION (c='C', d) (c, d) SELECT 'X', 'D'", "already sets the listed column 'c'"),
        ("(a, b, c) SELECT 'A', 'B', 'C'", "lacks the partition column 'd'"),
        ("(a, b) SELECT 'A', 'B', 'C', 'D'", "lacks the partition column 'c'"),
        ("PARTITION (c, d) (d, a) SELECT 'D', 'A', 'C'", "lacks the partition column 'c'"),
        ("PARTITION (c, e) SELECT 'A', 'B', 'C', 'D'", "does not match the partition keys"),
        ("PARTITION (c, d) (a, c, d) SELECT 'A'", "wrong columns count 1 .* requires 3"),
        (
            "PARTITION (d, c) SELECT 'A', 'B', 'D', 'C'",
            r"\(d, c\) is not in the order of the table",
        ),
        ("PARTITION (d, c) (b, a) SELECT 'B', 'A', 'D', 'C'", "is not in the order of the table"),
    ],
)
def test_a_column_list_with_other_names_is_refused(
    peer: Peer, new_table: NewTable, statement: str, problem: str
) -> None:
    name = new_table(PARTITIONED)
    with pytest.raises(ServiceError, match=problem):
        peer.sql(f"INSERT INTO {name} {statement};")
    assert peer.query(f"SELECT a FROM {name};").num_rows == 0


@pytest.mark.parametrize("into", ["INTO", "OVERWRITE TABLE"])
def test_all_columns_of_an_auto_partitioned_table_can_be_inserted(
    peer: Peer, new_table: NewTable, into: str
) -> None:
    name = new_table("(d date, a bigint) AUTO PARTITIONED BY (trunc_time(d, 'month') AS pt)")
    peer.sql(f"INSERT INTO {name} VALUES (DATE '2024-01-31', 1), (DATE '2024-02-01', 2);")
    peer.sql(f"INSERT {into} {name} SELECT * FROM {name};")
    peer.sql(f"INSERT INTO {name} (pt, a, d) VALUES ('2024-03', 3, DATE '2024-03-05');")
    rows = peer.query(f"SELECT a, pt FROM {name} ORDER BY a;").to_pylist()
    old = [{"a": 1, "pt": "2024-01"}, {"a": 2, "pt": "2024-02"}]
    times = 2 if into == "INTO" else 1
    assert rows == [row for row in old for _ in range(times)] + [{"a": 3, "pt": "2024-03"}]


def test_inserts_of_one_statement_read_the_same_rows(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint)")
    parts = new_table("(a bigint) partitioned by (ds string)")
    peer.sql(f"INSERT INTO {name} VALUES (1), (2)")
    peer.sql(
        f"FROM (SELECT a FROM {name}) s INSERT OVERWRITE TABLE {name} SELECT a + 10 WHERE a > 1"
        f" INSERT INTO TABLE {parts} PARTITION (ds='x') SELECT CASE WHEN a = 1 THEN 7 END;"
    )
    assert peer.read(name).to_pylist() == [{"a": 12}]
    assert peer.query(f"SELECT a, ds FROM {parts} ORDER BY a LIMIT 9").to_pylist() == [
        *({"a": None, "ds": "x"}, {"a": 7, "ds": "x"}),
    ]


def test_a_multi_insert_runs_completely_or_not_at_all(peer: Peer, new_table: NewTable) -> None:
    name, other = new_table("(a bigint)"), new_table("(a bigint, b bigint)")
    with pytest.raises(ServiceError, match="columns count"):
        peer.sql(f"FROM VALUES (1) t(a) INSERT INTO {name} SELECT a INSERT INTO {other} SELECT a;")
    assert peer.read(name).num_rows == 0


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("INTO TABLE {0}", "INTO TABLE {0}"),
        ("OVERWRITE TABLE {0}", "OVERWRITE TABLE {0}"),
        ("OVERWRITE TABLE {1} PARTITION (p='x')", "INTO {1} PARTITION (p='x')"),
        ("OVERWRITE TABLE {1} PARTITION (p='x')", "OVERWRITE TABLE {1} PARTITION (p)"),
        ("INTO TABLE {1} PARTITION (p)", "INTO TABLE {1} PARTITION (p)"),
    ],
)
def test_the_inserts_of_one_statement_write_to_different_partitions(
    peer: Peer, new_table: NewTable, one: str, two: str
) -> None:
    names = new_table("(a bigint)"), new_table("(a bigint) PARTITIONED BY (p string)")
    inserts = " ".join(
        f"INSERT {into.format(*names)} SELECT a{', p' if '(p)' in into else ''}"
        for into in (one, two)
    )
    with pytest.raises(ServiceError, match=r"two INSERTs .* the same table or partition"):
        peer.sql(f"FROM VALUES (1, 'x') t(a, p) {inserts};")
    assert [peer.query(f"SELECT a FROM {name};").num_rows for name in names] == [0, 0]
    apart = " ".join(f"INSERT INTO {names[1]} PARTITION (p='{p}') SELECT a" for p in "xy")
    peer.sql(f"FROM VALUES (1, 'x') t(a, p) {apart};")
    assert peer.query(f"SELECT a FROM {names[1]};").num_rows == 2


def test_a_materialized_view_keeps_its_rows_until_it_is_rebuilt(
    peer: Peer, new_table: NewTable
) -> None:
    name = new_table("(a bigint, b string)")
    peer.sql(f"INSERT INTO {name} VALUES (1, 'x')")
    peer.sql(
        f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name}_m LIFECYCLE 7 (n COMMENT 'c', pt)"
        f" DISABLE REWRITE COMMENT 'kept' PARTITIONED ON (pt) AS SELECT a * 2, b FROM {name};"
    )
    shown = peer.query(f"SHOW CREATE TABLE {name}_m").to_pylist()[0]["statement"]
    peer.sql(f"INSERT INTO {name} VALUES (5, 'y')")
    assert peer.read(f"{name}_m").to_pylist() == [{"n": 2, "pt": "x"}]
    peer.sql(f"ALTER MATERIALIZED VIEW {name}_m REBUILD")
    both = [{"n": 2, "pt": "x"}, {"n": 10, "pt": "y"}]
    assert peer.query(f"SELECT * FROM {name}_m ORDER BY n LIMIT 9").to_pylist() == both
    request = control.GetTable(table=peer.table(f"{name}_m"))
    body = peer.ok(request.encode()).content
    info = request.decode_answer(body, {})
    assert b"<Type>MATERIALIZED_VIEW</Type>" in body
    assert (info.is_view, info.is_materialized, info.rewrites) == (False, True, False)
    assert (info.lifecycle, info.comment, info.record_count) == (7, "kept", 2)
    for refused in ("INSERT INTO {}_m VALUES (1, 'z')", "DROP TABLE {}_m", "TRUNCATE TABLE {}_m"):
        with pytest.raises(ServiceError, match="is a materialized view, not a table"):
            peer.sql(refused.format(name))
    with pytest.raises(ServiceError, match="only REBUILD changes"):
        peer.open_write(f"{name}_m")
    peer.sql(f"DROP MATERIALIZED VIEW {name}_m")
    peer.sql(shown)  # the definition is resolved again, so the view has the current rows
    assert peer.query(f"SELECT * FROM {name}_m ORDER BY n LIMIT 9").to_pylist() == both
    peer.sql(f"DROP VIEW IF EXISTS {name}_m")
    peer.sql(f"DROP MATERIALIZED VIEW IF EXISTS {name}_m")


def test_a_deferred_materialized_view_is_empty_until_it_is_rebuilt(peer: Peer) -> None:
    name = f"mv{time.time_ns()}"
    peer.sql(f"CREATE MATERIALIZED VIEW {name} BUILD DEFERRED AS SELECT 1 AS a;")
    assert peer.read(name).num_rows == 0
    peer.sql(f"ALTER MATERIALIZED VIEW {name} REBUILD;")
    assert peer.read(name).to_pylist() == [{"a": 1}]
    with pytest.raises(ServiceError, match="already"):
        peer.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT 2 AS a;")
    peer.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS SELECT 2 AS a;")
    with pytest.raises(ServiceError, match="zero"):
        peer.sql(f"CREATE MATERIALIZED VIEW {name}_2 AS SELECT 1 DIV 0 AS a;")
    peer.sql(f"CREATE TABLE {name}_2 (a bigint);")  # the failed view was not created


def test_explain_checks_a_query_and_shows_its_tables_and_columns(
    peer: Peer, new_table: NewTable
) -> None:
    name = new_table("(a bigint)")
    found = peer.query(f"EXPLAIN SELECT a, upper('x') AS b FROM {name}").column("plan").to_pylist()
    assert found[0].endswith(name)
    assert [line.lower() for line in found[1:]] == ["column: a bigint", "column: b string"]
    with pytest.raises(ServiceError, match="no_such"):
        peer.query(f"EXPLAIN SELECT no_such FROM {name}")


def test_explain_output_returns_the_columns_as_json(peer: Peer, new_table: NewTable) -> None:
    """Evidence 191: the vendor's ODBC driver sends this query before each statement."""
    name = new_table("(a bigint, d decimal(10,2))")
    for query in (f"SELECT a, d FROM {name}", f"WITH w AS (SELECT * FROM {name}) SELECT * FROM w"):
        (found,) = peer.query(f"EXPLAIN OUTPUT {query}").column(0).to_pylist()
        columns = json.loads(found)["columns"]
        assert columns == [{"name": "a", "type": "bigint"}, {"name": "d", "type": "decimal(10,2)"}]
    for other in (f"DROP TABLE {name}", f"INSERT INTO {name} VALUES (1, 2)"):
        assert peer.query(f"EXPLAIN OUTPUT {other}").column(0).to_pylist() == ["nothing to explain"]
    assert peer.read(name).num_rows == 0
    with pytest.raises(ServiceError, match="no_such"):
        peer.query(f"EXPLAIN OUTPUT SELECT no_such FROM {name}")


def test_a_column_of_a_view_gets_a_comment(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint)")
    peer.sql(f"CREATE VIEW {name}_v AS SELECT a FROM {name}")
    peer.sql(f"ALTER VIEW {name}_v CHANGE COLUMN a COMMENT 'c'")
    assert peer.query(f"DESC {name}_v").to_pylist()[0]["comment"] == "c"
    with pytest.raises(ServiceError, match="is a table, not a view"):
        peer.sql(f"ALTER VIEW {name} CHANGE COLUMN a COMMENT 'c'")


def test_a_schema_is_dropped_with_its_tables_only_by_cascade(peer: Peer) -> None:
    name = f"s{time.time_ns()}"
    peer.sql(f"CREATE SCHEMA {name};")
    with pytest.raises(ServiceError, match=f"ODPS-0110061.*'{name}' already exists"):
        peer.sql(f"CREATE SCHEMA {name};")
    peer.sql(f"CREATE TABLE {peer.service.project}.{name}.t AS SELECT 1 AS a;")
    with pytest.raises(ServiceError, match="still contains tables"):
        peer.sql(f"DROP SCHEMA {name};")
    peer.sql(f"DROP SCHEMA {name} CASCADE;")
    with pytest.raises(ServiceError, match="Schema not found"):
        peer.sql(f"DROP SCHEMA {name} CASCADE;")
    peer.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE;")
