"""A service that fails on request, and Spark's description of its plans."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.support.service.connecting import connected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from odps_nb.access.connection import Connection


@contextlib.contextmanager
def misbehaving() -> Iterator[Connection]:
    """A connection to a separate service, which fails on request."""
    from odps_nb.local.server.launch import start

    with (
        start(samples=False, options=("--misbehave",)) as service,
        connected(service) as connection,
    ):
        yield connection


def of_commit(odps: Connection, by_storage_api: bool, **fault: Any) -> dict[str, Any]:
    """Return a fault rule for the commit of a write by Spark.

    Without the Storage API, the commit is the second SQL statement; the first creates the staging
    table.
    """
    if by_storage_api:
        return {"action": "TableCommitWriteSession", **fault}
    return {"action": f"/api/projects/{odps.profile.project}/instances", "skip": 1, **fault}


def explained(frame: DataFrame, mode: str = "extended") -> str:
    """Return what ``explain`` prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(mode=mode)
    return text.getvalue()
