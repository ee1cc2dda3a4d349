"""Encodes, signs, sends, retries and decodes calls of the Storage API and the control plane.

This is the only module that signs requests. It keeps no session state, as each request contains all
it needs.
"""

from __future__ import annotations

import logging
import math
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property, partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from odps_nb.client.auth.tunnel_host import check_tunnel_host
from odps_nb.client.blob_cache import BlobCache, open_cache
from odps_nb.client.calls.attempts import Attempts, Clock
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.contact import Contacts
from odps_nb.client.calls.new_tables import NewTables
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.responses import CallUpload, document, raise_for_status, refusal
from odps_nb.client.options import ClientOptions
from odps_nb.client.transfer import TransferChoice, refuses_service
from odps_nb.errors import (
    ConfigError,
    ConnectError,
    InvalidRequestError,
    OdpsNbError,
    ServiceError,
    StateError,
    TransportError,
)
from odps_nb.http.retry import RetryPolicy, may_have_been_done
from odps_nb.http.surroundings import is_loopback
from odps_nb.http.transport import HttpRequest, HttpResponse, RequestsTransport, Transport
from odps_nb.http.upload import Upload
from odps_nb.http.waiting import Abort
from odps_nb.lifetime import Ending, Living, end_at_exit, renew_after_fork
from odps_nb.terms import TableName, Transfer, TransferMode
from odps_nb.wire.calls import (
    Call,
    CreateReadSession,
    ReadBlobs,
    Scope,
    StreamingCall,
    WireRequest,
)
from odps_nb.wire.control import (
    GetTunnelEndpoint,
    SubmitSql,
    SubmittedInstance,
    decode_tunnel_endpoint,
)
from odps_nb.wire.signing import sign

if TYPE_CHECKING:
    from odps_nb.client.auth.profile import Profile

_log = logging.getLogger("odps_nb")
_BLOBS = "reading blobs"
_NO_TABLE = "odps_nb_no_such_table"
_ONCE = RetryPolicy(max_attempts=1)
_SHOWN = ("SessionId", "Index", "Offset", "Count", "StreamId", "StreamVersion")

HERE_SECONDS = 0.01
"""A service at a loopback address is considered local if it responds within these seconds."""

T = TypeVar("T")


class StorageClient:
    """Sends calls to the service; thread-safe. `close` releases its connections.

    By default, ``options`` are those of the profile, and ``retry`` is a policy derived from them.
    ``clock`` returns seconds since the epoch for signatures, ``monotonic`` seconds for deadlines.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        transport: Transport | None = None,
        options: ClientOptions | None = None,
        retry: RetryPolicy | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.profile = profile
        self.options: ClientOptions = options or profile.client_options
        if transport is None:
            transport = RequestsTransport(pool_size=self.options.connections)
        self._transport = transport
        self.now: Callable[[], float] = clock
        self.monotonic: Callable[[], float] = monotonic
        self._retry = retry or RetryPolicy(
            max_attempts=self.options.retries + 1, deadline=self.options.deadline
        )
        self._clock = Clock(monotonic=monotonic, sleep=sleep)
        self.new_tables: NewTables = NewTables(monotonic)
        self._scope = Scope(curr_project=profile.project, curr_schema=profile.schema)
        self._lock = threading.Lock()
        self._running = CancelToken()
        self._ending: Living[Ending] = Living()  # the open write sessions
        self._tunnel = profile.tunnel_endpoint
        self._closed = False
        self.transfer: TransferChoice = profile.transfer
        """The services that transfer rows."""
        if self.options.transfer != profile.client_options.transfer:
            self.transfer = TransferChoice(TransferMode(self.options.transfer))
        self._contacts = Contacts(profile, self.options, self.transfer)
        self.redact: Callable[[OdpsNbError], OdpsNbError] = self._contacts.redactor.redact
        """Hides the keys of this client in an error."""
        self.user_agent: str = _user_agent()
        self.quickest: float = math.inf
        """Shortest response time so far in seconds; an upper bound of the round-trip time."""
        renew_after_fork(self)
        end_at_exit(self)

    def _after_fork(self) -> None:
        """Forget running calls and write sessions, because they belong to the parent process."""
        self._lock, self._running = threading.Lock(), CancelToken()
        self._ending = Living()
        end_at_exit(self)

    # -- calls --------------------------------------------------------------------------------

    def call(
        self,
        request: Call[T],
        *,
        tracker: ProgressTracker | None = None,
        cancel: CancelToken | None = None,
        retry: RetryPolicy | None = None,
        read_timeout: float | None = None,
        patient: bool = False,
    ) -> T:
        """Send a Storage API request, with retries, and return its decoded response.

        ``retry`` and ``read_timeout`` override those of the client. For requests that the service
        may take a long time to process, pass `ClientOptions.work_timeout` as ``read_timeout``.
        ``patient``: retry a 429 until the deadline.
        """
        wire = self._encode(request)
        attempts = self.attempts(_describe(wire), tracker=tracker, cancel=cancel)
        attempts.policy, attempts.read_timeout = retry or self._retry, read_timeout
        attempts.patient = patient

        def once() -> T:
            return self._exchange(wire, self.tunnel_endpoint, attempts, request.decode_answer)

        return attempts.run(once, idempotent=request.idempotent)

    def open(self, request: StreamingCall, *, attempts: Attempts | None = None) -> HttpResponse:
        """Send a request once and return its open response; the caller closes it."""
        wire = self._encode(request)
        attempts = attempts or self.attempts(_describe(wire))
        if not isinstance(request, ReadBlobs):
            return self._stream(wire, attempts)
        self.transfer.require_storage(_BLOBS)
        try:
            return self._stream(wire, attempts)
        except ServiceError as error:
            if self._lacks_storage_api(error):
                self.transfer.refuse(Transfer.STORAGE, error)
                self.transfer.require_storage(_BLOBS)
            raise

    def _lacks_storage_api(self, error: ServiceError) -> bool:
        """Return whether a refused request of blobs shows that there is no Storage API.

        If this is unknown, the client requests a read session of a table that does not exist: a
        Storage API then reports the missing table.
        """
        if self.transfer.accepted(Transfer.STORAGE) or not refuses_service(error, None):
            return False
        try:
            self.call(CreateReadSession(table=self.profile.table(_NO_TABLE)), retry=_ONCE)
        except ServiceError as second:
            return refuses_service(second, None)
        except OdpsNbError:
            return False
        return False

    def upload(self, request: Call[T], *, attempts: Attempts | None = None) -> CallUpload[T]:
        """Begin a request whose body the caller writes; it is sent once, without retries."""
        wire = self._encode(request)
        tries = attempts or self.attempts(_describe(wire))
        tries.read_timeout = self.options.work_timeout  # time for the service to store the body
        tries.patient = True
        began, endpoint = time.perf_counter(), self.tunnel_endpoint

        def with_body(body: Iterator[bytes]) -> HttpRequest:
            return self._request(wire, endpoint, tries, body, streams=True)

        def decode(response: HttpResponse) -> T:
            self._note(response, wire, tries, time.perf_counter() - began)
            with self._contacts.explaining(endpoint, wire):
                body = document(raise_for_status(response, self.now()))
                return request.decode_answer(body, response.headers)

        def reject(response: HttpResponse) -> OdpsNbError:
            return self._contacts.explain(refusal(response, self.now()), endpoint, wire)

        def failed(error: OdpsNbError) -> None:
            self.redact(error)
            if isinstance(error, ConnectError):
                self._forget_tunnel(endpoint)

        return CallUpload(Upload(self._transport, with_body, reject=reject), decode, failed)

    def control(
        self,
        request: Call[T],
        *,
        tracker: ProgressTracker | None = None,
        cancel: CancelToken | None = None,
    ) -> T:
        """Send a control plane request, with retries, and return its decoded response."""
        wire = request.encode(scope=self._scope_of(request))
        headers, body = self.rest(
            wire, tracker=tracker, cancel=cancel, idempotent=request.idempotent
        )
        with self._contacts.explaining(self.profile.endpoint, wire):
            return request.decode_answer(body, headers)

    def rest(
        self,
        wire: WireRequest,
        *,
        tracker: ProgressTracker | None = None,
        cancel: CancelToken | None = None,
        idempotent: bool | None = None,
    ) -> tuple[Mapping[str, str], bytes]:
        """Send a control plane request; return the headers and body of a successful response.

        The path is relative to the REST endpoint; ``curr_project`` is added if missing.
        ``idempotent`` defaults to true for all methods except POST and PATCH.
        """
        wire = self._scoped(wire)
        if idempotent is None:
            idempotent = wire.method.upper() not in ("POST", "PATCH")
        attempts = self.attempts(f"{wire.method} {wire.path}", tracker=tracker, cancel=cancel)

        def once() -> tuple[Mapping[str, str], bytes]:
            return self._exchange(wire, self.profile.endpoint, attempts, lambda *parts: parts[::-1])

        return attempts.run(once, idempotent=idempotent)

    def submit(
        self,
        request: SubmitSql,
        *,
        tracker: ProgressTracker | None = None,
        cancel: CancelToken | None = None,
    ) -> SubmittedInstance:
        """Start a SQL job and return its instance.

        If a response is lost or unreadable, a job with a ``unique_id`` is sent again. The error is
        ``in_doubt`` if an earlier request may have started the job. If the service rejects the
        job's text, the outcome is not in doubt, because the earlier request was then rejected as
        well.
        """
        wire = self._scoped(request.encode(scope=self._scope))
        attempts = self.attempts(f"{wire.method} {wire.path}", tracker=tracker, cancel=cancel)
        attempts.read_timeout = self.options.work_timeout
        lost = False

        def once() -> SubmittedInstance:
            nonlocal lost
            try:
                endpoint = self.profile.endpoint
                return self._exchange(wire, endpoint, attempts, request.decode_answer)
            except OdpsNbError as error:
                lost = lost or may_have_been_done(error)
                raise

        try:
            return attempts.run(once, idempotent=request.idempotent)
        except OdpsNbError as error:
            # an error without a code is a gateway's, and states nothing about the text
            is_rejected = isinstance(error, InvalidRequestError) and error.code is not None
            error.in_doubt = lost and not is_rejected
            raise

    def attempts(
        self,
        what: str,
        *,
        tracker: ProgressTracker | None = None,
        cancel: CancelToken | None = None,
    ) -> Attempts:
        """Create the `Attempts` of one call, with this client's retry policy."""
        return Attempts(
            what=what,
            policy=self._retry,
            clock=self._clock,
            tracker=tracker,
            cancel=cancel,
            redact=self.redact,
        )

    @property
    def tunnel_endpoint(self) -> str:
        """Base URL of the Storage API; fetched from the service if the profile does not set it.

        If this address refuses a connection, it is fetched again (``docs/protocol.md`` 1.1).
        """
        endpoint = self._tunnel
        if endpoint is None:
            endpoint = self._tunnel = self._find_tunnel()
        return endpoint

    @property
    def is_here(self) -> bool:
        """Whether the Storage API itself, and not only a forwarded port, is on this machine."""
        host = urlsplit(self._tunnel or "").hostname or ""
        return is_loopback(host) and self.quickest < HERE_SECONDS

    @cached_property
    def blob_cache(self) -> BlobCache | None:
        """The disk cache of blobs; ``None`` if it is disabled."""
        return open_cache(self.profile)

    def operation(self, parent: CancelToken | None = None) -> CancelToken:
        """Return a token for a new operation; `cancel` and ``parent`` also cancel the operation."""
        token = CancelToken(parent=parent)
        with self._lock:
            self._running.watch(token)
        return token

    def cancel(self) -> None:
        """Cancel all running operations; later operations are not affected."""
        with self._lock:
            stopped, self._running = self._running, CancelToken()
        stopped.cancel()

    def end_before_closing(self, one: Ending) -> None:
        """Make `close` call ``one.end()`` while requests can still be sent; hold ``one`` weakly."""
        with self._lock:
            self._ending.add(one)

    def close(self) -> None:
        """Cancel running calls and close the connections. Idempotent.

        Unfinished reads, uploads and blobs raise `CancelledError`; write sessions with open streams
        are aborted. Using the client afterwards raises `StateError`. Also called at interpreter
        exit.
        """
        if not self._closed:
            self.cancel()
            with self._lock:
                ending = self._ending.all()
            for resource in ending:
                resource.end()
        self._closed = True
        self._transport.close()

    end = close  # called by this name at interpreter exit

    def __enter__(self) -> StorageClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            "a client cannot be pickled or sent to another process",
            hint="send the connection or a table, which are pickled without keys",
        )

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        return f"<StorageClient {self.profile.endpoint} {self.profile.project}{state}>"

    # -- one attempt --------------------------------------------------------------------------

    def _encode(self, request: StreamingCall) -> WireRequest:
        if self._closed:
            raise StateError("the connection is closed", hint="connect again")
        # pyodps names the quota in each request for rows, too (``docs/protocol.md`` section 1.3)
        scope = replace(self._scope_of(request), quota_name=self.profile.quota)
        return request.encode(self.profile.api_version, scope=scope)

    def _scope_of(self, request: object) -> Scope:
        """Return the parameters of the connection; its schema is not that of ``project.table``."""
        table = getattr(getattr(request, "of", request), "table", None)
        named = table if isinstance(table, TableName) else request
        is_outside = getattr(named, "schema", "") is None  # also a list of tables without a schema
        return replace(self._scope, curr_schema=None) if is_outside else self._scope

    def _scoped(self, wire: WireRequest) -> WireRequest:
        if self._closed:
            raise StateError("the connection is closed", hint="connect again")
        if any(name == "curr_project" for name, _ in wire.params):
            return wire
        return replace(wire, params=(*wire.params, ("curr_project", self.profile.project)))

    def _request(
        self,
        wire: WireRequest,
        endpoint: str,
        attempts: Attempts,
        body: Any,
        *,
        streams: bool = False,
    ) -> HttpRequest:
        url = wire.url(endpoint)
        agent = {"User-Agent": self.user_agent, "x-odps-user-agent": self.user_agent}
        headers, keys = {**dict(wire.headers), **agent}, self.profile.keys
        attempts.renew = partial(self.profile._renew, keys)
        self._contacts.redactor.learn(keys)
        headers |= sign(
            wire.method,
            url,
            headers,
            endpoint=endpoint,
            credentials=keys,
            now=self.now(),
            version=4 if self.profile.region else 2,
        )
        headers["odps-tunnel-retry-trace-id"] = attempts.trace_id
        headers["odps-tunnel-retry-index"] = str(attempts.index)
        abort = Abort()
        attempts.scope.watch(abort)
        if attempts.cancel is not None:
            attempts.cancel.watch(abort)
        if streams:  # other calls, such as commits, are stopped only by their own token
            with self._lock:
                self._running.watch(abort)
        options, host = self.options, self._contacts.host(endpoint)
        attempts.host = host
        connect_timeout, read_timeout = self._contacts.limits(
            host, attempts.read_timeout, streams=streams
        )
        return HttpRequest(
            method=wire.method,
            url=url,
            headers=headers,
            body=body,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            send_timeout=options.read_timeout,
            document_timeout=options.document_timeout,
            abort=abort,
            receive_buffer=attempts.receive_buffer,
            host=host,
        )

    def _exchange(
        self,
        wire: WireRequest,
        endpoint: str,
        attempts: Attempts,
        decode: Callable[[bytes, Mapping[str, str]], T],
    ) -> T:
        """Send a request once, and return its decoded document."""
        with (
            self._contacts.explaining(endpoint, wire),
            self._send(wire, endpoint, attempts) as response,
        ):
            return decode(document(response), response.headers)

    def _stream(self, wire: WireRequest, attempts: Attempts) -> HttpResponse:
        """Send a request to the storage host once, and return its open response."""
        endpoint = self.tunnel_endpoint
        with self._contacts.explaining(endpoint, wire):
            return self._send(wire, endpoint, attempts, streams=True)

    def _send(
        self, wire: WireRequest, endpoint: str, attempts: Attempts, *, streams: bool = False
    ) -> HttpResponse:
        request = self._request(wire, endpoint, attempts, wire.body, streams=streams)
        attempts.new_table, attempts.service = self.new_tables.of_request(wire), endpoint
        began = time.perf_counter()
        try:
            response = self._transport.send(request)
        except TransportError as error:
            _log.debug("%s: %s", attempts.what, self.redact(error))
            if isinstance(error, ConnectError):
                self._forget_tunnel(endpoint)
            raise
        try:
            self._note(response, wire, attempts, time.perf_counter() - began)
            raise_for_status(response, self.now())
            if attempts.new_table is not None:
                attempts.new_table.found_by.add(endpoint)
            return response
        except BaseException:
            response.close()
            raise

    def _note(
        self, response: HttpResponse, wire: WireRequest, attempts: Attempts, seconds: float
    ) -> None:
        self._contacts.note(response, wire)
        self.quickest = min(self.quickest, seconds)
        facts = attempts.what, response.status, response.request_id, seconds
        _log.debug("%s: %s, request id %s, %.3f s", *facts)
        if attempts.tracker is not None:
            attempts.tracker.request(response.request_id)

    def _forget_tunnel(self, endpoint: str) -> None:
        """Forget the Storage API address if it was fetched, so that it is fetched again."""
        with self._lock:
            if self._tunnel == endpoint and self.profile.tunnel_endpoint is None:
                self._tunnel = None

    def _find_tunnel(self) -> str:
        request = GetTunnelEndpoint(project=self.profile.project, quota_name=self.profile.quota)
        wire = request.encode(scope=self._scope)
        try:
            _, body = self.rest(wire)
        except TransportError as error:
            error.given_up = error.never_answered  # the call must not repeat the lookup's attempts
            raise
        except ServiceError as error:
            error.of_lookup = True
            raise
        with self._contacts.explaining(self.profile.endpoint, wire):
            endpoint = decode_tunnel_endpoint(body, endpoint=self.profile.endpoint)
        keys = self.profile.keys
        has_token = bool(keys.sts_token or keys.bearer_token)
        check_tunnel_host(endpoint, endpoint=self.profile.endpoint, has_token=has_token)
        return endpoint


def _describe(wire: WireRequest) -> str:
    target = (wire.target or "").removeprefix("projects.")
    for word in ("schemas.", "tables.", "instances."):
        target = target.replace("." + word, ".")
    params = [f"{key}={value}" for key, value in wire.params if key in _SHOWN]
    return " ".join(filter(None, [wire.action or wire.path, target, *params]))


@cache  # cached because determining the version reads files
def _user_agent() -> str:
    version = metadata.version("odps-nb")
    python = f"{platform.python_implementation()}/{platform.python_version()}"
    return f"odps_nb/{version} {python} {platform.system()}/{platform.release()}"
