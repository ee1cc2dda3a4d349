"""Checks of the service: each sends a request, and reports the decoded response or error."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from odps_nb.errors import (
    AccessDeniedError,
    FramingError,
    OdpsNbError,
    RequestTimeoutError,
    ServiceError,
    explain,
)
from odps_nb.wire.http_date import parse_date

if TYPE_CHECKING:
    from odps_nb.client.auth.profile import Profile
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.transfer_check import TransferCheck
    from odps_nb.terms import TransferMode
    from odps_nb.wire.control import ProjectInfo

Verdict = Literal["ok", "optional", "bad"]
MAX_SKEW = 300.0
"""Clock skew in seconds that causes a warning; above 900 seconds, the service rejects requests."""
SECONDS = 15.0
"""Maximum seconds for all checks of the service."""
_CONNECT_SECONDS = 5.0
_JOIN_SECONDS = 1.0
_MAX_NAMES = 1000
_QUERY = "select 1 as one"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check; ``optional`` marks components that only some features need."""

    name: str
    verdict: Verdict
    found: str
    to_do: str = ""

    @property
    def ok(self) -> bool:
        """Whether the verdict is ``ok``."""
        return self.verdict == "ok"


def check_service(profile: Profile, *, seconds: float = SECONDS) -> Iterator[Check]:
    """Check the project, the clock, the time zone, SQL and each service that transfers rows.

    Ends after about ``seconds`` in any network, even if a host name is never resolved: checks that
    have no result by then are reported as not checked. If the check of the project fails, the
    others are skipped.
    """
    pending = ["Project", "Clock", "Time zone", "Tables", "SQL"]
    pending += ["Quota"] if profile.quota else []
    pending += ["Storage API", "Storage API v1", "Tunnel", "Rows"]
    yield from _in_time(profile, seconds, seconds / 3, _service, pending)


def check_project(profile: Profile, *, seconds: float = _CONNECT_SECONDS) -> list[Check]:
    """Check the project and its time zone with one request, in about ``seconds`` at most."""
    return list(_in_time(profile, seconds, seconds, _project, ["Project", "Time zone"]))


def _in_time(
    profile: Profile,
    seconds: float,
    timeout: float,
    checks: Callable[[StorageClient], Iterator[Check]],
    pending: list[str],
) -> Iterator[Check]:
    """Run the checks; at the time limit, report each one in ``pending`` as not checked.

    A daemon thread sends the requests, because resolving a host name cannot be interrupted and
    could otherwise delay the limit. ``timeout``: the time-out of one request.
    """
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.options import ClientOptions

    once = ClientOptions(retries=0, connect_timeout=timeout, read_timeout=timeout)
    storage, end = StorageClient(profile, options=once), time.monotonic() + seconds
    results: queue.SimpleQueue[Check | BaseException | None] = queue.SimpleQueue()

    def make() -> None:
        try:
            for check in checks(storage):
                results.put(check)
            results.put(None)
        except BaseException as error:  # noqa: BLE001  raised in the other thread
            results.put(error)

    thread = threading.Thread(target=make, name="odps_nb-checks", daemon=True)
    thread.start()
    try:
        while (outcome := results.get(timeout=max(0.0, end - time.monotonic()))) is not None:
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome.name in pending:
                pending.remove(outcome.name)
            yield outcome
    except queue.Empty:
        verdict: Verdict = "bad"
        for name in pending:
            late = f"not checked: the {seconds:g} s for the checks of the service have passed"
            yield Check(name, verdict, late, _NETWORK)
            verdict = "optional"  # one check was running; the others had not begun
    finally:
        storage.close()  # no other request is sent; the running one ends by its time-out
        thread.join(_JOIN_SECONDS)


def _service(storage: StorageClient) -> Iterator[Check]:
    dates: list[str] = []
    for check in _project(storage, dates):
        yield check
        if not check.ok and check.name == "Project":
            return
        if check.name == "Project":
            yield _clock(dates[0], storage.now())
    names: list[str] = []
    yield (tables := _try("Tables", lambda: _list(storage, names)))
    yield _try("SQL", lambda: _query(storage), or_denied="optional")
    if storage.profile.quota:
        yield _quota(storage)
    if not tables.ok:
        finding = f"{_UNCHECKED}: the tables could not be listed"
        yield Check("Rows", "optional", finding, "follow the advice for the tables")
        return
    yield from _transfers(storage, names)


# -- project, time zone, tables, quota --------------------------------------------------------


def _project(storage: StorageClient, dates: list[str] | None = None) -> Iterator[Check]:
    """Check the project and its time zone; append the response's date to ``dates``."""
    projects: list[ProjectInfo] = []

    def ask() -> str:
        info, date = _fetch_project(storage)
        projects.append(info)
        if dates is not None:
            dates.append(date)
        return f"{info.name} responds at {storage.profile.endpoint}"

    yield _try("Project", ask)
    if projects:
        yield _zone(projects[0].timezone, storage.profile.timezone)


def _fetch_project(storage: StorageClient) -> tuple[ProjectInfo, str]:
    """Return the project and the ``Date`` of the response."""
    from odps_nb.wire.calls import Scope
    from odps_nb.wire.control import GetProject

    request = GetProject(project=storage.profile.project)
    wire = request.encode(scope=Scope(curr_project=request.project))
    headers, body = storage.rest(wire)
    try:
        info = request.decode_answer(body, headers)
    except FramingError as error:
        raise storage.redact(error) from None
    if not info.name:
        raise FramingError(
            "the project document contains no name",
            hint="check the endpoint: the server at this address is not MaxCompute",
        )
    return info, headers.get("Date") or ""


def _zone(project: str | None, own: str | None) -> Check:
    shown = own or "UTC"
    if project is None:
        finding = f"the project does not name its time zone; this connection uses {shown}"
        to_do = "run select current_timezone(), and pass the result as timezone= to connect()"
        return Check("Time zone", "ok" if own else "optional", finding, "" if own else to_do)
    if project == shown or {project, shown} <= _UTC:
        return Check("Time zone", "ok", f"{project}, in the project and in this connection")
    finding = f"{project} in SQL of the project, {shown} in this connection"
    if own:  # the connection sends its zone with each statement
        return Check("Time zone", "ok", f"{project} in the project, {own} in this connection")
    to_do = f"pass timezone={project!r} to connect(), or --timezone {project} to %odps connect"
    return Check("Time zone", "optional", finding, to_do)


_UTC = {"UTC", "Etc/UTC", "GMT", "Etc/GMT"}


def _clock(date: str, now: float) -> Check:
    if (theirs := parse_date(date)) is None:
        to_do = "compare this machine's clock with another one: it may be off by 15 minutes"
        return Check("Clock", "optional", "the service sends no valid Date header", to_do)
    skew = now - theirs
    finding = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the service"
    if abs(skew) > MAX_SKEW:
        to_do = "set this machine's clock: requests are rejected if it is off by over 15 minutes"
        return Check("Clock", "bad", finding, to_do)
    return Check("Clock", "ok", finding)


def _list(storage: StorageClient, names: list[str]) -> str:
    """Append the names of the first tables to ``names``, and return a message."""
    from odps_nb.client.catalog import iter_table_names

    names += itertools.islice(iter_table_names(storage), _MAX_NAMES + 1)
    more = len(names) > _MAX_NAMES
    names.sort()
    count = f"more than {_MAX_NAMES:,}" if more else f"{len(names)}"
    return f"{count} in project {storage.profile.project}"


def _quota(storage: StorageClient) -> Check:
    """Check the quota by looking up its tunnel endpoint."""
    from odps_nb.wire.control import GetTunnelEndpoint

    profile = storage.profile

    def ask() -> str:
        found = f"{profile.quota} was accepted"
        if profile.tunnel_endpoint is None:
            return f"{found}; its tunnel endpoint is {storage.tunnel_endpoint}"
        request = GetTunnelEndpoint(project=profile.project, quota_name=profile.quota)
        storage.rest(request.encode())
        return f"{found}; rows use the tunnel_endpoint that you set"

    return _try("Quota", ask)


# -- SQL --------------------------------------------------------------------------------------


def _query(storage: StorageClient) -> str:
    """Run a query and decode its row; cancel the query if it does not end in time."""
    from odps_nb.client.sql.csv_result import fetch_text_rows
    from odps_nb.client.sql.query import stop_quietly, submit_sql, wait_sql

    began, timeout = time.monotonic(), storage.options.read_timeout
    instance = submit_sql(storage, _QUERY)
    try:
        wait_sql(storage, instance, timeout=timeout, cancel=storage.operation())
        rows = fetch_text_rows(storage, instance).rows.to_pylist()
    except ServiceError:
        raise  # the query has ended
    except OdpsNbError as error:
        done = stop_quietly(storage, instance)
        end = "it was cancelled" if done else "it could not be cancelled and may still be running"
        raise RequestTimeoutError(
            f"instance {instance.instance_id} of {_QUERY} had no result in time ({error.message}); "
            f"{end}",
        ) from None
    if rows != [{"one": "1"}]:
        raise FramingError(f"{_QUERY} returned {str(rows)[:80]}", hint=_NOT_THEIRS)
    return f"{_QUERY} returned its row in {time.monotonic() - began:.1f} s"


# -- transfer of rows -------------------------------------------------------------------------


def _transfers(storage: StorageClient, names: list[str]) -> Iterator[Check]:
    """Check each service that transfers rows, and which of them a new connection uses."""
    from odps_nb.client.transfer_check import check_transfers, find_sample
    from odps_nb.terms import TransferMode

    try:
        sample = find_sample(storage, names)
    except OdpsNbError as error:  # the service does not respond
        yield Check("Rows", "bad", _message(error), _advice(error) or "")
        return
    if sample is None:
        yield _unchecked(names)
        return
    checks = check_transfers(storage, sample)
    working = next((check for check in checks if check.ok), None)
    for check in checks:
        yield _transfer(check, working)
    yield _rows(checks, TransferMode(storage.profile.client_options.transfer))


def _unchecked(names: list[str]) -> Check:
    from odps_nb.client.transfer_check import MAX_TABLES

    if not names:
        finding, to_do = "the project has no tables", "create a table, and run the check again"
    else:
        finding = (
            f"{', '.join(names[:MAX_TABLES])} cannot be used: each is a view or an external table, "
            "lacks readable columns or partitions, or cannot be described with this key"
        )
        to_do = "read another table, e.g. with odps.table(…).head()"
    return Check("Rows", "optional", f"{_UNCHECKED}: {finding}", to_do)


def _transfer(check: TransferCheck, working: TransferCheck | None) -> Check:
    from odps_nb.client.transfer import SWITCH_ON
    from odps_nb.terms import Transfer

    name = str(check.service)
    name = name[0].upper() + name[1:]
    if check.error is None:
        return Check(name, "ok", check.found)
    finding, to_do = _message(check.error), _advice(check.error) or _ASK
    if check.missing and check.service is Transfer.STORAGE:
        to_do = f"blobs and incremental reads need it: {SWITCH_ON}" if working else SWITCH_ON
    elif check.missing and working is not None:
        to_do = f"ignore this while the {working.service} works"
    return Check(name, "bad" if working is None else "optional", finding, to_do)


def _rows(checks: list[TransferCheck], mode: TransferMode) -> Check:
    from odps_nb.client.transfer_check import choice_among
    from odps_nb.terms import TransferMode

    by_mode = "" if mode is TransferMode.AUTO else f", because of transfer={mode.value!r}"
    chosen = choice_among(checks, mode)
    if chosen.ok:
        finding = f"a new connection transfers rows by the {chosen.service}{by_mode}"
        return Check("Rows", "ok", finding)
    finding = f"a new connection cannot transfer rows: it uses the {chosen.service}{by_mode}"
    alternatives = [other for other in TransferMode if choice_among(checks, other).ok]
    if alternatives:
        return Check("Rows", "bad", finding, f"connect with transfer={alternatives[0].value!r}")
    return Check("Rows", "bad", "no service transfers rows", "follow the advice above")


_UNCHECKED = "no table was found with which the transfer of rows can be checked"
_ASK = "check the endpoint, the quota and the permissions of the key"
_NETWORK = "check the network, the proxy and the endpoint, then run the check again"
_NOT_THEIRS = "check the endpoint, and whether a proxy changes responses"


def _try(name: str, ask: Callable[[], str], *, or_denied: Verdict = "bad") -> Check:
    """Return the result of a request; ``or_denied``: the verdict if a permission is missing."""
    try:
        return Check(name, "ok", ask())
    except OdpsNbError as error:
        verdict = or_denied if isinstance(error, AccessDeniedError) else "bad"
        return Check(name, verdict, _message(error), _advice(error) or "")


def _message(error: OdpsNbError) -> str:
    """Return an error's message, code, status and request id, without its hint."""
    return "; ".join(line for line in explain(error) if not line.startswith("to do: "))


def _advice(error: OdpsNbError) -> str | None:
    """Return an error's hint or, for a time-out, that of checks, which have their own limits."""
    is_late = isinstance(error, RequestTimeoutError) and not error.never_answered
    return _NETWORK if is_late else error.hint
