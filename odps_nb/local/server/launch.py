"""Starts the embedded service as a child process and stops it.

The child checks four times a second whether its parent is still running; if not, it exits.
Importing this module does not import the service.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from odps_nb.child_process import OF_PYTHON, passed_on
from odps_nb.errors import ConfigError, MissingDependencyError
from odps_nb.explained import explained
from odps_nb.lifetime import Home
from odps_nb.secret import hidden

KEYS = "access_key.json"
START_TIMEOUT = 120.0
STOP_TIMEOUT = 15.0
_NEEDED = ("duckdb", "sqlglot", "starlette", "uvicorn")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalService:
    """A running embedded service; call `stop` or use it as a context manager.

    ``root`` is its folder. ``temporary_root`` is the same path if the folder is temporary and will
    be deleted when the service stops; otherwise, it is ``None``.
    """

    endpoint: str
    tunnel_endpoint: str
    project: str
    access_id: str
    access_key: str = field(repr=False)
    pid: int
    root: str = field(repr=False)
    temporary_root: str | None = field(repr=False)
    _process: subprocess.Popen[str] = field(repr=False, compare=False)
    _reader: threading.Thread = field(repr=False, compare=False)
    _home: Home = field(repr=False, compare=False, default_factory=Home)

    def stop(self) -> None:
        """Stop the service gracefully. Idempotent; does nothing in a forked child."""
        if not self._home.is_here:
            return
        process = self._process
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
        _finish(process, self._reader)
        # the service has deleted this folder, unless it was killed
        if self.temporary_root is not None:
            shutil.rmtree(self.temporary_root, ignore_errors=True)

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with which `odps_nb.connect` in another process uses the service.

        They contain the access key.
        """
        return {
            "ODPS_ENDPOINT": self.endpoint,
            "ODPS_TUNNEL_ENDPOINT": self.tunnel_endpoint,
            "ODPS_PROJECT": self.project,
            "ODPS_ACCESS_ID": self.access_id,
            "ODPS_ACCESS_KEY": self.access_key,
        }

    def __enter__(self) -> LocalService:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __reduce__(self) -> Any:
        raise ConfigError("a running service cannot be pickled", hint="pass its endpoint and keys")


def _environment() -> dict[str, str]:
    """Return the service's variables, without relative ``PYTHONPATH`` entries."""
    environment = passed_on(*OF_PYTHON, "HOME", "XDG_CACHE_HOME", "ODPS_NB_LOCAL_*")
    if "PYTHONPATH" in environment:  # empty or relative entries depend on the working folder
        entries = filter(os.path.isabs, environment["PYTHONPATH"].split(os.pathsep))
        environment["PYTHONPATH"] = os.pathsep.join(entries)
    return environment


@explained
def start(
    root: str | Path | None = None,
    *,
    samples: bool = True,
    project: str | None = None,
    options: tuple[str, ...] = (),
) -> LocalService:
    """Start the embedded service in a child process and wait until it is ready.

    Parameters
    ----------
    root
        Folder to serve, created if missing. ``None``: a temporary folder, deleted after the stop.
    samples
        Whether to create the sample tables in a new folder.
    options
        Additional command-line arguments for ``odps-nb serve``.

    Raises
    ------
    ConfigError
        The folder is already being served, or the service did not start; the message says why.
    MissingDependencyError
        The ``local`` extra is not installed.
    """
    _require_extra()
    command = [
        sys.executable,
        "-P",  # never import modules from the working folder, which may contain saved blobs
        "-m",
        "odps_nb.local.server.serve",
        "--json",
        "--with-parent",
        str(os.getpid()),
        *options,
    ]
    if root is not None:
        command += ["--root", str(root)]
    if not samples:
        command.append("--no-samples")
    if project is not None:
        command += ["--project", project]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C in a terminal must not stop the service
        env={**_environment(), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors, reader = _drain(process.stderr)
    line = _first_line(process, process.stdout)
    if not line:
        process.kill()
        _finish(process, reader)
        raise ConfigError(
            f"the embedded service did not start: {' '.join(errors) or 'it exited silently'}",
            option="root",
            hint="run 'odps-nb serve --verbose' to see details",
        )
    facts = json.loads(line)
    return LocalService(
        endpoint=facts["endpoint"],
        tunnel_endpoint=facts["tunnel_endpoint"],
        project=facts["project"],
        access_id=facts["access_id"],
        access_key=facts["access_key"],
        pid=process.pid,
        root=str(Path(facts["temporary_root"] or root or "").absolute()),
        temporary_root=facts["temporary_root"],
        _process=process,
        _reader=reader,
    )


def read_keys(root: str) -> dict[str, str]:
    """Return the key ID and secret of an embedded service that this user runs on this machine.

    Raises
    ------
    ConfigError
        The service runs on another machine, has stopped, or belongs to another user.
    """
    try:
        access_id, access_key = next(iter(json.loads(Path(root, KEYS).read_text()).items()))
    except (OSError, ValueError, StopIteration):
        raise ConfigError(
            "the embedded service of this connection cannot be reached from this process",
            option="access_key",
            hint="keep the service running, and use it only as the same user on the same machine; "
            "otherwise, run odps-nb serve and pass its keys",
        ) from None
    return hidden((("access_id", access_id), ("access_key", access_key)))


def _require_extra() -> None:
    from importlib.util import find_spec

    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"the embedded service needs {', '.join(missing)}",
            extra="local",
            hint="pip install 'odps-nb[local]'",
        )


def _drain(stream: IO[str]) -> tuple[deque[str], threading.Thread]:
    """Read the child's stderr, so that the child never blocks, and keep the last lines."""
    lines: deque[str] = deque(maxlen=20)
    thread = threading.Thread(
        target=lambda: lines.extend(map(str.strip, stream)),
        name="odps-nb-service-stderr",
        daemon=True,
    )
    thread.start()
    return lines, thread


def _finish(process: subprocess.Popen[str], reader: threading.Thread) -> None:
    """Wait for the process to exit, then close its pipes."""
    process.wait()
    reader.join(STOP_TIMEOUT)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _first_line(process: subprocess.Popen[str], stream: IO[str]) -> str:
    """Return the first line of stdout, or ``""`` if the child exits or takes too long."""
    timer = threading.Timer(START_TIMEOUT, process.kill)
    timer.daemon = True
    timer.start()
    try:
        return stream.readline()
    finally:
        timer.cancel()
