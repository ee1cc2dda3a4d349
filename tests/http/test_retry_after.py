"""A time in a server's header becomes a number of seconds, by the server's own clock if known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from odps_nb.http.retry import seconds_until_retry
from odps_nb.wire.http_date import format_date

TOLD = {"date": "Sun, 06 Nov 1994 08:49:00 GMT"}


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ],
)
def test_all_three_date_formats_of_http_are_parsed(text):
    assert seconds_until_retry({"retry-after": text, **TOLD}, now=0.0) == 37.0


@pytest.mark.parametrize(
    "text", ["", "3", "-1", "٣", "soon", "Sun, 06 Nov 1994 25:49:37 GMT", "9" * 100_000]
)
def test_an_invalid_date_requests_no_wait(text):
    assert seconds_until_retry({"retry-after": text, **TOLD}, now=0.0) is None


def test_without_a_valid_date_header_the_wait_uses_the_clock_of_the_client():
    headers = {"retry-after": format_date(1000.0), "date": "yesterday"}
    assert seconds_until_retry(headers, now=990.0) == 10.0


@given(until=st.integers(0, 10**10), told=st.integers(0, 10**10))
def test_a_wait_is_the_difference_of_both_times_and_never_negative(until, told):
    headers = CaseInsensitiveDict({"Retry-After": format_date(until), "Date": format_date(told)})
    assert seconds_until_retry(headers, now=math.nan) == max(0.0, until - told)


@given(text=st.text(max_size=80), told=st.text(max_size=80))
def test_any_text_gives_a_number_of_seconds_or_is_ignored(text, told):
    found = seconds_until_retry({"retry-after": text, "date": told}, now=1.0)
    assert found is None or found >= 0.0
