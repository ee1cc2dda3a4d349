"""Converts error documents of the service to exceptions and back (``docs/protocol.md`` section 8).

The class is determined by a specific error code, by an ``ODPS-nnnnnnn`` number in the text, or by
the HTTP status, in this order. A hint is added if the message does not state what the user can do.
"""

from __future__ import annotations

import html
import re
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from odps_nb.errors import (
    AccessDeniedError,
    ConflictError,
    FramingError,
    InvalidRequestError,
    NotFoundError,
    OdpsNbError,
    ServerFaultError,
    ServiceError,
    SessionExpiredError,
    ThrottledError,
    visible,
)
from odps_nb.terms import MAX_ID, shorten
from odps_nb.wire.calls.core import REQUEST_ID, Pairs, find_header
from odps_nb.wire.calls.hints import hint_for, is_denied
from odps_nb.wire.codings import decoder, sniff
from odps_nb.wire.json_fields import Fields, dump, parse_object
from odps_nb.wire.xml_text import DECLARATION, child_text, element, parse_xml

MAX_ERROR_BYTES = 2**20
GZIP_MAGIC = b"\x1f\x8b"
MAX_MESSAGE = 4000
MAX_RETRY_AFTER = 3600.0

# status -> codes of the embedded service (``docs/protocol.md`` section 8.2) or other servers
_CODES = {
    400: "InvalidArgument InvalidParameter MalformedDataStream InvalidPartitionSpec "
    "InvalidRowRange ParseError InvalidColumnSpec InvalidProjectTable "
    "InvalidResourceSpec MissingPartitionSpec",
    401: "Unauthorized AuthorizationRequired AuthenticationRequestExpired",
    403: "InvalidAccessKeyId AccessDenied NoPermission SignatureNotMatch "
    "SignatureDoesNotMatch RequestTimeTooSkewed",
    404: "NoSuchProject NoSuchSchema NoSuchTable NoSuchPartition NoSuchObject "
    "NoSuchInstance NoSuchSession StreamSessionNotFound UpsertSessionNotFound "
    "SessionExpired NoSuchStream NoSuchVersion",
    405: "MethodNotAllowed",
    409: "InvalidState InvalidStateSetting StatusConflict RowOffsetConflict AlreadyWritten "
    "ObjectAlreadyExists TableAlreadyExists TableModified SchemaModified "
    "DataVersionError DataVersionConflict DataUnderReplication VersionReplacedRows",
    429: "FlowExceeded QPSExceeded SlotExceeded RequestQuotaExceeded",
    500: "InternalServerError InternalConnectionError StorageFailure",
    502: "BadGatewayError",
    503: "ServiceUnavailable",
    507: "InsufficientStorage",
}
STATUS_OF_CODE: Mapping[str, int] = MappingProxyType(
    {code: status for status, codes in _CODES.items() for code in codes.split()}
)

# number in "ODPS-0130131:…" -> code, as in stock clients (``docs/protocol.md`` section 8.1); the
# numbers of keys and signatures: vendor's page *API errors (ODPS-04CCCCX)*, some with HTTP 400
_CODE_OF_NUMBER = {
    "0010000": "InternalServerError",
    "0110141": "DataVersionError",
    "0123055": "ScriptError",
    "0130013": "NoPermission",
    "0130131": "NoSuchTable",
    "0130161": "ParseError",
    "0410031": "RequestTimeTooSkewed",
    "0410042": "SignatureNotMatch",
    "0410051": "InvalidAccessKeyId",
    "0420111": "NoSuchProject",
    "0420153": "InternalServerError",
    "0420411": "InvalidArgument",
    "0422111": "NoSuchTable",  # aliyun/aliyun-odps-jdbc, issue 141
    "0422155": "NoSuchSchema",  # aliyun/dbt-maxcompute, `is_schema_not_found`
    "0430055": "InternalConnectionError",
}
_NUMBER = re.compile(r"ODPS-(\d{7})")
_ADVICE = re.compile(r" \(to do: ([^()]{1,400}(?:\([^()]*\)[^()]*)*)\)\s*\Z")
_EXPIRED_CODES = {
    "NoSuchSession",
    "StreamSessionNotFound",
    "UpsertSessionNotFound",
    "SessionExpired",
}
_OWN_NAMES = ("Code", "code", "Message", "message")
_CODE_NAMES = ("Code", "code", "ErrorCode", "errorCode", "error_code")
_MESSAGE_NAMES = (
    *("Message", "message", "ErrorMessage", "errorMessage", "error_message"),
    *("ErrorMsg", "errorMsg", "error_description", "msg", "error", "Error"),
)
_KNOWN = {*_CODE_NAMES, *_MESSAGE_NAMES, "RequestId", "requestId", "HostId", "HoldClientMillis"}
_SECRET = re.compile(
    r"(?i)((?:authorization|signature|secret|password|token|access_?key)[\w-]*[\"']?\s*[:=]\s*[\"']?)"
    r"(?:(?:bearer|odps|basic|negotiate|ntlm)\s+)?[^\s\"'<>,;&}]+"
)
_VAGUE_CODES = {"InvalidArgument", "InvalidParameter"}
_SESSION_OVER = re.compile(r"session\b.{0,120}\bexpired", re.IGNORECASE | re.DOTALL)
_TIME_OVERFLOW = re.compile(r"ODPS-0422214\b.*timestamp\b.*overflow", re.IGNORECASE | re.DOTALL)
_IN_MICROSECONDS = (
    "read TIMESTAMPs in microseconds: pass timestamp_unit='us' to Table.read; "
    "in a query, cast the column to DATETIME or STRING"
)
_CLASS_OF_STATUS: dict[int, type[ServiceError]] = {
    401: AccessDeniedError,
    403: AccessDeniedError,
    404: NotFoundError,
    409: ConflictError,
    429: ThrottledError,
}


class _Parts(NamedTuple):
    code: str | None
    message: str
    request_id: str | None
    hold_millis: int | None


def decode_error(
    status: int, headers: Mapping[str, str] | Pairs, body: bytes, sender: str = "the server"
) -> ServiceError:
    """Return the exception for an unsuccessful response; never raise.

    ``sender`` names the host that responded.
    """
    body = _decoded(body[:MAX_ERROR_BYTES])
    parts = _parse(body)
    is_page = parts is None and is_web_page(body)
    if parts is None:
        text = _raw(body)
        if is_page:
            page = describe_page(body, text)
            text = f"{sender} responded with HTTP status {status} and {page}"
        parts = _Parts(None, text, None, None)
    error = _error(status, headers, parts, sender)
    is_general = error.hint == hint_for(type(error), None, "")
    # the service always sends a code and a request id
    is_foreign = error.code is None and is_general and not (error.request_id and error.hint)
    if isinstance(error, ThrottledError) or not (is_page or is_foreign):
        return error
    if isinstance(error, ServerFaultError) and status != 511:  # 511: log in to the network
        error.hint = "try again; if it still fails, check the proxies on the way to the service"
    else:
        error.hint = PAGE_HINT if is_page else _FOREIGN_HINT
    return error


def find_refusal(
    headers: Mapping[str, str] | Pairs, body: bytes, sender: str
) -> OdpsNbError | None:
    """Return the error for an XML error document or a web page in a 2xx response, or ``None``."""
    if _ERROR.match(body):
        return find_error(headers, body)
    return find_page(body, sender, find_header(headers, REQUEST_ID))


def find_page(body: bytes, sender: str, request_id: str | None = None) -> FramingError | None:
    """Return the error for a web page that a 2xx response contains; ``None`` for other bodies."""
    body = _decoded(body[:MAX_ERROR_BYTES])
    return page_error(body, sender, request_id) if is_web_page(body) else None


def find_error(headers: Mapping[str, str] | Pairs, body: bytes) -> ServiceError | None:
    """Return the error that a 2xx response contains instead of rows, or ``None``.

    The parameters are those of `decode_error`. A proxy's web page is ignored.
    """
    parts = _parse(_decoded(body[:MAX_ERROR_BYTES]))
    if parts is None:
        return None
    error = _error(200, headers, parts, "the server")
    if type(error) is ServiceError:
        error.hint = "report the code and the request id; this error arrived with a success status"
    return error


def _decoded(body: bytes) -> bytes:
    """Return the first MiB of an error body, decompressed if it begins with a magic number.

    Text never begins with a magic number, so ``Content-Encoding`` is not needed. A damaged body is
    returned unchanged.
    """
    try:
        if body[:2] == GZIP_MAGIC:
            return zlib.decompressobj(wbits=31).decompress(body, MAX_ERROR_BYTES)
        coding = sniff(body)
        if coding is None:
            return body
        found = bytearray()
        for piece in decoder(coding).pieces(body):
            found += piece
            if len(found) >= MAX_ERROR_BYTES:
                break
        return bytes(found[:MAX_ERROR_BYTES])
    except (zlib.error, OdpsNbError):
        return body


def _error(
    status: int, headers: Mapping[str, str] | Pairs, parts: _Parts, sender: str
) -> ServiceError:
    code = parts.code
    if _is_vague(code) or code == "NoSuchObject":  # the code of REST requests for a missing table
        code = code_of_text(f"{code} {parts.message}") or code
    kind = _class_of(status, code, parts.message)
    message, advice = split_advice(parts.message)
    message = message or f"{sender} responded with HTTP status {status}"
    overflows = is_time_overflow(f"{code} {message}")
    hint = _IN_MICROSECONDS if overflows else hint_for(kind, code, message)
    request_id = find_header(headers, REQUEST_ID) or parts.request_id
    return kind(
        shorten(message, MAX_MESSAGE),
        status=status,
        code=code and shorten(code, MAX_ID),
        request_id=request_id and shorten(request_id, MAX_ID),
        retry_after=_retry_after(headers, parts.hold_millis),
        hint=advice or hint,
    )


def code_of_text(text: str) -> str | None:
    """Return the error code for the first ``ODPS-nnnnnnn`` number in a text."""
    number = _NUMBER.search(text)
    return _CODE_OF_NUMBER.get(number[1]) if number else None


def split_advice(message: str) -> tuple[str, str | None]:
    """Split a message into its text and the advice at its end."""
    found = _ADVICE.search(message)
    return (message, None) if found is None else (message[: found.start()], found[1])


def is_storage_timeout(code: str | None, message: str) -> bool:
    """Return whether an error means that the service's metadata store timed out.

    Any status is possible; the stock clients retry if the text contains "OTSTimeout"
    (``docs/protocol.md`` section 8.4). A name in the message may also contain "OTSTimeout", so a
    specific error code takes precedence.
    """
    is_vague = code in _VAGUE_CODES or STATUS_OF_CODE.get(code or "", 500) >= 500
    return is_vague and "otstimeout" in f"{code} {message}".lower()


def is_time_overflow(text: str) -> bool:
    """Return whether an error's text states that a TIMESTAMP is out of range for nanoseconds.

    The only known report of this error (Apache Doris, pull request 49600) does not state the HTTP
    status: ``ODPS-0422214: Read data failed - RuntimeTimestamp data overflow``. The number
    ``ODPS-0422214`` alone can denote any failed read.
    """
    return bool(_TIME_OVERFLOW.search(text))


def _is_vague(code: str | None) -> bool:
    """Return whether an error code is unknown, or states only that an argument is invalid."""
    return code not in STATUS_OF_CODE or code in _VAGUE_CODES


def _class_of(status: int, code: str | None, message: str) -> type[ServiceError]:
    if is_time_overflow(f"{code} {message}"):
        return InvalidRequestError  # a retry would fail again, regardless of the status
    known = STATUS_OF_CODE.get(code or "", status)
    if is_storage_timeout(code, message):
        return ServerFaultError
    if known == 400 and _is_vague(code) and is_denied(f"{code} {message}"):
        return AccessDeniedError
    if code in _EXPIRED_CODES or (known in (400, 404, 409) and _SESSION_OVER.search(message)):
        return SessionExpiredError
    for number in (known, status):
        if number in _CLASS_OF_STATUS:
            return _CLASS_OF_STATUS[number]
        if number >= 500:
            return ServerFaultError
    return InvalidRequestError if known >= 400 else ServiceError


def _parse(body: bytes) -> _Parts | None:
    """Parse an error document; return ``None`` if the body is not one."""
    start = body.lstrip()[:1]
    try:
        if start == b"{":
            return _parse_json(parse_object(body, "error"), body)
        if start == b"<":
            return _parse_xml(body)
    except OdpsNbError:
        pass  # a proxy's error page, or a damaged body
    return None


def _raw(body: bytes) -> str:
    """Return the text of a body that is not an error document, with tags and secrets removed."""
    text = re.sub(r"<[^<>]*>", " ", _text_of(body))
    text = re.sub(r"\s+", " ", _SECRET.sub(r"\1…", text)).strip()
    return text if re.search(r"[\w\ufffd]", text) else ""  # e.g. of an empty JSON object


def _parse_json(fields: Fields, body: bytes) -> _Parts | None:
    """Read an error's members; the service, other servers and gateways name them differently."""
    inner = next((name for name in ("error", "Error") if name in fields), None)
    if inner and fields.simple(inner) is None and not any(name in fields for name in _OWN_NAMES):
        fields = fields.inner(inner)
    code = next((text for name in _CODE_NAMES if (text := fields.loose_text(name))), None)
    message = next((text for name in _MESSAGE_NAMES if (text := fields.text(name))), "")
    hold = fields.loose_integer("HoldClientMillis")
    request_id = fields.loose_text("RequestId") or fields.loose_text("requestId")
    if not (code or message or request_id or hold):
        return None
    is_known = message or (code and set(fields) <= _KNOWN)
    return _Parts(code, message if is_known else _raw(body), request_id, hold)


def _parse_xml(body: bytes) -> _Parts:
    root = parse_xml(body, "error")
    if root.tag != "Error":
        raise FramingError("not an error document")
    hold = child_text(root, "HoldClientMillis")
    return _Parts(
        code=child_text(root, "Code") or None,
        message=child_text(root, "Message"),
        request_id=child_text(root, "RequestId") or None,
        hold_millis=int(hold) if hold.isascii() and hold.isdigit() and len(hold) < 10 else None,
    )


def _retry_after(headers: Mapping[str, str] | Pairs, hold_millis: int | None) -> float | None:
    # Parse only seconds: a date needs a clock, which this layer must not use.
    # `odps_nb.http.retry` parses dates.
    text = (find_header(headers, "retry-after") or "").strip()
    seconds = float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII) else None
    if seconds is None and hold_millis is not None:
        seconds = max(0, hold_millis) / 1000
    return None if seconds is None else min(seconds, MAX_RETRY_AFTER)


def encode_error_json(code: str, message: str, request_id: str) -> bytes:
    """Encode a Storage API error (``docs/protocol.md`` section 8.1)."""
    return dump({"Code": code, "Message": message, "RequestId": request_id, "HostId": "localhost"})


def encode_error_xml(code: str, message: str, request_id: str) -> bytes:
    """Encode a control plane error; clients require all four elements."""
    parts = (
        element("Code", code),
        element("Message", message),
        element("RequestId", request_id),
        element("HostId", "localhost"),
    )
    return (DECLARATION + element("Error", parts)).encode()


HEAD_BYTES = 1 << 16
"""Number of bytes at the start of a body to search for a title."""
PAGE_HINT = (
    "log in to this network if this is its login page; otherwise check the address, HTTPS_PROXY "
    "and NO_PROXY"
)
_FOREIGN_HINT = (
    "check the endpoint, HTTPS_PROXY and NO_PROXY: a proxy or another server may have responded"
)
_SHOWN = 120
_BEGIN = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml\b[^>]{0,200}\?>\s*(?=<!))?(?:<!--.{0,2000}?-->\s*)*"
    rb"<(?:!doctype\s+html|html|head|title|meta|script|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_ERROR = re.compile(rb"\s*(?:<\?xml\b[^>]{0,200}\?>\s*)?<Error\b")
_CHARSET = re.compile(  # only usual encodings: some others decode in quadratic time
    rb"<meta\b[^>]{0,200}?\bcharset\s{0,9}=\s{0,9}[\"']?"
    rb"(gb\w{1,9}|big5|euc-\w{2}|shift_jis|iso-8859-\d{1,2}|windows-\d{3,4}|koi8-\w)\b",
    re.IGNORECASE,
)
_TITLE = re.compile(r"<title\b[^>]{0,200}>(.{0,1000}?)</title", re.IGNORECASE | re.DOTALL)


def is_web_page(body: bytes) -> bool:
    """Return whether a body begins as an HTML document."""
    return _BEGIN.match(body[:HEAD_BYTES]) is not None


def describe_page(body: bytes, text: str = "") -> str:
    """Return "a web page" with its title in quotes; without a title, with the start of ``text``."""
    found = _TITLE.search(_text_of(body[:HEAD_BYTES]))
    title = " ".join(visible(html.unescape(found[1])).split()) if found else ""
    if title:
        return f'a web page titled "{shorten(title, _SHOWN)}"'
    return f"a web page: {shorten(text, _SHOWN)}" if text else "a web page"


def _text_of(body: bytes) -> str:
    """Decode a page as its ``<meta>`` element states, or as UTF-8."""
    stated = _CHARSET.search(body[:HEAD_BYTES])
    try:
        return body.decode(stated[1].decode() if stated else "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def page_error(body: bytes, sender: str, request_id: str | None = None) -> FramingError:
    """Return the error for a web page in place of a document or a stream.

    ``sender`` names the host. A retry would return the same page.
    """
    error = FramingError(
        f"{sender} responded with {describe_page(body)} instead of a response of MaxCompute",
        request_id=request_id,
        hint=PAGE_HINT,
    )
    error.lasts = True
    return error
