"""Errors of the embedded service, one constructor per code of ``docs/protocol.md`` section 8.2.

The errors are instances of `odps_nb.errors`, independent of the HTTP framework.
"""

from __future__ import annotations

import errno
import sqlite3

from odps_nb.errors import (
    AccessDeniedError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    ServerFaultError,
    SessionExpiredError,
)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def with_advice(message: str, advice: str) -> str:
    """Return a message with the advice appended; clients split the advice off as a hint."""
    return f"{message} (to do: {advice})" if advice else message


def invalid(message: str, *, code: str = "InvalidArgument") -> InvalidRequestError:
    """Return the error for a parameter that is missing or invalid, or contradicts the table."""
    return InvalidRequestError(message, status=400, code=code)


def null_value(column: str) -> InvalidRequestError:
    """Return the error for a null in a NOT NULL column (text: tests of aliyun/dbt-maxcompute)."""
    return invalid(f"Can't insert a null value into not-null column {column!r}")


def time_overflow() -> InvalidRequestError:
    """Return the error for a nanosecond read of a TIMESTAMP outside the supported range."""
    message = "ODPS-0422214: Read data failed - RuntimeTimestamp data overflow"
    return InvalidRequestError(message, status=400, code="ODPS-0422214")


def malformed(message: str) -> InvalidRequestError:
    """Return the error for a body with an invalid Arrow stream, frame or content coding."""
    return InvalidRequestError(message, status=400, code="MalformedDataStream")


def parse_failed(
    message: str, *, at: tuple[int, int] = (1, 1), advice: str = ""
) -> InvalidRequestError:
    """Return the error for unparsable SQL at a line and column; ``advice`` begins with a verb."""
    if not advice and at != (1, 1):
        advice = "check the text at and before this position"
    return _of_sql(message, at, advice, kind="Parse exception", code="ODPS-0130161")


def semantic(
    message: str, *, at: tuple[int, int] = (1, 1), advice: str = ""
) -> InvalidRequestError:
    """Return the error for SQL with unsuitable names, types or clauses (see `parse_failed`).

    The vendor's page "SQL errors" lists the codes: 0130161 for syntax, 0130071 for semantics.
    """
    return _of_sql(message, at, advice, kind="Semantic analysis exception", code="ODPS-0130071")


def _of_sql(
    message: str, at: tuple[int, int], advice: str, *, kind: str, code: str
) -> InvalidRequestError:
    text = f"{code}:[{at[0]},{at[1]}] {kind} - {with_advice(message, advice)}"
    return InvalidRequestError(text, status=400, code=code)


def lacks(
    what: str, *, is_sure: bool, at: tuple[int, int] = (1, 1), advice: str = ""
) -> InvalidRequestError:
    """Return the error for unsupported SQL; ``is_sure``: MaxCompute is known to support it."""
    message, advice = _lacking(what, advice, is_sure=is_sure)
    return parse_failed(message, at=at, advice=advice)


def _lacking(what: str, advice: str, *, is_sure: bool) -> tuple[str, str]:
    message = f"the embedded service does not support {what}; MaxCompute "
    advice = advice or "rewrite the statement without it, or run it in MaxCompute"
    return message + ("does" if is_sure else "may"), advice


def lacks_function(
    name: str, *, is_sure: bool, at: tuple[int, int], advice: str = ""
) -> InvalidRequestError:
    """Return the error for an unsupported or unknown function (see `lacks`)."""
    message, advice = _lacking(f"function {name}", advice, is_sure=is_sure)
    return semantic(message, at=at, advice=advice)


def no_such(what: str, *, code: str = "NoSuchObject") -> NotFoundError:
    """Return the error for a missing object; ``what`` is the message."""
    return NotFoundError(what, status=404, code=code)


def no_such_project(name: str) -> NotFoundError:
    """Return the error for a project that does not exist in this service."""
    return no_such(f"ODPS-0420111: Project not found - '{name}'.", code="NoSuchProject")


def no_such_schema(name: object) -> NotFoundError:
    """Return the error for a missing schema.

    aliyun/dbt-maxcompute (``is_schema_not_found``) expects this number, or the class NoSuchObject.
    """
    return no_such(f"ODPS-0422155: Schema not found - '{name}'")


def no_such_table(name: object) -> NotFoundError:
    """Return the error for a table that does not exist or was dropped."""
    message = f"ODPS-0130131:[1,1] Table not found - table {name} cannot be resolved."
    return no_such(message, code="NoSuchTable")


def no_such_partition(spec: object, table: object) -> NotFoundError:
    """Return the error for a partition that the table does not have."""
    message = f"The specified partition does not exist - {spec} of {table}"
    return no_such(message, code="NoSuchPartition")


def no_such_version(name: object, version: int) -> NotFoundError:
    """Return the error for a version whose rows or changes are no longer stored."""
    return no_such(f"version {version} of {name} is no longer stored", code="NoSuchVersion")


def no_such_session(session_id: str) -> SessionExpiredError:
    """Return the error for a session that is unknown or belongs to another table."""
    message = f"the session {session_id!r} does not exist"
    return SessionExpiredError(message, status=404, code="NoSuchSession")


def no_such_stream(stream_id: str) -> NotFoundError:
    """Return the error for a stream that the write session does not have."""
    return no_such(f"the stream {stream_id!r} does not exist in this session", code="NoSuchStream")


def expired(session_id: str) -> SessionExpiredError:
    """Return the error for an expired session, whose snapshot may have been deleted."""
    message = f"the session {session_id!r} has expired"
    return SessionExpiredError(message, status=404, code="NoSuchSession")


def conflict(message: str, code: str) -> ConflictError:
    """Return the error for a conflict with an object's state or another request."""
    return ConflictError(message, status=409, code=code)


def not_appended(name: object, version: int) -> ConflictError:
    """Return the error for an incremental read of a version that did more than append rows."""
    message = f"version {version} of {name} replaced rows instead of only appending rows"
    return conflict(message, "VersionReplacedRows")


def invalid_state(message: str) -> ConflictError:
    """Return the error for an object that is not in the state that the request requires."""
    return conflict(message, "InvalidState")


def instance_over(instance_id: str) -> ConflictError:
    """Return the error for an attempt to stop an instance that has ended."""
    message = f"ODPS-0420095: the instance {instance_id} has ended, so its state cannot be set"
    return conflict(message, "InvalidStateSetting")


def table_modified(name: object) -> ConflictError:
    """Return the error for a table that changed while a statement was rewriting it."""
    message = f"ODPS-0130071: {name} was changed while the statement was running"
    return conflict(message, "TableModified")


def offset_conflict(expected: int, got: int) -> ConflictError:
    """Return the error for an exactly-once write whose row offset is not the next one."""
    message = f"the row offset is {got}, but the next row of the stream has offset {expected}"
    return conflict(message, "RowOffsetConflict")


def forbidden(message: str, *, code: str = "NoPermission") -> AccessDeniedError:
    """Return the error for a missing key, token or permission."""
    return AccessDeniedError(message, status=403, code=code)


def internal(message: str) -> ServerFaultError:
    """Return the error for a defect in the service."""
    return ServerFaultError(message, status=500, code="InternalServerError")


def of_disk(error: BaseException | None) -> ServerFaultError | None:
    """Return the error for a full or failed disk if ``error``, its cause or context reports one."""
    while error is not None:
        if isinstance(error, (OSError, sqlite3.OperationalError)):
            number, text = getattr(error, "errno", None), str(error)
            if number in _FULL or "No space left on device" in text or "disk is full" in text:
                message = "the disk of the service is full; nothing that was committed is lost"
                return ServerFaultError(message, status=507, code="InsufficientStorage")
            if number == errno.EIO or "Input/output error" in text or "disk I/O error" in text:
                message = (
                    "the disk of the service cannot be read or written (input/output error);"
                    " nothing that was committed is lost"
                )
                return ServerFaultError(message, status=500, code="StorageFailure")
        error = error.__cause__ or error.__context__
    return None
