"""Installs the sample tables in a new folder. They are built once per user and then linked.

The user's cache contains the built folder, named after a fingerprint of the code that built it. A
new service folder receives hard links to the cached immutable files, and a copy of the cached
catalog.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sqlite3
import tempfile
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.local.service import DEFAULT_PROJECT, Service, Settings
from odps_nb.local.store.database import SCHEMA_VERSION
from odps_nb.local.store.folder import DataFolder
from odps_nb.local.store.snapshots import Addition
from odps_nb.local.store.tables import StoredTable
from odps_nb.local.writing.ingest import Ingest
from odps_nb.schema import has_blob
from odps_nb.secret import make_private
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.control import BLOB_TABLE_PROPERTIES

if TYPE_CHECKING:
    from odps_nb.local.samples.every_sample import Sample

KEPT_SECONDS = 24 * 3600.0


def install_samples(folder: DataFolder) -> bool:
    """Copy the samples into a locked folder if it is new; return whether they were copied."""
    if folder.has_catalog:
        return False
    template = _template()
    # an interrupted installation leaves samples but no catalog: the folder is still new
    samples = {path.name for name in ("rows", "blobs") for path in (template / name).iterdir()}
    if folder.data_files() - samples:
        return False
    for name in ("rows", "blobs", "hot"):
        for source in (template / name).iterdir():
            _link(source, folder.root / name / source.name)
    folder.hot.scan()
    work = folder.work_file(".sqlite")
    shutil.copyfile(template / folder.catalog.name, work)
    folder.publish(work, folder.catalog)
    return True


def adopt(service: Service) -> None:
    """Assign the samples of a copied catalog to this service's project and owner."""
    project = service.settings.project
    with service.database.transaction() as db:
        if project != DEFAULT_PROJECT:
            for table in ("tables", "blobs"):
                db.execute(
                    f"UPDATE {table} SET project = ? WHERE project = ?", (project, DEFAULT_PROJECT)
                )
            db.execute("DELETE FROM schemas WHERE project = ?", (DEFAULT_PROJECT,))
            db.execute("DELETE FROM projects WHERE name = ?", (DEFAULT_PROJECT,))
        db.execute("UPDATE projects SET owner = ?", (service.owner,))
        db.execute("UPDATE tables SET owner = ?", (service.owner,))


def load_sample(service: Service, sample: Sample, pool: Executor) -> None:
    """Create one sample table and commit its rows; the pool writes the files in parallel."""
    name = TableName(project=service.settings.project, table=sample.name)
    blobs = any(has_blob(column.type) for column in sample.schema.columns)
    table = service.catalog.create_table(
        name,
        sample.schema,
        owner=service.owner,
        comment=sample.comment,
        properties=BLOB_TABLE_PROPERTIES if blobs else None,
    )

    def store(data: bytes, content_type: str, file_name: str) -> bytes:
        stored = service.blobs.store_bytes(
            data, name.project, content_type=content_type, file_name=file_name
        )
        return stored.reference.raw

    running = [
        pool.submit(_write, service, table, spec, batch) for spec, batch in sample.rows(store)
    ]
    additions = [addition for future in running for addition in future.result()]
    service.snapshots.publish(table, additions)


def _write(
    service: Service, table: StoredTable, spec: PartitionSpec, rows: pa.RecordBatch
) -> list[Addition]:
    with Ingest(service.folder, table, spec, service.blobs) as ingest:
        ingest.write(rows)
        return ingest.finish()


def _template() -> Path:
    """Return the folder with this user's built samples, building it if it does not exist."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "odps_nb"
    finished = cache / f"samples-{_fingerprint()}"
    if finished.is_dir():
        return finished
    make_private(cache)
    with (cache / "samples.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if finished.is_dir():
            return finished
        building = Path(tempfile.mkdtemp(prefix="samples-building-", dir=cache))
        try:
            _build(building)
            building.rename(finished)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        _prune(cache, finished)
    return finished


def _prune(cache: Path, finished: Path) -> None:
    """Delete older versions' folders, but keep recent ones, which another process may be using."""
    for path in cache.glob("samples-*"):
        if path.is_dir() and path != finished and path.stat().st_mtime < time.time() - KEPT_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def _build(root: Path) -> None:
    from odps_nb.local.samples.every_sample import SAMPLES  # not needed if the samples are cached

    settings = Settings(durable=False, keys={"samples": "unused"})
    with Service(root, settings) as service, ThreadPoolExecutor(2) as pool:
        for sample in SAMPLES:
            load_sample(service, sample, pool)
    for name in ("lock", "access_key.json", "hot/clean"):
        (root / name).unlink(missing_ok=True)
    # merge the write-ahead log into the file, so that copying one file suffices
    connection = sqlite3.connect(root / "catalog.sqlite")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()


def _fingerprint() -> str:
    """Return a hash of the samples' inputs: code, files, catalog layout, file writer."""
    digest = hashlib.sha256(f"{SCHEMA_VERSION} {pa.__version__}".encode())
    here = Path(__file__).parent
    own = [path for path in here.iterdir() if path.suffix in (".py", ".parquet")]
    written_by = ("row_files.py", "arrow_cache.py", "arrow_types.py")
    for path in sorted([*own, *(here.with_name("store") / name for name in written_by)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # the cache is on another file system, or links are not permitted
        shutil.copyfile(source, target)
