"""Where the pages of a condition begin, so that going back reads little again. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from odps_nb.access.looking.paging import START, Place

__all__ = ["Mark", "PageMarks"]

MOST = 512
MARK_BYTES = 300


@dataclass(frozen=True, slots=True)
class Mark:
    """The page that begins at ``start``: its first row is ``skip`` rows behind a place."""

    start: int = 0
    place: Place = START
    skip: int = 0


class PageMarks:
    """The marks of the pages that were read, at most `MOST`; of very many of each 2nd, 4th, …

    Parameters
    ----------
    size
        Rows of a page.
    """

    def __init__(self, size: int) -> None:
        self._step, self._marks = size, dict[int, Mark]()

    @property
    def nbytes(self) -> int:
        """Bytes of the marks, about."""
        return len(self._marks) * MARK_BYTES

    def put(self, mark: Mark) -> None:
        """Keep a mark, unless there are so many that its page is left out."""
        if mark.start % self._step:
            return
        self._marks[mark.start] = mark
        if len(self._marks) > MOST:
            self._step *= 2
            self._marks = {
                start: one for start, one in self._marks.items() if not start % self._step
            }

    def before(self, start: int) -> Mark:
        """Return the last mark that is not behind a row; without any that of the first row."""
        found = max((one for one in self._marks if one <= start), default=None)
        return Mark() if found is None else self._marks[found]

    def clear(self) -> None:
        """Forget all marks: they are of another snapshot."""
        self._marks.clear()
