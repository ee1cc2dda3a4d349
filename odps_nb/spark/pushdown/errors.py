"""Translates Spark's query errors into the errors of odps_nb, with the line of the query."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from odps_nb.errors import NotFoundError, OdpsNbError, QueryError
from odps_nb.spark.tasks.errors import from_spark, job_failures
from odps_nb.spark.versions import condition_and_text, contexts_of, parameters_of
from odps_nb.terms import did_you_mean, shorten

if TYPE_CHECKING:
    from odps_nb.spark.pushdown.plan import TableRead

#: Matches the line number in Spark's messages; replacing table names does not change the number.
_LINE = re.compile(r"\s*\(line (\d+), pos(?:ition)? \d+\)")
_VIEW = re.compile(r"\(_pyspark_\w+ as `([^`]*)`\)")
#: Matches the same line in the text of an error, with the underlined part of it.
_UNDERLINED = re.compile(r"== SQL.*?\(line \d+, pos(?:ition)? \d+\) ==\n(.*)\n( *)(\^+)")
_SHOWN, _MAX_MESSAGE = 80, 400


@contextlib.contextmanager
def query_errors(reads: Sequence[TableRead]) -> Iterator[None]:
    """Raise `NotFoundError` or `QueryError` instead of Spark's errors.

    The message is Spark's, without the Java stack trace; a note quotes the line of the query that
    caused the error.
    """
    try:
        yield
    except job_failures() as failure:
        error = _error_of(failure, reads)
        location = _place_of(failure)
        if location is not None and isinstance(error, (NotFoundError, QueryError)):
            error.add_note(location)
        raise error from None


def _place_of(failure: BaseException) -> str | None:
    """Return the query line that an error refers to, with its number; ``None`` if unknown."""
    message, fragment = str(failure), parameters_of(failure).get("error", "")
    if match := _UNDERLINED.search(message):  # errors of PySpark 3.5 have no contexts
        fragment = match[1][len(match[2]) : match.end(3) - match.start(2)]
    for context in contexts_of(failure):
        # Use the first context that is neither a Python call nor the text of a Spark view.
        if context.contextType().name == "SQL" and not context.objectType():
            message, fragment = context.summary(), context.fragment()
            break
    line = _LINE.search(message)
    shown = " ".join(_VIEW.sub(r"\1", fragment).strip("'").split())
    if line is None or not shown or "_pyspark_" in shown:
        return None
    return f"line {line[1]} of the query: {shorten(shown, _SHOWN)}"


def _error_of(failure: BaseException, reads: Sequence[TableRead]) -> OdpsNbError:
    ours = from_spark(failure)
    if ours is not None:
        return ours
    condition, text = condition_and_text(failure)
    text = text.partition("; line ")[0].partition("== SQL ")[0]
    text = _LINE.sub("", text)  # its column number refers to the text with replaced names
    message = " ".join(text.partition("JVM stacktrace:")[0].split())
    if not condition.startswith("UNRESOLVED_COLUMN"):
        hint = "call explain_sql to see what is read from each table; the message is from Spark"
        return QueryError(shorten(message, _MAX_MESSAGE), code=condition, hint=hint)
    column = parameters_of(failure).get("objectName", "").rpartition(".")[2].strip("`")
    names = dict.fromkeys(name for read in reads for name in read.schema.names)
    shown = ", ".join([*names][:20]) + (", …" if len(names) > 20 else "")
    return NotFoundError(
        f"no table of the query has a column {column!r}",
        code=condition,
        hint=f"{did_you_mean(column, names)}use one of the columns: {shown}",
    )
