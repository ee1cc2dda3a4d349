"""The stock client of the service, connected to an embedded one."""

from __future__ import annotations

from typing import Any

import pytest
from odps import ODPS
from odps import options as settings

from odps_nb.local.server.launch import LocalService

#: Marks of modules that run it: it leaves sockets open and uses deprecated functions of Python.
STOCK = [
    pytest.mark.compat,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def stock_client(service: LocalService, **options: Any) -> ODPS:
    """Return an entry object for `service`."""
    settings.local_timezone = False  # times in UTC, regardless of this machine's time zone
    keys = (service.access_id, service.access_key)
    return ODPS(*keys, project=service.project, endpoint=service.endpoint, **options)
