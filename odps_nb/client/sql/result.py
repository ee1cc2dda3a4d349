"""Reads a SQL instance's result, over the Storage API or the instance tunnel.

See ``docs/protocol.md`` sections 3.14 and 9.4. Also builds the address of an instance's web page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.parallel.fan_out import (
    DEFAULT_MAX_BYTES,
    DEFAULT_WORKERS,
    AdaptiveConcurrency,
    Job,
    fan_out,
)
from odps_nb.client.read.requests import Download, Downloads, InstanceRows, OpeningAt
from odps_nb.client.read.resume import Batches, ResumableRowStream, TextForm, delivered
from odps_nb.client.read.session import plan_ranges
from odps_nb.client.read.tunnel import open_download
from odps_nb.client.sql.csv_result import TextRows, fetch_text_rows
from odps_nb.client.sql.query import FIRST_POLL, LAST_POLL, SqlInstance
from odps_nb.client.sql.settings import BETWEEN
from odps_nb.errors import (
    AccessDeniedError,
    InvalidRequestError,
    NoStorageApiError,
    NotFoundError,
    OdpsNbError,
    QueryError,
    ServiceError,
)
from odps_nb.schema import TableSchema, text_as_binary
from odps_nb.terms import (
    STRICT_TEXT,
    RowRangeSplit,
    SessionStatus,
    TextMode,
    TextOptions,
    TimeUnit,
    Transfer,
)
from odps_nb.wire.calls import (
    LIMITED_RESULT_ROWS,
    CreateInstanceReadSession,
    GetInstanceReadSession,
    Scope,
)
from odps_nb.wire.control import GetProject, rest_request
from odps_nb.wire.tunnel.calls import ResultOf

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.client.calls.storage import StorageClient

PAGE_ROWS = 100_000
_NO_RIGHT = ("NoPermission", "AccessDenied")
NO_ROWS = "InstanceTypeNotSupported"
"""Error code for an instance that is not a query (from pyodps)."""
_TEXT_RESULT = re.compile(rf"{BETWEEN}(?:show|desc|describe|explain)\b", re.IGNORECASE | re.DOTALL)
"""Statements whose results the tunnel does not transfer (older ones fail with status 500)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSession:
    """A session over a query's result; the server keeps the session for a day.

    ``row_limit``: the service returns at most this number of rows (``None``: all). ``source``
    states where the rows are. ``warning`` states how the rows differ from the query's result, if
    they do.
    """

    instance_id: str
    schema: TableSchema
    row_count: int
    source: InstanceRows | Downloads | TextRows
    row_limit: int | None = None
    warning: str | None = None

    @property
    def session_id(self) -> str:
        """The session's id on the service; empty for a statement without a result."""
        if isinstance(self.source, InstanceRows):
            return self.source.session_id
        parts = self.source.parts if isinstance(self.source, Downloads) else ()
        return next((part.download_id for part in parts), "")

    @property
    def transfer(self) -> Transfer:
        """The service that transfers the rows."""
        return Transfer.STORAGE if isinstance(self.source, InstanceRows) else Transfer.TUNNEL

    @property
    def is_cut(self) -> bool:
        """Whether the result may have more rows than the session can return."""
        return self.row_limit is not None and self.row_count >= self.row_limit

    def shown(self, text: TextOptions) -> TableSchema:
        """Return the schema of the rows that a read with these options returns."""
        return text_as_binary(self.schema) if text.mode is TextMode.BINARY else self.schema

    def check(self, rows: int | None) -> None:
        """Raise if the session may lack some of the first ``rows`` rows (``None``: all rows)."""
        limit = self.row_limit
        if limit is not None and self.is_cut and (rows is None or rows > limit):
            raise AccessDeniedError(
                f"this access key can read only the first {limit:,} rows of a result, and this "
                "result may have more",
                code="NoPermission",
                status=403,
                hint=f"read these rows with result.first({limit}) (of a view: limit={limit}); "
                "write the result to a table with SQL; or ask the project's owner for permission "
                "to download",
            )


def open_result(
    storage: StorageClient,
    instance: SqlInstance,
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> ResultSession:
    """Open a session over a successful query's rows, and wait until it is ready.

    The result of a statement such as ``show tables`` is text (`fetch_text_rows`); that of
    ``create table`` has no columns and no rows. If the key may not read all rows, as in a project
    with protected data, the session is limited (as in pyodps' ``Instance.open_reader``). If the key
    may download no rows at all, or the connection excludes every service that could, the rows are
    read as text (`fetch_text_rows`).
    """
    token = cancel or CancelToken()
    ways: dict[Transfer, Callable[..., ResultSession]] = {
        Transfer.STORAGE: partial(_by_storage, storage, instance, tracker, token),
        Transfer.TUNNEL: partial(_by_tunnel, storage, instance, tracker, token),
    }
    what = f"reading the result of instance {instance.instance_id}"
    choose = partial(storage.transfer.run, what=what, tracker=tracker)
    try:
        return _chosen(storage, instance, choose, ways)
    except (AccessDeniedError, NoStorageApiError) as error:
        return _as_text(storage, instance, error)
    except InvalidRequestError as error:
        if error.code != NO_ROWS:
            raise
        return _of_statement(storage, instance)


def _of_statement(storage: StorageClient, instance: SqlInstance) -> ResultSession:
    """Return the text of a statement that is not a query, such as SHOW."""
    source = fetch_text_rows(storage, instance, of_query=False)
    return ResultSession(
        instance_id=instance.instance_id,
        schema=source.schema,
        row_count=source.rows.num_rows,
        source=source,
    )


def _chosen(
    storage: StorageClient,
    instance: SqlInstance,
    choose: Callable[[Mapping[Transfer, Callable[[], ResultSession]]], ResultSession],
    ways: Mapping[Transfer, Callable[..., ResultSession]],
) -> ResultSession:
    """Open a session of the first service; if it forbids downloads, open a limited session."""
    try:
        return choose(ways)
    except AccessDeniedError as error:
        if error.code not in _NO_RIGHT:
            raise
    session = choose({service: partial(way, limited=True) for service, way in ways.items()})
    return replace(session, row_limit=_row_limit(storage, instance))


def _row_limit(storage: StorageClient, instance: SqlInstance) -> int:
    """Return the maximum rows of a limited result.

    A project may lower the default of 10,000 rows by its property ``READ_TABLE_MAX_ROW`` (Java SDK,
    ``SQLTask.getResult``).
    """
    try:
        info = storage.control(GetProject(project=instance.project))
    except ServiceError:  # the key may not read the properties
        return LIMITED_RESULT_ROWS
    text = info.properties.get("READ_TABLE_MAX_ROW", "")
    limit = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
    return min(limit or LIMITED_RESULT_ROWS, LIMITED_RESULT_ROWS)


def _as_text(
    storage: StorageClient, instance: SqlInstance, error: AccessDeniedError | NoStorageApiError
) -> ResultSession:
    if isinstance(error, AccessDeniedError) and error.code not in _NO_RIGHT:
        raise error
    source, limit = fetch_text_rows(storage, instance), _row_limit(storage, instance)
    return ResultSession(
        instance_id=instance.instance_id,
        schema=source.schema,
        row_count=source.rows.num_rows,
        source=source,
        row_limit=limit,
        warning=f"the result of instance {instance.instance_id} is read as text, with at most "
        f"{limit:,} rows, and all columns are STRING, because it cannot be "
        f"downloaded ({error.message})",
    )


def _by_tunnel(
    storage: StorageClient,
    instance: SqlInstance,
    tracker: ProgressTracker | None,
    cancel: CancelToken,
    *,
    limited: bool = False,
) -> ResultSession:
    if _TEXT_RESULT.match(instance.sql):
        return _of_statement(storage, instance)
    of = ResultOf(instance.project, instance.instance_id)
    try:
        answer = open_download(storage, of, limited=limited, tracker=tracker, cancel=cancel)
    except NotFoundError as error:
        _explain_missing(instance, error)
        raise
    columns, rows = answer.schema.columns, answer.record_count
    part = Download(of=of, download_id=answer.download_id, first=0, rows=rows)
    return ResultSession(
        instance_id=instance.instance_id,
        schema=TableSchema(columns=columns),
        row_count=rows,
        source=Downloads(parts=(part,), columns=columns),
    )


def _by_storage(
    storage: StorageClient,
    instance: SqlInstance,
    tracker: ProgressTracker | None,
    cancel: CancelToken,
    *,
    limited: bool = False,
) -> ResultSession:
    create = CreateInstanceReadSession(
        project=instance.project, instance_id=instance.instance_id, enable_limit=limited
    )
    try:
        answer = storage.call(create, tracker=tracker, cancel=cancel)
    except NotFoundError as error:
        _explain_missing(instance, error)
        raise
    delay = FIRST_POLL
    while answer.status is SessionStatus.INIT:
        if cancel.wait(delay):
            cancel.check()
        delay = min(LAST_POLL, delay * 1.5)
        again = GetInstanceReadSession(
            project=instance.project,
            instance_id=instance.instance_id,
            session_id=answer.download_id,
        )
        answer = storage.call(again, tracker=tracker, cancel=cancel)
    if answer.status is not SessionStatus.NORMAL:
        raise QueryError(
            f"the result of instance {instance.instance_id} cannot be read: {answer.status.value}",
            hint="run the query again",
        )
    return ResultSession(
        instance_id=instance.instance_id,
        schema=answer.schema,
        row_count=answer.record_count or 0,
        source=InstanceRows(
            project=instance.project,
            instance_id=instance.instance_id,
            session_id=answer.download_id,
            task=instance.task,
            limited=limited,
        ),
    )


def _explain_missing(instance: SqlInstance, error: NotFoundError) -> None:
    error.hint = "run the query again: the service keeps a result for a limited time"
    error.add_note(f"result of instance {instance.instance_id}")


def iter_result(
    storage: StorageClient,
    session: ResultSession,
    *,
    limit: int | None = None,
    page_rows: int = PAGE_ROWS,
    workers: int | None = None,
    read_ahead: int | None = None,
    text: TextOptions = STRICT_TEXT,
    unit: TimeUnit = TimeUnit.NANO,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> Batches:
    """Iterate over a result's rows in order; a broken stream resumes at the next unread row.

    The result is read in pages of at most ``page_rows`` rows; up to ``workers`` pages (default: 8)
    are read concurrently. At most ``read_ahead`` bytes of batches are buffered for the consumer; in
    addition, each worker may hold one batch, whose size the service chooses. Leaving the iterator
    early closes its connections.
    """
    total = session.row_count if limit is None else min(limit, session.row_count)
    if isinstance(session.source, TextRows):
        return delivered(_held(session.source, RowRangeSplit(0, total)), tracker)
    pages = plan_ranges(total, math.ceil(total / page_rows))
    several = tracker if len(pages) > 1 else None
    if several is not None:
        for page in pages:
            several.plan_split(str(page), rows=page.count)
    workers = DEFAULT_WORKERS if workers is None else workers
    concurrency = AdaptiveConcurrency(min(len(pages), workers))

    stream = partial(_stream, storage, session, text=text, unit=unit, tracker=tracker)

    def job(page: RowRangeSplit) -> Job[pa.RecordBatch]:
        label = None if several is None else str(page)
        return lambda token: stream(
            page, label=label, concurrency=concurrency, cancel=token
        ).batches()

    batches = fan_out(
        map(job, pages),
        size=lambda batch: int(batch.nbytes),
        max_bytes=DEFAULT_MAX_BYTES if read_ahead is None else read_ahead,
        concurrency=concurrency,
        cancel=storage.operation(cancel),
    )
    return delivered(batches, tracker)


def iter_result_rows(
    storage: StorageClient,
    session: ResultSession,
    rows: RowRangeSplit,
    *,
    text: TextOptions = STRICT_TEXT,
    unit: TimeUnit = TimeUnit.NANO,
    cancel: CancelToken | None = None,
) -> Batches:
    """Iterate over a range of rows with one request; after a failure, resume at the next row."""
    if isinstance(session.source, TextRows):
        return _held(session.source, rows)
    token = storage.operation(cancel)
    return _stream(storage, session, rows, text=text, unit=unit, cancel=token).batches()


def _held(source: TextRows, rows: RowRangeSplit) -> Batches:
    yield from source.rows.slice(rows.offset, rows.count).to_batches()


def _stream(
    storage: StorageClient,
    session: ResultSession,
    rows: RowRangeSplit,
    *,
    text: TextOptions,
    **more: Any,
) -> ResumableRowStream:
    form = TextForm(
        text.mode,
        tuple(session.shown(text)),
        lambda row: (f"row {row} of the result", row),
        stripped=() if text.char_padding else tuple(session.schema),
    )
    return ResumableRowStream(
        storage,
        _openings(session, rows),
        what=f"{rows} of the result of instance {session.instance_id}",
        start=rows.offset,
        expected=rows.offset + rows.count,
        columns=tuple(session.schema),
        text=form,
        **more,
    )


def _openings(session: ResultSession, rows: RowRangeSplit) -> OpeningAt:
    end = rows.offset + rows.count
    assert not isinstance(session.source, TextRows)
    if isinstance(session.source, Downloads):
        return partial(session.source.opening, frozenset(), 0, end)
    return partial(session.source.opening, 0, end)


# -- the web page of an instance ------------------------------------------------------------------
# The address is built as in pyodps 0.13: ``GET /webconsole/host``, below the REST endpoint, returns
# the console's address, to which region, endpoint, project and instance are appended. The older
# Logview is not used, because its token would give access to every reader of a saved notebook.

_REGION = re.compile(r"service\.([a-z]+-[a-z0-9-]+?)(?:-internal|-vpc)?\.", re.IGNORECASE)
_CONSOLE = re.compile(r"https://[\w.-]+(:\d+)?(/[\w./-]*)?", re.ASCII)


def console_of(storage: StorageClient) -> str | None:
    """Return the address of the region's console, or ``None`` if unknown; sends one request."""
    profile = storage.profile
    host = urlsplit(profile.endpoint).hostname or ""
    match = _REGION.match(host)
    region = profile.region or (match[1] if match else None)
    if region is None:
        return None
    try:
        _, body = storage.rest(rest_request("/webconsole/host", scope=Scope()))
    except OdpsNbError:  # the link is optional
        return None
    console = body[:1000].decode("utf-8", "replace").strip().rstrip("/")
    return f"{console}/{quote(region)}" if _CONSOLE.fullmatch(console) else None


def job_page(storage: StorageClient, console: str, instance_id: str) -> str:
    """Return the address of an instance's web page; opening the page requires a login."""
    profile = storage.profile
    where = f"h={quote(profile.endpoint, safe=':/')}&p={profile.project}&i={instance_id}"
    return f"{console}/job-insights?{where}"
