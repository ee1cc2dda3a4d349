"""A write of 100 rows to a ledger that records what arrives."""

from __future__ import annotations

import pyarrow as pa

from odps_nb.client.write.session import open_write_session
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import Compression
from tests.support.sockets.ledger import Ledger
from tests.support.sockets.scripted import TABLE, numbers

ROWS = 100


def batches(start: int = 0, stop: int = ROWS, step: int = 10) -> list[pa.RecordBatch]:
    return numbers(start, stop).to_batches(max_chunksize=step)


def write(service: Ledger, *, tracker=None, compression=Compression.NONE, **facts):
    facts.setdefault("retry", RetryPolicy(spread=0.0))
    with (
        service.client(**facts) as storage,
        open_write_session(storage, TABLE, part_bytes=240, tracker=tracker) as session,
    ):
        with session.open_stream() as stream:
            written = stream.write(batches(), compression)
        session.commit()
        return written
