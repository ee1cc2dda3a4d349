"""Answers the browser's messages to a gallery, in threads: of each kind the last one wins.

Requests are small: numbers and texts, never code. What a message tells is data, which the browser
shows as text.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, Protocol

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import CancelledError, OdpsNbError, visible
from odps_nb.notebook.gallery.chosen import Chosen, side_by_side
from odps_nb.notebook.gallery.facts import Choice
from odps_nb.notebook.gallery.page import View
from odps_nb.notebook.gallery.tiles import Tiles
from odps_nb.notebook.live.lanes import MALFORMED, Lanes, problem_message
from odps_nb.notebook.live.progress import Told
from odps_nb.terms import count_of, shorten

ASK: Final = 1_000
"""Blobs that are looked at for a filter or an order without asking first."""
MAX_SHOWN: Final = 100_000
"""Tiles that one can scroll to."""
_BATCH: Final = 200  # tiles that one message may ask for
_COPIED: Final = 10_000


class Send(Protocol):
    """Sends a message to the browser."""

    def __call__(self, message: Mapping[str, Any], *buffers: bytes) -> None:
        """Send it."""


class Requests:
    """What the browser may ask of a gallery."""

    def __init__(
        self, chosen: Chosen, tiles: Tiles, *, view: View, summary: str, send: Send
    ) -> None:
        self._chosen, self._tiles, self._send = chosen, tiles, send
        self._view, self._summary = view, summary
        #: Which view asked last for another choice, and the number that it gave the question.
        self._question: dict[str, Any] = {}
        self._lanes = Lanes(tell_error=self._tell_error, tell_end=self._tell_end)

    def close(self) -> None:
        """Stop what is done; nothing is answered any more. Idempotent."""
        self._chosen.enough()
        self._lanes.close()

    def receive(self, content: object, buffers: Sequence[Any] = ()) -> None:
        """Do what a message of the browser asks for; returns at once, never raises."""
        if not isinstance(content, Mapping):
            return
        known: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "ready": self._ready,
            "tiles": self._asked_tiles,
            "large": self._asked_large,
            "choose": self._asked_choice,
            "save": self._asked_save,
            "copy": self._asked_copy,
            "cancel": self._cancel,
        }
        try:
            if content.get("do") == "select":
                self._select(buffers[0], str(content["by"])[:40])
            elif (act := known.get(str(content.get("do")))) is not None:
                act(content)
        except (OdpsNbError, *MALFORMED) as error:
            self._send(problem_message("choose", error))

    def _ready(self, _: Mapping[str, Any]) -> None:
        self.send_gallery(fresh=False)
        self._send_selection("")

    def send_gallery(self, *, fresh: bool, question: Mapping[str, Any] | None = None) -> None:
        """Tell the browser what is shown; ``fresh`` if that has changed, by whose ``question``."""
        chosen, choice = self._chosen, self._chosen.choice
        shown = chosen.indices[:MAX_SHOWN]
        notes = [chosen.note] if chosen.note else []
        if len(shown) < len(chosen.indices):
            notes.append(f"the first {MAX_SHOWN:,} can be scrolled to")
        told = {
            "kind": "gallery",
            "fresh": fresh,
            "title": shorten(visible(self._chosen.column.title), 200),
            "summary": shorten(
                visible(self._summary or count_of(len(self._chosen.column), "blob")), 200
            ),
            "view": self._view,
            "total": len(self._chosen.column),
            "count": len(shown),
            "note": " · ".join(notes),
            "menu": chosen.facts.menu(),
            "chosen": choice.kind,
            "search": choice.search,
            "order": choice.order,
            "descending": choice.descending,
            **(question or {}),
        }
        self._send(told, *([] if isinstance(shown, range) else [_packed(shown)]))

    def _asked_tiles(self, content: Mapping[str, Any]) -> None:
        wanted = [self._index(one) for one in content["indices"][:_BATCH]]

        def work(token: CancelToken) -> None:
            kept = {index: made for index in wanted if (made := self._tiles.kept(index))}
            if kept:
                self._send({"kind": "tiles", "tiles": list(kept.values())})
            missing = [index for index in wanted if index not in kept]
            with closing(side_by_side(self._tiles.read, missing, token)) as drawn:
                for made in drawn:
                    self._send({"kind": "tiles", "tiles": [made]})

        self._lanes.run("tiles", work)

    def _asked_large(self, content: Mapping[str, Any]) -> None:
        index = self._index(content["index"])

        def work(token: CancelToken) -> None:
            made = self._tiles.large(index, token)
            token.check()
            self._send({"kind": "large", "tile": made})

        self._lanes.run("large", work)

    def _asked_choice(self, content: Mapping[str, Any]) -> None:
        choice = Choice(
            kind=str(content["chosen"]),
            search=str(content["search"]).strip(),
            order=content["order"],
            descending=bool(content["descending"]),
        )
        question = {"by": str(content["by"])[:40], "number": int(content["number"])}
        self._question = question
        missing = len(self._chosen.facts.missing(choice))
        if missing > ASK and not content.get("sure"):
            text = f"for this {missing:,} blobs have to be looked at: a small request for each"
            self._send({"kind": "ask", "text": text})
            return
        self._lanes.run("choose", lambda token: self._choose(choice, question, token))

    def _choose(self, choice: Choice, question: Mapping[str, Any], token: CancelToken) -> None:
        def told(number: int, total: int) -> None:
            text = f"looked at {number:,} of {total:,} blobs"
            busy = {"kind": "busy", "lane": "choose", "text": text, "share": number / total}
            self._send({**busy, "stop": "Enough"})

        self._chosen.choose(choice, token, told)
        self.send_gallery(fresh=True, question=question)

    def _select(self, buffer: Any, by: str) -> None:
        numbers = array("i")
        numbers.frombytes(bytes(buffer))
        self._chosen.selected = {self._index(one) for one in numbers}
        self._send_selection(by)

    def _asked_save(self, content: Mapping[str, Any]) -> None:
        places = self._places(content)
        folder = str(content["folder"]).strip() or "blobs"

        def work(token: CancelToken) -> None:
            told = Told(self._send, token.cancel, lane="save")
            saved = self._chosen.save(places, folder, token=token, progress=told)
            where = saved[0] if len(saved) == 1 else folder
            text = f"{count_of(len(saved), 'file')} saved: {where}"
            self._send({"kind": "said", "text": visible(text)})

        self._lanes.run("save", work)

    def _asked_copy(self, content: Mapping[str, Any]) -> None:
        places = self._places(content)[:_COPIED]

        def work(token: CancelToken) -> None:
            texts = self._chosen.column.pick(places).references().tolist()
            said = f"{count_of(len(texts), 'reference')} copied"
            self._send({"kind": "copied", "text": "\n".join(texts), "said": said})

        self._lanes.run("copy", work)

    def _send_selection(self, by: str) -> None:
        """Tell all views what is selected; that which selected it knows."""
        self._send({"kind": "selected", "by": by}, _packed(self._selection()))

    def _selection(self) -> list[int]:
        return sorted(self._chosen.selected)

    def _places(self, content: Mapping[str, Any]) -> Sequence[int]:
        """Return the blob that a message names, or those that are selected."""
        index = content.get("index")
        return self._selection() if index is None else [self._index(index)]

    def _index(self, value: Any) -> int:
        index = int(value)
        if not 0 <= index < len(self._chosen.column):
            raise IndexError(f"there is no blob {index}")
        return index

    def _cancel(self, content: Mapping[str, Any]) -> None:
        if content["lane"] == "choose":
            self._chosen.enough()
        else:
            self._lanes.cancel(str(content["lane"]))

    def _tell_error(self, lane: str, error: BaseException) -> None:
        if not isinstance(error, CancelledError):
            question = self._question if lane == "choose" else {}
            self._send({**problem_message(lane, error), **question})
        elif lane == "save":
            self._send(problem_message(lane, "cancelled; complete files stay"))

    def _tell_end(self, lane: str) -> None:
        question = self._question if lane == "choose" else {}
        self._send({"kind": "idle", "lane": lane, **question})


def _packed(numbers: Sequence[int]) -> bytes:
    """Return numbers as 32 bits each, in the order of bytes of this machine, as browsers have."""
    return array("i", numbers).tobytes()
