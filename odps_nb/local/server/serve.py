"""``odps-nb serve``: runs the embedded service as a process.

With ``--json`` the first line on stdout holds endpoint and access key; everything else goes to
stderr. Stops on SIGTERM or SIGINT, and with its parent if requested.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from odps_nb.errors import ConfigError, OdpsNbError, explain
from odps_nb.local.forms import Forms
from odps_nb.local.reading.rules import ReadRules
from odps_nb.local.samples.tables import adopt, install_samples
from odps_nb.local.server.app import build_app
from odps_nb.local.server.misbehaviour import Misbehaviour
from odps_nb.local.service import DEFAULT_PROJECT, Service, Settings
from odps_nb.local.sql.queries import QueryLimits
from odps_nb.local.store.folder import Folder

log = logging.getLogger("odps_nb.local")

HOST = "127.0.0.1"
KEEP_ALIVE = 120
GRACE = 5
HARD_AFTER = 4
HARD_STATUS = 3
TIDY_EVERY = 60.0
PARENT_CHECK = 1.0
END_CHECK = 0.25
_HELP = """\
Serves a folder as a small MaxCompute project on this machine: tables, blobs, SQL. It listens on
127.0.0.1 only. The access key is made at random when the folder is new and kept in it, readable
by you alone; ODPS_NB_LOCAL_ACCESS_ID and ODPS_NB_LOCAL_ACCESS_KEY set another one.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to stop; return the exit status."""
    options = _parser().parse_args(argv)
    _start_log(options)
    temporary: str | None = None
    last: HardEnd | None = None
    if options.root is None:  # named before it is made: a signal may come between
        temporary = str(Path(tempfile.gettempdir()) / f"odps-nb-{secrets.token_hex(8)}")
    try:
        _on_signal(_leave)  # at any moment of the start, too: what was opened is put away
        if temporary is not None:
            Path(temporary).mkdir(mode=0o700)
        last = HardEnd(GRACE + HARD_AFTER, temporary=temporary)
        _serve(options, Path(temporary or options.root), last)
    except OdpsNbError as error:
        sys.stderr.write("\n".join(explain(error)) + "\n")
        return 1
    except _Left:
        return 0
    finally:
        _on_signal(lambda: None)
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        if last is not None:
            last.reached()
    return 0


class _Left(BaseException):
    """A signal stopped the service before it began to serve."""


def _leave() -> None:
    raise _Left


def _start_log(options: argparse.Namespace) -> None:
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(form))
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.WARNING, handlers=[handler]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="odps-nb serve", description=_HELP)
    parser.add_argument("--root", help="folder of the service; default: a temporary one")
    parser.add_argument("--port", type=int, default=0, help="0 (default) takes a free one")
    parser.add_argument("--project", default=DEFAULT_PROJECT, help="name of the project")
    parser.add_argument("--json", action="store_true", help="print endpoint and access key as JSON")
    parser.add_argument(
        "--no-samples", action="store_true", help="no sample tables in a new folder"
    )
    parser.add_argument("--schemas", action="store_true", help="switch the schema feature on")
    parser.add_argument(
        "--credentials",
        help="JSON file with 'keys' (id: secret), 'sts_tokens' (id: token), 'bearer_tokens' "
        "(token: id), 'rights' (id: {project: query, read or write}; a key without may do all); "
        "only its owner may read it",
    )
    limits = QueryLimits()
    parser.add_argument(
        "--query-memory",
        type=int,
        default=limits.memory,
        metavar="MIB",
        help="memory that one SQL statement may take (default: %(default)s)",
    )
    parser.add_argument(
        "--query-seconds",
        type=float,
        default=limits.seconds,
        metavar="S",
        help="time that one SQL statement may take (default: %(default)g)",
    )
    _add_read_rules(parser)
    parser.add_argument(
        "--strict-sql",
        action="store_true",
        help="refuse full scans of partitioned tables and ORDER BY without LIMIT, as projects do",
    )
    parser.add_argument(
        "--form",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what is sent where the real service is not known well: " + Forms.describe(),
    )
    parser.add_argument("--misbehave", action="store_true", help="accept rules for faults")
    parser.add_argument("--scenario", help="file with rules for faults, active at once")
    parser.add_argument("--verbose", action="store_true", help="log requests and errors")
    parser.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
    return parser


def _add_read_rules(parser: argparse.ArgumentParser) -> None:
    rules = ReadRules()
    parser.add_argument(
        "--min-split-bytes",
        type=int,
        default=rules.min_split_bytes,
        metavar="BYTES",
        help="smallest split by size (default: %(default)s, as in the real service)",
    )
    parser.add_argument(
        "--filter-block-rows",
        type=int,
        default=rules.filter_block_rows,
        metavar="ROWS",
        help="rows that a filter keeps or leaves out together; 1 filters exactly"
        " (default: %(default)s, as in the real service)",
    )
    parser.add_argument(
        "--kept-ranges",
        action="store_true",
        help="row ranges of a filtered session count the rows that it keeps, not those stored",
    )


class _Connection(H11Protocol):
    """An HTTP connection that the application finds in ``scope["state"]``."""

    def __init__(
        self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None
    ) -> None:
        state = {**app_state, "connection": self, "direct": True}
        super().__init__(config, server_state, state, _loop)


class HardEnd:
    """Kills the process if a graceful stop takes too long.

    No committed data is lost: the catalogue changes in transactions, and only complete files are
    listed in it. It is as safe as ``kill -9``, which the service survives.
    """

    def __init__(self, seconds: float, *, temporary: str | None = None) -> None:
        self._seconds, self._temporary = seconds, temporary
        self._ended = threading.Event()

    def begin(self) -> None:
        """Start the deadline."""
        threading.Thread(target=self._wait, name="odps-nb-hard-end", daemon=True).start()

    def reached(self) -> None:
        """Cancel the deadline: everything has been closed."""
        self._ended.set()

    def _wait(self) -> None:
        if self._ended.wait(self._seconds):
            return
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
        log.error("the service did not end in %g s and ends at once", self._seconds)
        os._exit(HARD_STATUS)


def _serve(options: argparse.Namespace, root: Path, last: HardEnd) -> None:
    listener = _listener(options.port)
    # asyncio sets this only where a socket names its protocol, which this one does not; without
    # it each small answer waits 40 ms for the client's delayed acknowledgement
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    given = _credentials(options.credentials)
    settings = Settings(
        project=options.project,
        keys=given.get("keys") or _keys(),
        sts_tokens=given.get("sts_tokens"),
        bearer_tokens=given.get("bearer_tokens"),
        rights=given.get("rights"),
        schemas=options.schemas,
        durable=options.root is not None,
        query_limits=QueryLimits(memory=options.query_memory, seconds=options.query_seconds),
        reads=ReadRules(
            min_split_bytes=options.min_split_bytes,
            filter_block_rows=options.filter_block_rows,
            kept_ranges=options.kept_ranges,
        ),
        strict_sql=options.strict_sql,
        forms=Forms.parse(options.form),
    )
    prepared = False

    def prepare(folder: Folder) -> None:
        nonlocal prepared
        prepared = not options.no_samples and install_samples(folder)

    with listener, Service(root, settings, prepare=prepare) as service:
        if prepared:
            adopt(service)
        app = build_app(service, _misbehaviour(options))
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                http=_Connection,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=GRACE,
                server_header=False,
            )
        )
        # uvicorn takes over when it runs, and hands a signal on when it has stopped: there is
        # still something to put away then
        _on_signal(lambda: setattr(server, "should_exit", True))
        _announce(options, service, listener.getsockname()[1])
        gc.freeze()  # what is imported stays: no collection has to walk it
        done = threading.Event()
        _background(service, server, done, last, with_parent=options.with_parent)
        try:
            server.run(sockets=[listener])
        finally:
            done.set()


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port), backlog=512)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"the service cannot listen on port {port}: {getattr(error, 'strerror', error)}",
            option="port",
            hint="leave --port out, and a free one is taken",
        ) from None


def _on_signal(do: Callable[[], object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: do())


def _misbehaviour(options: argparse.Namespace) -> Misbehaviour | None:
    if not (options.misbehave or options.scenario):
        return None
    rules = Misbehaviour()
    if options.scenario:
        try:
            rules.load(Path(options.scenario).read_bytes())
        except OSError as error:
            raise ConfigError(
                f"the rules in {options.scenario} cannot be read: {error.strerror}",
                option="scenario",
                hint="name a file with the rules as JSON",
            ) from None
    return rules


def _credentials(path: str | None) -> dict[str, Any]:
    """Read a credentials file; refuses one that other users can read."""
    if path is None:
        return {}
    file = Path(path)
    try:
        if file.stat().st_mode & 0o077:
            raise ConfigError(
                f"{file} can be read by others", option="credentials", hint=f"chmod 600 {file}"
            )
        found = json.loads(file.read_text())
        rights = {key: dict(own) for key, own in found.pop("rights", {}).items()}
        given = {k: {str(a): str(b) for a, b in found[k].items()} for k in found}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"the credentials in {file} cannot be read: {type(error).__name__}",
            option="credentials",
            hint='write {"keys": {"id": "secret"}, "bearer_tokens": {"token": "id"}}',
        ) from None
    if strangers := rights.keys() - given.get("keys", {}).keys():
        raise ConfigError(
            f"the rights name {', '.join(sorted(strangers))}, which are not keys",
            option="credentials",
            hint="name each of them under 'keys', too",
        )
    return {**given, "rights": rights}


def _keys() -> dict[str, str] | None:
    access_id = os.environ.get("ODPS_NB_LOCAL_ACCESS_ID")
    secret = os.environ.get("ODPS_NB_LOCAL_ACCESS_KEY")
    return {access_id: secret} if access_id and secret else None


def _announce(options: argparse.Namespace, service: Service, port: int) -> None:
    facts = {
        "endpoint": f"http://{HOST}:{port}/api",
        "tunnel_endpoint": f"http://{HOST}:{port}",
        "project": service.settings.project,
        "access_id": service.owner,
        "access_key": service.keys[service.owner],
    }
    if options.json:
        # A parent removes it where this process is killed and cannot.
        temporary = None if options.root is not None else str(service.folder.root)
        text = json.dumps({**facts, "temporary_root": temporary})
    else:
        text = (
            f"serving {service.folder.root}\n"
            + "".join(f"  {key:16}{facts[key]}\n" for key in list(facts)[:4])
            + f"  access key      in {service.folder.root / 'access_key.json'}"
        )
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _background(
    service: Service,
    server: uvicorn.Server,
    done: threading.Event,
    last: HardEnd,
    *,
    with_parent: bool,
) -> None:
    """Start the background threads: periodic clean-up, and watching the parent process."""
    threads = [
        threading.Thread(target=_tidy, args=(service, done), daemon=True),
        threading.Thread(target=_watch_end, args=(server, done, last), daemon=True),
    ]
    if with_parent:
        threads.append(threading.Thread(target=_watch_pipe, args=(server,), daemon=True))
        threads.append(threading.Thread(target=_watch_pid, args=(server, done), daemon=True))
    for thread in threads:
        thread.start()


def _tidy(service: Service, done: threading.Event) -> None:
    while not done.wait(TIDY_EVERY):
        service.tidy()


def _watch_end(server: uvicorn.Server, done: threading.Event, last: HardEnd) -> None:
    """Start the deadline when the server is told to stop, not when it has stopped."""
    while not (server.should_exit or done.wait(END_CHECK)):
        pass
    last.begin()


def _watch_pipe(server: uvicorn.Server) -> None:
    """Stop at the end of stdin, whose other end the parent holds and never writes to."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    server.should_exit = True


def _watch_pid(server: uvicorn.Server, done: threading.Event) -> None:
    """Stop when the parent's pid is gone: its forked children may keep the pipe open."""
    parent = os.getppid()
    while not done.wait(PARENT_CHECK):
        if os.getppid() != parent:
            server.should_exit = True
            return


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # all is closed; Python's own clean-up would take 0.2 s more
