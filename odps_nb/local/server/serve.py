"""``odps-nb serve``: runs the embedded service as a process.

With ``--json``, the first line of stdout contains the endpoint and access key, and all other output
is written to stderr. The process stops on SIGTERM or SIGINT, and optionally when its parent exits.
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

from odps_nb.child_process import hide_pandas
from odps_nb.errors import ConfigError, OdpsNbError, explain
from odps_nb.explained import expanded
from odps_nb.local.forms import Forms
from odps_nb.local.reading.plan import ReadRules
from odps_nb.local.samples.tables import adopt, install_samples
from odps_nb.local.server.app import build_app
from odps_nb.local.server.faults import FaultRules
from odps_nb.local.service import DEFAULT_PROJECT, Service, Settings
from odps_nb.local.sql.queries import QueryLimits
from odps_nb.local.store.folder import DataFolder
from odps_nb.local.transfer_services import SERVICES, parse_services

log = logging.getLogger("odps_nb.local")

HOST = "127.0.0.1"
KEEP_ALIVE = 120
GRACE = 5
HARD_AFTER = 4
HARD_STATUS = 3
TIDY_EVERY = 60.0
END_CHECK = 0.25
_HELP = """\
Serves a folder as a small MaxCompute project on this machine, with tables, blobs and SQL. The
service listens only on 127.0.0.1. It generates a random access key for a new folder and stores it
there, readable only by you. ODPS_NB_LOCAL_ACCESS_ID and ODPS_NB_LOCAL_ACCESS_KEY override the key.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until a signal or the parent's exit stops the service; return the exit status."""
    options = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    temporary: Path | None = None
    ended = threading.Event()
    if options.root is None:  # choose the path first, so that a signal cannot leave a folder behind
        temporary = Path(tempfile.gettempdir()) / f"odps-nb-{secrets.token_hex(8)}"
    try:
        if options.root is not None and not options.root.strip():
            raise ConfigError(
                "root is empty", option="root", hint="pass a folder, or omit it for a temporary one"
            )
        _on_signal(_leave)  # after a signal during startup, release the resources opened so far
        if temporary is not None:
            temporary.mkdir(mode=0o700)
        _serve(options, temporary or expanded(options.root), ended)
    except OdpsNbError as error:
        sys.stderr.write("\n".join(explain(error)) + "\n")
        return 1
    except _Left:
        return 0
    finally:
        _on_signal(lambda: None)
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        ended.set()
    return 0


class _Left(BaseException):
    """Raised when a signal stops the service before it starts serving."""


def _leave() -> None:
    raise _Left


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="odps-nb serve", description=_HELP)
    parser.add_argument("--root", help="folder to serve (default: a temporary one)")
    parser.add_argument(
        "--port", type=int, default=0, help="port to listen on (default: a free one)"
    )
    parser.add_argument("--project", default=DEFAULT_PROJECT, help="name of the project")
    parser.add_argument("--json", action="store_true", help="print endpoint and access key as JSON")
    parser.add_argument(
        "--no-samples", action="store_true", help="create no sample tables in a new folder"
    )
    parser.add_argument("--schemas", action="store_true", help="enable the schema feature")
    parser.add_argument(
        "--credentials",
        help="JSON file with 'keys' (id: secret), 'sts_tokens' (id: token), 'bearer_tokens' "
        "(token: id), 'rights' (id: {project: query, read or write}; other keys have all rights); "
        "it must be readable only by its owner",
    )
    limits, rules = QueryLimits(), ReadRules()
    for name, unit, default, text in (
        ("--query-memory", "MIB", limits.memory, "memory limit of one SQL statement"),
        ("--query-seconds", "S", limits.seconds, "time limit of one SQL statement"),
        ("--min-split-bytes", "BYTES", rules.min_split_bytes, "minimum size of a split"),
        (
            "--filter-block-rows",
            "ROWS",
            rules.filter_block_rows,
            "rows per block; a filter keeps or skips whole blocks, so 1 filters exactly",
        ),
    ):
        help_text = f"{text} (default: %(default)s)"
        parser.add_argument(name, type=type(default), default=default, metavar=unit, help=help_text)
    parser.add_argument(
        "--kept-ranges",
        action="store_true",
        help="interpret row ranges of a filtered session as positions among the rows that the "
        "filter keeps instead of among the stored rows",
    )
    parser.add_argument(
        "--strict-sql",
        action="store_true",
        help="reject full scans of partitioned tables and ORDER BY without LIMIT, as real projects "
        "do by default",
    )
    _add_forms(parser)
    parser.add_argument("--misbehave", action="store_true", help="accept fault injection rules")
    parser.add_argument("--verbose", action="store_true", help="log requests and errors")
    parser.add_argument("--with-parent", type=int, metavar="PID", help=argparse.SUPPRESS)
    return parser


def _add_forms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--services",
        default=",".join(SERVICES),
        metavar="NAMES",
        help="transfer services that exist, separated by commas; the others refuse all requests in"
        " the form that --form refusal=... selects (default: %(default)s)",
    )
    parser.add_argument(
        "--form",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="choose the form of a response where the real service's form is unknown: "
        + Forms.describe(),
    )


class _Connection(H11Protocol):
    """An HTTP connection that exposes itself to the application in ``scope["state"]``."""

    def __init__(
        self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None
    ) -> None:
        state = {**app_state, "connection": self, "direct": True}
        super().__init__(config, server_state, state, _loop)


def end_hard(ended: threading.Event, seconds: float, temporary: Path | None) -> None:
    """Exit the process if a graceful stop takes too long. Stored data survives even ``kill -9``."""
    if ended.wait(seconds):
        return
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)
    log.error("the service did not stop within %g s and exits immediately", seconds)
    os._exit(HARD_STATUS)


def _serve(options: argparse.Namespace, root: Path, ended: threading.Event) -> None:
    listener = _listener(options.port)
    # asyncio sets this option only on sockets with an explicit protocol number, which this socket
    # lacks. Without it, each small response waits 40 ms for the client's delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    credentials = _credentials(options.credentials)
    settings = Settings(
        project=options.project,
        keys=credentials.get("keys") or _keys(),
        sts_tokens=credentials.get("sts_tokens"),
        bearer_tokens=credentials.get("bearer_tokens"),
        rights=credentials.get("rights"),
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
        services=parse_services(options.services),
    )
    hide_pandas()
    prepared = False

    def prepare(folder: DataFolder) -> None:
        nonlocal prepared
        prepared = not options.no_samples and install_samples(folder)

    with listener, Service(root, settings, prepare=prepare) as service:
        if prepared:
            adopt(service)
        app = build_app(service, FaultRules() if options.misbehave else None)
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
        # While uvicorn runs, it replaces this handler. When uvicorn stops, it raises the signal
        # again, and this handler prevents an exit before the service is closed.
        _on_signal(lambda: setattr(server, "should_exit", True))
        _announce(options, service, listener.getsockname()[1])
        gc.freeze()  # the GC need not inspect imported objects, which are never freed
        done = threading.Event()
        threading.Thread(target=_tidy, args=(service, done), daemon=True).start()
        temporary = None if options.root else root
        watching = (server, options.with_parent, ended, temporary)
        threading.Thread(target=_watch, args=watching, daemon=True).start()
        try:
            server.run(sockets=[listener])
        finally:
            server.should_exit = True
            done.set()


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port), backlog=512)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"the service cannot listen on port {port}: {getattr(error, 'strerror', error)}",
            option="port",
            hint="omit --port to use a free one",
        ) from None


def _on_signal(do: Callable[[], object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: do())


def _credentials(path: str | None) -> dict[str, Any]:
    """Read a credentials file, or raise if other users can read it."""
    if path is None:
        return {}
    file = Path(path)
    try:
        if file.stat().st_mode & 0o077:
            raise ConfigError(
                f"{file} can be read by other users", option="credentials", hint=f"chmod 600 {file}"
            )
        content = json.loads(file.read_text())
        rights = {key: dict(own) for key, own in content.pop("rights", {}).items()}
        credentials = {k: {str(a): str(b) for a, b in content[k].items()} for k in content}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"the credentials in {file} cannot be read: {type(error).__name__}",
            option="credentials",
            hint='write {"keys": {"id": "secret"}, "bearer_tokens": {"token": "id"}}',
        ) from None
    if unknown := rights.keys() - credentials.get("keys", {}).keys():
        raise ConfigError(
            f"'rights' contains {', '.join(sorted(unknown))}, but 'keys' does not",
            option="credentials",
            hint="add each of them to 'keys'",
        )
    return {**credentials, "rights": rights}


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
        # The parent deletes this folder if this process is killed.
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


def _tidy(service: Service, done: threading.Event) -> None:
    while not done.wait(TIDY_EVERY):
        service.tidy()


def _watch(
    server: uvicorn.Server, parent: int | None, ended: threading.Event, temporary: Path | None
) -> None:
    """Stop when the parent exits, and enforce the time limit of a graceful stop."""
    while not (server.should_exit or ended.wait(END_CHECK)):
        if parent is not None and os.getppid() != parent:
            server.should_exit = True
    end_hard(ended, GRACE + HARD_AFTER, temporary)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # everything is closed; interpreter shutdown would take 0.2 s more
