"""Live views in Chromium, in pages with the structure and the colours of several hosts.

The view, its service and its browser side are real; this module passes their messages on, as the
kernel's comm does. The imitations of hosts contain what our browser side can see of a host: where
the static page and the live view are, and which colours are set.
"""

from __future__ import annotations

import base64
import html
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_JUPYTERLAB = """:root { --jp-layout-color0: %s; --jp-ui-font-color1: %s; --jp-ui-font-color2: %s; }
body { background: var(--jp-layout-color0); color: var(--jp-ui-font-color1); }"""
_LIGHT = _JUPYTERLAB % ("#ffffff", "rgba(0, 0, 0, 0.87)", "rgba(0, 0, 0, 0.54)")
_DARK = _JUPYTERLAB % ("#111111", "rgba(255, 255, 255, 1)", "rgba(255, 255, 255, 0.7)")
_COLAB = """:root { color-scheme: dark; --colab-primary-surface-color: #383838;
  --colab-primary-text-color: #e3e3e3; %s }
body { background: var(--colab-primary-surface-color); color: var(--colab-primary-text-color); }"""
_CODE = """:root { --vscode-editor-background: %s; --vscode-editor-foreground: %s; %s }
body { background: var(--vscode-editor-background); color: var(--vscode-editor-foreground); }"""
# JupyterLab, Notebook 7, Voila and nbconvert: an area of outputs, each with its prompt
_AREA = """<div class="jp-OutputArea">
<div class="jp-OutputArea-child host-static">
<div class="jp-OutputPrompt" style="height: 20px"></div>
<div class="jp-OutputArea-output">{}</div></div>
<div class="jp-OutputArea-child"><div class="jp-OutputArea-output host-live"></div></div></div>"""
# VS Code and myst-nb: a container for each output; VS Code sets the padding while it has a height
_CONTAINERS = """<div class="output_container host-static"><div class="output">{}</div></div>
<div class="output_container"><div class="output host-live"></div></div>"""
# marimo: the view has a shadow root; in Panel, each output has one
_VIEW = """<div data-shadow><div class="host-live"></div></div>"""
_SHADOW = """<div class="host-static">{}</div>""" + _VIEW
_SHADOWS = """<div data-shadow><div class="host-static">{}</div></div>""" + _VIEW
# each output in a separate frame, of the origin of the page or of another origin
_FRAMES, _FOREIGN = "frames", "frames of other origins"


@dataclass(frozen=True)
class Host:
    """One imitation: a style sheet, the body with ``{}`` for the static page."""

    style: str
    body: str = _AREA
    prefers: str = "light"


HOSTS = {
    "JupyterLab light": Host(_LIGHT),
    "JupyterLab dark": Host(_DARK),
    "Colab dark": Host(_COLAB % "--jp-ui-font-color1: #ffffff;", _CONTAINERS),
    "Colab dark, light background": Host(_COLAB % "--jp-layout-color0: white;", _FRAMES),
    "VS Code dark": Host(
        _CODE % ("#1f1f1f", "#cccccc", "--jp-layout-color0: #ffffff;"), _CONTAINERS
    ),
    "VS Code light": Host(_CODE % ("#ffffff", "#3b3b3b", ""), _CONTAINERS, prefers="dark"),
    "dark page": Host(":root { color-scheme: light dark; }", _SHADOW, prefers="dark"),
    "light page": Host("", _CONTAINERS, prefers="dark"),
    "no preference": Host("", _AREA),
    "dark page without a scheme": Host("body { background: #14181e; color: #ced6dd; }", _SHADOWS),
}

ELSEWHERE = Host(_LIGHT, _FOREIGN)
"""Each output has an origin of its own, as in Colab, so the view cannot reach its static page."""

_RENDER = """async ([script, css, texts]) => {
  const roots = [document];
  for (const one of document.querySelectorAll("[data-shadow]")) {
    const html = one.innerHTML;
    one.innerHTML = "";
    roots.push(one.attachShadow({mode: "open"}));
    roots.at(-1).innerHTML = html;
  }
  const el = roots.map((root) => root.querySelector(".host-live")).find(Boolean);
  el.before(Object.assign(document.createElement("style"), {textContent: css}));
  const signal = () => {
    const all = new Set();
    return {connect: (one) => all.add(one), disconnect: (one) => all.delete(one),
            emit: (value) => all.forEach((one) => one(null, value))};
  };
  const kernel = window.kernel = {status: "idle", statusChanged: signal(), disposed: signal()};
  window.sent = [];
  const model = {
    get: (name) => texts[name] ?? "", on: (_, tell) => (window.tell = tell), off: () => {},
    send: (message) => window.sent.push(message), widget_manager: {kernel},
  };
  const module = await import("data:text/javascript;base64," + script);
  window.leave = module.default.render({model, el});
}"""
_TELL = """([message, buffers]) => window.tell(message, buffers.map((text) =>
    new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer)))"""


class Mounted:
    """A widget and its static page in a page that looks like a host."""

    def __init__(self, page: Any, host: Host, widget: Any, static: str) -> None:
        self.page, self._widget = page, widget
        self._servers: list[ThreadingHTTPServer] = []
        page.emulate_media(color_scheme=host.prefers)
        head = f"<!DOCTYPE html><style>{host.style}</style>"
        if host.body == _FRAMES:
            outputs = (f"<div class=host-static>{static}</div>", "<div class=host-live></div>")
            page.set_content(head + "".join(_frame(head + one) for one in outputs))
            self.static, self.frame = page.frames[1:3]
        elif host.body == _FOREIGN:
            outputs = (f"<div class=host-static>{static}</div>", "<div class=host-live></div>")
            self._servers = [_served(head + one) for one in outputs]
            self._servers.append(_served(head + "".join(map(_frame_of, self._servers))))
            page.goto(_address(self._servers[-1]))
            found = {one.url: one for one in page.frames}
            self.static, self.frame = (found[_address(one)] for one in self._servers[:2])
        else:
            page.set_content(f"{head}<body>{host.body.replace('{}', static)}")
            self.static = self.frame = page.main_frame
        self._queue: queue.SimpleQueue[tuple[Any, list[bytes]]] = queue.SimpleQueue()
        widget.send = lambda message, buffers=None: self._queue.put((message, buffers or []))
        texts = {name: getattr(widget, name) for name in widget.keys if not name.startswith("_")}
        texts = {name: text for name, text in texts.items() if isinstance(text, str)}
        script = base64.b64encode(widget._esm.encode()).decode()
        self.frame.evaluate(_RENDER, [script, widget._css, texts])

    def close(self) -> None:
        """Stop the servers of the frames."""
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def exchange(self, until: Callable[[], bool], seconds: float = 120.0) -> None:
        """Pass messages between the kernel and the browser, until a condition is true."""
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end, self.page.content()[-3000:]
            for content in self.frame.evaluate("() => window.sent.splice(0)"):
                self._widget._handle_custom_msg(content, [])
            try:
                message, buffers = self._queue.get(timeout=0.1)
            except queue.Empty:
                continue
            sent = [base64.b64encode(one).decode() for one in buffers]
            self.frame.evaluate(_TELL, [message, sent])

    def is_live(self) -> bool:
        """Whether the live view has been drawn."""
        return bool(self.frame.locator(".odps-x:not(.odps-x-waiting)").count())


def _frame(content: str) -> str:
    escaped = html.escape(content, quote=True)
    return f'<iframe srcdoc="{escaped}" style="width: 100%; height: 600px; border: 0"></iframe>'


def _served(content: str) -> ThreadingHTTPServer:
    """Serve a page on a separate loopback port, which is a separate origin."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, name="page of a host", daemon=True).start()
    return server


def _address(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}/"


def _frame_of(server: ThreadingHTTPServer) -> str:
    return f'<iframe src="{_address(server)}" style="width: 100%; height: 600px"></iframe>'
