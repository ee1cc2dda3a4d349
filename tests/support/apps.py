"""Web apps and notebooks of hosts other than Jupyter, each served by a separate process."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.browser import CHROMIUM, FLAGS

START = 120.0  # seconds
DRAWN = 90_000
"""Milliseconds until a view has drawn its first rows."""
LIVE = ".odps-x:not(.odps-x-waiting)"
STATIC = "[class^=odps-nb-]"


def surroundings(service: Any) -> dict[str, str]:
    """Return environment variables with which a process connects to this run's service."""
    keys = ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key")
    return {**os.environ, **{f"ODPS_{key.upper()}": getattr(service, key) for key in keys}}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Debian's Chromium; expectations have enough time for a view to be drawn."""
    expect.set_options(timeout=DRAWN)
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def serving(
    command: Sequence[str], url: str, *, env: Mapping[str, str], folder: Path
) -> Iterator[Path]:
    """Run a server until it answers at ``url``, and end it afterwards; yield its log."""
    log = folder / "server.log"
    with log.open("wb") as file:
        server = subprocess.Popen(command, env=env, cwd=folder, stdout=file, stderr=file)
    try:
        until = time.monotonic() + START
        while not _answers(url):
            running = server.poll() is None and time.monotonic() < until
            assert running, log.read_text()[-2000:]
            time.sleep(0.2)
        yield log
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):
            return True
    except (urllib.error.URLError, OSError):
        return False
