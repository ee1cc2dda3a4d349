"""Tells the media type of a file from its first bytes and, where they leave it open, its name."""

from __future__ import annotations

import mimetypes

from odps_nb.notebook.preview.kind import differs
from odps_nb.notebook.preview.registry import sniff

__all__ = ["media_type"]


def media_type(head: bytes, size: int, name: str) -> str:
    """Return the media type of a file; ``application/octet-stream`` where nothing is known.

    Parameters
    ----------
    head
        Its first bytes, at least `odps_nb.notebook.preview.kind.HEAD` of them or all.
    size
        How many it has.
    name
        Its name.
    """
    found = sniff(head, size)
    guess = mimetypes.guess_type(name)[0]
    if guess is None or not size:
        return found.mime
    return found.mime if differs(guess, found) else guess
