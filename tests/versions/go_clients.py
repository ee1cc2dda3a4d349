"""The vendor's Go SDK against the embedded service: ``odps``, ``odps/tunnel`` and ``sqldriver``.

Go builds the program of ``tests/clients/go``, which takes jobs as JSON lines. Most jobs call
methods of the SDK by name, so that `CALLS` can list them as data. Rows that Go writes are read by
odps_nb, and the other way round.

Run by ``make versions NAMES=go``, not by ``make test``: it needs Go and its module proxy.
"""

from __future__ import annotations

import base64
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import odps_nb
from odps_nb.local.server.launch import LocalService, start
from tests.versions.every_type import (
    JSON,
    KNOWN,
    as_rows,
    declared,
    expect_read,
    expect_written,
    rows_of,
    unpadded,
)
from tests.versions.results import record
from tests.versions.worker import Worker, connected

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT = ROOT / "tests" / "clients" / "go"
BUILD = ROOT / "build" / "go"
SDK = "github.com/aliyun/aliyun-odps-go-sdk"

# The SDK counts bytes in CHAR and VARCHAR, and cannot describe a MAP in Arrow.
RECORDS = KNOWN | {"char(4)": ["abcd", "ab", ""]}
ARROW = {kind: values for kind, values in RECORDS.items() if "map<" not in kind}


@pytest.fixture(scope="module")
def program() -> str:
    """The compiled program; skipped where the module proxy does not provide the SDK."""
    BUILD.mkdir(parents=True, exist_ok=True)
    go: dict[str, Any] = {"cwd": PROJECT, "text": True, "capture_output": True}
    fetched = subprocess.run(["go", "mod", "download", SDK], **go)
    if fetched.returncode:
        pytest.skip(f"the SDK could not be fetched: {fetched.stderr.strip()[-400:]}")
    built = subprocess.run(["go", "build", "-o", BUILD / "client", "."], **go)
    assert built.returncode == 0, built.stderr
    return str(BUILD / "client")


def running(program: str, service: LocalService) -> Iterator[Worker]:
    client = Worker([program], BUILD / f"{service.tunnel_endpoint.rpartition(':')[2]}.log", service)
    yield client
    client.close()


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with start(samples=False) as found:
        yield found


@pytest.fixture(scope="module")
def odps(service: LocalService) -> Iterator[odps_nb.Connection]:
    with connected(service) as found:
        yield found


@pytest.fixture(scope="module")
def go(program: str, service: LocalService) -> Iterator[Worker]:
    yield from running(program, service)


@pytest.fixture(scope="module")
def with_schemas() -> Iterator[LocalService]:
    with start(samples=False, options=("--schemas",)) as found:
        yield found


@pytest.fixture(scope="module")
def go_schemas(program: str, with_schemas: LocalService) -> Iterator[Worker]:
    yield from running(program, with_schemas)


@pytest.fixture
def name() -> str:
    return f"g{time.time_ns()}"


RAN = """\
Jobs of our own (`tests/clients/go`), built by Go: projects, schemas, tables, views, partitions and
instances; SQL with its result as text, over the tunnel and by `database/sql`; tunnel rows as
records, as Arrow and by stream uploads, with compression. Rows have every type in both directions.
"""
#: Methods that the SDK cannot run, and methods without a job, with reasons.
NOT_TESTED = {
    "CHAR and VARCHAR with more bytes than their length": "the SDK counts bytes, not characters",
    "MAP in Arrow": "the SDK has no Arrow type for it",
    "`Preview` of nested cells": "the SDK reads wrong elements, and fails on their nulls",
    "several positional arguments of `database/sql`": "the SDK keeps only one of them",
    "Snappy, resources, functions, MaxQA": "no test job covers them yet",
}


@pytest.fixture(scope="module", autouse=True)
def page(outcomes: Counter[str]) -> Iterator[None]:
    """Write the results to ``docs/results/clients.md``, if the SDK could be fetched."""
    yield
    if not outcomes.total():
        return
    (version,) = re.findall(rf"{SDK} (\S+)", (PROJECT / "go.mod").read_text("utf-8"))
    left_out = [
        {"what": ", ".join(f"`{named(one)}`" for one in calls), "reason": reason}
        for reason, _, calls in LEFT_OUT
    ]
    left_out += [{"what": what, "reason": reason} for what, reason in NOT_TESTED.items()]
    passed = outcomes["passed"] - sum(len(calls) for *_, calls in LEFT_OUT)
    record("Go SDK of the vendor", version, RAN, passed, left_out, failed=outcomes["failed"])


# -- rows ---------------------------------------------------------------------------------------


def write_arrow(go: Worker, name: str, rows: pa.Table, **how: Any) -> None:
    """Let Go write `rows` as Arrow, in the types that the SDK gives a table."""
    described = base64.b64decode(go("schema", table=name, **how))
    schema = pa.ipc.open_stream(described).schema
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        cast = rows.select(schema.names).cast(pa.schema(map(nullable_field, schema)))
        for batch in cast.to_batches():  # the SDK describes members of structs as not null
            _, data = batch.__arrow_c_array__()
            described = schema.__arrow_c_schema__()
            stream.write(pa.RecordBatch._import_from_c_capsule(described, data))
    stream = base64.b64encode(sink.getvalue()).decode()
    go("write", table=name, way="arrow", arrow=stream, **how)


def nullable_field(field: pa.Field) -> pa.Field:
    if pa.types.is_struct(field.type):
        return pa.field(field.name, pa.struct(map(nullable_field, field.type)))
    if pa.types.is_list(field.type):
        return pa.field(field.name, pa.list_(nullable_field(field.type.value_field)))
    return field.with_nullable(True)


def read_arrow(go: Worker, name: str, **how: Any) -> pa.Table:
    stream = base64.b64decode(go("read", table=name, way="arrow", **how))
    return pa.ipc.open_stream(stream).read_all()


@pytest.mark.parametrize("way", ["records", "stream"])
def test_odps_nb_reads_records_written_by_go(
    go: Worker, odps: odps_nb.Connection, name: str, way: str
) -> None:
    expect_written(go, odps, name, RECORDS, way=way)


def test_go_reads_rows_written_by_odps_nb(go: Worker, odps: odps_nb.Connection, name: str) -> None:
    expect_read(go, odps, name, RECORDS, way="records")


def test_arrow_is_written_and_read(go: Worker, odps: odps_nb.Connection, name: str) -> None:
    odps.create_table(name, declared(ARROW))
    rows = rows_of(odps, name, ARROW)
    write_arrow(go, name, rows)
    read = odps.table(name).read().to_arrow(progress=False)
    assert unpadded(as_rows(read)) == unpadded(as_rows(rows))
    assert unpadded(as_rows(read_arrow(go, name))) == unpadded(as_rows(rows))


@pytest.mark.parametrize("way", ["records", "arrow"])
def test_json_is_written_and_read(
    go: Worker, odps: odps_nb.Connection, name: str, way: str
) -> None:
    rows = [[n, one] for n, one in enumerate((*JSON["json"], None))]
    odps.create_table(name, declared(JSON))
    if way == "arrow":
        write_arrow(go, name, pa.table([*zip(*rows, strict=True)], ["id", "c0"]))
        assert as_rows(read_arrow(go, name)) == rows
    else:
        go("write", table=name, rows=rows)
        assert go("read", table=name) == rows
    query = odps.sql(f"select * from {name}", progress=False)
    assert as_rows(query.to_arrow(progress=False)) == rows


MANY = [[n, f"row {n} " * 5] for n in range(20_000)]


@pytest.mark.parametrize("compression", ["", "deflate", "zstd"])
@pytest.mark.parametrize("way", ["records", "arrow", "stream"])
def test_rows_are_written_in_blocks(
    go: Worker, odps: odps_nb.Connection, name: str, way: str, compression: str
) -> None:
    table = odps.create_table(name, "id bigint, v string")
    how = {"batch": 7000, "compression": compression}
    if way == "arrow":
        write_arrow(go, name, pa.table([*zip(*MANY, strict=True)], ["id", "v"]), **how)
        assert as_rows(read_arrow(go, name, **how)) == MANY
    else:
        go("write", table=name, way=way, rows=MANY, **how)
        assert sorted(go("read", table=name, **how)) == MANY
    assert as_rows(table.read().to_arrow(progress=False)) == MANY


@pytest.mark.parametrize("way", ["records", "stream"])
def test_rows_of_one_partition_are_written_and_read(
    go: Worker, odps: odps_nb.Connection, name: str, way: str
) -> None:
    odps.create_table(name, "id bigint, v string", partitioned_by="ds string, h bigint")
    how = {"table": name, "partition": "ds='a',h=1"}
    go("write", way=way, rows=[[1, "x"]], create=True, **how)
    assert as_rows(odps.table(name).read().to_arrow(progress=False)) == [[1, "x", "a", 1]]
    assert go("read", **how) == [[1, "x"]]
    assert go("read", columns=["v"], **how) == [["x"]]
    assert go("read", way="preview", table=name, partition="ds=a/h=1") == [[1, "x", "a", 1]]
    if way == "records":
        go("write", rows=[[2, "y"]], overwrite=True, **how)
        assert go("read", **how) == [[2, "y"]]


def test_the_sdk_previews_records(go: Worker, odps: odps_nb.Connection, name: str) -> None:
    """The SDK reads wrong elements of nested cells, and fails on their nulls."""
    types = {kind: values for kind, values in RECORDS.items() if "<" not in kind}
    expect_read(go, odps, name, types, way="preview")


@pytest.mark.parametrize("way", ["", "stream"])
def test_tables_in_a_schema_are_written_and_read(
    go_schemas: Worker, with_schemas: LocalService, name: str, way: str
) -> None:
    with connected(with_schemas) as odps:
        odps.sql(f"create schema s{name}", progress=False)
    where = {"table": name, "schema": f"s{name}"}
    described = {"tableName": name, "columns": [nullable("id", "bigint"), nullable("v", "string")]}
    go_schemas("call", calls=[["Tables"], ["Create", described, False, None, None]], **where)
    go_schemas("write", rows=[[1, "x"]], way=way, **where)
    for how in ("", "preview"):
        assert go_schemas("read", way=how, **where) == [[1, "x"]]
    with connected(with_schemas, schema=f"s{name}") as odps:
        assert as_rows(odps.table(name).read().to_arrow(progress=False)) == [[1, "x"]]


# -- SQL ----------------------------------------------------------------------------------------


def test_results_of_queries_have_every_type(
    go: Worker, odps: odps_nb.Connection, name: str
) -> None:
    odps.create_table(name, declared(RECORDS))
    rows = rows_of(odps, name, RECORDS)
    odps.table(name).write(rows, progress=False)
    query = f"select * from {name};"
    assert unpadded(go("sql", query=query, way="tunnel")) == unpadded(as_rows(rows))
    assert unpadded(go("driver", query=query)["rows"]) == unpadded(as_rows(rows))


RESULTS = {
    "select 1 as a, 'x,\"y' as b, cast(null as string) c;": [["a", "b", "c"], ["1", 'x,"y', "\\N"]],
    "select 1 as a from (select 1) t where 1 = 2;": [["a"]],
}


@pytest.mark.parametrize("query", RESULTS)
def test_results_are_returned_as_text(go: Worker, query: str) -> None:
    assert go("sql", query=query, way="csv") == RESULTS[query]


def test_go_receives_an_error_of_sql(go: Worker) -> None:
    for job in ("sql", "driver"):
        with pytest.raises(AssertionError, match="column nope cannot be resolved"):
            go(job, query="select nope from (select 1 as a) t;")


def test_the_database_sql_driver_reads_and_writes_values(go: Worker, name: str) -> None:
    """The driver inserts the text of an argument into the statement, without quotes."""
    go("driver", way="exec", query=f"create table {name} (k bigint, d decimal(10,2), t datetime);")
    insert = f"insert into {name} values (?, 1.5BD, datetime'2024-02-29 01:02:03');"
    go("driver", way="exec", query=insert, args=[1])
    with pytest.raises(AssertionError, match="2th arg is not set"):  # a bug in the SDK
        go("driver", query="select ?, ?;", args=[1, 2])
    found = go("driver", query=f"select *, array(k) a from {name} where k = ?;", args=[1])
    assert found["types"] == ["BIGINT", "DECIMAL(10,2)", "DATETIME", "ARRAY<BIGINT>"]
    assert found["rows"] == [[1, "1.5", "2024-02-29 01:02:03.000000000", [1]]]
    assert go("driver", query=f"select k from {name} where k > 5;")["rows"] == []


# -- projects, schemas, tables, partitions, instances ---------------------------------------------


def nullable(name: str, kind: str, comment: str = "") -> dict[str, Any]:
    return {"name": name, "type": kind, "comment": comment, "isNullable": True}


MADE = {
    "tableName": "made",
    "comment": "it's",
    "columns": [
        {"name": "a", "type": "bigint", "comment": "key", "isNullable": False},
        nullable("b", "array<struct<x:decimal(10,2)>>"),
    ],
    "partitionKeys": [nullable("ds", "string"), nullable("h", "bigint")],
    "lifecycle": 7,
}
COLUMNS = [
    ["a", "BIGINT", "key", False],
    ["b", "ARRAY<STRUCT<`x`:DECIMAL(10,2)>>", "", True],
    ["ds", "STRING", "", True],
    ["h", "BIGINT", "", True],
]
PROJECT_CALLS = [["DefaultProject"], ["Load"]]
TABLE, VIEW = ["Table", "made"], ["Table", "seen"]
PARTITION = [TABLE, ["GetPartition", "ds=a/h=1"]]
LOADED = {"Comment": "new", "LifeCycle": 9, "Type": "MANAGED_TABLE", "PrimaryKeys": []}
ADDED = [COLUMNS[0], COLUMNS[1], ["n", "STRING", "q", True], *COLUMNS[2:]]
SEEN = {"tableName": "seen", "isVirtualView": True, "viewText": "select 1 as a"}
KEYED = {
    "tableName": "keyed",
    "columns": [{"name": "k", "type": "bigint", "isNullable": False}, nullable("v", "string")],
    "primaryKeys": ["k"],
}
#: Calls in this order, each with the result, or with the members of it that are listed.
CALLS: list[tuple[list[Any], Any]] = [
    (PROJECT_CALLS, {"Name": "local", "Status": "AVAILABLE", "Existed": True}),
    ([["Projects"], ["List"]], ["local"]),
    ([["Projects"], ["List", ["Projects.NamePrefix", "x"]]], []),
    ([["Projects"], ["Exists", "local"]], True),
    ([["Tables"], ["Create", MADE, False, None, None]], ...),
    ([["Tables"], ["CreateView", SEEN, True, False, False]], ...),
    ([["Tables"], ["Create", KEYED, True, None, None]], ...),
    ([TABLE, ["Exists"]], True),
    ([["Table", "none"], ["Exists"]], False),
    ([TABLE, ["Load"]], {"Schema": COLUMNS, "Comment": "it's", "LifeCycle": 7}),
    ([VIEW, ["Load"]], {"Type": "VIRTUAL_VIEW", "ViewText": "select 1 as a"}),
    ([["Table", "keyed"], ["LoadExtendedInfo"]], {"PrimaryKeys": ["k"]}),
    ([["Tables"], ["List", []]], ["keyed", "made", "seen"]),
    ([["Tables"], ["List", [], ["Tables.NamePrefix", "m"]]], ["made"]),
    ([["Tables"], ["List", [], ["Tables.Type", "VIRTUAL_VIEW"]]], ["seen"]),
    ([["Tables"], ["List", [], ["Tables.Owner", "nobody"]]], []),
    ([["Tables"], ["BatchLoadTables", ["seen", "made"]]], ["seen", "made"]),
    ([TABLE, ["AddPartition", True, "ds=a/h=1"]], ...),
    ([TABLE, ["AddPartitions", True, ["ds=a/h=1", "ds=b/h=2"]]], ...),
    ([TABLE, ["GetPartitionValues"]], ["ds=a/h=1", "ds=b/h=2"]),
    ([TABLE, ["GetPartitions"]], ["ds=a/h=1", "ds=b/h=2"]),
    ([*PARTITION, ["Load"]], {"Name": "ds=a/h=1", "RecordNum": 0, "Size": 0}),
    ([*PARTITION, ["LoadExtended"]], {"IsArchivedEx": False, "LifeCycleEx": 7}),
    ([TABLE, ["DeletePartition", False, "ds=a/h=1"]], ...),
    ([TABLE, ["DeletePartitions", True, ["ds=a/h=1", "ds=b/h=2"]]], ...),
    ([TABLE, ["GetPartitions"]], []),
    ([TABLE, ["SetLifeCycle", 9]], ...),
    ([TABLE, ["ChangeComment", "new"]], ...),
    ([TABLE, ["Touch"]], ...),
    ([TABLE, ["AddColumns", [nullable("n", "string", "q")], True]], ...),
    ([TABLE, ["Load"]], LOADED | {"Schema": ADDED}),
    ([["Table", "keyed"], ["ChangeColumnName", "v", "w"]], ...),
    ([["Table", "keyed"], ["DropColumns", ["w"]]], ...),
    ([TABLE, ["Rename", "renamed"]], ...),
    ([["Table", "renamed"], ["Truncate"]], ...),
    ([["Table", "renamed"], ["Delete"]], ...),
    ([["Table", "renamed"], ["Exists"]], False),
    ([["Instances"], ["List", [], ["Instances.Status", "Running"]]], []),
    ([["DefaultProject"], ["SecurityManager"], ["RunQuery", "whoami", True, ""]], ...),
    ([["DefaultProject"], ["SecurityManager"], ["GenerateAuthorizationToken", "{}"]], ...),
    ([["DefaultProject"], ["SecurityManager"], ["ListUsers"]], ...),
    ([["DefaultProject"], ["SecurityManager"], ["ListRoles"]], ...),
    ([["Tenant"], ["Load"]], {"GetName": "local"}),
]


SCHEMA_CALLS: list[tuple[list[Any], Any]] = [
    ([["Schemas"], ["Create", "s1", False, "a <comment>"]], ...),
    ([["Schemas"], ["Create", "s1", True, ""]], ...),
    ([["Schemas"], ["ListWithFilter", [], ["Schemas.NamePrefix", "s1"]]], ["s1"]),
    ([["Schema", "s1"], ["Exists"]], True),
    ([["Schema", "none"], ["Exists"]], False),
    (
        [["Schema", "s1"], ["Load"]],
        {"Name": "s1", "ProjectName": "local", "Comment": "a <comment>", "Type": "MANAGED"},
    ),
    ([["Schemas"], ["Delete", "s1"]], ...),
    ([["Schema", "s1"], ["Exists"]], False),
]
OF_INSTANCES: list[tuple[list[Any], Any]] = [
    ([["Load"]], {"Status": "Terminated"}),
    ([["GetTasks"]], ...),
    ([["GetTaskProgress", "AnonymousSQLTask"]], ...),
    ([["GetTaskSummary", "AnonymousSQLTask"]], ...),
    ([["GetResult"]], ...),
    ([["GetTaskDetail", "AnonymousSQLTask"]], ...),
    ([["GetTaskQuotaJson", "AnonymousSQLTask"]], ...),
    ([["GetCachedInfo"]], ...),
]
SECURITY = [["DefaultProject"], ["SecurityManager"]]
EXTERNAL = {
    "tableName": "x",
    "columns": [nullable("a", "bigint")],
    "storageHandler": "csv",
    "location": "l",
}
NO_DDL = "the embedded service does not support"
NO_RESOURCE = "there is no resource at"
#: Calls that cannot pass, with the reason and the error.
LEFT_OUT: list[tuple[str, str, list[Any]]] = [
    (
        "the embedded SQL has no such statement",
        NO_DDL,
        [
            [["Table", "keyed"], ["AlterColumnType", "k", "binary"]],
            [["Table", "keyed"], ["ChangeOwner", "x"]],
            [["Tables"], ["CreateExternal", EXTERNAL, True, {}, [], {}, {}]],
        ],
    ),
    (
        "the embedded service cannot change properties of projects, and has no queue",
        NO_RESOURCE,
        [
            [["DefaultProject"], ["Update", {"odps.sql.timezone": "UTC"}]],
            [["Instances"], ["ListInstancesQueued"]],
        ],
    ),
    (
        "the embedded service has no roles and policies",
        NO_RESOURCE,
        [
            [*SECURITY, ["GetSecurityConfig", True]],
            [*SECURITY, ["GetPolicy"]],
            [*SECURITY, ["GetSecurityPolicy"]],
            [*SECURITY, ["GetRolePolicy", "admin"]],
            [*SECURITY, ["ListUsersForRole", "admin"]],
            [*SECURITY, ["CheckPermissionV0", 1, "keyed", 1, []]],
        ],
    ),
    (
        "for a missing project, the SDK returns the error 404 in place of false",
        "404 Not Found",
        [[["Projects"], ["Exists", "none"]]],
    ),
    (
        "the SDK writes ADDPARTITION without a space, if the partition may not exist",
        "ADDPARTITION",
        [[["Table", "keyed"], ["AddPartition", False, "a=b"]]],
    ),
]


def named(step: Any) -> str | None:
    """Return the methods that a case calls, as its id."""
    if isinstance(step, list) and step and isinstance(step[0], list):
        return ".".join(str(one[0]) for one in step[-2:])
    return "-"


@pytest.fixture(scope="module")
def caller(program: str) -> Iterator[Worker]:
    """A client of a service that only `CALLS` uses."""
    with start(samples=False) as service:
        yield from running(program, service)


def expect(client: Worker, calls: list[Any], wanted: Any) -> None:
    get = list(wanted) if isinstance(wanted, dict) else None
    found = client("call", calls=calls, get=get)
    assert wanted in (..., found)


@pytest.mark.parametrize(("calls", "wanted"), CALLS, ids=named)
def test_the_client_makes_each_listed_call(caller: Worker, calls: list[Any], wanted: Any) -> None:
    """Each case needs those before it."""
    expect(caller, calls, wanted)


@pytest.mark.parametrize(("calls", "wanted"), SCHEMA_CALLS, ids=named)
def test_the_client_can_make_each_listed_call_about_schemas(
    go_schemas: Worker, calls: list[Any], wanted: Any
) -> None:
    """Each case needs those before it."""
    expect(go_schemas, calls, wanted)


@pytest.mark.parametrize(("calls", "wanted"), OF_INSTANCES, ids=named)
def test_the_client_can_make_each_listed_call_about_instances(
    go: Worker, calls: list[Any], wanted: Any
) -> None:
    instance = go("sql", query="select 1 as a;")
    expect(go, [["Instance", instance], *calls], wanted)


@pytest.mark.parametrize(
    ("calls", "error"), [(one, error) for _, error, calls in LEFT_OUT for one in calls], ids=named
)
def test_omitted_methods_fail_as_listed(caller: Worker, calls: list[Any], error: str) -> None:
    with pytest.raises(AssertionError, match=error):
        caller("call", calls=calls)
