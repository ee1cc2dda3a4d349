"""Identifies the client of a request, and what it can decode (``docs/protocol.md`` section 11).

The stock clients differ in compression; they are told apart by their requests alone.
"""

from __future__ import annotations

from enum import Enum

from odps_nb.terms import Compression
from odps_nb.wire.calls import WireRequest, find_header

__all__ = ["Client", "blob_coding", "identify", "row_codings"]


class Client(Enum):
    """Families of clients."""

    JAVA = "java"
    MAXST = "maxst"
    SAPI2 = "sapi2"
    OTHER = "other"


def identify(wire: WireRequest) -> Client:
    """Return the family of the client that made a request."""
    agent = find_header(wire.headers, "user-agent") or ""
    if agent.startswith("JavaSDK"):
        return Client.JAVA
    if not agent.startswith("pyodps/"):
        return Client.OTHER
    params = dict(wire.params)
    target = params.get("Target", "")
    plain_table = ".tables." in target and ".schemas." not in target
    traced = find_header(wire.headers, "odps-tunnel-retry-index") is not None
    return Client.MAXST if traced or plain_table or "curr_schema" in params else Client.SAPI2


def row_codings(client: Client, asked: Compression) -> tuple[Compression, Compression]:
    """Return the compression inside Arrow IPC and around the stream for a read."""
    if client is Client.MAXST:
        return Compression.NONE, asked
    return asked, Compression.NONE


def blob_coding(client: Client, asked: Compression) -> Compression:
    """Return the coding of a blob download; none for pyodps, which cannot decode reliably.

    ``docs/protocol.md`` section 6.4.
    """
    if client is Client.JAVA:
        return Compression.LZ4
    return asked if client is Client.OTHER else Compression.NONE
