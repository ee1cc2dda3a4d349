"""A rendered page cannot be clicked and loads nothing.

Each safe page has a control: the same markup shown without protection, for which the listener does
receive requests.
"""

import base64
import contextlib
import re
import socket
import threading

import pytest

from odps_nb.formats.kinds.markup import POLICY
from odps_nb.html import escape
from odps_nb.notebook.preview import tile as preview
from tests.support.browser import CHROMIUM, FLAGS
from tests.support.previews import Value
from tests.support.sockets.peers import own_address
from tests.support.svgs import HOSTILE

pytestmark = pytest.mark.browser


class Listener:
    """Counts all connections and responds to none."""

    def __init__(self):
        self.socket = socket.create_server((own_address(), 0))
        self.url = "http://{}:{}/".format(*self.socket.getsockname())
        self.heard = threading.Event()
        self.links = []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):  # the socket was closed
            while True:
                self.links.append(self.socket.accept()[0])
                self.heard.set()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for link in self.links:
            link.close()
        self.thread.join()


@pytest.fixture
def listen():
    """Return a function that starts a new listener."""
    with contextlib.ExitStack() as ends:

        def start_listener():
            server = Listener()
            ends.callback(server.close)
            return server

        yield start_listener


@pytest.fixture(scope="module")
def profile(playwright, tmp_path_factory):
    """A browser with a profile: without one, Chromium makes no early connections."""
    context = playwright.chromium.launch_persistent_context(
        str(tmp_path_factory.mktemp("profile")),
        executable_path=str(CHROMIUM),
        args=FLAGS,
        viewport={"width": 640, "height": 480},  # drawing time grows with the number of pixels
    )
    yield context
    context.close()


@pytest.fixture
def visit(profile):
    pages = []

    def show(markup):
        page = profile.new_page()
        pages.append(page)
        page.set_content(f"<!DOCTYPE html><body>{markup}</body>", wait_until="load")
        return page

    yield show
    for page in pages:
        page.close()


CLICK = "position:fixed;inset:0;display:block;background:#fee"
CALLS = {
    "preconnect": '<html><link rel="preconnect" href="URL">',
    "preconnect in the head": '<html><head><link rel=preconnect href="URL"></head><body>x',
    "preconnect across": '<html><link rel="preconnect" crossorigin href="URL">',
    "link": f'<html><a href="URL" style="{CLICK}">claim</a>',
    "area": '<html><img usemap="#m" width=900 height=400 src="data:image/gif;base64,'
    'R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7">'
    '<map name=m><area shape=default href="URL"></map>',
    "link in a drawing": '<html><svg width=900 height=400><a href="URL">'
    "<rect width=900 height=400 /></a></svg>",
    "link by base": f'<html><base href="URL"><a href="x" style="{CLICK}">claim</a>',
    "link that hides in a title": '<html><p title="</style><style>"><svg><style><a title=\''
    f"</style><a href=URL style={CLICK.replace(' ', '')}>'>x",
}
QUIET = {
    "dns-prefetch": '<html><link rel="dns-prefetch" href="URL">',
    "refresh": '<html><meta http-equiv="refresh" content="0; url=URL">',
    "form": '<html><form action="URL"><button style="position:fixed;inset:0">x</button></form>',
    "frame": '<html><iframe src="URL"></iframe><object data="URL"></object><embed src="URL">',
    "sources": '<html><img src="URL" srcset="URL 2x"><video src="URL" poster="URL"></video>'
    '<body background="URL"><audio src="URL"></audio><input type=image src="URL">',
    "style": "<html><style>@import 'URL'; body{background:url(URL)}"
    "@font-face{font-family:f;src:url(URL)} *{font-family:f}</style>"
    '<p style="background:url(URL);cursor:url(URL),auto">x',
    "prefetch": '<html><link rel=prefetch href="URL"><link rel=prerender href="URL">'
    '<link rel=modulepreload href="URL"><link rel=icon href="URL">',
}


def with_url(markup, listener):
    return markup.replace("URL", listener.url)


#: A click hits the element last drawn at its position, so wait until scrolling is drawn.
DRAWN = "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"


def use_frame(frame):
    """Hover, click and press keys inside a frame."""
    page = frame.page
    frame.evaluate("(one) => one.scrollIntoView({block: 'start'})")
    page.evaluate(DRAWN)
    box = frame.bounding_box()
    for x, y in ((20, 20), (120, 40), (box["width"] / 2, 100)):
        page.mouse.move(box["x"] + x, box["y"] + y)
        page.mouse.click(box["x"] + x, box["y"] + y)
        page.mouse.click(box["x"] + x, box["y"] + y, button="middle")
    for key in ("Tab", "Tab", "Enter", "Tab", "Enter"):
        page.keyboard.press(key)


@pytest.mark.nightly
def test_control_sandbox_and_policy_alone_do_not_prevent_connections(visit, listen):
    listeners = {name: listen() for name in CALLS if "hides" not in name}
    sources = [escape(POLICY + with_url(CALLS[name], to)) for name, to in listeners.items()]
    frame = '<iframe sandbox="" width=900 height=400 srcdoc="{}"></iframe>'
    page = visit("".join(frame.format(source) for source in sources))
    for number, to in enumerate(listeners.values()):
        for _ in range(10):  # clicks are lost while the process of the frame is starting
            use_frame(page.locator("iframe").nth(number))
            if to.heard.wait(3):
                break
    assert [name for name, to in listeners.items() if not to.heard.is_set()] == []


def test_a_drawn_page_makes_no_connection_on_any_interaction(visit, listen):
    texts = {**CALLS, **QUIET}
    listeners = {name: listen() for name in texts}
    values = [Value(with_url(text, listeners[name]).encode()) for name, text in texts.items()]
    page = visit("".join(preview.mimebundle(one, render=True)["text/html"] for one in values))
    assert page.locator("iframe").count() == len(texts)
    for number, (name, to) in enumerate(listeners.items()):
        use_frame(page.locator("iframe").nth(number))
        assert not to.heard.is_set(), name
    # when this request arrives, all earlier requests of the page have been sent
    for to in listeners.values():
        with contextlib.suppress(Exception):
            page.evaluate(f"fetch('{to.url}last', {{mode: 'no-cors'}}); 0")
    assert all(to.heard.wait(30) for to in listeners.values())
    assert {name: len(to.links) for name, to in listeners.items()} == dict.fromkeys(texts, 1)
    for to in listeners.values():
        assert to.links[0].recv(64).startswith(b"GET /last")


def test_a_drawn_page_keeps_its_appearance(visit):
    text = (
        "<!DOCTYPE html><html><head><title>no</title><style>h1{color:rgb(1,2,3)}</style></head>"
        '<body><h1 class=x>Report</h1><p style="color:rgb(4,5,6)">text <a href="x">link</a></p>'
        '<img alt=dot src="data:image/gif;base64,'
        'R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"></body></html>'
    )
    page = visit(preview.mimebundle(Value(text.encode()), render=True)["text/html"])
    frame = page.main_frame.child_frames[0]
    colour = "e => getComputedStyle(e).color"
    assert frame.locator("h1").evaluate(colour) == "rgb(1, 2, 3)"
    assert frame.locator("p").evaluate(colour) == "rgb(4, 5, 6)"
    assert frame.locator("p").inner_text() == "text link"
    assert frame.locator("img").evaluate("e => e.naturalWidth") == 1
    assert frame.locator("a").count() == 0


@pytest.mark.parametrize(
    "source",
    [
        "background:url(data:image/svg+xml;base64,SVG)",
        "background:\\75rl(data:image/svg+xml;base64,SVG)",
        'background:image-set("data:image/svg+xml;base64,SVG" 1x)',
    ],
)
def test_a_drawn_page_contains_no_svg_from_styles_or_markup(source):
    svg = base64.b64encode(HOSTILE["use"].encode()).decode()
    for markup in (
        f"<html><style>body{{{source}}}</style>",
        f"<html><p style='{source}'>x",
        "<html><img src='data:image/svg+xml;base64,SVG'>",
        "<html><img src='data:image/png;base64,SVG'>",
        "<html><svg><use href='#a'></svg><math><style><img src='data:image/svg+xml;base64,SVG'>",
    ):
        html = preview.mimebundle(Value(markup.replace("SVG", svg).encode()), render=True)[
            "text/html"
        ]
        (frame,) = re.findall('srcdoc="([^"]*)"', html)
        assert svg[:40] not in frame, markup[:30]
