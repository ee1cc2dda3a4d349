"""Galleries in a real JupyterLab: every interaction, by mouse and by keyboard, live and saved.

One notebook and one kernel for all tests, which run in order and leave no filter behind.
``test_static_gallery.py`` tests the static view and the safety of its tiles; ``test_every_kind.py``
tests galleries that are reopened or exported.
"""

import json
import os
import re

import pytest
from playwright.sync_api import expect

import odps_nb
from tests.support.contrast import faint
from tests.support.explored import change_theme
from tests.support.lab import close_notebook, notebook, open_notebook, run_all, save

pytestmark = pytest.mark.browser

NASTY = '"><img src=/beacon/value onerror="odpsNbProbe=1"><script>odpsNbProbe=1</script>'
CELLS = [
    "import odps_nb\nodps = odps_nb.connect()\n"
    "media = odps.table('media').read(['id', 'name', 'content']).to_pandas().set_index('id')",
    "gallery = odps.blobs(media, 'content', caption='name')\ngallery",
    "few = odps.table('media').blobs(where=\"declared = 'text/plain'\")\n"
    "few.pick([n % len(few) for n in range(10_000)])",
    "odps.table('TABLE').blobs()",
    "print('selected', gallery.selected.index.tolist(), gallery.selected.odps.size().sum())",
]
MEDIA, MANY, HOSTILE = 0, 1, 2
WIDTH = "(one) => one.decode().then(() => one.naturalWidth)"


@pytest.fixture(scope="module")
def hostile(odps):
    import pandas as pd

    name = f"gallery_hostile_{os.getpid()}"
    table = odps.create_table(name, "id bigint, content blob")
    page = f"<html><body>{NASTY}</body></html>".encode()
    svg = f"<svg xmlns='http://www.w3.org/2000/svg'>{NASTY[2:]}</svg>".encode()
    blobs = [
        odps_nb.NewBlob(data, mime_type=kind, file_name=file)
        for data, kind, file in [
            (NASTY.encode(), "text/html", f"{NASTY}.html"),
            (page, f"image/png;{NASTY}", "\u202egnp.exe"),
            (svg, "image/svg+xml", "drawing.svg"),
            (json.dumps({NASTY: [NASTY]}).encode(), "application/json", "data.json"),
            (f"a,b\n1\n2,{NASTY}\n".encode(), "image/png", "ragged.csv"),
        ]
    ]
    table.write(pd.DataFrame({"id": range(5), "content": blobs}))
    yield name
    odps.drop_table(name)


@pytest.fixture(scope="module")
def page(lab_page, jupyter, hostile):
    cells = [cell.replace("TABLE", hostile) for cell in CELLS]
    jupyter.write("gallery.ipynb", notebook(*cells))
    lab_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab_page.traffic.errors.clear()
    open_notebook(lab_page, jupyter, "gallery.ipynb")
    run_all(lab_page)
    expect(lab_page.locator(".odps-g:visible")).to_have_count(3)
    return lab_page


def gallery(page, number):
    return page.locator(".odps-g").nth(number)


def tile(view, place):
    return view.locator(f'.odps-g-tile[data-place="{place}"]')


def selected(view):
    return [
        int(one.get_attribute("data-place"))
        for one in view.locator('.odps-g-tile[aria-selected="true"]').all()
    ]


def names(view):
    return view.locator(".odps-g-caption .odps-g-name").all_inner_texts()


def focused_place(page):
    return page.evaluate("() => document.activeElement.dataset.place")


def output_of_last_cell(page):
    """Run the last cell and return its output."""
    page.evaluate(
        """async () => {
            const content = window.jupyterapp.shell.currentWidget.content;
            content.deselectAll();
            content.activeCellIndex = content.widgets.length - 1;
            content.activeCell.model.outputs.clear();
            await window.jupyterapp.commands.execute('notebook:run-cell');
        }"""
    )
    output = page.locator(".jp-CodeCell").last.locator(".jp-OutputArea-output")
    expect(output).to_contain_text("selected")
    return output.inner_text().strip()


def test_live_tiles_replace_the_static_page(page):
    view = gallery(page, MEDIA)
    expect(tile(view, 0).locator("img")).to_be_visible()
    assert tile(view, 0).locator("img").evaluate(WIDTH) > 0
    caption = tile(view, 0).locator(".odps-g-caption")
    expect(caption).to_contain_text("mountains.jpg")
    expect(caption).to_contain_text("✓ JPEG · 960 × 640 · 25.9 kB")
    expect(caption).to_contain_text("row 1")
    figures = page.locator(".jp-OutputArea-child figure")
    assert figures.count() == 47 + 64 + 5
    assert not any(figures.nth(n).is_visible() for n in (0, 47, 110))


def test_only_the_visible_tiles_of_ten_thousand_are_in_the_page(page):
    view = gallery(page, MANY)
    box = view.get_by_role("listbox")
    expect(view.locator(".odps-x-bar").first).to_contain_text("10,000 blobs")
    expect(tile(view, 0).locator("pre")).to_be_visible()
    assert view.locator(".odps-g-tile").count() < 60
    for share in (0.5, 1):
        box.evaluate("(one, share) => { one.scrollTop = share * one.scrollHeight; }", share)
        last = 9_999 if share == 1 else 5_000
        expect(tile(view, last)).to_have_count(1)
        expect(tile(view, last).locator(".odps-g-caption")).to_be_visible()
        assert view.locator(".odps-g-tile").count() < 60
    assert tile(view, 9_999).get_attribute("aria-posinset") == "10000"
    assert tile(view, 9_999).get_attribute("aria-setsize") == "10000"


def test_tiles_can_be_filtered_by_detected_kind_sorted_and_searched(page):
    view = gallery(page, MEDIA)
    view.get_by_label("kind", exact=True).select_option("audio")
    expect(view.locator(".odps-g-tile")).to_have_count(3)
    expect(view.locator(".odps-x-bar").first).to_contain_text("3 of 47 blobs")
    # all blobs were read, so the menu shows the counts
    expect(view.get_by_label("kind", exact=True).locator("option").first).to_have_text(
        "all kinds (47)"
    )
    view.get_by_label("order", exact=True).select_option("name")
    expect(view.locator(".odps-g-box")).not_to_have_attribute("aria-busy", "true")
    assert names(view) == sorted(names(view))
    view.get_by_label("descending", exact=True).click()
    expect(view.locator(".odps-g-box")).not_to_have_attribute("aria-busy", "true")
    expect(view.get_by_label("descending", exact=True)).to_have_attribute("aria-pressed", "true")
    assert names(view) == sorted(names(view), reverse=True)
    view.get_by_label("kind", exact=True).select_option("all kinds")
    view.get_by_label("order", exact=True).select_option("row")
    view.get_by_label("descending", exact=True).click()
    search = view.get_by_role("searchbox")
    search.fill("MANDEL")
    search.press("Enter")
    expect(view.locator(".odps-g-tile")).to_have_count(1)
    assert names(view) == ["mandelbrot.png"]
    search.fill("")
    search.press("Enter")
    expect(tile(view, 0).locator(".odps-g-name")).to_have_text("mountains.jpg")


def test_many_blobs_are_read_only_after_a_confirmation(page):
    view = gallery(page, MANY)
    view.get_by_label("order", exact=True).select_option("size")
    question = view.locator(".odps-x-busy:visible")
    expect(question).to_contain_text("small requests, one for each blob not read yet")
    question.get_by_role("button", name="Not now").click()
    expect(question).to_be_hidden()
    expect(view.get_by_label("order", exact=True)).to_have_value("row")


def test_a_selection_by_mouse_is_available_in_python(page):
    view = gallery(page, MEDIA)
    tile(view, 1).click()
    assert selected(view) == [1]
    tile(view, 4).click(modifiers=["Shift"])
    assert selected(view) == [1, 2, 3, 4]
    tile(view, 2).click(modifiers=["ControlOrMeta"])
    tile(view, 0).locator(".odps-g-check").click()
    assert selected(view) == [0, 1, 3, 4]
    expect(view.locator(".odps-g-where")).to_have_text("4 selected")
    # the kernel may receive the selection after it has run the cell
    texts = (output_of_last_cell(page) for _ in range(50))
    assert any(one.startswith("selected [1, 2, 4, 5]") for one in texts)


def test_the_gallery_can_be_used_by_keyboard(page, odps):
    view = gallery(page, MEDIA)
    tile(view, 0).focus()
    page.keyboard.press("Escape")
    assert selected(view) == []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "Space"):
        page.keyboard.press(key)
    assert (focused_place(page), selected(view)) == ("1", [1])
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert (focused_place(page), selected(view)) == ("3", [1, 2, 3])
    page.keyboard.press("End")
    assert focused_place(page) == "46"
    page.keyboard.press("Home")
    assert focused_place(page) == "0"
    page.keyboard.press("ArrowDown")
    across = int(focused_place(page))
    assert across > 2
    page.keyboard.press("ArrowUp")
    page.keyboard.press("c")
    expect(view.locator(".odps-g-said")).to_contain_text("1 reference copied")
    wanted = odps.table("media").blobs(limit=1)[0].reference.token
    assert page.evaluate("() => navigator.clipboard.readText()") == wanted
    page.keyboard.press("ControlOrMeta+a")
    expect(view.locator(".odps-g-where")).to_have_text("47 selected")
    page.keyboard.press("Escape")
    expect(view.locator(".odps-g-where")).to_have_text(re.compile("none selected · Ctrl"))
    # no key press reached the notebook, so its cells are unchanged
    assert page.locator(".jp-CodeCell").count() == len(CELLS)


def test_a_tile_can_be_enlarged_and_zoomed_and_keys_show_the_next_tile(page):
    view = gallery(page, MEDIA)
    tile(view, 0).focus()
    page.keyboard.press("Enter")
    dialog = view.get_by_role("dialog")
    picture = dialog.locator("img")
    expect(picture).to_be_visible()
    expect(dialog.locator(".odps-g-stage")).not_to_have_attribute("aria-busy", "")
    assert picture.evaluate(WIDTH) == 960
    expect(dialog.locator(".odps-g-about")).to_contain_text("✓ verified")
    fitting = picture.bounding_box()["width"]
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert picture.bounding_box()["width"] > 2 * fitting
    page.keyboard.press("0")
    assert picture.bounding_box()["width"] == fitting
    page.keyboard.press("ArrowRight")
    expect(dialog.locator(".odps-g-name")).to_have_text("mandelbrot.png")
    expect(dialog.get_by_role("status")).to_have_text("2 of 47")
    page.keyboard.press("Space")
    expect(dialog.get_by_label("select (Space)")).to_have_text("✓ Selected")
    page.keyboard.press("ArrowLeft")
    expect(dialog.locator(".odps-g-name")).to_have_text("mountains.jpg")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert (focused_place(page), selected(view)) == ("0", [1])


def test_an_enlarged_sound_can_be_played(page):
    view = gallery(page, MEDIA)
    search = view.get_by_role("searchbox")
    search.fill("melody.wav")
    search.press("Enter")
    expect(view.locator(".odps-g-tile")).to_have_count(1)
    tile(view, 0).dblclick()
    page.wait_for_function(
        "() => { const one = document.querySelector('.odps-g audio');"
        " return one && one.readyState >= 1 && !one.error; }"
    )
    view.get_by_label("close (Escape)").click()
    search.fill("")
    search.press("Enter")
    expect(tile(view, 1)).to_have_count(1)


def test_a_blob_or_a_selection_is_saved_on_the_kernel_machine(page, jupyter, sample_blobs):
    view = gallery(page, MEDIA)
    files = [blob for blob in sample_blobs if blob is not None]
    tile(view, 0).hover()
    tile(view, 0).get_by_text("Save", exact=True).click()
    said = view.locator(".odps-g-said")
    expect(said).to_contain_text("1 file saved")
    assert (jupyter.folder / "blobs" / "mountains.jpg").read_bytes() == files[0].data
    tile(view, 1).click()
    tile(view, 2).click(modifiers=["Shift"])
    view.get_by_label("folder to save into").fill("chosen ones")
    view.get_by_role("button", name="Save selected").click()
    expect(said).to_contain_text("2 files saved: chosen ones")
    for blob in files[1:3]:
        assert (jupyter.folder / "chosen ones" / blob.file_name).read_bytes() == blob.data


def test_a_list_shows_values_of_the_rows_next_to_the_pictures(page):
    view = gallery(page, MEDIA)
    view.get_by_label("show as a list").click()
    expect(view.get_by_label("show as a list")).to_have_attribute("aria-pressed", "true")
    picture, caption = (tile(view, 0).locator(one) for one in (".odps-g-shot", ".odps-g-caption"))
    assert picture.bounding_box()["x"] < caption.bounding_box()["x"]
    assert tile(view, 0).bounding_box()["y"] < tile(view, 1).bounding_box()["y"]
    view.get_by_label("show as a grid").click()


@pytest.mark.gate(1)
@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_text_has_enough_contrast_in_dark_and_light_themes(page, theme):
    change_theme(page, theme)
    assert faint(gallery(page, MEDIA)) == []


def test_no_line_of_a_caption_is_cut_by_the_edge_of_its_tile(page):
    view = gallery(page, HOSTILE)
    expect(tile(view, 4).locator(".odps-g-note")).to_contain_text("line 2 has 1 field")
    for caption in view.locator(".odps-g-caption").all():
        box, line = caption.locator("..").bounding_box(), caption.locator(":scope > *").last
        end = line.bounding_box()
        assert end["y"] + end["height"] <= box["y"] + box["height"]


def test_texts_of_blobs_are_shown_as_text_and_cause_no_request(page, jupyter):
    view = gallery(page, HOSTILE)
    expect(view.locator(".odps-g-caption")).to_have_count(5)
    assert names(view)[0].startswith(NASTY[:40])
    assert names(view)[1] == "\\u202egnp.exe"
    for place in range(5):
        tile(view, place).focus()
        page.keyboard.press("Enter")
        stage = view.locator(".odps-g-stage")
        expect(stage).not_to_have_attribute("aria-busy", "")
        assert "onerror" in stage.inner_text() or stage.locator("img").count() == 1
        page.keyboard.press("Escape")
    inside = "script, iframe, link, object, embed, img:not([src^='data:image/'])"
    assert view.locator(inside).count() == 0
    assert page.evaluate("() => window.odpsNbProbe ?? null") is None
    origin = jupyter.url.split("/{}")[0]
    allowed = (origin, "data:", "blob:")
    assert [url for url in page.traffic.urls if not url.startswith(allowed)] == []
    assert not [url for url in page.traffic.urls if "beacon" in url]
    assert [said for said in page.traffic.errors if re.search("odps|blob:", said)] == []


# -- the saved notebook, after the last use of the page -----------------------------------------


@pytest.fixture(scope="module")
def saved(page, jupyter):
    save(page)
    made = json.loads((jupyter.folder / "gallery.ipynb").read_text())
    close_notebook(page, kernel=True)
    return made


def test_the_saved_notebook_has_a_bounded_static_page_and_no_key(saved, service):
    for number, tiles in ((1, 47), (2, 64), (3, 5)):
        outputs = json.dumps(saved["cells"][number]["outputs"])
        assert outputs.count("<figure") == tiles
        assert len(outputs) < 2.2 * 2**20
    state = json.dumps(saved["metadata"].get("widgets", {}))
    assert len(state) < 300_000  # only scripts, no data of the service
    assert "mountains" not in state
    assert service.access_key not in json.dumps(saved)
