"""A web page is recognised by its beginning, and described by its title."""

from __future__ import annotations

import gzip

import pytest

from odps_nb.wire.calls import encode_error_json, encode_error_xml
from odps_nb.wire.calls.errors import describe_page, find_page, is_web_page


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"<HTML lang=en>",
        b"<!DOCTYPE html>",
        b"\xef\xbb\xbf  \r\n<!doctype  HTML PUBLIC>",
        b"<!-- one --> <!-- two --><html/>",
        b"<?xml version='1.0'?>\n<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN'><html/>",
        b"<head><title>x</title></head>",
        b"<meta http-equiv='refresh' content='0;url=http://login.example/'>",
        b"<script>location = 'http://login.example/'</script>",
        b"<body>blocked</body>",
    ],
)
def test_a_page_is_recognised(body: bytes) -> None:
    assert is_web_page(body)
    for form in (body, gzip.compress(body)):
        error = find_page(form, "the service at h", "r")
        assert error is not None
        assert error.message.startswith("the service at h responded with a web page")
        assert (error.lasts, error.request_id) == (True, "r")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<htmlx>",
        b"<scripts>",
        b"<?xml version='1.0'?><html/>",
        b"text <html>",
        b"<Instance><html/></Instance>",
        encode_error_json("C", "<html>", "r"),
        encode_error_xml("C", "m", "r"),
    ],
)
def test_other_bodies_are_not_recognised_as_web_pages(body: bytes) -> None:
    assert not is_web_page(body)
    assert find_page(body, "the server") is None


@pytest.mark.parametrize(
    ("body", "text", "told"),
    [
        (b"<html><TITLE id=x>502\n &lt;bad&gt;</TITLE>", "", 'a web page titled "502 <bad>"'),
        (b"<title>\x1b[2J\xe2\x80\xae</title>", "", 'a web page titled "\\x1b[2J\\u202e"'),
        (b"<title>" + b"y" * 500 + b"</title>", "", f'a web page titled "{"y" * 119}…"'),
        ("<meta charset=gbk><title>请登录</title>".encode("gbk"), "", 'a web page titled "请登录"'),
        (
            '<meta content="text/html; charset = Big5" ><title>登入</title>'.encode("big5"),
            "",
            'a web page titled "登入"',
        ),
        ('<meta charset="utf-16"><title>é</title>'.encode(), "", 'a web page titled "é"'),
        (b"<meta charset=gb0><title>abc</title>", "", 'a web page titled "abc"'),
        (b"<meta charset=punycode><title>abc</title>", "", 'a web page titled "abc"'),
        (b"<title> </title>", "Bad Gateway", "a web page: Bad Gateway"),
        (b"<html>", "x" * 500, f"a web page: {'x' * 119}…"),
        (b"<html>", "", "a web page"),
    ],
)
def test_a_page_is_described_by_its_title(body: bytes, text: str, told: str) -> None:
    assert describe_page(body, text) == told
