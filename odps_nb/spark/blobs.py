"""`blob_map`: fetch blobs and compute on them in one place, next to each other (floor 5).

Bytes that cross into the JVM as a column and back out to a function cost six times the work. Here
a task takes references, fetches many blobs with one request, hands each to the function as it
arrives, and sends on only what the function returns. One blob is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from odps_nb.errors import ConfigError, ConversionError
from odps_nb.spark._quiet import without_pandas_notice
from odps_nb.spark.casting import select
from odps_nb.spark.credentials import TaskProfile, profile_of
from odps_nb.spark.faults import task_errors
from odps_nb.terms import BlobReference, Compression

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from odps_nb.access.connection import Connection
    from odps_nb.client.blob import BlobRecord
    from odps_nb.client.profile import Profile
    from odps_nb.client.storage import StorageClient

__all__ = ["BlobTask", "blob_map", "map_batches"]

#: References in one request, rows in one answer batch, bytes of results before they are sent on.
REFERENCES_PER_REQUEST = 64
ROWS_PER_BATCH = 4096
BYTES_PER_BATCH = 16 << 20

Row = dict[str, Any] | tuple[Any, ...] | None


def blob_map(
    df: DataFrame,
    ref_column: str,
    fn: Callable[[BlobRecord], Row],
    schema: StructType | str,
    *,
    odps: Connection | Profile | str | None = None,
    compression: str | Compression | None = None,
) -> DataFrame:
    """Return the DataFrame with new columns computed from the blobs that a column refers to.

    Parameters
    ----------
    df
        Any DataFrame; all its columns and rows are kept.
    ref_column
        The column of blob references, as a read gives them. Where it is null, `fn` is not called
        and the new columns are null.
    fn
        Called once per row, on an executor, with ``data``, ``mime_type`` and
        ``custom_file_name`` of one verified blob. Returns a dict (a key that is absent is null),
        a tuple in the order of `schema`, or ``None`` for nulls.
    schema
        The new columns: a StructType, or text like ``"width int, thumbnail binary"``.
    odps
        Where the blobs are: as in `odps_nb.spark.read`; by default the environment's profile.
    compression
        Content coding of the blobs on their way.

    Raises
    ------
    ConfigError
        No such column, or a new column has the name of an old one.
    ConversionError
        The reference column is neither text nor bytes; in a task, what `fn` returned does not fit.

    Examples
    --------
    >>> import odps_nb.spark
    >>> media = odps_nb.spark.read(spark, odps, "media", columns=["name", "content"], limit=3)
    >>> def head(blob):
    ...     return {"magic": bytes(blob.data[:3])}
    >>> found = odps_nb.spark.blob_map(media, "content", head, "magic binary", odps=odps)
    >>> {row.name: bytes(row.magic) for row in found.collect()}["mountains.jpg"]
    b'\\xff\\xd8\\xff'
    """
    from pyspark.sql.types import StructField, StructType

    from odps_nb.client.storage import StorageClient
    from odps_nb.spark.types import arrow_schema

    asked = cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    # A null reference makes nulls, whatever the schema promises.
    added = StructType([StructField(f.name, f.dataType, metadata=f.metadata) for f in asked.fields])
    index = _checked_column(df.schema, ref_column, added)
    whole = StructType([*df.schema.fields, *added.fields])
    with StorageClient(profile_of(odps)) as storage:
        profile = TaskProfile.of(storage)
    task = BlobTask(
        profile=profile,
        column=index,
        name=ref_column,
        fn=fn,
        added=arrow_schema(added),
        whole=arrow_schema(whole),
        compression=Compression.of(compression),
    )

    def map_blobs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map_batches(task, batches)

    with without_pandas_notice():
        return df.mapInArrow(map_blobs, whole)


def _checked_column(schema: StructType, name: str, added: StructType) -> int:
    names = [field.name.casefold() for field in schema.fields]
    if name.casefold() not in names:
        raise ConfigError(
            f"the DataFrame has no column {name!r}",
            option="ref_column",
            hint=f"its columns are: {', '.join(schema.names)}",
        )
    if twins := [one for one in added.names if one.casefold() in names]:
        raise ConfigError(
            f"the DataFrame has a column {twins[0]!r} already",
            option="schema",
            hint="give the new column another name, or drop the old one first",
        )
    index = names.index(name.casefold())
    kind = schema.fields[index].dataType.typeName()
    if kind not in ("string", "binary"):
        raise ConversionError(
            f"column {name!r} holds no blob references",
            column=name,
            source_type=kind,
            target_type="string",
        )
    return index


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobTask:
    """What a task of `blob_map` needs; pickled with the function that it calls."""

    profile: TaskProfile
    column: int
    name: str
    fn: Callable[[BlobRecord], Row]
    added: pa.Schema
    whole: pa.Schema
    compression: Compression = Compression.NONE


@dataclass(slots=True)
class _Results:
    """Rows that `fn` returned and that were not sent on yet."""

    task: BlobTask
    columns: list[list[Any]] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def __post_init__(self) -> None:
        self.columns = [[] for _ in self.task.added]

    @property
    def is_full(self) -> bool:
        return self.rows >= ROWS_PER_BATCH or self.size >= BYTES_PER_BATCH

    def add(self, row: Row) -> None:
        for values, value in zip(self.columns, _ordered(row, self.task.added), strict=True):
            values.append(value)
            self.size += len(value) if isinstance(value, (bytes, bytearray, str)) else 8
        self.rows += 1

    def take(self, kept: pa.RecordBatch) -> pa.RecordBatch:
        """Put the new columns beside the rows that they belong to, and begin again."""
        made = [
            _as_array(values, field)
            for values, field in zip(self.columns, self.task.added, strict=True)
        ]
        self.columns, self.rows, self.size = [[] for _ in self.task.added], 0, 0
        names = self.task.whole.names
        return select(pa.RecordBatch.from_arrays([*kept.columns, *made], names), self.task.whole)


def map_batches(task: BlobTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run in a task: add the new columns to every batch, in order."""
    with (
        task_errors(f"blobs of column {task.name!r}"),
        task.profile.open() as storage,
    ):
        for batch in batches:
            yield from _map_batch(task, storage, batch)


def _map_batch(
    task: BlobTask, storage: StorageClient, batch: pa.RecordBatch
) -> Iterator[pa.RecordBatch]:
    results, sent = _Results(task), 0
    for row in _rows(task, storage, batch.column(task.column).to_pylist()):
        results.add(row)
        if results.is_full:
            count = results.rows
            yield results.take(batch.slice(sent, count))
            sent += count
    if results.rows:
        yield results.take(batch.slice(sent))


def _rows(task: BlobTask, storage: StorageClient, tokens: list[str | None]) -> Iterator[Row]:
    """Call the function for every reference, in order; ``None`` where there is none."""
    from odps_nb.client.blob import iter_blobs

    for start in range(0, len(tokens), REFERENCES_PER_REQUEST):
        some = tokens[start : start + REFERENCES_PER_REQUEST]
        references = [BlobReference.from_text(one) for one in some if one is not None]
        records = iter_blobs(storage, references, compression=task.compression)
        for token in some:
            yield None if token is None else task.fn(next(records))


def _ordered(row: Row, schema: pa.Schema) -> Iterable[Any]:
    if row is None:
        return [None] * len(schema)
    if isinstance(row, dict):
        if strange := row.keys() - set(schema.names):
            raise ConversionError(
                f"the function returned {sorted(map(str, strange))[0]!r}, which is no column",
                hint=f"the columns are: {', '.join(schema.names)}",
            )
        return [row.get(name) for name in schema.names]
    if isinstance(row, tuple) and len(row) == len(schema):
        return row
    raise ConversionError(
        f"the function returned {type(row).__name__}"
        + (f" of {len(row)}" if isinstance(row, tuple) else ""),
        target_type=f"dict, or tuple of {len(schema)}",
        hint="return a dict by column name, or a tuple with one value per column",
    )


def _as_array(values: list[Any], field: pa.Field) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ConversionError(
            f"the function's values for {field.name!r} do not fit: {error}",
            column=field.name,
            target_type=str(field.type),
        ) from None
