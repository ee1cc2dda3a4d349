"""Blobs: packs on disk, references in rows, bodies for downloads (world local).

An upload becomes one pack file; each blob is a stretch of it. A reference names a row of the
catalogue and proves that it was given out: ``ff · id (8 bytes) · secret (8 bytes)``. It begins
with a byte that no text has, so raw references and their base64 text cannot be mixed up.
``protocol.md`` section 6.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from odps_nb.errors import ProtocolError
from odps_nb.local import faults
from odps_nb.local.database import Database
from odps_nb.local.folder import Folder, new_id
from odps_nb.terms import BlobReference, Compression
from odps_nb.wire.blocks import BlockEncoder
from odps_nb.wire.codings import decoder, encoder
from odps_nb.wire.crc32 import crc32
from odps_nb.wire.frames import (
    BlobData,
    BlobEnd,
    BlobStart,
    ChecksumKind,
    FrameDecoder,
    FrameEncoder,
    FrameHeader,
)

__all__ = ["BlobStore", "BlobUse", "StoredBlob"]

READ_BYTES = 1 << 20
MAX_BLOB = 1 << 34
GARBAGE_AGE = 48 * 3600.0
_RAW_SIZE = 17
_LOOKUP = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBlob:
    """A blob that is on disk; ``secret`` is shown to nobody but in the reference."""

    blob_id: int
    secret: bytes
    pack: str
    start: int
    size: int
    md5: str
    crc32: int
    content_type: str = ""
    file_name: str = ""

    @property
    def reference(self) -> BlobReference:
        """The token that names the blob."""
        return BlobReference.from_raw(b"\xff" + self.blob_id.to_bytes(8, "big") + self.secret)

    def __repr__(self) -> str:
        return f"StoredBlob({self.blob_id}, {self.size} bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    start: int
    size: int
    md5: str
    crc32: int
    content_type: str = ""
    file_name: str = ""


class BlobStore:
    """Stores uploads, finds references, makes download bodies."""

    def __init__(self, database: Database, folder: Folder, clock: Callable[[], float]) -> None:
        self._db, self._folder, self._clock = database, folder, clock

    # -- uploads ------------------------------------------------------------------------------

    def store_one(self, body: Path, coding: Compression, project: str) -> StoredBlob:
        """Keep the body of a single upload; the file is taken over."""
        with self._decoding(body, coding) as pack:
            pieces = [_measure(pack.path)]
        return self._keep(pack.path, pieces, project)[0]

    def store_batch(self, body: Path, coding: Compression, project: str) -> list[StoredBlob]:
        """Keep the blobs of a batch upload, in frame order; footers are verified."""
        work = self._folder.work_file(".pack")
        try:
            with body.open("rb") as source, work.open("wb") as target:
                pieces = list(_unframe(_decoded(source, coding), target))
        except ProtocolError as error:
            work.unlink(missing_ok=True)
            raise faults.malformed(f"the frames cannot be read: {error}") from error
        return self._keep(work, pieces, project)

    def store_bytes(
        self, blobs: Iterable[tuple[bytes, str, str]], project: str
    ) -> list[StoredBlob]:
        """Keep blobs that are at hand as (data, content type, file name)."""
        work = self._folder.work_file(".pack")
        pieces, start = [], 0
        with work.open("wb") as target:
            for data, content_type, file_name in blobs:
                target.write(data)
                pieces.append(
                    _Piece(
                        start=start,
                        size=len(data),
                        md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
                        crc32=crc32(data),
                        content_type=content_type,
                        file_name=file_name,
                    )
                )
                start += len(data)
        return self._keep(work, pieces, project)

    def _decoding(self, body: Path, coding: Compression) -> _Decoded:
        return _Decoded(body, self._folder.work_file(".pack"), coding)

    def _keep(self, work: Path, pieces: Sequence[_Piece], project: str) -> list[StoredBlob]:
        if not pieces:
            work.unlink(missing_ok=True)
            return []
        pack, now = new_id(), self._clock()
        self._folder.publish(work, self._folder.blob_pack(pack))
        stored = []
        with self._db.transaction() as db:
            for piece in pieces:
                secret = secrets.token_bytes(8)
                cursor = db.execute(
                    "INSERT INTO blobs (secret, pack, start, size, crc32, md5, content_type,"
                    " file_name, project, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        secret,
                        pack,
                        piece.start,
                        piece.size,
                        piece.crc32,
                        piece.md5,
                        piece.content_type,
                        piece.file_name,
                        project,
                        now,
                    ),
                )
                stored.append(_stored(piece, cursor.lastrowid or 0, secret, pack))
        return stored

    # -- references ---------------------------------------------------------------------------

    def find(self, references: Sequence[BlobReference]) -> list[StoredBlob]:
        """Return the blobs in the order of the references; 404 for one that is none of ours."""
        keys = [_key(reference.raw) for reference in references]
        found = self._look_up([key for key in keys if key is not None])
        result = []
        for reference, key in zip(references, keys, strict=True):
            blob = None if key is None else found.get(key)
            if blob is None:
                raise faults.no_such(f"there is no blob {reference!r}")
            result.append(blob)
        return result

    def _look_up(self, keys: Iterable[tuple[int, bytes]]) -> dict[tuple[int, bytes], StoredBlob]:
        ids = sorted({blob_id for blob_id, _ in keys})
        found: dict[tuple[int, bytes], StoredBlob] = {}
        for at in range(0, len(ids), _LOOKUP):
            some = ids[at : at + _LOOKUP]
            marks = ",".join("?" * len(some))
            for row in self._db.rows(f"SELECT * FROM blobs WHERE blob_id IN ({marks})", *some):
                blob = StoredBlob(
                    blob_id=row["blob_id"],
                    secret=row["secret"],
                    pack=row["pack"],
                    start=row["start"],
                    size=row["size"],
                    md5=row["md5"],
                    crc32=row["crc32"],
                    content_type=row["content_type"],
                    file_name=row["file_name"],
                )
                found[blob.blob_id, blob.secret] = blob
        return found

    def spell(self, array: pa.Array, use: BlobUse) -> pa.Array:
        """Turn written references (raw bytes, or their base64 text) into the stored text."""
        raw = [None if value is None else _raw(value) for value in array.to_pylist()]
        keys = [None if value is None else _key(value) for value in raw]
        if any(value is not None and key is None for value, key in zip(raw, keys, strict=True)):
            raise faults.invalid("a BLOB column holds something that is no blob reference")
        known = self._look_up(key for key in keys if key is not None)
        texts: list[bytes | None] = []
        for key in keys:
            if key is None:
                texts.append(None)
                continue
            if key not in known:
                raise faults.invalid("a BLOB column holds a reference to no blob of this service")
            use.blob_ids.add(key[0])
            texts.append(known[key].reference.token.encode("ascii"))
        return pa.array(texts, pa.binary())

    def used_by(self, file: str, use: BlobUse) -> None:
        """Remember that a row file refers to blobs: they are kept while it is."""
        if use.blob_ids:
            with self._db.transaction() as db:
                db.executemany(
                    "INSERT OR IGNORE INTO blob_uses VALUES (?, ?)",
                    [(file, blob_id) for blob_id in use.blob_ids],
                )

    def collect(self) -> int:
        """Delete packs none of whose blobs is in any row file, once they are old; say how many.

        A fresh upload is not in a row yet, so age protects it.
        """
        oldest = self._clock() - GARBAGE_AGE
        with self._db.transaction() as db:
            db.execute(
                "DELETE FROM blob_uses WHERE file NOT IN (SELECT name FROM files"
                " UNION SELECT name FROM parts)"
            )
            packs = db.execute(
                "SELECT pack FROM blobs b GROUP BY pack HAVING MAX(created) < ? AND"
                " NOT EXISTS (SELECT 1 FROM blob_uses u JOIN blobs o ON o.blob_id = u.blob_id"
                " WHERE o.pack = b.pack)",
                (oldest,),
            ).fetchall()
            db.executemany("DELETE FROM blobs WHERE pack = ?", [(r["pack"],) for r in packs])
        for row in packs:
            self._folder.blob_pack(row["pack"]).unlink(missing_ok=True)
        return len(packs)

    def sweep(self) -> None:
        """Delete packs that the catalogue does not know; only before anybody is served."""
        known = {row["pack"] for row in self._db.rows("SELECT DISTINCT pack FROM blobs")}
        for path in self._folder.blobs.iterdir():
            if path.stem not in known:
                path.unlink()

    # -- downloads ----------------------------------------------------------------------------

    def body(
        self, blobs: Sequence[StoredBlob], coding: Compression
    ) -> Generator[bytes | memoryview, None, None]:
        """Yield the body of a download: payload, coding, CRC blocks outermost (section 6.4).

        One blob is raw, none or several are framed.
        """
        blocks = BlockEncoder()
        payload = self._raw(blobs[0]) if len(blobs) == 1 else self._framed(blobs)
        if coding is not Compression.NONE:
            payload = _encoded(payload, coding)
        for chunk in payload:
            if ready := blocks.feed(chunk):
                yield ready
        if last := blocks.finish():
            yield last

    def _raw(self, blob: StoredBlob) -> Iterator[bytes]:
        with self._folder.blob_pack(blob.pack).open("rb") as pack:
            pack.seek(blob.start)
            left = blob.size
            while left:
                chunk = pack.read(min(left, READ_BYTES))
                if not chunk:
                    raise faults.internal(f"the pack of blob {blob.blob_id} is too short")
                left -= len(chunk)
                yield chunk

    def _framed(self, blobs: Sequence[StoredBlob]) -> Iterator[bytes]:
        held, size = [], 0
        for blob in blobs:
            frame = FrameEncoder(
                FrameHeader(
                    content_type=blob.content_type, custom_file_name=blob.file_name or None
                ),
                length=blob.size,
                checksum=ChecksumKind.CRC32,
            )
            for part in _frame(frame, self._raw(blob)):
                held.append(part)
                size += len(part)
                if size >= READ_BYTES:
                    yield b"".join(held)
                    held, size = [], 0
        yield b"".join(held)


class BlobUse:
    """The blobs that one row file refers to."""

    def __init__(self) -> None:
        self.blob_ids: set[int] = set()


class _Decoded:
    """A body with its coding undone, as a file; the file goes away when the block fails."""

    def __init__(self, body: Path, work: Path, coding: Compression) -> None:
        self._body, self._coding = body, coding
        self.path = work

    def __enter__(self) -> _Decoded:
        try:
            if self._coding is Compression.NONE:
                self._body.replace(self.path)
            else:
                with self._body.open("rb") as source, self.path.open("wb") as target:
                    for chunk in _decoded(source, self._coding):
                        target.write(chunk)
        except ProtocolError as error:
            self.path.unlink(missing_ok=True)
            raise faults.malformed(f"the body cannot be decoded: {error}") from error
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.path.unlink(missing_ok=True)


def _decoded(source: BinaryIO, coding: Compression) -> Iterator[bytes]:
    undo = decoder(coding, max_output=MAX_BLOB)
    while chunk := source.read(READ_BYTES):
        if ready := undo.feed(chunk):
            yield ready
    if last := undo.feed_eof():
        yield last


def _encoded(payload: Iterator[bytes], coding: Compression) -> Iterator[bytes]:
    coder = encoder(coding)
    for chunk in payload:
        if ready := coder.feed(chunk):
            yield ready
    yield coder.finish()


def _measure(path: Path) -> _Piece:
    md5, check, size = hashlib.md5(usedforsecurity=False), 0, 0
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            md5.update(chunk)
            check = crc32(chunk, check)
            size += len(chunk)
    return _Piece(start=0, size=size, md5=md5.hexdigest(), crc32=check)


def _unframe(chunks: Iterator[bytes], target: BinaryIO) -> Iterator[_Piece]:
    """Write the data of frames one after the other; yield where each came to lie."""
    frames = FrameDecoder(None, max_blob=MAX_BLOB, always_md5=True)
    start, check, offset = None, 0, 0
    md5 = hashlib.md5(usedforsecurity=False)

    def take(events: Iterable[object]) -> Iterator[_Piece]:
        nonlocal start, check, offset, md5
        for event in events:
            if isinstance(event, BlobStart):
                start, check = event, 0
                md5 = hashlib.md5(usedforsecurity=False)
            elif isinstance(event, BlobData):
                target.write(event.data)
                md5.update(event.data)
                check = crc32(event.data, check)
            elif isinstance(event, BlobEnd):
                assert start is not None
                yield _Piece(
                    start=offset,
                    size=event.length,
                    md5=md5.hexdigest(),
                    crc32=check,
                    content_type=start.content_type or "",
                    file_name=start.custom_file_name or "",
                )
                offset += event.length

    for chunk in chunks:
        yield from take(frames.feed(chunk))
    yield from take(frames.feed_eof())


def _frame(frame: FrameEncoder, data: Iterator[bytes]) -> Iterator[bytes]:
    yield frame.begin()
    for chunk in data:
        yield frame.feed(chunk)
    yield frame.finish()


def _stored(piece: _Piece, blob_id: int, secret: bytes, pack: str) -> StoredBlob:
    return StoredBlob(
        blob_id=blob_id,
        secret=secret,
        pack=pack,
        start=piece.start,
        size=piece.size,
        md5=piece.md5,
        crc32=piece.crc32,
        content_type=piece.content_type,
        file_name=piece.file_name,
    )


def _raw(value: bytes) -> bytes:
    if value[:1] != b"\xff":
        with suppress(binascii.Error, ValueError):
            return base64.b64decode(value, validate=True)
    return value


def _key(raw: bytes) -> tuple[int, bytes] | None:
    if len(raw) != _RAW_SIZE or raw[0] != 0xFF or raw[1] & 0x80:
        return None
    return int.from_bytes(raw[1:9], "big"), raw[9:]
