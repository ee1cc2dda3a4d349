"""Columns of types that odps_nb does not know, and of the newest ones: GEOGRAPHY and VECTOR.

A proxy rewrites the name of a type in each document of the service, so that the column arrives as
the rows have it and no document says a type that odps_nb knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import odps_nb
from odps_nb import Connection
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.local.server.launch import LocalService
from odps_nb.schema import TableSchema
from odps_nb.wire.type_text import format_type
from tests.support.compat.recorder import Recorder
from tests.support.reverse_proxy import Answer, Request
from tests.support.service.raw import Raw

BYTES = [b"\x01", None, b"\xff\x00"]


class Renaming(Recorder):
    """Gives the type BINARY another name in documents, and another number."""

    text = "FOO(3)"

    def changed(self, request: Request, answer: Answer) -> bytes:
        kind = dict(answer.headers).get("content-type", "")
        if not ("json" in kind or "xml" in kind):
            return answer.body
        body = answer.body.replace(b"binary", self.text.encode())
        return re.sub(rb'("Type": ?)11\b', rb"\g<1>77", body)


@pytest.fixture(scope="module")
def proxy(empty_service: LocalService) -> Iterator[Renaming]:
    found = Renaming(empty_service.tunnel_endpoint)
    with found.running():
        yield found


@pytest.fixture(scope="module")
def odps(empty_service: LocalService, proxy: Renaming) -> Iterator[Connection]:
    with odps_nb.connect(
        endpoint=proxy.endpoint,
        tunnel_endpoint=proxy.base,
        project=empty_service.project,
        access_id=empty_service.access_id,
        access_key=empty_service.access_key,
    ) as found:
        yield found
