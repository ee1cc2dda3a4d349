"""The list of all questions, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Iterable

from odps_nb.errors import ConfigError
from odps_nb.probe import blobs, incremental, reads, sql, types, writes
from odps_nb.probe.question import Question

QUESTIONS: tuple[Question, ...] = tuple(
    one for module in (reads, types, sql, writes, blobs, incremental) for one in module.QUESTIONS
)


def choose(ids: Iterable[str] = ()) -> tuple[Question, ...]:
    """Return the questions with these ids, or all; `ConfigError` for an unknown id."""
    wanted = set(ids)
    if unknown := wanted - {one.id for one in QUESTIONS}:
        raise ConfigError(
            f"there is no question {', '.join(sorted(unknown))}",
            option="only",
            hint="odps-nb probe --list names all",
        )
    return tuple(one for one in QUESTIONS if not wanted or one.id in wanted)
