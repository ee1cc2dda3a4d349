"""The subcommands that read rows: ``%odps head``, ``%odps read`` and ``%%odps sql``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

from IPython.core.error import UsageError

from odps_nb.access.binding.literals import Target
from odps_nb.access.binding.text import bind, bind_query
from odps_nb.client.sql.failures import tables_in
from odps_nb.convert.frame_options import Decimals, DtypeBackend
from odps_nb.errors import ArgumentError, ConfigError, OdpsNbError
from odps_nb.notebook.display import output
from odps_nb.notebook.display.listing import Listing
from odps_nb.notebook.magics.arguments import (
    PARTITIONS,
    TABLE,
    WHERE,
    argument,
    parse_columns,
    parse_partitions,
    parse_size,
    parsed_as,
    positive,
    together,
)
from odps_nb.notebook.magics.context import Context
from odps_nb.notebook.progress.background import BackgroundResult
from odps_nb.notebook.progress.words import what_was_done
from odps_nb.terms import TextMode, Transfer, count_of, format_bytes, query_title
from odps_nb.type_facts import TYPE_FACTS

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.scan import Scan
    from odps_nb.access.sql import Result
    from odps_nb.client.read.plan import ReadSession
    from odps_nb.notebook.explore.charts.chart import Chart
    from odps_nb.notebook.explore.charts.choice import ChartKind
    from odps_nb.notebook.explore.explorer import Explorer

RESULT_TYPES = ("pandas", "arrow", "spark", "batches")
_TEXT = 32  # assumed bytes of a variable-width value, such as a string

# Options for the column types of a DataFrame.
_DTYPES = together(
    argument(
        "--decimals",
        choices=get_args(Decimals),
        help="Values of DECIMAL columns: exact, float, or auto (default), which is float if exact.",
    ),
    argument(
        "--dtype-backend",
        choices=get_args(DtypeBackend),
        help="Same as in the pandas read functions.",
    ),
)
# Options for text that is not UTF-8 and for CHAR padding.
_TEXTS = together(
    argument(
        "--text",
        choices=tuple(mode.value for mode in TextMode),
        default="strict",
        help="Text that is not UTF-8: raise an error, use U+FFFD, or return all text as bytes.",
    ),
    argument("--char-padding", action="store_true", help="Keep the trailing spaces of CHAR(n)."),
)
_MAX_BYTES = argument(
    "--max-bytes", metavar="SIZE", type=parse_size, help="Fail above this size, e.g. 1GiB."
)
_PICKS = together(
    TABLE, PARTITIONS, argument("-c", "--columns", metavar="A,B", help="Only these columns.")
)
_GIVES = together(
    argument("-n", "--limit", metavar="N", type=positive, help="At most N rows."),
    argument("-o", "--output", metavar="VAR", help="Assign the result to this variable."),
    argument("-t", "--type", choices=RESULT_TYPES, help="Type of the result."),
    _TEXTS,
    _DTYPES,
    argument("-q", "--quiet", action="store_true", help="Show neither progress nor notes."),
)


@contextmanager
def cancels(cancel: Callable[[], None]) -> Iterator[None]:
    """Call ``cancel`` on an interrupt, so that the service stops the work."""
    try:
        yield
    except KeyboardInterrupt:
        with suppress(OdpsNbError):  # report the interrupt, not the errors that it causes
            cancel()
        raise


def filter_of(context: Context, where: str | None, cell: str | None) -> str | None:
    """Return the filter from ``-w`` or the cell, with each ``:name`` replaced by its value."""
    if where is not None and (cell or "").strip():
        raise UsageError("write the filter in -w or in the cell, not in both")
    text = cell if where is None else where
    return None if text is None else bound(context, text.strip(), "where")


def bound(context: Context, text: str, target: Target) -> str:
    """Replace ``:name`` and ``{name}`` in a string with their values, or raise a one-line error."""

    def write(zone: str | None, schema: str | None = None) -> str:
        if target == "sql":
            source, names = "there is no variable", context.variables
            return bind_query(text, names, None, timezone=zone, schema=schema, source=source)
        return bind(text, context.variables, timezone=zone, target=target)

    try:
        write("UTC")  # report a mistyped name before connecting
        if target == "spark":
            return write(None)
        profile = context.connection.profile
        return write(profile.timezone or ("UTC" if target == "where" else None), profile.schema)
    except (ArgumentError, ConfigError) as error:
        raise UsageError("; ".join(part for part in (str(error), error.hint) if part)) from None


def _text(args: argparse.Namespace) -> dict[str, Any]:
    return {"text": args.text, "char_padding": args.char_padding}


@parsed_as("odps head")
@_PICKS
@argument("-n", "--limit", metavar="N", type=positive, help="Maximum rows. Default: preview_rows.")
@argument("-o", "--output", metavar="VAR", help="Assign the rows to this variable.")
@_DTYPES
@_TEXTS
def head(context: Context, args: argparse.Namespace, cell: str | None) -> Any:
    """Show the first rows of a table."""
    context.check_output(args.output)
    table = context.connection.table(args.table)
    columns, partitions = parse_columns(args.columns), parse_partitions(args.partition)
    rows = args.limit or context.options().preview_rows
    frame = table.head(rows, partitions=partitions, columns=columns, **_text(args), **_dtypes(args))
    return context.deliver(frame, into=args.output, note=shape_of(frame, args.table))


@parsed_as("odps read")
@_PICKS
@WHERE
@_GIVES
@argument("--splits", metavar="N", type=positive, help="Divide the read into N splits.")
@_MAX_BYTES
@argument("--dry-run", action="store_true", help="Only show the plan: splits, rows and size.")
@argument("--bg", action="store_true", help="Read in the background and return a handle.")
@argument("--all", action="store_true", help="Read everything, regardless of size.")
def read(context: Context, args: argparse.Namespace, cell: str | None) -> Any:
    """Read rows of a table; with %%odps read, the cell is the filter.

    :name in a filter inserts the value of that Python variable, quoted safely. With --bg, the
    result is a handle with .result(), .done() and .cancel(); -o assigns the handle to the variable.
    """
    context.check_output(args.output)
    where = filter_of(context, args.where, cell)
    partitions = parse_partitions(args.partition)
    table = context.connection.table(args.table)
    scan = table.read(
        columns=parse_columns(args.columns),
        where=where,
        partitions=partitions,
        limit=args.limit or context.options().limit,
        splits=args.splits,
        max_bytes=args.max_bytes,
        **_text(args),
    )
    if args.dry_run:
        return _plan(scan, args.table)
    if not (args.all or args.where or where or args.max_bytes or scan._plan.limit):
        _ask_if_large(context, args, scan)
    return _finish(context, args, f"read {args.table}", scan, lambda: scan._opened().row_count)


@parsed_as("odps sql")
@_GIVES
@argument("--bg", action="store_true", help="Run in the background and return a handle.")
@_MAX_BYTES
@argument("--dry-run", action="store_true", help="Only show the estimated cost.")
@argument(
    "--chart", metavar="KIND:X[,Y]", help="Show a chart of the result, e.g. bar:status,amount."
)
def sql(context: Context, args: argparse.Namespace, cell: str | None) -> Any:
    """Run the cell as SQL on the service, and show the result in an explorer.

    Without -o and -t, only the rows shown are read; -o also reads all rows into a variable, as does
    df = %odps sql …. :name inserts the value of that Python variable, quoted safely; {name} inserts
    the table or column name in the variable. On one line, the options come first, as in
    %odps sql -o df select count(*) from orders
    """
    context.check_output(args.output)
    has_chart = args.chart is not None
    if has_chart and args.output is None:
        names = ("type", "limit", "bg", *_dtypes(args))
        refuse(args, *names, why="--chart draws all rows; -o VAR also reads them")
    if not (text := (cell or "").strip()):
        raise UsageError("%odps sql needs a query: write it on the line or below %%odps sql")
    query = bound(context, text, "sql")
    if args.dry_run:
        return _cost(context.connection, query)
    most = args.max_bytes or context.options().sql_max_bytes
    result = context.connection.sql(query, wait=False, max_bytes=most, **_text(args))
    if not args.quiet:
        context.show_page(result.instance_id)
    if has_chart:
        drawn = _chart(result, args.chart)
        if args.output is None:
            return drawn
        drawn.show()
    limit = args.limit or context.options().limit
    rows = result if limit is None else result.first(limit)
    title = f"sql {query_title(query, 60)}"
    done = f"done: {what_was_done(query)}"

    def total() -> int | None:
        return None if result.is_cut else result.row_count

    if not (args.output or args.type or args.give or args.bg or _dtypes(args)):
        return _explored(context, args, rows, total, title=title, done=done)
    value = _finish(context, args, title, rows, total, done=done)
    reads_later = args.bg or (args.type or context.options().result_type) in ("spark", "batches")
    if args.output and not (args.quiet or has_chart or reads_later) and len(rows.schema):
        rows.explore().show()
    return value


def _explored(
    context: Context,
    args: argparse.Namespace,
    rows: Result,
    total: Callable[[], int | None],
    *,
    title: str,
    done: str,
) -> Explorer | None:
    """Wait for a query; return an explorer, or display ``done`` if the result has no columns."""
    with (
        cancels(rows.cancel),
        rows._reading(context.listener(quiet=args.quiet)) as (tracker, _),
    ):
        session = rows._opened(tracker)
    if not len(session.schema):
        context.show_note(done)
        return None
    explorer = rows.explore()
    cut = _cut(explorer.view.all_rows or 0, args.limit or context.options().limit, total)
    if cut and not args.quiet:
        context.show_note(f"{title} · {cut}")
    return explorer


def _chart(result: Result, text: str) -> Chart:
    kind, _, names = text.partition(":")
    x, *rest = [name.strip() for name in names.split(",")]
    if not x or len(rest) > 1:
        raise UsageError(f"--chart {text}: write KIND:X or KIND:X,Y, such as bar:status,amount")
    with cancels(result.cancel):
        return result.chart(x, *rest, kind=cast("ChartKind", kind))


def _cost(connection: Connection, query: str) -> Listing:
    cost = connection.sql_cost(query)
    size, factor = cost.input_bytes, cost.complexity
    facts = [
        ("reads", "unknown" if size is None else format_bytes(size)),
        ("complexity", "unknown" if factor is None else f"{factor:g}"),
        ("user-defined functions", "unknown" if cost.udfs is None else str(cost.udfs)),
    ]
    for info in tables_in(connection._storage, query):
        keys = ", ".join(column.name for column in info.schema.partition_columns)
        whole = "" if info.size is None else f"{format_bytes(info.size)} in all"
        notes = filter(None, (whole, keys and f"partitioned by {keys}"))
        facts.append((f"table {info.name.table}", ", ".join(notes)))
    caption = "sql: not run; estimated by the service, which bills bytes times complexity"
    return Listing(headers=("cost", ""), rows=tuple(facts), caption=caption)


def _finish(
    context: Context,
    args: argparse.Namespace,
    title: str,
    source: Scan | Result,
    total: Callable[[], int | None],
    *,
    done: str = "",
) -> Any:
    """Convert a scan or SQL result to the requested type, immediately or in the background.

    ``total`` returns the total row count; ``done`` is displayed for a result without columns.
    """
    kind = args.type or context.options().result_type
    if kind != "pandas":
        refuse(args, *_dtypes(args), why=f"it only applies to pandas results, not to -t {kind}")
    if kind == "spark":
        refuse(args, "bg", "max_bytes", why="Spark reads rows only when its DataFrame is used")
        # Each action on the DataFrame shows its own progress, which ``quiet`` disables.
        frame = source.to_spark(
            spark_session(context, quiet=args.quiet), progress=False if args.quiet else None
        )
        return context.deliver(frame, into=args.output, note=title)
    if kind == "batches":
        refuse(args, "bg", why="batches are read during iteration")
        batches = source.batches(progress=context.listener(quiet=args.quiet))
        return context.deliver(batches, into=args.output, note=title)
    take = partial(source.to_pandas, **_dtypes(args)) if kind == "pandas" else source.to_arrow
    if getattr(args, "bg", False):
        listener = context.lasting_listener(title, quiet=args.quiet, on_cancel=source.cancel)
        handle = BackgroundResult(title, lambda: take(progress=listener), cancel=source.cancel)
        return context.deliver(handle, into=args.output, note=f"{title}, in the background")
    listener = context.listener(quiet=args.quiet)
    with cancels(source.cancel):
        value = take(progress=listener)
    if args.quiet:
        return context.deliver(value, into=args.output)
    if done and value.shape[1] == 0:
        context.show_note(done)
        return context.deliver(value, into=args.output) if args.output else None
    cut = _cut(value.shape[0], args.limit or context.options().limit, total)
    if cut and args.output is None:
        context.show_note(f"{title} · {cut}")
    note = shape_of(value, title, cut)
    if kind == "pandas" and args.decimals in (None, "auto"):
        from odps_nb.convert.decimal_floats import decimal_note

        note = " · ".join(filter(None, [note, decimal_note(source.arrow_schema, value)]))
    return context.deliver(value, into=args.output, note=note)


def _dtypes(args: argparse.Namespace) -> dict[str, Any]:
    """Return the dtype options as keyword arguments of `Scan.to_pandas` and `Table.head`."""
    options = {"decimals": args.decimals, "dtype_backend": args.dtype_backend}
    return {name: value for name, value in options.items() if value is not None}


def refuse(args: argparse.Namespace, *names: str, why: str) -> None:
    """Raise a one-line error if one of these options is set."""
    for name in names:
        if getattr(args, name, None):
            raise UsageError(f"--{name.replace('_', '-')} cannot be used here: {why}")


def _ask_if_large(context: Context, args: argparse.Namespace, scan: Scan) -> None:
    """If a read without a limit is too large, show the plan and raise a one-line error."""
    most = context.options().confirm_above
    kind = args.type or context.options().result_type
    if most is None or kind in ("spark", "batches"):
        return
    size, word = bytes_of(scan._opened())
    if size is None or size <= most:
        return
    output.show(_plan(scan, args.table)._static_page())
    raise UsageError(
        f"{args.table} is {word} {format_bytes(size)}; the limit is {format_bytes(most)}: "
        "pass -n N for the first rows, -p or -w to select rows, or --all; "
        "%config OdpsMagics.confirm_above sets the limit"
    )


def bytes_of(session: ReadSession) -> tuple[int | None, str]:
    """Return the size of the columns in bytes, and its precision: ``"about"`` or ``"roughly"``."""
    rows, whole = session.row_count, session.estimated_size
    by_types = session.transfer is Transfer.TUNNEL  # the tunnel provides no estimate
    if rows is None or not session.selects:  # the estimate covers all columns
        return whole, "roughly" if by_types else "about"
    widths = [TYPE_FACTS[column.type.code].width for column in session.schema]
    size = rows * sum(width or _TEXT for width in widths)
    word = "about" if all(widths) else "roughly"
    if whole is None or by_types or word == "about":
        return size, word
    return min(size, whole), word


def _plan(scan: Scan, name: str) -> Listing:
    """Return a read's plan; opens the read session, but reads no rows."""
    session = scan._opened()
    rows = "unknown until read (filtered)" if scan.row_count is None else f"{scan.row_count:,}"
    size, word = bytes_of(session)
    facts = (
        ("rows", rows),
        ("splits", f"{len(session.splits):,}"),
        ("size", "unknown" if size is None else f"{word} {format_bytes(size)}"),
        ("columns", ", ".join(session.columns or session.schema.names)),
        ("session", session.session_id),
    )
    return Listing(headers=("plan", ""), rows=facts, caption=f"read {name}: nothing read yet")


def _cut(rows: int, limit: int | None, total: Callable[[], int | None]) -> str:
    """Return ``first 5 of 1,000 rows`` if a limit may have omitted rows, else ``""``."""
    if limit is None or rows < limit:
        return ""
    known = total()
    if known is None:
        return f"first {count_of(rows, 'row')}"
    return f"first {rows:,} of {count_of(known, 'row')}" if known > rows else ""


def shape_of(value: Any, source: str, cut: str = "") -> str:
    """Return ``source`` followed by the number of rows and columns."""
    rows, columns = value.shape
    return f"{source} · {cut or count_of(rows, 'row')} × {count_of(columns, 'column')}"


def spark_session(context: Context, *, quiet: bool) -> Any:
    """Return the Spark session in the variable ``spark``, or start a session and assign it."""
    known = context.variables.get("spark")
    if known is not None:
        return known
    from odps_nb import spark  # imported only for -t spark

    session = spark.session(progress=context.listener(quiet=quiet))
    context.shell.user_ns["spark"] = session  # so that the user can stop the session
    context.show_note("spark ← the Spark session; %odps spark stop ends it")
    return session
