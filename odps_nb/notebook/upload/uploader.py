"""`Uploader`: the file picker of ``odps.upload(table)``.

The kernel asks the browser for one piece after the other (`PickedFiles.wanted`), a few at a time,
so that neither side holds more; then all files are written in one commit, in a thread. The saved
notebook keeps a card that says what was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odps_nb.access.writing.files import write_files
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import CancelledError, ConfigError, OdpsNbError
from odps_nb.notebook.display.failures import error_lines
from odps_nb.notebook.display.html import STATUS, STATUS_SMALL, Html, bundle, element, join
from odps_nb.notebook.live.twin import LiveView, Told, in_kernel
from odps_nb.notebook.upload.picked import Announced, PickedFiles, Wanted

if TYPE_CHECKING:
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.table import Table
    from odps_nb.access.writing.rows import WriteOptions
    from odps_nb.terms import TableName

_AT_ONCE = 4  # pieces that are asked for and have not come
_NO_WIDGET = "run the cell again to choose files"
_MAX_NAMES = 20  # of files that the card lists
_WAITING, _DONE = STATUS.format("#1a73e8"), STATUS.format("#1e8e3e")
_NOTHING = (
    "No file was written yet. Files are chosen here when the kernel has no cell to run; if it was "
    "restarted, run the cell again."
)


class Uploader(LiveView):
    """Takes files from the browser and writes them to a table; displays itself in a notebook.

    Examples
    --------
    >>> picker = odps.upload("photos", accept="image/*")
    >>> picker.receipt is None
    True
    >>> picker.close()
    """

    _script = Path(__file__).with_name("uploader.js")
    _lane = "upload"

    def __init__(self, table: Table, options: WriteOptions, *, create: bool, accept: str) -> None:
        super().__init__()
        self._table, self._options = table, options
        self._create, self._accept = create, accept
        self._shown = self._writing = False
        self._picked: PickedFiles | None = None
        self._number = 0  # of the upload, so that pieces of an earlier one are known
        self._pieces: Iterator[Wanted] = iter(())
        self.receipt: Receipt | None = None
        self.error: BaseException | None = None

    def end(self) -> None:
        """Stop, and remove what came from the browser; called when the interpreter exits, too."""
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
        self._is_displayed = False  # another cell may have it
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

    # -- requests of the browser ----------------------------------------------------------------

    def _on_ready(self, _: Mapping[str, Any], buffers: object) -> None:
        said = "" if self.receipt is None else _said(self.receipt)
        self._send({"kind": "ready", "said": said})

    def _on_upload(self, content: Mapping[str, Any], _: object) -> None:
        if self._writing:  # asked by another view of the same picker
            told = {"state": "failed", "lines": ["an upload of this picker is being written"]}
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
        if (next_one := next(self._pieces, None)) is not None:
            wanted = {"file": next_one.file, "start": next_one.start, "size": next_one.size}
            self._send({"kind": "want", **wanted})

    def _expected(self, content: Mapping[str, Any]) -> PickedFiles | None:
        """Return the files that a message adds to; ``None`` for one of an earlier upload."""
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
                hint="choose it again: it was moved, removed or changed since",
            )

    def _on_cancel(self, content: Mapping[str, Any], _: object) -> None:
        if self._writing:
            self._stop(self._lane)  # whether it came in time, the write will tell
        elif self._picked is not None:
            error = CancelledError("the upload was cancelled; nothing was written")
            self._tell_error(self._lane, error)

    # -- writing --------------------------------------------------------------------------------

    def _write_if_whole(self) -> None:
        if self._picked is not None and self._picked.is_whole:
            picked, self._writing = self._picked, True
            self._run(self._lane, lambda token: self._write(picked, token))

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

    def _tell_error(self, _lane: str, error: BaseException) -> None:
        if self.receipt is not None:
            return  # the rows are there; only telling it failed
        self.error = error
        self._forget()
        lines = [f"{type(error).__name__}: {error}"[:400]]
        if isinstance(error, OdpsNbError):
            lines = error_lines(error)
        state = "cancelled" if isinstance(error, CancelledError) else "failed"
        self._send({"kind": "problem", "state": state, "lines": lines})

    def _tell_end(self, lane: str) -> None:
        pass  # "done" or "problem" says it

    def _forget(self) -> None:
        picked, self._picked, self._pieces = self._picked, None, iter(())
        if picked is not None:
            picked.close()


def _said(receipt: Receipt) -> str:
    return repr(receipt)[len("<Receipt: ") : -1]


def _card(table: TableName, receipt: Receipt | None, names: Sequence[str]) -> dict[str, str]:
    """Return what the notebook keeps, as HTML without scripts and as text."""
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
