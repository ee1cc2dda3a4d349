"""Translates Spark's errors about a query into ours, with the place in the text as it was typed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.access.checks import did_you_mean
from odps_nb.errors import NotFoundError, OdpsNbError, QueryError
from odps_nb.spark.pushdown.parse import ParsedQuery, Reference, cuts
from odps_nb.spark.tasks.errors import from_spark

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

    from odps_nb.spark.pushdown.plan import TableRead

#: How Spark's parser says where it stopped: line from 1, column from 0, of the text that it has.
PARSER_PLACE = re.compile(r"\s*\(line (\d+), pos (\d+)\)")

_CLASSIC, _CONNECT = "_pyspark_", "_pyspark_connect_temp_view_"
_RANDOM = 32  # digits behind these, in the names that pyspark gives the views
_SHOWN = 80

_MAX_MESSAGE = 400


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the text that Spark has, and where it, or what it stands for, is in the query."""

    text: str
    start: int
    end: int
    is_of_query: bool


def place_of(
    failure: PySparkException, query: ParsedQuery, references: Collection[Reference]
) -> str | None:
    """Return the line of the query that an error is about and what is written there, if it tells.

    Parameters
    ----------
    references
        The names of tables that are views for Spark.
    """
    prefix = _CONNECT if ".connect" in type(failure).__module__ else _CLASSIC
    width = len(prefix) + _RANDOM
    for context in failure.getQueryContext() or ():
        if context.contextType().name != "SQL" or context.objectType():
            continue  # a call in Python, or the text of a view of Spark's
        found = span_of(query, references, context.startIndex(), context.fragment(), width)
        if found is not None:
            return _told(query.text, *found)
    said = PARSER_PLACE.search(str(failure))
    word = str((failure.getMessageParameters() or {}).get("error", "")).strip("'")
    if said is None:
        return None
    theirs = "".join(piece.text for piece in _pieces(query, references, width)).split("\n")
    start = sum(len(line) + 1 for line in theirs[: int(said[1]) - 1]) + int(said[2])
    found = span_of(query, references, start, word, width)
    return None if found is None else _told(query.text, *found)


def span_of(
    query: ParsedQuery, references: Collection[Reference], start: int, fragment: str, width: int
) -> tuple[int, int] | None:
    """Return start and end in the query of a fragment that starts there in the text of Spark.

    ``None`` where Spark's text, with names of views so many characters wide, has other characters
    there: names of views that the fragment itself holds are not compared.
    """
    pieces = _pieces(query, references, width)
    stop = start + len(fragment)
    seen = "".join(piece.text for piece in pieces)[start:stop]
    if not fragment or len(seen) < len(fragment):
        return None
    if any(one not in ("\0", other) for one, other in zip(seen, fragment, strict=True)):
        return None
    return _ours(pieces, start)[0], _ours(pieces, stop - 1)[1]


def _pieces(query: ParsedQuery, references: Collection[Reference], width: int) -> list[_Piece]:
    text, done, pieces = query.text, 0, []
    for start, end, instead in cuts(query, dict.fromkeys(references, "\0" * width)):
        pieces.append(_Piece(text[done:start], done, start, is_of_query=True))
        pieces.append(_Piece(instead, start, end, is_of_query=False))
        done = end
    return [*pieces, _Piece(text[done:], done, len(text), is_of_query=True)]


def _ours(pieces: Sequence[_Piece], place: int) -> tuple[int, int]:
    """Return where a character is in the query; of one that was put there, what it stands for."""
    for piece in pieces:
        if place < len(piece.text):
            if piece.is_of_query:
                return piece.start + place, piece.start + place + 1
            return piece.start, piece.end
        place -= len(piece.text)
    raise IndexError(place)


def _told(text: str, start: int, end: int) -> str:
    quoted = " ".join(text[start:end].split())
    shown = quoted if len(quoted) <= _SHOWN else quoted[: _SHOWN - 1] + "…"
    line = text.count("\n", 0, start) + 1
    return f"line {line} of the query: {shown}"


@contextlib.contextmanager
def query_errors(
    reads: Sequence[TableRead],
    query: ParsedQuery | None = None,
    references: Sequence[Reference] = (),
) -> Iterator[None]:
    """Raise our errors in place of Spark's, with its message but no Java stack.

    With the query and those of its references that are views for Spark, a note says the place.

    Raises `NotFoundError` or `QueryError`.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as failure:
        error = _error_of(failure, reads)
        place = None if query is None else place_of(failure, query, references)
        if place is not None and isinstance(error, (NotFoundError, QueryError)):
            error.add_note(place)
        raise error from None


def _error_of(failure: PySparkException, reads: Sequence[TableRead]) -> OdpsNbError:
    ours = from_spark(failure)
    if ours is not None:
        return ours
    condition = failure.getCondition() or type(failure).__name__
    text = str(failure).partition("; line ")[0].partition("== SQL ")[0]
    text = PARSER_PLACE.sub("", text)  # of the text that Spark was given: see `place_of`
    message = " ".join(text.partition("JVM stacktrace:")[0].split())
    if len(message) > _MAX_MESSAGE:
        message = message[: _MAX_MESSAGE - 1] + "…"
    if not condition.startswith("UNRESOLVED_COLUMN"):
        hint = "this is what Spark said; explain_sql tells what was read of each table"
        return QueryError(message, code=condition, hint=hint)
    parameters = failure.getMessageParameters() or {}
    column = str(parameters.get("objectName", "")).rpartition(".")[2].strip("`")
    names = dict.fromkeys(name for read in reads for name in read.schema.names)
    shown = ", ".join([*names][:20]) + (", …" if len(names) > 20 else "")
    return NotFoundError(
        f"no table of the query has a column {column!r}",
        code=condition,
        hint=f"{did_you_mean(column, names)}columns are: {shown}",
    )
