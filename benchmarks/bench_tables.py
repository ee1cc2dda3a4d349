"""Tables beside pyodps: one table of the embedded service into Arrow and pandas, in one run.

Three roads to the same rows: a raw read of the same bodies (what HTTP alone costs), pyodps'
`MaxStorageClient` (one split after another, as its API offers it) and odps_nb. Service, peer and
client share the machine's cores, so the figures are ratios of medians.
"""

from __future__ import annotations

import pyarrow as pa

import odps_nb
from benchmarks._measure import Case, compare, header
from odps_nb.access.connection import Connection
from odps_nb.client.read import ReadPlan, open_read_session
from odps_nb.terms import TableName
from odps_nb.wire.calls import ReadRows

TABLE = "orders"
COLUMNS = ("id", "customer", "quantity", "status", "weight", "created")
ROUNDS = 5


def pyodps_client(connection: Connection):
    from odps import ODPS
    from odps.maxstorage import MaxStorageClient

    profile = connection.profile
    entry = ODPS(
        profile.access_id,
        profile.access_key,
        project=profile.project,
        endpoint=profile.endpoint,
        tunnel_endpoint=profile.tunnel_endpoint,
    )
    return MaxStorageClient(odps=entry)


def peer_arrow(client) -> pa.Table:
    session = client.create_table_read_session(TABLE, columns=list(COLUMNS))
    batches = []
    for split in session.splits:
        with session.open_arrow_reader(split, max_batch_rows=65536) as reader:
            batches.extend(reader)
    return pa.Table.from_batches(batches)


def raw_bodies(connection: Connection) -> int:
    """The bytes of all splits, read one after another and thrown away."""
    storage = connection.storage
    plan = ReadPlan(
        table=TableName(project=connection.profile.project, table=TABLE), columns=COLUMNS
    )
    session = open_read_session(storage, plan)
    buffer, total = bytearray(1 << 20), 0
    for split in session.splits:
        request = ReadRows(
            table=session.table, session_id=session.session_id, split=split, max_batch_rows=65536
        )
        with storage.open(request) as answer:
            while count := answer.readinto(buffer):
                total += count
    return total


def same_rows(ours: pa.Table, theirs: pa.Table) -> None:
    """Both roads must lead to the same rows; in pandas a NaN is equal to itself."""
    theirs = theirs.select(ours.column_names)
    if not ours.sort_by("id").to_pandas().equals(theirs.sort_by("id").to_pandas()):
        raise SystemExit("bench: odps_nb and pyodps returned different rows")


def main() -> None:
    header("tables: 2,048,000 rows × 6 columns of the embedded service, over loopback HTTP")
    with odps_nb.connect("local") as connection:
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
        )
        compare(
            "table → pandas",
            Case("odps_nb", lambda: table.read(columns=COLUMNS).to_pandas()),
            Case("pyodps maxstorage", lambda: peer_arrow(client).to_pandas()),
            rounds=ROUNDS,
        )


if __name__ == "__main__":
    main()
