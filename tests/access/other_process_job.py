"""Functions that other processes run with pickled handles."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import odps_nb
from odps_nb import Blob, BlobColumn, Connection, Result, Scan, Table


def count(table: Table) -> int:
    """Return the number of rows of a table."""
    return table.read().to_arrow(progress=False).num_rows


def rows(handle: Scan | Result) -> list[dict[str, Any]]:
    """Return the rows of a table, scan or result."""
    found: list[dict[str, Any]] = handle.to_arrow(progress=False).to_pylist()
    return found


def content(blob: Blob) -> bytes:
    """Return the bytes of a blob."""
    return blob.bytes()


def contents(column: BlobColumn) -> list[bytes]:
    """Return the bytes of all blobs of a column."""
    return [blob.bytes() for blob in column]


def write(table: Table, value: int) -> int:
    """Write one row."""
    return table.write([{"id": value}], progress=False).rows


def error_of(work: Callable[[Any], Any], handle: Any) -> tuple[str, str, list[str]]:
    """Return the type, hint and notes of the error that the job raises."""
    try:
        work(handle)
    except odps_nb.errors.OdpsNbError as error:
        return type(error).__name__, error.hint or "", list(getattr(error, "__notes__", ()))
    return "", "", []


def with_environment(variables: Mapping[str, str], work: Callable[[Any], Any], handle: Any) -> Any:
    """Run the job with these environment variables."""
    os.environ.update(variables)
    return work(handle)


def connected_first(settings: Mapping[str, str], work: Callable[[Any], Any], handle: Any) -> Any:
    """Run the job after this process has opened a connection."""
    with odps_nb.connect(**settings) as odps:
        assert isinstance(odps, Connection)
        return work(handle)
