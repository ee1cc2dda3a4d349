"""The subcommand that writes rows or files: ``%odps write``."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from odps_nb.notebook.magics import reading
from odps_nb.notebook.magics.arguments import parse_partition
from odps_nb.notebook.magics.command import TABLE, argument, parsed_as
from odps_nb.notebook.magics.context import Context

if TYPE_CHECKING:
    from odps_nb.access.checks import Overwrite
    from odps_nb.access.receipt import Receipt

_ROOT = re.compile(r"[^\W\d]\w*")


@parsed_as("odps write")
@argument("source", metavar="VAR|DIR", help="A DataFrame, Arrow data or rows; or a folder.")
@TABLE
@argument("-p", "--partition", metavar="KEY=VALUE", help="The partition to write into.")
@argument("--create", action="store_true", help="Make the table if it is not there.")
@argument("--partitioned-by", metavar="A,B", help="With --create: columns that partition it.")
@argument("--index", action="store_true", help="Write the index of pandas data as columns.")
@argument("--pattern", metavar="GLOB", action="append", help="Of a folder: files like *.jpg.")
@argument("--resume", action="store_true", help="Of a folder: go on where a call ended early.")
@argument("--overwrite", action="store_true", help="Replace what the table or partition holds.")
@argument("--overwrite-partitions", action="store_true", help="Replace those that get rows.")
@argument("-q", "--quiet", action="store_true", help="Show no progress.")
def write(context: Context, args: argparse.Namespace, cell: str | None) -> Any:
    """Write a variable, or the files of a folder, into a table in one commit: all or nothing.

    A folder becomes a table of its files, made if it is not there: path, name, size, mime_type,
    modified, content.
    """
    parse_partition(args.partition)
    folder, value = _source(context, args.source)
    overwrite: Overwrite = "partitions" if args.overwrite_partitions else args.overwrite

    def run() -> Receipt:
        progress = context.listener(quiet=args.quiet)
        if folder is not None:
            return context.connection.write_files(
                folder,
                args.table,
                pattern=args.pattern or "*",
                partition=args.partition,
                overwrite=overwrite,
                resume=args.resume,
                progress=progress,
            )
        return context.table(args.table).write(
            value,
            partition=args.partition,
            overwrite=overwrite,
            create=args.create,
            partitioned_by=args.partitioned_by,
            index=args.index or None,
            progress=progress,
        )

    if folder is not None and args.partitioned_by:
        raise UsageError("--partitioned-by is for rows: a folder has -p KEY=VALUE")
    if folder is not None and args.index:
        raise UsageError("--index is for pandas data, not for a folder")
    if folder is None and (args.pattern or args.resume):
        raise UsageError(f"{'--pattern' if args.pattern else '--resume'} is for a folder")
    return reading.stoppable(f"write {args.table}", run)


def _source(context: Context, name: str) -> tuple[Path | None, Any]:
    """Return the folder, or the value of the variable; a variable may hold a folder, too."""
    value = context.variables.get(name, name)
    if isinstance(value, (str, Path)) and _is_folder(value):
        return Path(value).expanduser(), None
    root = _ROOT.match(name)
    if root and root[0] != name and root[0] in context.variables:
        raise UsageError(
            f"{name!r} is an expression: assign it to a variable, and write that variable"
        )
    if not name.isidentifier():
        raise UsageError(f"there is no folder {name!r}")
    return None, context.variable(name)


def _is_folder(value: str | Path) -> bool:
    try:
        return Path(value).expanduser().is_dir()
    except (OSError, RuntimeError, ValueError):  # no path at all, or one of an unknown home
        return False
