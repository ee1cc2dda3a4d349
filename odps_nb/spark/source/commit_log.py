"""`CommitLog`: records which write session commits each micro-batch.

In the checkpoint, ``odps_nb/<batch>-<digest>.json`` is written before the commit request, and
``….done`` after it. If a query is restarted between the two, it repeats the same commit instead of
writing the rows again. The digest covers Spark's files for the query and the batch, because batch
numbers restart at 0 if a checkpoint is cleared manually. Used only in the driver; contains no keys.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import uuid
from dataclasses import asdict, dataclass
from urllib.parse import quote, unquote, urlsplit

from pyarrow import ArrowException
from pyarrow.fs import (
    FileSelector,
    FileSystem,
    FileType,
    FSSpecHandler,
    LocalFileSystem,
    PyFileSystem,
)

from odps_nb.errors import ConfigError, StateError

_FOLDER = "odps_nb"
_KEPT = 100  # number of batches to keep, as in Spark's own log
_ELSEWHERE = {"s3a": "s3", "s3n": "s3"}  # Hadoop's scheme: Arrow's scheme
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)  # e.g. on FAT
_ARROW = frozenset({"gcs", "gs", "hdfs", "s3", "viewfs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A recorded commit request: the write session and its streams as (id, version)."""

    table: str
    session: str
    streams: tuple[tuple[str, int], ...]

    def encode(self) -> bytes:
        """Return the content of the log file."""
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def decode(cls, content: bytes, path: str) -> Intent:
        """Parse the content of a log file; raise `StateError` if it is damaged."""
        try:
            document = json.loads(content)
            streams = tuple((str(name), int(version)) for name, version in document["streams"])
            return cls(
                table=str(document["table"]), session=str(document["session"]), streams=streams
            )
        except (ValueError, KeyError, TypeError):
            raise StateError(
                f"{path} is damaged, so it is unknown whether its micro-batch was committed",
                hint="check whether its rows are in the table; if not, delete the file",
            ) from None


class CommitLog:
    """The log files of one checkpoint, at a path or URI for ``pyarrow.fs`` or fsspec.

    The storage library reads its keys and endpoint from its own settings, such as
    ``AWS_ENDPOINT_URL``.
    """

    def __init__(self, checkpoint: str) -> None:
        self._files, self._root = _opened(checkpoint)
        self._folder = f"{self._root}/{_FOLDER}"

    def find(self, batch: int) -> Intent | None:
        """Return the commit recorded for a micro-batch, or ``None``."""
        path = self.path(batch)
        return Intent.decode(self._read(path), path) if self._is_there(path) else None

    def is_done(self, batch: int) -> bool:
        """Whether a micro-batch is recorded as committed."""
        return self._is_there(self.path(batch, "done"))

    def note_done(self, batch: int) -> None:
        """Record that a micro-batch is committed, which avoids later requests to the service."""
        self._write(self.path(batch, "done"), b"")

    def note(self, batch: int, intent: Intent, *, instead_of: Intent | None = None) -> None:
        """Record a commit before it is requested; the file is on disk when this returns.

        ``instead_of`` is the commit to replace: one that `find` returned and that can never
        succeed.
        """
        path = self.path(batch)
        if self.find(batch) != instead_of:
            raise _taken(batch, path)
        try:
            self._write(path, intent.encode(), new=instead_of is None)
        except FileExistsError:
            raise _taken(batch, path) from None
        if batch % _KEPT == 0:
            self._tidy(batch - _KEPT)

    def path(self, batch: int, kind: str = "json") -> str:
        """Return the path of a micro-batch's log file."""
        digest = hashlib.sha256()
        for name in ("metadata", f"offsets/{batch}"):
            try:
                digest.update(self._read(f"{self._root}/{name}"))
            except OSError as error:
                raise ConfigError(
                    f"the driver cannot read {name} in the checkpoint {self._root} of this query "
                    f"({type(error).__name__})",
                    option="checkpointLocation",
                    hint="include the scheme in checkpointLocation, e.g. hdfs://… or file://…",
                ) from error
        return f"{self._folder}/{batch}-{digest.hexdigest()[:16]}.{kind}"

    def _write(self, path: str, content: bytes, *, new: bool = False) -> None:
        self._files.create_dir(self._folder, recursive=True)
        temporary = f"{self._folder}/.{uuid.uuid4().hex}.tmp"
        with self._files.open_output_stream(temporary) as file:
            file.write(content)
        self._force(temporary)
        if new and isinstance(self._files, LocalFileSystem):
            self._link(temporary, path)
        if self._is_there(temporary):
            if self._is_there(path):
                self._files.delete_file(path)
            self._files.move(temporary, path)
        self._force(self._folder)

    def _link(self, temporary: str, path: str) -> None:
        """Link a file to its final name; raise if that name exists; no-op without link support."""
        try:
            os.link(temporary, path)  # unlike a rename, a link never replaces a file
        except FileExistsError:
            self._files.delete_file(temporary)
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                self._files.delete_file(temporary)
                raise
        else:
            self._files.delete_file(temporary)

    def _is_there(self, path: str) -> bool:
        return bool(self._files.get_file_info(path).type is not FileType.NotFound)

    def _read(self, path: str) -> bytes:
        with self._files.open_input_stream(path) as file:
            return bytes(file.read())

    def _force(self, path: str) -> None:
        if isinstance(self._files, LocalFileSystem):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def _tidy(self, before: int) -> None:
        for info in self._files.get_file_info(FileSelector(self._folder)):
            number = info.base_name.partition("-")[0]
            if number.isdecimal() and int(number) < before:
                self._files.delete_file(info.path)


def _taken(batch: int, path: str) -> StateError:
    return StateError(
        f"another driver is writing micro-batch {batch} with this checkpoint: {path} exists",
        hint="stop one of the two queries; this one has not written to the table",
    )


def _opened(checkpoint: str) -> tuple[FileSystem, str]:
    parts = urlsplit(quote(checkpoint, safe=":/@[]"))  # Hadoop keeps %, ? and # as they are
    if parts.scheme in ("", "file"):
        path = unquote(parts.path) if parts.scheme else checkpoint
        return LocalFileSystem(), os.path.abspath(path)  # noqa: PTH100  Arrow needs text
    scheme = _ELSEWHERE.get(parts.scheme, parts.scheme)
    uri = parts._replace(scheme=scheme).geturl()
    try:
        if scheme in _ARROW:
            files, root = FileSystem.from_uri(uri)
        else:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # ships no types

            filesystem, root = url_to_fs(unquote(uri))
            files = PyFileSystem(FSSpecHandler(filesystem))
    except (ArrowException, OSError, ValueError, ImportError) as error:
        raise ConfigError(
            f"the checkpoint {checkpoint} cannot be opened: {error}",
            option="checkpointLocation",
            hint="use a location that pyarrow.fs can open (a path, hdfs://, s3://, gs://), or "
            "install its fsspec library; commits are recorded in the checkpoint",
        ) from error
    return files, root.rstrip("/")
