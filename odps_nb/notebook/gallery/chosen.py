"""What of a column is shown, in which order, and what is selected; without a browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.parallel.fan_out import fan_out
from odps_nb.errors import ConfigError
from odps_nb.notebook.gallery.facts import Choice, Facts
from odps_nb.notebook.gallery.page import BlobColumnLike, runs

if TYPE_CHECKING:
    import pandas as pd

    from odps_nb.client.blob.head import BlobHead
    from odps_nb.client.calls.progress import Progress

#: Requests for blobs at a time, each for a few of them.
AT_A_TIME: Final = 6
_DELAY, _PAUSE = 0.3, 0.2  # seconds until the first word of how far it is, and between two

_T = TypeVar("_T")


class WorkColumn(BlobColumnLike, Protocol):
    """A column of which blobs can be selected and saved; `odps_nb.BlobColumn`."""

    def pick(self, places: Sequence[int], /) -> WorkColumn:
        """Return the blobs at some places, in that order."""

    def references(self) -> pd.Series[Any]:
        """Return the references by the index of their rows."""

    def save(
        self,
        folder: str | Path,
        *,
        file_name: Callable[[int, BlobHead], str | None] | None = None,
        progress: Progress = None,
    ) -> list[Path | None]:
        """Save the blobs as files of a folder."""


def side_by_side(
    work: Callable[[Sequence[int], CancelToken], Iterator[_T]],
    places: Sequence[int],
    token: CancelToken,
) -> Generator[_T, None, None]:
    """Iterate over what ``work`` yields of runs of places, as it comes; leaving it ends all."""
    jobs = (partial(work, run) for run in runs(places, AT_A_TIME))
    return fan_out(jobs, size=lambda _: 0, workers=AT_A_TIME, ordered=False, cancel=token)


class Chosen:
    """The blobs of a column that a choice shows, and those that are selected.

    Attributes
    ----------
    indices
        The blobs that are shown, in order.
    selected
        Those that are selected, shown or not.
    note
        Of how many blobs these are, if not of all.
    """

    def __init__(self, column: WorkColumn) -> None:
        self.column = column
        self.facts = Facts(column)
        self.choice = Choice()
        self.indices: Sequence[int] = range(len(column))
        self.selected: set[int] = set()
        self.note = ""
        self._enough = threading.Event()

    def enough(self) -> None:
        """Let `choose` be content with the blobs that it has looked at."""
        self._enough.set()

    def choose(
        self, choice: Choice, token: CancelToken, told: Callable[[int, int], None] | None = None
    ) -> None:
        """Change the choice; costs a small request for each blob that is not known enough.

        ``told`` is called now and then with how many were looked at, and of how many.
        """
        missing = self.facts.missing(choice)
        self._enough.clear()
        self._look(missing, choice, token, told)
        left = len(self.facts.missing(choice)) if self._enough.is_set() else 0
        looked = len(self.column) - left
        self.note = f"of the {looked:,} blobs that were looked at" if left else ""
        self.indices = self.facts.indices(choice)
        self.choice = choice

    def _look(
        self,
        missing: Sequence[int],
        choice: Choice,
        token: CancelToken,
        told: Callable[[int, int], None] | None,
    ) -> None:
        after = time.monotonic() + _DELAY
        with closing(side_by_side(partial(self.facts.look, choice), missing, token)) as looked:
            for number, _ in enumerate(looked, 1):
                now = time.monotonic()
                if told is not None and now > after:
                    after = now + _PAUSE
                    told(number, len(missing))
                if self._enough.is_set():
                    break
        token.check()

    def save(
        self,
        places: Sequence[int],
        folder: str | Path,
        *,
        token: CancelToken,
        progress: Progress = None,
    ) -> list[Path]:
        """Save blobs into a folder, which is made if it is not there; return the files."""
        target = Path(folder).expanduser()
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot make the folder {target}: {error.strerror}",
                option="folder",
                hint="choose another one",
            ) from error

        def own_name(place: int, head: BlobHead) -> str | None:
            token.check()
            return None

        saved = self.column.pick(places).save(target, file_name=own_name, progress=progress)
        return [path for path in dict.fromkeys(saved) if path is not None]
