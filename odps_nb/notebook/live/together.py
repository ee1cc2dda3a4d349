"""Reads the heads of several blobs at a time, in few requests."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeVar

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.parallel.fan_out import fan_out

_RUN = 8  # blobs that one request names at most: they come one after the other

_P = TypeVar("_P")
_T = TypeVar("_T")


def side_by_side(
    work: Callable[[Sequence[_P], CancelToken], Iterator[_T]],
    places: Sequence[_P],
    token: CancelToken | None = None,
    *,
    lanes: int,
    ordered: bool = False,
) -> Generator[_T, None, None]:
    """Iterate over what ``work`` yields of runs of places; leaving it ends all."""
    jobs = (partial(work, run) for run in _runs(places, lanes))
    return fan_out(jobs, size=lambda _: 0, workers=lanes, ordered=ordered, cancel=token)


def _runs(places: Sequence[_P], lanes: int) -> list[Sequence[_P]]:
    """Cut places into runs for so many workers, about one request each.

    No run has one place unless there is only one: a blob alone would be requested twice.
    """
    total = len(places)
    number = min(max(lanes, -(-total // _RUN)), max(1, total // 2))
    edges = [total * n // number for n in range(number + 1)]
    return [places[low:high] for low, high in pairwise(edges) if low < high]
