"""Handles of blobs: the requests that their methods send, checksums, display, and saving."""

import pickle

import pandas as pd
import pyarrow as pa
import pytest

import odps_nb
from odps_nb.access.blob import Blob
from odps_nb.access.blobs.column import BlobColumn
from odps_nb.errors import ArgumentError, NotFoundError, PositionError
from odps_nb.terms import BlobReference

pytestmark = pytest.mark.storage_api("blobs")


@pytest.fixture
def written(odps, new_name):
    table = odps.create_table(new_name("b"), "id bigint, data blob")
    files = [
        odps_nb.NewBlob(b"x" * 300_000, mime_type="image/png", file_name="../../big.png"),
        odps_nb.NewBlob(b"", mime_type="text/plain", file_name="empty.txt"),
        odps_nb.NewBlob(b"small"),
        None,
    ]
    table.write(pd.DataFrame({"id": range(4), "data": files}))
    return table


def test_a_column_is_a_sequence_without_nulls(written):
    column = written.blobs("data")
    assert len(column) == 3
    assert [blob.size for blob in column] == [300_000, 0, 5]
    assert isinstance(column[1:], BlobColumn)
    assert len(column[1:]) == 2
    assert column[-1] == column[2]
    assert len(written.blobs("data", limit=1)) == 1
    assert len(written.blobs("data", where="id >= 1")) == 2
    assert repr(column) == f"BlobColumn(3 blobs of {written.name}.data)"
    assert repr(column[:1]) == f"BlobColumn(1 blob of {written.name}.data)"


def test_a_missing_position_raises_a_typed_index_error(odps):
    none = odps.table("media").blobs("content", where="name = 'no such file'")
    for position in (0, -1):
        with pytest.raises(PositionError, match=f"no blob {position}: .* has no blobs") as caught:
            none[position]
        assert caught.value.hint == "select other rows"
    with pytest.raises(IndexError, match="no blob 2: the sequence has 2 blobs"):
        odps.table("media").blobs("content", limit=2)[2]
    assert list(none) == []


def test_the_size_and_type_of_a_blob_are_known_without_reading_it(written):
    big, empty, small = written.blobs("data")
    assert (big.size, big.mime_type, big.file_name) == (300_000, "image/png", "../../big.png")
    assert (empty.size, empty.mime_type, empty.file_name) == (0, "text/plain", "empty.txt")
    assert (small.mime_type, small.file_name) == ("", "")
    assert not big.verified


def test_fetched_bytes_are_reported_as_verified(written):
    big = written.blobs("data")[0]
    assert big.bytes() == b"x" * 300_000
    assert big.verified
    assert "verified" in repr(big)


def test_a_blob_can_be_opened_as_a_sequential_stream(written):
    big, empty, _ = written.blobs("data")
    with big.open() as stream:
        assert stream.read(10) == b"x" * 10
        buffer = bytearray(100)
        assert stream.readinto(buffer) == 100
        assert len(stream.read()) == 300_000 - 110
        assert stream.read() == b""
    with empty.open() as stream:
        assert stream.read() == b""
    with big.open() as stream:
        stream.read(1)  # the stream may be closed early


def test_a_repr_sends_no_request_and_shows_no_bytes():
    blob = Blob(None, BlobReference.from_raw(b"r" * 1000))
    assert len(repr(blob)) < 60
    new = odps_nb.NewBlob(b"x" * 10**6, mime_type="image/png")
    assert repr(new) == "NewBlob(<1.0 MB>, mime_type='image/png')"


def test_a_blob_is_saved_under_a_safe_unused_name(written, tmp_path):
    big, empty, small = written.blobs("data")
    assert big.save(tmp_path) == tmp_path / "big.png"
    assert big.save(tmp_path) == tmp_path / "big-2.png"
    assert (tmp_path / "big.png").read_bytes() == b"x" * 300_000
    assert big.save(tmp_path, overwrite=True) == tmp_path / "big.png"
    assert big.verified
    assert empty.save(str(tmp_path / "there.txt")).read_bytes() == b""
    assert small.save(tmp_path).name.startswith("blob-")
    assert small.save(tmp_path / "there.txt", overwrite=True).read_bytes() == b"small"
    assert len(list(tmp_path.iterdir())) == 4


def test_handles_of_the_same_blob_are_equal(odps):
    one, two = odps.blob("/wByZWYw"), odps.blob(b"/wByZWYw")
    assert one == two == odps.blob(BlobReference.from_raw(b"\xff\x00ref0"))
    assert len({one, two}) == 1
    assert one != "x"


def test_blobs_are_read_as_records_in_order(odps, written):
    tokens = [blob.reference.token for blob in written.blobs("data")]
    records = list(odps.blobs([*tokens, *reversed(tokens)]).fetch())
    assert [len(record.data) for record in records] == [300_000, 0, 5, 5, 0, 300_000]
    assert records[0].mime_type == "image/png"
    assert records[1].custom_file_name == "empty.txt"
    assert list(odps.blobs([]).fetch()) == []
    for token, record in zip(tokens, records, strict=False):  # one blob alone, too
        assert list(odps.blobs([token]).fetch()) == [record]
    early = odps.blobs(tokens).fetch()
    next(early)
    early.close()


def test_a_wrong_reference_is_refused_before_a_request(odps):
    with pytest.raises(ArgumentError, match="not a blob reference") as caught:
        odps.blobs(["/wByZWYw", "no reference!"]).fetch()
    assert "a BLOB column unchanged" in caught.value.hint
    with pytest.raises(NotFoundError):
        list(odps.blobs(["/wByZWYw", "/wByZWYw"]).fetch())
    with pytest.raises(ArgumentError):
        odps.blob("not base64!")
    for unknown in ("/wByZWYw", ""):
        for use in (lambda blob: blob.bytes(), lambda blob: blob.size):
            with pytest.raises(NotFoundError, match="does not know the blob") as missing:
                use(odps.blob(unknown))
            assert "use references from rows" in missing.value.hint


def test_a_record_survives_pickling_and_hides_its_bytes(odps, written):
    record = next(
        odps.blobs([written.blobs("data")[0].reference, written.blobs("data")[1].reference]).fetch()
    )
    assert len(repr(record)) < 200
    assert pickle.loads(pickle.dumps(record)).data == record.data


def test_a_column_of_blobs_without_a_limit_has_all_rows(odps, new_name) -> None:
    table = odps.create_table(new_name("thirty"), "id bigint, content blob")
    table.write(pa.table({"id": range(30), "content": [bytes([n]) for n in range(30)]}))
    column = table.blobs("content", progress=False)
    assert [blob.bytes() for blob in column[24:]] == [bytes([n]) for n in range(24, 30)]
    assert (len(column), len(table.blobs("content", limit=7, progress=False))) == (30, 7)
