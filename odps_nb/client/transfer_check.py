"""Checks which transfer services an account has, with one session request to each.

The checks do not change a connection's choice (`TransferChoice`), and read no rows: they open
sessions, which then expire. `odps-nb doctor` and `odps-nb probe` show the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.version_1 import OverVersion1
from odps_nb.client.catalog import iter_partitions
from odps_nb.client.read.session import (
    DEFAULT_SPLIT_BYTES,
    DEFAULT_SPLIT_ROWS,
    ready_session,
)
from odps_nb.client.transfer import refuses_service
from odps_nb.errors import InvalidRequestError, OdpsNbError, ServiceError
from odps_nb.schema import OdpsType, TypeCode, has_any, has_blob, is_readable
from odps_nb.terms import (
    PartitionSpec,
    SessionStatus,
    SplitMode,
    TableName,
    Transfer,
    TransferMode,
    count_of,
)
from odps_nb.wire.calls import CreateReadSession, ReadSessionAnswer
from odps_nb.wire.control import GetTable
from odps_nb.wire.tunnel.calls import GetDownload, OpenDownload, TableOf

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

MAX_TABLES = 8
"""Maximum number of tables that `find_sample` inspects."""
_POLL_SECONDS = (0.5, 2.0)
"""Pauses before the requests for the state of a download session that is not ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTable:
    """A table for the checks: one of its columns and, if it is partitioned, one partition."""

    table: TableName
    column: str
    partition: PartitionSpec = PartitionSpec()  # noqa: RUF009  a frozen value
    blobs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCheck:
    """The result for one service: ``found`` describes the session; ``error`` is set on failure.

    ``missing``: the error may mean that the account lacks the service, so that a connection with
    ``transfer="auto"`` tries the next one.
    """

    service: Transfer
    found: str = ""
    error: OdpsNbError | None = None
    missing: bool = False

    @property
    def ok(self) -> bool:
        """Whether the service opened a session."""
        return self.error is None


def find_sample(storage: StorageClient, names: Iterable[str]) -> CheckedTable | None:
    """Return a table for the checks, or ``None`` if none of the first `MAX_TABLES` is suitable.

    A table without partitions and BLOB columns is preferred. Tables that the key may not describe
    are skipped.
    """
    samples: list[CheckedTable] = []
    for name, _ in zip(names, range(MAX_TABLES), strict=False):
        try:
            sample = sample_of(storage, storage.profile.table(name))
        except ServiceError:
            continue
        if sample is None:
            continue
        if _rank(sample) == (False, False):
            return sample
        samples.append(sample)
    return min(samples, key=_rank, default=None)


def _rank(sample: CheckedTable) -> tuple[bool, bool]:
    return sample.blobs, bool(sample.partition.items)


def sample_of(storage: StorageClient, table: TableName) -> CheckedTable | None:
    """Return a column and a partition of a table; ``None`` if the services cannot read it.

    Views, external tables, and BLOB and JSON columns are skipped, because not all services read
    them. The tunnel needs a partition of a partitioned table.
    """
    info = storage.control(GetTable(table=table))
    columns = [column for column in info.schema.columns if _is_plain(column.type)]
    if info.kind or not columns:
        return None
    partition: PartitionSpec | None = PartitionSpec()
    if info.schema.partition_columns:
        specs = (item.spec for item in iter_partitions(storage, table))
        partition = next((spec for spec in specs if spec.has_name), None)
    if partition is None:
        return None
    blobs = any(has_blob(column.type) for column in info.schema.columns)
    return CheckedTable(table=table, column=columns[0].name, partition=partition, blobs=blobs)


def check_transfers(storage: StorageClient, sample: CheckedTable) -> list[TransferCheck]:
    """Open a session of one column by each service, and return one result for each.

    Sends at most three requests to each service. The client's own choice (`StorageClient.transfer`)
    is neither used nor changed.
    """
    ways: dict[Transfer, Callable[[], str]] = {
        Transfer.STORAGE: lambda: _read_session(storage, sample, old=False),
        Transfer.STORAGE_V1: lambda: _read_session(storage, sample, old=True),
        Transfer.TUNNEL: lambda: _download_session(storage, sample),
    }
    return [_checked(service, way, sample.table) for service, way in ways.items()]


def choice_among(checks: Sequence[TransferCheck], mode: TransferMode) -> TransferCheck:
    """Return the result of the service that a new connection with this mode uses.

    If the result is an error, reads and writes of the connection raise it.
    """
    by_service = {check.service: check for check in checks}
    useful = [by_service[service] for service in mode.services]
    return next((check for check in useful if not check.missing), useful[0])


def _checked(service: Transfer, way: Callable[[], str], table: TableName) -> TransferCheck:
    try:
        return TransferCheck(service=service, found=way())
    except OdpsNbError as error:
        missing = isinstance(error, ServiceError) and refuses_service(error, table)
        return TransferCheck(service=service, error=error, missing=missing)


def _is_plain(odps: OdpsType) -> bool:
    return is_readable(odps) and not has_any(odps, (TypeCode.BLOB, TypeCode.JSON))


def _read_session(storage: StorageClient, sample: CheckedTable, *, old: bool) -> str:
    """Open a read session of the Storage API (``old``: version 1), and describe it.

    A table may support only one split mode, so if the first is refused, the other one is tried.
    """
    modes = ((SplitMode.ROW_OFFSET, DEFAULT_SPLIT_ROWS), (SplitMode.SIZE, DEFAULT_SPLIT_BYTES))
    refusal: InvalidRequestError | None = None
    for mode, number in modes:
        request = CreateReadSession(
            table=sample.table,
            data_columns=(sample.column,),
            split_mode=mode,
            split_number=number,
        )
        try:
            answer: ReadSessionAnswer = storage.call(OverVersion1(request) if old else request)
        except InvalidRequestError as error:
            if refusal is None and not refuses_service(error, sample.table):
                refusal = error
                continue
            raise refusal or error from None
        break
    what = f"a read session of {sample.table}"
    if answer.status is SessionStatus.INIT:
        return f"{what}, which is not ready yet"
    ready_session(storage, answer, sample.table)
    rows = answer.record_count
    return what if rows is None else f"{what}, {count_of(rows, 'row')}"


def _download_session(storage: StorageClient, sample: CheckedTable) -> str:
    of = TableOf(sample.table, sample.partition)
    answer = storage.call(OpenDownload(of=of))
    what = f"a download session of {of}"
    for seconds in _POLL_SECONDS:
        if answer.status is not SessionStatus.INIT:
            break
        CancelToken().wait(seconds)
        answer = storage.call(GetDownload(of=of, download_id=answer.download_id))
    if answer.status is SessionStatus.INIT:
        return f"{what}, which is not ready yet"
    if answer.status is not SessionStatus.NORMAL:
        status = answer.status
        state = status.value if isinstance(status, SessionStatus) else status
        raise ServiceError(
            f"the download session of {of} is {state}",
            code=state,
            hint="run the check again; if this recurs, report the session id " + answer.download_id,
        )
    return f"{what}, {count_of(answer.record_count, 'row')}"
