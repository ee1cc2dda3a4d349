"""Reading JSON from a peer: defaults for missing members, an odps_nb error for wrong types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.errors import FramingError, InvalidRequestError
from odps_nb.wire.json_fields import (
    MAX_INTEGER,
    Fields,
    dump,
    in_answer,
    in_request,
    parse_object,
)
from tests.support.wire.schemas import json_values, outcome

GETTERS = {
    "text": "",
    "optional_text": None,
    "loose_text": None,
    "simple": None,
    "integer": 0,
    "optional_integer": None,
    "loose_integer": None,
    "texts": (),
    "integers": (),
    "inners": [],
    "mapping": None,
}


def fields(**members: Any) -> Fields:
    return parse_object(json.dumps(members).encode(), "document")


@pytest.mark.parametrize(("getter", "default"), GETTERS.items())
@pytest.mark.parametrize("members", [{}, {"a": None}])
def test_absent_and_null_give_the_default(
    getter: str, default: object, members: dict[str, None]
) -> None:
    assert getattr(fields(**members), getter)("a") == default
    assert list(fields(**members).inner("a")) == []
    assert fields(**members).boolean("a", default=True) is True
    assert "a" not in fields(**members)


@given(json_values)
def test_any_value_is_returned_or_refused(value: Any) -> None:
    document = fields(a=value)
    for getter in (*GETTERS, "inner", "need_text"):
        found = outcome(getattr(document, getter), "a")
        if isinstance(found, FramingError):
            assert str(found).startswith("document: a")
    assert isinstance(outcome(lambda: document.boolean("a", default=False)), (bool, FramingError))


@pytest.mark.parametrize(
    ("getter", "value", "expected"),
    [
        ("text", "x", "x"),
        ("optional_text", "", None),
        ("loose_text", 7, "7"),
        ("loose_text", "7", "7"),
        ("simple", True, "true"),
        ("simple", False, "false"),
        ("simple", 1.5, "1.5"),
        ("simple", "x", "x"),
        ("simple", [1], None),
        ("integer", -3, -3),
        ("integer", MAX_INTEGER, MAX_INTEGER),
        ("loose_integer", "-3", -3),
        ("texts", ["a", "b"], ("a", "b")),
        ("integers", [1, 2], (1, 2)),
        ("mapping", {"x": [1]}, {"x": [1]}),
    ],
)
def test_a_member_is_converted_to_the_requested_type(
    getter: str, value: object, expected: object
) -> None:
    assert getattr(fields(a=value), getter)("a") == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(True, True), ("TRUE", True), ("false", False), (False, False)]
)
def test_a_boolean_may_be_sent_as_text(value: object, expected: bool) -> None:
    assert fields(a=value).boolean("a", default=not expected) is expected


@pytest.mark.parametrize(
    ("getter", "value", "problem"),
    [
        ("text", 1, "is a number, but text"),
        ("text", ["x"], "is a list, but text"),
        ("text", {}, "is an object, but text"),
        ("text", "\ud800", "is not valid Unicode"),
        ("need_text", "", "is missing"),
        ("loose_text", True, "is true or false, but text"),
        ("integer", "3", "is text, but an integer"),
        ("integer", 1.0, "is a number, but an integer"),
        ("integer", True, "is true or false, but an integer"),
        ("integer", 2**63, "does not fit into 64 bits"),
        ("loose_text", 2**63, "does not fit into 64 bits"),
        ("loose_integer", "3.5", "is not an integer"),
        ("loose_integer", "9" * 19, "does not fit into 64 bits"),
        ("texts", "x", "is text, but a list"),
        ("texts", ["x", None], "is null, but text"),
        ("integers", [None], "is null, but an integer"),
        ("inner", [], "is a list, but an object"),
        ("inners", [1], "is a number, but an object"),
        ("mapping", [], "is a list, but an object"),
    ],
)
def test_a_member_of_a_wrong_type_raises_an_error(getter: str, value: object, problem: str) -> None:
    with pytest.raises(FramingError, match=f"^document: a.* {problem}"):
        getattr(fields(a=value), getter)("a")


def test_a_boolean_of_a_wrong_type_raises_an_error() -> None:
    with pytest.raises(FramingError, match="but true or false is expected"):
        fields(a="yes").boolean("a", default=False)


def test_errors_in_nested_objects_name_their_path() -> None:
    with pytest.raises(FramingError, match=r"document\.a\[1\]: b is missing"):
        fields(a=[{}, {}]).inners("a")[1].need_text("b")
    with pytest.raises(FramingError, match=r"document\.a\.b: c is"):
        fields(a={"b": {"c": 1}}).inner("a").inner("b").text("c")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"[]", "is a list, but a JSON object"),
        (b"null", "is null, but a JSON object"),
        (b"3", "is a number, but a JSON object"),
        (b"{", "is not JSON"),
        (b'{"a": NaN}', "NaN is not a JSON value"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON value"),
        (b'{"a": "\xff"}', "is not JSON"),
        (b'{"a": ' + b"1" * 5000 + b"}", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"a":' * 100_000, "is not JSON"),
        (b"<html>", "is not JSON"),
    ],
)
def test_a_document_that_is_not_an_object_is_refused(body: bytes, problem: str) -> None:
    with pytest.raises(FramingError, match=problem) as caught:
        parse_object(body, "document")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("body", [b"", b" \n", b"{}"])
def test_an_empty_body_is_an_empty_object(body: bytes) -> None:
    assert list(parse_object(body, "document")) == []


def test_the_size_of_a_document_is_limited() -> None:
    with pytest.raises(FramingError, match="9 bytes of JSON; the limit is 8"):
        parse_object(b'{"a": 11}', "document", max_bytes=8)
    assert parse_object(b'{"a": 1}', "document", max_bytes=8).integer("a") == 1


def test_an_invalid_request_raises_an_error_with_a_status_and_code() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_object(b"[]", "body", in_request)
    assert (caught.value.status, caught.value.code) == (400, "InvalidArgument")
    assert isinstance(in_answer("x"), FramingError)


@given(st.binary(max_size=60))
def test_any_bytes_give_an_object_or_an_odps_nb_error(body: bytes) -> None:
    assert isinstance(outcome(parse_object, body, "document"), (Fields, FramingError))


@settings(max_examples=50)
@given(st.dictionaries(st.text(), json_values))
def test_written_values_are_returned_unchanged(members: dict[str, Any]) -> None:
    found = parse_object(dump(members), "document")
    assert set(found) == set(members)


def test_json_has_the_format_of_the_stock_client() -> None:
    assert dump({"a": [1, True, None], "b": "é"}) == b'{"a": [1, true, null], "b": "\\u00e9"}'


def test_the_repr_of_a_document_shows_no_content() -> None:
    assert repr(fields(a="x" * 1000)) == "<Fields of document: 1 members>"
