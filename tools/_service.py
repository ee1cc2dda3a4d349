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
        yield {
            **os.environ,
            "ODPS_ENDPOINT": running.endpoint,
            "ODPS_TUNNEL_ENDPOINT": running.tunnel_endpoint,
            "ODPS_PROJECT": running.project,
            "ODPS_ACCESS_ID": running.access_id,
            "ODPS_ACCESS_KEY": running.access_key,
        }
    finally:
        running.stop()
