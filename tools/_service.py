"""The embedded service for the other tools, reached through environment variables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from odps_nb.local.server.launch import start


@contextmanager
def service_environment() -> Iterator[dict[str, str]]:
    """Start the embedded service; yield an environment in which `odps_nb.connect()` uses it."""
    running = start()
    try:
        yield os.environ | running.environment
    finally:
        running.stop()
