"""Error responses (JSON, XML or others) become typed errors with code, request id and hint."""

from __future__ import annotations

import gzip
import json
import pickle
from typing import Any

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

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
from odps_nb.wire.calls import (
    STATUS_OF_CODE,
    decode_error,
    encode_error_json,
    encode_error_xml,
)
from odps_nb.wire.calls.errors import find_error, is_time_overflow
from tests.support.wire.schemas import json_values

ENCODERS = pytest.mark.parametrize("encode", [encode_error_json, encode_error_xml])


def error_of(status: int, body: bytes = b"", **headers: str) -> ServiceError:
    return decode_error(status, {k.replace("_", "-"): v for k, v in headers.items()}, body)


def json_error(code: str, message: str = "text", **members: Any) -> bytes:
    return json.dumps({"Code": code, "Message": message, **members}).encode()


@ENCODERS
@pytest.mark.parametrize("code", STATUS_OF_CODE)
def test_every_code_is_unchanged_by_a_round_trip_in_both_forms(encode: Any, code: str) -> None:
    status = STATUS_OF_CODE[code]
    error = error_of(status, encode(code, "what <failed> & why", "20251120-id"))
    assert (error.code, error.status, error.message) == (code, status, "what <failed> & why")
    assert error.request_id == "20251120-id"
    assert error.hint or type(error) is InvalidRequestError  # whose message needs no hint


def test_both_forms_have_the_elements_that_clients_require() -> None:
    assert json.loads(encode_error_json("C", "m", "r")) == {
        "Code": "C",
        "Message": "m",
        "RequestId": "r",
        "HostId": "localhost",
    }
    assert encode_error_xml("C", "m", "r") == (
        b'<?xml version="1.0"?>\n<Error><Code>C</Code><Message>m</Message>'
        b"<RequestId>r</RequestId><HostId>localhost</HostId></Error>"
    )


@pytest.mark.parametrize(
    ("status", "code", "kind", "hint"),
    [
        (400, "InvalidArgument", InvalidRequestError, None),
        (400, "InvalidAccessKeyId", AccessDeniedError, "access id"),
        (404, "NoSuchSchema", NotFoundError, "schema="),
        (400, "InvalidPartitionSpec", InvalidRequestError, "key=value"),
        (400, "ParseError", InvalidRequestError, "SQL text"),
        (400, "SomethingNew", InvalidRequestError, None),
        (401, "Unauthorized", AccessDeniedError, "access id"),
        (403, "SignatureNotMatch", AccessDeniedError, "check that the access key"),
        (403, "SignatureDoesNotMatch", AccessDeniedError, "check that the access key"),
        (403, "RequestTimeTooSkewed", AccessDeniedError, "clock"),
        (403, "NoPermission", AccessDeniedError, "ask the project owner"),
        (404, "NoSuchTable", NotFoundError, "odps.tables()"),
        (404, "NoSuchPartition", NotFoundError, "table.partitions()"),
        (404, "NoSuchProject", NotFoundError, "endpoint"),
        (404, "NoSuchStream", NotFoundError, "open the write stream again"),
        (404, "SomethingNew", NotFoundError, "check the name"),
        (404, "NoSuchSession", SessionExpiredError, "read again for a new snapshot"),
        (400, "StreamSessionNotFound", SessionExpiredError, "read again"),
        (409, "InvalidState", ConflictError, "committed or aborted"),
        (409, "RowOffsetConflict", ConflictError, "another writer"),
        (409, "SomethingNew", ConflictError, "check the state"),
        (400, "StatusConflict", ConflictError, "begin a new session"),
        (400, "DataUnderReplication", ConflictError, "try again later"),
        (400, "MissingPartitionSpec", InvalidRequestError, "name a partition"),
        (405, "MethodNotAllowed", InvalidRequestError, "use odps.sql"),
        (429, "FlowExceeded", ThrottledError, "wait"),
        (429, "SomethingNew", ThrottledError, "ClientOptions(retries=…, deadline=…)"),
        (500, "InternalServerError", ServerFaultError, "try again"),
        (503, "ServiceUnavailable", ServerFaultError, "try again"),
        (507, "SomethingNew", ServerFaultError, "try again"),
        (418, "SomethingNew", InvalidRequestError, None),
        (308, "SomethingNew", ServiceError, "check the endpoint"),
    ],
)
def test_an_error_has_the_class_and_hint_of_its_code(
    status: int, code: str, kind: type[ServiceError], hint: str | None
) -> None:
    error = error_of(status, json_error(code))
    assert type(error) is kind
    assert (error.status, error.code) == (status, code)
    assert error.hint is None if hint is None else hint in str(error.hint)


def test_the_tunnel_reports_an_ended_session_as_a_conflict() -> None:
    """Vendor's manual, *Common error codes for Tunnel*."""
    body = json_error("StatusConflict", "The upload|download session is expired")
    assert type(error_of(400, body)) is SessionExpiredError


@pytest.mark.parametrize("status", [200, 400, 404, 503])
def test_a_timeout_of_the_metadata_store_raises_a_server_error(status: int) -> None:
    """Evidence 162: the Spark connector retries such errors (``docs/protocol.md`` section 8.4)."""
    body = json_error("InvalidArgument", "ODPS-0123: OTSTimeout, get partition failed")
    assert type(error_of(status, body)) is ServerFaultError


@pytest.mark.parametrize("code", [code for code, status in STATUS_OF_CODE.items() if status < 500])
@ENCODERS
def test_a_table_name_that_contains_timeout_does_not_hide_the_code(encode: Any, code: str) -> None:
    """Errors repeat the requested name, so only two unspecific codes are searched for the word."""
    error = error_of(400, encode(code, "Table not found: p.otstimeout_log", "1"))
    vague = code in ("InvalidArgument", "InvalidParameter")
    assert (type(error) is ServerFaultError) is vague
    assert error.code == code
    found = error_of(404, b"ODPS-0130131:Table not found - otstimeout_log")
    assert type(found) is NotFoundError


def test_the_code_takes_precedence_over_the_status() -> None:
    assert type(error_of(500, json_error("NoSuchTable"))) is NotFoundError
    assert type(error_of(400, json_error("SlotExceeded"))) is ThrottledError


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("ODPS-0130131", "Table not found", "NoSuchTable"),
        ("ODPS-0130131", "", "NoSuchTable"),
        ("Whatever", "ODPS-0130013:Authorization failed", "NoPermission"),
        ("Whatever", "ODPS-9999999:new", "Whatever"),
        ("NoSuchObject", "ODPS-0130131:Table not found", "NoSuchTable"),
        ("NoSuchObject", "ODPS-0422111:Table not found - Table t does not exist", "NoSuchTable"),
        ("NoSuchObject", "Unknown http request location: /", "NoSuchObject"),
        ("NoSuchSchema", "ODPS-0130131:Table not found", "NoSuchSchema"),
    ],
)
def test_the_error_number_in_a_text_gives_the_code(code: str, message: str, expected: str) -> None:
    assert error_of(400, json_error(code, message)).code == expected


@pytest.mark.parametrize("status", [400, 404, 409])
def test_an_expired_session_is_recognised_by_its_text(status: int) -> None:
    body = json_error("InvalidArgument" if status == 400 else "X", "Session s-1 has expired")
    assert type(error_of(status, body)) is SessionExpiredError


def test_expired_credentials_are_not_an_expired_session() -> None:
    body = json_error("AuthenticationRequestExpired", "the session token expired")
    assert type(error_of(401, body)) is AccessDeniedError


TEXTS = {
    "id": [
        "The AccessKeyId is not found",
        "InvalidAccessKeyId: the access key id does not exist",
        "invalid access key",
        "ODPS-0410051:Invalid credentials - unknown",
    ],
    "key": [
        "The request signature we calculated does not match",
        "User signature dose not match",
        "invalid signature",
        "ODPS-0410042:Invalid signature value",
    ],
    "token": [
        "The security token has expired",
        "the session token expired at noon",
        "invalid STS token",
        "the bearer token is invalid",
    ],
    "clock": ["ODPS-0410031:Authentication request expired - the interval exceeds the maximum"],
}
HINTS = {
    "id": "check the access id",
    "key": "check that the access key matches",
    "token": "check the STS or bearer token",
    "clock": "set this machine's clock",
}


@pytest.mark.parametrize(("kind", "text"), [(k, text) for k in TEXTS for text in TEXTS[k]])
@pytest.mark.parametrize("code", ["InvalidParameter", "SomethingNew", None])
@pytest.mark.parametrize("status", [400, 403])
def test_refused_keys_are_recognised_by_their_text_in_http_400_as_well(
    kind: str, text: str, code: str | None, status: int
) -> None:
    body = text.encode() if code is None else json_error(code, text)
    error = error_of(status, body)
    assert type(error) is AccessDeniedError
    assert str(error.hint).startswith(HINTS[kind])


@pytest.mark.parametrize("code", ["NoSuchTable", "NoSuchSession", "ParseError", "FlowExceeded"])
def test_a_specific_code_takes_precedence_over_the_text(code: str) -> None:
    error = error_of(400, json_error(code, "Table invalid_signature or expired sts token"))
    expected = error_of(400, json_error(code, "x"))
    assert (type(error), error.hint) == (type(expected), expected.hint)


@pytest.mark.parametrize(
    ("status", "code", "message", "hint"),
    [
        (400, "SomethingNew", "full qualified name 'p.s.t' is not supported", "schema="),
        (400, "ODPS-0130161", "set odps.namespace.schema=true to use schemas", "schema="),
        (404, "NoSuchObject", "the schema name is missing", "schema="),
        (400, "InvalidParameter", "Schema must be specified", "schema="),
        (400, None, "only for the three-tier model", "schema="),
        (400, None, "Invalid database operations on two-tier model", "without schema="),
        (400, "InvalidParameter", "quota q1 does not exist", "quota="),
        (404, "NoSuchQuota", "no", "quota="),
        (403, "NoPermission", "the quota of this project is not available", "open storage"),
        (400, "MissingParameter", "quotaName is required", "quota="),
        (400, "InvalidParameter", "cannot read the external table p.t", "odps.sql(…)"),
        (405, "MethodNotAllowed", "EXTERNAL_TABLE is not supported", "odps.sql(…)"),
        (404, "NoSuchTable", "Table not found: schema_required", "odps.tables()"),
        (404, "NoSuchTable", "Table not found: p.my_quota", "odps.tables()"),
        (404, "NoSuchTable", "table p.quota_use does not exist", "odps.tables()"),
        (404, "NoSuchTable", "table p.external_table_1 cannot be resolved", "odps.tables()"),
        (403, "NoPermission", "no access to {acs:odps:*:projects/p/tables/sts_token}", "owner"),
        (403, "NoPermission", "no access to the table 'session_token'", "owner"),
        (400, "InvalidParameter", "the column 'sts_token' is invalid", "None"),
        (400, "InvalidParameter", "the column 'external_table' is unknown", "None"),
        (429, "RequestQuotaExceeded", "quota not available", "wait"),
        (503, None, "quota not available", "try again"),
    ],
)
def test_the_text_of_a_refused_request_gives_the_hint(
    status: int, code: str | None, message: str, hint: str
) -> None:
    body = message.encode() if code is None else json_error(code, message)
    assert hint in str(error_of(status, body).hint)


@pytest.mark.parametrize(("status", "hint"), [(403, "login page"), (429, "wait"), (502, "proxies")])
def test_a_web_page_as_a_response_names_its_sender_and_is_not_taken_for_a_refusal(
    status: int, hint: str
) -> None:
    error = decode_error(status, {}, b"<html>go away</html>", "the service at h:1")
    told = f"the service at h:1 responded with HTTP status {status} and a web page: go away"
    assert error.message == told
    assert hint in str(error.hint)
    assert decode_error(500, {}, b"", "X").message == "X responded with HTTP status 500"


@pytest.mark.parametrize("body", [b"", b"no", b'{"error": "no"}', b"<html>no</html>"])
@pytest.mark.parametrize(
    ("status", "hint"),
    [(400, "PROXY"), (403, "PROXY"), (404, "PROXY"), (503, "proxies"), (511, "PROXY")],
)
def test_a_response_without_code_and_request_id_is_not_taken_for_one_of_the_service(
    status: int, hint: str, body: bytes
) -> None:
    assert hint in str(decode_error(status, {}, body).hint)
    if status != 400 and not body.startswith(b"<"):
        assert "PROXY" not in str(decode_error(status, {"x-odps-request-id": "r"}, body).hint)


# -- request id and waiting -------------------------------------------------------------------


def test_the_request_id_of_the_header_takes_precedence() -> None:
    body = encode_error_xml("C", "m", "in-body")
    assert error_of(400, body, X_Odps_Request_Id="in-header").request_id == "in-header"
    assert error_of(400, body).request_id == "in-body"
    assert error_of(502, b"<html>bad gateway</html>", x_odps_request_id="r").request_id == "r"


@pytest.mark.parametrize(
    ("headers", "members", "expected"),
    [
        ({}, {}, None),
        ({"Retry_After": "3"}, {}, 3.0),
        ({"retry_after": "0.5"}, {}, 0.5),
        ({"Retry_After": "99999"}, {}, 3600.0),
        ({"Retry_After": "Thu, 20 Nov 2025 22:04:05 GMT"}, {}, None),
        ({"Retry_After": "-1"}, {}, None),
        ({"Retry_After": "٣"}, {}, None),
        ({}, {"HoldClientMillis": 1500}, 1.5),
        ({}, {"HoldClientMillis": "1500"}, 1.5),
        ({}, {"HoldClientMillis": -5}, 0.0),
        ({"Retry_After": "3"}, {"HoldClientMillis": 1500}, 3.0),
    ],
)
def test_the_time_to_wait_is_read_from_headers_or_body(
    headers: dict[str, str], members: dict[str, Any], expected: float | None
) -> None:
    assert error_of(429, json_error("FlowExceeded", **members), **headers).retry_after == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1500", 1.5), ("x", None), ("", None), ("9" * 40, None)]
)
def test_the_time_to_wait_is_read_from_xml(text: str, expected: float | None) -> None:
    body = f"<Error><Code>C</Code><HoldClientMillis>{text}</HoldClientMillis></Error>".encode()
    assert error_of(429, body).retry_after == expected


# -- malformed error documents ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the server responded with HTTP status 502"),
        (b"upstream  timed\nout", "upstream timed out"),
        (
            b"<html><head><title>502</title></head><body>Bad  Gateway</body></html>",
            'the server responded with HTTP status 502 and a web page titled "502"',
        ),
        (
            b"<!DOCTYPE html><p>Bad Gateway",
            "the server responded with HTTP status 502 and a web page: Bad Gateway",
        ),
        (b"{not json", "{not json"),
        (b"[1]", "[1]"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"Code": 3, "Message": 4}', '{"Code": 3, "Message": 4}'),
        (b'{"Message": "only text"}', "only text"),
        (b'{"code": "X", "message": "lower case"}', "lower case"),
        (b"<Error><Message>no code</Message></Error>", "no code"),
        (b'{"ErrorCode": "X", "ErrorMessage": "other members"}', "other members"),
        (b'{"errorCode": 5, "errorMsg": "camel case"}', "camel case"),
        (b'{"error": {"code": "X", "message": "inside"}}', "inside"),
        (b'{"Error": {"Code": "X", "Message": "inside"}}', "inside"),
        (b'{"Code": "X", "Message": "own", "error": {"message": "inside"}}', "own"),
        (b'{"error":' * 300 + b"{}" + b"}" * 300, '{"error":' * 300 + "{}" + "}" * 300),
        (b'{"error": "only a text"}', "only a text"),
        (b'{"error": {"why": "unknown"}}', '{"error": {"why": "unknown"}}'),
        (b'{"detail":  "full"}', '{"detail": "full"}'),
        (b'{"Code": "X", "Detail": "full"}', '{"Code": "X", "Detail": "full"}'),
        (b'{"RequestId": "r", "Detail": "full"}', '{"RequestId": "r", "Detail": "full"}'),
        (b'{"Code": "X", "Message": ""}', "the server responded with HTTP status 502"),
    ],
)
def test_an_unparsable_error_keeps_its_text(body: bytes, message: str) -> None:
    error = error_of(502, body)
    assert type(error) is ServerFaultError
    assert error.message == message


CODINGS = {
    "zstd": zstandard.compress,
    "lz4": lz4.frame.compress,
    "gzip": gzip.compress,
}


@pytest.mark.gate(2)
@pytest.mark.parametrize("squeeze", CODINGS.values(), ids=CODINGS)
@pytest.mark.parametrize("status", [400, 503])
def test_an_error_in_a_content_coding_is_read(status: int, squeeze: Any) -> None:
    error = error_of(status, squeeze(json_error("NoSuchTable", "where is it?")))
    assert (type(error), error.message) == (NotFoundError, "where is it?")
    assert error_of(status, squeeze(b"<p>Bad Gateway")).message == "Bad Gateway"
    assert len(error_of(status, squeeze(b"x" * 10**7)).message) == 4000
    assert error_of(status, squeeze(b"it is damaged")[:8]).message  # truncated: shown as text


@pytest.mark.parametrize(
    "body",
    [
        '{"detail": "bad", "securityToken": "CAIS-hidden"}',
        "<html>Authorization: ODPS CAIS-hidden rest</html>",
        "access_key_secret=CAIS-hidden&x=1",
        '{"x-odps-bearer-token":"CAIS-hidden"}',
    ],
)
def test_the_text_of_an_unknown_error_body_shows_no_secret(body: str) -> None:
    error = error_of(400, body.encode())
    assert "…" in error.message
    assert "hidden" not in error.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, ServiceError),
        (400, InvalidRequestError),
        (401, AccessDeniedError),
        (404, NotFoundError),
        (429, ThrottledError),
        (500, ServerFaultError),
        (599, ServerFaultError),
    ],
)
def test_the_status_alone_determines_the_class(status: int, kind: type[ServiceError]) -> None:
    error = error_of(status)
    assert type(error) is kind
    assert error.code is None
    assert error.hint


def test_the_length_of_an_error_message_is_limited() -> None:
    assert len(error_of(500, b"x" * 10**7).message) == 4000
    assert len(error_of(500, json_error("C", "y" * 10**5)).message) == 4000
    error = error_of(500, encode_error_json("c" * 10**5, "m", "r" * 10**5))
    assert (len(error.code), len(error.request_id)) == (100, 100)
    error = decode_error(500, {"x-odps-request-id": "r" * 10**5}, b"")
    assert len(error.request_id) == 100


@pytest.mark.parametrize("body", [b"{}", b"[]", b"\r\n", b"<p/>"])
def test_a_body_without_words_is_not_a_message(body: bytes) -> None:
    assert error_of(503, body).message == "the server responded with HTTP status 503"


def test_headers_may_be_a_sequence_of_pairs() -> None:
    error = decode_error(503, (("Retry-After", "2"), ("X-ODPS-Request-Id", "r")), b"")
    assert (error.retry_after, error.request_id) == (2.0, "r")


def test_a_decoded_error_survives_pickling() -> None:
    error = error_of(429, json_error("FlowExceeded", "slow down"), Retry_After="3")
    error.add_note("split 4")
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), back.code, back.retry_after, back.notes) == (
        ThrottledError,
        "FlowExceeded",
        3.0,
        ("split 4",),
    )


@given(st.integers(100, 599), st.binary(max_size=80), st.dictionaries(st.text(), st.text()))
def test_any_error_response_becomes_a_service_error(
    status: int, body: bytes, headers: dict[str, str]
) -> None:
    error = decode_error(status, headers, body)
    assert isinstance(error, ServiceError)
    assert error.status == status
    assert error.message
    assert error.hint or isinstance(error, InvalidRequestError)


KEYS = ["Code", "Message", "RequestId", "HoldClientMillis", "code"]


@given(st.integers(400, 599), st.dictionaries(st.sampled_from(KEYS), json_values))
def test_any_json_body_becomes_a_service_error(status: int, members: dict[str, Any]) -> None:
    error = decode_error(status, {}, json.dumps(members).encode())
    assert isinstance(error, ServiceError)
    assert error.message


OVERFLOW = "ODPS-0422214: Read data failed - RuntimeTimestamp data overflow"


@pytest.mark.parametrize("status", [200, 400, 403, 404, 408, 409, 429, 500, 503])
@ENCODERS
def test_a_time_beyond_nanoseconds_is_not_retried(status: int, encode: Any):
    """Evidence 152: the text of the error is known, its status is not."""
    for code, message in (("ODPS-0422214", OVERFLOW), ("InternalServerError", OVERFLOW)):
        error = error_of(status, encode(code, message, "1"))
        assert type(error) is InvalidRequestError
        assert is_time_overflow(f"{error.code} {error.message}")
        assert "timestamp_unit='us'" in error.hint
    plain = f"ErrorCode=ODPS-0422214, ErrorMessage={OVERFLOW}"
    assert type(error_of(status, plain.encode())) is InvalidRequestError


def test_the_error_number_of_a_failed_read_does_not_imply_a_time_overflow():
    error = error_of(500, json_error("ODPS-0422214", "ODPS-0422214: Read data failed - disk"))
    assert type(error) is ServerFaultError
    assert not is_time_overflow(f"{error.code} {error.message}")


# -- error documents in place of rows, with status 200 -----------------------------------------


def test_an_error_that_replaces_rows_is_recognised_by_its_code() -> None:
    found = find_error({}, encode_error_json("NoSuchTable", "not there", "0AF1"))
    assert isinstance(found, NotFoundError)
    assert (found.code, found.request_id) == ("NoSuchTable", "0AF1")


def test_an_unknown_code_in_place_of_rows_is_quoted() -> None:
    found = find_error({}, encode_error_json("NeverHeardOf", "no rows today", "0AF1"))
    assert type(found) is ServiceError
    assert "report the code" in (found.hint or "")


@pytest.mark.parametrize("body", [b"", b"<html>login</html>", b"rows", b"{}"])
def test_documents_without_an_error_code_are_not_errors_of_the_service(body: bytes) -> None:
    assert find_error({}, body) is None


@pytest.mark.parametrize("begin", [b"\x1f\x8b", b"\x28\xb5\x2f\xfd"], ids=["gzip", "zstd"])
def test_a_damaged_encoded_body_is_shown_unchanged(begin: bytes) -> None:
    error = error_of(503, begin + b"\xff" * 40 + b" no code")
    assert (error.code, type(error)) == (None, ServerFaultError)
    assert error.message.endswith("no code")
