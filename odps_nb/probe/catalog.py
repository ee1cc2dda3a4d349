"""The list of all questions, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Iterable

from odps_nb.errors import ConfigError
from odps_nb.probe import blobs, filters, incremental, instances, rows, sessions, types, writes
from odps_nb.probe.question import Question

QUESTIONS: tuple[Question, ...] = (
    *sessions.QUESTIONS,
    *rows.QUESTIONS,
    *types.QUESTIONS,
    *filters.QUESTIONS,
    *instances.QUESTIONS,
    *writes.QUESTIONS,
    *blobs.QUESTIONS,
    *incremental.QUESTIONS,
)


def choose(ids: Iterable[str] = ()) -> tuple[Question, ...]:
    """Return the questions with these ids; without ids, all of them.

    Raises `ConfigError`: there is no question of an id.
    """
    wanted = set(ids)
    unknown = wanted - {one.id for one in QUESTIONS}
    if unknown:
        raise ConfigError(
            f"there is no question {', '.join(sorted(unknown))}",
            option="only",
            hint="odps-nb probe --list names all",
        )
    return tuple(one for one in QUESTIONS if not wanted or one.id in wanted)
