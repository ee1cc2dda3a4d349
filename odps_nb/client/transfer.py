"""Chooses the service that transfers rows: the Storage API, its version 1, or the tunnel.

Many accounts have no Storage API: an administrator must switch on open storage for the tenant, or
the project needs its own quota (vendor's page *Overview of Open Storage*). The tunnel exists in
every region. If a service refuses a request that the next service accepts, the connection uses the
next service from then on.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from odps_nb.errors import (
    AccessDeniedError,
    InvalidRequestError,
    NoStorageApiError,
    NotFoundError,
    ServiceError,
)
from odps_nb.lifetime import renew_after_fork
from odps_nb.terms import TableName, Transfer, TransferMode, shorten
from odps_nb.wire.calls.hints import without_names

if TYPE_CHECKING:
    from odps_nb.client.calls.progress import ProgressTracker

T = TypeVar("T")

_log = logging.getLogger("odps_nb")
_SHOWN = 300
# Codes that name an object of the project, or an argument; the service itself works.
_OWN_CODES = frozenset(
    (
        "AuthenticationRequestExpired",
        "InstanceTypeNotSupported",
        "InvalidAccessKeyId",
        "InvalidColumnSpec",
        "InvalidPartitionSpec",
        "InvalidRowRange",
        "InvalidStateSetting",
        "InvalidTable",
        "MissingPartitionSpec",
        "NoSuchColumn",
        "NoSuchInstance",
        "NoSuchPartition",
        "NoSuchProject",
        "NoSuchSchema",
        "NoSuchSession",
        "NoSuchStream",
        "NoSuchTable",
        "NoSuchVersion",
        "ParseError",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "SignatureNotMatch",
        "TaskFailed",
    )
)
# Codes of responses for a path that the server does not have. The tunnel sends InvalidProjectTable
# for any unknown path (StarRocks issue 59586; vendor's page of tunnel errors).
_NO_SUCH_PATH = (405, 410, 501)
_PATH_CODES = frozenset(("InvalidProjectTable", "MethodNotAllowed", "NotImplemented"))
# Words of refusals that concern the service, its quota or its region rather than the request.
_OF_SERVICE = re.compile(
    r"quota|region|tenant|open[ _-]?storage|storage[ _-]?api|max[ _-]?storage|not (?:be )?"
    r"(?:enabled?|opened|activated|available|supported)|disabled?|unsupported|unknown (?:action|"
    r"path|version|api|uri)|switch(?:ed)? (?:on|off)|whitelist|resource group|"
    r"开放存储|未开通|未开启|未启用|不支持|配额|地域|租户|资源组",
    re.IGNORECASE,
)
SWITCH_ON = (
    "ask an administrator to switch on open storage for the tenant (console: Tenants, Tenant "
    "Property), or to assign a data transmission quota and pass it as quota="
)


def hint_without_storage(*, works: bool = False, tunnel: bool = True) -> str:
    """Return the hint for a request that the Storage API refused.

    ``works``: the control plane has accepted requests. ``tunnel``: the tunnel may transfer the
    rows.
    """
    known = "the control plane works, but " if works else ""
    instead = "connect with transfer='tunnel', or " if tunnel else ""
    return (
        f"check quota= and tunnel_endpoint=: {known}the account may lack the Storage API, or only "
        f"the VPC may reach it; {instead}{SWITCH_ON}"
    )


class TransferChoice:
    """The transfer services of one connection, and those that refused; thread-safe.

    ``mode`` is the user's choice. `refusals` maps each service that the account lacks to the error
    that showed it.
    """

    def __init__(self, mode: TransferMode) -> None:
        self.mode: TransferMode = mode
        self._refusals: dict[Transfer, ServiceError] = {}
        self._used: set[Transfer] = set()
        self._lock = threading.Lock()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Create a new lock, because another thread may have held the old one at the fork."""
        self._lock = threading.Lock()

    @property
    def refusals(self) -> Mapping[Transfer, ServiceError]:
        """The services that refused, each with its error."""
        with self._lock:
            return dict(self._refusals)

    @property
    def current(self) -> Transfer | None:
        """The service that the next read uses first; ``None`` if all have refused."""
        refused = self.refusals
        return next((service for service in self.mode.services if service not in refused), None)

    @property
    def reason(self) -> str | None:
        """Why the connection does not use the Storage API; ``None`` if it does."""
        if self.mode is TransferMode.TUNNEL:
            return "transfer='tunnel' was chosen"
        reasons = [f"{service}: {_brief(error)}" for service, error in self.refusals.items()]
        return "; ".join(reasons) or None

    def accepted(self, service: Transfer) -> bool:
        """Return whether a service has accepted a request of this connection."""
        with self._lock:
            return service in self._used

    def accept(self, service: Transfer) -> None:
        """Remember that a service has accepted a request."""
        with self._lock:
            self._used.add(service)

    def refuse(self, service: Transfer, error: ServiceError) -> None:
        """Remember that the account lacks a service."""
        with self._lock:
            self._refusals.setdefault(service, error)

    def require_storage(self, what: str) -> None:
        """Raise `NoStorageApiError` if the connection does not use the Storage API.

        ``what``: the operation that needs it, such as ``reading blobs``.
        """
        if Transfer.STORAGE not in self.mode.services or Transfer.STORAGE in self.refusals:
            raise self._all_refused(self.refusals, {Transfer.STORAGE: None}, {}, what)

    def run(
        self,
        ways: Mapping[Transfer, Callable[[], T]],
        *,
        what: str,
        table: TableName | None = None,
        tracker: ProgressTracker | None = None,
    ) -> T:
        """Call the function of the first service that the account has, and return its result.

        Parameters
        ----------
        ways
            One function for each service that can do the operation.
        what
            The operation, for messages, such as ``reading p.t``.
        table
            The table; an error that names it concerns the table, not the service.

        Raises
        ------
        NoStorageApiError
            Only the Storage API can do the operation, and the account lacks it.
        """
        refused = self.refusals
        tried: dict[Transfer, ServiceError] = {}
        for service in self.mode.services:
            if service not in ways or service in refused:
                continue
            try:
                result = ways[service]()
            except ServiceError as error:
                if not refuses_service(error, table):
                    raise
                tried[service] = error
                continue
            self._remember(tried, service, tracker)
            return result
        raise self._all_refused({**refused, **tried}, ways, tried, what)

    def _remember(
        self,
        tried: Mapping[Transfer, ServiceError],
        instead: Transfer,
        tracker: ProgressTracker | None,
    ) -> None:
        with self._lock:
            self._used.add(instead)
            # a service that has accepted other requests is tried again for the next request
            known = self._refusals.keys() | self._used
            fresh = {service: error for service, error in tried.items() if service not in known}
            self._refusals.update(fresh)
        if fresh:
            reasons = "; ".join(
                f"the {service} refused: {_brief(error)}" for service, error in fresh.items()
            )
            _log.info("rows are transferred by the %s, because %s", instead, reasons)
            if tracker is not None:
                tracker.noted(f"transferred by the {instead}, because {reasons}")

    def _all_refused(
        self,
        refused: Mapping[Transfer, ServiceError],
        ways: Mapping[Transfer, object],
        tried: Mapping[Transfer, ServiceError],
        what: str,
    ) -> ServiceError:
        """Return the error to raise if no service can do the operation."""
        useful = [service for service in self.mode.services if service in ways]
        if not useful:  # the user has excluded the services that can
            services = " or ".join(map(str, ways))
            return NoStorageApiError(
                f"{what} needs the {services}, but this connection uses only the "
                f"{self.mode.services[0]}",
                code="NoStorageApi",
                hint="connect with transfer='auto'",
            )
        denied = [refusal for refusal in tried.values() if isinstance(refusal, AccessDeniedError)]
        own = next((refusal for refusal in reversed(denied) if not _of_service(refusal)), None)
        if own is not None:  # the permission is missing for every service
            for service, other in tried.items():
                if other is not own:
                    own.add_note(f"the {service} refused: {_brief(other)}")
            return own
        first = refused[next(service for service in useful if service in refused)]
        error = NoStorageApiError(
            f"{what} failed: "
            + "; ".join(
                f"{service}: {_brief(refused[service])}" for service in useful if service in refused
            ),
            status=first.status,
            code=first.code,
            request_id=first.request_id,
            hint=hint_without_storage(
                tunnel=Transfer.TUNNEL in ways and Transfer.TUNNEL not in refused
            ),
        )
        error.__cause__ = first
        return error


def _of_service(error: ServiceError) -> bool:
    """Return whether an error concerns the service, its quota or its region."""
    text = f"{error.code} {without_names(error.message)}"
    return _OF_SERVICE.search(text) is not None


def _brief(error: ServiceError) -> str:
    parts = [error.code or f"HTTP {error.status}", shorten(error.message, _SHOWN)]
    if error.request_id:
        parts.append(f"request id {error.request_id}")
    return f"{parts[0]}: {', '.join(parts[1:])}"


def refuses_service(error: ServiceError, table: TableName | None) -> bool:
    """Return whether an error may mean that the account lacks the service.

    The account lacks it if the next service accepts the same request. An error that names the
    table, or concerns the keys or an argument, says nothing about the service.
    """
    if error.code in _OWN_CODES or error.in_doubt or error.of_lookup:
        return False
    if isinstance(error, NotFoundError):
        return True  # the real service's code for a missing path is unknown
    if error.status in _NO_SUCH_PATH or error.code in _PATH_CODES:
        return True
    if isinstance(error, AccessDeniedError):
        is_page = error.code is None  # a gateway's error page may repeat the names
        return is_page or _of_service(error) or not _names(error.message, table)
    return isinstance(error, InvalidRequestError) and _of_service(error)


def _names(message: str, table: TableName | None) -> bool:
    """Return whether a message names the table, as denied permissions do."""
    if table is None:
        return False
    return re.search(rf"\b{re.escape(table.table)}\b", message, re.IGNORECASE) is not None
