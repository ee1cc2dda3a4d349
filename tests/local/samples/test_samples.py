"""The sample tables: plausible, complete, and the same each time."""

import io
import warnings

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from PIL import Image

from odps_nb.local.samples import orders
from odps_nb.local.samples.every_sample import SAMPLES
from odps_nb.local.samples.orders import PROBES
from odps_nb.schema import ArrayType, DecimalType, LengthType, MapType, StructType, TypeCode
from tests.support.samples import media, sample_file


def sample(name):
    return next(s for s in SAMPLES if s.name == name)


ALL = dict(orders.ROWS_PER_DAY)
SOME = {day: count // 10 for day, count in ALL.items()}


@pytest.fixture(scope="module")
def order_batches():
    """A tenth of each day's orders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders, "ROWS_PER_DAY", SOME)
        yield list(orders.rows())


def test_the_catalogue_names_the_tables_that_the_guides_use():
    assert [s.name for s in SAMPLES] == ["orders", "types_all", "media", "documents"]
    assert all(s.comment for s in SAMPLES)


def test_a_day_of_orders_is_the_same_in_every_run(order_batches):
    spec, again = next(orders.rows())
    assert spec == order_batches[0][0]
    assert again.equals(order_batches[0][1])


def test_orders_has_two_million_rows_in_eight_days(order_batches):
    days = [str(spec) for spec, _ in order_batches]
    assert sum(ALL.values()) >= 2_000_000
    assert [batch.num_rows for _, batch in order_batches] == list(SOME.values())
    assert days == [f"ds=2024-01-0{day}" for day in range(1, 9)]


def test_batches_of_orders_are_valid_and_have_the_declared_types(order_batches):
    for _, batch in order_batches:
        batch.validate(full=True)
        assert batch.schema == orders.ARROW_SCHEMA
        assert tuple(batch.schema.names) == tuple(c.name for c in orders.SCHEMA.columns)


def test_orders_has_every_scalar_type_and_the_three_nested_ones():
    codes = {column.type.code for column in orders.SCHEMA.columns}
    wanted = {code for code in TypeCode if code >= 0} - {
        TypeCode.JSON,
        TypeCode.BLOB,
        TypeCode.VARIANT,
        TypeCode.INTERVAL_DAY_TIME,
        TypeCode.INTERVAL_YEAR_MONTH,
    }
    assert codes == wanted


def test_types_all_has_every_scalar_type():
    codes = {column.type.code for column in sample("types_all").schema.columns}
    nested = {TypeCode.ARRAY, TypeCode.MAP, TypeCode.STRUCT, TypeCode.BLOB, TypeCode.VARIANT}
    assert codes == {code for code in TypeCode if code >= 0} - nested - {
        TypeCode.INTERVAL_DAY_TIME,
        TypeCode.INTERVAL_YEAR_MONTH,
    }


def test_order_ids_increase_by_one_across_days(order_batches):
    ids = pa.concat_arrays([batch.column("id") for _, batch in order_batches])
    assert ids.null_count == 0
    assert pc.count_distinct(ids).as_py() == len(ids)
    assert pc.max(ids).as_py() - pc.min(ids).as_py() + 1 == len(ids)


def test_orders_were_created_on_their_day(order_batches):
    for spec, batch in order_batches:
        usual = batch.filter(pc.not_equal(batch.column("status"), "probe"))
        days = pc.unique(usual.column("created").cast(pa.date32())).to_pylist()
        assert [day.isoformat() for day in days] == [dict(spec.items)["ds"]]


def test_orders_have_nulls_in_the_expected_columns(order_batches):
    batch = order_batches[0][1]
    empty = {name for name in batch.schema.names if batch.column(name).null_count}
    assert empty == {"note", "shipped", "shop", "weight", "tags", "attrs", "address"}


def test_the_probe_rows_have_nulls_and_extremes_in_each_column(order_batches):
    _, last = order_batches[-1]
    tail = last.slice(last.num_rows - len(PROBES))
    assert tail.column("status").to_pylist() == ["probe"] * len(PROBES)
    for name in set(tail.schema.names) - {"id", "status"}:
        assert tail.column(name).null_count >= 1, name
        assert tail.column(name).null_count < len(PROBES), name
    ints = {"priority": 8, "shop": 16, "quantity": 32}
    for name, bits in ints.items():
        values = set(tail.column(name).to_pylist())
        assert {-(2 ** (bits - 1)), 2 ** (bits - 1) - 1} <= values


def test_map_keys_are_unique_within_a_row(order_batches):
    attrs = order_batches[0][1].column("attrs").slice(0, 5000).to_pylist()
    filled = [row for row in attrs if row]
    assert len(filled) > 500
    assert all(len({key for key, _ in row}) == len(row) for row in filled)


def test_amounts_are_positive_and_plausible(order_batches):
    amounts = order_batches[0][1].column("amount")
    assert pc.min(amounts).as_py() > 0
    assert 20 < pc.mean(amounts).as_py() < 500


def test_char_and_varchar_fit_their_length(order_batches):
    for name in ("currency", "sku"):
        kind = orders.SCHEMA.find(name).type
        assert isinstance(kind, LengthType)
        for _, batch in (order_batches[0], order_batches[-1]):
            lengths = pc.utf8_length(batch.column(name))
            assert pc.max(lengths).as_py() <= kind.length


def test_media_has_about_forty_files_including_malformed_ones():
    contents = media()
    assert len(contents) >= 40
    assert any(blob is None for blob in contents)
    assert any(blob is not None and blob.data == b"" for blob in contents)
    assert any(
        blob and blob.mime_type == "image/png" and blob.data.startswith(b"<!DOCTYPE html")
        for blob in contents
    )


def test_media_names_agree_with_the_blobs():
    ((_, batch),) = sample("media").rows(lambda *_: b"")
    for row, blob in zip(batch.to_pylist(), media(), strict=True):
        if blob is not None:
            assert (row["name"], row["declared"] or "") == (blob.file_name, blob.mime_type)


def test_the_decompression_bomb_is_a_small_file_and_a_huge_picture():
    bomb = sample_file("144_megapixels.png")
    assert len(bomb) < 20_000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        assert Image.open(io.BytesIO(bomb)).size == (12_000, 12_000)


def test_the_pictures_are_complete():
    traps = {"144_megapixels.png", "cut_short.jpg", "not_a_picture.png"}
    opened = 0
    for blob in media():
        name = "" if blob is None else blob.file_name
        if name.endswith((".png", ".jpg", ".gif", ".webp", ".bmp")) and name not in traps:
            Image.open(io.BytesIO(blob.data)).load()
            opened += 1
    assert opened >= 15


def test_the_cross_references_of_the_pdf_are_correct():
    data = sample_file("invoice.pdf")
    start = int(data.split(b"startxref\n")[1].split()[0])
    lines = data[start:].split(b"\n")
    assert lines[0] == b"xref"
    count = int(lines[1].split()[1])
    for number, line in enumerate(lines[3 : 2 + count], 1):
        place = int(line.split()[0])
        assert data[place:].startswith(b"%d 0 obj" % number)


def test_documents_nest_blobs_in_lists_of_structs():
    schema = sample("documents").schema
    pages = schema.find("pages").type
    assert isinstance(pages, ArrayType)
    assert isinstance(pages.element, StructType)
    assert [(f.name, f.type.code) for f in pages.element.fields] == [
        ("title", TypeCode.STRING),
        ("page", TypeCode.BIGINT),
        ("image", TypeCode.BLOB),
    ]


def test_references_replace_each_blob_in_place():
    seen = []

    def store(data: bytes, mime_type: str, file_name: str) -> bytes:
        assert (data[:4], mime_type) == (b"\x89PNG", "image/png")
        seen.append(file_name)
        return b"ref:" + file_name.encode()

    ((_, batch),) = sample("documents").rows(store)
    batch.validate(full=True)
    rows = batch.to_pylist()
    assert rows[0]["pages"][0]["image"] == b"ref:annual_report_1.png"
    assert rows[1]["pages"][1] == {"title": "Lease, page 2", "page": 2, "image": None}
    assert rows[4]["pages"] == []
    assert rows[5]["pages"] is None
    assert len(seen) == 11


def test_decimal_and_map_columns_match_the_schema():
    assert orders.SCHEMA.find("amount").type == DecimalType(18, 2)
    assert isinstance(orders.SCHEMA.find("attrs").type, MapType)
