"""%odps write, blobs, and Tab completion, in a real shell with the embedded service."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from IPython.core import completer
from IPython.core.completer import provisionalcompleter
from IPython.display import display
from IPython.utils.capture import capture_output

import odps_nb
from odps_nb.errors import (
    ArgumentError,
    ConfigError,
    ConversionError,
    NotFoundError,
    OdpsNbError,
)
from tests.support.shell import run, usage_error

pytestmark = pytest.mark.every_service(in_turn=True)

# -- writing ----------------------------------------------------------------------------------


def test_a_variable_is_written_and_read_back(ip, odps, new_name):
    name = new_name("written")
    odps.create_table(name, "id bigint, note string", partitioned_by="ds string")
    ip.user_ns["rows"] = pd.DataFrame({"id": [1, 2], "note": ["a", None]})
    receipt = run(ip, f"%odps write rows {name} -p ds=2024-01-01")
    assert receipt.rows == 2
    run(ip, f"%odps write rows {name} -p ds=2024-01-01 --overwrite -q")
    assert len(run(ip, f"%odps read {name}")) == 2
    ip.user_ns["wrong"] = pd.DataFrame({"id": ["x"], "note": ["a"]})
    with pytest.raises(ConversionError):
        run(ip, f"%odps write wrong {name} -p ds=2024-01-01")
    assert len(run(ip, f"%odps read {name}")) == 2
    assert "write key=value" in usage_error(ip, f"%odps write rows {name} -p 2024-01-01")


def test_a_variable_creates_its_table(ip, new_name):
    name = new_name("magic_made")
    ip.user_ns["rows"] = pd.DataFrame({"id": [1, 2], "ds": ["a", "b"]})
    with pytest.raises(NotFoundError) as missing:
        run(ip, f"%odps write rows {name}")
    assert "--create" in missing.value.hint
    run(ip, f"%odps write rows {name} --create --partitioned-by ds --types 'id int' -q")
    assert str(run(ip, f"%odps schema {name}").schema.columns[0].type) == "int"
    assert [str(one) for one in run(ip, f"%odps schema {name}").partitions()] == ["ds=a", "ds=b"]
    assert "--pattern cannot be used here" in usage_error(
        ip, f"%odps write rows {name} --pattern *.a"
    )
    ip.user_ns["rows"] = pd.DataFrame({"id": [3]}, index=pd.Index(["b"], name="ds"))
    run(ip, f"%odps write --index rows {name} -q")
    ip.user_ns["rows"] = [{"id": 4, "ds": "b"}]
    run(ip, f"%odps write rows {name} -q")
    assert sorted(run(ip, f"%odps read {name} -p ds=b -q").id) == [2, 3, 4]
    wrong = usage_error(ip, f"%odps write rows {name} --overwrite --overwrite-partitions")
    assert wrong.startswith("--overwrite cannot be used here")


@pytest.mark.parametrize(
    ("option", "value", "written"),
    [
        ("--decimals round", Decimal("1.005"), Decimal("1.01")),
        (
            "--times round",
            dt.datetime(2024, 1, 31, 0, 0, 0, 1600),
            dt.datetime(2024, 1, 31, 0, 0, 0, 2000),
        ),
        ("--text parse", "12.50", Decimal("12.50")),
    ],
)
def test_options_convert_values(ip, odps, new_name, option, value, written):
    name = new_name("magic_converted")
    kind = "datetime" if "times" in option else "decimal(10,2)"
    odps.create_table(name, f"v {kind}")
    ip.user_ns["rows"] = [{"v": value}]
    with pytest.raises(ConversionError):
        run(ip, f"%odps write rows {name}")
    run(ip, f"%odps write rows {name} {option} -q")
    (found,) = odps.table(name).read().to_arrow()["v"].to_pylist()
    assert (found if option != "--times round" else found.replace(tzinfo=None)) == written


@pytest.mark.storage_api("blobs")
def test_a_folder_is_written_as_files(ip, odps, new_name, tmp_path):
    folder, name = tmp_path / "my files", new_name("magic_files")
    folder.mkdir()
    for file in ("a.txt", "b.csv"):
        (folder / file).write_text("x,y\n1,2\n3,4\n")
    assert run(ip, f"%odps write '{folder}' {name}").blobs == 2
    ip.user_ns["folder"] = folder
    receipt = run(ip, f"%odps write folder {name} --pattern *.csv --overwrite -q")
    assert (receipt.rows, receipt.overwrite) == (1, True)
    wrong = usage_error(ip, f"%odps write foldr {name}")
    assert wrong == "there is no variable 'foldr'; did you mean folder?"
    assert usage_error(ip, f"%odps write ./foldr {name}") == "there is no folder './foldr'"
    assert "-p KEY=VALUE" in usage_error(ip, f"%odps write folder {name} --partitioned-by a")
    assert "--index cannot be used here" in usage_error(ip, f"%odps write folder {name} --index")
    assert usage_error(ip, f'%odps write "" {name}') == "there is no folder ''"
    ip.user_ns["folder"] = ""  # not the current folder
    with pytest.raises(ConversionError):
        run(ip, f"%odps write folder {name} --overwrite")
    assert len(odps.table(name).read().to_arrow()) == 1


# -- blobs ------------------------------------------------------------------------------------


@pytest.mark.storage_api("blobs")
def test_blobs_are_shown_as_grid_or_list_and_saved(ip, tmp_path, monkeypatch):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    bundle = gallery(ip, "%odps blobs media -c content -n 3 --view list")
    assert set(bundle) == {"text/html", "text/plain"}
    listing = run(ip, "%odps blobs media -q -c content -n 3 --save ~/new/files")
    assert sorted(row[0] for row in listing) == sorted(
        str(path) for path in (tmp_path / "new" / "files").iterdir()
    )
    assert len(listing) == 3
    assert not Path("~").exists()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot create the folder"):
        run(ip, f"%odps blobs media -q -n 1 --save {tmp_path / 'file'}")
    with pytest.raises(NotFoundError, match="contnt") as caught:
        run(ip, "%odps blobs media -c contnt")
    assert "did you mean 'content'?" in caught.value.hint


def gallery(ip, text: str):
    """Run a cell whose value is a gallery, and return the gallery's output."""
    value = run(ip, text)
    with capture_output() as shown:
        display(value)
    (output,) = shown.outputs
    return output.data


def heading(ip, text: str) -> str:
    return gallery(ip, text)["text/plain"].splitlines()[0]


@pytest.mark.storage_api("blobs")
def test_an_option_renders_html_blobs_on_the_static_page(ip):
    where = "-w \"name = 'report.html'\""
    assert "<iframe" not in gallery(ip, f"%odps blobs media {where}")["text/html"]
    assert run(ip, f"%odps blobs media --render {where}") is None
    (bundle,) = ip.user_ns["shown"]
    assert 'sandbox=""' in bundle["text/html"]


@pytest.mark.nightly
@pytest.mark.storage_api("blobs")
def test_a_gallery_shows_the_total_number_of_blobs(ip, odps):
    every = len(odps.table("media").blobs())
    column = "local.media.content"
    assert heading(ip, "%odps blobs media -n 2") == f"{column} · first 2 of {every} blobs"
    assert heading(ip, "%odps blobs media -n 50") == f"{column} · {every} blobs"
    filtered = "%odps blobs media -n 2 -w \"declared = 'image/png'\""
    assert heading(ip, filtered) == f"{column} · first 2 blobs"


@pytest.mark.storage_api("blobs")
def test_blobs_of_a_type_are_found_at_any_position(ip, tmp_path):
    first = ip.user_ns["odps"].table("media").blobs(limit=1)
    assert first[0].mime_type != "application/pdf"
    text = heading(ip, "%odps blobs media -n 1 --mime application/pdf")
    assert text == "local.media.content · first 1 blob"
    files = run(ip, f"%odps blobs media -n 1 --mime application/pdf --save {tmp_path}")
    assert [row[0].endswith(".pdf") for row in files] == [True]


@pytest.mark.storage_api("blobs")
def test_the_path_of_a_nested_blob_may_be_omitted_if_it_is_the_only_blob(ip):
    text = heading(ip, "%odps blobs documents -c pages.element.image -n 1")
    assert text.startswith("local.documents.pages.element.image · first 1 of ")
    assert heading(ip, "%odps blobs documents -n 1") == text
    with pytest.raises(NotFoundError, match="no BLOB column"):
        run(ip, "%odps blobs orders")


def test_in_a_table_with_several_blob_columns_the_column_must_be_named(ip, odps, new_name):
    name = new_name("blobs")
    odps.create_table(name, "a blob, b blob")
    with pytest.raises(ArgumentError, match="2 BLOB columns") as caught:
        run(ip, f"%odps blobs {name}")
    assert caught.value.hint == "pass one of: a, b"


@pytest.mark.nightly
@pytest.mark.storage_api("blobs")
def test_the_output_of_blobs_is_smaller_than_its_limit(ip):
    run(ip, "%config OdpsMagics.max_output_bytes = 100_000")
    bundle = gallery(ip, "%odps blobs media -c content -n 40")
    assert len(bundle["text/html"]) <= 110_000


# -- Tab --------------------------------------------------------------------------------------

#: IPython 7 passes only the current line to the completion.
IN_CELLS = hasattr(completer, "SimpleCompletion")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%odps read ord", "%odps read orders"),
        ("%odps read orders -c id,amo", "%odps read orders -c id,amount"),
        ("%odps read orders -p ds=2024-01-08", "%odps read orders -p ds=2024-01-08"),
        ("%odps read orders -p ds=2", "%odps read orders -p ds=2024-01-01"),
        ('%odps read orders -w "quan', '%odps read orders -w "quantity'),
        ("%%odps read orders\nquan", "%%odps read orders\nquantity"),
        ("%%odps sql\nselect * from med", "%%odps sql\nselect * from media"),
        ('odps.table("med', 'odps.table("media'),
        ('other.table("med', 'other.table("media'),
    ],
)
def test_the_first_tab_completes_tables_columns_and_partitions(ip, odps, profile, text, wanted):
    ip.user_ns["other"] = odps_nb.connect(profile)
    with provisionalcompleter(), ip.user_ns["other"]:
        found = list(ip.Completer.completions(text, len(text)))
    if text.startswith("%%") and not IN_CELLS:
        assert not found
        return
    assert wanted in [text[: one.start] + one.text for one in found]
    assert all((text[: one.start] + one.text).startswith(text[:-3]) for one in found)


def test_tab_before_the_keyword_from_completes_columns(ip):
    text, cursor = "%%odps sql\nselect quan from orders", len("%%odps sql\nselect quan")
    with provisionalcompleter():
        found = [one.text for one in ip.Completer.completions(text, cursor)]
    assert found == (["quantity"] if IN_CELLS else [])


def test_every_failure_of_the_service_raises_a_typed_error(ip):
    for cell in (
        "%odps read no_such_table",
        "%odps read orders -p ds=1999-01-01",
        "%odps read orders -w 'nonsense ='",
        "%odps read 'orders; drop table orders'",
        "%%odps sql\nselect from from",
    ):
        with pytest.raises(OdpsNbError) as caught:
            run(ip, cell)
        assert caught.value.hint
