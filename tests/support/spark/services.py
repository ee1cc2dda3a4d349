"""A service that fails on request, and Spark's description of its plans."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

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


def explained(frame: DataFrame, mode: str = "extended") -> str:
    """Return what ``explain`` prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(mode=mode)
    return text.getvalue()
