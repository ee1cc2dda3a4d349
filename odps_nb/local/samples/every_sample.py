"""The list of all sample tables; their rows are deterministic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from odps_nb.local.samples import files, orders
from odps_nb.local.samples.files import Batches, Store
from odps_nb.schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample table; ``rows`` yields its batches, partition by partition."""

    name: str
    schema: TableSchema
    comment: str
    rows: Callable[[Store], Batches] = field(repr=False)


SAMPLES = (
    Sample(
        name="orders",
        schema=orders.SCHEMA,
        comment="two million orders from eight days; the last rows of the last day are extremes",
        rows=lambda _: orders.rows(),
    ),
    Sample(
        name="types_all",
        schema=files.TYPES_ALL,
        comment="each scalar type with its extreme values",
        rows=lambda _: files.types_all(),
    ),
    Sample(
        name="media",
        schema=files.MEDIA,
        comment="about fifty files of many kinds, a few of them malformed",
        rows=files.media,
    ),
    Sample(
        name="documents",
        schema=files.DOCUMENTS,
        comment="scanned pages: blobs inside an array of structs",
        rows=files.documents,
    ),
)
