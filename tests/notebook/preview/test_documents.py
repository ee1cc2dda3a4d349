"""Previews show documents and messages, also damaged and malicious files."""

import io
import zipfile
from email.message import EmailMessage

import pytest

from fuzz.document_files import compound
from fuzz.office_files import docx, eml, epub, odf, packed, pptx
from odps_nb.formats.parsers import document, xml_text
from odps_nb.formats.registry import media_type, sniff
from odps_nb.formats.shared import GRID, SINGLE
from odps_nb.notebook.preview.tile import tile
from tests.support.previews import NASTY, Seen, Value

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
ENTITIES = '<!DOCTYPE d [<!ENTITY a "haha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;">]>'
EXTERNAL = '<!DOCTYPE d SYSTEM "file:///etc/passwd" [<!ENTITY x SYSTEM "file:///etc/passwd">]>'


def drawn(data, **options):
    made = tile(Value(data), **options)
    return made, Seen(made.html)


def only_note(data):
    """Return the only note of a tile, which is shown in place of the document."""
    made, page = drawn(data)
    (note,) = made.notes
    assert page.text.count(note) == 1
    assert "0x" not in note
    return note


# -- identification -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "label"),
    [
        (docx(), "Word"),
        (docx(main="word/document2.xml"), "Word"),
        (docx().replace(b"word/document.xml", rb"word\document.xml"), "Word"),
        (pptx(), "PowerPoint"),
        (odf("text-template", ""), "OpenDocument text"),
        (odf("graphics", ""), "OpenDocument drawing"),
        (odf("spreadsheet", ""), "OpenDocument sheet"),
        (epub(), "EPUB"),
        (epub().replace(b"mimetype", b"mimetypo"), "ZIP"),
        (packed({"xl/workbook.xml": "", "word/document.xml": ""}), "Excel"),
        (packed({"ppt/presentation.xml": "", "xl/workbook.xml": ""}), "PowerPoint"),
        (packed({"word/list.txt": "tea"}), "ZIP"),
        (packed({"a.txt": "x", "not/xl/workbook.xml": "x"}), "ZIP"),
        (packed({"META-INF/container.xml": "<a/>", "score.xml": "<a/>"}), "ZIP"),
        (packed({"META-INF/container.xml": "<a/>", "mimetype": "application/epub+zip"}), "EPUB"),
        (packed({"mimetype": "application/epub+zipper"}), "ZIP"),
    ],
)
def test_the_first_files_in_a_zip_identify_a_document(data, label):
    assert sniff(data, len(data)).label == label


@pytest.mark.parametrize(
    ("stream", "label"),
    [
        ("WordDocument", "Word 97"),
        ("PowerPoint Document", "PowerPoint 97"),
        ("__properties_version1.0", "Outlook message"),
        ("EncryptedPackage", "Office with a password"),
        ("Contents", "compound file"),
        ("Workbook", "Excel 97"),
    ],
)
def test_documents_of_old_programs_are_identified(stream, label):
    data = compound(stream, bytes(100))
    assert sniff(data, len(data)).label == label


def test_a_document_with_its_correct_media_type_has_no_badge():
    data = docx()
    assert media_type(data, len(data), "a.docx") == WORD
    assert media_type(data, len(data), "a") == WORD
    assert "declared" not in Seen(tile(Value(data, WORD, "a.docx")).html).text
    assert "uploaded as image/png" in Seen(tile(Value(data, "image/png")).html).text


def test_the_tile_of_a_document_without_text_says_so():
    about = {"docProps/core.xml": "", "docProps/app.xml": "<a"}
    made, page = drawn(docx(body="", more=about))
    assert (made.words.split(" · ")[:1], made.notes) == (["Word"], ())
    assert page.text.startswith("no text")


def test_invalid_counts_of_pages_or_words_are_omitted():
    stated = "<a><Pages>-3</Pages><Paragraphs>x</Paragraphs><Words>0</Words></a>"
    made, _ = drawn(docx(more={"docProps/app.xml": stated}))
    assert "page" not in made.text
    made, _ = drawn(docx(more={"docProps/app.xml": f"<a><Pages>{'9' * 5000}</Pages></a>"}))
    assert "page" not in made.text


def test_text_boxes_are_shown_once_and_deleted_text_is_not():
    body = (
        "<w:p><w:t>before</w:t><AlternateContent><Choice><w:p><w:t>box</w:t></w:p></Choice>"
        "<Fallback><w:p><w:t>box</w:t></w:p></Fallback></AlternateContent></w:p>"
        "<w:p><w:instrText>HYPERLINK</w:instrText><w:t>link</w:t></w:p>"
    )
    _, page = drawn(docx(body=body), size=SINGLE)
    assert "before\nbox\nlink" in page.text


def test_notes_and_comments_are_not_shown():
    data = odf(
        "presentation",
        "<draw:page><text:p>seen<office:annotation><text:p>comment</text:p></office:annotation>"
        "</text:p><draw:notes><text:p>note</text:p></draw:notes></draw:page>",
    )
    _, page = drawn(data, size=SINGLE)
    assert page.text.startswith("Ledgerseen")
    assert "comment" not in page.text
    assert "note" not in page.text


def test_the_beginning_of_a_long_document_is_shown():
    filler = "<text:p>tea</text:p>" * (document.MAX_UNPACKED // 19)
    made, page = drawn(odf("text", filler))
    assert "tea\ntea" in page.text
    assert made.notes == ()


def test_only_the_displayed_part_of_a_long_document_is_read():
    body = "".join(f"<w:p><w:t>line {at}</w:t></w:p>" for at in range(xml_text.LINES + 5))
    # the text after the last displayed line is not valid
    _, page = drawn(docx(body=body + "<w:p>" * 5000), size=SINGLE)
    assert "line 59" in page.text
    assert "0000  " not in page.text


def test_markup_in_a_document_is_shown_as_text():
    nasty = NASTY.replace("&", "&amp;").replace("<", "&lt;")
    for data in (
        docx(
            body=f"<w:p><w:t>{nasty}</w:t></w:p>",
            more={"docProps/core.xml": f"<title>{nasty}</title>"},
        ),
        odf("text", f"<text:p>{nasty}</text:p>"),
    ):
        _, page = drawn(data)
        assert {"script", "img"}.isdisjoint(page.tags)
        assert "<script>alert(2)</script>" in page.text


# -- damaged and malicious documents ------------------------------------------------------------


@pytest.mark.parametrize("prolog", [ENTITIES, EXTERNAL])
@pytest.mark.parametrize("made", [docx, lambda prolog: odf("text", "&c;", prolog=prolog)])
def test_a_document_with_an_internal_doctype_is_refused(made, prolog):
    assert "internal DTD" in only_note(made(prolog=prolog))


def test_an_external_doctype_is_not_loaded():
    prolog = '<!DOCTYPE d SYSTEM "file:///etc/passwd">'
    _, page = drawn(docx(prolog=prolog, body="<w:p><w:t>a&x;b</w:t></w:p>"))
    assert "a b" in page.text


@pytest.mark.parametrize("depth", [2_000, 500_000])
def test_deeply_nested_xml_is_refused(depth):
    assert "nested more than 1,000 levels" in only_note(docx(body="<w:p>" * depth))
    assert "nested more than 1,000 levels" in only_note(odf("text", "<text:p>" * depth))


def test_a_document_that_expands_too_much_is_refused():
    data = docx(body=" " * document.MAX_UNPACKED)
    assert len(data) < 200_000
    assert "its decompressed size is above 16 MiB" in only_note(data)
    spread = {f"ppt/slides/s{at}.xml": "<a>" + " " * (3 << 20) + "</a>" for at in range(6)}
    links = "".join(
        f'<Relationship Id="i{at}" Type="t/slide" Target="slides/s{at}.xml"/>' for at in range(6)
    )
    data = packed(
        {
            "ppt/presentation.xml": "<p>"
            + "".join(f'<sldId id="i{at}"/>' for at in range(6))
            + "</p>",
            "ppt/_rels/presentation.xml.rels": f"<a>{links}</a>",
            **spread,
        }
    )
    assert "its decompressed size is above 16 MiB" in only_note(data)


def test_a_slide_that_is_listed_a_million_times_is_opened_only_a_few_times():
    slides = '<sldId id="a"/>' * 200_000
    data = packed(
        {
            "ppt/presentation.xml": f"<p>{slides}</p>",
            "ppt/_rels/presentation.xml.rels": '<a><Relationship Id="a" Target="s.xml"/></a>',
            "ppt/s.xml": "<a><p><t>tea</t></p></a>",
        }
    )
    made, page = drawn(data)
    assert "tea" in page.text
    assert "PowerPoint" in made.text


def test_parts_outside_of_the_file_are_not_opened():
    data = docx(
        more={
            "_rels/.rels": '<a><Relationship Id="a" Type="x/officeDocument" '
            'Target="../../../../etc/passwd"/></a>'
        }
    )
    assert only_note(data) == "its main part is missing"
    data = epub().replace(b"OPS/book.opf", b"/etc/pass.wd")
    assert sniff(data, len(data)).label == "EPUB"


def test_password_protection_is_reported():
    manifest = "<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>"
    assert "password" in only_note(odf("text", "", manifest=manifest))
    data = bytearray(docx())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = archive.getinfo("word/document.xml")
    data[info.header_offset + 6] |= 1
    at = data.rindex(b"word/document.xml") - 46
    data[at + 8] |= 1
    assert "password" in only_note(bytes(data))


@pytest.mark.parametrize("made", [docx(), pptx(), odf("text", "<text:p>a</text:p>"), epub()])
def test_a_truncated_document_is_reported_as_truncated(made):
    assert only_note(made[: len(made) * 2 // 3]).startswith("truncated or damaged")


# -- messages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        eml(),
        eml().replace(b"\n", b"\r\n"),
        b"From ann@example.org Tue Nov 24 10:00:00 2026\n" + eml(),
        b"From: a@b\nTo: c@d\nSubject: hi\nContent-Type: text/plain\n\nbody\n",
        b"Return-Path: <a@b>\nReceived: by x;\n\tTue\nSubject: hi\n\nbody\n",
        "From: a@b\nDate: Tue\nSubject: 发票\n\n发票\n".encode("gb18030"),
    ],
)
def test_a_mail_header_identifies_a_message(data):
    assert sniff(data, len(data)).kind == "message"


@pytest.mark.parametrize(
    "data",
    [
        b"From: here\nTo: there\n\nnotes of a journey\n",
        b"Subject: tea\nDate: today\n\nno sender\n",
        b"From: a\nDate: b\nSubject: c\nand then a sentence\n",
        b"name: x\nversion: 2\n",
        b"HTTP/1.1 200 OK\nDate: now\nFrom: x\n\n",
    ],
)
def test_text_that_resembles_a_mail_header_is_not_a_message(data):
    assert sniff(data, len(data)).kind in ("text", "code")


def test_html_in_a_message_is_shown_as_text():
    message = EmailMessage()
    message["From"], message["Date"] = "a@b", "Tue, 24 Nov 2026 10:00:00 +0100"
    message.set_content("<style>p{}</style><p>Hi <b>Ann</b></p><p>bye</p>", subtype="html")
    made, page = drawn(message.as_bytes())
    assert "Hi Ann\nbye" in page.text
    assert "p{}" not in page.text
    assert "0 attachments" in made.text


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_a_message_with_undeclared_bytes_is_shown_in_its_detected_encoding(encoding):
    head = "From: 张三 <a@b>\nSubject: 床前明月光\nDate: Tue, 24 Nov 2026 10:00:00 +0100\n"
    text = f"{head}\n疑是地上霜\n"
    _, page = drawn(text.encode(encoding))
    for shown in ("张三 <a@b>", "床前明月光", "疑是地上霜"):
        assert shown in page.text


def test_the_first_part_of_a_large_message_is_shown():
    message = EmailMessage()
    message["From"], message["Date"] = "a@b", "Tue, 24 Nov 2026 10:00:00 +0100"
    message.set_content("first lines")
    message.add_attachment(bytes(9 << 20), maintype="a", subtype="b", filename="big.bin")
    made, page = drawn(message.as_bytes())
    assert "first lines" in page.text
    assert "attach" not in page.text
    assert "first 65.5 kB" in made.notes[0]


@pytest.mark.parametrize("charset", ["hex", "nothing", "idna", "unicode_escape", "utf-7", "\udcff"])
def test_a_message_with_an_unknown_charset_has_a_tile(charset):
    head = b"From: =?%b?q?=ff?= <a@b>\nDate: x\nContent-Type: text/plain; charset=%b\n\n"
    name = charset.encode("utf-8", "surrogateescape")
    body = rb"tea \ud800 +2AA- a\x00b"
    made, page = drawn(head % (name, name) + body)
    assert "From:" in page.text or "not decoded here" in page.text
    made.html.encode()


def test_deeply_nested_parts_are_refused():
    parts = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (at, at) for at in range(3000)
    )
    assert "nested too deep" in only_note(b"From: a@b\nDate: x\nMIME-Version: 1.0\n" + parts)


def test_many_attachments_are_counted_and_the_first_are_listed():
    part = b'--b\nContent-Type: a/b; name="%s"\n\nxyz\n' % NASTY.replace('"', "").encode()
    head = b'From: a@b\nDate: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n'
    made, page = drawn(head + part * 900 + b"--b--\n", size=GRID)
    assert "900 attachments" in made.text
    assert {"script", "img"}.isdisjoint(page.tags)
