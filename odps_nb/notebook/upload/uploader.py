"""`Uploader`: the file picker of ``odps.upload(table)``.

The kernel asks the browser for one piece after the other (`PickedFiles.wanted`), a few at a time,
so that neither side holds more; then all files are written in one commit, in a thread. The saved
notebook keeps a card that says what was written. The widget shows itself, and hides that card,
once the kernel has answered it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odps_nb.access.writing.files import write_files
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import (
    CancelledError,
    ConfigError,
    OdpsNbError,
)
from odps_nb.lifetime import end_at_exit
from odps_nb.notebook.display.failures import error_lines
from odps_nb.notebook.display.html import STATUS, STATUS_SMALL, Html, bundle, element, join
from odps_nb.notebook.live.lanes import MALFORMED, Lanes
from odps_nb.notebook.live.progress import Told
from odps_nb.notebook.live.twin import LiveView, in_kernel
from odps_nb.notebook.upload.picked import Announced, PickedFiles, Wanted

if TYPE_CHECKING:
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.table import Table
    from odps_nb.access.writing.rows import WriteOptions
    from odps_nb.terms import TableName

_AT_ONCE = 4  # pieces that are asked for and have not come
_NO_WIDGET = "run the cell again to choose files"
_LANE = "upload"
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

    def __init__(self, table: Table, options: WriteOptions, *, create: bool, accept: str) -> None:
        super().__init__()
        self._table, self._options = table, options
        self._create, self._accept = create, accept
        self._shown = False
        self._picked: PickedFiles | None = None
        self._run = 0  # number of the upload, so that pieces of an earlier one are known
        self._pieces: Iterator[Wanted] = iter(())
        self._writing = False
        self.receipt: Receipt | None = None
        self.error: BaseException | None = None
        self._lanes = Lanes(tell_error=self._tell_error, tell_end=lambda _: None)
        end_at_exit(self)

    def end(self) -> None:
        """Stop, and remove what came from the browser; called when the interpreter exits, too."""
        self._lanes.close()
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
        self._twin.begin()
        self._show_record()
        if in_kernel():
            self._twin.show_widget(self.widget(), _NO_WIDGET)

    def _show_record(self) -> None:
        names = () if self._picked is None else [one.name for one in self._picked.announced]
        self._twin.show(_card(self._table.name, self.receipt, names))

    def _texts(self) -> Mapping[str, str]:
        where = str(self._table.name)
        if self._options.partition.items:
            where += f" ({self._options.partition})"
        return {"where": where, "accept": self._accept}

    def _send(self, message: Mapping[str, Any], *buffers: bytes) -> None:
        super()._send({"run": self._run, **message}, *buffers)

    # -- requests of the browser ----------------------------------------------------------------

    def receive(self, content: object, buffers: Sequence[Any] = ()) -> None:
        """Do what a message of the browser asks for; returns at once, never raises."""
        if not isinstance(content, Mapping):
            return
        try:
            match content.get("do"):
                case "ready":
                    said = "" if self.receipt is None else _said(self.receipt)
                    self._send({"kind": "ready", "said": said})
                case "upload":
                    self._begin(content)
                case "piece" if not self._writing:
                    self._take(content, buffers)
                case "unreadable" if not self._writing:
                    self._refuse(content)
                case "cancel":
                    self._cancel()
        except (OdpsNbError, *MALFORMED) as error:
            self._tell_error(_LANE, error)

    def _begin(self, content: Mapping[str, Any]) -> None:
        if self._writing:  # asked by another view of the same picker
            told = {"state": "failed", "lines": ["an upload of this picker is being written"]}
            self._send({"kind": "problem", "run": content["run"], **told})
            return
        self._forget()
        self._run = int(content["run"])
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

    def _take(self, content: Mapping[str, Any], buffers: Sequence[Any]) -> None:
        if self._picked is None or content["run"] != self._run:
            return  # of an upload that was cancelled
        piece = Wanted(int(content["file"]), int(content["start"]), int(content["size"]))
        self._picked.put(piece, buffers[0])
        self._ask()
        self._write_if_whole()

    def _refuse(self, content: Mapping[str, Any]) -> None:
        if self._picked is not None and content["run"] == self._run:
            name = self._picked.announced[int(content["file"])].name
            raise ConfigError(
                f"the browser cannot read {name}: {str(content['why'])[:200]}",
                option="files",
                hint="choose it again: it was moved, removed or changed since",
            )

    def _cancel(self) -> None:
        if self._writing:
            self._lanes.cancel(_LANE)  # whether it came in time, the write will tell
        elif self._picked is not None:
            self._tell_error(_LANE, CancelledError("the upload was cancelled; nothing was written"))

    # -- writing --------------------------------------------------------------------------------

    def _write_if_whole(self) -> None:
        if self._picked is not None and self._picked.is_whole:
            picked, self._writing = self._picked, True
            self._lanes.run(_LANE, lambda token: self._write(picked, token))

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
        ours = isinstance(error, OdpsNbError)
        lines = error_lines(error) if ours else [f"{type(error).__name__}: {error}"[:400]]
        state = "cancelled" if isinstance(error, CancelledError) else "failed"
        self._send({"kind": "problem", "state": state, "lines": lines})

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
