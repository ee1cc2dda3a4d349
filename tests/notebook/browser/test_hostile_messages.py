"""Views in Chromium show malicious text from the kernel as text.

The test plays the role of the kernel. Names, values, comments, media types, errors and URLs come
from the service or from files, so each of them may be markup, a script or an address.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, Page, Route

from odps_nb.notebook.gallery.view import Gallery

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.browser

SVG = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg' onload='odpsNbProbe=1'/>").decode()
TEXTS = {
    "markup": (
        "\"'><img src=http://127.0.0.1:9/beacon onerror=odpsNbProbe=1>"
        "<script>odpsNbProbe=1</script><style>*{background:url(http://127.0.0.1:9/style)}</style>"
    ),
    "script address": "javascript:odpsNbProbe=1",
    "page": "data:text/html,<script>top.odpsNbProbe=1</script>",
    "address": "http://127.0.0.1:9/picture.png",
    "drawing": f"data:image/svg+xml;base64,{SVG}",
    "two addresses": f"data:image/png;base64,AAAA\nhttp://127.0.0.1:9/\n{SVG}",
    "prototype": "__proto__",
}
RENDER = """async ([script, texts]) => {
  const module = await import("data:text/javascript;base64," + script);
  const model = {get: (name) => texts[name] ?? "", on: (_, tell) => (window.tell = tell),
                 off: () => {}, send: () => {}};
  const el = document.body.appendChild(document.createElement("div"));
  module.default.render({model, el});
}"""
TELL = """([message, cells]) =>
  window.tell(message, cells === null ? [] : [new TextEncoder().encode(cells)])"""
CLICK = """() => {
  for (let turn = 0; turn < 3; turn++)
    for (const one of document.querySelectorAll(
      'th, td, button, g, .odps-g-tile, [data-act], [role=option], label'))
      if (!one.querySelector('input') && one.textContent !== 'Upload')
        one.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}));
}"""
FOUND = """() => [...document.querySelectorAll('*')].flatMap((one) => [
  ...(['SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'A', 'LINK', 'BASE', 'FORM'].includes(one.tagName)
      ? [one.outerHTML] : []),
  ...[...one.attributes].filter(({name, value}) =>
      name.startsWith('on') || name.endsWith('href')
      || (name === 'style' && value.includes('url'))
      || (['src', 'poster', 'srcdoc'].includes(name)
          && !/^data:(image|audio|video)\\//.test(value))).map(({name, value}) => name + value)])"""

TREE = """async (text) => {
  const [{ fill, newRoot, rowsOf }, { Tree }, { rowsIn }] = await Promise.all(
    ["rows", "tree", "insert"].map((name) => import(`/${name}.js`)));
  const root = newRoot();
  const deeper = (node, answer) => {
    node.open = true;
    fill(node, answer);
    return node.children[0];
  };
  const project = deeper(root, {kind: "projects", items: [text], current: ""});
  const schema = deeper(project, {kind: "schemas", items: [text, "two"]});
  const table = deeper(schema, {kind: "tables", items: [text], prefix: text});
  const column = {name: text, type: text, comment: text, partition: true};
  deeper(table, {kind: "columns", items: [column], rows: 1, partitioned: true});
  deeper(table.children[1], {kind: "partitions", items: [{name: text, rows: text}], more: true});
  project.children.pop();
  const tree = new Tree({label: text, hint: text, onToggle() {}, onUse() {}});
  tree.node.style.height = "400px";
  document.body.append(tree.node);
  const rows = rowsOf(root, "");
  tree.show(rows);
  for (const row of document.querySelectorAll(".odpsNb-row")) row.click();
  const name = (node) => node.full ? rowsIn(node.full) : rowsIn(table.full, node.name);
  window.inserted = rows.filter((row) => row.uses?.includes("read")).map((row) => name(row.node));
}"""


@pytest.fixture
def view(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Return a function that shows a script as a new view, which gets all later messages."""
    page = browser.new_page()
    page.asked = []
    page.failed = []
    page.on("request", lambda one: page.asked.append(one.url))
    page.on("pageerror", lambda error: page.failed.append(str(error)))

    def render(script: str, **texts: str) -> Page:
        page.evaluate(RENDER, [base64.b64encode(script.encode()).decode(), texts])
        return page

    yield render
    page.close()


def tell(page: Page, rows: Any = None, /, **message: Any) -> None:
    page.evaluate(TELL, [message, None if rows is None else json.dumps(rows)])


def check_harmless(page: Page) -> None:
    """Click on every element, and check that nothing else happens."""
    page.evaluate(CLICK)
    page.wait_for_load_state("networkidle")
    assert page.evaluate(FOUND) == []
    assert page.evaluate("() => window.odpsNbProbe ?? null") is None
    assert page.evaluate("() => ({}).polluted ?? null") is None
    assert [url for url in page.asked if not url.startswith("data:")] == []
    assert page.failed == []
    shown = page.evaluate("() => document.body.textContent")
    assert [text for text in TEXTS.values() if text.split("\n")[0] not in shown] == []


@pytest.mark.nightly
def test_an_explorer_shows_malicious_messages_as_text(
    view: Callable[..., Page], odps: Connection
) -> None:
    script = odps.table("media").explore().widget()._esm
    for text in TEXTS.values():
        page = view(script)
        kinds = {"number": False, "blob": False, "nested": False}
        named = {"name": text, "type": text, "comment": text, **kinds}
        named |= {"conditions": ["range", "values", "null", text], "input": text}
        columns = [named, {**named, "blob": True}]
        chip = {"text": text, "where": text}
        edit = {"column": 0, "op": "values", "values": [text, text], "exclude": True}
        tell(page, kind="table", title=text, all_columns=2, page_rows=100, columns=columns)
        tell(
            page,
            [[text, [text]], ["reference", None]],
            kind="page",
            start=0,
            count=2,
            total=2,
            rows=text,
            profiled=False,
            conditions=[{**chip, "edit": edit}, {**chip, "edit": None}],
            search=text,
            searched=2,
            order=[[0, True]],
            note=text,
            code=text,
        )
        described = {
            "words": text,
            "rows": 2,
            "nulls": 1,
            "ends": [text, text],
            "facts": [[text, text]],
            "is_line": True,
            "is_log": True,
            "bars": [[text, 1, 0.5], [text, 1, None]],
            "beside": [1],
            "frequent": [[text, 1, text]],
        }
        tell(page, kind="profile", label=text, whole=False, columns=[described, described])
        tell(page, kind="count", total=2, rows=text, why=text)
        tell(page, kind="blobs", start=0, cells=[[0, 1, text, text]])
        page.evaluate(CLICK)
        tell(page, kind="cell", row=0, column=0, text=text, cut=True, src=text)
        tell(page, kind="cell", row=0, column=1, text=text, cut=False, src=text)
        tell(page, kind="busy", task="page", text=text, share=0.5)
        tell(page, kind="problem", task="page", text=text)
    check_harmless(page)


def test_a_gallery_shows_malicious_messages_as_text(
    view: Callable[..., Page], odps: Connection
) -> None:
    script = Gallery(odps.table("media").blobs("content")).widget()._esm
    for text in TEXTS.values():
        page = view(script)
        tell(
            page,
            kind="gallery", fresh=True, title=text, summary=text, view="grid", total=2, count=2,
            note=text, menu=[[text, text]], chosen=text, search=text, order=text, descending=False,
        )  # fmt: skip
        fields = {
            "name": text, "words": text, "row": text, "kind": text, "verified": True,
            "declared": text, "notes": [text], "failed": False,
        }  # fmt: skip
        rows = f"{text}\t{text}\n{text}"
        tiles = [{"index": 0, "src": text, "text": text}, {"index": 1, "src": "", "text": rows}]
        tell(page, kind="tiles", tiles=[{**fields, **one} for one in tiles])
        page.evaluate(CLICK)
        for index in (0, 1):
            tell(page, kind="large", tile={**fields, **tiles[index], "player": text})
        tell(page, kind="ask", text=text)
        tell(page, kind="said", text=text)
        tell(page, kind="busy", task=text, text=text, share=None, stop=text)
        tell(page, kind="problem", task="save", text=text)
    check_harmless(page)


def test_the_sidebar_shows_malicious_messages_as_text(browser: Browser, repo: Path) -> None:
    page = browser.new_page()
    urls: list[str] = []
    static = repo / "labextensions" / "odps-nb" / "static"
    page.route("http://sidebar.invalid/**", lambda route: _serve(route, static))
    page.goto("http://sidebar.invalid/")
    page.on("request", lambda one: urls.append(one.url))
    for number, text in enumerate(TEXTS.values(), 1):
        page.evaluate(TREE, text)
        rows = page.evaluate("() => document.querySelectorAll('.odpsNb-row').length")
        assert rows == 7 * number  # the last row says that there are more partitions
        for inserted in page.evaluate("() => window.inserted"):
            assert re.fullmatch(r"[\w.]+( -p [\w.:=,/-]+)?", inserted)
    assert page.evaluate(FOUND) == []
    assert page.evaluate("() => window.odpsNbProbe ?? null") is None
    assert [url for url in urls if not url.startswith("http://sidebar.invalid/")] == []
    page.close()


def _serve(route: Route, static: Path) -> None:
    name = route.request.url.rpartition("/")[2]
    if name:
        route.fulfill(path=static / name, content_type="text/javascript")
    else:
        route.fulfill(body="<!DOCTYPE html><body></body>", content_type="text/html")
