"""Tiles of every kind of file in a real JupyterLab and in exported notebooks.

For each kind, one valid file and one with traps; also truncated videos and sounds, and HTML pages
with false labels. No script runs, no request is sent, and no page navigates away. A listener
detects connections from the kernel's parsers.
"""

import json
import os

import pandas as pd
import pytest
from playwright.sync_api import expect

import odps_nb
from fuzz import document_files, media_files
from tests.notebook.browser.test_drawn_pages import Listener
from tests.support.lab import close_notebook, exported, notebook, open_notebook, run_all, save
from tests.support.samples import sample_file

pytestmark = pytest.mark.browser

KINDS = {
    "clip.mp4": "video/mp4",
    "clip.webm": "video/webm",
    "clip.mkv": "video/x-matroska",
    "song.mp3": "audio/mpeg",
    "song.ogg": "audio/ogg",
    "song.flac": "audio/flac",
    "song.m4a": "audio/mp4",
    "page.pdf": "application/pdf",
    "book.xlsx": "application/vnd.ms-excel",
    "book.xls": "application/vnd.ms-excel",
    "book.ods": "application/vnd.oasis.opendocument.spreadsheet",
    "scan.dcm": "application/dicom",
    "notes.md": "text/markdown",
    "tool.py": "text/x-python",
}


@pytest.fixture(scope="module")
def listener():
    server = Listener()
    yield server
    server.close()


def hostile(url):
    """Files with traps: markup in names, titles and cells, actions, and addresses to load from."""
    nasty = f"\"><img src='{url}' onerror='odpsNbProbe=1'><script>odpsNbProbe=1</script>"
    cell = nasty.replace("&", "&amp;").replace("<", "&lt;")
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    outside = (
        f'<Relationship Id="rId9" Type="{office}/externalLink" Target="{url}"'
        ' TargetMode="External"/>'
    )
    link = b"<< /S /URI /URI (" + url.encode() + b") >>"
    script = b"<< /S /JavaScript /JS (app.launchURL\\('" + url.encode() + b"'\\)) >>"
    return {
        "clip.mp4": media_files.film("mp4", "libx264", title=nasty),
        "clip.webm": media_files.film("webm", "libvpx", title=nasty),
        "clip.mkv": media_files.film("matroska", "libx264", title=nasty),
        "song.mp3": media_files.sound("mp3", "libmp3lame", title=nasty),
        "song.ogg": media_files.sound("ogg", "libopus", title=nasty),
        "song.flac": media_files.sound("flac", "flac", title=nasty),
        "song.m4a": media_files.sound("ipod", "aac", title=nasty),
        "page.pdf": document_files.pdf(
            catalog=b"/OpenAction 5 0 R /AA << /WC 6 0 R >>", more=(link, script)
        ),
        "book.xlsx": document_files.xlsx(strings=f"<si><t>{cell}</t></si>", more=outside),
        "scan.dcm": document_files.dicom(rows=60_000, columns=60_000, pixels=bytes(64)),
        "notes.md": f"# A\n\n![x]({url})\n\n{nasty}\n".encode(),
        "tool.py": f'"""{nasty}"""\n\nimport os\n\n\ndef main():\n    print("{url}")\n'.encode(),
        "list.m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{url}\n".encode(),
        "list.ffconcat": f"ffconcat version 1.0\nfile {url}\n".encode(),
        f"{nasty}.mp4": media_files.film("mp4", "libx264")[:400],
    }


@pytest.fixture(scope="module")
def table(odps, listener):
    good = {**document_files.files(), **media_files.files()}
    url = f"{listener.url}beacon"
    files = [(name, KINDS.get(name, ""), data) for name, data in hostile(url).items()]
    files += [(name, mime, good[name]) for name, mime in KINDS.items()]
    cut = [name for name, mime in KINDS.items() if mime.startswith(("audio", "video"))]
    files += [(name, KINDS[name], good[name][: len(good[name]) // 2]) for name in cut]
    files += [
        (name, KINDS[name], sample_file("you_have_won.html")) for name in ("clip.mp4", "page.pdf")
    ]
    name = f"every_kind_{os.getpid()}"
    content = [odps_nb.NewBlob(data, mime_type=mime, file_name=file) for file, mime, data in files]
    made = odps.create_table(name, "id bigint, content blob")
    made.write(pd.DataFrame({"id": range(len(files)), "content": content}), progress=False)
    yield name, len(files)
    odps.drop_table(name)


def navigations(page):
    """Return a list that gets the addresses to which a page navigates from now on."""
    away = []
    page.on("framenavigated", lambda frame: away.append(frame.url))
    return away


def assert_quiet(page, listener, asked):
    assert page.evaluate("() => window.odpsNbProbe ?? null") is None
    assert [frame.url for frame in page.frames if "beacon" in frame.url] == []
    assert [url for url in asked if "beacon" in url or listener.url in url] == []
    assert listener.links == []


STATIC_TILES = """(count) => JSON.stringify(
    window.jupyterapp.shell.currentWidget.content.model.toJSON()
  ).split("<figure").length - 1 === count"""


@pytest.fixture(scope="module")
def saved(lab_page, jupyter, listener, table):
    """The notebook as JupyterLab saved it after showing all tiles and enlarging some."""
    name, count = table
    cell = f"import odps_nb\nodps_nb.connect().table({name!r}).blobs()"
    jupyter.write("kinds.ipynb", notebook(cell))
    open_notebook(lab_page, jupyter, "kinds.ipynb")
    away = navigations(lab_page)
    asked = len(lab_page.traffic.urls)
    run_all(lab_page)
    view = lab_page.locator(".odps-g:visible")
    expect(view).to_have_count(1)
    scroll_to_all(view, count)
    enlarge(lab_page, view, 5)
    assert_quiet(lab_page, listener, lab_page.traffic.urls[asked:])
    assert away == []
    # the live gallery may show all tiles before the static page contains them
    lab_page.wait_for_function(STATIC_TILES, arg=count)
    save(lab_page)
    close_notebook(lab_page, kernel=True)
    return jupyter.folder / "kinds.ipynb"


def scroll_to_all(view, count):
    """Scroll until each tile was visible and is drawn."""
    box, seen = view.get_by_role("listbox"), set()
    while len(seen) < count:
        found = box.evaluate_handle(
            """async (box) => {
                const tiles = () => [...box.querySelectorAll('.odps-g-tile')];
                const drawn = (one) =>
                    one.querySelector('.odps-g-caption')?.textContent.includes(' · ');
                while (!tiles().length || !tiles().every(drawn))
                    await new Promise((done) => setTimeout(done, 20));
                return tiles().map((one) => one.dataset.place);
            }"""
        )
        seen |= set(found.json_value())
        box.evaluate("(one) => { one.scrollTop += one.clientHeight; }")
    box.evaluate("(one) => { one.scrollTop = 0; }")


def enlarge(page, view, count):
    """Enlarge the first tiles, in which videos and sounds can be played."""
    view.locator('.odps-g-tile[data-place="0"]').focus()
    page.keyboard.press("Enter")
    dialog = view.get_by_role("dialog")
    for number in range(1, count + 1):
        expect(dialog.get_by_role("status")).to_contain_text(f"{number} of ")
        expect(dialog.locator(".odps-g-stage")).not_to_have_attribute("aria-busy", "")
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")


def test_live_views_run_no_script_and_send_no_request(saved):
    assert saved.exists()  # these checks need the live notebook


def test_a_notebook_reopened_without_trust_runs_nothing(saved, lab_page, jupyter, listener, table):
    made = json.loads(saved.read_text())
    added = notebook("1")["cells"][0] | {"id": "added"}  # the cell has no signature
    jupyter.write("kinds_untrusted.ipynb", made | {"cells": [*made["cells"], added]})
    before = len(lab_page.traffic.urls)
    open_notebook(lab_page, jupyter, "kinds_untrusted.ipynb")
    figures = lab_page.locator(".jp-OutputArea-child figure")
    expect(figures).to_have_count(table[1])
    assert figures.last.is_visible()
    assert lab_page.locator(".odps-g").count() == 0
    assert_quiet(lab_page, listener, lab_page.traffic.urls[before:])
    close_notebook(lab_page, kernel=True)


@pytest.mark.nightly
def test_an_export_plays_videos_and_sounds_and_runs_nothing_else(
    saved, context, listener, table, tmp_path
):
    address = exported(saved, tmp_path / "kinds.html")
    page = context.new_page()
    urls = []
    page.on("request", lambda request: urls.append(request.url))
    page.goto(address, wait_until="domcontentloaded")
    away = navigations(page)
    assert page.locator(".jp-OutputArea-child figure").count() == table[1]
    page.wait_for_function(
        "() => [...document.querySelectorAll('audio, video')]"
        ".every(a => a.readyState >= 1 || a.error)"
        " && [...document.querySelectorAll('figure img')].every(i => i.complete && i.naturalWidth)"
    )
    playing = page.evaluate(
        "() => [...document.querySelectorAll('audio, video')].filter(a => !a.error).length"
    )
    assert playing >= 12
    assert_quiet(page, listener, urls)
    assert away == []
    page.close()
