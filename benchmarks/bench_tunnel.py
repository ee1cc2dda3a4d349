"""Compares reads and writes by the tunnel with stock pyodps, for accounts without the Storage API.

Both sides read the same table into pandas, and write the same data frame with one commit. pyodps
reads with `Table.open_reader`, over one connection. The rows of both sides are compared first.
"""

from __future__ import annotations

from contextlib import ExitStack

import pandas as pd
import pyarrow as pa

import odps_nb
from benchmarks._measure import Case, Goal, compare, header, summary
from benchmarks._peer import pyodps_entry
from benchmarks._slow_line import slow_line
from odps_nb.access.connection import Connection
from odps_nb.client.auth.profile import Profile

COLUMNS = ("id", "customer", "quantity", "status", "weight", "created")
TABLE, TARGET, PEER_TARGET = "bench_tunnel", "bench_tunnel_ours", "bench_tunnel_peer"
ROUNDS = 7
ROUND_TRIP, SPEED = 0.040, 50e6  # seconds; bytes per second and connection
NEAR, FAR = 1.2, 3.0  # goals


def peer_read(entry) -> pd.DataFrame:
    with entry.get_table(TABLE).open_reader(arrow=True) as reader:
        return reader.to_pandas()


def peer_write(entry, frame: pd.DataFrame) -> None:
    entry.write_table(PEER_TARGET, frame, overwrite=True)


def same_rows(ours: pd.DataFrame, theirs: pd.DataFrame) -> None:
    """Exit unless both frames have the same rows."""
    ours, theirs = (
        one[list(COLUMNS)].sort_values(["id", "created"], ignore_index=True)
        for one in (ours, theirs)
    )
    plain = pa.Table.from_pandas(ours, preserve_index=False)
    found = pa.Table.from_pandas(theirs, preserve_index=False).cast(plain.schema)
    if not plain.to_pandas().equals(found.to_pandas()):
        raise SystemExit("bench: odps_nb and pyodps returned different rows")


def prepare(connection: Connection) -> pd.DataFrame:
    """Create the tables, and return the rows to write."""
    names = ", ".join(COLUMNS)
    connection.sql(f"create table {TABLE} as select {names} from orders")
    schema = connection.table(TABLE).schema
    for name in (TARGET, PEER_TARGET):
        connection.create_table(name, schema)
    return connection.table(TABLE).read().to_pandas()


def both(connection: Connection, frame: pd.DataFrame, goal: float, where: str) -> None:
    """Compare a read and a write."""
    entry = pyodps_entry(connection.profile)
    table, target = connection.table(TABLE), connection.table(TARGET)
    same_rows(table.read().to_pandas(), peer_read(entry))
    compare(
        f"tunnel → pandas{where}",
        Case("odps_nb", lambda: table.read().to_pandas()),
        Case("pyodps", lambda: peer_read(entry)),
        rounds=ROUNDS,
        goals=[Goal("pyodps", goal)],
    )
    target.write(frame, overwrite=True)
    peer_write(entry, frame)
    same_rows(target.read().to_pandas(), connection.table(PEER_TARGET).read().to_pandas())
    compare(
        f"pandas → tunnel{where}",
        Case("odps_nb", lambda: target.write(frame, overwrite=True)),
        Case("pyodps", lambda: peer_write(entry, frame)),
        rounds=ROUNDS,
        goals=[Goal("pyodps", goal)],
    )


def connected(profile: Profile, **addresses: str) -> Connection:
    """Return a connection that uses only the tunnel."""
    return odps_nb.connect(profile, transfer="tunnel", **addresses)


def main() -> None:
    with odps_nb.connect("local") as local, ExitStack() as stack:
        frame = prepare(local)
        profile = local.profile
        header(f"tunnel: {len(frame):,} rows × {len(COLUMNS)} columns, over loopback HTTP")
        both(stack.enter_context(connected(profile)), frame, NEAR, "")
        header(f"the same over {ROUND_TRIP * 1e3:.0f} ms and {SPEED / 1e6:.0f} MB/s per connection")
        line = {"round_trip": ROUND_TRIP, "speed": SPEED}
        distant = connected(
            profile,
            endpoint=stack.enter_context(slow_line(profile.endpoint, **line)),
            tunnel_endpoint=stack.enter_context(slow_line(profile.tunnel_endpoint, **line)),
        )
        both(stack.enter_context(distant), frame, FAR, ", slow network")
    summary()


if __name__ == "__main__":
    main()
