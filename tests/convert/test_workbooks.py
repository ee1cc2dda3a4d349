"""A sheet of a workbook becomes a table with the types of its cells."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pytest
import xlsxwriter

from fuzz import document_files
from odps_nb.access.connection import Connection
from odps_nb.convert import blob_content, blob_conversion
from odps_nb.convert.workbook import WORKBOOKS
from odps_nb.errors import ConversionError, LimitExceededError
from odps_nb.formats.registry import sniff

EXCEL = WORKBOOKS[0]
PARQUET = "application/vnd.apache.parquet"
LIMIT = 1 << 20
CELLS = {
    "id": [1, 2, 3],
    "price": [2.5, None, 4],
    "day": [dt.date(2024, 1, 1), dt.datetime(2024, 1, 2, 12), None],
    "is new": [True, False, None],
    "mixed": ["a", 1, 1e300],
    "": ["x", "y", None],
}


def workbook() -> bytes:
    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"default_date_format": "yyyy-mm-dd hh:mm"}) as book:
        for name in ("cover", "data"):
            sheet = book.add_worksheet(name)
            for column, (head, cells) in enumerate(CELLS.items() if name == "data" else ()):
                sheet.write_column(0, column, [head, *cells])
    return out.getvalue()


def table(data: bytes, mime: str = EXCEL, **options: object) -> pa.Table:
    """Return the table, and check that the parser process returns the same table."""
    here = blob_content.as_table(data, mime, max_bytes=LIMIT, **options)
    assert blob_conversion.table(data, mime, max_bytes=LIMIT, **options).equals(here)
    return here


def test_columns_have_the_types_of_their_cells() -> None:
    found = table(workbook(), sheet="data")
    assert found.column_names == ["id", "price", "day", "is new", "mixed", "f5"]
    assert [str(kind) for kind in found.schema.types] == [
        *("int64", "double", "timestamp[us]", "bool", "string", "string")
    ]
    assert found["price"].to_pylist() == [2.5, None, 4]
    assert found["mixed"].to_pylist() == ["a", "1", "1e+300"]
    assert found["day"].to_pylist()[0] == dt.datetime(2024, 1, 1)


@pytest.mark.parametrize("make", [document_files.xlsx, document_files.xls, document_files.ods])
def test_every_workbook_format_is_read(make) -> None:
    data = make()
    found = table(data, sniff(data, len(data)).mime, sheet=0)
    assert found.num_columns == 2
    assert found.num_rows >= 1
    named = table(data, sniff(data, len(data)).mime, names=["a", "b"])
    assert (named.column_names, named.num_rows) == (["a", "b"], found.num_rows + 1)


def test_a_sheet_without_cells_has_no_columns() -> None:
    assert table(workbook()).shape == (0, 0)


@pytest.mark.parametrize(
    ("mime", "options", "says"),
    [
        (EXCEL, {"sheet": "none"}, "no sheet 'none'"),
        (EXCEL, {"sheet": 2}, "no sheet 2"),
        (EXCEL, {"sheet": 1, "names": ["a"]}, "names= has 1 names, but the sheet has 6 columns"),
        ("text/csv", {"sheet": 0}, "the blob is not a workbook"),
        (EXCEL, {"separator": ","}, "the blob is not a delimited file: its content is .*sheet"),
        (PARQUET, {"separator": ","}, "the blob is not a delimited file: its content is .*parquet"),
        (PARQUET, {"names": ["a"]}, "the blob is not a delimited file: its content is .*parquet"),
    ],
)
def test_an_invalid_sheet_or_cell_is_refused(mime: str, options: dict, says: str) -> None:
    for convert in (blob_content.as_table, blob_conversion.table):
        with pytest.raises(ConversionError, match=says):
            convert(workbook(), mime, max_bytes=LIMIT, **options)


def test_the_number_of_rows_of_a_sheet_is_limited() -> None:
    with pytest.raises(LimitExceededError):
        blob_conversion.table(workbook(), EXCEL, max_bytes=50, sheet="data")


@pytest.mark.storage_api("blobs")
def test_to_table_accepts_the_name_of_a_sheet(odps: Connection, new_name, tmp_path) -> None:
    (tmp_path / "book.xlsx").write_bytes(workbook())
    made = odps.table(new_name("books"))
    made.write_files(tmp_path)
    assert made.blobs("content")[0].to_table(sheet="data").num_rows == 3


def test_to_table_decodes_short_utf_16_text_if_the_encoding_is_stated(
    odps: Connection, new_name, tmp_path
) -> None:
    (tmp_path / "a.csv").write_bytes("姓名,城市\n张三丰,上海市\n".encode("utf-16-le"))
    made = odps.table(new_name("texts"))
    made.write_files(tmp_path)
    blob = made.blobs("content")[0]
    assert blob.to_table(encoding="utf-16-le").to_pydict() == {
        "姓名": ["张三丰"],
        "城市": ["上海市"],
    }
    with pytest.raises(ConversionError, match="unknown encoding: utf-61"):
        blob.to_table(encoding="utf-61")
