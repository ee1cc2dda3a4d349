"""Our signatures compared with those of the stock client, for random requests."""

from __future__ import annotations

from datetime import date
from urllib.parse import quote, urlencode

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from odps.accounts import AppAccount, CloudAccount

from odps_nb.wire.http_date import format_date
from odps_nb.wire.signing import Credentials, canonical_string, derive_key, sign, verify

pytestmark = pytest.mark.compat

NOW = 1763676245.0
CREDENTIALS = Credentials(access_id="id", access_key="key", app_id="app", app_key="appkey")

# Text that a URL or header can contain: no surrogates, and no control characters, which requests
# rejects.
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
tokens = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
queries = st.lists(st.tuples(st.text("abzAZ-_x09", min_size=1), words))
header_sets = st.dictionaries(
    st.sampled_from(["Content-Type", "Content-MD5", "x-odps-a", "X-ODPS-B", "Accept", "host"]),
    tokens,
)


def prepared(
    method: str, endpoint: str, path: str, query: list[tuple[str, str]], headers: dict[str, str]
) -> requests.PreparedRequest:
    request = requests.Request(method, endpoint + path, params=query, headers=headers).prepare()
    request.headers["Date"] = format_date(NOW)
    return request


@given(
    st.sampled_from(["GET", "POST", "PUT"]),
    st.sampled_from(["http://h", "http://h/api", "http://127.0.0.1:8080/api"]),
    st.lists(words.filter(lambda w: w.strip(".")), max_size=3),
    queries,
    header_sets,
)
def test_both_libraries_sign_a_request_identically(
    method: str,
    endpoint: str,
    segments: list[str],
    query: list[tuple[str, str]],
    headers: dict[str, str],
) -> None:
    path = "/api/storage/v2" + "".join("/" + quote(segment, safe="") for segment in segments)
    request = prepared(method, endpoint, path, query, headers)
    url, before = request.url, dict(request.headers)
    assert url is not None

    ours = sign(method, url, before, endpoint=endpoint, credentials=CREDENTIALS, now=NOW)
    CloudAccount("id", "key").sign_request(request, endpoint)
    AppAccount("app", "appkey").sign_request(request, endpoint)

    assert ours["Authorization"] == request.headers["Authorization"]
    assert ours["application-authentication"] == request.headers["application-authentication"]


@given(queries, words)
def test_the_embedded_service_accepts_signatures_of_the_stock_client(
    query: list[tuple[str, str]], value: str
) -> None:
    request = prepared("POST", "http://h", "/api/storage/v2", [*query, ("Partition", value)], {})
    CloudAccount("id", "key").sign_request(request, "http://h")
    assert request.url is not None
    found = verify(
        "POST",
        request.url.removeprefix("http://h"),
        dict(request.headers),
        keys={"id": "key"}.get,
        now=NOW,
    )
    assert found == "id"


@given(words, st.dates(), words)
def test_both_libraries_derive_the_same_key_for_a_day_and_region(
    secret: str, day: date, region: str
) -> None:
    text = f"{day:%Y%m%d}"
    theirs = CloudAccount("id", secret)._get_v4_signature_key(text, region)
    assert derive_key(secret, text, region) == theirs


def test_path_parameters_are_not_signed_as_in_the_stock_client() -> None:
    """urllib removes ``;x`` from the last path segment, so the stock client does not sign it."""
    request = prepared("GET", "http://h", "/api/tables/t;x", [("a", "1")], {})
    CloudAccount("id", "key").sign_request(request, "http://h")
    assert request.url is not None
    assert request.url.endswith("/t;x?a=1")
    text = canonical_string("GET", request.url, {"Date": format_date(NOW)}, "http://h")
    assert text.endswith("\n/api/tables/t?a=1")
    ours = sign("GET", request.url, {}, endpoint="http://h", credentials=CREDENTIALS, now=NOW)
    assert ours["Authorization"] == request.headers["Authorization"]


def test_urls_are_encoded_as_the_stock_client_encodes_them() -> None:
    from odps_nb.wire.calls import WireRequest

    params = (("a", "x y+z%/?&=,'~*()!"), ("b", ""), ("c", "杭州"))
    theirs = prepared("GET", "http://h", "/p/t", list(params), {}).url
    assert WireRequest(method="GET", path="/p/t", params=params).url("http://h") == theirs
    assert theirs == "http://h/p/t?" + urlencode(params)
