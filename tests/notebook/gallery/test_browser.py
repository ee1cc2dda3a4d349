"""The safety rules in a real browser: no script of a blob runs, no request leaves.

Each hostile sample is first shown the careless way, as a control: there its traps do spring. So a
quiet gallery means that it is safe, not that the traps are blunt.
"""

import http.server
import io
import threading

import pytest
from playwright.sync_api import sync_playwright

from odps_nb.local.samples import media, papers
from odps_nb.notebook.display.html import escape
from odps_nb.notebook.gallery import view as gallery
from odps_nb.notebook.preview import bundle as preview
from tests.support.browser import CHROMIUM, FLAGS

pytestmark = pytest.mark.browser

NASTY = (
    '"><img src=/beacon/value onerror="odpsNbProbe=\'value\'">'
    "<script>odpsNbProbe='value';fetch('/beacon/value-script')</script>"
)


class File(io.BytesIO):
    """An opened blob."""

    verified = True


class Value:
    def __init__(self, data, mime_type="", file_name=""):
        self.data, self.mime_type, self.file_name = data, mime_type, file_name
        self.size = len(data)

    def open(self):
        return File(self.data)

    def save(self, path):
        raise AssertionError("nothing is saved here")


class Column(list):
    title = f"media.{NASTY}"

    def caption(self, index):
        return f"row {index} · {NASTY}"


@pytest.fixture(scope="module")
def samples():
    blobs = [b and Value(b.data, b.mime_type, b.file_name) for b in media.blobs()]
    return Column([*blobs, Value(NASTY.encode(), NASTY, NASTY)])


@pytest.fixture(scope="module")
def browser():
    assert CHROMIUM.exists(), "browser tests need Debian's chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()


class Site(http.server.ThreadingHTTPServer):
    """Serves one page and remembers what else was asked for."""

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


@pytest.fixture
def site():
    server = Site()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def visit(browser, site):
    """Show markup as a page; tell the page, what it asked for and what ran."""
    context = browser.new_context()

    def show(markup, mime="text/html; charset=utf-8"):
        site.mime = mime
        site.page = markup.encode() if isinstance(markup, str) else markup
        page = context.new_page()
        dialogs, left = [], []
        page.on("dialog", lambda d: (dialogs.append(d.message), d.dismiss()))
        page.on("requestfinished", lambda r: left.append(r.url))
        # what the frame's policy stops is announced as well, with the reason "csp"
        page.on("requestfailed", lambda r: left.append(r.url) if r.failure != "csp" else None)
        page.goto(site.url, wait_until="load")
        page.wait_for_load_state("networkidle")
        page.dialogs, page.left = dialogs, left
        return page

    yield show
    context.close()


def document(body):
    return f"<!DOCTYPE html><meta charset=utf-8><link rel=icon href=data:,><body>{body}</body>"


def probe(page):
    return page.evaluate("() => window.odpsNbProbe ?? null")


# -- the traps are sharp ------------------------------------------------------------------------


def test_control_the_hostile_page_acts_when_it_is_shown_without_care(visit, site):
    # without the redirect, which would leave the page before it can be asked
    body = papers.HOSTILE_HTML.replace(b'http-equiv="refresh"', b"")
    page = visit(body)
    assert probe(page) in ("html script", "html parent", "html onerror")
    assert {"/beacon/script", "/beacon/image", "/beacon/style"} <= set(site.asked)


def test_control_the_hostile_page_acts_in_a_frame_without_a_sandbox(visit, site):
    source = escape(papers.HOSTILE_HTML.replace(b'http-equiv="refresh"', b"").decode())
    page = visit(document(f'<iframe srcdoc="{source}"></iframe>'))
    assert probe(page) in ("html parent", "html onerror")
    assert "/beacon/script" in site.asked


def test_control_the_hostile_svg_acts_when_it_is_shown_as_a_document(visit, site):
    page = visit(papers.HOSTILE_SVG, "image/svg+xml")
    assert probe(page) in ("svg script", "svg onload")
    assert "/beacon/svg-script" in site.asked


def test_control_a_value_acts_when_it_is_not_escaped(visit, site):
    page = visit(document(NASTY))
    assert probe(page) == "value"
    assert "/beacon/value" in site.asked


# -- and the gallery is quiet -------------------------------------------------------------------


@pytest.mark.parametrize("view", ["grid", "list"])
@pytest.mark.parametrize("render", [False, True])
def test_no_script_runs_and_no_request_leaves_a_gallery(visit, site, samples, view, render):
    html = gallery.mimebundle(samples, view=view, render=render)["text/html"]
    page = visit(document(html))
    assert page.locator("figure").count() == len(samples)
    assert probe(page) is None
    assert page.dialogs == []
    assert site.asked == []
    assert [url for url in page.left if not url.startswith("data:")] == [site.url]


@pytest.mark.parametrize("name", ["you_have_won.html", "not_a_picture.png", "script_inside.svg"])
@pytest.mark.parametrize("render", [False, True])
def test_no_hostile_blob_acts_when_it_is_shown_alone(visit, site, samples, name, render):
    blob = next(b for b in samples if b is not None and b.file_name == name)
    page = visit(document(preview.mimebundle(blob, render=render)["text/html"]))
    assert probe(page) is None
    assert page.dialogs == []
    assert site.asked == []


def test_a_drawn_page_is_drawn_and_its_frame_may_do_nothing(visit, site, samples):
    html = gallery.mimebundle(samples, render=True)["text/html"]
    page = visit(document(html))
    frames = page.locator("iframe")
    assert frames.count() == 3
    for number in range(frames.count()):
        assert frames.nth(number).get_attribute("sandbox") == ""
        assert frames.nth(number).get_attribute("src") is None
    drawn = page.main_frame.child_frames
    texts = [frame.locator("h1").inner_text() for frame in drawn]
    assert sorted(texts) == ["Weekly report", "You have won!", "You have won!"]


def test_a_drawn_page_has_no_form_and_no_link(visit, site, samples):
    blob = next(b for b in samples if b is not None and b.file_name == "you_have_won.html")
    page = visit(document(preview.mimebundle(blob, render=True)["text/html"]))
    frame = page.main_frame.child_frames[0]
    assert frame.locator("h1").inner_text() == "You have won!"
    assert frame.locator("button, form, a, link, meta[http-equiv=refresh], iframe").count() == 0
    assert site.asked == []
    assert page.url == site.url


def test_pictures_and_players_do_show_and_load(visit, samples):
    page = visit(document(gallery.mimebundle(samples)["text/html"]))
    broken = page.evaluate(
        "() => [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.alt)"
    )
    assert broken == []
    assert page.locator("img").count() >= 17
    page.wait_for_function(
        "() => [...document.querySelectorAll('audio')].every(a => a.readyState >= 1 && !a.error)"
    )


def test_the_keyboard_reaches_every_tile_in_order(visit, samples):
    page = visit(document(gallery.mimebundle(samples)["text/html"]))
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
def test_text_has_contrast_on_light_and_dark_paper(visit, samples, paper, ink):
    html = gallery.mimebundle(samples)["text/html"]
    page = visit(document(f'<div style="background:{paper};color:{ink}">{html}</div>'))
    colours = page.evaluate(
        "() => [...new Set([...document.querySelectorAll('figcaption, figcaption *, pre, td, th')]"
        ".map(e => getComputedStyle(e).color))]"
    )
    # text takes the colour of the page, whatever the theme
    assert len(colours) == 1
