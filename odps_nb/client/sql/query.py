"""Submits, awaits and cancels SQL instances (``docs/protocol.md`` section 9.3)."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.sql.settings import schema_settings, split_settings
from odps_nb.client.sql.suggestions import suggest_names
from odps_nb.errors import (
    ArgumentError,
    ConflictError,
    FramingError,
    NotFoundError,
    OdpsNbError,
    ProtocolError,
    RequestTimeoutError,
    ServiceError,
    TransportError,
)
from odps_nb.terms import query_title
from odps_nb.wire.control import (
    COST_TASK,
    SQL_TASK,
    CancelInstance,
    GetInstance,
    GetInstanceResult,
    GetInstanceSource,
    GetTaskStatus,
    InstanceStatus,
    SqlCost,
    SubmitSql,
    TaskResult,
    TaskState,
    query_error,
)

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

_log = logging.getLogger("odps_nb")

FIRST_POLL, LAST_POLL = 0.05, 2.0
#: Name of the setting for a statement's time zone; pyodps also sends it.
SQL_ZONE = "odps.sql.timezone"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlInstance:
    """A submitted query.

    ``is_over``: whether the query was known to have ended when this object was created. ``sql``:
    the text without ``SET`` statements. ``settings``: from the ``SET`` statements and the caller.
    """

    project: str
    instance_id: str
    task: str = SQL_TASK
    is_over: bool = False
    sql: str = field(default="", repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def title(self) -> str:
        """The query's text on one line, shortened for captions."""
        return query_title(self.sql)


def submit_sql(
    storage: StorageClient,
    sql: str,
    *,
    name: str = SQL_TASK,
    settings: Mapping[str, str] | None = None,
    estimates: bool = False,
    unique_id: str | None = None,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> SqlInstance:
    """Start a query and return immediately.

    The request has a unique id (``<Guid>``), so it can be sent again after a lost response without
    running the query twice. Default: a random id. The query runs in the profile's time zone, unless
    ``settings`` or ``SET`` statements at the beginning of the text specify another one.
    """
    profile = storage.profile
    given, sql = split_settings(sql)
    chosen = schema_settings(profile.schema) if profile.schema else {}
    if profile.timezone is not None:
        chosen = {**chosen, SQL_ZONE: profile.timezone}
    given = {**given, **(settings or {})}
    request = SubmitSql(
        project=profile.project,
        sql=sql,
        name=name,
        settings={**chosen, **given},
        unique_id=unique_id or str(uuid.uuid4()),
        estimates=estimates,
    )
    try:
        answer = storage.submit(request, tracker=tracker, cancel=cancel)
    except OdpsNbError as error:
        if isinstance(error, ServiceError):
            error.excerpt = excerpt(sql, error.message)
        if error.in_doubt:
            error.add_note(
                "check whether the service is running this statement before you repeat it"
            )
        raise
    tasks = answer.result.tasks if answer.result is not None else ()
    for task in tasks:
        if task.failed:
            raise _failure(storage, task, answer.instance_id, sql)
    return SqlInstance(
        project=profile.project,
        instance_id=answer.instance_id,
        task=name,
        is_over=bool(tasks) and all(task.status for task in tasks),
        sql=sql,
        settings=given,
    )


def find_sql(storage: StorageClient, instance_id: str) -> SqlInstance:
    """Return a job that any process submitted earlier; sends two requests."""
    if not isinstance(instance_id, str) or not _INSTANCE_ID.fullmatch(instance_id.strip()):
        raise ArgumentError(
            f"{instance_id!r:.80} is not the id of an instance",
            argument="instance_id",
            hint="pass the text of result.instance_id, e.g. 20240131020304567gabcdefgh",
        )
    project, name = storage.profile.project, instance_id.strip()
    try:
        found = storage.control(GetTaskStatus(project=project, instance_id=name))
    except NotFoundError as error:
        error.hint = (
            "check the id and the project of the connection; the service keeps instances for a "
            "limited time"
        )
        raise
    try:
        sql = storage.control(GetInstanceSource(project=project, instance_id=name))
    except ServiceError as error:  # the text is needed only for display
        _log.info("could not fetch the SQL text of instance %s: %s", name, error)
        sql = ""
    return SqlInstance(
        project=project,
        instance_id=name,
        task=found.tasks[0].name if found.tasks else SQL_TASK,
        is_over=_state(found) == "success",
        sql=sql,
    )


def fetch_status(storage: StorageClient, instance: SqlInstance) -> str:
    """Return a job's state in lower case; sends one request.

    States are ``running`` (or ``waiting``, ``suspended``), ``success``, ``failed``, ``cancelled``.
    """
    request = GetTaskStatus(project=instance.project, instance_id=instance.instance_id)
    return _state(storage.control(request))


def _state(found: InstanceStatus) -> str:
    states = [task.status.lower() for task in found.tasks]
    if not found.is_over:
        return states[0] if states and states[0] in _UNDER_WAY else found.status.lower()
    bad = [state for state in states if state != "success"]
    return bad[0] if bad else "success"


_UNDER_WAY = ("running", "suspended", "waiting")
_INSTANCE_ID = re.compile(r"[\w-]{1,128}", re.ASCII)


def wait_sql(
    storage: StorageClient,
    instance: SqlInstance,
    *,
    timeout: float | None = None,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> None:
    """Wait for the query to succeed; after ``timeout`` seconds, raise without cancelling it."""
    if not _ends(storage, instance, timeout, tracker, cancel):
        raise RequestTimeoutError(
            f"the query is still running after {timeout:g} s",
            hint="call wait() again, or cancel() to stop it",
        )
    if (failure := _find_failure(storage, instance, tracker)) is not None:
        raise failure


def _ends(
    storage: StorageClient,
    instance: SqlInstance,
    timeout: float | None,
    tracker: ProgressTracker | None,
    cancel: CancelToken | None,
) -> bool:
    """Wait until the query ends; return ``False`` if it is still running after ``timeout`` s."""
    if instance.is_over:
        return True
    cancel = cancel or CancelToken()
    if tracker is not None:
        tracker.phase(Phase.RUNNING)
    deadline = None if timeout is None else storage.monotonic() + timeout
    delay = FIRST_POLL
    request = GetInstance(project=instance.project, instance_id=instance.instance_id)
    while not storage.control(request, tracker=tracker, cancel=cancel).is_over:
        left = delay if deadline is None else min(delay, deadline - storage.monotonic())
        if left <= 0:
            return False
        if cancel.wait(left):
            cancel.check()
        delay = min(LAST_POLL, delay * 1.5)
    return True


def _find_failure(
    storage: StorageClient, instance: SqlInstance, tracker: ProgressTracker | None
) -> ServiceError | None:
    if instance.is_over:
        return None
    project, instance_id = instance.project, instance.instance_id
    status = GetTaskStatus(project=project, instance_id=instance_id)
    state = storage.control(status, tracker=tracker)
    bad = [task for task in state.tasks if task.status.lower() != "success"]
    if state.tasks and not bad:
        return None
    wanted = GetInstanceResult(project=project, instance_id=instance_id)
    result = storage.control(wanted, tracker=tracker)
    ended = bad[0] if bad else TaskState(name=instance.task)
    texts = [task.text for task in result.tasks if not bad or task.name == ended.name]
    failed = TaskResult(name=ended.name, status=ended.status, text=texts[0] if texts else "")
    return _failure(storage, failed, instance_id, instance.sql)


_MISSING = {"NoSuchProject", "NoSuchTable", "NoSuchPartition", "NoSuchObject"}
# Error texts of queries that projects refuse by default, and hints on how to allow these queries
# (``docs/protocol.md`` 8.6).
_REFUSED = {
    "is full scan with all partitions": "select partitions in the condition, or write "
    "set odps.sql.allow.fullscan=true; above the query",
    "ORDER BY must be used with a LIMIT": "add a limit, or write "
    "set odps.sql.validate.orderby.limit=false; above the query",
}
_NO_PARTITION = re.compile("partition.*(?:does not exist|not found|not exist)", re.IGNORECASE)


def _failure(storage: StorageClient, task: TaskResult, instance_id: str, sql: str) -> ServiceError:
    error: ServiceError = query_error(task)
    if error.code in _MISSING:  # use the error class that REST requests raise
        error = NotFoundError(error.message, code=error.code, hint=error.hint, status=error.status)
    elif _NO_PARTITION.search(error.message):  # the service has no code for this error
        error = NotFoundError(
            error.message,
            code="NoSuchPartition",
            hint="check the partition; table.partitions() lists those that exist",
        )
    elif "already exist" in error.message:  # the service has no code for this error
        of_table = "partition already exist" not in error.message.lower()
        error = ConflictError(
            error.message,
            code="TableAlreadyExists" if of_table else "ObjectAlreadyExists",
            hint="drop it first, or pass if_not_exists",
        )
    for said, hint in _REFUSED.items():
        if said in error.message:
            error.hint = hint
    error.excerpt = excerpt(sql, error.message)
    suggest_names(storage, sql, error)
    error.add_note(f"instance {instance_id}")
    storage.redact(error)
    return error


def run_sql(
    storage: StorageClient,
    sql: str,
    *,
    name: str = SQL_TASK,
    settings: Mapping[str, str] | None = None,
    timeout: float | None = None,
    unique_id: str | None = None,
    keeps: bool = False,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> SqlInstance:
    """Submit a query and wait until it succeeds; cancel it if the wait ends early.

    ``keeps``: do not cancel it after a failed request, so that the caller can repeat the call with
    the same ``unique_id``.
    """
    instance = submit_sql(
        storage,
        sql,
        name=name,
        settings=settings,
        unique_id=unique_id,
        tracker=tracker,
        cancel=cancel,
    )
    if tracker is not None:
        tracker.plan(session_id=instance.instance_id)
    try:
        in_time = _ends(storage, instance, timeout, tracker, cancel)
        failure = _find_failure(storage, instance, tracker) if in_time else None
    except BaseException as error:
        if not (keeps and isinstance(error, OdpsNbError)):
            stop_quietly(storage, instance)
        if isinstance(error, (ProtocolError, ServiceError, TransportError)):
            error.in_doubt = True
            error.add_note(f"instance {instance.instance_id} was started; its outcome is unknown")
        raise
    if not in_time:
        done = stop_quietly(storage, instance)
        late = RequestTimeoutError(
            f"the query did not end within {timeout:g} s and "
            + ("was cancelled" if done else "could not be cancelled: it may still be running"),
            hint="pass a longer timeout=, or pass wait=False and call wait() on the result",
        )
        late.in_doubt = True
        late.add_note(
            f"if instance {instance.instance_id} writes data, it may still have succeeded"
        )
        raise late
    if failure is not None:
        raise failure
    return instance


def cancel_sql(storage: StorageClient, instance: SqlInstance) -> None:
    """Cancel a query on the service; no effect if it has ended."""
    request = CancelInstance(project=instance.project, instance_id=instance.instance_id)
    try:
        storage.control(request)
    except ConflictError as error:
        if error.code != "InvalidStateSetting":  # this code means that the query has ended
            raise


def stop_quietly(storage: StorageClient, instance: SqlInstance) -> bool:
    """Cancel a query while handling another error; return whether it was cancelled."""
    try:
        cancel_sql(storage, instance)
    except OdpsNbError as error:
        # Only log this error, because the caller must see the original one.
        _log.warning("instance %s could not be stopped: %s", instance.instance_id, error)
        return False
    return True


def estimate_sql(
    storage: StorageClient, sql: str, *, settings: Mapping[str, str] | None = None
) -> SqlCost:
    """Return the service's cost estimate for a query; cancel the estimation job if interrupted."""
    instance = submit_sql(storage, sql, name=COST_TASK, settings=settings, estimates=True)
    try:
        wait_sql(storage, instance, cancel=storage.operation())
    except ServiceError:
        raise
    except BaseException:
        stop_quietly(storage, instance)
        raise
    wanted = GetInstanceResult(project=instance.project, instance_id=instance.instance_id)
    tasks = storage.control(wanted).tasks
    if not tasks:
        raise FramingError("the service returned no estimate for the query")
    return SqlCost.decode(tasks[0].text)


_MOST = 100  # maximum characters of the displayed line
_PLACE = re.compile(r"ODPS-\d{7}:\s*\[(\d{1,6}),(\d{1,6})\]")


def excerpt(sql: str, message: str) -> str | None:
    """Return the query line of an error, with a caret below the error's position, or ``None``.

    The service counts lines and columns from 1; ``[1,1]`` means that the position is unknown.

    Examples
    --------
    >>> print(excerpt("select id frm orders", "ODPS-0130161:[1,11] Parse exception"))
      select id frm orders
                ^
    """
    match = _PLACE.search(message)
    if match is None or match.groups() == ("1", "1"):
        return None
    line, column = (int(part) - 1 for part in match.groups())
    lines = sql.strip().split("\n")
    if not 0 <= line < len(lines) or not 0 <= column <= len(lines[line]):
        return None
    start = max(0, column - _MOST * 3 // 4)
    shown = "".join(c if c.isprintable() else " " for c in lines[line][start : start + _MOST])
    return f"  {shown.rstrip()}\n  {' ' * (column - start)}^"
