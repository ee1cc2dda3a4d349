"""The jobs of ``older_jobs.py`` with our streams instead of the SDK's.

A script with the same arguments. The stock client creates sessions and sends requests as usual; the
classes that it passes to users, and those that users create, are from `odps_nb.stream_io`.
"""

from __future__ import annotations

import sys
from typing import Any

from odps_nb import stream_io
from tests.support.compat import older_jobs

VERSION = "3"
"""Of the API. The streams are the same in each; ``test_older_storage_api.py`` drives both."""
SAME = ["StreamReader", "BlobStreamWriter", "BlobStreamReader", "ArrowReader", "ArrowWriter"]


def replace_classes() -> None:
    """Replace the SDK's classes in its client and in its public modules."""
    from odps.apis import storage_api_v2 as sdk
    from odps.apis.storage_api_v2 import client

    asked = []

    def read_blobs(self: Any, blob_references: Any = None, **options: Any) -> Any:
        asked.append(len(blob_references))
        return theirs(self, blob_references, **options)

    theirs = sdk.StorageApiClient.read_blobs
    sdk.StorageApiClient.read_blobs = read_blobs
    ours: dict[str, Any] = {name: getattr(stream_io, name) for name in SAME}
    # the two classes whose arguments differ: docs/coming-from-pyodps.md
    ours["StreamWriter"] = lambda upload, **_: stream_io.StreamWriter(upload)
    ours["BlobDataIterator"] = lambda stream, **_: stream_io.BlobDataIterator(
        stream, expected_count=asked.pop()
    )
    for name, kind in ours.items():
        assert hasattr(client, name)
        setattr(client, name, kind)
        setattr(sdk, name, kind)


if __name__ == "__main__":
    older_jobs.main(*sys.argv[1:], prepare=replace_classes, versions=VERSION)
