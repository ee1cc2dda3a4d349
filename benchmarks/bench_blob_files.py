"""Blobs as files: reopening and reading the first bytes, compared with pyodps, which has no cache.

``python -m benchmarks.bench_blob_files``. It runs over loopback, where a request costs almost
nothing; over a real network the advantage of the cache is larger.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from typing import Any

import pandas as pd
from odps.maxstorage import MaxStorageClient

import odps_nb
from benchmarks._measure import Case, compare, header, summary
from benchmarks._peer import pyodps_entry

MIB = 1 << 20
SIZES = (100_000, 10 * MIB)
HEAD = 64 * 1024


def pyodps_manager(connection: odps_nb.Connection, table: str) -> Any:
    """Return the blob manager of pyodps."""
    entry = pyodps_entry(connection.profile)
    return MaxStorageClient(odps=entry).open_blob_manager(table)


def bench(connection: odps_nb.Connection, rounds: int) -> None:
    """Compare whole reads and reads of the first bytes for several blob sizes."""
    table = connection.create_table("bench_files", "id bigint, content blob")
    data = [os.urandom(size) for size in SIZES]
    table.write(pd.DataFrame({"id": range(len(data)), "content": data}), progress=False)
    manager = pyodps_manager(connection, table.name.table)
    for blob, content in zip(table.blobs("content", progress=False), data, strict=True):
        reference = blob.reference.token

        def again(blob: odps_nb.Blob = blob) -> bytes:
            with blob.open(seek=True) as file:
                return file.read()

        def fetched(blob: odps_nb.Blob = blob) -> bytes:
            with blob.open(seek=True, cache=False) as file:
                return file.read()

        def head(blob: odps_nb.Blob = blob) -> bytes:
            with blob.open(seek=True, cache=False) as file:
                return file.read(HEAD)

        def theirs(reference: str = reference) -> bytes:
            read: bytes = manager.read_blob(reference).read()
            return read

        def their_head(reference: str = reference) -> bytes:
            read: bytes = manager.read_blob(reference).read(HEAD)
            return read

        if not again() == fetched() == again() == theirs() == content:
            raise SystemExit("bench: the readers return different bytes")
        if not head() == their_head() == content[:HEAD]:
            raise SystemExit("bench: the heads differ")
        name, size = f"{len(content) / 1e6:.1f} MB", len(content)
        peer = "pyodps (fetches again)"
        cases = [Case("odps_nb, from the cache", again), Case(peer, theirs)]
        cases += [Case("odps_nb, cache=False", fetched)]
        compare(f"{name}, opened again and read", *cases, rounds=rounds, size=size)
        cases = [Case("odps_nb, seek=True", head), Case("pyodps", their_head)]
        compare(f"{name}, first 64 KiB", *cases, rounds=rounds)


def main() -> int:
    """Run it; the exit status is 0 unless the data differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    header("blobs as files, over loopback")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ODPS_NB_CACHE_DIR"] = folder
        with odps_nb.connect("local") as connection:
            bench(connection, options.rounds)
    summary()
    return 0


if __name__ == "__main__":
    sys.exit(main())
