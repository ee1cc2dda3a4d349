"""The vendor's Spark connector against the embedded service, beside odps_nb in one Spark session.

No registry contains the connector. Build it from branch ``spark/release-4.0`` of
``aliyun/aliyun-maxcompute-data-collectors`` (folder ``spark-connector``), and set
``ODPS_NB_SPARK_CONNECTOR`` to the path of ``spark-odps-datasource-….jar``.
If the SDK versions that its ``pom.xml`` names are not on Maven Central, use 0.57.1-public of the
core and 0.53.2-public of the table API. The latter lacks ``SessionStats``, which only a
method without callers uses (``TunnelTableBatchReadSession.getEstimatedStats``).
``docs/results/clients.md`` lists the results.

Run by ``make versions NAMES=connector``, not by ``make test``. The catalog ``odps`` uses version 1
of the Storage API. The catalog ``tunnel`` uses the tunnel, the connector's default with a local
master.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import odps_nb
import odps_nb.spark
from odps_nb.local.server.launch import LocalService
from tests.support.clients.recording import start
from tests.support.spark.connector import JAR, catalog, missing, session_settings
from tests.versions.every_type import KNOWN, columns, declared, rows_of
from tests.versions.results import record
from tests.versions.worker import connected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
FLAT = {kind: cells for kind, cells in KNOWN.items() if "<" not in kind}
TYPES = {"odps": KNOWN, "tunnel": {k: cells for k, cells in FLAT.items() if k != "timestamp_ntz"}}
NewName = Callable[[], str]
Sql = Callable[[str], list[tuple[Any, ...]]]


RAN = """\
The connector in one Spark session with odps_nb, by version 1 of the Storage API and by
the tunnel. Rows have every type in both directions, uncompressed, with zstd and with LZ4, by its
vectorized, asynchronous and record readers. Static and dynamic partitions, overwrites, conditions,
views, and the statements of its catalog. It pushes down no condition on times, and no `LIKE`.
"""
REASONS = [
    {
        "what": "PySpark 4.3; 4.1 and 4.2 were not tried",
        "reason": "the connector is built for 4.0; with 4.3, its reads work and its writes fail",
    },
    {
        "what": "nested types and record readers by the tunnel",
        "reason": "the jar lacks protobuf, which the core needs for records",
    },
    {
        "what": "TIMESTAMP_NTZ written by the tunnel",
        "reason": "the connector's Arrow writer lacks the type",
    },
    {
        "what": "dynamic partitions and `splitParallelism` by the tunnel",
        "reason": "the connector does not support them",
    },
]


@pytest.fixture(scope="module", autouse=True)
def page(outcomes: Counter[str]) -> Iterator[None]:
    """Write the results to ``docs/results/clients.md``."""
    yield
    version = f"`{Path(JAR).stem}`"
    record(
        "Spark connector of the vendor",
        version,
        RAN,
        outcomes["passed"],
        REASONS,
        failed=outcomes["failed"],
    )


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with start(samples=False, options=("--filter-block-rows", "1")) as found:
        yield found


@pytest.fixture(scope="module")
def odps(service: LocalService) -> Iterator[odps_nb.Connection]:
    with connected(service) as found:
        yield found


@pytest.fixture(scope="module")
def spark(
    odps: odps_nb.Connection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    folder = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = odps_nb.spark.session("local[2]", **session_settings(), **folder)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    catalog(session, odps, "odps", "v1")
    catalog(session, odps, "tunnel", "tunnel")
    gateway = session.sparkContext._gateway
    yield session
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


@pytest.fixture
def project(odps: odps_nb.Connection) -> str:
    return odps.profile.project


@pytest.fixture
def sql(spark: SparkSession) -> Sql:
    """Run a statement in Spark and return its rows, sorted."""
    return lambda query: sorted(map(tuple, spark.sql(query).collect()))


def read(odps: odps_nb.Connection, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = odps.table(name).read().to_arrow(progress=False).to_pylist()
    return rows


def shown(rows: Any) -> list[str]:
    """Return rows as text, because NaN is not equal to itself."""
    return sorted(map(repr, rows))


def stored(odps: odps_nb.Connection, name: str, types: dict[str, list[Any]]) -> None:
    """Create a table with a column of each type, and write its rows by odps_nb."""
    odps.create_table(name, declared(types))
    odps.table(name).write(rows_of(odps, name, types), progress=False)


# -- rows of every type -------------------------------------------------------------------------

OPTIONS: list[dict[str, Any]] = [
    {},
    {"tableCompressionCodec": "zstd"},
    {"tableCompressionCodec": "lz4_frame"},
    {"enableAsyncRead": "true"},
    {"splitParallelism": 3},
    {"enableVectorizedReader": "false"},
]
READS = [("odps", one) for one in OPTIONS] + [("tunnel", one) for one in OPTIONS[:4]]


@pytest.mark.parametrize(("kind", "options"), READS, ids=str)
def test_the_connector_reads_rows_written_by_odps_nb(
    spark: SparkSession,
    odps: odps_nb.Connection,
    new_name: NewName,
    project: str,
    kind: str,
    options: dict[str, Any],
) -> None:
    stored(odps, name := new_name(), TYPES[kind])
    ours = odps_nb.spark.read(spark, odps, name, progress=False)
    catalog(spark, odps, other := f"c{name}", "v1" if kind == "odps" else kind, **options)
    theirs = spark.table(f"{other}.{project}.{name}")
    assert theirs.columns == ours.columns
    # the connector's type of a CHAR pads its values with blanks
    types = columns(TYPES[kind]).items()
    bare = [f"rtrim({c}) {c}" if t.startswith("char") else c for c, t in types]
    assert shown(theirs.selectExpr(*bare).collect()) == shown(ours.collect())


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4_frame"])
@pytest.mark.parametrize("kind", TYPES)
def test_odps_nb_reads_rows_written_by_the_connector(
    spark: SparkSession,
    odps: odps_nb.Connection,
    new_name: NewName,
    project: str,
    kind: str,
    codec: str,
) -> None:
    stored(odps, source := new_name(), TYPES[kind])
    odps.create_table(name := new_name(), declared(TYPES[kind]))
    catalog(
        spark,
        odps,
        other := f"c{name}",
        "v1" if kind == "odps" else kind,
        tableCompressionCodec=codec,
    )
    frame = odps_nb.spark.read(spark, odps, source, progress=False)
    frame.writeTo(f"{other}.{project}.{name}").append()
    assert shown(read(odps, name)) == shown(read(odps, source))


# -- pushed-down conditions and columns ---------------------------------------------------------

#: Conditions, the rows that they select, and the rows that the connector's scan returns: it sends
#: no condition on times, and none for LIKE.
FILTERS = {
    "id >= 7": (3, 3),
    "id in (1, 2, 99) and note is not null": (2, 2),
    "note is null or value > 3.5D": (2, 2),
    "not (id < 8)": (2, 2),
    r"note = 'it\'s'": (1, 1),
    "value = 1.5D": (1, 1),
    "at < timestamp'2024-01-01 00:00:03'": (3, 10),
    "day = date'2024-01-02'": (1, 10),
    "amount between 1.00 and 2.50": (4, 4),
    "note like 'i%'": (1, 9),
}


@pytest.fixture(scope="module")
def filtered(odps: odps_nb.Connection) -> str:
    odps.create_table(
        "filtered",
        "id bigint, note string, value double, at datetime, day date, amount decimal(10,2)",
    )
    odps.sql(
        "insert into filtered select id, if(id = 9, null, if(id = 3, 'it\\'s', concat('n', id))),"
        " id / 2, dateadd(datetime'2024-01-01 00:00:00', id, 'ss'), dateadd(date'2024-01-01', id,"
        " 'dd'), cast(id / 2 as decimal(10,2)) from (select explode(sequence(0, 9)) as id) s",
        progress=False,
    )
    return "filtered"


@pytest.mark.parametrize("condition", FILTERS)
def test_conditions_are_pushed_down(
    spark: SparkSession, odps: odps_nb.Connection, filtered: str, project: str, condition: str
) -> None:
    found = spark.table(f"odps.{project}.{filtered}").where(condition)
    ours = odps_nb.spark.read(spark, odps, filtered, progress=False).where(condition)
    rows = found.collect()
    assert shown(rows) == shown(ours.collect())
    scan = found._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
    scanned = scan.metrics().apply("numOutputRows").value()
    assert (len(rows), scanned) == FILTERS[condition]


@pytest.mark.parametrize("kind", TYPES)
def test_only_the_columns_that_a_query_names_are_read(
    sql: Sql, filtered: str, project: str, kind: str
) -> None:
    table = f"{kind}.{project}.{filtered}"
    assert sql(f"select note from {table} where id = 4") == [("n4",)]
    assert sql(f"select amount, id from {table} where id < 1") == [(0, 0)]
    assert sql(f"select count(*) from {table}") == [(10,)]


# -- partitions and overwrites ------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
def test_partitions_are_written_replaced_and_pruned(
    sql: Sql, odps: odps_nb.Connection, new_name: NewName, project: str, kind: str
) -> None:
    table = f"{kind}.{project}.{(name := new_name())}"
    sql(f"create table {table} (id bigint, v string) partitioned by (ds string, hh string)")
    added = [(1, "a", "1", "2"), (2, "b", "2", "3"), (3, "c", "1", "2"), (4, "d", "2", "4")]
    for number, text, ds, hh in added:
        sql(f"insert into {table} partition (ds='{ds}', hh='{hh}') values ({number}, '{text}')")
    assert sql(f"select * from {table}") == added
    assert sql(f"select id from {table} where ds = '2' and hh > '3'") == [(4,)]
    assert sql(f"select distinct ds from {table}") == [("1",), ("2",)]
    sql(f"insert overwrite {table} partition (ds='1', hh='2') values (6, 'f')")
    left = [(2, "b", "2", "3"), (4, "d", "2", "4"), (6, "f", "1", "2")]
    assert sql(f"select * from {table}") == left
    assert sorted(tuple(row.values()) for row in read(odps, name)) == left
    assert sql(f"show partitions {table}") == [("ds=1/hh=2",), ("ds=2/hh=3",), ("ds=2/hh=4",)]
    sql(f"alter table {table} add partition (ds='9', hh='9')")
    sql(f"alter table {table} drop partition (ds='2', hh='4')")
    assert sql(f"show partitions {table}") == [("ds=1/hh=2",), ("ds=2/hh=3",), ("ds=9/hh=9",)]


def test_an_overwrite_replaces_only_dynamic_partitions_with_rows(
    sql: Sql, odps: odps_nb.Connection, new_name: NewName, project: str
) -> None:
    odps.create_table(name := new_name(), "id bigint", partitioned_by="ds string, hh string")
    table = f"odps.{project}.{name}"
    sql(f"insert into {table} values (1, 'a', 'x'), (2, 'b', 'y'), (3, 'b', 'z'), (4, 'a', 'x')")
    sql(f"insert overwrite {table} partition (ds='b', hh) values (5, 'y')")
    assert sql(f"select * from {table}") == [
        (1, "a", "x"),
        (3, "b", "z"),
        (4, "a", "x"),
        (5, "b", "y"),
    ]
    sql(f"insert overwrite {table} values (6, 'a', 'x'), (7, 'c', 'x')")
    assert sorted(tuple(row.values()) for row in read(odps, name)) == [
        (3, "b", "z"),
        (5, "b", "y"),
        (6, "a", "x"),
        (7, "c", "x"),
    ]


@pytest.mark.parametrize("kind", TYPES)
def test_an_overwrite_replaces_all_rows(
    spark: SparkSession, odps: odps_nb.Connection, new_name: NewName, project: str, kind: str
) -> None:
    table = odps.create_table(name := new_name(), "id bigint")
    table.write(pa.table({"id": [1, 2]}), progress=False)
    spark.range(100, 1100, 1, 7).writeTo(f"{kind}.{project}.{name}").overwritePartitions()
    assert sorted(row["id"] for row in read(odps, name)) == list(range(100, 1100))


# -- catalog ------------------------------------------------------------------------------------


def test_the_catalog_creates_changes_and_drops_tables(
    sql: Sql, odps: odps_nb.Connection, new_name: NewName, project: str
) -> None:
    odps.create_table(name := new_name(), "id bigint comment 'the key', v varchar(8)")
    table, copy = f"odps.{project}.{name}", f"odps.{project}.{name}_copy"
    sql(f"insert into {table} values (1, 'a')")
    assert (project, name, False) in sql(f"show tables in odps.{project}")
    assert sql("show namespaces in odps") == [(project,)]
    assert sql(f"describe {table}") == [("id", "bigint", "the key"), ("v", "varchar(8)", "")]
    assert sql(f"show columns in {table}") == [("id",), ("v",)]
    sql(f"create table {copy} as select id, 'x' as w from {table}")
    sql(f"alter table {copy} add columns (n int)")
    assert read(odps, f"{name}_copy") == [{"id": 1, "w": "x", "n": None}]
    sql(f"alter table {copy} rename column w to v")
    sql(f"alter table {copy} drop column n")
    assert read(odps, f"{name}_copy") == [{"id": 1, "v": "x"}]
    sql(f"truncate table {copy}")
    assert read(odps, f"{name}_copy") == []
    sql(f"alter table {copy} rename to {project}.{name}_moved")
    sql(f"drop table odps.{project}.{name}_moved")
    left = [row[1] for row in sql(f"show tables in odps.{project}") if row[1].startswith(name)]
    assert left == [name]


@pytest.mark.parametrize("as_table", ["false", "true"])
def test_a_view_is_read(
    spark: SparkSession,
    sql: Sql,
    odps: odps_nb.Connection,
    new_name: NewName,
    project: str,
    as_table: str,
) -> None:
    """The connector runs the text of a view in Spark, or copies its rows into a table."""
    odps.create_table(name := new_name(), "id bigint").write(
        pa.table({"id": [1, 2, 3]}), progress=False
    )
    odps.sql(f"create view {name}v as select id from {name} where id > 1", progress=False)
    spark.conf.set("spark.sql.odps.materializeViewToTable", as_table)
    assert sql(f"select * from odps.{project}.{name}v where id < 3") == [(2,)]


# -- what cannot pass ---------------------------------------------------------------------------

LEFT_OUT = [
    ("v string", "insert into tunnel.{t} values (1, 'x', 'a')", "Dynamic partition is not supp"),
    (
        "v timestamp_ntz",
        "insert into tunnel.{t} partition (ds='a') select 1, timestamp_ntz'2024-01-01'",
        "Unsupported type: TIMESTAMP_NTZ",
    ),
    # Nested types pass the tunnel as records, for which the jar lacks protobuf.
    ("v array<bigint>", "select v from tunnel.{t}", "com.google.protobuf.CodedInputStream"),
    (
        "v array<bigint>",
        "insert into tunnel.{t} partition (ds='a') select 1, array(1L)",
        "com.google.protobuf.CodedOutputStream",
    ),
]
"""A column, a statement that fails, and a part of its error."""


@pytest.mark.parametrize(("column", "statement", "said"), LEFT_OUT)
def test_omitted_operations_fail_as_listed(
    sql: Sql,
    odps: odps_nb.Connection,
    new_name: NewName,
    project: str,
    column: str,
    statement: str,
    said: str,
) -> None:
    """`REASONS` says why."""
    table = odps.create_table(
        name := new_name(), f"id bigint, {column}", partitioned_by="ds string"
    )
    table.write(pa.table({"id": [1], "ds": ["a"]}), progress=False)
    with pytest.raises(Exception, match=said):
        sql(statement.format(t=f"{project}.{name}"))
