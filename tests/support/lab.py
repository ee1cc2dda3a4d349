"""A real Jupyter server for browser tests, with JupyterLab and Notebook 7.

One isolated server in a folder, ended by its process id. Its kernels communicate over files: tests
open and close hundreds of ports, so another process may take the port that Jupyter has chosen for a
kernel.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
START = 300.0
SETTINGS = {
    # otherwise the page does not contain cells outside of the window
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    # a test that saves while JupyterLab saves would be asked whether to overwrite the file
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
    "@jupyterlab/apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
}


def notebook(*cells: str) -> dict[str, Any]:
    """Return a notebook with code cells, to be written as JSON."""
    return {
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell{number}",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": text,
            }
            for number, text in enumerate(cells)
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def free_port() -> int:
    """Return a free port that the system does not assign automatically."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@dataclass(frozen=True)
class Jupyter:
    """A running server: the folder that it serves, and a URL with ``{}`` for the path."""

    folder: Path
    url: str

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a notebook into the folder."""
        (self.folder / name).write_text(json.dumps(content))


@contextmanager
def lab(folder: Path, home: Path, env: Mapping[str, str]) -> Iterator[Jupyter]:
    """Serve a folder; ``home`` has settings, ``env`` is added to the environment of kernels."""
    for name, values in SETTINGS.items():
        path = home / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    port, token = free_port(), secrets.token_hex(16)
    places = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }
    env = {**os.environ, **env, **{key: str(home / name) for key, name in places.items()}}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPO), env.get("PYTHONPATH")]))
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        *(f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}"),
        *("--LabApp.news_url=", "--ServerApp.terminals_enabled=False"),
        "--KernelManager.transport=ipc",
    ]
    for app in ("LabApp", "JupyterNotebookApp"):
        command += [f"--{app}.expose_app_in_browser=True"]
        command += [f"--{app}.extra_labextensions_path={REPO / 'labextensions'}"]
    with (home / "lab.log").open("wb") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        _await(server, f"http://127.0.0.1:{port}/api/status?token={token}", home / "lab.log")
        yield Jupyter(folder=folder, url=f"http://127.0.0.1:{port}/{{}}?token={token}")
    finally:
        os.killpg(server.pid, signal.SIGTERM)  # its own process group: the server and its kernels
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _await(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    turn = 0.1
    for _ in range(int(START / turn)):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            try:
                server.wait(turn)
            except subprocess.TimeoutExpired:
                continue
            break
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


def load(page: Any, jupyter: Jupyter, name: str, *, app: str = "doc/tree") -> None:
    """Reload JupyterLab, or another application of the server, with a notebook."""
    page.goto(jupyter.url.format(f"{app}/{name}"), wait_until="domcontentloaded")
    page.wait_for_function("() => window.jupyterapp && window.jupyterapp.started")
    page.evaluate("() => window.jupyterapp.started.then(() => true)")


# Close notebooks that a failed test has left open; otherwise all later tests would fail, too.
_CLOSE_ALL = """async () => {
    const open = [...window.jupyterapp.shell.widgets('main')].filter((one) => one.context);
    for (const widget of open) {
        const gone = widget.context.sessionContext.shutdown().catch(() => null);
        await Promise.race([gone, new Promise((late) => setTimeout(late, 10000))]);
        widget.context.model.dirty = false;
        widget.close();
    }
}"""


def open_in_notebook7(page: Any, jupyter: Jupyter, name: str, cells: Sequence[str]) -> None:
    """Write a notebook, open it in Notebook 7, and run its cells."""
    jupyter.write(name, notebook(*cells))
    load(page, jupyter, name, app="notebooks")
    await_kernel(page, name)
    run_all(page)


def open_notebook(page: Any, jupyter: Jupyter, name: str) -> None:
    """Open a notebook in JupyterLab, which is loaded if necessary, and wait for its kernel."""
    if page.evaluate("() => window.jupyterapp?.name === 'JupyterLab'"):
        page.evaluate(_CLOSE_ALL)
        page.evaluate(
            "(path) => window.jupyterapp.commands.execute('docmanager:open', {path})"
            ".then(() => null)",
            name,
        )
    else:
        load(page, jupyter, name)
    await_kernel(page, name)


def await_kernel(page: Any, name: str) -> None:
    """Wait until a notebook is displayed and its kernel is idle."""
    page.wait_for_function(
        """(name) => {
            const context = window.jupyterapp.shell.currentWidget?.context;
            return context?.path === name && context.isReady
                && context.sessionContext.session?.kernel?.status === 'idle';
        }""",
        arg=name,
    )


def close_notebook(page: Any, *, kernel: bool) -> None:
    """Close the displayed notebook without saving it; optionally also its kernel."""
    page.evaluate(
        """async (kernel) => {
            const widget = window.jupyterapp.shell.currentWidget;
            const session = widget.context.sessionContext;
            if (kernel) await session.shutdown();
            widget.context.model.dirty = false;
            widget.close();
        }""",
        kernel,
    )
    page.wait_for_function("() => !document.querySelector('.jp-NotebookPanel')")


def run_all(page: Any) -> None:
    """Run all cells, without waiting for them."""
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")


def save(page: Any) -> None:
    """Save the notebook."""
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")


def exported(saved: Path, target: Path) -> str:
    """Export a saved notebook to an HTML file, as ``jupyter nbconvert`` does; return its URI."""
    from nbconvert import HTMLExporter  # takes a second, so not in every worker

    made, _ = HTMLExporter().from_filename(str(saved))
    target.write_text(made, encoding="utf-8")
    return target.as_uri()
