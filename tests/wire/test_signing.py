"""Signatures: the stock client's vectors, the verifier, and details of the canonical string."""

from __future__ import annotations

import pickle
import time
from dataclasses import replace
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from odps_nb.errors import AccessDeniedError, ArgumentError, ConfigError
from odps_nb.wire.http_date import format_date, parse_date
from odps_nb.wire.signing import (
    Credentials,
    authorization,
    canonical_string,
    derive_key,
    sign,
    verify,
)
from tests.support.wire.signing_vectors import (
    ACCESS_ID,
    DATE,
    HANGZHOU,
    NOW,
    PLAIN,
    SECRET,
    SHANGHAI,
    SIGNED,
    VECTORS,
    Vector,
)

URL = "http://h/api/storage/v2?Action=TableRead&Count=5"


def secret_of(access_id: str) -> str | None:
    return SECRET if access_id == ACCESS_ID else None


def signed(vector: Vector) -> dict[str, str]:
    return sign(
        vector.method,
        vector.url,
        vector.sent,
        endpoint=vector.endpoint,
        credentials=vector.credentials,
        now=NOW,
        version=vector.version,
    )


def signed_headers(vector: Vector) -> dict[str, str]:
    return vector.sent | vector.added


def check(
    headers: dict[str, str],
    *,
    path: str = "/api/storage/v2?Action=TableRead&Count=5",
    now: float = NOW,
    method: str = "POST",
    **options: object,
) -> str:
    return verify(method, path, headers, keys=secret_of, now=now, **options)


def request_headers(credentials: Credentials = PLAIN, **options: object) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "x-odps-user-agent": "odps_nb"}
    return headers | sign(
        "POST", URL, headers, endpoint="http://h", credentials=credentials, now=NOW, **options
    )


def test_there_are_eighteen_signing_vectors() -> None:
    assert {vector.number.partition("-")[0] for vector in VECTORS} == set(map(str, range(1, 19)))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.number)
def test_signing_adds_exactly_the_headers_of_the_vector(vector: Vector) -> None:
    assert signed(vector) == vector.added
    assert signed(replace(vector, method=vector.method.lower())) == vector.added


@pytest.mark.parametrize("vector", SIGNED, ids=lambda v: v.number)
def test_a_test_vector_has_a_valid_signature(vector: Vector) -> None:
    found = verify(
        vector.method,
        vector.path_and_query,
        signed_headers(vector),
        keys=secret_of,
        now=NOW,
        sts_tokens=lambda _: vector.credentials.sts_token,
    )
    assert found == ACCESS_ID


@pytest.mark.parametrize("vector", SIGNED, ids=lambda v: v.number)
def test_a_test_vector_with_another_secret_is_refused(vector: Vector) -> None:
    with pytest.raises(AccessDeniedError) as caught:
        verify(
            vector.method,
            vector.path_and_query,
            signed_headers(vector),
            keys=lambda _: SECRET + "x",
            now=NOW,
        )
    assert (caught.value.status, caught.value.code) == (403, "SignatureNotMatch")


@pytest.mark.parametrize("vector", SIGNED, ids=lambda v: v.number)
def test_a_changed_parameter_is_refused(vector: Vector) -> None:
    with pytest.raises(AccessDeniedError):
        verify(
            vector.method,
            vector.path_and_query + "&z=1",
            signed_headers(vector),
            keys=secret_of,
            now=NOW,
        )


# -- signed and unsigned parts ----------------------------------------------------------------


@pytest.mark.parametrize(
    "unsigned",
    ["host", "content-encoding", "accept-encoding", "odps-tunnel-tags", "authorization-sts-token"],
)
def test_unsigned_headers_may_change(unsigned: str) -> None:
    tokens: dict[str, object] = {}
    if unsigned == "authorization-sts-token":
        tokens["sts_tokens"] = lambda _: "changed"
    assert check(request_headers() | {unsigned: "changed"}, **tokens) == ACCESS_ID


@pytest.mark.parametrize("signed", ["Content-Type", "x-odps-user-agent", "Date", "Content-MD5"])
def test_signed_headers_may_not_change(signed: str) -> None:
    changed = "Thu, 20 Nov 2025 22:04:06 GMT" if signed == "Date" else "changed"
    with pytest.raises(AccessDeniedError) as caught:
        check(request_headers() | {signed: changed})
    assert caught.value.code == "SignatureNotMatch"


def test_another_method_is_refused() -> None:
    with pytest.raises(AccessDeniedError):
        check(request_headers(), method="GET")


def test_an_endpoint_with_a_trailing_slash_gives_the_same_signature() -> None:
    headers = {"Date": DATE}
    assert canonical_string("GET", URL, headers, "http://h/") == canonical_string(
        "GET", URL, headers, "http://h"
    )


def test_the_server_can_verify_a_signature_with_or_without_the_endpoint_prefix() -> None:
    url = "http://h/api/projects/p1/tables?expectmarker=true"
    for endpoint in ("http://h", "http://h/api"):
        headers = sign("GET", url, {}, endpoint=endpoint, credentials=PLAIN, now=NOW)
        path = "/api/projects/p1/tables?expectmarker=true"
        assert check(headers, path=path, method="GET") == ACCESS_ID


def test_a_signature_for_another_prefix_is_refused() -> None:
    url = "http://h/other/projects/p1"
    headers = sign("GET", url, {}, endpoint="http://h/other", credentials=PLAIN, now=NOW)
    with pytest.raises(AccessDeniedError):
        check(headers, path="/other/projects/p1", method="GET")


def test_a_value_with_a_separately_decoded_ampersand_has_a_valid_signature() -> None:
    """A client that decodes each pair separately signs different text from the stock client."""
    query = "Partition=" + quote("a=1&b", safe="")
    lines = ("POST", "", "", DATE, f"/api/storage/v2?Partition={'a=1&b'}")
    value = authorization("\n".join(lines), credentials=PLAIN, now=NOW)
    headers = {"Date": DATE, "Authorization": value}
    assert check(headers, path=f"/api/storage/v2?{query}") == ACCESS_ID


def test_an_invalid_path_is_refused_with_a_typed_error() -> None:
    """urllib parses text after ``//[`` as an invalid IPv6 host."""
    with pytest.raises(AccessDeniedError):
        check(request_headers(), path="//[?a=1")
    with pytest.raises(ArgumentError):
        canonical_string("GET", "http://h//[", {"Date": DATE}, "http://h")


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        st.text(st.characters(exclude_categories=["Cs"])),
    ),
    st.sampled_from([2, 4]),
)
def test_signed_requests_have_valid_signatures(params: dict[str, str], version: int) -> None:
    """Evidence 160: the signed resource contains the decoded values of the query."""
    query = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in params.items())
    url = f"http://h/api/storage/v2?{query}"
    added = sign(
        "POST", url, {}, endpoint="http://h", credentials=HANGZHOU, now=NOW, version=version
    )
    assert check(added, path=f"/api/storage/v2?{query}") == ACCESS_ID


@given(st.text(), st.text(), st.dictionaries(st.text(), st.text()))
def test_the_verifier_returns_an_id_or_raises_an_access_error(
    path: str, value: str, headers: dict[str, str]
) -> None:
    given_headers = {**headers, "Date": DATE, "Authorization": f"ODPS {ACCESS_ID}:{value}"}
    with pytest.raises(AccessDeniedError):
        check(given_headers, path=path)


@given(st.text())
def test_any_authorization_header_raises_only_an_access_error(value: str) -> None:
    with pytest.raises(AccessDeniedError):
        check({"Date": DATE, "Authorization": value})


@given(st.binary(min_size=1, max_size=20))
def test_any_other_signature_is_refused(noise: bytes) -> None:
    headers = request_headers()
    forged = f"ODPS {ACCESS_ID}:{noise.hex()}"
    assume(forged != headers["Authorization"])
    with pytest.raises(AccessDeniedError) as caught:
        check(headers | {"Authorization": forged})
    assert caught.value.code == "SignatureNotMatch"


# -- version 4 --------------------------------------------------------------------------------


def test_two_regions_on_the_same_day_have_different_keys() -> None:
    """The stock client caches its key only by date, and signs with the first region's key."""
    first, second = (v for v in VECTORS if v.number.startswith("12-"))
    for vector in (first, second, first):
        assert signed(vector) == vector.added
    keys = {
        derive_key(SECRET, day, region)
        for day in ("20251120", "20251121")
        for region in ("cn-hangzhou", "cn-shanghai")
    }
    assert len(keys) == 4


def test_version_4_signs_with_the_current_utc_day_and_not_with_the_date_header() -> None:
    late = {"Date": DATE}
    added = sign(
        "GET",
        URL,
        late,
        endpoint="http://h",
        credentials=SHANGHAI,
        now=NOW + 2 * 3600,
        version=4,
    )
    assert "/20251121/cn-shanghai/" in added["Authorization"]
    assert "Date" not in added


def test_version_4_without_region_raises_a_config_error() -> None:
    with pytest.raises(ConfigError, match="region") as caught:
        request_headers(version=4)
    assert caught.value.option == "region"


def test_a_distant_day_of_version_4_is_reported_as_a_skewed_clock() -> None:
    vector = next(v for v in VECTORS if v.number == "10")
    stale = DATE.replace("20 Nov", "22 Nov").replace("Thu", "Sat")
    headers = vector.sent | {"Date": stale}
    canonical = canonical_string(vector.method, vector.url, headers, vector.endpoint)
    headers["Authorization"] = authorization(canonical, credentials=HANGZHOU, now=NOW, version=4)
    with pytest.raises(AccessDeniedError) as caught:
        check(headers, path=vector.path_and_query, now=NOW + 2 * 86400)
    assert caught.value.code == "RequestTimeTooSkewed"


@pytest.mark.parametrize(("now", "day"), [(NOW + 6954 - 1, "20251120"), (NOW + 6955, "20251121")])
def test_the_day_changes_at_midnight_utc(now: float, day: str) -> None:
    value = authorization("", credentials=HANGZHOU, now=now, version=4)
    assert f"/{day}/" in value


# -- credentials ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("credentials", "option"),
    [
        (Credentials(), "access_id"),
        (Credentials(access_key="k"), "access_id"),
        (Credentials(access_id="i"), "access_key"),
    ],
)
def test_the_error_for_incomplete_credentials_names_the_missing_parts(
    credentials: Credentials, option: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        request_headers(credentials)
    assert caught.value.option == option
    assert "ODPS_ACCESS_ID" in (caught.value.hint or "")


def test_an_access_key_has_precedence_over_a_bearer_token() -> None:
    both = Credentials(access_id=ACCESS_ID, access_key=SECRET, bearer_token="T")
    assert "x-odps-bearer-token" not in request_headers(both)


def test_no_secret_is_in_the_repr_and_none_is_pickled() -> None:
    secrets = Credentials(
        access_id="id",
        access_key="SECRET-1",
        sts_token="SECRET-2",
        bearer_token="SECRET-3",
        region="r",
        app_id="app",
        app_key="SECRET-4",
    )
    assert "SECRET" not in repr(secrets)
    assert "id" in repr(secrets)
    with pytest.raises(ConfigError, match="never pickled"):
        pickle.dumps(secrets)


@pytest.mark.parametrize("value", ["XY ", " XY", "XY\n", "X Y", "X\u200bY", "X\x00", "XÜ"])
@pytest.mark.parametrize(
    "name", ["access_id", "access_key", "sts_token", "bearer_token", "region", "app_id", "app_key"]
)
def test_pasted_white_space_is_reported_without_the_secret(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} contains characters") as caught:
        Credentials(**{name: value})
    assert caught.value.option == name
    assert value not in str(caught.value) + str(caught.value.hint)


@pytest.mark.parametrize("given_token", [None, "wrong", ""])
def test_a_temporary_key_needs_its_token(given_token: str | None) -> None:
    headers = request_headers()
    if given_token is not None:
        headers["authorization-sts-token"] = given_token
    with pytest.raises(AccessDeniedError) as caught:
        check(headers, sts_tokens=lambda _: "right")
    assert (caught.value.status, caught.value.code) == (401, "Unauthorized")


def test_a_token_that_was_not_issued_is_refused() -> None:
    with pytest.raises(AccessDeniedError):
        check(request_headers() | {"authorization-sts-token": ""})


def test_a_bearer_token_identifies_its_owner() -> None:
    owners = {"TOKEN": "someone"}
    headers = {"X-Odps-Bearer-Token": "TOKEN", "Date": DATE}
    assert check(headers, bearers=owners.get) == "someone"
    with pytest.raises(AccessDeniedError) as caught:
        check(headers | {"X-Odps-Bearer-Token": "OTHER"}, bearers=owners.get)
    assert (caught.value.status, caught.value.code) == (401, "Unauthorized")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "ODPS",
        "ODPS id",
        "ODPS id:",
        "ODPS :sig",
        "Basic id:sig",
        "odps id:sig",
        "ODPS id/20251120:sig",
        "ODPS id/20251120/r/odps/other_request:sig",
        "ODPS id/20251120/r/s3/aliyun_v4_request:sig",
        "ODPS unknown:c2ln",
    ],
)
def test_a_missing_malformed_or_unknown_identity_returns_401(value: str) -> None:
    with pytest.raises(AccessDeniedError) as caught:
        check({"Date": DATE, "Authorization": value})
    assert (caught.value.status, caught.value.code) == (401, "Unauthorized")


# -- the clock --------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [-900, -1, 0, 899, 900])
def test_clocks_may_differ_by_up_to_fifteen_minutes(shift: float) -> None:
    assert check(request_headers(), now=NOW + shift) == ACCESS_ID


@pytest.mark.parametrize("shift", [-86400, -901, 901, 10**9])
def test_the_error_for_a_larger_clock_difference_states_both_times(shift: float) -> None:
    with pytest.raises(AccessDeniedError) as caught:
        check(request_headers(), now=NOW + shift)
    assert (caught.value.status, caught.value.code) == (403, "RequestTimeTooSkewed")
    facts = dict(part.split(":", 1) for part in str(caught.value).split(","))
    assert facts["max_interval_date"] == "900000"
    assert facts["expire_date"] == "2025-11-20T22:19:05.000Z"
    assert facts["now_date"].startswith(
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(NOW + shift))
    )


@pytest.mark.parametrize("date", ["", "yesterday", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_signed_invalid_date_is_reported_as_a_skewed_clock(date: str) -> None:
    headers = {"Date": date}
    value = authorization(
        canonical_string("POST", URL, headers, "http://h"), credentials=PLAIN, now=NOW
    )
    with pytest.raises(AccessDeniedError) as caught:
        check(headers | {"Authorization": value})
    assert caught.value.code == "RequestTimeTooSkewed"


def test_a_wrong_key_is_reported_before_a_wrong_clock() -> None:
    headers = request_headers() | {"Authorization": f"ODPS {ACCESS_ID}:AAAA"}
    with pytest.raises(AccessDeniedError) as caught:
        check(headers, now=NOW + 10**6)
    assert caught.value.code == "SignatureNotMatch"


def test_a_date_is_formatted_without_the_locale() -> None:
    assert format_date(NOW) == DATE
    assert format_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT"


@given(st.integers(0, 253402300799))
def test_a_date_is_unchanged_by_a_round_trip(seconds: int) -> None:
    assert parse_date(format_date(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20 Nov 2025 22:04:05 GMT", NOW),
        (" Thu, 20 Nov 2025 22:04:05 +0000 ", NOW),
        ("Thu, 20 Nov 2025 22:04:05", NOW),
        ("Thu, 20 Nox 2025 22:04:05 GMT", None),
        ("Thu, 31 Nov 2025 22:04:05 GMT", None),
        ("Thu, 20 Nov 2025 22:04:05 +9999", None),
        ("", None),
    ],
)
def test_an_invalid_date_is_parsed_as_none(text: str, expected: float | None) -> None:
    assert parse_date(text) == expected
