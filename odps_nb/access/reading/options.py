"""What may be said of a read, as one value that every front end makes and the planner takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odps_nb.access.partitions import PartitionChoice
    from odps_nb.terms import Compression, TextMode, TimeUnit

__all__ = ["ReadOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a person may say of a read, in the words of `Table.read`; every front end takes it.

    A new field of a read stands here, is checked in `odps_nb.access.reading.planning.plan_read`,
    and is offered by the signatures that should have it. Nothing is checked before.
    """

    columns: Sequence[str] | None = None
    where: str | None = None
    params: Mapping[str, object] | None = None
    partitions: PartitionChoice | Iterable[PartitionChoice] | None = None
    limit: int | None = None
    splits: int | None = None
    split_bytes: int | None = None
    compression: str | Compression | None = None
    timestamp_unit: TimeUnit | None = None
    text: str | TextMode | None = None
    char_padding: bool = False
