"""`SqlJob`: a SQL job that sorts, groups or counts the rows of an explorer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odps_nb.errors import CancelledError
from odps_nb.terms import TextOptions

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.sql import Result

# Allow full scans, which sorting needs, and ``order by`` without ``limit`` in inner queries.
JOB_SETTINGS = {"odps.sql.allow.fullscan": "true", "odps.sql.validate.orderby.limit": "false"}


class SqlJob:
    """A SQL job over the ``relation`` of a row source; the job can be stopped."""

    def __init__(self) -> None:
        self._result: Result | None = None
        self._stopped = False

    def run(
        self,
        connection: Connection,
        text: str,
        *,
        shown: TextOptions,
        settings: Mapping[str, str] | None = None,
    ) -> Result:
        """Run a query with `JOB_SETTINGS` and other ``settings``, and wait for it."""
        chosen = {**(settings or {}), **JOB_SETTINGS}
        self._check()
        self._result = result = connection._start(text, shown, chosen, mine=False)
        try:
            if self._stopped:  # stopped since the check above
                result.cancel()
            self._check()
            result.wait()
        finally:
            self._result = None
        return result

    def _check(self) -> None:
        if self._stopped:
            raise CancelledError("the SQL job was cancelled")

    def stop(self) -> None:
        """Cancel the job, and make later calls of `run` fail; may be called from any thread."""
        self._stopped = True
        if self._result is not None:
            self._result.cancel()
