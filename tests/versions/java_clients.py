"""The vendor's Java clients against the embedded service: SDK, Storage API v2 and v1, JDBC.

Maven builds the jobs of ``tests/clients/java`` with one class path for each client. Each runs as a
process that takes jobs as JSON lines. Rows and blobs that Java writes are read by odps_nb, and the
other way round. ``java_left_out.toml`` lists what is not tested.

Run by ``make versions NAMES=java``, not by ``make test``: it needs Maven and its repository.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import odps_nb
from odps_nb.local.server.launch import LocalService
from tests.support.clients.recording import start
from tests.versions.every_type import (
    JSON,
    KNOWN,
    as_rows,
    columns,
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
PROJECT = ROOT / "tests" / "clients" / "java"
BUILD = ROOT / "build" / "java"
ARROW = "--add-opens=java.base/java.nio=ALL-UNNAMED"  # for Arrow with Java 17


def launch(main: str, service: LocalService) -> Worker:
    """Start one client, which `build` compiled."""
    place = BUILD / main
    classes = f"{place / 'classes'}{os.pathsep}{(place / 'classpath.txt').read_text()}"
    return Worker(["java", ARROW, "-cp", classes, f"clients.{main}"], place / "log", service)


def build(main: str) -> None:
    """Compile the jobs of one client and write its class path."""
    options = (f"-P{main}", f"-Dmain={main}", f"-Djava.build={BUILD / main}")
    command = ("mvn", "-q", "-B", "-f", str(PROJECT / "pom.xml"), *options, "compile")
    subprocess.run(command, check=True)


@pytest.fixture(scope="module", autouse=True)
def page(outcomes: Counter[str]) -> Iterator[None]:
    """Write the results to ``docs/results/clients.md``."""
    yield
    named = r"<artifactId>(odps-.+)</artifactId>\s*<version>(.+)</version>"
    versions = dict(re.findall(named, (PROJECT / "pom.xml").read_text("utf-8")))
    told = tomllib.loads(Path(__file__).with_name("java_left_out.toml").read_text("utf-8"))
    ran = [told["ran"], *(f"* `{name}`: {told['clients'][name]}" for name in versions)]
    record(
        "Java clients of the vendor",
        ", ".join(f"`{name}` {version}" for name, version in versions.items()),
        "\n".join(ran),
        outcomes["passed"],
        told["left_out"],
        failed=outcomes["failed"],
    )


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with start(samples=False) as found:
        yield found


@pytest.fixture(scope="module")
def odps(service: LocalService) -> Iterator[odps_nb.Connection]:
    with connected(service) as found:
        yield found


def running(main: str, service: LocalService) -> Iterator[Worker]:
    build(main)
    client = launch(main, service)
    yield client
    client.close()


@pytest.fixture(scope="module")
def sdk(service: LocalService) -> Iterator[Worker]:
    yield from running("Sdk", service)


@pytest.fixture(scope="module")
def v1(service: LocalService) -> Iterator[Worker]:
    yield from running("StorageV1", service)


@pytest.fixture(scope="module")
def old_service() -> Iterator[LocalService]:
    """A service for JDBC, whose core cannot list tables with a BLOB or TIMESTAMP_NTZ column."""
    with start(samples=False) as found:
        yield found


@pytest.fixture(scope="module")
def plain(old_service: LocalService) -> Iterator[odps_nb.Connection]:
    with connected(old_service) as found:
        yield found


@pytest.fixture(scope="module")
def jdbc(old_service: LocalService) -> Iterator[Worker]:
    yield from running("Jdbc", old_service)


@pytest.fixture
def name() -> str:
    return f"j{time.time_ns()}"


# -- rows of every type -------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["records", "arrow", "stream", "v2", "v2-streaming"])
def test_odps_nb_reads_rows_written_by_the_sdk(
    sdk: Worker, odps: odps_nb.Connection, name: str, way: str
) -> None:
    expect_written(sdk, odps, name, KNOWN, way=way)


@pytest.mark.parametrize("way", ["records", "arrow", "preview", "v2", "v2-rows", "v2-preview"])
def test_the_sdk_reads_rows_written_by_odps_nb(
    sdk: Worker, odps: odps_nb.Connection, name: str, way: str
) -> None:
    expect_read(sdk, odps, name, KNOWN, way=way)


def test_odps_nb_reads_rows_of_storage_v1(v1: Worker, odps: odps_nb.Connection, name: str) -> None:
    expect_written(v1, odps, name, KNOWN)


@pytest.mark.parametrize("compression", [None, "ZSTD", "LZ4_FRAME"])
@pytest.mark.parametrize("way", ["size", "rows"])
def test_storage_v1_reads_rows_of_odps_nb(
    v1: Worker, odps: odps_nb.Connection, name: str, way: str, compression: str | None
) -> None:
    expect_read(v1, odps, name, KNOWN, way=way, compression=compression)


def test_storage_v1_writes_and_reads_one_partition(
    v1: Worker, odps: odps_nb.Connection, name: str
) -> None:
    odps.create_table(name, "id bigint, v string", partitioned_by="ds string")
    for rows in ([[1, "x"]], [[2, "y"]]):
        v1("write", table=name, partition="ds=a", rows=rows, overwrite=True)
    v1("write", table=name, rows=[[3, "z", "b"]])
    assert v1("read", table=name, partition="ds=a") == [[2, "y", "a"]]
    assert as_rows(odps.table(name).read().to_arrow(progress=False)) == [
        [2, "y", "a"],
        [3, "z", "b"],
    ]


@pytest.mark.parametrize("way", ["records", "arrow"])
def test_json_is_written_and_read_over_the_tunnel(
    sdk: Worker, odps: odps_nb.Connection, name: str, way: str
) -> None:
    rows = [[n, one] for n, one in enumerate((*JSON["json"], None))]
    odps.create_table(name, declared(JSON))
    sdk("write", table=name, rows=rows, way=way)
    read = odps.sql(f"select * from {name}", progress=False).to_arrow(progress=False)
    assert as_rows(read) == rows
    assert unpadded(sdk("read", table=name, way=way)) == rows


CODINGS = {
    "records": ("ODPS_ZLIB", "ODPS_LZ4_FRAME", "ODPS_ZSTD"),
    "arrow": ("ODPS_ZLIB", "ODPS_ARROW_LZ4_FRAME"),
}


@pytest.mark.parametrize(
    ("way", "compression"), [(way, one) for way, some in CODINGS.items() for one in some]
)
def test_compressed_rows_are_written_and_read_over_the_tunnel(
    sdk: Worker, odps: odps_nb.Connection, name: str, way: str, compression: str
) -> None:
    types = {"string": [f"{n} " * 20_000 for n in range(3)]}
    expect_written(sdk, odps, name, types, way=way, compression=compression)
    expect_read(sdk, odps, f"{name}r", types, way=way, compression=compression)


MANY = [[n, f"row {n} " * 5] for n in range(20_000)]


@pytest.mark.parametrize("way", ["records", "arrow", "v2"])
def test_many_rows_are_written_and_read(
    sdk: Worker, odps: odps_nb.Connection, name: str, way: str
) -> None:
    table = odps.create_table(name, "id bigint, v string")
    sdk("write", table=name, rows=MANY, way=way, batch=3000)
    assert as_rows(table.read().to_arrow(progress=False)) == MANY
    for how in {way, "v2-rows"}:
        assert sorted(sdk("read", table=name, way=how, batch=7000)) == MANY


# -- tables, partitions, SQL --------------------------------------------------------------------


def test_tables_are_created_described_listed_and_dropped(sdk: Worker, name: str) -> None:
    types = columns(KNOWN | JSON)
    sdk("create", table=name, columns=types, partition_columns={"ds": "string"})
    told = sdk("describe", table=name)
    assert told["columns"] == {**types, "ds": "string"}
    facts = {"comment": "made by Java", "partitioned": True, "view": False, "key": []}
    assert told | facts == told
    assert name in sdk("list")
    assert sdk("partitions", table=name, create="ds='x'") == ["ds=x"]
    assert sdk("partitions", table=name, delete="ds='x'") == []
    assert sdk("drop", table=name) is False


@pytest.mark.parametrize("way", ["records", "arrow", "stream", "v2"])
def test_rows_of_one_partition_are_written_and_read(
    sdk: Worker, odps: odps_nb.Connection, name: str, way: str
) -> None:
    odps.create_table(name, "id bigint, v string", partitioned_by="ds string, h bigint")
    sdk("partitions", table=name, create="ds=a,h=1")
    sdk("write", table=name, partition="ds=a,h=1", rows=[[1, "x"]], way=way)
    assert as_rows(odps.table(name).read().to_arrow(progress=False)) == [[1, "x", "a", 1]]
    for how, parts in (("records", []), ("arrow", []), ("v2", ["a", 1]), ("preview", ["a", 1])):
        assert sdk("read", table=name, partition="ds=a,h=1", way=how) == [[1, "x", *parts]]


def test_dynamic_partitions_can_be_written_and_overwritten(
    sdk: Worker, odps: odps_nb.Connection, name: str
) -> None:
    odps.create_table(name, "id bigint, v string", partitioned_by="ds string, h bigint")
    sdk("write", table=name, way="v2", rows=[[1, "x", "a", 1], [2, "y", "b", 2]])
    sdk("write", table=name, way="v2", partition="ds=a", rows=[[3, "z", 3]])
    sdk("write", table=name, way="v2", partition="ds=a,h=1", rows=[[4, "w"]], overwrite=True)
    read = odps.table(name).read().to_arrow(progress=False)
    assert as_rows(read) == [[2, "y", "b", 2], [3, "z", "a", 3], [4, "w", "a", 1]]
    assert sdk("partitions", table=name) == ["ds=a/h=1", "ds=a/h=3", "ds=b/h=2"]
    filtered = sdk("read", table=name, way="v2", filter="ds = 'b'", columns=["v"])
    assert ["y"] in filtered


@pytest.mark.parametrize("way", ["tunnel", "set", "session", "v2"])
def test_results_of_queries_have_every_type(
    sdk: Worker, odps: odps_nb.Connection, name: str, way: str
) -> None:
    odps.create_table(name, declared(KNOWN))
    rows = rows_of(odps, name, KNOWN)
    odps.table(name).write(rows, progress=False)
    found = sdk("sql", query=f"select * from {name};", way=way)
    assert unpadded(found) == unpadded(as_rows(rows))


def test_results_are_returned_as_text(sdk: Worker) -> None:
    query = "select 1 as a, 'x' as b, cast('2024-01-01 00:00:00' as datetime) as c, null as d;"
    assert sdk("sql", query=query, way="csv") == [["1", "x", "2024-01-01 00:00:00", "\\N"]]


def test_statements_without_a_result_are_executed(
    sdk: Worker, odps: odps_nb.Connection, name: str
) -> None:
    told = sdk("sql", query=f"create table {name} (a bigint);")
    query = f"create table {name} (a bigint);"
    assert (told["successful"], told["ended"], told["query"]) == (True, True, query)
    assert sdk("sql", query=f"insert into {name} values (1), (2);")["successful"]
    assert odps.table(name).read().to_arrow(progress=False)["a"].to_pylist() == [1, 2]
    for way in ("tunnel", "v2"):
        assert sdk("sql", query=f"select * from {name} where a > 5;", way=way) == []


def test_java_receives_an_error_of_sql(sdk: Worker) -> None:
    with pytest.raises(AssertionError, match="column nope cannot be resolved"):
        sdk("sql", query="select nope from (select 1 as a) t;", way="csv")


def test_the_sdk_reads_facts_about_projects_and_instances(sdk: Worker) -> None:
    told = sdk("facts")
    assert told | {"exists": True, "status": "AVAILABLE", "zone": "UTC", "progress": 100} == told
    assert told["tunnel"].startswith("http://127.0.0.1:")
    assert "output records: 1" in told["summary"]


def test_the_sdk_creates_and_reads_resources_and_functions(
    sdk: Worker, odps: odps_nb.Connection, name: str
) -> None:
    odps.create_table(name, "a bigint")
    more = {"first": "first", "second": "second content", "table": name}
    told = sdk("resources", name=f"{name}.py", **more)
    assert told.pop("listed") == [f"{name}.py", f"{name}.py_table"]
    facts = {"type": "PY", "comment": "noted", "size": 14, "dated": True, "exists": False}
    assert told == {"content": "second content", "table": name} | facts
    told = sdk("functions", name=name)
    facts = {"class": f"{name}.G", "resources": [f"{name}.py"], "listed": [name]}
    assert told == {"dated": True, "exists": False} | facts


@pytest.mark.parametrize("tunnel", [False, True])
def test_interactive_queries_return_rows(
    sdk: Worker, odps: odps_nb.Connection, name: str, *, tunnel: bool
) -> None:
    assert sdk("interactive", query=f"create table {name} (a bigint, b string);", tunnel=tunnel)
    sdk("interactive", query=f"insert into {name} values (1, 'x'), (2, null);", tunnel=tunnel)
    found = sdk("interactive", query=f"select * from {name} order by a limit 9;", tunnel=tunnel)
    assert found == [[1, "x"], [2, None]]
    shown = sdk("interactive", query=f"show tables like '{name}';", tunnel=tunnel)
    assert name in str(shown)
    with pytest.raises(AssertionError, match="column nope cannot be resolved"):
        sdk("interactive", query=f"select nope from {name};", tunnel=tunnel)


def test_queries_of_mcqa_1_fall_back_to_sql_jobs(sdk: Worker) -> None:
    assert sdk("interactive", query="select 'x' as a;", tunnel=True, old=True) == [["x"]]


WAYS = ("records", "arrow", "v2")


@pytest.fixture(scope="module")
def in_schema() -> Iterator[tuple[Worker, odps_nb.Connection]]:
    """The SDK and odps_nb in a schema of a project with schemas."""
    build("Sdk")
    with start(samples=False, options=("--schemas",)) as service:
        client = launch("Sdk", service)
        assert client("schema", schema="apart") == ["apart", "default"]
        with connected(service, schema="apart") as found:
            yield client, found
        client.close()


@pytest.mark.parametrize("way", [*WAYS, "stream"])
def test_tables_in_a_schema_are_written_and_read(
    in_schema: tuple[Worker, odps_nb.Connection], name: str, way: str
) -> None:
    sdk, odps = in_schema
    sdk("create", table=name, columns={"id": "bigint", "v": "string"})
    assert name in sdk("list")
    sdk("write", table=name, way=way, rows=[[1, "x"]])
    assert as_rows(odps.table(name).read().to_arrow(progress=False)) == [[1, "x"]]
    for how in (*WAYS, "v2-rows", "preview"):
        assert sdk("read", table=name, way=how) == [[1, "x"]]
    for how in ("tunnel", "v2"):
        assert sdk("sql", query=f"select * from {name};", way=how) == [[1, "x"]]
    assert sdk("drop", table=name) is False


# -- primary keys, blobs ------------------------------------------------------------------------

KEYED = """create table {} (k bigint not null, v string, primary key (k))
tblproperties ('transactional'='true', 'write.bucket.num'='3', 'acid.cdc.mode.enable'='true')"""


@pytest.mark.parametrize("way", ["upsert", "v2"])
def test_upserts_insert_replace_and_delete_rows(
    sdk: Worker, odps: odps_nb.Connection, name: str, way: str
) -> None:
    odps.sql(KEYED.format(name), progress=False)
    assert sdk("describe", table=name)["key"] == ["k"]
    sdk("write", table=name, way=way, rows=[[k, f"v{k}"] for k in range(20)])
    sdk("write", table=name, way=way, rows=[[3, "new"]], delete=[[4, None]])
    rows = [[k, "new" if k == 3 else f"v{k}"] for k in range(20) if k != 4]
    read = odps.table(name).read().to_arrow(progress=False).sort_by("k")
    assert [list(row.values()) for row in read.to_pylist()] == rows
    assert unpadded(sdk("read", table=name, way="v2-rows")) == rows


@pytest.mark.parametrize("mode", ["append", "cdc"])
def test_increments_of_a_table_are_read(
    sdk: Worker, odps: odps_nb.Connection, name: str, mode: str
) -> None:
    odps.sql(KEYED.format(name), progress=False)
    sdk("write", table=name, way="upsert", rows=[[1, "a"], [2, "b"]])
    sdk("write", table=name, way="upsert", rows=[[3, "c"]])
    for since, keys in ((1, [1, 2, 3]), (2, [3])):
        found = unpadded(sdk("read", table=name, way="v2-rows", since=since, mode=mode))
        assert [(row[0], row[2]) for row in found] == [(key, 2) for key in keys]  # 2: insert


def test_partial_upserts_change_only_their_columns(
    sdk: Worker, odps: odps_nb.Connection, name: str
) -> None:
    partial = "('transactional'='true', 'acid.partial.fields.update.enable'='true')"
    columns = "k bigint not null, a string, b string, primary key (k)"
    odps.sql(f"create table {name} ({columns}) tblproperties {partial}", progress=False)
    sdk("write", table=name, way="upsert", rows=[[1, "a", "b"], [2, "a", "b"]])
    sdk("write", table=name, way="upsert", rows=[[2, None, "new"]], columns=["b"])
    assert unpadded(sdk("read", table=name, way="v2-rows")) == [[1, "a", "b"], [2, "a", "new"]]


BODIES = [b"\x00\xff", None, b"", b"a" * 300_000]
AS_HEX = [[n, None if one is None else one.hex()] for n, one in enumerate(BODIES)]


UPLOADS = [(False, "None"), (True, "None"), (True, "Crc32"), (True, "MD5")]


@pytest.mark.parametrize("partition", [None, "ds=x"])
@pytest.mark.parametrize(("batch", "checksum"), UPLOADS)
def test_odps_nb_reads_blobs_written_by_java(
    sdk: Worker,
    odps: odps_nb.Connection,
    name: str,
    batch: bool,
    checksum: str,
    partition: str | None,
) -> None:
    odps.create_table(name, "id bigint, body blob", partitioned_by=partition and "ds string")
    how = {"partition": partition, "batch": batch, "checksum": checksum}
    sdk("write_blobs", table=name, rows=AS_HEX, **how)
    found = [one.bytes() for one in odps.table(name).blobs("body", progress=False)]
    assert sorted(found) == sorted(one for one in BODIES if one is not None)


@pytest.mark.parametrize("batch", [False, True])
def test_java_reads_blobs_written_by_odps_nb(
    sdk: Worker, odps: odps_nb.Connection, name: str, batch: bool
) -> None:
    table = odps.create_table(name, "id bigint, body blob")
    table.write(pa.table({"id": range(len(BODIES)), "body": BODIES}), progress=False)
    assert sorted(sdk("read_blobs", table=name, batch=batch)) == AS_HEX


# -- JDBC ---------------------------------------------------------------------------------------


def test_jdbc_runs_queries_and_inserts_and_lists_metadata(
    jdbc: Worker, plain: odps_nb.Connection, name: str
) -> None:
    plain.create_table(name, "k bigint comment 'the key', v string")
    plain.sql(f"create view {name}v as select k from {name}", progress=False)
    insert = f"insert into {name} values (?, ?)"
    assert jdbc("insert", query=insert, rows=[[1, "a"], [2, "it's"]]) == [1, 1]
    assert jdbc("update", query=f"insert into {name} values (3, null)") == 1
    query = f"select k, v, cast(k as decimal(10,2)) m, array(k) n from {name} order by k limit 9"
    found = jdbc("query", query=query)
    types = {"k": "bigint", "v": "string", "m": "decimal(10,2)", "n": "array<bigint>"}
    assert found["columns"] == types
    assert found["rows"][1:] == [["2", "it's", "2.00", "[2]"], ["3", None, "3.00", "[3]"]]
    told = jdbc("metadata", table=name)
    project = plain.profile.project
    assert told["product"] == "MaxCompute/ODPS"
    assert told["schemas"] == [[project, project]]
    assert [row[:4] for row in told["tables"]] == [[project, project, name, "TABLE"]]
    assert [row[2] for row in told["views"]] == [f"{name}v"]
    assert [[row[3], row[5], row[11]] for row in told["columns"]] == [
        ["k", "BIGINT", "the key"],
        ["v", "STRING", ""],
    ]
