"""`Faces`: functions of higher floors for progress, pictures and Spark, passed in as a value.

`Connection`, `Table`, `Scan` and `Blob` never import upward. They hold a `Faces`, which
``odps_nb._faces`` fills with functions that import the notebook or Spark only when called.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from odps_nb.client.calls.progress import Progress, ProgressListener, silent

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from odps_nb.access.blob import BlobColumn
    from odps_nb.access.connection import Connection
    from odps_nb.access.elsewhere import Address
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.scan import Scan
    from odps_nb.access.table import Table
    from odps_nb.client.blob.glances import Glance
    from odps_nb.schema import TableSchema

__all__ = [
    "PLAIN",
    "AfterCell",
    "Explorer",
    "Faces",
    "Gallery",
    "Listing",
    "MakesListener",
    "SparkRows",
    "Uploader",
]

Bundle = Mapping[str, Any]
AfterCell = Callable[[Callable[[BaseException | None], None]], Callable[[], None]]
"""Registers a function to be called after each cell of a notebook, with the error that ended the
cell; returns a function that unregisters it."""


class MakesListener(Protocol):
    """Makes the display of one operation; its stop button, if it has one, calls ``on_cancel``."""

    def __call__(self, *, on_cancel: Callable[[], None] | None = None) -> ProgressListener:
        """Return a listener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A small table for display: rows under headers, with a caption."""

    headers: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    caption: str = ""


class Explorer(Protocol):
    """A view of remote rows that displays itself in a notebook."""

    @property
    def code(self) -> str:
        """Python that reads the rows that are shown."""

    def close(self) -> None:
        """Stop what it reads, and free what it holds; its static view stays. Idempotent."""


class Gallery(Protocol):
    """A view of blobs in which a person selects some."""

    @property
    def selection(self) -> Sequence[int]:
        """The places of what is selected, in order."""

    def _ipython_display_(self) -> None:
        """Display itself in a notebook; elsewhere raise NotImplementedError, as IPython wants."""

    def close(self) -> None:
        """Stop what it does, and free what it holds; the static page stays. Idempotent."""


class Uploader(Protocol):
    """A file picker that writes to a table, and displays itself in a notebook."""

    @property
    def receipt(self) -> Receipt | None:
        """The last commit; ``None`` before the first."""

    @property
    def error(self) -> BaseException | None:
        """The error that ended the last upload; ``None`` if it succeeded."""

    def close(self) -> None:
        """Stop what it does, and remove what came from the browser. Idempotent."""


class SparkRows(Protocol):
    """A planned Spark query over tables of the service."""

    def summary(self) -> tuple[tuple[str, str], ...]:
        """Return each table with a description of what is read of it."""

    def to_spark(self, *, progress: Progress = None) -> Any:
        """Return a DataFrame of Spark."""

    def to_arrow(self, *, progress: Progress = None) -> pa.Table:
        """Run it and return its rows."""

    def to_pandas(self, *, progress: Progress = None) -> pd.DataFrame:
        """Run it and return its rows."""

    def cancel(self) -> None:
        """Cancel the query, from any thread."""


def _silent(*, on_cancel: Callable[[], None] | None = None) -> ProgressListener:
    return silent


def _no_cells(_: Callable[[BaseException | None], None]) -> Callable[[], None]:
    return lambda: None


def _plain_bundle(_: object) -> Bundle:
    return {}


def _media_type_of_name(head: bytes, size: int, name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _no_explorer(*_: Any) -> Any:
    from odps_nb.errors import MissingDependencyError

    raise MissingDependencyError(
        "this connection was made without a notebook",
        extra="notebook",
        hint="connect with odps_nb.connect(…)",
    )


def _no_gallery(_: BlobColumn) -> Gallery:
    raise NotImplementedError  # IPython then asks for the MIME bundle


def _no_spark(*_: Any, **__: Any) -> Any:
    from odps_nb.errors import MissingDependencyError

    raise MissingDependencyError(
        "this connection was made without Spark",
        extra="spark",
        hint="connect with odps_nb.connect(…) and pip install 'odps-nb[spark]'",
    )


def _reconnect(address: Address) -> Connection:
    from odps_nb.access.connection import Connection
    from odps_nb.access.elsewhere import connect_again

    return connect_again(address, lambda profile, made: Connection(profile, address=made))


@dataclass(frozen=True, slots=True, kw_only=True)
class Faces:
    """Functions of higher floors; the defaults show nothing and have no Spark.

    ``gallery``, ``preview``, ``listing`` and ``rows`` (of a `Scan` or `Result`) return MIME
    bundles for a notebook, already escaped; ``work`` makes the view of blobs in which some can be
    selected. ``media_type`` takes the first 64 kB of a file, its
    size and its name. ``reconnect`` makes a connection of what a pickle holds.
    """

    listener: MakesListener = _silent
    after_cell: AfterCell = _no_cells
    to_spark: Callable[[Scan, Any, Progress], Any] = _no_spark
    rows_to_spark: Callable[[Any, pa.Table, TableSchema], Any] = _no_spark
    spark_write: Callable[[Table, Any, Mapping[str, Any]], Receipt] = _no_spark
    spark_columns: Callable[[Any], TableSchema] = _no_spark
    spark_sql: Callable[[Connection, Any, str, int | None], SparkRows] = _no_spark
    gallery: Callable[[BlobColumn], Bundle] = _plain_bundle
    work: Callable[[BlobColumn], Gallery] = _no_gallery
    preview: Callable[[Glance], Bundle] = _plain_bundle
    listing: Callable[[Listing], Bundle] = _plain_bundle
    media_type: Callable[[bytes, int, str], str] = _media_type_of_name
    rows: Callable[[Any], Bundle] = _plain_bundle
    explore: Callable[[Any, int, int, int | None], Explorer] = _no_explorer
    upload: Callable[[Table, Any, bool, str], Uploader] = _no_explorer
    reconnect: Callable[[Address], Connection] = _reconnect


PLAIN = Faces()
