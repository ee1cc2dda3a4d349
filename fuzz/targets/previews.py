"""What the kernel itself reads of a blob: its first bytes, which say of what kind it is."""

from __future__ import annotations

from odps_nb.notebook.preview.kind import Format
from odps_nb.notebook.preview.registry import sniff


def kinds(data: bytes) -> None:
    """Any bytes are of some kind, whether they are the whole blob or its beginning."""
    for size in (len(data), None, len(data) + 1000):
        assert isinstance(sniff(data, size), Format)


TARGETS = (kinds,)
