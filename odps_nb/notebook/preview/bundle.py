"""Shows a single blob in a notebook: a large tile, or one line where there is no HTML."""

from __future__ import annotations

from odps_nb.notebook.display.html import bundle
from odps_nb.notebook.preview.peek import BlobLike
from odps_nb.notebook.preview.shared import SINGLE
from odps_nb.notebook.preview.tile import TILE_BUDGET, Tile, tile

__all__ = ["TILE_BUDGET", "BlobLike", "Tile", "mimebundle", "tile"]


def mimebundle(blob: BlobLike, *, render: bool = False) -> dict[str, str]:
    """Return the MIME bundle of one blob: ``text/html`` without scripts, and ``text/plain``.

    Opens the blob once; reads no more of it than the preview needs.

    Parameters
    ----------
    blob
        What to show; see `BlobLike`.
    render
        Draw an HTML page in a sandbox rather than show its source.

    Raises
    ------
    TransportError
        When the service gives no answer. A blob that is corrupt or gone raises nothing: its tile
        says so.
    """
    made = tile(blob, size=SINGLE, render=render)
    return bundle(made.html, f"<Blob {made.text}>")
