"""Arrow streams as a service or a client sends them."""

from __future__ import annotations

import pyarrow as pa


def ipc(
    *parts: pa.Table | pa.RecordBatch,
    rows: int | None = None,
    schema: pa.Schema | None = None,
    compression: str | None = None,
    deltas: bool = False,
) -> bytes:
    """Return one stream of these parts, each in batches of at most ``rows`` rows.

    ``schema``: that of a stream that may have no parts. ``deltas``: whether a dictionary extends
    that of the previous batch.
    """
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=deltas)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema or parts[0].schema, options=options) as writer:
        for part in parts:
            if isinstance(part, pa.Table):
                writer.write_table(part, max_chunksize=rows)
            else:
                writer.write_batch(part)
    return sink.getvalue().to_pybytes()
