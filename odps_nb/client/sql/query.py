"""Submits, awaits and cancels SQL instances (``docs/protocol.md`` section 9.3)."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.new_tables import SQL
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.sql.failures import excerpt, failure_of
from odps_nb.client.sql.settings import NAMESPACE, schema_settings, split_settings
from odps_nb.errors import (
    ArgumentError,
    ConflictError,
    NotFoundError,
    OdpsNbError,
    ProtocolError,
    RequestTimeoutError,
    ServiceError,
    TransportError,
)
from odps_nb.terms import query_title
from odps_nb.wire.control import (
    SQL_TASK,
    SQL_ZONE,
    CancelInstance,
    GetInstance,
    GetInstanceResult,
    GetInstanceSource,
    GetTaskStatus,
    InstanceStatus,
    SubmitSql,
    TaskResult,
    TaskState,
)

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

_log = logging.getLogger("odps_nb")

FIRST_POLL, LAST_POLL = 0.05, 2.0


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
    all_settings, sql = split_settings(sql)
    storage.new_tables.forget_dropped(sql)
    all_settings = {**all_settings, **(settings or {})}
    in_schema = profile.schema and all_settings.get(NAMESPACE) != "false"
    chosen = schema_settings(profile.schema) if in_schema else {}
    if profile.timezone is not None:
        chosen = {**chosen, SQL_ZONE: profile.timezone}
    request = SubmitSql(
        project=profile.project,
        sql=sql,
        name=name,
        settings={**chosen, **all_settings},
        unique_id=unique_id or str(uuid.uuid4()),
        estimates=estimates,
    )
    try:
        answer = storage.submit(request, tracker=tracker, cancel=cancel)
    except OdpsNbError as error:
        if isinstance(error, ServiceError):
            error.excerpt = excerpt(sql, error.message)
        raise
    tasks = answer.result.tasks if answer.result is not None else ()
    for task in tasks:
        if task.failed:
            raise failure_of(storage, task, answer.instance_id, sql)
    return SqlInstance(
        project=profile.project,
        instance_id=answer.instance_id,
        task=name,
        is_over=bool(tasks) and all(task.status for task in tasks),
        sql=sql,
        settings=all_settings,
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
        status = storage.control(GetTaskStatus(project=project, instance_id=name))
    except NotFoundError as error:
        error.hint = (
            "check the id and the project of the connection; the service keeps instances for a "
            "limited time"
        )
        raise
    try:
        sql, settings = storage.control(GetInstanceSource(project=project, instance_id=name))
    except ServiceError as error:  # needed only for display, and to run the query again
        _log.info("could not fetch the SQL text of instance %s: %s", name, error)
        sql, settings = "", {}
    return SqlInstance(
        project=project,
        instance_id=name,
        task=status.tasks[0].name if status.tasks else SQL_TASK,
        is_over=_state(status) == "success",
        sql=sql,
        settings=settings,
    )


def fetch_status(storage: StorageClient, instance: SqlInstance) -> str:
    """Return a job's state in lower case; sends one request.

    States are ``running`` (or ``waiting``, ``suspended``), ``success``, ``failed``, ``cancelled``.
    """
    request = GetTaskStatus(project=instance.project, instance_id=instance.instance_id)
    return _state(storage.control(request))


def _state(status: InstanceStatus) -> str:
    states = [task.status.lower() for task in status.tasks]
    if not status.is_over:
        return states[0] if states and states[0] in _UNDER_WAY else status.status.lower()
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
    if tracker is not None:
        tracker.plan(session_id=instance.instance_id)
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
        cancel.wait(left)  # if it is cancelled, the next request raises
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
    request = GetInstanceResult(project=project, instance_id=instance_id)
    result = storage.control(request, tracker=tracker)
    ended = bad[0] if bad else TaskState(name=instance.task)
    texts = [task.text for task in result.tasks if not bad or task.name == ended.name]
    failed = TaskResult(name=ended.name, status=ended.status, text=texts[0] if texts else "")
    return failure_of(storage, failed, instance_id, instance.sql)


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
    the same ``unique_id``. Without a ``unique_id``, a query that does not find a table of this
    connection is submitted again while the table is new.
    """
    began, spent = storage.monotonic(), 0.0
    while True:
        try:
            instance = submit_sql(
                storage,
                sql,
                name=name,
                settings=settings,
                unique_id=unique_id,
                tracker=tracker,
                cancel=cancel,
            )
            _finish(storage, instance, keeps, timeout, spent, tracker=tracker, cancel=cancel)
        except ServiceError as error:
            attempts = storage.attempts("SQL", tracker=tracker, cancel=cancel)
            attempts.new_table = next(storage.new_tables.named_in(error.message), None)
            attempts.service = SQL
            left = None if timeout is None else timeout - (storage.monotonic() - began)
            if unique_id or error.in_doubt or not attempts.waited_for_new_table(error, left):
                raise
            spent = storage.monotonic() - began
        else:
            storage.new_tables.found(sql)
            return instance


def _finish(
    storage: StorageClient,
    instance: SqlInstance,
    keeps: bool,  # noqa: FBT001  one caller
    timeout: float | None,
    spent: float,
    *,
    tracker: ProgressTracker | None,
    cancel: CancelToken | None,
) -> None:
    """Wait for success; stop the query after the rest of ``timeout``, or if the wait fails."""
    try:
        left = None if timeout is None else timeout - spent
        in_time = _ends(storage, instance, left, tracker, cancel)
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
