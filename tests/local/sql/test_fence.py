"""Isolation of predicates and SQL: no files, no settings, nothing beyond the row or table."""

from contextlib import suppress

import pytest

from odps_nb.errors import InvalidRequestError, NotFoundError, QueryError
from odps_nb.local.duck import Duck, looks_outside
from odps_nb.wire.calls import CreateReadSession

DEEP = 5000

NOT_OF_A_ROW = [
    "count(*) > 0",
    "sum(id) > 1",
    "bitstring_agg(id) is null",
    "row_number() over () = 1",
    "explode(array(true, false))",
    "unnest(array(true, false))",
    "sleep_ms(1) is null",
]
OUTSIDE = [
    "current_setting('temp_directory') = 'x'",
    "system.main.current_setting('temp_directory') = 'x'",
    "`current_setting` /* x */ ('home_directory') is null",
    "getvariable('x') is null",
    "current_query() = 'x'",
    "pg_typeof(id) = 'x'",
    "getenv('HOME') = 'x'",
    "read_text('/etc/passwd') is not null",
    "(select content from read_text('/etc/passwd')) is not null",
    "exists (select 1)",
    "id in (select 1)",
    "query('select 1') is null",
    "batch.id = 1",
    "id = ${x}",
    "id = @@version",
    "id = ?",
    "1 = 1; drop table orders",
    "id = 1 union select 1",
    "set x = 1",
    "attach '/tmp/x'",
    "copy batch to '/tmp/x'",
    "`id`` = 1 or 1 = 1 --` = 1",
]
GROWING = [
    "repeat(status, 1000000000) = 'x'",
    "REPEAT (status, 1000000000) = 'x'",
    "length(`repeat`(status, 1000000000)) = 1",
    "lpad(status, 2000000000, 'y') = 'x'",
    "length(space(2000000000)) = 1",
    "size(sequence(1, 800000000)) = 1",
    "format('{:1000000000}', id) = 'x'",
    "printf('%1000000000d', id) = 'x'",
    "list_resize(array(id), 1000000000) is null",
]
NONSENSE = [
    "(" * DEEP + "id = 1" + ")" * DEEP,
    "not " * DEEP + "id = 1",
    '"id" = 1',
    "1 = 1 /* x",
    "map('a') = 1",
    "year() = 1",
    "cast(status as varchar(1)) = 'a'",
]


@pytest.mark.parametrize(
    "where", NOT_OF_A_ROW + OUTSIDE + GROWING + NONSENSE, ids=lambda text: text[:30]
)
def test_an_invalid_predicate_is_refused_before_rows_are_read(odps, where):
    request = CreateReadSession(table=odps.table("orders").name, filter_predicate=where)
    with pytest.raises(InvalidRequestError) as caught:
        odps._storage.call(request)
    assert caught.value.status == 400
    assert caught.value.request_id


def test_a_comment_in_a_predicate_hides_nothing(odps):
    scan = odps.table("orders").read(
        ["id"], partitions="ds=2024-01-01", where="id = 1000001 -- or true"
    )
    assert scan.to_arrow().num_rows == 1


QUERIES = [
    "select * from read_csv('/etc/passwd')",
    "select * from '/etc/passwd'",
    "select * from `/etc/passwd`",
    "select * from lateral read_text('/etc/passwd')",
    "select * from (with `/etc/hosts` as (select 1) select * from `/etc/hosts`) t, `/etc/hosts` u",
    "select getenv('HOME')",
    "select * from duckdb_settings()",
    "select * from information_schema.tables",
    "select current_setting('temp_directory')",
    "select system.main.current_setting('temp_directory')",
    "select * from orders where id in (select length(`Current_Setting`('home_directory')))",
    "with t as (select current_setting('secret_directory') s) select max(s) from t",
    "create table stolen as select current_setting('temp_directory') s",
    "select current_query()",
    "select getvariable('x')",
    "select * from pragma_database_size()",
    "select * from duckdb_temporary_files()",
    "select * from glob('/etc/*')",
    "select glob('/etc/*')",
    "select * from orders o join __table_0 p on 1 = 1",
    "create table stolen as select * from read_csv('/etc/passwd')",
    "copy orders to '/tmp/x'",
    "install httpfs",
    "attach '/tmp/x' as x",
    "pragma version",
    "set enable_external_access=true; select * from read_text('/etc/passwd')",
    "create table `../x` (a bigint)",
    "drop table `../../etc`",
    "select " + "(" * DEEP + "1" + ")" * DEEP,
]


@pytest.mark.gate(10)
@pytest.mark.parametrize("query", QUERIES, ids=lambda text: text[:40])
def test_sql_can_access_only_tables(odps, query):
    with pytest.raises((QueryError, InvalidRequestError, NotFoundError)) as caught:
        odps.sql(query)
    assert "internal" not in str(caught.value)
    assert "root:" not in str(caught.value)


def test_no_sql_function_shows_paths_of_the_service(tmp_path, monkeypatch):
    """Call each scalar function of DuckDB without arguments and with the names of settings."""
    import duckdb

    place = tmp_path / "secret-place"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(place))
    duck = Duck(spill=place / "spill")
    shown, tried = [], 0
    try:
        with duck.connection() as connection:
            settings = connection.execute("select name, value from duckdb_settings()").fetchall()
            names = connection.execute(
                "select distinct function_name from duckdb_functions() where function_type in"
                " ('scalar', 'macro') and regexp_full_match(function_name, '[a-z_0-9]+')"
            ).fetchall()
            telling = [n for n, value in settings if "secret-place" in str(value)]
            asked = [*telling, "HOME", "home_directory"]
            assert "temp_directory" in telling
            for (name,) in names:
                for argument in ("", *(f"'{one}'" for one in asked)):
                    tried += 1
                    with suppress(duckdb.Error):
                        found = connection.execute(f'select "{name}"({argument})').fetchone()
                        if "secret-place" in str(found):
                            shown.append(name)
    finally:
        duck.close()
    assert tried > 1000
    assert "current_setting" in shown
    assert [name for name in shown if not looks_outside(name)] == []


def test_the_engine_writes_no_file_and_its_settings_are_locked(tmp_path, monkeypatch):
    import duckdb

    monkeypatch.chdir(tmp_path)
    duck = Duck()
    try:
        for statement in (
            "SET enable_external_access=true",
            "RESET enable_external_access",
            f"COPY (SELECT 1) TO '{tmp_path}/x.csv'",
            f"ATTACH '{tmp_path}/x.db'",
            "INSTALL httpfs",
            "SELECT * FROM read_text('/etc/passwd')",
            "SELECT * FROM glob('/etc/*')",
        ):
            with duck.connection() as connection, pytest.raises(duckdb.Error):
                connection.execute(statement).fetchall()
    finally:
        duck.close()
    assert not list(tmp_path.iterdir())


BIG = "SELECT i, repeat('x', 100) AS s FROM range(1000000) t(i) ORDER BY md5(cast(i as string))"


def test_without_a_spill_folder_large_queries_fail(tmp_path, monkeypatch):
    import duckdb

    monkeypatch.chdir(tmp_path)
    duck = Duck(memory="40MB")
    try:
        with duck.connection() as connection, pytest.raises(duckdb.OutOfMemoryException):
            connection.sql(BIG).to_arrow_table()
    finally:
        duck.close()
    assert not list(tmp_path.iterdir())


def test_large_queries_spill_into_the_folder_and_delete_the_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spill = tmp_path / "it's here"
    duck = Duck(memory="80MB", spill=spill)
    try:
        with duck.connection() as connection:
            reader = connection.sql(BIG).to_arrow_reader(1000)
            assert reader.read_next_batch().num_rows
            assert list(tmp_path.iterdir()) == [spill]
            reader.close()
    finally:
        duck.close()
    assert not list(tmp_path.iterdir())
