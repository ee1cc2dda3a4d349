"""Carries errors of odps_nb through Spark, from task to driver.

Spark passes an exception of a task to the driver as the text of a traceback. So an error is
converted to text before it leaves a task (`for_spark`), and parsed in the driver (`from_spark`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from odps_nb import errors
from odps_nb.errors import (
    ConfigError,
    MissingDependencyError,
    OdpsNbError,
    SessionExpiredError,
    explain,
)

_OURS = re.compile(r"^(?:[\w.]+: )?odps_nb\.errors\.(\w+): (.*)", re.MULTILINE | re.DOTALL)
# Text that Spark may append to our message: a blank line, an SQLSTATE, or Java frames.
_END = re.compile(r"\n\s*\n|\n\s*SQLSTATE: \w|\n\s+at [\w.$]+\(")
# Spark's messages for a Python that has a different version, is missing, or lacks odps_nb.
_VERSIONS = re.compile(r"different version: ([\d.]+) than that in driver:? ([\d.]+[\d])")
_PROGRAM = re.compile(r'Cannot run program "([^"]*)": error=2\b')
_LZ4 = "Lz4 compressed input contains less than one frame"
_PACKAGE = re.compile(r"ModuleNotFoundError: No module named 'odps_nb\b")
_WHERE = "\nwhere: "
_TO_DO = "\nto do: "


def for_spark(error: OdpsNbError) -> OdpsNbError:
    """Return an error of the same type with notes, request id and hint in its message."""
    lines = "\n".join(explain(error))
    return type(error)(lines.removeprefix(f"{type(error).__name__}: "), hint=error.hint)


def from_spark(failure: BaseException) -> OdpsNbError | None:
    """Return the odps_nb error in the text of a Spark exception, or ``None``."""
    failure_text = str(failure)
    found = _OURS.search(failure_text)
    kind = getattr(errors, found.group(1), None) if found else None
    if found is None or not (isinstance(kind, type) and issubclass(kind, OdpsNbError)):
        return _wrong_setup(failure_text)
    text = _END.split(found.group(2), maxsplit=1)[0].rstrip()
    lines, _, hint = text.partition(_TO_DO)
    message, *notes = lines.splitlines()
    error = kind(message, hint=hint or None)
    for note in notes:
        error.add_note(note.removeprefix("where: "))
    return error


def _wrong_setup(failure_text: str) -> OdpsNbError | None:
    """Return the error for a Python installation or setting that tasks cannot use, or ``None``."""
    if found := _VERSIONS.search(failure_text):
        return ConfigError(
            f"the executors run Python {found.group(1)}, but the driver runs {found.group(2)}",
            option="PYSPARK_PYTHON",
            hint=f"set PYSPARK_PYTHON to a Python {found.group(2)} that every executor has, and "
            "restart the session",
        )
    if found := _PROGRAM.search(failure_text):
        return ConfigError(
            f"an executor has no Python at {found.group(1)}",
            option="PYSPARK_PYTHON",
            hint="set PYSPARK_PYTHON to the path of Python on the executors, and restart the "
            "session",
        )
    if _LZ4 in failure_text:
        return ConfigError(
            "Spark cannot send a column that is empty or null to Python with lz4",
            option="spark.sql.execution.arrow.compression.codec",
            hint="set it to 'zstd' or 'none': spark.conf.set('spark.sql.execution.arrow."
            "compression.codec', 'zstd')",
        )
    if _PACKAGE.search(failure_text):
        return MissingDependencyError(
            "odps_nb is not installed where Spark runs Python",
            extra="spark",
            hint="run pip install odps-nb for the Python of every executor, or of the server of a "
            "remote session",
        )
    return None


@contextlib.contextmanager
def task_errors(what: str, *, expired: str = "") -> Iterator[None]:
    """Convert errors to text as they leave a task; ``what`` describes the task's work.

    ``expired`` is the hint for an expired session.
    """
    try:
        yield
    except OdpsNbError as error:
        if _WHERE in error.message:  # already converted by an earlier step in the same worker
            raise
        error.add_note(what)
        if expired and isinstance(error, SessionExpiredError):
            error.hint = expired
        raise for_spark(error) from None


@contextlib.contextmanager
def job_errors() -> Iterator[None]:
    """Replace a job's Spark error with the odps_nb error that its task raised."""
    try:
        yield
    except job_failures() as failure:
        ours = from_spark(failure)
        if ours is None:
            raise
        raise ours from None


def job_failures() -> tuple[type[BaseException], ...]:
    """Return the types of Spark's errors; before PySpark 4.0, they include Java errors."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # ships no types
    except ImportError:  # pyspark-client (Connect only) has no py4j
        return (PySparkException,)
    return PySparkException, Py4JJavaError
