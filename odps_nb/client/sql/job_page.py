"""Finds the web page of a SQL instance, as the stock clients build its address.

``GET /webconsole/host`` names the console, below the REST endpoint; pyodps 0.13 appends region,
endpoint, project and instance. The older Logview address is not built: its token would open the
job to every reader of the saved notebook.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from odps_nb.errors import OdpsNbError
from odps_nb.wire.calls import Scope
from odps_nb.wire.control import rest_request

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

_REGION = re.compile(r"service\.([a-z]+-[a-z0-9-]+?)(?:-internal|-vpc)?\.", re.IGNORECASE)
_CONSOLE = re.compile(r"https://[\w.-]+(:\d+)?(/[\w./-]*)?", re.ASCII)


def console_of(storage: StorageClient) -> str | None:
    """Return the address of the console for the region; ``None`` without one. One request."""
    profile = storage.profile
    host = urlsplit(profile.endpoint).hostname or ""
    found = _REGION.match(host)
    region = profile.region or (found[1] if found else None)
    if region is None:
        return None
    try:
        _, body = storage.rest(rest_request("/webconsole/host", scope=Scope()))
    except OdpsNbError:  # a link is a courtesy
        return None
    console = body[:1000].decode("utf-8", "replace").strip().rstrip("/")
    return f"{console}/{quote(region)}" if _CONSOLE.fullmatch(console) else None


def job_page(storage: StorageClient, console: str, instance_id: str) -> str:
    """Return the address of an instance's page, which asks for a login."""
    profile = storage.profile
    where = f"h={quote(profile.endpoint, safe=':/')}&p={profile.project}&i={instance_id}"
    return f"{console}/job-insights?{where}"
