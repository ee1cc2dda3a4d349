"""XML from a peer is parsed safely, and any parser can read ours."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import FramingError, LimitExceededError
from odps_nb.wire.xml_text import (
    DECLARATION,
    MAX_XML_DEPTH,
    Element,
    child_text,
    element,
    parse_xml,
)
from tests.support.wire.schemas import outcome

LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>
<Error><Code>&b;</Code></Error>"""
OUTSIDE = (
    b"""<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><Error><Code>&f;</Code></Error>"""
)


@pytest.mark.parametrize("body", [LAUGHS, OUTSIDE, b"<!DOCTYPE html><html></html>"])
def test_a_document_with_a_doctype_is_refused(body: bytes) -> None:
    with pytest.raises(FramingError, match="a DOCTYPE is not allowed"):
        parse_xml(body, "document")


def test_text_that_only_mentions_a_doctype_is_accepted() -> None:
    root = parse_xml(b"<a><![CDATA[<!DOCTYPE x><!ENTITY y>]]></a>", "document")
    assert root.text == "<!DOCTYPE x><!ENTITY y>"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<a>",
        b"<a></b>",
        b"plain",
        b"<a>&unknown;</a>",
        b"<a>\xff</a>",
        b"<?xml version='1.0' encoding='no-such'?><a/>",
        b"<?xml version='1.0' encoding='utf-7'?><a/>",
        b"<a/><b/>",
        b"<a>" * (MAX_XML_DEPTH + 1) + b"</a>" * (MAX_XML_DEPTH + 1),
        b"<a>" * 100_000,
    ],
)
def test_invalid_xml_raises_an_odps_nb_error(body: bytes) -> None:
    with pytest.raises(FramingError, match="document is not valid XML"):
        parse_xml(body, "document")


def test_a_document_of_the_maximum_depth_is_parsed() -> None:
    body = b"<a>" * MAX_XML_DEPTH + b"</a>" * MAX_XML_DEPTH
    assert len(list(parse_xml(body, "document").iter())) == MAX_XML_DEPTH


def test_the_size_of_a_document_is_limited() -> None:
    with pytest.raises(LimitExceededError) as caught:
        parse_xml(b"<abcd/>", "document", max_bytes=6)
    assert (caught.value.limit, caught.value.actual) == (6, 7)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_document_or_an_odps_nb_error(body: bytes) -> None:
    assert isinstance(outcome(parse_xml, body, "document"), (Element, FramingError))


@given(st.text(st.sampled_from("<>/!&;[]ab ='\"?-"), max_size=40))
def test_any_markup_gives_a_document_or_an_odps_nb_error(text: str) -> None:
    assert isinstance(outcome(parse_xml, text.encode(), "document"), (Element, FramingError))


# All text that XML 1.0 can contain: no control characters except white space, no surrogates.
printable = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"),
        st.sampled_from("\r\n\t\x7f\x85 "),
    )
)


@given(printable, printable)
def test_text_and_attributes_are_unchanged_by_a_round_trip(text: str, value: str) -> None:
    body = DECLARATION + element("A", (element("B", text, Name=value),))
    for root in (parse_xml(body.encode(), "document"), ElementTree.fromstring(body.encode())):
        inner = root.find("B")
        assert inner is not None
        assert ((inner.text or ""), inner.get("Name")) == (text, value)


@given(st.text(), st.text())
def test_written_xml_is_always_well_formed(text: str, value: str) -> None:
    assert parse_xml(element("A", text, Name=value).encode(), "document").tag == "A"


def test_characters_that_xml_cannot_represent_are_replaced() -> None:
    assert element("A", "\x00\ud800\x1bx") == "<A>\ufffd\ufffd\ufffdx</A>"


def test_the_text_of_a_missing_child_is_empty() -> None:
    root = parse_xml(b"<a><b> x </b><c/></a>", "document")
    assert (child_text(root, "b"), child_text(root, "c"), child_text(root, "d")) == ("x", "", "")
