"""`Receipt`: the result of one committed write."""

from __future__ import annotations

from dataclasses import dataclass, field

from odps_nb.access.displayed import DisplayedText
from odps_nb.terms import PartitionSpec, TableName, Transfer, count_of, format_bytes


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Receipt(DisplayedText):
    """Result of one commit, created only after the service has confirmed it.

    ``bytes`` is the size of the rows as Arrow data before compression; ``blob_bytes`` is the size
    of the blobs. ``partition`` is empty for a whole table or for dynamic partitions. ``streams`` is
    the number of write streams; ``seconds`` is the time from the first request to the confirmed
    commit. ``resumed`` is the number of rows sent by an earlier call (`Table.write_files` with
    ``resume``). ``verb`` is ``None`` for `Table.write`, otherwise ``upserted``, ``deleted`` or
    ``upserted or deleted``. ``transfer`` is the service that transferred the rows. Quote
    ``session_id`` in support requests.

    Examples
    --------
    >>> from odps_nb.access.receipt import Receipt
    >>> from odps_nb.terms import TableName
    >>> Receipt(table=TableName(project="p", table="t"), rows=3, bytes=120, session_id="s1")
    <Receipt: 3 rows, 120 B added in p.t; session s1>
    """

    table: TableName
    rows: int
    bytes: int
    session_id: str
    partition: PartitionSpec = field(default_factory=PartitionSpec)
    overwrite: bool = False
    blobs: int = 0
    blob_bytes: int = 0
    streams: int = 1
    seconds: float = 0.0
    resumed: int = 0
    verb: str | None = None
    transfer: Transfer = Transfer.STORAGE

    def __repr__(self) -> str:
        what = f"{count_of(self.rows, 'row')}, {format_bytes(self.bytes)}"
        if self.blobs:
            what += f", {count_of(self.blobs, 'blob')} of {format_bytes(self.blob_bytes)}"
        if self.resumed:
            what += f" ({self.resumed:,} rows from an earlier call)"
        where = f"{self.table} ({self.partition})" if self.partition.items else str(self.table)
        verb = self.verb or ("replaced" if self.overwrite else "added")
        by = "" if self.transfer is Transfer.STORAGE else f" by the {self.transfer}"
        return f"<Receipt: {what} {verb} in {where}{by}; session {self.session_id}>"
