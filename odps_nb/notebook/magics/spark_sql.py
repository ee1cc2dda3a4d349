"""The subcommand ``%%odps spark``: `odps_nb.spark.explain_sql` plans and runs the query."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from odps_nb.notebook.display.listing import Listing
from odps_nb.notebook.magics.arguments import argument, parsed_as, positive
from odps_nb.notebook.magics.context import Context
from odps_nb.notebook.magics.reading import bound, cancels, shape_of, spark_session
from odps_nb.terms import count_of

if TYPE_CHECKING:
    from odps_nb.spark.pushdown.query import SparkQuery

_TYPES = ("spark", "pandas", "arrow")
_TITLE = "spark query"


@parsed_as("odps spark")
@argument("action", nargs="?", choices=("stop",), help="%%odps spark stop ends the session.")
@argument("-n", "--limit", metavar="N", type=positive, help="Maximum number of rows.")
@argument("-o", "--output", metavar="VAR", help="Assign the result to this variable.")
@argument("-t", "--type", choices=_TYPES, help="Type of the result. Default with -o: spark.")
@argument("-q", "--quiet", action="store_true", help="Show neither progress nor notes.")
@argument("--dry-run", action="store_true", help="Only show what would be read from each table.")
def spark(context: Context, args: argparse.Namespace, cell: str | None) -> Any:
    """Run the cell as Spark SQL over ODPS tables.

    Only the columns, partitions and rows that the query needs are read. With -o, the result is a
    lazily evaluated Spark DataFrame; without -o and -t, the first rows are shown. :name inserts the
    value of that Python variable, quoted safely; {name} inserts the table or column name in the
    variable. The query runs in the Spark session in the variable spark, in the active session, or
    in a new one, which is assigned to spark. %odps spark stop ends the session.
    """
    if args.action == "stop":
        if cell is not None:
            raise UsageError("%odps spark stop takes no cell: write it on one line")
        return _stop(context)
    context.check_output(args.output)
    text = bound(context, (cell or "").strip(), "spark")
    if not text:
        raise UsageError("%odps spark needs a query: write it below %%odps spark")
    options = context.options()
    is_preview = args.output is None and args.type is None
    limit = args.limit or (options.preview_rows if is_preview else options.limit)
    from odps_nb.spark import explain_sql

    connection = context.connection
    # A dry run does not need Spark, which is slow to start.
    if args.dry_run:
        session = context.variables.get("spark")
    else:
        session = spark_session(context, quiet=args.quiet)
    query = explain_sql(session, connection, text, limit=limit)
    if args.dry_run:
        return _plan(query)
    if query.summary() and not args.quiet:
        context.show_note("; ".join(f"{name}: {fact}" for name, fact in query.summary()))
    kind = args.type or ("pandas" if args.output is None else "spark")
    value = _result(context, query, kind, quiet=args.quiet)
    if is_preview and args.limit is None and len(value) == limit and not args.quiet:
        context.show_note(f"the first {count_of(limit, 'row')}; -n N shows more, -o VAR keeps all")
    return context.deliver(value, into=args.output, note="" if args.quiet else _shape(value))


def _stop(context: Context) -> None:
    """Stop the session in the variable ``spark``, and delete the variable."""
    known = context.variables.get("spark")
    if known is None or not callable(getattr(known, "stop", None)):
        raise UsageError("the variable spark contains no Spark session")
    known.stop()
    context.shell.user_ns.pop("spark", None)
    context.show_note("stopped the Spark session")


def _result(context: Context, query: SparkQuery, kind: str, *, quiet: bool) -> Any:
    if kind == "spark":
        # Each action on the DataFrame shows its own progress, which ``quiet`` disables.
        progress = False if quiet else None
        return query.to_spark(progress=progress)
    take = query.to_pandas if kind == "pandas" else query.to_arrow
    listener = context.listener(quiet=quiet)
    with cancels(query.cancel):
        return take(progress=listener)


def _plan(query: SparkQuery) -> Listing:
    return Listing(
        headers=("table", "what is read"),
        rows=query.summary(),
        caption="nothing read yet",
        empty="the query does not use an ODPS table",
    )


def _shape(value: Any) -> str:
    if isinstance(getattr(value, "shape", None), tuple):
        return shape_of(value, _TITLE)
    return f"{_TITLE} · {count_of(len(value.columns), 'column')}, read when used"
