"""`Uploader`: the file picker of ``table.upload()``.

The kernel requests the files from the browser in chunks (`PickedFiles.wanted`), a few at a time, to
limit memory use on both sides. A thread then writes all files in one commit. The saved notebook
keeps a card with a summary. File names from the browser are untrusted and are never used as local
paths.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odps_nb.access.writing.files import write_files
from odps_nb.access.writing.folder_files import FolderFile
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import ArgumentError, CancelledError, ConfigError, FramingError, OdpsNbError
from odps_nb.notebook.display.failures import error_lines
from odps_nb.notebook.display.html import STATUS, STATUS_SMALL, Html, bundle, element, join
from odps_nb.notebook.live.twin import LiveView, in_kernel
from odps_nb.notebook.progress.told import Told
from odps_nb.terms import format_bytes

if TYPE_CHECKING:
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.table import Table
    from odps_nb.access.writing.rows import WriteOptions
    from odps_nb.terms import TableName

PIECE = 1 << 20
"""Bytes per message; Jupyter Server closes the connection on messages above 10 MiB."""
MAX_FILES = 10_000
MAX_NAME = 1000
_SPARE = 1 << 30  # bytes to leave free on the disk
_AT_ONCE = 4  # maximum outstanding chunk requests
_NO_WIDGET = "run the cell again to choose files"
_MAX_NAMES = 20  # maximum file names on the card
_WAITING, _DONE = STATUS.format("#1a73e8"), STATUS.format("#1e8e3e")
_NOTHING = (
    "No file has been written yet. Choose files here while no cell is running; if the kernel was "
    "restarted, run the cell again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A file as announced by the browser; ``modified`` is in nanoseconds since the epoch."""

    name: str
    size: int
    modified: int

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Announced:
        """Validate an announcement from the browser."""
        name = str(told["name"]).replace("/", "_").encode("utf-8", "replace").decode()
        size, modified = int(told["size"]), int(float(told["modified"]) * 1_000_000)
        if not name or len(name) > MAX_NAME or size < 0:
            raise ArgumentError(f"a file has an invalid name or size: {name[:80]!r}, {size} bytes")
        return cls(name=name, size=size, modified=min(max(modified, 0), 2**63 - 1))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A chunk to request from the browser: its file and byte range."""

    file: int
    start: int
    size: int


class PickedFiles:
    """The files of one upload. Each chunk arrives exactly once, in order.

    Iteration yields each file as a `FolderFile`; `close` removes the files.
    """

    def __init__(self, announced: Sequence[Announced]) -> None:
        if not 0 < len(announced) <= MAX_FILES:
            raise ArgumentError(
                f"{len(announced):,} files were chosen",
                argument="files",
                hint=f"choose 1 to {MAX_FILES:,} files; use Table.write_files for more files",
            )
        self.announced: tuple[Announced, ...] = tuple(announced)
        self._folder = tempfile.TemporaryDirectory(prefix="odps-nb-upload-")
        self._pieces = self.wanted()
        self._next = next(self._pieces, None)
        total, free = sum(one.size for one in announced), shutil.disk_usage(self._folder.name).free
        if total + _SPARE > free:
            self.close()
            raise ConfigError(
                f"the files need {format_bytes(total)}, but only "
                f"{format_bytes(max(0, free - _SPARE))} are free in {self._folder.name}",
                option="TMPDIR",
                hint="choose fewer files, or set TMPDIR to a folder on a larger disk",
            )
        for number in range(len(announced)):
            self._path(number).touch(mode=0o600)

    @property
    def is_whole(self) -> bool:
        """Whether all bytes of all files have arrived."""
        return self._next is None

    def wanted(self) -> Iterator[Wanted]:
        """Iterate over the chunks to request from the browser, in order."""
        for number, one in enumerate(self.announced):
            for start in range(0, one.size, PIECE):
                yield Wanted(number, start, min(PIECE, one.size - start))

    def put(self, piece: Wanted, data: bytes | memoryview) -> None:
        """Store a chunk."""
        if piece != self._next or len(data) != piece.size:
            raise FramingError(
                f"{self.announced[piece.file].name} changed while it was being sent",
                hint="choose it again when no other program is writing to it",
            )
        with self._path(piece.file).open("ab", buffering=0) as file:
            file.write(data)
        self._next = next(self._pieces, None)

    def check(self) -> tuple[int, int]:
        """Return the number of files and their total bytes."""
        return len(self.announced), sum(one.size for one in self.announced)

    def __iter__(self) -> Iterator[FolderFile]:
        for number, one in enumerate(self.announced):
            file = self._path(number)
            os.utime(file, ns=(one.modified, one.modified))
            modified = file.stat().st_mtime_ns  # rounded to this file system's resolution
            yield FolderFile(file=file, path=one.name, size=one.size, modified=modified)

    def close(self) -> None:
        """Remove the files. Idempotent."""
        self._folder.cleanup()

    def _path(self, number: int) -> Path:
        return Path(os.path.realpath(self._folder.name), str(number))


class Uploader(LiveView):
    """Receives files from the browser and writes them to a table; displays itself in a notebook.

    Examples
    --------
    >>> picker = odps.table("photos").upload(accept="image/*")
    >>> picker.receipt is None
    True
    >>> picker.close()
    """

    _script = Path(__file__).with_name("uploader.js")
    _task = "upload"

    def __init__(self, table: Table, options: WriteOptions, *, create: bool, accept: str) -> None:
        self._table, self._options = table, options
        self._create, self._accept = create, accept
        self._shown = self._writing = False
        self._picked: PickedFiles | None = None
        self._number = 0  # upload number, to recognise chunks of an earlier upload
        self._pieces: Iterator[Wanted] = iter(())
        self.receipt: Receipt | None = None
        self.error: BaseException | None = None
        super().__init__()

    def end(self) -> None:
        """Cancel, and remove the received files; also called when the interpreter exits."""
        super().end()
        self._forget()

    def __repr__(self) -> str:
        if self.receipt is not None:
            state = f"{self.receipt.rows:,} written"
        elif self._picked is not None:
            state = f"{len(self._picked.announced):,} chosen"
        else:
            state = "nothing chosen"
        return f"<Uploader to {self._table.name}, {state}>"

    # -- in a notebook --------------------------------------------------------------------------

    def _ipython_display_(self) -> None:
        self._shown = True
        self._is_displayed = False  # display a new output, perhaps in another cell
        self._show_record()
        if in_kernel():
            self._show_widget(_NO_WIDGET)

    def _show_record(self) -> None:
        names = () if self._picked is None else [one.name for one in self._picked.announced]
        self._show_static(_card(self._table.name, self.receipt, names))

    def _texts(self) -> Mapping[str, str]:
        where = str(self._table.name)
        if self._options.partition.items:
            where += f" ({self._options.partition})"
        return {"where": where, "accept": self._accept}

    def _send(self, message: Mapping[str, Any], *buffers: bytes) -> None:
        super()._send({"run": self._number, **message}, *buffers)

    # -- requests from the browser --------------------------------------------------------------

    def _on_ready(self, _: Mapping[str, Any], buffers: object) -> None:
        said = "" if self.receipt is None else _said(self.receipt)
        self._send({"kind": "ready", "said": said})

    def _on_upload(self, content: Mapping[str, Any], _: object) -> None:
        if self._writing:  # another view of this picker started a write
            told = {"state": "failed", "lines": ["this picker is already writing an upload"]}
            self._send({"kind": "problem", "run": content["run"], **told})
            return
        self._forget()
        self._number = int(content["run"])
        self.receipt = self.error = None
        self._picked = PickedFiles([Announced.of(one) for one in content["files"]])
        self._pieces = self._picked.wanted()
        for _ in range(_AT_ONCE):
            self._ask()
        self._write_if_whole()

    def _ask(self) -> None:
        if (wanted := next(self._pieces, None)) is not None:
            self._send({"kind": "want", **asdict(wanted)})

    def _expected(self, content: Mapping[str, Any]) -> PickedFiles | None:
        """Return the files that a message concerns; ``None`` if it is from an earlier upload."""
        if self._writing or self._picked is None or content["run"] != self._number:
            return None
        return self._picked

    def _on_piece(self, content: Mapping[str, Any], buffers: Sequence[Any]) -> None:
        if (picked := self._expected(content)) is not None:
            piece = Wanted(int(content["file"]), int(content["start"]), int(content["size"]))
            picked.put(piece, buffers[0])
            self._ask()
            self._write_if_whole()

    def _on_unreadable(self, content: Mapping[str, Any], _: object) -> None:
        if (picked := self._expected(content)) is not None:
            name = picked.announced[int(content["file"])].name
            raise ConfigError(
                f"the browser cannot read {name}: {str(content['why'])[:200]}",
                option="files",
                hint="choose it again: it was moved, removed or changed",
            )

    def _on_cancel(self, content: Mapping[str, Any], _: object) -> None:
        if self._writing:
            self._stop(self._task)  # the write reports whether it was cancelled in time
        elif self._picked is not None:
            error = CancelledError("the upload was cancelled; nothing was written")
            self._tell_error(self._task, error)

    # -- writing --------------------------------------------------------------------------------

    def _write_if_whole(self) -> None:
        if self._picked is not None and self._picked.is_whole:
            picked, self._writing = self._picked, True
            self._run(self._task, lambda token: self._write(picked, token))

    def _write(self, picked: PickedFiles, token: CancelToken) -> None:
        listener = Told(self._send, token.cancel)
        options = replace(self._options, progress=listener, cancel=token)
        try:
            receipt = write_files(picked, self._table, options, create=self._create)
        finally:
            self._writing = False
        self.receipt = receipt
        self._table.reload()
        if self._shown:
            self._show_record()
        self._forget()
        self._send({"kind": "done", "text": _said(receipt)})

    def _tell_error(self, _task: str, error: BaseException) -> None:
        if self.receipt is not None:
            return  # the rows are committed; only the report failed
        self.error = error
        self._forget()
        lines = [f"{type(error).__name__}: {error}"[:400]]
        if isinstance(error, OdpsNbError):
            lines = error_lines(error)
        state = "cancelled" if isinstance(error, CancelledError) else "failed"
        self._send({"kind": "problem", "state": state, "lines": lines})

    def _tell_end(self, task: str) -> None:
        pass  # the "done" or "problem" message reports the end

    def _forget(self) -> None:
        picked, self._picked, self._pieces = self._picked, None, iter(())
        if picked is not None:
            picked.close()


def _said(receipt: Receipt) -> str:
    return repr(receipt)[len("<Receipt: ") : -1]


def _card(table: TableName, receipt: Receipt | None, names: Sequence[str]) -> dict[str, str]:
    """Return the card saved in the notebook, as HTML without scripts and as text."""
    title = f"upload to {table}"
    said = _NOTHING if receipt is None else _said(receipt)
    parts: list[object] = [element("div", element("b", title)), element("div", said)]
    if receipt is not None and names:
        parts.append(element("div", _listed(names), style=STATUS_SMALL))
    style = _WAITING if receipt is None else _DONE
    card = element("div", join(parts), attributes={"role": "status"}, style=style)
    return bundle(card, f"{title}: {said}")


def _listed(names: Sequence[str]) -> Html:
    shown: list[object] = [element("bdi", name[:200]) for name in names[:_MAX_NAMES]]
    if len(names) > _MAX_NAMES:
        shown.append(element("span", f"and {len(names) - _MAX_NAMES:,} more"))
    return join(shown, ", ")
