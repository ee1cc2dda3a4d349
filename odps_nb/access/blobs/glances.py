"""Blobs that are looked at one after the other: head and first bytes cost one request together."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from odps_nb.client.blob import glances

if TYPE_CHECKING:
    from odps_nb.access.blob import Blob
    from odps_nb.client.blob.glances import Glance
    from odps_nb.client.calls.cancel import CancelToken

__all__ = ["iter_glances"]


def iter_glances(
    blobs: Sequence[Blob], cancel: CancelToken | None = None
) -> Generator[Glance, None, None]:
    """Iterate over blobs to look at; taking the next one leaves the one before.

    Several come in one request where they are small. The handles learn the heads.
    """
    if not blobs:
        return
    references = [blob.reference for blob in blobs]
    found = glances.iter_glances(blobs[0]._storage, references, cancel=cancel)
    with closing(found):
        for blob, glance in zip(blobs, found, strict=True):
            try:
                yield glance
            finally:
                if glance.known is not None:
                    blob._learn(glance.known)
