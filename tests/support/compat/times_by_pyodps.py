"""A process of the stock client in a time zone, which reads our tables and writes its own.

The arguments are endpoint, project, access id, key, zone and, as JSON, the names of the tables.
Prints JSON: the result of each interface by table.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import time
from typing import Any

import pandas as pd
import pyarrow as pa
from odps import ODPS
from odps.maxstorage import MaxStorageClient

CLOCK = [dt.datetime(2024, 1, 31, 10), dt.datetime(2024, 7, 1, 10, 0, 0, 123000), None]
KINDS = ("datetime", "timestamp", "timestamp_ntz")
WRITES = ("records", "arrow", "pandas", "maxstorage", "maxstorage records")


def objects(kind: str) -> list[Any]:
    """Return the local times in the form that this interface of the stock client accepts."""
    return [pd.Timestamp(v) if v is not None and kind != "datetime" else v for v in CLOCK]


def rows(kind: str) -> pa.Table:
    """Return the local times as Arrow, without a zone."""
    unit = "ms" if kind == "datetime" else "ns"
    return pa.table({"id": range(len(CLOCK)), "t": pa.array(CLOCK, pa.timestamp(unit))})


def name_of(zone: str, who: str, how: str, kind: str) -> str:
    """Return the table that one of the clients wrote with one interface."""
    return f"{zone.rpartition('/')[2]}_{who}_{how}_{kind}".replace(" ", "_").lower()


def write(entry: ODPS, zone: str, how: str, kind: str) -> None:
    """Write the local times with one interface of the stock client."""
    name = name_of(zone, "theirs", how, kind)
    table = entry.create_table(name, f"id bigint, t {kind}")
    if how == "records":
        entry.write_table(name, [list(row) for row in enumerate(objects(kind))])
    elif how == "pandas":
        entry.write_table(name, pd.DataFrame({"id": range(len(CLOCK)), "t": CLOCK}))
    elif how == "arrow":
        with table.open_writer(arrow=True) as writer:
            writer.write(rows(kind))
    else:
        session = MaxStorageClient(odps=entry).create_table_write_session(name)
        opened = session.open_arrow_writer(stream_id="0")
        if how == "maxstorage":
            for batch in rows(kind).to_batches():
                opened.write_batch(batch)
        else:
            opened = opened.get_as_record_writer()
            for row in enumerate(objects(kind)):
                opened.write(list(row))
        opened.close()
        session.commit()


def read(entry: ODPS, name: str) -> dict[str, dict[int, Any]]:
    """Return the values that each interface of the stock client reads, by row number."""
    table = entry.get_table(name)
    found: dict[str, list[Any]] = {}
    with table.open_reader() as reader:
        found["records"] = [tuple(row.values) for row in reader]
    with table.open_reader(arrow=True) as reader:
        found["arrow"] = [row for batch in reader for row in pairs_of(batch)]
    frame = table.to_pandas()
    found["pandas"] = list(zip(frame["id"].tolist(), frame["t"].tolist(), strict=True))
    with entry.execute_sql(f"select id, t from {name}").open_reader(tunnel=True) as reader:
        found["sql"] = [tuple(row.values) for row in reader]
    session = MaxStorageClient(odps=entry).create_table_read_session(name)
    for how in ("maxstorage", "maxstorage records"):
        found[how] = []
        for split in session.splits:
            opened = session.open_arrow_reader(split)
            if how == "maxstorage":
                while (batch := opened.read()) is not None:
                    found[how] += pairs_of(batch)
            else:
                found[how] += [tuple(row.values) for row in opened.get_as_record_reader()]
    return {how: {row: shown(value) for row, value in pairs} for how, pairs in found.items()}


def pairs_of(batch: pa.RecordBatch) -> list[tuple[Any, Any]]:
    """Return the rows of a batch with two columns."""
    return list(zip(*batch.to_pydict().values(), strict=True))


def shown(value: Any) -> str | None:
    """Convert a time to text; a null of any kind becomes None."""
    return None if value is None or value != value else value.isoformat()


def main() -> None:
    """Read the existing rows in the zone, and write the same with each interface."""
    endpoint, project, *keys, zone, names = sys.argv[1:]
    os.environ["TZ"] = zone
    time.tzset()
    entry = ODPS(*keys, project=project, endpoint=endpoint)
    print(json.dumps({name: read(entry, name) for name in json.loads(names)}))
    for how in WRITES:
        for kind in KINDS:
            write(entry, zone, how, kind)


if __name__ == "__main__":
    main()
