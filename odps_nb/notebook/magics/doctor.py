"""``%odps doctor``: what this notebook has, what it lacks, and what to do about it.

Every check gives a line and none of them raises; the one that talks to the service is the last.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from itertools import islice
from typing import TYPE_CHECKING

from odps_nb.errors import OdpsNbError, StateError
from odps_nb.notebook.display.failures import error_lines
from odps_nb.notebook.display.listing import Listing
from odps_nb.notebook.progress.words import format_seconds

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

__all__ = ["examine"]

_Row = tuple[str, str, str, str]
_OK, _MEND, _LACKS = "ok", "mend", "–"

# What is optional, and what one loses without it.
_OPTIONAL = (
    ("ipywidgets", "notebook", "paging in galleries"),
    ("pillow", "notebook", "thumbnails"),
    ("tqdm", "notebook", "progress in a terminal"),
    ("pyspark", "spark", "Spark DataFrames"),
    ("duckdb", "local", "the embedded service"),
    ("keyring", "keyring", "keys from the system's keyring"),
)


def examine(connect: Callable[[], Connection]) -> Listing:
    """Return one row per check: what, state, found, to do.

    Parameters
    ----------
    connect
        Gives the connection in use; its failure is a row, too.
    """
    rows = (*_programs(), *_libraries(), _crc(), _java(), *_service(connect))
    return Listing(headers=("check", "", "found", "to do"), rows=tuple(rows))


def _programs() -> Iterator[_Row]:
    import odps_nb

    yield "odps_nb", _OK, odps_nb.__version__, ""
    yield "Python", _OK, f"{platform.python_version()} on {platform.system()}", ""
    for name in ("ipython", "ipykernel", "pandas", "pyarrow"):
        version = _version(name)
        if version is not None:
            yield name, _OK, version, ""


def _libraries() -> Iterator[_Row]:
    for name, extra, purpose in _OPTIONAL:
        version = _version(name)
        if version is None:
            yield name, _LACKS, f"not installed: no {purpose}", f"pip install 'odps-nb[{extra}]'"
        else:
            yield name, _OK, version, ""


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _crc() -> _Row:
    from odps_nb.wire import crc32c

    if crc32c.IS_FAST:
        return "CRC32C", _OK, crc32c.IMPLEMENTATION, ""
    return "CRC32C", _MEND, f"{crc32c.IMPLEMENTATION} (slow)", "pip install crc32c"


def _java() -> _Row:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java")
    if found is None:
        return "Java", _LACKS, "not found: no Spark", "install Java 17 or newer"
    return "Java", _OK, found, ""


def _service(connect: Callable[[], Connection]) -> Iterator[_Row]:
    try:
        connection = connect()
    except (OdpsNbError, StateError) as error:
        what, to_do = _trouble(error)
        yield "connection", _MEND, what, to_do
        return
    profile = connection.profile
    yield "connection", _OK, f"project {profile.project} at {profile.endpoint}", ""
    began = time.monotonic()
    try:
        some = len(list(islice(connection.tables(), 100)))
    except (OdpsNbError, StateError) as error:
        what, to_do = _trouble(error)
        yield "service", _MEND, what, to_do
        return
    took = format_seconds(time.monotonic() - began)
    shown = f"{some} tables" if some < 100 else "100 or more tables"
    yield "service", _OK, f"answered in {took}: {shown}", ""


def _trouble(error: OdpsNbError | StateError) -> tuple[str, str]:
    lines = error_lines(error)
    to_do = [line.removeprefix("to do: ") for line in lines if line.startswith("to do: ")]
    return " · ".join(line for line in lines if not line.startswith("to do: ")), "".join(to_do)
