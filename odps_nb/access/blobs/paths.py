"""Finds nested BLOBs by paths like ``pages.element.image`` (``docs/protocol.md`` section 3.11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from odps_nb.errors import ArgumentError, NotFoundError
from odps_nb.schema import ArrayType, MapType, OdpsType, StructType, TableSchema, TypeCode
from odps_nb.terms import TableName, did_you_mean, listed_columns

BlobPath = tuple[str, ...]


def blob_paths(odps: OdpsType, *path: str) -> Iterator[BlobPath]:
    """Iterate over the paths of all BLOB leaves of a type at ``path``, in pre-order."""
    if isinstance(odps, ArrayType):
        yield from blob_paths(odps.element, *path, "element")
    elif isinstance(odps, MapType):
        yield from blob_paths(odps.key, *path, "key")
        yield from blob_paths(odps.value, *path, "value")
    elif isinstance(odps, StructType):
        for member in odps.fields:
            yield from blob_paths(member.type, *path, member.name)
    elif odps.code is TypeCode.BLOB:
        yield path


def find_blob_path(text: str | None, schema: TableSchema, table: TableName) -> BlobPath:
    """Return the only BLOB leaf at or below a path; for ``None``, the only one in the table."""
    known = [path for column in schema.columns for path in blob_paths(column.type, column.name)]
    if text is None:
        return _only(known, table)
    folded = tuple(part.casefold() for part in text.split("."))
    for path in known:
        if tuple(part.casefold() for part in path) == folded:
            return path
    under = [p for p in known if tuple(part.casefold() for part in p[: len(folded)]) == folded]
    if len(under) == 1:
        return under[0]
    names = [".".join(path) for path in under or known]
    if not names:
        raise _without_blobs(table)
    problem = "does not identify a single BLOB" if under else "is not a BLOB"
    raise NotFoundError(
        f"{text!r} {problem} of {table}",
        code="NoSuchColumn",
        hint=f"{did_you_mean(text, names)}its BLOBs are: {listed_columns(names)}",
    )


def _without_blobs(table: TableName) -> NotFoundError:
    return NotFoundError(
        f"{table} has no BLOB column",
        code="NoSuchColumn",
        hint="name another table (if a BLOB column was added later, call table.reload() first)",
    )


def _only(known: list[BlobPath], table: TableName) -> BlobPath:
    if len(known) == 1:
        return known[0]
    if not known:
        raise _without_blobs(table)
    names = ", ".join(".".join(path) for path in known)
    raise ArgumentError(
        f"{table} has {len(known)} BLOB columns", argument="column", hint=f"pass one of: {names}"
    )


def walk_blobs(value: Any, path: BlobPath) -> Iterator[Any]:
    """Iterate over the BLOB leaves of a cell, in order; ``path`` is relative to the column."""
    if value is None:
        return
    if not path:
        yield value
    elif path[0] in ("key", "value") and not isinstance(value, dict):
        for pair in value:  # Arrow returns a MAP as pairs
            yield from walk_blobs(pair[path[0] == "value"], path[1:])
    elif isinstance(value, dict):
        yield from walk_blobs(value.get(path[0]), path[1:])
    else:
        for element in value:
            yield from walk_blobs(element, path[1:])


def map_blobs(value: Any, odps: OdpsType, change: Callable[[Any, BlobPath], Any]) -> Any:
    """Return a cell with each non-null BLOB leaf replaced by ``change(leaf, path)``."""

    def mapped(value: Any, odps: OdpsType, *path: str) -> Any:
        if value is None:
            return None
        if isinstance(odps, ArrayType) and not isinstance(value, (str, bytes)):
            return [mapped(item, odps.element, *path, "element") for item in value]
        if isinstance(odps, MapType):
            pairs = value.items() if isinstance(value, dict) else value
            return [
                (mapped(key, odps.key, *path, "key"), mapped(item, odps.value, *path, "value"))
                for key, item in pairs
            ]
        if isinstance(odps, StructType):
            types = {member.name: member.type for member in odps.fields}
            return {
                name: mapped(member, types[name], *path, name) if name in types else member
                for name, member in dict(value).items()
            }
        return change(value, path) if odps.code is TypeCode.BLOB else value

    return mapped(value, odps)
