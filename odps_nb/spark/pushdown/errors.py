"""Translates Spark's errors about a query into ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from odps_nb.access.checks import did_you_mean
from odps_nb.errors import NotFoundError, OdpsNbError, QueryError
from odps_nb.spark.pushdown.positions import PARSER_PLACE, place_of
from odps_nb.spark.tasks.errors import from_spark

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

    from odps_nb.spark.pushdown.parse import ParsedQuery, Reference
    from odps_nb.spark.pushdown.plan import TableRead

__all__ = ["query_errors"]

_MAX_MESSAGE = 400


@contextlib.contextmanager
def query_errors(
    reads: Sequence[TableRead],
    query: ParsedQuery | None = None,
    references: Sequence[Reference] = (),
) -> Iterator[None]:
    """Raise our errors in place of Spark's, with its message but no Java stack.

    With the query and those of its references that are views for Spark, a note says the place.

    Raises
    ------
    NotFoundError
        There is no such column; close names of all tables are in the hint, also of columns that
        were not read.
    QueryError
        Everything else; ``code`` is Spark's error condition.
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
