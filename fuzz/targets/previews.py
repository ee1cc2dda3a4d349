"""Target for the recognition of a blob's format by its first bytes, which runs in the kernel."""

from __future__ import annotations

from odps_nb.formats.kind import Format
from odps_nb.formats.registry import sniff


def kinds(data: bytes) -> None:
    """Any bytes have a format, whether they are the whole blob or its beginning."""
    for size in (len(data), None, len(data) + 1000):
        assert isinstance(sniff(data, size), Format)


TARGETS = (kinds,)
