"""Open a notebook in a real JupyterLab with headless Chromium, for pictures and browser tests.

The server is isolated from the user's Jupyter settings, listens on loopback with a random token,
and is stopped by its process id.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

# the extension of this checkout, not an installed one
EXTENSIONS = Path(__file__).resolve().parent.parent / "labextensions"
START = 300  # seconds, for a busy machine; a server that has ended is detected immediately
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SETTINGS = {
    # the default windowing mode removes off-screen cells from the page
    "notebook-extension/tracker": {"windowingMode": "none", "scrollPastEnd": False},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
CELLS = """() => {
  const widget = window.jupyterapp.shell.currentWidget;
  const session = widget?.context?.sessionContext?.session;
  if (!session?.kernel || !widget.context.isReady) return null;
  const cells = widget.context.model.toJSON().cells
    .filter(c => c.cell_type === 'code' && [].concat(c.source).join('').trim());
  return {idle: session.kernel.status === 'idle', total: cells.length,
          ran: cells.filter(c => c.execution_count).length,
          started: [...document.querySelectorAll('.jp-InputPrompt')]
            .some(e => /\\[[*\\d]/.test(e.textContent)),
          errors: cells.flatMap(c => c.outputs.filter(o => o.output_type === 'error')
                                      .map(o => o.ename + ': ' + o.evalue))};
}"""
HEIGHT = """() => {
  const cells = [...document.querySelectorAll('.jp-Notebook .jp-Cell')];
  const ends = cells.map(c => c.getBoundingClientRect());
  return ends.length ? ends[ends.length - 1].bottom - ends[0].top : 800;
}"""


def chromium() -> str:
    """Return the path of the machine's Chromium."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise FileNotFoundError("no Chromium on this machine; `make setup` installs Debian's")


def free_port() -> int:
    """Return a free port outside of the range from which the system assigns ports."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextmanager
def lab_server(folder: Path, *, theme: str, env: Mapping[str, str]) -> Iterator[str]:
    """Run JupyterLab on ``folder``; yield the URL prefix and query as ``http://…/{}?token=…``."""
    private = Path(tempfile.mkdtemp(prefix="odps_nb_lab_"))
    themes = {"theme": "JupyterLab Dark" if theme == "dark" else "JupyterLab Light"}
    for plugin, value in {**SETTINGS, "apputils-extension/themes": themes}.items():
        path = private / "settings/@jupyterlab" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    port, token = free_port(), secrets.token_hex(16)
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--LabApp.news_url="]
    command += ["--ServerApp.port_retries=0"]  # fail instead of using another port
    command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}"]
    command += ["--LabApp.expose_app_in_browser=True"]
    command += [f"--LabApp.extra_labextensions_path={EXTENSIONS}"]
    folders = {f"JUPYTER_{name}_DIR": str(private / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    folders["JUPYTERLAB_SETTINGS_DIR"] = str(private / "settings")
    folders["JUPYTERLAB_WORKSPACES_DIR"] = str(private / "workspaces")
    startup = private / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("kernel_startup.py"), startup)
    log = (private / "log").open("wb")
    server = subprocess.Popen(
        command,
        env={**env, **folders, "IPYTHONDIR": str(private / "ipython")},
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        address = f"http://127.0.0.1:{port}/{{}}?token={token}"
        wait_for_server(server, address.format("api/status"), private / "log")
        yield address
    finally:
        stop(server)
        log.close()
        shutil.rmtree(private, ignore_errors=True)


def wait_for_server(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended during its start:\n{log.read_text()[-2000:]}")
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"JupyterLab did not respond within {START} s:\n{log.read_text()[-2000:]}")


def stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


@contextmanager
def open_notebook(
    notebook: Path,
    *,
    theme: str = "light",
    env: Mapping[str, str] | None = None,
    width: int = 1280,
    errors: list[str] | None = None,
) -> Iterator[Page]:
    """Open a notebook in a new Lab and browser; yield the page when the kernel is idle.

    Console errors and uncaught exceptions of the page are appended to ``errors``.
    """
    with (
        lab_server(notebook.parent, theme=theme, env=env or os.environ) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if theme == "dark" else "light",
        )
        if errors is not None:
            page.on("console", lambda said: said.type == "error" and errors.append(said.text))
            page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(address.format(f"doc/tree/{notebook.name}"), wait_until="domcontentloaded")
        page.wait_for_function("() => window.jupyterapp && window.jupyterapp.started")
        page.evaluate("() => window.jupyterapp.started.then(() => true)")
        wait_cells(page, lambda state: state["idle"], seconds=60)
        yield page
        browser.close()


def wait_cells(page: Page, ready: Any, *, seconds: float) -> dict[str, Any]:
    """Poll the notebook's model until ``ready(state)``; return the state."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        state: dict[str, Any] | None = page.evaluate(CELLS)
        if state and ready(state):
            return state
        page.wait_for_timeout(100)
    raise TimeoutError(f"the notebook is still in this state: {page.evaluate(CELLS)}")


def run_all(page: Page, *, seconds: float = 240) -> dict[str, Any]:
    """Run all cells; return the state at the end (or at the first error)."""
    for _ in range(5):  # Lab may ignore a command while it is starting
        # not awaited, because the promise resolves late or never
        page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
        with suppress(TimeoutError):
            wait_cells(page, lambda s: s["started"], seconds=10)
            break
    state = wait_cells(
        page,
        lambda s: s["errors"] or (s["idle"] and s["ran"] == s["total"]),
        seconds=seconds,
    )
    page.wait_for_timeout(1500)  # media and widgets are rendered after the kernel is idle
    return state


def whole_picture(page: Page, path: Path, *, highest: int = 12_000) -> None:
    """Save a screenshot of the whole notebook; enlarges the viewport, since Lab scrolls a panel."""
    page.evaluate(
        "() => { const n = window.jupyterapp.shell.currentWidget.content; n.activeCellIndex = 0;"
        " n.deselectAll(); }"
    )
    for _ in range(2):  # heights are final after the first reflow
        height = min(max(int(page.evaluate(HEIGHT)), 300) + 170, highest)
        page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
        page.wait_for_timeout(400)
    page.screenshot(path=str(path))
