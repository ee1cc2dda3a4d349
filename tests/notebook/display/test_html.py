"""HTML is built by functions that escape every text."""

import html

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odps_nb.errors import visible
from odps_nb.html import Html, data_url, element, escape, join, scroller
from tests.support.previews import Seen

VISIBLE = st.text(max_size=60).map(visible)


@given(VISIBLE)
@example("<script>alert(1)</script>")
@example('"><img src=x onerror=alert(1)>')
@example("&lt;already&gt; &amp; &#60;")
def test_escaped_text_contains_no_markup(value):
    seen = Seen(f"<p>{escape(value)}</p>")
    assert seen.tags == ["p"]
    assert seen.text == value


@given(VISIBLE)
@example("' onclick='alert(1)")
@example('" onclick="alert(1)')
def test_an_attribute_value_cannot_leave_its_attribute(value):
    seen = Seen(element("div", attributes={"title": value}))
    assert seen.tags == ["div"]
    assert seen.attributes == [("div", "title", value)]


@given(VISIBLE)
def test_children_are_escaped_unless_they_are_markup(value):
    seen = Seen(element("div", value, element("b", value), Html("<i></i>")))
    assert seen.tags == ["div", "b", "i"]
    assert seen.text == value * 2


def test_text_made_from_markup_is_escaped_again_rather_than_trusted():
    glued = escape("<b>") + "<script>"
    assert not isinstance(glued, Html)
    assert "<script>" not in element("p", glued)


@pytest.mark.parametrize("value", ["a\x00b", "a\x1b[31mb", "a\u202egpj.exe", "a\ud800b", "a\x85b"])
def test_characters_that_hide_or_reorder_are_escaped(value):
    shown = html.unescape(escape(value))
    assert shown.isprintable()
    assert "\\x" in shown or "\\u" in shown
    shown.encode("utf-8")
    assert shown.startswith("a")


def test_right_to_left_text_and_line_breaks_are_unchanged():
    text = "مرحبا\u200f بالعالم\n\tשלום"
    assert escape(text) == text


@pytest.mark.parametrize("value", [None, 3, 2.5, b"<b>", ["<b>"], ValueError("<b>")])
def test_any_text_can_be_escaped(value):
    assert "<b>" not in escape(value)
    assert isinstance(escape(value), Html)


TAGS = ["script", "style", "object", "embed", "form", "link", "base", "a", "svg"]
ATTRIBUTES = ["onclick", "onerror", "href", "formaction", "ping", "class", "id"]
SOURCES = ["http://example.org/a.png", "//example.org/", "javascript:1", "x"]
SANDBOXES = [None, "allow-scripts", "allow-same-origin", " "]


@pytest.mark.parametrize(
    ("tag", "attributes", "reason"),
    [
        *((tag, {}, "not allowed") for tag in TAGS),
        *(("img", {name: "x"}, "must not have") for name in ATTRIBUTES),
        *(("img", {"src": source}, "data:") for source in SOURCES),
        *(("iframe", {"srcdoc": "x", "sandbox": sandbox}, "sandbox") for sandbox in SANDBOXES),
    ],
)
def test_elements_that_are_not_allowed_or_send_requests_cannot_be_built(tag, attributes, reason):
    with pytest.raises(ValueError, match=reason):
        element(tag, attributes=attributes)


def test_a_scrolling_box_can_be_focused_by_keyboard():
    seen = Seen(scroller("pre", "<b>", label="text"))
    assert seen.values("tabindex") == ["0"]
    assert seen.text == "<b>"


def test_join_escapes_text_that_is_not_markup():
    assert join(["<", Html("<br>"), 3], " ") == "&lt; <br> 3"


def test_a_data_url_carries_the_bytes():
    assert data_url("image/png", b"\x00\xff") == "data:image/png;base64,AP8="
