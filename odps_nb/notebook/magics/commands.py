"""Lists all ``%odps`` subcommands; defines those not in `reading`, `listing` or `spark_sql`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from IPython.core.error import UsageError

from odps_nb.access.saving import made_folder
from odps_nb.convert.fitting.conversions import DecimalConversion, TextConversion, TimeConversion
from odps_nb.notebook.display import output
from odps_nb.notebook.display.listing import Listing
from odps_nb.notebook.magics import listing, reading, spark_sql
from odps_nb.notebook.magics.arguments import (
    PARTITIONS,
    TABLE,
    WHERE,
    Command,
    argument,
    parse_partition,
    parse_partitions,
    parsed_as,
    positive,
    together,
)
from odps_nb.notebook.magics.context import PLACE, Context, is_source

if TYPE_CHECKING:
    from odps_nb.access.blob import Blob
    from odps_nb.access.checks import Overwrite
    from odps_nb.access.connection import Connection
    from odps_nb.access.queries import Queries
    from odps_nb.notebook.explore.explorer import Explorer

_ROOT = re.compile(r"[^\W\d]\w*")


@parsed_as("odps connect")
@argument(
    "target",
    nargs="?",
    metavar="PROFILE",
    help="A profile, local (the embedded service), an endpoint URL, or a variable that holds a "
    "connection, a Profile or a pyodps ODPS object. Default: as for odps_nb.connect().",
)
@argument("-o", "--output", metavar="VAR", help="Also assign the connection to this variable.")
@argument("--project", help="The project, if the profile does not set one.")
@argument("--region", help="Instead of an endpoint: the region, e.g. cn-hangzhou.")
@argument("--network", choices=("public", "vpc"), help="With --region: the network.")
@argument("--schema", help="The default schema.")
@argument("--timezone", metavar="ZONE", help="Time zone of all times, e.g. Asia/Shanghai.")
@argument("--root", metavar="DIR", help="With local: the folder in which to store the tables.")
def connect(context: Context, args: argparse.Namespace, cell: str | None) -> Connection | None:
    """Choose the connection that the %odps magics use, and check the project with one request.

    c = %odps connect returns the connection. Access keys are never arguments, because cells are
    saved. Keys are read from a profile file, the environment (ODPS_ACCESS_ID, ODPS_ACCESS_KEY, …),
    a keyring, and the sources of the vendor's other tools.
    """
    context.check_output(args.output, connects=True)
    if args.root is not None and args.target != "local":
        raise UsageError("--root is for local only: %odps connect local --root DIR")
    origin = (args.target, *(getattr(args, name) for name in PLACE))
    connection, owned = _connection(context, args)
    context.use(connection, owned=owned, origin=origin)
    if args.output is not None or args.give:
        context.release()
    if args.output is not None:
        context.shell.user_ns[args.output] = connection
    facts = [_where(connection)]
    if args.target == "local" and args.root is None:
        facts.append("tables are deleted when this kernel ends; --root DIR keeps them")
    context.show_note(" · ".join([*facts, _answer(connection)]))
    return connection if args.give else None


def _where(connection: Connection) -> str:
    profile = connection.profile
    where = f"project {profile.project}" + (f", schema {profile.schema}" if profile.schema else "")
    named = f" · profile {profile.name}" if profile.name else ""
    zone = f" · times of {profile.timezone}" if profile.timezone else ""
    return f"{where} at {profile.endpoint}{named}{zone}"


def _answer(connection: Connection) -> str:
    from odps_nb.access.service_checks import check_project

    project, *zone_checks = check_project(connection.profile)
    if not project.ok:
        return f"not usable yet: {project.found}; {project.to_do}".rstrip("; ")
    zones = (
        f"time zone: {check.found}" + (f"; {check.to_do}" * (not check.ok)) for check in zone_checks
    )
    return " · ".join(["the service responds", *zones])


def _connection(context: Context, args: argparse.Namespace) -> tuple[Connection, bool]:
    """Return the connection for these arguments, and whether the magics must close it."""
    import odps_nb
    from odps_nb.access.connection import Connection

    known = context.variables.get(args.target) if args.target else None
    if isinstance(known, Connection):
        return known, False
    keywords = {key: getattr(args, key) for key in PLACE}
    options = {key: value for key, value in keywords.items() if value is not None}
    if is_source(known):
        return odps_nb.connect(known, **options), True
    if args.target == "local":
        return context.local(options), False
    if args.target:
        options["endpoint" if "://" in args.target else "source"] = args.target
    return odps_nb.connect(**options), True


@parsed_as("odps explore")
@TABLE
@PARTITIONS
@WHERE
def explore(context: Context, args: argparse.Namespace, cell: str | None) -> Explorer:
    """Page through a table; filter, sort, search and describe it.

    view = %odps explore TABLE returns the explorer object.
    """
    table = context.connection.table(args.table)
    if args.partition is None and args.where is None:
        return table.explore()
    where = reading.filter_of(context, args.where, cell)
    return table.read(where=where, partitions=parse_partitions(args.partition)).explore()


@parsed_as("odps blobs")
@TABLE
@argument(
    "-c",
    "--column",
    metavar="COLUMN",
    help="The BLOB column, or a path such as pages.element.image; required if there are several.",
)
@argument("-n", "--limit", metavar="N", type=positive, default=24, help="At most N blobs.")
@PARTITIONS
@WHERE
@argument("--view", choices=("grid", "list"), default="grid", help="Layout: grid or list.")
@argument("--mime", metavar="TYPE", help="Only blobs of this detected media type, e.g. image/.")
@argument("--render", action="store_true", help="Draw HTML in a sandbox, as static output.")
@argument("--save", metavar="DIR", help="Save the blobs to this folder, without overwriting files.")
@argument("-q", "--quiet", action="store_true", help="Show no progress.")
def blobs(context: Context, args: argparse.Namespace, cell: str | None) -> Any:
    """Show the blobs of a column as a gallery, or save them as files."""
    from odps_nb.notebook.gallery.page import mimebundle
    from odps_nb.notebook.gallery.view import Gallery

    table = context.connection.table(args.table)
    folder = "" if args.save is None else made_folder(args.save)
    column = table.blobs(
        args.column,
        limit=args.limit,
        keep=_of_type(args.mime),
        where=reading.filter_of(context, args.where, cell),
        partitions=parse_partitions(args.partition),
        progress=context.listener(quiet=args.quiet),
    )
    if args.save is not None:
        paths = column.save(folder, progress=context.listener(quiet=args.quiet))
        return Listing(headers=("file",), rows=tuple((str(path),) for path in paths))
    shown = {
        "view": args.view,
        "summary": column.summary,
        "max_output_bytes": context.options().max_output_bytes,
    }
    if not args.render:
        return Gallery(column, **shown)
    output.show(mimebundle(column, render=True, **shown))
    return None


def _of_type(mime: str | None) -> Callable[[Blob], bool] | None:
    """Return a filter on the media type detected in a blob's bytes; sends one request per blob.

    A blob that cannot be read is kept, because its tile states the reason.
    """
    if mime is None:
        return None
    from odps_nb.notebook.preview.peek import recognise_head
    from odps_nb.notebook.preview.tile import why_unread

    def keep(blob: Blob) -> bool:
        try:
            return recognise_head(blob)[0].mime.startswith(mime.lower())
        except Exception as error:  # noqa: BLE001  # a defect of one blob
            return bool(why_unread(error))

    return keep


_CONVERSIONS = together(
    argument(
        "--decimals",
        choices=get_args(DecimalConversion),
        help="Values with too many decimal places: exact (default) raises an error.",
    ),
    argument(
        "--times",
        choices=get_args(TimeConversion),
        help="Times that are more precise than their column: exact (default) raises an error.",
    ),
    argument(
        "--text",
        choices=get_args(TextConversion),
        help="Text for columns of numbers, times or booleans: exact (default) raises an error.",
    ),
)


@parsed_as("odps write")
@argument("source", metavar="VAR|DIR", help="A DataFrame, Arrow data, rows or a folder.")
@TABLE
@argument("-p", "--partition", metavar="KEY=VALUE", help="The partition to write to.")
@argument("--create", action="store_true", help="Create the table if it does not exist.")
@argument("--partitioned-by", metavar="A,B", help="With --create: the partition columns.")
@argument(
    "--types", metavar="'A TYPE, …'", help="With --create: types of some columns of a variable."
)
@_CONVERSIONS
@argument("--index", action="store_true", help="Also write a pandas index as columns.")
@argument("--pattern", metavar="GLOB", action="append", help="For a folder: e.g. only *.jpg.")
@argument("--resume", action="store_true", help="For a folder: resume an interrupted upload.")
@argument("--overwrite", action="store_true", help="Replace the table's or partition's contents.")
@argument(
    "--overwrite-partitions", action="store_true", help="Replace the partitions that receive rows."
)
@argument("-q", "--quiet", action="store_true", help="Show no progress.")
def write(context: Context, args: argparse.Namespace, cell: str | None) -> Any:
    """Write a variable, or the files of a folder, to a table in one atomic commit.

    A folder becomes a table with one row per file and the columns path, name, size, mime_type,
    modified and content; it is created if it does not exist. For a variable, pass ``--create``.
    """
    parse_partition(args.partition)
    if args.overwrite_partitions:
        reading.refuse(args, "overwrite", why="--overwrite-partitions replaces fewer rows")
    folder, value = _source(context, args.source)
    overwrite: Overwrite = "partitions" if args.overwrite_partitions else args.overwrite
    conversions = {name: getattr(args, name) for name in ("decimals", "times", "text")}
    conversions = {name: value for name, value in conversions.items() if value is not None}
    if folder is None:
        reading.refuse(args, "pattern", "resume", why="it only applies to a folder")
        return context.connection.table(args.table).write(
            value,
            partition=args.partition,
            overwrite=overwrite,
            create=args.create,
            partitioned_by=args.partitioned_by,
            types=args.types,
            index=args.index or None,
            **conversions,
            progress=context.listener(quiet=args.quiet),
        )
    reading.refuse(args, "partitioned_by", why="use -p KEY=VALUE for a folder")
    reading.refuse(args, "types", *conversions, why="the columns of a folder's table are fixed")
    reading.refuse(args, "index", why="it only applies to pandas objects")
    return context.connection.table(args.table).write_files(
        folder,
        pattern=args.pattern or "*",
        partition=args.partition,
        overwrite=overwrite,
        resume=args.resume,
        progress=context.listener(quiet=args.quiet),
    )


def _source(context: Context, name: str) -> tuple[Path | None, Any]:
    """Return the folder that a path or a variable names, or else the variable's value."""
    value = context.variables.get(name, name)
    if isinstance(value, (str, Path)) and value != "" and _is_folder(value):
        return Path(value).expanduser(), None
    root = _ROOT.match(name)
    if root and root[0] != name and root[0] in context.variables:
        raise UsageError(
            f"{name!r} is an expression; assign it to a variable, then write that variable"
        )
    if not name.isidentifier():
        raise UsageError(f"there is no folder {name!r}")
    return None, context.variable(name)


def _is_folder(value: str | Path) -> bool:
    try:
        return Path(value).expanduser().is_dir()
    except (OSError, RuntimeError, ValueError):  # not a path, or the home folder of an unknown user
        return False


@parsed_as("odps status")
def status(context: Context, args: argparse.Namespace, cell: str | None) -> Listing:
    """List running and finished operations with their session and request ids.

    The first line names the service that transfers the connection's rows. If it is not the Storage
    API, the line says why.
    """
    return replace(context.operations.listing(), caption=context.transfer_line())


@parsed_as("odps queries")
def queries(context: Context, args: argparse.Namespace, cell: str | None) -> Queries:
    """List the last 100 SQL statements of this connection, including failed ones, newest first.

    The SQL jobs of explorers and charts are omitted; odps.queries() lists them too.
    q = %odps queries returns the list; q[0].run() runs the newest statement again.
    """
    return context.connection.queries(mine=True)


@parsed_as("odps cancel")
@argument("number", metavar="ID", type=positive, help="The id that %%odps status shows.")
def cancel(context: Context, args: argparse.Namespace, cell: str | None) -> None:
    """Cancel a background operation."""
    operation = context.operations.find(args.number)
    if operation is None:
        raise UsageError(f"no operation has the id {args.number}; see %odps status")
    if operation.tracker.snapshot().phase.is_final:
        raise UsageError(f"operation {args.number} has already ended")
    if operation.cancel is None:
        raise UsageError(
            f"operation {args.number} is running in a cell; interrupt the kernel (press I twice)"
        )
    operation.cancel()
    context.show_note(f"cancelling operation {args.number}")


@parsed_as("odps traceback")
def traceback(context: Context, args: argparse.Namespace, cell: str | None) -> None:
    """Show the full traceback of the last error raised by odps_nb."""
    context.show_text(context.last_traceback() or "odps_nb has not raised an error yet")


@parsed_as("odps doctor")
def doctor(context: Context, args: argparse.Namespace, cell: str | None) -> Listing:
    """Check the installation, Java, the connection and its services, and suggest fixes."""
    from odps_nb.access.doctor import examine

    states = {"ok": "ok", "optional": "–", "bad": "fix"}
    rows = tuple(
        (check.name, states[check.verdict], check.found, check.to_do)
        for check in examine(lambda: context.connection.profile)
    )
    return Listing(headers=("check", "", "found", "to do"), rows=rows)


COMMANDS = {
    command.name: command
    for command in (
        Command(name="connect", run=connect),
        Command(name="tables", run=listing.tables),
        Command(name="schema", run=listing.schema),
        Command(name="partitions", run=listing.partitions),
        Command(name="head", run=reading.head),
        Command(name="read", run=reading.read, cell="optional"),
        Command(name="sql", run=reading.sql, cell="required", takes_text=True),
        Command(name="spark", run=spark_sql.spark, cell="required"),
        Command(name="write", run=write),
        Command(name="explore", run=explore),
        Command(name="blobs", run=blobs, cell="optional"),
        Command(name="status", run=status),
        Command(name="queries", run=queries),
        Command(name="cancel", run=cancel),
        Command(name="traceback", run=traceback),
        Command(name="doctor", run=doctor),
    )
}
