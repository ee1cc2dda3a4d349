"""Reads the first bytes of several blobs concurrently, in a few requests."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeVar

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.parallel.fan_out import fan_out

_RUN = 8  # maximum blobs per request; the service sends them one after another

_P = TypeVar("_P")
_T = TypeVar("_T")


def side_by_side(
    work: Callable[[Sequence[_P], CancelToken], Iterator[_T]],
    places: Sequence[_P],
    token: CancelToken | None = None,
    *,
    workers: int,
    ordered: bool = False,
) -> Generator[_T, None, None]:
    """Run ``work`` concurrently on batches of ``places``, and yield its results.

    Closing the generator cancels all work.
    """
    jobs = (partial(work, run) for run in _runs(places, workers))
    return fan_out(jobs, size=lambda _: 0, workers=workers, ordered=ordered, cancel=token)


def _runs(places: Sequence[_P], workers: int) -> list[Sequence[_P]]:
    """Divide ``places`` into batches of one request each, at least one per worker if possible.

    A batch has at least two items if possible, because a single blob takes two requests.
    """
    total = len(places)
    number = min(max(workers, -(-total // _RUN)), max(1, total // 2))
    edges = [total * n // number for n in range(number + 1)]
    return [places[low:high] for low, high in pairwise(edges) if low < high]
