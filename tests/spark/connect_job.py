"""Run by ``test_connect``: all functions through Spark Connect, first with a separate server.

Prints one JSON document. Separate processes, because a process is either a client of Connect or has
its own Spark. If called with the URL of the server, it is a client of that server.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

import odps_nb
import odps_nb.spark
from odps_nb.errors import OdpsNbError
from odps_nb.spark.tasks.errors import from_spark
from tests.spark.connect_stops import stops

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

ROWS = 1000
#: Seconds after which the job counts as hanging. With PySpark 4.1, each of four stops may take a
#: minute, and the machine may be busy.
LASTS = 1000
SAYING = 30


def _say_where_it_hangs() -> None:
    """Print every thread of this process and its JVM to stderr if the job hangs."""

    def say() -> None:
        for child in psutil.Process().children(recursive=True):
            if child.name() == "java":
                child.send_signal(signal.SIGQUIT)  # it prints its threads and continues
        faulthandler.dump_traceback()

    timer = threading.Timer(LASTS, say)
    timer.daemon = True
    timer.start()


def listening() -> dict[str, bool]:
    """Return the ports on which this machine listens, and whether only on loopback."""
    found: dict[str, bool] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            address, port = fields[1].split(":")
            if fields[3] == "0A":
                # 127.0.0.1 in the byte order of the kernel, plain or mapped, or ::1
                own = address.endswith("0100007F") or address == "0" * 24 + "01000000"
                found[str(int(port, 16))] = own
    return found


def roads(spark: SparkSession, odps: Connection, name: str) -> dict[str, Any]:
    """Read and write in every way; return each result."""
    told: dict[str, Any] = {"kind": type(spark).__module__}
    odps.create_table(name, "id bigint, note string")
    rows = spark.range(0, ROWS, 1, 3).selectExpr("id", "'x' note")
    told["written"] = odps_nb.spark.write(rows, odps, name).rows
    given = odps_nb.spark.options(odps)
    odps_nb.spark.register(spark)
    rows.write.format("odps").options(**given).mode("append").save(name)
    frame = odps_nb.spark.read(spark, odps, name, splits=2)
    told["read"] = list(frame.selectExpr("count(id)", "count(distinct id)").first())
    told["known"] = frame.count()
    loaded = spark.read.format("odps").options(**given).load(name)
    told["loaded"] = list(loaded.selectExpr("count(id)", "count(distinct id)").first())
    odps_nb.spark.register(spark, odps)
    spark.read.format("odps").load(name).createOrReplaceTempView(name)
    told["seen"] = spark.sql(f"select count(*) from {name} where id < 10").first()[0]

    media = odps_nb.spark.read(spark, odps, "media", columns=["name", "content"], limit=3)
    told["blobs"] = {
        row.name: row.digest
        for row in odps_nb.spark.blob_map(media, odps, "content", _digest, "digest string")
        .select("name", "digest")
        .collect()
    }
    return told


def _digest(blob: Any) -> dict[str, str]:
    return {"digest": hashlib.sha256(blob.data).hexdigest()}


def failures(spark: SparkSession, odps: Connection, name: str) -> dict[str, list[str]]:
    """Return the kind and the hint of errors that tasks and the service raise."""
    told = {}
    bad = spark.range(1).selectExpr("id", "'x' note").selectExpr("id", "note", "1 more")
    odps.create_table(f"{name}_times", "id bigint, at datetime")
    finer = spark.range(1).selectExpr("id", "timestamp'2024-01-01 00:00:00.000001' at")
    odps_nb.spark.register(spark)
    over = spark.range(1).write.format("odps").options(**odps_nb.spark.options(odps))
    attempts = {
        "columns": lambda: odps_nb.spark.write(bad, odps, name),
        "values": lambda: odps_nb.spark.write(finer, odps, f"{name}_times"),
        "table": lambda: odps_nb.spark.read(spark, odps, "no_such_table"),
        "overwrite": lambda: over.mode("overwrite").option("partition", "a=1").save(name),
    }
    for what, attempt in attempts.items():
        try:
            attempt()
        except Exception as error:  # noqa: BLE001  told as it is
            ours = error if isinstance(error, OdpsNbError) else from_spark(error)
            told[what] = [type(ours).__name__, str(ours), str(ours and ours.hint)]
    return told


def as_client(url: str, name: str) -> dict[str, Any]:
    """Do the same as a client without Java, connected to a server in another process."""
    env = {**os.environ, "SPARK_REMOTE": url, "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    for mine in ("SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        env.pop(mine, None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.spark.connect_job", name],
        input=json.dumps(GIVEN),
        capture_output=True,
        text=True,
        env=env,
        timeout=LASTS,
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Be the client that the environment describes, or the server and its first client."""
    faulthandler.dump_traceback_later(LASTS + SAYING, exit=True)
    _say_where_it_hangs()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    with odps_nb.connect(**GIVEN["connection"]) as odps:
        if name:
            spark = odps_nb.spark.session(spark_sql_shuffle_partitions=3)
            result = roads(spark, odps, name)
            result["shuffles"] = spark.conf.get("spark.sql.shuffle.partitions")
        else:
            with warnings.catch_warnings(record=True) as refused:
                warnings.simplefilter("always")
                spark = odps_nb.spark.session(
                    remote="local[2]",
                    **{
                        "spark.driver.memory": "1g",
                        "spark.eventLog.enabled": True,
                        "spark.eventLog.compress": False,
                        "spark.eventLog.dir": Path(GIVEN["log"]).as_uri(),
                    },
                )
            result = {"listening": listening(), "own": roads(spark, odps, GIVEN["table"])}
            result["refused"] = [str(one.message).partition(" to Some")[0] for one in refused]
            result["stopped"] = stops(spark)
            result["zone"] = spark.conf.get("spark.sql.session.timeZone")
            result["again"] = odps_nb.spark.session("local[7]") is spark
            result["failures"] = failures(spark, odps, GIVEN["table"])
            token = os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"]
            result["client"] = as_client(
                f"sc://localhost:15002/;token={token}", f"{GIVEN['table']}_2"
            )
        spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    GIVEN: dict[str, Any] = json.load(sys.stdin)
    main()
