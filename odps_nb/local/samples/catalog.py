"""The sample tables that a new folder of the embedded service holds (side ``local``).

Made by code, the same each time: ``orders`` to read and aggregate, ``types_all`` to see each
type with its extremes, ``media`` and ``documents`` to look at blobs. Sees floor 0 and ``wire``
only; how rows and blobs are stored is the service's business.
"""

from __future__ import annotations

from odps_nb.local.samples import documents, media, orders, types_all
from odps_nb.local.samples.values import Sample, SampleBatch, SampleBlob

__all__ = ["SAMPLES", "Sample", "SampleBatch", "SampleBlob"]

SAMPLES: tuple[Sample, ...] = (
    Sample(
        name="orders",
        schema=orders.SCHEMA,
        comment="two million orders of eight days; the last rows of the last day hold extremes",
        rows=orders.rows,
    ),
    Sample(
        name="types_all",
        schema=types_all.SCHEMA,
        comment="each scalar type with its extremes",
        rows=types_all.rows,
    ),
    Sample(
        name="media",
        schema=media.SCHEMA,
        comment="some forty files of many kinds, a few of them traps",
        rows=media.rows,
    ),
    Sample(
        name="documents",
        schema=documents.SCHEMA,
        comment="scanned pages: blobs inside an array of structs",
        rows=documents.rows,
    ),
)
