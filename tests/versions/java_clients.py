"""The vendor's Java clients against the embedded service: SDK, Storage API v2 and v1, JDBC.

Maven builds the jobs of ``tests/clients/java`` with one class path for each client. Each runs as a
process that takes jobs as JSON lines. Rows and blobs that Java writes are read by odps_nb, and the
other way round. ``java_left_out.toml`` lists what is not tested.

Run by ``make versions NAMES=java``, not by ``make test``: it needs Maven and its repository.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import re
import subprocess
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import odps_nb
from odps_nb.local.server.launch import LocalService, start
from tests.versions.results import record

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT = ROOT / "tests" / "clients" / "java"
BUILD = ROOT / "build" / "java"
ARROW = "--add-opens=java.base/java.nio=ALL-UNNAMED"  # for Arrow with Java 17


class Client:
    """A process with one Java client, which runs jobs one after the other."""

    def __init__(self, main: str, service: LocalService) -> None:
        keys = {
            "CLIENT_ENDPOINT": service.endpoint,
            "CLIENT_PROJECT": service.project,
            "CLIENT_ID": service.access_id,
            "CLIENT_KEY": service.access_key,
        }
        build = BUILD / main
        classes = f"{build / 'classes'}{os.pathsep}{(build / 'classpath.txt').read_text()}"
        self._log = (build / "log").open("w")
        self._process = subprocess.Popen(
            ["java", ARROW, "-cp", classes, f"clients.{main}"],
            env=os.environ | keys,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )

    def __call__(self, job: str, **arguments: Any) -> Any:
        """Run a job and return its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"job": job, **arguments}), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise AssertionError(f"{answer['error']} (see {self._log.name})")
        return answer["result"]

    def close(self) -> None:
        """End the process, which stops at the end of its input."""
        with self._log, self._process as process:
            assert process.stdin is not None
            process.stdin.close()


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


def connected(service: LocalService, **more: Any) -> odps_nb.Connection:
    return odps_nb.connect(
        **more,
        endpoint=service.endpoint,
        project=service.project,
        access_id=service.access_id,
        access_key=service.access_key,
    )


@pytest.fixture(scope="module")
def odps(service: LocalService) -> Iterator[odps_nb.Connection]:
    with connected(service) as found:
        yield found


def running(main: str, service: LocalService) -> Iterator[Client]:
    build(main)
    client = Client(main, service)
    yield client
    client.close()


@pytest.fixture(scope="module")
def sdk(service: LocalService) -> Iterator[Client]:
    yield from running("Sdk", service)


@pytest.fixture(scope="module")
def v1(service: LocalService) -> Iterator[Client]:
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
def jdbc(old_service: LocalService) -> Iterator[Client]:
    yield from running("Jdbc", old_service)


@pytest.fixture
def name() -> str:
    return f"j{time.time_ns()}"


# -- rows of every type -------------------------------------------------------------------------

DAY, AT = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 23, 59, 58, 123000)
FINE = dt.datetime(2024, 2, 29, 23, 59, 58, 123456)
KNOWN: dict[str, list[Any]] = {
    "bigint": [1, -(2**63) + 1, 2**63 - 1],
    "int": [0, -(2**31), 2**31 - 1],
    "smallint": [0, -(2**15), 2**15 - 1],
    "tinyint": [0, -128, 127],
    "float": [1.5, -0.25, math.inf],
    "double": [0.1, -1e300, math.nan],
    "boolean": [True, False, True],
    "string": ["", "日本語 \U0001f600", "a\tb\n\"c'"],
    "char(4)": ["abcd", "ab", "äöüß"],
    "varchar(8)": ["", "abc", "äöü"],
    "binary": [b"", b"\x00\xff\x80", b"abc"],
    "decimal(38,18)": [Decimal("0.1"), Decimal("-12345678901234567890.5"), Decimal(0)],
    "decimal(10,2)": [Decimal("0.01"), Decimal("-99999999.99"), Decimal(100)],
    "decimal": [Decimal("5.5"), Decimal("-7.25"), Decimal(100)],
    "date": [DAY, dt.date(1970, 1, 1), dt.date(1850, 1, 1)],
    "datetime": [AT, dt.datetime(1970, 1, 1), dt.datetime(2100, 1, 1)],
    "timestamp": [FINE, dt.datetime(1970, 1, 1), dt.datetime(2030, 1, 1)],
    "timestamp_ntz": [FINE, dt.datetime(1970, 1, 1), dt.datetime(2030, 1, 1)],
    "array<bigint>": [[1, None, 3], [], [2**62]],
    "array<string>": [["a", None, ""], [], ["é"]],
    "array<datetime>": [[AT, None], [], [AT]],
    "map<string,bigint>": [[("a", 1), ("b", None)], [], [("", 2)]],
    "map<bigint,decimal(10,2)>": [[(1, Decimal("1.5"))], [], [(2, None)]],
    "struct<a:bigint,b:string>": [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 2, "b": ""}],
    "array<struct<k:map<string,array<decimal(10,2)>>,t:timestamp>>": [
        [{"k": [("a", [Decimal("1.25"), None])], "t": FINE}, {"k": None, "t": None}, None],
        [],
        [{"k": [], "t": FINE}],
    ],
    "struct<p:struct<q:array<array<int>>>,v:varchar(8)>": [
        {"p": {"q": [[1], [], None]}, "v": "x"},
        {"p": None, "v": None},
        {"p": {"q": None}, "v": ""},
    ],
}
#: The Storage API does not read JSON columns (``docs/protocol.md`` section 5.1).
JSON = {"json": ['{"a":[1,null,"x"]}', "[]", '"text"']}


def columns(types: dict[str, list[Any]]) -> dict[str, str]:
    return {"id": "bigint", **{f"c{n}": one for n, one in enumerate(types)}}


def declared(types: dict[str, list[Any]]) -> str:
    return ", ".join(f"{key} {value}" for key, value in columns(types).items())


def rows_of(odps: odps_nb.Connection, name: str, types: dict[str, list[Any]]) -> pa.Table:
    """Return the rows of `types`, and a row of nulls, in the types of a table."""
    schema = odps.table(name).read().reader(progress=False).schema
    cells = {"id": range(4)} | {f"c{n}": [*of, None] for n, of in enumerate(types.values())}
    return pa.table({f.name: pa.array(cells[f.name], f.type) for f in schema})


def cell(value: pa.Scalar) -> Any:
    """Return a cell as the Java jobs write it."""
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        seconds, rest = divmod(value.cast(pa.timestamp("ns", value.type.tz)).value, 10**9)
        return f"{dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)}.{rest:09}"
    if pa.types.is_map(value.type):
        return sorted(([cell(one[k]) for k in ("key", "value")] for one in value.values), key=str)
    if pa.types.is_list(value.type):
        return [cell(one) for one in value.values]
    if pa.types.is_struct(value.type):
        return {key: cell(one) for key, one in value.items()}
    found = value.as_py()
    if isinstance(found, bytes):
        return found.hex()
    if isinstance(found, Decimal):
        return f"{found.normalize():f}"
    if isinstance(found, float) and not math.isfinite(found):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(found, "NaN")
    return str(found) if isinstance(found, dt.date) else found


def as_rows(table: pa.Table) -> list[list[Any]]:
    """Return the rows of a table as the Java jobs write them, by id."""
    table = table.sort_by("id")
    return [[cell(column[n]) for column in table.columns] for n in range(table.num_rows)]


def unpadded(rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows without the blanks that pad a CHAR, by id."""
    bare = [[one.rstrip(" ") if isinstance(one, str) else one for one in row] for row in rows]
    return sorted(bare, key=lambda row: row[0])


def expect_written(
    write: Client, odps: odps_nb.Connection, name: str, types: dict[str, list[Any]], **how: Any
) -> None:
    """Let Java write `types` into a new table, and compare the rows that odps_nb reads."""
    odps.create_table(name, declared(types))
    expected = as_rows(rows_of(odps, name, types))
    write("write", table=name, rows=expected, **how)
    read = odps.table(name).read().to_arrow(progress=False)
    assert unpadded(as_rows(read)) == unpadded(expected)


def expect_read(
    read: Client, odps: odps_nb.Connection, name: str, types: dict[str, list[Any]], **how: Any
) -> None:
    """Write `types` into a new table by odps_nb, and compare the rows that Java reads."""
    odps.create_table(name, declared(types))
    rows = rows_of(odps, name, types)
    odps.table(name).write(rows, progress=False)
    assert unpadded(read("read", table=name, **how)) == unpadded(as_rows(rows))


@pytest.mark.parametrize("way", ["records", "arrow", "stream", "v2", "v2-streaming"])
def test_rows_of_the_sdk_are_read_by_us(
    sdk: Client, odps: odps_nb.Connection, name: str, way: str
) -> None:
    expect_written(sdk, odps, name, KNOWN, way=way)


@pytest.mark.parametrize("way", ["records", "arrow", "preview", "v2", "v2-rows", "v2-preview"])
def test_our_rows_are_read_by_the_sdk(
    sdk: Client, odps: odps_nb.Connection, name: str, way: str
) -> None:
    expect_read(sdk, odps, name, KNOWN, way=way)


def test_rows_of_storage_v1_are_read_by_us(v1: Client, odps: odps_nb.Connection, name: str) -> None:
    expect_written(v1, odps, name, KNOWN)


@pytest.mark.parametrize("compression", [None, "ZSTD", "LZ4_FRAME"])
@pytest.mark.parametrize("way", ["size", "rows"])
def test_our_rows_are_read_by_storage_v1(
    v1: Client, odps: odps_nb.Connection, name: str, way: str, compression: str | None
) -> None:
    expect_read(v1, odps, name, KNOWN, way=way, compression=compression)


def test_storage_v1_writes_and_reads_one_partition(
    v1: Client, odps: odps_nb.Connection, name: str
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
def test_json_goes_both_ways_over_the_tunnel(
    sdk: Client, odps: odps_nb.Connection, name: str, way: str
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
def test_compressed_rows_go_both_ways_over_the_tunnel(
    sdk: Client, odps: odps_nb.Connection, name: str, way: str, compression: str
) -> None:
    types = {"string": [f"{n} " * 20_000 for n in range(3)]}
    expect_written(sdk, odps, name, types, way=way, compression=compression)
    expect_read(sdk, odps, f"{name}r", types, way=way, compression=compression)


MANY = [[n, f"row {n} " * 5] for n in range(20_000)]


@pytest.mark.parametrize("way", ["records", "arrow", "v2"])
def test_many_rows_go_both_ways(sdk: Client, odps: odps_nb.Connection, name: str, way: str) -> None:
    table = odps.create_table(name, "id bigint, v string")
    sdk("write", table=name, rows=MANY, way=way, batch=3000)
    assert as_rows(table.read().to_arrow(progress=False)) == MANY
    for how in {way, "v2-rows"}:
        assert sorted(sdk("read", table=name, way=how, batch=7000)) == MANY


# -- tables, partitions, SQL --------------------------------------------------------------------


def test_tables_are_created_described_listed_and_dropped(sdk: Client, name: str) -> None:
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
def test_rows_of_one_partition(sdk: Client, odps: odps_nb.Connection, name: str, way: str) -> None:
    odps.create_table(name, "id bigint, v string", partitioned_by="ds string, h bigint")
    sdk("partitions", table=name, create="ds=a,h=1")
    sdk("write", table=name, partition="ds=a,h=1", rows=[[1, "x"]], way=way)
    assert as_rows(odps.table(name).read().to_arrow(progress=False)) == [[1, "x", "a", 1]]
    for how, parts in (("records", []), ("arrow", []), ("v2", ["a", 1]), ("preview", ["a", 1])):
        assert sdk("read", table=name, partition="ds=a,h=1", way=how) == [[1, "x", *parts]]


def test_dynamic_partitions_and_overwrites(
    sdk: Client, odps: odps_nb.Connection, name: str
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
    sdk: Client, odps: odps_nb.Connection, name: str, way: str
) -> None:
    odps.create_table(name, declared(KNOWN))
    rows = rows_of(odps, name, KNOWN)
    odps.table(name).write(rows, progress=False)
    found = sdk("sql", query=f"select * from {name};", way=way)
    assert unpadded(found) == unpadded(as_rows(rows))


def test_results_as_text(sdk: Client) -> None:
    query = "select 1 as a, 'x' as b, cast('2024-01-01 00:00:00' as datetime) as c, null as d;"
    assert sdk("sql", query=query, way="csv") == [["1", "x", "2024-01-01 00:00:00", "\\N"]]


def test_statements_without_a_result(sdk: Client, odps: odps_nb.Connection, name: str) -> None:
    told = sdk("sql", query=f"create table {name} (a bigint);")
    query = f"create table {name} (a bigint);"
    assert (told["successful"], told["ended"], told["query"]) == (True, True, query)
    assert sdk("sql", query=f"insert into {name} values (1), (2);")["successful"]
    assert odps.table(name).read().to_arrow(progress=False)["a"].to_pylist() == [1, 2]
    for way in ("tunnel", "v2"):
        assert sdk("sql", query=f"select * from {name} where a > 5;", way=way) == []


def test_an_error_of_sql_reaches_java(sdk: Client) -> None:
    with pytest.raises(AssertionError, match="column nope cannot be resolved"):
        sdk("sql", query="select nope from (select 1 as a) t;", way="csv")


def test_facts_about_projects_and_instances(sdk: Client) -> None:
    told = sdk("facts")
    assert told | {"exists": True, "status": "AVAILABLE", "zone": "UTC", "progress": 100} == told
    assert told["tunnel"].startswith("http://127.0.0.1:")
    assert "output records: 1" in told["summary"]


WAYS = ("records", "arrow", "v2")


@pytest.fixture(scope="module")
def in_schema() -> Iterator[tuple[Client, odps_nb.Connection]]:
    """The SDK and odps_nb in a schema of a project with schemas."""
    build("Sdk")
    with start(samples=False, options=("--schemas",)) as service:
        client = Client("Sdk", service)
        assert client("schema", schema="apart") == ["apart", "default"]
        with connected(service, schema="apart") as found:
            yield client, found
        client.close()


@pytest.mark.parametrize("way", [*WAYS, "stream"])
def test_tables_in_a_schema(
    in_schema: tuple[Client, odps_nb.Connection], name: str, way: str
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
def test_upserts(sdk: Client, odps: odps_nb.Connection, name: str, way: str) -> None:
    odps.sql(KEYED.format(name), progress=False)
    assert sdk("describe", table=name)["key"] == ["k"]
    sdk("write", table=name, way=way, rows=[[k, f"v{k}"] for k in range(20)])
    sdk("write", table=name, way=way, rows=[[3, "new"]], delete=[[4, None]])
    rows = [[k, "new" if k == 3 else f"v{k}"] for k in range(20) if k != 4]
    read = odps.table(name).read().to_arrow(progress=False).sort_by("k")
    assert [list(row.values()) for row in read.to_pylist()] == rows
    assert unpadded(sdk("read", table=name, way="v2-rows")) == rows


@pytest.mark.parametrize("mode", ["append", "cdc"])
def test_incremental_reads(sdk: Client, odps: odps_nb.Connection, name: str, mode: str) -> None:
    odps.sql(KEYED.format(name), progress=False)
    sdk("write", table=name, way="upsert", rows=[[1, "a"], [2, "b"]])
    sdk("write", table=name, way="upsert", rows=[[3, "c"]])
    for since, keys in ((1, [1, 2, 3]), (2, [3])):
        found = unpadded(sdk("read", table=name, way="v2-rows", since=since, mode=mode))
        assert [(row[0], row[2]) for row in found] == [(key, 2) for key in keys]  # 2: insert


def test_partial_upserts(sdk: Client, odps: odps_nb.Connection, name: str) -> None:
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
def test_blobs_of_java_are_read_by_us(
    sdk: Client,
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
def test_our_blobs_are_read_by_java(
    sdk: Client, odps: odps_nb.Connection, name: str, batch: bool
) -> None:
    table = odps.create_table(name, "id bigint, body blob")
    table.write(pa.table({"id": range(len(BODIES)), "body": BODIES}), progress=False)
    assert sorted(sdk("read_blobs", table=name, batch=batch)) == AS_HEX


# -- JDBC ---------------------------------------------------------------------------------------


def test_jdbc_queries_inserts_and_lists_metadata(
    jdbc: Client, plain: odps_nb.Connection, name: str
) -> None:
    plain.create_table(name, "k bigint comment 'the key', v string")
    plain.sql(f"create view {name}v as select k from {name}", progress=False)
    insert = f"insert into {name} values (?, ?)"
    assert jdbc("insert", query=insert, rows=[[1, "a"], [2, "it's"]]) == [1, 1]
    jdbc("update", query=f"insert into {name} values (3, null)")
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
