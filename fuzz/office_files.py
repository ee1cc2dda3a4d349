"""Generates small documents and messages."""

from __future__ import annotations

import contextlib
import io
import sqlite3
import zipfile
from email.message import EmailMessage

__all__ = ["docx", "eml", "epub", "files", "odf", "packed", "pptx", "sqlite"]

_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
_NAMES = "urn:oasis:names:tc:opendocument:xmlns"
_DC = "http://purl.org/dc/elements/1.1/"


def files() -> dict[str, bytes]:
    """Return the files by name."""
    return {
        "letter.docx": docx(),
        "talk.pptx": pptx(),
        "letter.odt": odf("text", "<text:h>Dear <text:s/>reader</text:h><text:p>bye</text:p>"),
        "talk.odp": odf(
            "presentation",
            "<draw:page><text:p>First &lt;b&gt;</text:p></draw:page><draw:page/>",
        ),
        "story.epub": epub(),
        "note.eml": eml(),
        "shop.sqlite": sqlite(
            'CREATE TABLE "or<b>ders" (id INTEGER PRIMARY KEY, tea TEXT)',
            "INSERT INTO \"or<b>ders\" (tea) VALUES ('green'), ('black')",
            "CREATE TABLE empty (x)",
        ),
    }


def packed(parts: dict[str, str | bytes]) -> bytes:
    """Return a ZIP file of the parts; ``mimetype`` is not compressed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            way = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text, compress_type=way)
    return out.getvalue()


def _links(*links: tuple[str, str]) -> str:
    listed = "".join(
        f'<Relationship Id="rId{number}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(links, 1)
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{listed}</Relationships>'


def _about(title: str, author: str) -> str:
    return (
        f'<cp:coreProperties xmlns:cp="{_PACKAGE}/metadata/core-properties" xmlns:dc="{_DC}">'
        f"<dc:title>{title}</dc:title><dc:creator>{author}</dc:creator></cp:coreProperties>"
    )


def docx(
    *,
    prolog: str = "",
    body: str = "<w:p><w:r><w:t>Dear &lt;b&gt;</w:t><w:tab/><w:t>Ann</w:t></w:r></w:p>"
    "<w:p><w:r><w:delText>gone</w:delText><w:t>best wishes</w:t></w:r></w:p>",
    main: str = "word/document.xml",
    more: dict[str, str | bytes] | None = None,
) -> bytes:
    """Return a Word document; ``more`` contains parts to add or replace."""
    return packed(
        {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"/>',
            "_rels/.rels": _links(
                ("officeDocument", main),
                ("core-properties", "docProps/core.xml"),
                ("extended-properties", "docProps/app.xml"),
            ),
            main: f'{prolog}<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>',
            "docProps/core.xml": _about("A &lt;i&gt;letter", "Bob"),
            "docProps/app.xml": "<Properties><Pages>3</Pages><Words>1200</Words></Properties>",
            **(more or {}),
        }
    )


def pptx() -> bytes:
    """Return a presentation with two slides, in which the second file is the first slide."""
    slide = (
        f'<p:sld xmlns:p="{_SLIDES}" xmlns:a="{_DRAWING}"><a:p><a:r><a:t>{{}}</a:t></a:r></a:p>'
        "</p:sld>"
    )
    return packed(
        {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"/>',
            "_rels/.rels": _links(("officeDocument", "/ppt/presentation.xml")),
            "ppt/presentation.xml": f'<p:presentation xmlns:p="{_SLIDES}" xmlns:r="{_OFFICE}">'
            '<p:sldIdLst><p:sldId r:id="rId2" id="256"/><p:sldId id="257" r:id="rId1"/>'
            "</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": _links(
                ("slide", "slides/slide1.xml"), ("slide", "slides/slide2.xml")
            ),
            "ppt/slides/slide1.xml": slide.format("comes second"),
            "ppt/slides/slide2.xml": slide.format("comes &lt;b&gt; first"),
        }
    )


def odf(kind: str, body: str, *, manifest: str = "", prolog: str = "") -> bytes:
    """Return an OpenDocument file; ``manifest`` is additional content of its file list."""
    names = " ".join(f'xmlns:{name}="{_NAMES}:{name}:1.0"' for name in ("office", "text", "draw"))
    return packed(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "META-INF/manifest.xml": f'<manifest:manifest xmlns:manifest="{_NAMES}:manifest:1.0">'
            f"{manifest}</manifest:manifest>",
            "meta.xml": f'<office:document-meta xmlns:office="{_NAMES}:office:1.0" '
            f'xmlns:meta="{_NAMES}:meta:1.0" xmlns:dc="{_DC}"><dc:title>Ledger</dc:title>'
            '<meta:document-statistic meta:page-count="2" meta:paragraph-count="14"/>'
            "</office:document-meta>",
            "content.xml": f"{prolog}<office:document-content {names}><office:body>"
            f"<office:{kind}>{body}</office:{kind}></office:body></office:document-content>",
        }
    )


def epub() -> bytes:
    """Return an EPUB book with two sections."""
    page = (
        '<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://x/y.dtd">'
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><style>p {{}}</style></head>'
        "<body><h1>{}</h1><p>It&nbsp;was <b>dark</b>.</p></body></html>"
    )
    return packed(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OPS/book.opf"/>'
            "</rootfiles></container>",
            "OPS/book.opf": f'<package xmlns:dc="{_DC}"><metadata><dc:title>Night</dc:title>'
            "<dc:creator>Ann &lt;b&gt;</dc:creator></metadata><manifest>"
            '<item id="a" href="part%201.xhtml"/><item id="b" href="two.xhtml"/></manifest>'
            '<spine><itemref idref="a"/><itemref idref="b"/></spine></package>',
            "OPS/part 1.xhtml": page.format("One"),
            "OPS/two.xhtml": page.format("Two"),
        }
    )


def eml() -> bytes:
    """Return a mail message with plain text, HTML and an attachment."""
    message = EmailMessage()
    message["From"] = "Jörg <joerg@example.org>"
    message["To"] = "ann@example.org"
    message["Date"] = "Tue, 24 Nov 2026 10:00:00 +0100"
    message["Subject"] = "Rechnung für <b>März</b>"
    message.set_content("Guten Tag,\n\nim Anhang: ü.\n", charset="iso-8859-1")
    message.add_alternative("<p>Guten <b>Tag</b></p>", subtype="html")
    message.add_attachment(
        bytes(1500), maintype="application", subtype="pdf", filename="Rechnung März.pdf"
    )
    message.set_boundary("outer")
    message.get_payload(0).set_boundary("inner")
    return message.as_bytes()


def sqlite(*statements: str) -> bytes:
    """Return a SQLite database after running the statements."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
        return database.serialize()
