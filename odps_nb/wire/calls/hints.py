"""Hints for errors of the service, by error code, by the text of the message, and by class."""

from __future__ import annotations

import re

from odps_nb.errors import (
    AccessDeniedError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    ServerFaultError,
    ServiceError,
    SessionExpiredError,
    ThrottledError,
)

_OTHER_SIGNATURE = (
    "check that the access key matches the access id, and that the endpoint ends with /api"
)
_ID = "check the access id, and that its key is not disabled"
_NO_RIGHT = (
    "ask the project owner for access to this object (and the Download permission, if the "
    "project requires it), and ask whether the project allows this machine's IP address"
)
# Numbers of refused permissions. Sources: the vendor's FAQ of odpscmd, the page on label-based
# access control, and reports of users (4021, 4093).
_HINT_OF_REFUSAL = {
    "4002": "ask the project owner to add this user to the project",
    "4021": "ask the project owner for the Download permission: the project controls downloads",
    "4031": "select columns with a lower label, or ask the project owner for a higher label",
    "4093": "ask the owner of the Alibaba Cloud account: a bill may be overdue",
}
_REFUSAL = re.compile(r"\[(?:\d{4},)*(" + "|".join(_HINT_OF_REFUSAL) + r")(?:,\d{4})*\]")
_TOKEN = "check the STS or bearer token: it may have expired or belong to another access id"
_OF_TOKEN = re.compile(r"\b(temporary|sts|security|session|bearer)[ _-]?token", re.IGNORECASE)
_EXPIRED = re.compile(rf"{_OF_TOKEN.pattern}\b.{{0,60}}\bexpired|expired {_OF_TOKEN.pattern}", re.I)
_COPIED = "try again later: the service is copying the table to another cluster"
_HINT_OF_CODE = {
    "Unauthorized": f"{_ID}; this machine's clock may deviate by at most 15 minutes",
    "InvalidAccessKeyId": _ID,
    "SignatureNotMatch": _OTHER_SIGNATURE,
    "SignatureDoesNotMatch": _OTHER_SIGNATURE,
    "RequestTimeTooSkewed": "set this machine's clock; it may deviate by at most 15 minutes",
    "AuthenticationRequestExpired": "get new temporary keys; these have expired",
    "NoPermission": _NO_RIGHT,
    "AccessDenied": _NO_RIGHT,
    "NoSuchProject": "check the project name, and that the endpoint is for its region",
    "NoSuchSchema": "check the name of the schema; schema= sets the connection's schema",
    "NoSuchTable": "check the name; odps.tables() lists the tables of the project",
    "NoSuchPartition": "check the partition; table.partitions() lists those that exist",
    "NoSuchSession": "read again for a new snapshot; the session and its snapshot have expired",
    "NoSuchVersion": "read the whole table, then read changes since its version",
    "VersionReplacedRows": "read the whole table, or a range of versions that only added rows",
    "NoSuchStream": "open the write stream again; its rows were not committed",
    "InvalidPartitionSpec": "write key=value for each level, e.g. ds=2024-01-01,hour=3",
    "InvalidRowRange": "request rows within the session's row count",
    "InvalidColumnSpec": "check the names of the columns; table.schema lists them",
    "MissingPartitionSpec": "name a partition, e.g. partition='ds=2024-01-01'",
    "MethodNotAllowed": "use odps.sql(…) if this is a view; views do not support this request",
    "MalformedDataStream": "write again; the uploaded bytes were changed in transit",
    "RowOffsetConflict": "check whether another writer uses this stream; if not, rows are missing",
    "StatusConflict": "begin a new session; this one has expired or was already committed",
    "DataVersionConflict": _COPIED,
    "DataUnderReplication": _COPIED,
    "InvalidState": "begin a new session; this one was already committed or aborted",
    "ObjectAlreadyExists": "choose another name, or pass if_not_exists=True",
    "TableAlreadyExists": "choose another name, or pass if_not_exists=True",
    "TableModified": "run the operation again; the table was changed in the meantime",
    "SchemaModified": "run the operation again; the columns were changed in the meantime",
    "InsufficientStorage": "free disk space on the service, and try again",
    "StorageFailure": "check the disk and the system log of the service, then restart it",
    "ParseError": "check the SQL text",
}
_HINT_OF_CLASS: dict[type[ServiceError], str] = {
    AccessDeniedError: "check the access id and key, and your permissions on the object",
    NotFoundError: "check the name, the project and the endpoint",
    ConflictError: "check the state of the object, and try again",
    SessionExpiredError: _HINT_OF_CODE["NoSuchSession"],
    ThrottledError: "wait and try again, pass a smaller workers=, or retry more often with "
    "client_options=odps_nb.ClientOptions(retries=…, deadline=…)",
    ServerFaultError: "try again; if it still fails, report the request id",
    ServiceError: "check the endpoint: the server at this address is not MaxCompute",
}

# Texts that older servers and gateways send as HTTP 400, with the codes that mean the same.
_DENIED = (
    (
        re.compile(
            r"(?:temporary|sts|security|session|bearer)[ _-]?token\b.{0,60}"
            r"\b(?:expired|invalid|malformed|mismatch)|(?:expired|invalid) "
            r"(?:temporary|sts|security|session|bearer)[ _-]?token",
            re.IGNORECASE,
        ),
        None,
    ),
    (
        re.compile(
            r"signature\b.{0,40}\b(?:(?:does|do|dose|did) not match|mismatch|invalid|incorrect)"
            r"|(?:invalid|wrong|incorrect) signature|SignatureNotMatch|SignatureDoesNotMatch",
            re.IGNORECASE,
        ),
        "SignatureNotMatch",
    ),
    (
        re.compile(
            r"access ?key ?(?:id)?\b.{0,60}\b(?:not found|not exist|invalid|unknown|disabled|"
            r"inactive)|(?:invalid|unknown) ?access ?key",
            re.IGNORECASE,
        ),
        "InvalidAccessKeyId",
    ),
)
# "full qualified name 'p.s.t' is not supported" (GitHub: aliyun/alibabacloud-odps-maxframe-client,
# issue 21): a name of three parts in a connection that uses no schemas.
_NEEDS_SCHEMA = re.compile(
    r"odps\.namespace\.schema|full qualified name\b.{0,200}\bnot supported|"
    r"\bthree[ -](?:tier|layer|level)|\bschema(?: ?name)?\b.{0,20}\b(?:required|missing|empty|"
    r"not (?:specified|given|set)|must be (?:specified|given|set))|"
    r"\b(?:missing|no|specify (?:a|the)) schema\b",
    re.IGNORECASE | re.DOTALL,
)
# "Invalid database operations on two-tier model" (GitHub: aliyun/maxcompute-semantic, issue 32)
# "Project p is not 3-tier model project." (six public clients check for this text)
_HAS_NO_SCHEMA = re.compile(
    r"\btwo[ -](?:tier|layer|level)|\bnot (?:an? )?(?:3|three)[ -]tier", re.IGNORECASE
)
_QUOTA = re.compile(
    r"quota.{0,80}(?:not (?:found|exist|specified|given|set|available)|unknown|invalid|missing|"
    r"required|does ?n.t exist)|(?:no ?such|unknown|invalid|missing|no) ?quota",
    re.IGNORECASE | re.DOTALL,
)
_OTHER_QUOTA = (
    "pass the name of a quota that this project may use as quota=; the Storage API needs a data "
    "transmission quota, or open storage switched on (then quota='pay-as-you-go'); ask the "
    "tenant's administrator"
)
_EXTERNAL = re.compile(r"external[ _]table", re.IGNORECASE)
_HINT_OF_SCHEMA = (
    (_HAS_NO_SCHEMA, "connect without schema=: this project has no schemas"),
    (_NEEDS_SCHEMA, "connect with schema=, e.g. schema='default': this project has schemas"),
)
_HINT_OF_TEXT = (
    *_HINT_OF_SCHEMA,
    (_QUOTA, _OTHER_QUOTA),
    (_EXTERNAL, "use odps.sql(…): only queries read and write external tables"),
)
_HINT_IN_SQL = {
    "NoSuchProject": "check the names in the query: use project.table or project.schema.table"
}
_OF_TEXT = (InvalidRequestError, NotFoundError)
_NAMES = re.compile(
    r"""projects/[^\s{}'"]*|(?<!\w)'[^']*'|"[^"]*"|`[^`]*`"""
    r"|(?:(?<=table )|(?<=column ))\w+[._][\w.]+"
)


def without_names(message: str) -> str:
    """Return a message without names of objects, which may contain words such as ``quota``.

    >>> without_names("no privilege 'odps:Select' on {acs:odps:*:projects/p/tables/quotas}")
    'no privilege   on {acs:odps:*: }'
    """
    return _NAMES.sub(" ", message)


def is_denied(text: str) -> bool:
    """Return whether the text of an HTTP 400 states that a key, signature or token is wrong."""
    return any(pattern.search(without_names(text)) for pattern, _ in _DENIED)


def keys_expired(error: Exception) -> bool:
    """Return whether an error states that the keys or the token of a request have expired."""
    if not isinstance(error, AccessDeniedError):
        return False
    text = without_names(error.message)
    return error.code == "AuthenticationRequestExpired" or bool(_EXPIRED.search(text))


def hint_for(kind: type[ServiceError], code: str | None, message: str) -> str | None:
    """Return the hint for an error of this class; ``None`` if its message states what to do."""
    text = f"{code} {without_names(message)}"
    if kind is AccessDeniedError:
        if refusal := _REFUSAL.search(message):
            return _HINT_OF_REFUSAL[refusal[1]]
        if _OF_TOKEN.search(text):
            return _TOKEN
        if _QUOTA.search(text):
            return _OTHER_QUOTA
        if code not in _HINT_OF_CODE:
            code = next((like for pattern, like in _DENIED if pattern.search(text)), code)
    of_text = (hint for pattern, hint in _HINT_OF_TEXT if pattern.search(text))
    found = next(of_text, None) if kind in _OF_TEXT else None
    return found or hint_of_code(code) or _HINT_OF_CLASS.get(kind)


def hint_in_sql(code: str | None, message: str) -> str | None:
    """Return the hint for the error of a query; ``None`` if its message states what to do."""
    of_schema = (hint for pattern, hint in _HINT_OF_SCHEMA if pattern.search(message))
    return next(of_schema, None) or _HINT_IN_SQL.get(code or "") or hint_of_code(code)


def hint_of_code(code: str | None) -> str | None:
    """Return the hint for an error code; ``None`` if there is none."""
    return _HINT_OF_CODE.get(code or "")
