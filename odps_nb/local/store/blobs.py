"""Stores blobs in pack files and resolves references to them (``docs/protocol.md`` section 6).

Each upload is stored as one pack file. A reference contains the id of a catalog row and a secret:
``ff · id (8 bytes) · secret (8 bytes)``. No base64 text starts with the byte ``ff``, so raw
references cannot be confused with base64 text.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import pyarrow as pa

from odps_nb.local import errors
from odps_nb.local.store.blob_bodies import (
    Piece,
    download_body,
    pack_batch,
    pack_single,
)
from odps_nb.local.store.database import Database
from odps_nb.local.store.folder import PACK, DataFolder
from odps_nb.local.store.ledger import Ledger
from odps_nb.terms import BlobReference, Compression

GARBAGE_AGE = 48 * 3600.0
_RAW_SIZE = 17
_LOOKUP = 500
_Key = tuple[int, bytes] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBlob(Piece):
    """A stored blob. The ``secret`` is sent only as part of the reference."""

    blob_id: int
    secret: bytes = field(repr=False)
    pack: str
    project: str

    @property
    def reference(self) -> BlobReference:
        """The token that identifies the blob."""
        return BlobReference.from_raw(b"\xff" + self.blob_id.to_bytes(8, "big") + self.secret)


class BlobStore:
    """Stores uploads, resolves references and encodes download bodies."""

    def __init__(self, database: Database, folder: DataFolder, clock: Callable[[], float]) -> None:
        self._db, self._folder, self._clock = database, folder, clock
        self._ledger = Ledger(database, folder)

    # -- uploads ------------------------------------------------------------------------------

    def store_one(self, body: Path, coding: Compression, project: str) -> StoredBlob:
        """Store a single upload's body, taking ownership of the file."""
        work = self._folder.work_file(".pack")
        return self._keep(work, [pack_single(body, work, coding)], project)[0]

    def store_batch(
        self, body: Path, coding: Compression, project: str, *, keys: Sequence[str] = ()
    ) -> list[StoredBlob]:
        """Verify the frames of a batch upload (see `pack_batch`), and store its blobs in order."""
        work = self._folder.work_file(".pack")
        return self._keep(work, pack_batch(body, work, coding, keys=keys), project)

    def store_bytes(
        self, data: bytes, project: str, *, content_type: str = "", file_name: str = ""
    ) -> StoredBlob:
        """Store an in-memory blob."""
        work = self._folder.work_file(".pack")
        work.write_bytes(data)
        piece = Piece(start=0, size=len(data), content_type=content_type, file_name=file_name)
        return self._keep(work, [piece], project)[0]

    def _keep(self, work: Path, pieces: Sequence[Piece], project: str) -> list[StoredBlob]:
        if not pieces:
            work.unlink(missing_ok=True)
            return []
        pack, now = self._folder.publish_data(work, self._folder.blob_pack), self._clock()
        stored = []
        with self._db.transaction() as db:
            for piece in pieces:
                secret = secrets.token_bytes(8)
                facts = {**asdict(piece), "secret": secret, "pack": pack, "project": project}
                cursor = db.execute(
                    "INSERT INTO blobs (secret, pack, start, size, md5, content_type,"
                    " file_name, project, created) VALUES (:secret, :pack, :start, :size, :md5,"
                    " :content_type, :file_name, :project, :created)",
                    {**facts, "created": now},
                )
                stored.append(StoredBlob(blob_id=cursor.lastrowid or 0, **facts))
        return stored

    # -- references and downloads ------------------------------------------------------------

    def find(self, references: Sequence[BlobReference]) -> list[StoredBlob]:
        """Return the referenced blobs in order, or raise 404 for an unknown reference."""
        keys = [_key(reference.raw) for reference in references]
        blobs = self._look_up(keys)
        for reference, key in zip(references, keys, strict=True):
            if key not in blobs:
                raise errors.no_such(f"there is no blob {reference!r}")
        return [blobs[key] for key in keys]

    def _look_up(self, keys: Iterable[_Key]) -> dict[_Key, StoredBlob]:
        ids = sorted({key[0] for key in keys if key is not None})
        blobs: dict[_Key, StoredBlob] = {}
        for at in range(0, len(ids), _LOOKUP):
            batch = ids[at : at + _LOOKUP]
            marks = ",".join("?" * len(batch))
            for row in self._db.rows(f"SELECT * FROM blobs WHERE blob_id IN ({marks})", *batch):
                blob = StoredBlob(
                    **{attribute.name: row[attribute.name] for attribute in fields(StoredBlob)}
                )
                blobs[blob.blob_id, blob.secret] = blob
        return blobs

    def spell(self, array: pa.Array, used: set[int]) -> pa.Array:
        """Convert references (raw or base64 bytes) to stored text; add their ids to ``used``."""
        raw = [None if value is None else _raw(value) for value in array.to_pylist()]
        keys = [None if value is None else _key(value) for value in raw]
        if any(value is not None and key is None for value, key in zip(raw, keys, strict=True)):
            raise errors.invalid("a BLOB column contains a value that is not a blob reference")
        known = self._look_up(keys)
        if any(key is not None and key not in known for key in keys):
            raise errors.invalid(
                "a BLOB column contains a reference that is unknown to this service"
            )
        used.update(key[0] for key in keys if key is not None)
        tokens = (None if key is None else known[key].reference.token for key in keys)
        return pa.array(tokens, pa.string()).cast(pa.binary())

    def used_by(self, file: str, used: set[int]) -> None:
        """Record the blobs that a row file references, to keep them while the file exists."""
        if used:
            pairs = [(file, blob_id) for blob_id in used]
            with self._db.transaction() as db:
                db.executemany("INSERT OR IGNORE INTO blob_uses VALUES (?, ?)", pairs)

    def collect(self) -> None:
        """Delete old packs whose blobs no row file references."""
        oldest = self._clock() - GARBAGE_AGE
        with self._db.transaction() as db:
            unknown = db.execute(
                "SELECT DISTINCT file FROM blob_uses WHERE file NOT IN (SELECT name FROM files"
                " UNION SELECT name FROM parts)"
            ).fetchall()
            # keep the references of a file that is on disk: it will be added to the catalog shortly
            db.executemany(
                "DELETE FROM blob_uses WHERE file = ?",
                [(r["file"],) for r in unknown if not self._folder.row_file(r["file"]).exists()],
            )
            packs = db.execute(
                "SELECT pack FROM blobs b GROUP BY pack HAVING MAX(created) < ? AND"
                " NOT EXISTS (SELECT 1 FROM blob_uses u JOIN blobs o ON o.blob_id = u.blob_id"
                " WHERE o.pack = b.pack)",
                (oldest,),
            ).fetchall()
            db.executemany("DELETE FROM blobs WHERE pack = ?", [(r["pack"],) for r in packs])
            self._ledger.drop([row["pack"] + PACK for row in packs])

    def body(
        self, blobs: Sequence[StoredBlob], coding: Compression
    ) -> Generator[bytes | memoryview, None, None]:
        """Yield the download body of ``blobs``."""
        return download_body([(self._folder.blob_pack(b.pack), b) for b in blobs], coding)


def _raw(value: bytes) -> bytes:
    if value[:1] != b"\xff":
        with suppress(binascii.Error, ValueError):
            return base64.b64decode(value, validate=True)
    return value


def _key(raw: bytes) -> _Key:
    if len(raw) != _RAW_SIZE or raw[0] != 0xFF or raw[1] & 0x80:
        return None
    return int.from_bytes(raw[1:9], "big"), raw[9:]
