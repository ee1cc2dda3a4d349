"""Compares reading a table of the embedded service into Arrow and pandas with pyodps.

Three cases return the same rows: a raw read of the same bodies (the cost of HTTP alone), pyodps'
`MaxStorageClient` (one split after another, as its API provides) and odps_nb. Service, peer and
client share the machine's cores, so the figures are ratios of medians.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

import odps_nb
from benchmarks._measure import Case, Goal, compare, header, summary
from benchmarks._peer import pyodps_entry
from benchmarks._slow_line import slow_line
from odps_nb.access.connection import Connection
from odps_nb.client.read.plan import ReadPlan
from odps_nb.client.reading import open_read_session
from odps_nb.terms import Split, TableName
from odps_nb.wire.calls import ReadRows

TABLE = "orders"
COLUMNS = ("id", "customer", "quantity", "status", "weight", "created")
ROUNDS = 9
SPLITS = 8
ROUND_TRIP, SPEED = 0.040, 50e6  # seconds; bytes per second and connection


def pyodps_client(connection: Connection):
    from odps.maxstorage import MaxStorageClient

    return MaxStorageClient(odps=pyodps_entry(connection.profile))


def peer_arrow(client) -> pa.Table:
    session = client.create_table_read_session(TABLE, columns=list(COLUMNS))
    batches = []
    for split in session.splits:
        with session.open_arrow_reader(split, max_batch_rows=20_000) as reader:
            batches.extend(reader)
    return pa.Table.from_batches(batches)


def raw_bodies(connection: Connection, splits: int | None = None) -> int:
    """Read and discard all splits, one after another or ``splits`` concurrently."""
    storage = connection._storage
    name = TableName(project=connection.profile.project, table=TABLE)
    session = open_read_session(storage, ReadPlan(table=name, columns=COLUMNS, splits=splits))

    def drain(split: Split) -> int:
        buffer, total = bytearray(1 << 20), 0
        request = ReadRows(
            table=session.table, session_id=session.session_id, split=split, max_batch_rows=20_000
        )
        with storage.open(request) as answer:
            while count := answer.readinto(buffer):
                total += count
        return total

    with ThreadPoolExecutor(splits or 1) as workers:
        return sum(workers.map(drain, session.splits))


def same_rows(ours: pa.Table, theirs: pa.Table) -> None:
    """Exit unless both tables have the same rows; compares in pandas, where NaN equals NaN."""
    theirs = theirs.select(ours.column_names).cast(ours.schema)  # DATETIME has no zone here
    if not ours.sort_by("id").to_pandas().equals(theirs.sort_by("id").to_pandas()):
        raise SystemExit("bench: odps_nb and pyodps returned different rows")


def near(connection: Connection) -> None:
    """Compare over loopback, where the service's processor time limits all cases."""
    header("tables: 2,048,000 rows × 6 columns of the embedded service, over loopback HTTP")
    client = pyodps_client(connection)
    table = connection.table(TABLE)

    def ours() -> pa.Table:
        return table.read(columns=COLUMNS).to_arrow()

    same_rows(ours(), peer_arrow(client))
    compare(
        "table → Arrow",
        Case("odps_nb", ours),
        Case("pyodps maxstorage", lambda: peer_arrow(client)),
        Case("raw bodies, nothing decoded", lambda: raw_bodies(connection)),
        rounds=ROUNDS,
        # the remaining time is spent on checking text, which the peer omits: 20 ms for 24 MB
        goals=[Goal("pyodps maxstorage", 1), Goal("raw bodies, nothing decoded", 0.75)],
    )
    compare(
        "table → pandas",
        Case("odps_nb", lambda: table.read(columns=COLUMNS).to_pandas()),
        Case("pyodps maxstorage", lambda: peer_arrow(client).to_pandas()),
        rounds=ROUNDS,
    )


def far(connection: Connection) -> None:
    """Compare over a simulated network, like that to a remote service."""
    header(f"the same over {ROUND_TRIP * 1e3:.0f} ms and {SPEED / 1e6:.0f} MB/s per connection")
    profile = connection.profile
    with (
        slow_line(profile.endpoint, round_trip=ROUND_TRIP, speed=SPEED) as endpoint,
        slow_line(profile.tunnel_endpoint, round_trip=ROUND_TRIP, speed=SPEED) as tunnel,
        odps_nb.connect(
            endpoint=endpoint,
            tunnel_endpoint=tunnel,
            project=profile.project,
            access_id=profile.access_id,
            access_key=profile.access_key,
        ) as distant,
    ):
        client = pyodps_client(distant)
        table = distant.table(TABLE)

        def ours() -> pa.Table:
            return table.read(columns=COLUMNS, splits=SPLITS).to_pandas()

        same_rows(table.read(columns=COLUMNS, splits=SPLITS).to_arrow(), peer_arrow(client))
        compare(
            f"table → pandas, {SPLITS} splits",
            Case("odps_nb", ours),
            Case("pyodps maxstorage", lambda: peer_arrow(client).to_pandas()),
            Case("raw bodies side by side, nothing decoded", lambda: raw_bodies(distant, SPLITS)),
            rounds=ROUNDS,
            # two cores also run the service and the simulated network
            goals=[
                Goal("pyodps maxstorage", 5),
                Goal("raw bodies side by side, nothing decoded", 0.85),
            ],
        )


def main() -> None:
    with odps_nb.connect("local") as connection:
        near(connection)
        far(connection)
    summary()


if __name__ == "__main__":
    main()
