"""Builds the requests for a split's rows, for each service that transfers them.

A read session's ``source`` states where its rows are: in the Storage API's session itself, in
download sessions of the tunnel, or in the result of a query.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.arrow.tunnel_types import tunnel_schema
from odps_nb.arrow.types import arrow_type
from odps_nb.client.calls.version_1 import OverVersion1
from odps_nb.client.read.resume import Opening
from odps_nb.errors import ConversionError
from odps_nb.schema import Column
from odps_nb.terms import Compression, PartitionSpec, RowRangeSplit, Split
from odps_nb.wire.calls import ReadInstance, ReadRows
from odps_nb.wire.tunnel.calls import ReadDownload, ResultOf, TableOf

if TYPE_CHECKING:
    from odps_nb.client.read.plan import ReadSession

ALL_ROWS = 2**32 - 1
"""Value of ``Count`` that requests all rows, as in the C++ client."""

OLD_PREFIX = "v1:"
"""Prefix of the session ids of version 1."""

OpeningAt = Callable[[int], Opening]


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One download session of the tunnel: the rows of a partition, of a table, or of a result.

    ``first`` is the number of its first row in the read session, ``rows`` the number of its rows.
    """

    of: TableOf | ResultOf
    download_id: str
    first: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloads:
    """The download sessions of a read, in the order of their rows.

    ``columns``: the data columns that the tunnel sends, in its order. ``all_columns``: whether
    these are all data columns. ``keys``: the partition columns to append.
    """

    parts: tuple[Download, ...] = ()
    columns: tuple[Column, ...] = ()
    all_columns: bool = True
    keys: tuple[Column, ...] = ()
    compression: Compression = Compression.NONE

    def opening(self, names: frozenset[str], first: int, end: int, row: int) -> Opening:
        """Return the request for rows of the session.

        ``first`` and ``end`` delimit the split in the session; ``row`` counts from ``first``.
        ``names`` are the columns to request, in lower case; empty for all.
        """
        at = first + row
        part = self.parts[bisect_right(self.parts, at, key=lambda piece: piece.first) - 1]
        until = min(end, part.first + part.rows)
        columns = [c for c in self.columns if not names or c.name.casefold() in names]
        columns = columns or list(self.columns[:1])  # a request without columns returns all
        whole = self.all_columns and len(columns) == len(self.columns)
        request = ReadDownload(
            of=part.of,
            download_id=part.download_id,
            offset=at - part.first,
            count=until - at,
            columns=() if whole else tuple(column.name for column in columns),
            compression=self.compression,
        )
        of_result = isinstance(part.of, ResultOf)
        return Opening(
            request=request,
            schema=tunnel_schema(columns, of_result=of_result),
            constants=() if of_result else self._constants(part.of, names),
            end=until - first if until < end else None,
        )

    def _constants(self, of: TableOf | ResultOf, names: frozenset[str]) -> Constants:
        assert isinstance(of, TableOf)
        keys = [c for c in self.keys if not names or c.name.casefold() in names]
        return constants_of(of.partition, keys)


Constants = tuple[tuple[pa.Field, pa.Scalar], ...]


def constants_of(spec: PartitionSpec, keys: Iterable[Column]) -> Constants:
    """Return a partition's columns, each with its value."""
    values = {key.casefold(): value for key, value in spec}
    constants = []
    for column in keys:
        text = values[column.name.casefold()]
        target = arrow_type(column.type)
        try:
            value = pa.scalar(text, pa.string()).cast(target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ConversionError(
                f"the partition value {text!r} of {column.name!r} does not fit {target}",
                column=column.name,
                source_type="string",
                target_type=str(target),
                hint="read other partitions, or read the table with SQL",
            ) from error
        constants.append((pa.field(column.name, target, nullable=column.nullable), value))
    return tuple(constants)


@dataclass(frozen=True, slots=True)
class StorageRows:
    """Rows of a session of the Storage API or, with ``old``, of its version 1."""

    old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRows:
    """Rows of a query's result, in a session of the Storage API."""

    project: str
    instance_id: str
    session_id: str
    task: str
    limited: bool = False

    def opening(self, first: int, end: int, row: int) -> Opening:
        """Return the request for rows of the result; see `Downloads.opening`."""
        return Opening(
            request=ReadInstance(
                project=self.project,
                instance_id=self.instance_id,
                session_id=self.session_id,
                offset=first + row,
                count=end - first - row,
                task_name=self.task,
                enable_limit=self.limited,
            )
        )


Source = StorageRows | Downloads | InstanceRows


def openings(
    session: ReadSession,
    split: Split,
    request: ReadRows,
    keep: Callable[[], str | None],
) -> OpeningAt:
    """Return a function that builds the request for the rows of a split, beginning at a given row.

    Parameters
    ----------
    request
        The request for the whole split, in terms of the Storage API.
    keep
        Keeps the session alive, and returns its route token.
    """
    source = session.source
    if isinstance(source, InstanceRows):
        assert isinstance(split, RowRangeSplit)
        return partial(source.opening, split.offset, split.offset + split.count)
    if isinstance(source, Downloads):
        assert isinstance(split, RowRangeSplit)
        names = frozenset(name.casefold() for name in request.data_columns)
        return partial(source.opening, names, split.offset, split.offset + split.count)
    if source.old:
        return lambda row: _of_version_1(request, session, row)
    return lambda row: Opening(
        request=_from_row(replace(request, route_token=keep()), session, row)
    )


def _from_row(request: ReadRows, session: ReadSession, row: int) -> ReadRows:
    split = request.split
    if not isinstance(split, RowRangeSplit):
        return replace(request, skip_rows=row)
    if not session.prunes:
        return replace(request, split=RowRangeSplit(split.offset + row, split.count - row))
    if split.offset + split.count == session.stored_rows:
        # Omit the last range's end: it is unknown whether the service counts stored or filtered
        # rows.
        request = replace(request, split=RowRangeSplit(split.offset, ALL_ROWS - split.offset))
    return replace(request, skip_rows=row)


def _of_version_1(request: ReadRows, session: ReadSession, row: int) -> Opening:
    """Return the request in version 1, which can neither skip rows nor select columns."""
    plain = replace(request, data_columns=(), route_token=None)
    split = request.split
    if isinstance(split, RowRangeSplit) and not session.prunes:
        part = RowRangeSplit(split.offset + row, split.count - row)
        return Opening(request=OverVersion1(replace(plain, split=part)))
    return Opening(request=OverVersion1(plain), skip=row)
