"""The work that the kernel does in each round."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.soak.front import Front

__all__ = ["DONE_BY", "END", "SETUP", "Job", "play"]

Job = Callable[[Front, int], None]
PATIENCE = 10
"""Seconds after which an interrupt without effect is repeated."""

SETUP = """
import json
import ipywidgets
import pandas as pd, pyarrow as pa
import odps_nb, odps_nb.errors, odps_nb.spark
from IPython.display import display
from odps_nb.wire.calls import WireRequest
odps = %odps connect
def misbehave(*rules):
    body = json.dumps({"rules": rules}).encode()
    odps._storage.rest(WireRequest(method="PUT", path="/misbehaviour", body=body))
STALL = {"action": "TableRead", "fault": "stall", "at": 5_000_000, "seconds": 600, "times": 0}
"""

# Stop Java first: if it ends together with the kernel, it leaves temporary files.
END = """
if "spark" in globals():
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
"""


def read_pandas(front: Front, _: int) -> None:
    """Read filtered rows with the magic and its card."""
    front.run(
        '%odps read orders -p ds=2024-01-01 -c id,amount,status -w "quantity >= 9" -o df\n'
        "assert len(df) > 1000; del df"
    )


def read_arrow(front: Front, _: int) -> None:
    """Read with a limit, all types, and a partition as batches, which end early."""
    front.run(
        "rows = odps.table('orders').read(['id', 'status'], limit=20_000).to_arrow()\n"
        "assert rows.num_rows == 20_000\n"
        "types = odps.table('types_all').read().to_arrow()\n"
        "batches = odps.table('orders').read(partitions='ds=2024-01-02').batches()\n"
        "assert next(batches).num_rows\n"
        "batches.close()\n"
        "del rows, types, batches"
    )


def interrupt_read(front: Front, _: int) -> None:
    """Interrupt a read whose splits stall.

    Python discards a KeyboardInterrupt in the callback of a weak reference, so it may be necessary
    to repeat it.
    """
    pressed = float("-inf")

    def press(data: Mapping[str, Any]) -> None:
        nonlocal pressed
        is_reading = data.get("text/plain", "").startswith("read local.orders: reading, ")
        if is_reading and time.monotonic() > pressed + PATIENCE:
            pressed = time.monotonic()
            front.interrupt()

    front.run("misbehave(STALL)")
    front.run("%odps read orders --all -o all_orders", error="CancelledError", on_output=press)
    front.run("misbehave()")


def cancel_background(front: Front, _: int) -> None:
    """Cancel a background read by its handle after rows have arrived."""
    front.run("misbehave(STALL)")
    front.run("%odps read orders --all --bg -o handle")
    front.run(
        "import time\n"
        "listing = %odps status\n"
        "while not listing.rows[-1][2].startswith('reading, '):\n"
        "    time.sleep(0.02)\n"
        "    listing = %odps status\n"
        "handle.cancel()\n"
        "try:\n    handle.result(60)\n"
        "except odps_nb.errors.CancelledError:\n    del handle, listing\n"
        "misbehave()"
    )


def gallery(front: Front, turn: int) -> None:
    """Open a gallery: tiles, one enlarged, a selection; then close it."""
    front.run("shown = odps.table('media').blobs('content')\ndisplay(shown)")
    (widget,) = front.opened
    front.tell(widget, {"do": "ready"}, until=["gallery"])
    front.tell(widget, {"do": "tiles", "indices": list(range(12))}, until=["tiles"])
    front.tell(widget, {"do": "large", "index": turn % 20}, until=["large"])
    front.run("shown.close()\ndel shown")


def explorer(front: Front, turn: int) -> None:
    """Open an explorer: pages, a search, the profile; then close it."""
    front.run("shown = odps.table('orders').explore()\ndisplay(shown)")
    (widget,) = front.opened
    front.tell(widget, {"do": "ready"}, until=["table", "page", "profile"])
    front.tell(widget, {"do": "page", "start": 1000 * (turn % 90)}, until=["page"])
    said = front.tell(widget, {"do": "bar", "column": 0, "bar": 0}, until=["page"])
    (page,) = (one for one in said if one["kind"] == "page")
    where = page["conditions"][0]["where"]
    front.tell(widget, {"do": "unfilter", "index": 0, "where": where}, until=["page"])
    front.run("shown.close()\ndel shown")


def write(front: Front, _: int) -> None:
    """Create a table, append to it, overwrite it, update it by key, and drop it."""
    front.run(
        "frame = pd.DataFrame({'id': range(50_000), 'name': ['some text'] * 50_000})\n"
        "made = odps.create_table('soak_rows', frame)\n"
        "assert made.write(frame).rows == 50_000\n"
        "assert made.write(frame, overwrite=True).rows == 50_000\n"
        "assert made.read().to_arrow().num_rows == 50_000\n"
        "odps.drop_table('soak_rows')\n"
        "keyed = odps.create_table('soak_keyed', 'id bigint, pieces bigint', primary_key='id')\n"
        "keyed.upsert(frame[['id']][:100].assign(pieces=1))\n"
        "keyed.delete(frame[['id']][:50])\n"
        "assert keyed.read().to_arrow().num_rows == 50\n"
        "odps.drop_table('soak_keyed')\n"
        "del frame, made, keyed"
    )


def blobs(front: Front, _: int) -> None:
    """Save blobs as files and write them back; read one that is seekable."""
    front.run(
        "import os, shutil, zipfile\n"
        "column = odps.table('media').read(['name', 'content'], limit=20).to_pandas()\n"
        "os.mkdir('saved')\n"
        "odps.blobs(column['content']).save('saved')\n"
        "odps.table('soak_files').write_files('saved', create=True)\n"
        "odps.drop_table('soak_files')\n"
        "shutil.rmtree('saved')\n"
        "archive = odps.table('media').blobs('content', where=\"name = 'bundle.zip'\")[0]\n"
        "with archive.open(seek=True) as file, zipfile.ZipFile(file) as opened:\n"
        "    opened.namelist()\n"
        "del column, archive, file, opened"
    )


def sql(front: Front, _: int) -> None:
    """Run a query with the magic and one with the connection; close the explorer."""
    front.run("%%odps sql -o found\nselect status, count(*) n from orders group by status")
    front.run("odps.sql('select max(id) m from orders').to_pandas()\ndel found")
    front.run("ipywidgets.Widget.close_all()")  # no variable holds the explorer of a SQL cell


def errors(front: Front, _: int) -> None:
    """Cause common errors: a wrong name, filter and query, and a broken response."""
    front.run("odps.table('no_such_table').read().to_pandas()", error="NotFoundError")
    front.run("%odps read orders -w 'nothing = 1' -o df", error="ArgumentError")
    front.run("odps.sql('selekt 1').to_pandas()", error="InvalidRequestError")
    front.run(
        "cut = {'action': 'TableRead', 'fault': 'cut', 'at': 300_000, 'times': 2}\n"
        "misbehave(cut)\n"
        "assert odps.table('orders').read(partitions='ds=2024-01-03').to_arrow().num_rows > 1000\n"
        "misbehave()"
    )


def reconnect(front: Front, _: int) -> None:
    """Reconnect the magics, and connect in a ``with`` block."""
    front.run(
        "odps = %odps connect\n"
        "with odps_nb.connect() as other:\n"
        "    other.table('orders').head(5)\n"
        "del other"
    )


def engines(front: Front, _: int) -> None:
    """Query a table with DuckDB."""
    front.run(
        "import duckdb\n"
        "rows = odps.table('orders').dataset()\n"
        "duckdb.sql(\"select status, sum(quantity) from rows where ds = '2024-01-01' "
        'group by status").fetchall()\n'
        "del rows"
    )


def spark(front: Front, _: int) -> None:
    """Read and write with one Spark session."""
    front.run(
        "if 'spark' not in globals():\n"
        "    spark = odps_nb.spark.session('local[2]', spark_driver_memory='1g')\n"
        "of = odps_nb.spark.read(spark, odps, 'orders', columns=['status', 'quantity'],\n"
        "                        partitions='ds=2024-01-01', splits=2)\n"
        "odps.create_table('soak_counts', 'status string, count bigint')\n"
        "odps_nb.spark.write(of.groupBy('status').count(), odps, 'soak_counts')\n"
        "odps.drop_table('soak_counts')\n"
        "del of"
    )
    front.run(
        "%%odps spark -t pandas -o found\n"
        "select status, sum(quantity) q from orders where ds = '2024-01-02' group by status"
    )


def spark_anew(front: Front, _: int) -> None:
    """Stop the Spark session, and create a new one in the same JVM."""
    front.run("spark.stop()\ndel spark")
    spark(front, 0)


DONE_BY: Mapping[Job, int] = {
    read_pandas: 1,
    read_arrow: 1,
    gallery: 1,
    explorer: 1,
    write: 1,
    sql: 1,
    errors: 1,
    blobs: 2,
    engines: 2,
    interrupt_read: 2,
    cancel_background: 2,
    reconnect: 3,
    spark: 3,
    spark_anew: 30,
}
"""Each job, and the interval in rounds; all jobs run in the first round."""


def play(front: Front, turn: int, jobs: Mapping[Job, int]) -> Counter[str]:
    """Run a round of these jobs; return their names."""
    done = Counter[str]()
    for job, every in jobs.items():
        if turn % every == 0:
            job(front, turn)
            done[job.__name__] += 1
    return done
