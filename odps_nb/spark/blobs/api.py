"""`blob_map` and `with_blobs`: process or fetch the blobs of a column in Spark tasks.

`blob_map` fetches a blob and calls the function in the same task, so Spark receives only the
function's results. Passing the bytes through the JVM and back would take six times as much work.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.client.calls.progress import Phase, Progress
from odps_nb.errors import ArgumentError, ConversionError, shown
from odps_nb.explained import explained
from odps_nb.spark.blobs.task import LARGEST_VALUE, BlobTask, Row, map_batches
from odps_nb.spark.launch.connect import check_dataframe
from odps_nb.spark.progress.actions import counter_of
from odps_nb.spark.progress.counting import Activity
from odps_nb.spark.tasks.credentials import TaskProfile, profile_of
from odps_nb.spark.tasks.shipping import map_in_arrow
from odps_nb.spark.versions import arrow_schema, struct_of
from odps_nb.terms import Compression, format_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from odps_nb.access.connection import Connection
    from odps_nb.client.auth.profile import Profile
    from odps_nb.wire.frames import BlobRecord

NEW_BLOB = "struct<data: binary, mime_type: string, file_name: string>"
"""Spark type of a whole blob, returned by `with_blobs` and uploaded by `odps_nb.spark.write`.

``data`` is the content; the other two fields may be null. In the schema of `blob_map`, use it for
columns whose values are `odps_nb.NewBlob` objects or bytes.
"""


@explained
def blob_map(
    df: DataFrame,
    odps: Connection | Profile | str | None,
    ref_column: str,
    fn: Callable[[BlobRecord], Row],
    schema: StructType | str,
    *,
    on_error: str = "raise",
    compression: str | Compression | None = None,
    progress: Progress = None,
) -> DataFrame:
    """Add columns to a DataFrame, computed from the blobs that a column refers to.

    Parameters
    ----------
    df
        Any DataFrame; all its columns and rows are kept.
    odps
        Connection to the service that stores the blobs, as in `odps_nb.spark.read`.
    ref_column
        The column of blob references, as returned by a read. If a reference is null, `fn` is not
        called and the new columns are null.
    fn
        Called on an executor, once per row and task attempt (``spark.task.maxFailures`` limits the
        attempts). Its argument is one verified blob, with ``data``, ``mime_type`` and
        ``file_name``. Returns a dict (absent keys are null), a tuple in the order of `schema`, or
        ``None`` if all new columns are null. For a column of type `NEW_BLOB` it may return an
        `odps_nb.NewBlob` or bytes, which `odps_nb.spark.write` then uploads.
    schema
        The new columns: a StructType, or a string like ``"width int, thumbnail binary"``.
    on_error
        What to do if a value is not a reference, if its blob is missing, damaged or too large, if
        `fn` raises, or if its result does not fit `schema`. ``"raise"`` fails the job with an error
        that names the row and its reference. ``"null"`` sets the new columns of this row to null.
        Any other string is the name of an additional string column that contains each row's error.
        The job always fails if the service does not respond or refuses the keys.
    compression
        Compression of the blobs during transfer.
    progress
        As in `odps_nb.spark.read`.

    Raises
    ------
    ArgumentError
        The column is missing, a new column has an existing name, or an argument is invalid.
    ConfigError
        `odps` is ``None``, and the environment configures no service.
    ConversionError
        The reference column is neither text nor bytes; in a task, a result of `fn` does not fit
        `schema`.
    LimitExceededError
        In a task: `fn` returned a value of more than 256 MB.

    Examples
    --------
    >>> import odps_nb.spark
    >>> media = odps_nb.spark.read(spark, odps, "media", columns=["name", "content"], limit=3)
    >>> def head(blob):
    ...     return {"magic": bytes(blob.data[:3])}
    >>> found = odps_nb.spark.blob_map(media, odps, "content", head, "magic binary")
    >>> {row.name: bytes(row.magic) for row in found.collect()}["mountains.jpg"]
    b'\\xff\\xd8\\xff'
    """
    from pyspark.sql.types import StructType

    check_dataframe(df)
    new_schema = struct_of(schema) if isinstance(schema, str) else schema
    if not isinstance(new_schema, StructType):
        raise ArgumentError(
            f"schema is {shown(schema)}; it must be a StructType, or text with names and types",
            argument="schema",
            hint="pass e.g. schema='width int, thumbnail binary'",
        )
    task = partial(BlobTask, fn=fn, compression=Compression.of(compression))
    return _mapped(df, odps, ref_column, task, new_schema, "schema", on_error, progress)


@explained
def with_blobs(
    df: DataFrame,
    odps: Connection | Profile | str | None,
    ref_column: str,
    *,
    column: str = "blob",
    max_blob_bytes: int = 16_000_000,
    on_error: str = "raise",
    compression: str | Compression | None = None,
    progress: Progress = None,
) -> DataFrame:
    """Add a column that holds the blobs themselves; meant for small blobs.

    The column is of type `NEW_BLOB`: ``blob.data`` contains the bytes, and the column can be
    written into a BLOB column. Every byte passes through the JVM. To call a Python function on each
    blob, use `blob_map`, which is several times faster and accepts blobs of any size.

    Parameters
    ----------
    df, odps, ref_column, on_error, compression, progress
        As in `blob_map`. If the reference is null, so is the new column.
    column
        Name of the new column.
    max_blob_bytes
        Maximum size of a blob in bytes, up to 256 MB.

    Raises
    ------
    ArgumentError
        The column is missing, the new column already exists, or an argument is out of range.
    ConversionError
        The reference column is neither text nor bytes.
    LimitExceededError
        In a task: a blob is larger than `max_blob_bytes`. Its bytes are not fetched.

    Examples
    --------
    >>> import odps_nb.spark
    >>> media = odps_nb.spark.read(spark, odps, "media", columns=["name", "content"], limit=3)
    >>> whole = odps_nb.spark.with_blobs(media, odps, "content")
    >>> row = whole.filter("name = 'mountains.jpg'").select("blob.*").first()
    >>> row.mime_type, row.file_name, bytes(row.data[:3])
    ('image/jpeg', 'mountains.jpg', b'\\xff\\xd8\\xff')
    """
    from pyspark.sql.types import StructType

    check_dataframe(df)
    if not 0 < max_blob_bytes <= LARGEST_VALUE:
        raise ArgumentError(
            f"max_blob_bytes is {max_blob_bytes}; it must be between 1 and {LARGEST_VALUE}",
            argument="max_blob_bytes",
            hint="use odps_nb.spark.blob_map for larger blobs; the maximum for a value in a Spark "
            f"row is {format_bytes(LARGEST_VALUE)}",
        )
    kind = struct_of(f"blob {NEW_BLOB}").fields[0].dataType
    added = StructType().add(column, kind)
    coding = Compression.of(compression)
    task = partial(BlobTask, fn=_whole, compression=coding, largest=max_blob_bytes)
    return _mapped(df, odps, ref_column, task, added, "column", on_error, progress)


def _whole(record: BlobRecord) -> Row:
    return ({name: getattr(record, name) for name in ("data", "mime_type", "file_name")},)


def _mapped(
    df: DataFrame,
    odps: Connection | Profile | str | None,
    ref_column: str,
    task: partial[BlobTask],
    new_schema: StructType,
    option: str,
    on_error: str,
    progress: Progress,
) -> DataFrame:
    """Append the columns that tasks compute; error messages name the argument ``option``."""
    from pyspark.sql.types import StructField, StructType

    from odps_nb.client.calls.storage import StorageClient

    # A null reference makes the new columns null, even if the schema says NOT NULL.
    added = StructType(
        [StructField(f.name, f.dataType, metadata=f.metadata) for f in new_schema.fields]
    )
    index = _checked_column(df.schema, ref_column, added, option)
    error_column = _error_column(on_error)
    whole = StructType([*df.schema.fields, *added.fields])
    if error_column is not None:
        _require_new([error_column], whole, "on_error")
        whole = whole.add(error_column, "string")
    with StorageClient(profile_of(odps)) as storage:
        profile = TaskProfile.of(storage)
    activity = Activity(operation="blobs", title=f"of {ref_column}", phase=Phase.FETCHING)
    blob_task = task(
        profile=profile,
        column=index,
        name=ref_column,
        added=arrow_schema(added),
        whole=arrow_schema(whole),
        goes_on=on_error != "raise",
        error_column=error_column,
        counter=counter_of(df.sparkSession, activity, progress),
    )

    def map_blobs(batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
        yield from map_batches(blob_task, batches)

    return map_in_arrow(df, map_blobs, whole, name=f"odps blobs of {ref_column}")


def _error_column(on_error: str) -> str | None:
    """Check `on_error`; return the name of the error column, or ``None`` if there is none."""
    if not isinstance(on_error, str) or not on_error:
        raise ArgumentError(
            f"on_error is {on_error!r}; it must be a non-empty string",
            argument="on_error",
            hint="pass 'raise', 'null', or the name of a new column for error messages",
        )
    return None if on_error in ("raise", "null") else on_error


def _checked_column(schema: StructType, name: str, added: StructType, option: str) -> int:
    from odps_nb.spark.tasks.types import require_sent  # imports pyspark

    names = [field.name.casefold() for field in schema.fields]
    if name.casefold() not in names:
        raise ArgumentError(
            f"the DataFrame has no column {name!r}",
            argument="ref_column",
            hint=f"use one of its columns: {', '.join(schema.names)}",
        )
    if names.count(name.casefold()) > 1:
        raise ArgumentError(
            f"the DataFrame has {names.count(name.casefold())} columns {name!r}",
            argument="ref_column",
            hint="rename or drop the others; names are not case-sensitive",
        )
    for field in schema.fields:
        require_sent(field, "cast the column, or drop it before this call")
    for field in added.fields:
        require_sent(field, "return another type, such as a number of months for an interval")
    _require_new(added.names, schema, option)
    index = names.index(name.casefold())
    kind = schema.fields[index].dataType.typeName()
    if kind not in ("string", "binary"):
        raise ConversionError(
            f"column {name!r} does not hold blob references",
            column=name,
            source_type=kind,
            target_type="string",
        )
    return index


def _require_new(names: Iterable[str], schema: StructType, option: str) -> None:
    known = {field.name.casefold() for field in schema.fields}
    new: set[str] = set()
    for name in names:
        folded = name.casefold()
        if folded in known | new:
            raise ArgumentError(
                f"the DataFrame already has a column {name!r}"
                if folded in known
                else f"two new columns have the name {name!r}",
                argument=option,
                hint="give the new column another name, or drop the old one first",
            )
        new.add(folded)
