"""Writes into primary-key tables, as clients of the real service send them. Raw requests.

Sources: aliyun/aliyun-odps-python-sdk, odps/maxstorage/tests/test_e2e_write.py (live tests);
aliyun/aliyun-odps-sdk-cpp, test/max_storage_api/table_write_test.cpp (live tests).
"""

from __future__ import annotations

import datetime
import time

import pyarrow as pa
import pytest

from odps_nb.errors import InvalidRequestError, ServiceError
from odps_nb.wire import control
from tests.support.arrow_bodies import ipc
from tests.support.service.peer import Peer

UPSERT, DELETE = 85, 68


@pytest.fixture
def name(peer: Peer) -> str:
    name = f"delta_{time.monotonic_ns()}"
    peer.sql(
        f"CREATE TABLE {name} (`key` BIGINT NOT NULL, value STRING, PRIMARY KEY (`key`))"
        " TBLPROPERTIES ('transactional'='true');"
    )
    return name


def rows(keys: list[int], values: list[str | None], operations: list[int | None]) -> pa.Table:
    return pa.table(
        {
            "key": pa.array(keys, pa.int64()),
            "value": pa.array(values, pa.string()),
            "__operation": pa.array(operations, pa.int8()),
        }
    )


def selected(peer: Peer, name: str) -> list[tuple[int, str | None]]:
    found = peer.query(f"SELECT * FROM {name} ORDER BY `key` LIMIT 1000;")
    assert found.column_names == ["key", "value"]
    return [(row["key"], row["value"]) for row in found.to_pylist()]


def test_a_stream_may_contain_upserts_and_deletes(peer: Peer, name: str) -> None:
    """evidence 110: 85 upserts, 68 deletes, the last row of a key wins (Python live tests)."""
    peer.write(name, rows([1, 2, 3, 1], ["a", "b", "c", "a2"], [UPSERT] * 4))
    assert selected(peer, name) == [(1, "a2"), (2, "b"), (3, "c")]
    peer.write(name, rows([1, 2, 2, 4], [None, None, "b2", "d"], [DELETE, DELETE, UPSERT, UPSERT]))
    assert selected(peer, name) == [(2, "b2"), (3, "c"), (4, "d")]
    peer.write(name, rows([3, 3, 9], ["c2", None, None], [UPSERT, DELETE, DELETE]))
    assert selected(peer, name) == [(2, "b2"), (4, "d")]


@pytest.mark.parametrize("operation", [1, 0, 7, -1, None])
def test_every_operation_value_except_delete_is_an_upsert(
    peer: Peer, name: str, operation: int | None
) -> None:
    """evidence 111: the C++ client writes 1 (TestUpsert)."""
    peer.write(name, rows([1], ["a"], [operation]))
    assert selected(peer, name) == [(1, "a")]


def test_one_body_may_contain_many_rows_of_few_keys(peer: Peer, name: str) -> None:
    """evidence 112: 1024 rows over 128 keys leave 128, each with its last value (TestUpsert)."""
    numbers = range(1024)
    body = rows([n % 128 for n in numbers], [str(n) for n in numbers], [1] * 1024)
    peer.write(name, body)
    assert selected(peer, name) == [(n, str(n + 896)) for n in range(128)]


def test_the_stream_schema_names_the_operation_and_the_key(peer: Peer, name: str) -> None:
    """evidence 114: `__operation` is a system and a data column; the key is marked.

    The Java SDK's record writer requires both. A comment in pyodps' `maxstorage/write` says that
    the service may return both.
    """
    session = peer.open_write(name)
    schema = peer.open_stream(name, session, "0").schema
    assert [column.name for column in schema.system_columns] == ["__operation"]
    assert schema.schema.names == ("key", "value", "__operation")
    assert schema.key_columns == ("key",)


def test_the_extended_document_of_the_table_names_its_key(peer: Peer, name: str) -> None:
    """Clients find the key in `Reserved` (odps/models/table.py of pyodps, Table.java)."""
    request = control.GetTable(table=peer.table(name), extended=True)
    response = peer.ok(request.encode())
    assert request.decode_answer(response.content, dict(response.headers)).primary_key == ("key",)
    plain = control.GetTable(table=peer.table(name))
    response = peer.ok(plain.encode())
    assert plain.decode_answer(response.content, dict(response.headers)).primary_key == ()


def test_a_delete_needs_only_key_columns(peer: Peer) -> None:
    """No live test shows whether NOT NULL columns may be null in a delete."""
    name = f"delta_{time.monotonic_ns()}"
    peer.sql(f"CREATE TABLE {name} (`key` BIGINT PRIMARY KEY NOT NULL, value STRING NOT NULL);")
    peer.write(name, rows([1, 2], ["a", "b"], [UPSERT, UPSERT]))
    peer.write(name, rows([1], [None], [DELETE]))
    assert selected(peer, name) == [(2, "b")]
    with pytest.raises(InvalidRequestError, match="null value into not-null column 'value'"):
        peer.write(name, rows([3], [None], [UPSERT]))


def key_of(*columns: str) -> bytes:
    return ipc(pa.table({name: [1] for name in columns}))


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (key_of("key"), None),
        (None, "frame 0 needs a DistributionKey with one row of key"),
        (b"a key", "is not an Arrow stream"),
        (key_of("other"), "needs a DistributionKey"),
        (key_of("key", "b"), "needs a DistributionKey"),
    ],
    ids=["key", "none", "no stream", "other column", "more columns"],
)
def test_blob_frames_carry_the_key_of_their_row(
    peer: Peer, key: bytes | None, problem: str | None
) -> None:
    """evidence 206: uploads to primary-key tables without `DistributionKey` are not supported."""
    from odps_nb.wire.frames import FrameHeader

    name = f"delta_{time.monotonic_ns()}"
    peer.sql(
        f"CREATE TABLE {name} (`key` BIGINT PRIMARY KEY NOT NULL, b BLOB)"
        " TBLPROPERTIES ('table.format.version'='2', 'transactional'='true');",
        {"odps.sql.type.system.odps2": "true", "odps.table.append2.enable": "true"},
    )
    session = peer.open_write(name)
    stream = peer.open_stream(name, session, "0")
    column = stream.schema.column_ids["b"]
    header = FrameHeader(partition_values=(), column_index=column, distribution_key=key)
    if problem is not None:
        with pytest.raises(InvalidRequestError, match=problem):
            peer.put_blobs(name, session, "0", [(b"bytes", header)])
        return
    (reference,) = peer.put_blobs(name, session, "0", [(b"bytes", header)]).references
    peer.put(
        name,
        session,
        "0",
        pa.table({"key": [1], "b": [reference.raw], "__operation": pa.array([85], pa.int8())}),
    )
    peer.close_stream(name, session, "0")
    peer.commit(name, session)
    assert peer.query(f"SELECT `key` FROM {name};").column("key").to_pylist() == [1]


# -- SQL ------------------------------------------------------------------------------------------


def test_sql_updates_by_expressions_and_conditions(peer: Peer, name: str) -> None:
    peer.write(name, rows([1, 2, 3], ["a", "b,c", None], [UPSERT] * 3))
    peer.sql(
        f"UPDATE {name} AS t SET value = concat(t.value, '; where ', cast(`key` AS STRING))"
        " WHERE t.`key` IN (1, 2);".replace(" AS t", " t", 1)
    )
    assert selected(peer, name) == [(1, "a; where 1"), (2, "b,c; where 2"), (3, None)]
    peer.sql(f"UPDATE {name} SET value = 'all';")
    assert selected(peer, name) == [(1, "all"), (2, "all"), (3, "all")]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE {0} SET `key` = 2", "is a key column"),
        ("UPDATE {0} SET nope = 2", "no column 'nope'"),
        ("UPDATE {0} SET value = ", "expression"),
        ("UPDATE {0} SET value = 'a', value = 'b'", "two assignments"),
        ("DELETE FROM {0} WHERE", "condition"),
        ("DELETE {0}", "expected FROM"),
        ("UPDATE plain SET a = 2", "not transactional"),
        ("DELETE FROM plain", "not transactional"),
    ],
)
def test_unsupported_update_statements_are_refused(
    peer: Peer, name: str, statement: str, reason: str
) -> None:
    peer.sql("CREATE TABLE IF NOT EXISTS plain (a BIGINT);")
    with pytest.raises(ServiceError, match=reason):
        peer.sql(statement.format(name) + ";")


def test_an_update_may_name_a_table_with_its_schema(peer: Peer) -> None:
    """A name with its project and schema is the same table."""
    name = f"delta_{time.monotonic_ns()}"
    peer.sql(f"CREATE TABLE {name} (`key` BIGINT PRIMARY KEY NOT NULL, value STRING);")
    peer.sql(f"INSERT INTO {name} VALUES (1, 'a');")
    peer.sql(f"UPDATE {peer.service.project}.{name} SET value = 'b' WHERE `key` = 1;")
    assert selected(peer, name) == [(1, "b")]


# -- time travel: evidence 203 and 204, page *Time travel queries and incremental queries* --------


@pytest.fixture
def versioned(peer: Peer) -> str:
    """A table with versions 1 (empty) to 4: insert 1, replace it, delete it."""
    name = f"travelled_{time.monotonic_ns()}"
    peer.sql(
        f"CREATE TABLE {name} (`key` BIGINT PRIMARY KEY NOT NULL, value STRING)"
        " TBLPROPERTIES ('transactional'='true', 'acid.data.retain.hours'='24');"
    )
    peer.sql(f"INSERT INTO {name} VALUES (1, 'a');")
    peer.sql(f"UPDATE {name} SET value = 'b' WHERE `key` = 1;")
    peer.sql(f"DELETE FROM {name} WHERE `key` = 1;")
    return name


def values(peer: Peer, query: str) -> list[str]:
    return peer.query(query + " ORDER BY value LIMIT 9;").column("value").to_pylist()


def test_a_query_reads_a_table_as_of_a_version_or_time(peer: Peer, versioned: str) -> None:
    """evidence 203: VERSION AS OF and TIMESTAMP AS OF, alone, joined and with conditions."""
    found = [values(peer, f"SELECT value FROM {versioned} VERSION AS OF {v}") for v in (1, 2, 3, 4)]
    assert found == [[], ["a"], ["b"], []]
    joined = (
        f"SELECT n.value FROM {versioned} VERSION AS OF 2 o JOIN"
        f" (SELECT * FROM {versioned} VERSION AS OF 3 WHERE `key` > 0) n ON o.`key` = n.`key`"
    )
    assert values(peer, joined) == ["b"]
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    peer.sql(f"INSERT INTO {versioned} SELECT `key`, 'back' FROM {versioned} VERSION AS OF 3;")
    for moment, expected in ((f"'{now}'", []), ("'2100-01-01'", ["back"]), ("'2001-01-01'", [])):
        assert values(peer, f"SELECT value FROM {versioned} TIMESTAMP AS OF {moment}") == expected


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SELECT * FROM {0} VERSION AS OF 5", "has versions 0 to 4, not 5"),
        ("SELECT * FROM {0} TIMESTAMP AS OF 'soon'", "'soon' is not a time"),
        ("SELECT * FROM plain VERSION AS OF 0", "keeps no history"),
        ("SELECT * FROM {0} VERSION BETWEEN 1 AND 2", "not support VERSION BETWEEN"),
        ("SELECT 1 FROM\n{0} TIMESTAMP BETWEEN '1' AND '2'", r"\[2,\d+\].* TIMESTAMP BETWEEN"),
        ("SELECT * FROM {0} VERSION AS OF get_latest_version('{0}')", "get_latest_version; MaxC"),
        ("SELECT get_latest_version('{0}')", "get_latest_version; MaxCompute does"),
        ("SELECT get_latest_timestamp('{0}')", "get_latest_timestamp; MaxCompute does"),
        ("SHOW HISTORY FOR TABLE {0}", "SHOW HISTORY FOR; MaxCompute does"),
        ("RESTORE TABLE {0} TO LSN '2'", "RESTORE TABLE; MaxCompute does"),
    ],
)
def test_unsupported_time_travel_is_refused_by_name(
    peer: Peer, versioned: str, statement: str, reason: str
) -> None:
    """evidence 203, 204: history is kept only with `acid.data.retain.hours`."""
    peer.sql("CREATE TABLE IF NOT EXISTS plain (a BIGINT);")
    with pytest.raises(ServiceError, match=reason):
        peer.sql(statement.format(versioned) + ";")
