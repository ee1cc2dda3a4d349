"""What failed for one row of `blob_map`, told so that the row is found again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from odps_nb.errors import ProtocolError, ServiceError, explain
from odps_nb.spark.blobs.cells import Row

__all__ = ["Made", "Place", "error_text", "note_place"]

_LONGEST_TEXT = 1000
_LONGEST_REFERENCE = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A row as errors name it; file name and request id are known once its blob has arrived.

    ``row`` counts from 0 in ``task``, which is Spark's partition, if there is one.
    """

    row: int
    task: int | None = None
    reference: str = field(default="", repr=False)
    file_name: str | None = None
    request_id: str | None = None

    def __str__(self) -> str:
        shown = self.reference
        if len(shown) > _LONGEST_REFERENCE:
            shown = shown[: _LONGEST_REFERENCE - 1] + "…"
        row = f"row {self.row}" + ("" if self.task is None else f" of partition {self.task}")
        return " · ".join([row, f"reference {shown!r}", *self.of_blob()])

    def of_blob(self) -> list[str]:
        """Return what is known of the blob that arrived."""
        file = [] if not self.file_name else [f"file {self.file_name!r}"]
        return file + ([] if not self.request_id else [f"request id {self.request_id}"])


class Made(NamedTuple):
    """What the function made for one row, or why there is nothing; a null has no place."""

    row: Row = None
    place: Place | None = None
    error: Exception | None = None


def note_place(error: Exception, place: Place | None) -> Exception:
    """Add the row to an error, which keeps its class; return the same error."""
    if place is not None:
        error.add_note(str(place))
    return error


def error_text(error: Exception, place: Place | None) -> str:
    """Return what an error column holds: what failed in one line, with file name and request id."""
    told = [explain(error)[0]]
    if isinstance(error, (ServiceError, ProtocolError)) and error.request_id:
        told.append(f"request id {error.request_id}")
    if place is not None:
        told += [one for one in place.of_blob() if one not in told]
    text = " · ".join(told)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
