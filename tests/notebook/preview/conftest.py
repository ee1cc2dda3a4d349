"""The sample files, as stored and as rendered."""

from functools import cache

import pytest

from odps_nb.notebook.preview.tile import tile
from tests.support.previews import Value


@pytest.fixture(scope="session")
def samples(sample_blobs):
    return {
        blob.file_name: Value(blob.data, blob.mime_type, blob.file_name)
        for blob in sample_blobs
        if blob is not None
    }


@pytest.fixture(scope="session")
def drawn(samples):
    """Tiles of all samples by size and name, with rendered HTML pages; drawn once per run."""
    return cache(
        lambda size: {name: tile(blob, size=size, render=True) for name, blob in samples.items()}
    )
