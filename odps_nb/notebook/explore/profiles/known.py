"""`KnownProfiles`: the profiles and row counts that an explorer has found, by their condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.access.paging.browsing import Rows
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress
from odps_nb.errors import ArgumentError
from odps_nb.notebook.explore.profiles.profile import Profiler, TableProfile, sample_label
from odps_nb.notebook.explore.profiles.sampling import SAMPLE_BYTES, draw_sample
from odps_nb.notebook.explore.profiles.unfiltered import with_whole

if TYPE_CHECKING:
    from odps_nb.schema import Column

JOINED_ROWS = 60_000
"""Number of rows to profile at a time, because small batches take more CPU time per row."""


class KnownProfiles:
    """Profiles rows that match a condition, and remembers the result.

    It keeps the profile without a condition, a few others, and all row counts.
    """

    _MOST = 8

    def __init__(self, columns: Sequence[Column], sample: int, seed: int | None) -> None:
        self._columns, self._sample, self._seed = columns, sample, seed
        self._counts: dict[str | None, int] = {}
        self._profiles: dict[str | None, TableProfile] = {}  # the newest profile is last

    @property
    def whole(self) -> TableProfile | None:
        """The profile without a condition."""
        return self._profiles.get(None)

    def profile(self, where: str | None) -> TableProfile | None:
        """Return the profile of rows that match a condition, or else the last profile."""
        profiles = self._profiles
        return profiles.get(where) or (list(profiles.values())[-1] if profiles else None)

    def has(self, where: str | None) -> bool:
        """Return whether there is a profile of the rows that match a condition."""
        return where in self._profiles

    def counted(self, where: str | None) -> int | None:
        """Return the number of rows that match a condition, if a job or a profile counted them."""
        return self._counts.get(where)

    def know(self, where: str | None, count: int) -> None:
        """Store a row count, and add it to the label of a sampled profile."""
        self._counts[where] = count
        profile = self._profiles.get(where)
        if profile is None or profile.total is not None or not profile.is_random:
            return
        if count >= profile.rows:
            label = sample_label(profile.rows, count, random=True)
            self._profiles[where] = replace(profile, total=count, label=label)

    def by_sample(
        self,
        rows: Rows,
        where: str | None,
        cancel: CancelToken,
        *,
        total: int | None,
        matching: Callable[[], int | None],
    ) -> TableProfile:
        """Profile a random sample of the matching rows; `draw_sample` describes ``matching``.

        ``total`` is the number of rows without the condition, if known.
        """
        drawn = draw_sample(rows, where, self._sample, self._seed, cancel, matching=matching)
        if any(not batch.schema.equals(drawn.batches[0].schema) for batch in drawn.batches):
            # the unit of times changed during the read
            return self.by_sample(rows.copy(), where, cancel, total=total, matching=matching)
        profiler = Profiler(self._columns, before=None if where is None else self.whole)
        if drawn.batches:
            profiler.add(pa.Table.from_batches(drawn.batches))
        known = drawn.rows if drawn.is_all else total if where is None else None
        return self._keep(where, profiler, rows=drawn.rows, total=known, is_random=drawn.is_random)

    def by_all(
        self, rows: Rows, where: str | None, progress: Progress, cancel: CancelToken
    ) -> TableProfile:
        """Profile all matching rows in bounded memory, with the bars of an earlier profile."""
        profiler, count = Profiler(self._columns, before=self.whole or self.profile(where)), 0
        with closing(rows.every(where, cancel, ahead=SAMPLE_BYTES, progress=progress)) as batches:
            for part in _joined(batches):
                profiler.add(part)
                count += part.num_rows
        return self._keep(where, profiler, rows=count, total=count, is_random=False)

    def _keep(
        self,
        where: str | None,
        profiler: Profiler,
        *,
        rows: int,
        total: int | None,
        is_random: bool,
    ) -> TableProfile:
        columns = profiler.result(is_sample=total is None or rows < total)
        if where is not None and self.whole is not None:
            columns = with_whole(columns, self.whole.columns)
        label = sample_label(rows, total, random=is_random)
        profile = TableProfile(
            columns=columns, rows=rows, total=total, label=label, is_random=is_random
        )
        self._profiles.pop(where, None)
        self._profiles[where] = profile
        if len(self._profiles) > self._MOST:
            del self._profiles[next(key for key in self._profiles if key is not None)]
        count = total if total == rows else self.counted(where)
        if count is not None:
            self.know(where, count)
        return self._profiles[where]

    def count(
        self, rows: Rows, where: str | None, most_bytes: int, cancel: CancelToken
    ) -> int | None:
        """Count the matching rows by a SQL job that reads at most about ``most_bytes``.

        Return ``None`` if the job would read more, or if SQL cannot select the rows.
        """
        try:
            text = f"select count(*) as n {rows.relation(where)}"
        except ArgumentError:
            return None
        cost = rows.connection.sql_cost(text, settings=rows.job_settings)
        if (cost.input_bytes or 0) > most_bytes:
            return None
        cancel.watch(rows)
        cancel.check()
        self.know(where, int(rows.query(text)["n"][0].as_py()))
        return self.counted(where)


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches to about `JOINED_ROWS` rows or `SAMPLE_BYTES`."""
    buffered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        buffered.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= JOINED_ROWS or size >= SAMPLE_BYTES:
            yield pa.Table.from_batches(buffered)
            buffered, rows, size = [], 0, 0
    if buffered:
        yield pa.Table.from_batches(buffered)
