"""Python tools of other authors against the embedded service: SQL, notebooks, command lines, MCP.

``python_tools.toml`` lists each tool, its packages of PyPI, and the operations that a user would
run: cells of a Jupyter kernel, command lines, or tools of an MCP server. Each tool has a separate
environment below ``build/tools``. An operation with a `reason` cannot pass; the test fails if it
passes.

Run by ``make versions NAMES=tools``, not by ``make test``: it installs packages of PyPI.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import re
import shlex
import string
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from jupyter_client.manager import KernelManager

import odps_nb
from odps_nb.local.server.launch import start
from tests.support.service.connecting import keys_of
from tests.versions.results import record

pytestmark = pytest.mark.timeout(900)

BUILD = Path(__file__).resolve().parent.parent.parent / "build"
TOOLS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
TABLES, CLIENTS = TOOLS["tables"], TOOLS["client"]
SECONDS = 120
# settings of the machine that a tool would read
INHERITED = ("PYTHON", "ODPS_", "ALIBABA_", "MAXCOMPUTE_", "JUPYTER", "IPYTHON", "XDG_", "VIRTUAL_")


class Failed(Exception):
    """An operation failed; the message is what the user of the tool sees."""


class Cells:
    """A Jupyter kernel; an operation is a cell."""

    def __init__(self, python: Path, place: Path, env: dict[str, str]) -> None:
        self._manager = KernelManager(kernel_name="python3")
        assert self._manager.kernel_spec is not None
        self._manager.kernel_spec.argv[0] = str(python)
        self._manager.start_kernel(env=env, cwd=str(place))
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=SECONDS)

    def __call__(self, code: str) -> str:
        shown: list[str] = []

        def keep(message: dict[str, Any]) -> None:
            content = message["content"]
            shown.append(content.get("text") or content.get("data", {}).get("text/plain", ""))

        reply = self._client.execute_interactive(code, timeout=SECONDS, output_hook=keep)
        if reply["content"]["status"] != "ok":
            raise Failed(f"{reply['content']['ename']}: {reply['content']['evalue']}")
        return "\n".join(shown).strip()

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()


class Commands:
    """A shell; an operation is a command line, which succeeds with exit code 0."""

    def __init__(self, python: Path, place: Path, env: dict[str, str]) -> None:
        self._programs, self._place, self._env = python.parent, place, env

    def __call__(self, line: str) -> str:
        program, *arguments = shlex.split(line)
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self._place,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        if done.returncode:
            raise Failed(f"exit code {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def close(self) -> None:
        pass


class Mcp:
    """A server of the Model Context Protocol over stdio; an operation is a tool with arguments."""

    def __init__(self, python: Path, place: Path, env: dict[str, str], program: str) -> None:
        self._log = (place / "log").open("w")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [python.parent / program], cwd=place, env=env, stdin=pipe, stdout=pipe, stderr=self._log
        )
        self._numbers = 0

    def __call__(self, line: str) -> str:
        tool, _, arguments = line.partition(" ")
        if tool == "initialize":
            told = self._ask(tool, json.loads(arguments))
            self._send({"method": "notifications/initialized"})
            return str(told["serverInfo"]["name"])
        if tool == "tools/list":
            return "\n".join(one["name"] for one in self._ask(tool, {})["tools"])
        told = self._ask("tools/call", {"name": tool, "arguments": json.loads(arguments or "{}")})
        text = "\n".join(one["text"] for one in told["content"])
        if told.get("isError") or json.loads(text).get("success") is False:
            raise Failed(text)
        return text

    def _send(self, message: dict[str, Any]) -> None:
        stdin: IO[bytes] | None = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        stdin.flush()

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._numbers += 1
        self._send({"id": self._numbers, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == self._numbers:
                if "error" in message:
                    raise Failed(str(message["error"]))
                return message["result"]
        raise Failed(f"the server ended: {Path(self._log.name).read_text()[-2000:]}")

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate()
        self._log.close()


def python_of(client: dict[str, Any]) -> Path:
    """Return the interpreter of a client's environment, created with its packages if missing."""
    packages = TOOLS["packages"][client["packages"]]
    key = hashlib.sha256(json.dumps(packages).encode()).hexdigest()[:12]
    place = BUILD / "tools" / key
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        base = interpreter(client.get("python"))
        subprocess.run([*base, "-m", "venv", "--clear", str(place)], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        (place / "ready").touch()
    return python


def version_of(client: dict[str, Any]) -> str:
    pins = [pin.partition("==") for pin in TOOLS["packages"][client["packages"]]]
    return next(str(version) for name, _, version in pins if name == client["version_of"])


def interpreter(version: str | None) -> list[str]:
    """Return the command of a Python of at least this version; skip the test if there is none."""
    least = tuple(map(int, version.split("."))) if version else (3,)
    if sys.version_info[:2] >= least:
        return [sys.executable]
    program = f"python{version}"
    for command in ([program], ["env", f"PYENV_VERSION={version}", program]):
        try:
            subprocess.run([*command, "-c", ""], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return command
    pytest.skip(f"needs Python {version} or newer")


DRIVERS = {"cells": Cells, "commands": Commands, "mcp": Mcp}


@pytest.fixture(scope="module")
def tool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, str], Any]]:
    """A client with a separate service and home, and the names that its operations use."""
    client = CLIENTS[request.param]
    python = python_of(client)
    place = tmp_path_factory.mktemp("tool")
    options = ("--schemas",) if client.get("schemas") else ()
    with start(samples=False, project="shop", options=options) as service:
        names = {
            "endpoint": service.endpoint,
            "project": service.project,
            "id": service.access_id,
            "key": service.access_key,
            "home": str(place),
        }
        with odps_nb.connect(**keys_of(service)) as odps:
            for statement in TABLES:
                odps.sql(statement, progress=False)
        env = {k: v for k, v in os.environ.items() if not k.startswith(INHERITED)}
        given = {k: string.Template(v).substitute(names) for k, v in TOOLS["environment"].items()}
        path = f"{python.parent}{os.pathsep}{env['PATH']}"
        more = {"program": client["program"]} if "program" in client else {}
        run = DRIVERS[client["way"]](python, place, env | given | {"PATH": path}, **more)
        yield names, run
        run.close()


@pytest.fixture(scope="module")
def ends() -> Iterator[dict[str, list[bool]]]:
    """For each tool, whether each operation passed; recorded at the end."""
    found: dict[str, list[bool]] = {}
    yield found
    for name, passed in found.items():
        client = CLIENTS[name]
        left_out = [one for one in client["operations"] if "reason" in one]
        record(
            client["name"],
            version_of(client),
            f"{len(passed)} operations ({client['way']}) of `tests/versions/python_tools.toml`.",
            sum(passed),
            [{"what": f"`{title_of(one)}`", "reason": one["reason"]} for one in left_out],
            failed=passed.count(False) - len(left_out),
        )


def title_of(operation: dict[str, str]) -> str:
    """Return the first line of an operation."""
    return operation["run"].partition("\n")[0]


CASES = [
    pytest.param(name, operation, id=f"{name}: {title_of(operation)}")
    for name, client in CLIENTS.items()
    for operation in client["operations"]
]


@pytest.mark.parametrize(("tool", "operation"), CASES, indirect=["tool"], scope="module")
def test_an_operation_passes_unless_the_list_has_a_reason(
    request: pytest.FixtureRequest,
    tool: tuple[dict[str, str], Any],
    operation: dict[str, str],
    ends: dict[str, list[bool]],
) -> None:
    names, run = tool
    passed = ends.setdefault(request.node.callspec.params["tool"], [])
    text = string.Template(operation["run"]).safe_substitute(names)
    try:
        shown = run(text)
        assert re.search(operation["shows"], shown, re.DOTALL), shown
    except (Failed, AssertionError, OSError, subprocess.TimeoutExpired, queue.Empty) as error:
        passed.append(False)
        if "reason" not in operation:
            raise
        print(error)
    else:
        passed.append(True)
        assert "reason" not in operation, (
            f"this operation passes, so remove its reason: {operation['reason']}"
        )
