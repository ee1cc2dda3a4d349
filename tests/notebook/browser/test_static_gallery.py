"""In a real browser, no script in a blob runs, and no blob causes a request.

As a control, each malicious sample is first displayed without protection, where its traps do work.
So if nothing happens in a gallery, the gallery is safe, and the traps are not broken.
"""

import http.server
import threading

import pytest

from fuzz import document_files, media_files
from odps_nb.html import escape
from odps_nb.notebook.gallery import page as gallery
from odps_nb.notebook.preview import tile as preview
from tests.support import previews
from tests.support.samples import sample_file

pytestmark = pytest.mark.browser

NASTY = (
    '"><img src=/beacon/value onerror="odpsNbProbe=\'value\'">'
    "<script>odpsNbProbe='value';fetch('/beacon/value-script')</script>"
)


class Column(previews.Column):
    title = f"media.{NASTY}"

    def caption(self, index):
        return f"row {index} · {NASTY}"


@pytest.fixture(scope="module")
def samples(sample_blobs):
    blobs = [
        previews.Value(b.data, b.mime_type, b.file_name) for b in sample_blobs if b is not None
    ]
    return Column([*blobs, previews.Value(NASTY.encode(), NASTY, NASTY)])


class Site(http.server.ThreadingHTTPServer):
    """Serves one page and records all other requests."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.page, self.mime, self.asked = b"", "text/html; charset=utf-8", []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/":
            body, mime = self.server.page, self.server.mime
        else:
            self.server.asked.append(self.path)
            body, mime = b"", "text/plain"
        self.send_response(200)
        self.send_header("Content-Type", mime)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def site():
    server = Site()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def visit(context, site):
    """Display markup as a page; return the page, its requests, and the scripts that ran."""

    def show(markup, mime="text/html; charset=utf-8"):
        site.mime, site.asked = mime, []
        site.page = markup.encode() if isinstance(markup, str) else markup
        page = context.new_page()
        dialogs, left = [], []
        page.on("dialog", lambda d: (dialogs.append(d.message), d.dismiss()))
        page.on("requestfinished", lambda r: left.append(r.url))
        # requests that the policy of the frame blocks are also reported, with the reason "csp"
        page.on("requestfailed", lambda r: left.append(r.url) if r.failure != "csp" else None)
        page.goto(site.url, wait_until="load")
        page.wait_for_load_state("networkidle")
        page.dialogs, page.left, page.asked = dialogs, left, site.asked
        return page

    return show


@pytest.fixture(scope="module")
def drawn(visit, samples):
    """The gallery of all samples with rendered pages."""
    return visit(document(gallery.mimebundle(samples, render=True)["text/html"]))


def document(body):
    return f"<!DOCTYPE html><meta charset=utf-8><link rel=icon href=data:,><body>{body}</body>"


def probe(page):
    return page.evaluate("() => window.odpsNbProbe ?? null")


# -- control: unprotected samples send requests ---------------------------------------------------


def test_control_scripts_and_requests_of_a_malicious_page_work_without_protection(visit):
    # without the redirect, which would leave the page before the test can inspect it
    body = sample_file("you_have_won.html").replace(b'http-equiv="refresh"', b"")
    page = visit(body)
    assert probe(page) in ("html script", "html parent", "html onerror")
    assert {"/beacon/script", "/beacon/image", "/beacon/style"} <= set(page.asked)


def test_control_scripts_of_a_malicious_page_run_in_a_frame_without_sandbox(visit):
    source = escape(sample_file("you_have_won.html").replace(b'http-equiv="refresh"', b"").decode())
    page = visit(document(f'<iframe srcdoc="{source}"></iframe>'))
    assert probe(page) in ("html parent", "html onerror")
    assert "/beacon/script" in page.asked


def test_control_scripts_of_a_malicious_svg_run_if_it_is_a_document(visit):
    page = visit(sample_file("script_inside.svg"), "image/svg+xml")
    assert probe(page) in ("svg script", "svg onload")
    assert "/beacon/svg-script" in page.asked


def test_control_scripts_of_an_unescaped_value_run(visit):
    page = visit(document(NASTY))
    assert probe(page) == "value"
    assert "/beacon/value" in page.asked


# -- the gallery sends no request ---------------------------------------------------------------


def assert_quiet(page, site):
    assert probe(page) is None
    assert page.dialogs == []
    assert page.asked == []
    assert [url for url in page.left if not url.startswith("data:")] == [site.url]


def test_a_gallery_runs_no_script_and_sends_no_request(drawn, site, samples):
    assert drawn.locator("figure").count() == len(samples)
    assert_quiet(drawn, site)


@pytest.mark.nightly
def test_a_list_runs_no_script_and_sends_no_request(visit, site, samples):
    html = gallery.mimebundle(samples, view="list", render=True)["text/html"]
    page = visit(document(html))
    assert page.locator("figure").count() == len(samples)
    assert_quiet(page, site)
    page.close()


def test_no_script_runs_when_a_malicious_blob_is_displayed_alone(visit, site, samples):
    names = ("you_have_won.html", "not_a_picture.png", "script_inside.svg")
    blobs = [b for b in samples if b is not None and b.file_name in names]
    bundles = [preview.mimebundle(b, render=way) for b in blobs for way in (False, True)]
    page = visit(document("".join(bundle["text/html"] for bundle in bundles)))
    assert page.locator("figure").count() == 6
    assert_quiet(page, site)
    page.close()


def test_a_drawn_page_is_in_a_frame_without_permissions(drawn):
    frames = drawn.locator("iframe")
    assert frames.count() == 3
    for number in range(frames.count()):
        assert frames.nth(number).get_attribute("sandbox") == ""
        assert frames.nth(number).get_attribute("src") is None
    texts = [frame.locator("h1").inner_text() for frame in drawn.main_frame.child_frames]
    assert sorted(texts) == ["Weekly report", "You have won!", "You have won!"]


def test_a_drawn_page_has_no_form_and_no_link(drawn, site):
    frames = [
        frame
        for frame in drawn.main_frame.child_frames
        if frame.locator("h1").inner_text() == "You have won!"
    ]
    assert len(frames) == 2
    for frame in frames:
        assert frame.locator("button, form, a, link, meta[http-equiv=refresh], iframe").count() == 0
    assert drawn.asked == []
    assert drawn.url == site.url


def test_pictures_and_players_are_displayed_and_loaded(drawn):
    page = drawn
    broken = page.evaluate(
        "() => [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.alt)"
    )
    assert broken == []
    assert page.locator("img").count() >= 17
    page.wait_for_function(
        "() => [...document.querySelectorAll('audio')].every(a => a.readyState >= 1 && !a.error)"
    )


@pytest.mark.nightly
def test_videos_sounds_and_documents_load_without_requests(visit, site):
    files = {**document_files.files(), **media_files.files()}
    url = f"{site.url}beacon/paper"
    link = b"<< /S /URI /URI (" + url.encode() + b") >>"
    files["opens.pdf"] = document_files.pdf(catalog=b"/OpenAction 5 0 R", more=(link,))
    files["page.md"] = f"# A\n\n![x]({url})\n\n<img src={url}><script src={url}>".encode()
    shown = Column(previews.Value(data, "", NASTY) for data in files.values())
    page = visit(document(gallery.mimebundle(shown)["text/html"]))
    assert page.locator("figure").count() == len(files)
    page.wait_for_function(
        "() => [...document.querySelectorAll('audio, video')].every(a => a.readyState >= 1)"
        " && [...document.images].every(i => i.complete && i.naturalWidth)"
    )
    assert page.locator("video[poster^='data:image/']").count() == 2
    sounds = [name for name in files if name.startswith(("song.", "call."))]
    assert page.locator("img[alt^='loudness of']").count() == len(sounds)
    assert page.locator("img[alt*='page']").count() == 2
    assert_quiet(page, site)
    page.close()


@pytest.mark.nightly
def test_the_keyboard_reaches_every_tile_in_order(drawn):
    page = drawn
    labels = page.evaluate(
        "() => [...document.querySelectorAll('figure')].map(f => f.getAttribute('aria-label'))"
    )
    reached = []
    for _ in range(400):
        page.keyboard.press("Tab")
        label = page.evaluate(
            "() => document.activeElement.tagName === 'FIGURE'"
            " ? document.activeElement.getAttribute('aria-label') : null"
        )
        if label is not None:
            reached.append(label)
        if len(reached) == len(labels):
            break
    assert reached == labels


@pytest.mark.parametrize(("paper", "ink"), [("#ffffff", "#212121"), ("#111111", "#e0e0e0")])
def test_text_has_enough_contrast_on_light_and_dark_pages(drawn, paper, ink):
    drawn.evaluate(
        "([paper, ink]) => Object.assign(document.body.style, {background: paper, color: ink})",
        [paper, ink],
    )
    colours = drawn.evaluate(
        "() => [...new Set([...document.querySelectorAll('figcaption, figcaption *, pre, td, th')]"
        ".map(e => getComputedStyle(e).color))]"
    )
    # text has the colour of the page in every theme
    red, green, blue = bytes.fromhex(ink[1:])
    assert colours == [f"rgb({red}, {green}, {blue})"]
