"""Generate documents: PDF, SVG, HTML, XML and text."""

from __future__ import annotations

import math


def pdf() -> bytes:
    """PDF 1.4: an invoice of one page, written by hand with a valid cross-reference table."""
    lines = [
        "Invoice 2024-0108",
        "",
        "3 x teapot, blue            74.97",
        "1 x kettle, copper          58.00",
    ]
    lines += ["                          --------", "to pay, EUR               132.97"]
    text = "BT /F1 14 Tf 60 760 Td 22 TL " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
    frame = "0.15 0.39 0.92 RG 3 w 48 640 400 150 re S"
    content = f"{frame}\n{text}".encode("ascii")
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier >>",
        b"<< /Title (Invoice 2024-0108) /Producer (odps_nb samples) >>",
    )
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info 6 0 R >>\n" % (len(objects) + 1)
    out += b"startxref\n%d\n%%%%EOF\n" % start
    return bytes(out)


def rose() -> bytes:
    """SVG: curves of a rose window."""
    paths = []
    for petals, colour in ((3, "#f97316"), (5, "#2563eb"), (7, "#16a34a")):
        points = []
        for step in range(0, 721):
            turn = math.pi * step / 360
            radius = 92 * math.cos(petals * turn)
            points.append(
                f"{100 + radius * math.cos(turn):.2f},{100 + radius * math.sin(turn):.2f}"
            )
        paths.append(
            f'<polyline points="{" ".join(points)}" fill="{colour}" fill-opacity=".18" '
            f'stroke="{colour}" stroke-width="1.6"/>'
        )
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 200" width="400" height="400">'
    return f"{head}{''.join(paths)}</svg>\n".encode()


#: An SVG that tries to run code when it is shown as a document.
HOSTILE_SVG = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 240 160" width="480" height="320" '
    b"onload=\"window.odpsNbProbe='svg onload';fetch('/beacon/svg-onload')\">\n"
    b"<script>window.odpsNbProbe='svg script';fetch('/beacon/svg-script')</script>\n"
    b'<rect width="240" height="160" rx="14" fill="#7f1d1d"/>\n'
    b'<circle cx="120" cy="66" r="34" fill="none" stroke="#fecaca" stroke-width="7"/>\n'
    b'<path d="M96 90 L144 42" stroke="#fecaca" stroke-width="7"/>\n'
    b'<text x="120" y="132" font-family="sans-serif" font-size="15" fill="#fecaca" '
    b'text-anchor="middle">there is a script inside</text>\n'
    b'<image href="/beacon/svg-image" width="1" height="1"/>\n'
    b"</svg>\n"
)

#: A malicious HTML page with scripts, event handlers, redirects and beacons.
HOSTILE_HTML = (
    b"<!DOCTYPE html>\n<html><head><title>You have won</title>\n"
    b'<meta http-equiv="refresh" content="0; url=/beacon/refresh">\n'
    b'<link rel="stylesheet" href="/beacon/style">\n'
    b"<script>window.odpsNbProbe='html script';\n"
    b"try{parent.odpsNbProbe='html parent'}catch(e){}\nfetch('/beacon/script')</script></head>\n"
    b"<body onload=\"fetch('/beacon/onload')\">\n<h1>You have won!</h1>\n"
    b'<img src="/beacon/image" onerror="parent.odpsNbProbe=\'html onerror\'">\n'
    b'<form action="/beacon/form"><button>Claim</button></form>\n'
    b'<iframe src="/beacon/frame"></iframe>\n</body></html>\n'
)


def report() -> bytes:
    """HTML: a harmless page with a style sheet."""
    rows = "".join(
        f"<tr><td>{shop}</td><td>{count:,}</td><td>{share:.0%}</td></tr>"
        for shop, count, share in (
            ("Hangzhou", 412_008, 0.31),
            ("Berlin", 301_377, 0.23),
            ("São Paulo", 255_020, 0.19),
        )
    )
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<title>Weekly report</title>\n"
        "<style>body{font:15px system-ui;margin:1.5em}td,th{padding:.3em 1em;text-align:left;"
        "border-bottom:1px solid #cbd5e1}h1{color:#1d4ed8}</style></head>\n"
        "<body><h1>Weekly report</h1>\n<p>Orders by shop, first week of 2024.</p>\n"
        f"<table><tr><th>shop</th><th>orders</th><th>share</th></tr>{rows}</table>\n</body></html>\n"
    ).encode()


def feed() -> bytes:
    """XML: a news feed."""
    items = "".join(
        f"  <item><title>{title}</title><pubDate>2024-01-0{day}</pubDate></item>\n"
        for day, title in ((1, "Shop opens"), (5, "A new teapot &amp; kettle"), (8, "销售记录"))
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0"><channel>\n'
        f"{items}</channel></rss>\n"
    ).encode()


#: (file name, text) in several scripts: greetings, and verses in the public domain.
POEMS = (
    ("静夜思.txt", "静夜思　李白\n\n床前明月光，\n疑是地上霜。\n举头望明月，\n低头思故乡。\n"),
    ("مرحبا.txt", "مرحبًا بالعالم\n\nالخيل والليل والبيداء تعرفني\nوالسيف والرمح والقرطاس والقلم\n"),
    ("नमस्ते.txt", "नमस्ते दुनिया\n\nधीरे-धीरे रे मना, धीरे सब कुछ होय।\nमाली सींचे सौ घड़ा, ऋतु आए फल होय॥\n"),
    ("emoji.txt", "🌍🌎🌏 hello 👋🏽\n👩‍🔬 + 🧪 = 💡\n🏳️‍🌈 🇳🇿 ❤️‍🔥 ✅\n"),
)
