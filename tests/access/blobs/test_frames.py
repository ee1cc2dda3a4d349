"""A BLOB column in a DataFrame is displayed, keeps its dtype in pandas, and has ``series.odps``."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import odps_nb
from odps_nb.access.blobs.frames import FrameBlobs
from odps_nb.access.connection import Connection
from odps_nb.convert.blob_columns.blob_array import BlobArray, BlobDtype
from odps_nb.errors import ArgumentError, ConversionError, NotFoundError, StateError
from tests.support.named import NewName

pytestmark = pytest.mark.storage_api("blobs")

CONTENTS = {1: b"one", 2: b"two, longer", 3: None, 4: b"one"}


@pytest.fixture(scope="module")
def name(odps: Connection) -> str:
    """A table with four rows, one without a blob."""
    table = "frame_blobs"
    blobs = [
        None if one is None else odps_nb.NewBlob(one, "text/plain", f"{key}.txt")
        for key, one in CONTENTS.items()
    ]
    rows = pd.DataFrame({"id": list(CONTENTS), "kind": list("abab"), "content": blobs})
    odps.create_table(table, rows)
    return table


@pytest.fixture
def frame(odps: Connection, name: str) -> pd.DataFrame:
    """The rows of the table, as read."""
    found = odps.table(name).read().to_pandas()
    return found.sort_values("id", ignore_index=True)


def contents(odps: Connection, column: pd.Series) -> list[bytes | None]:
    return [None if one is None else odps.blob(one).bytes() for one in column]


def test_a_frame_shows_known_metadata_of_its_blobs_without_a_request(
    odps: Connection, name: str
) -> None:
    with odps_nb.connect(odps.profile) as other:
        frame = other.table(name).read().to_pandas().sort_values("id", ignore_index=True)
        before = repr(frame)
        assert before.count("blob …") == 3
        assert "==" not in before
        assert frame["content"].odps.size().tolist() == [3, 11, pd.NA, 3]
        assert frame["content"].odps.mime().dropna().unique().tolist() == ["text/plain"]
        head = other.table(name).head()
    for shown in (repr(frame), frame.to_html(), repr(head), repr(frame.iloc[1:]["content"])):
        assert "2.txt · text/plain · 11 B" in shown  # the connection is already closed
    assert "None" in repr(frame)
    assert repr(frame["content"].dtype) == "blob"
    assert "dtype: blob" in repr(frame["content"])
    with pytest.raises(StateError, match="closed"):
        head["content"].odps.save(".")


def test_malicious_file_names_are_shown_as_text(odps: Connection) -> None:
    from odps_nb.client.blob.response import BlobHead

    heads = {"aGk=": BlobHead(size=5, mime_type="a/b\x1b[2J", file_name="<b>\u202ex\n" + "y" * 99)}
    column = pd.Series(BlobArray._from_sequence(["aGk="], dtype=BlobDtype(FrameBlobs(odps, heads))))
    text = repr(column)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()[0]) < 80
    assert "<b>" not in column.to_frame("c").to_html()


def test_pandas_operations_keep_the_blob_dtype(odps: Connection, frame: pd.DataFrame) -> None:
    texts = frame["content"].tolist()
    other = pd.DataFrame({"id": [2, 9], "more": ["x", "y"]})
    derived = {
        "filter": frame[frame["id"] > 1],
        "copy": frame.copy(),
        "deepcopy": copy.deepcopy(frame),
        "concat": pd.concat([frame, frame.iloc[:1]]),
        "merge": frame.merge(other, on="id", how="left"),
        "outer": frame.merge(other, on="id", how="outer"),
        "sort": frame.sort_values("id", ascending=False),
        "sample": frame.sample(3, random_state=1),
        "dropna": frame.dropna(),
        "reindex": frame.reindex([0, 7]),
        "first": frame.groupby("kind").first(),
        "head": frame.groupby("kind").head(1),
        "drop": frame.drop_duplicates("content"),
        "set_index": frame.set_index("id"),
        "explode": frame.assign(kind=[["a"]] * 4).explode("kind"),
        "fillna": frame.fillna({"content": texts[0]}),
        "where": frame.where(frame["id"] > 2),
        "shift": frame.shift(1),
        "assign": frame.assign(again=frame["content"]),
    }
    for verb, found in derived.items():
        assert isinstance(found["content"].dtype, BlobDtype), verb
        assert "==" not in repr(found), verb
        if verb != "deepcopy":
            assert found["content"].odps.size().notna().sum() == found["content"].notna().sum()
    assert len(derived["dropna"]) == 3
    assert len(derived["fillna"].dropna()) == 4
    assert len(derived["drop"]) == 4  # each row has its own blob
    assert derived["first"]["content"].tolist() == [texts[0], texts[1]]
    assert frame["content"].isna().tolist() == [False, False, True, False]
    assert frame["content"].nunique() == 3
    assert (frame["content"] == texts[1]).tolist()[:2] == [False, True]
    assert frame["content"].isin(texts[:1]).tolist() == [True, False, False, False]
    assert frame["content"].astype(str).tolist()[:2] == texts[:2]
    assert frame["content"].astype(object).tolist() == texts
    handles = frame["content"].dropna().map(odps.blob)
    assert [blob.bytes() for blob in handles] == [b"one", b"two, longer", b"one"]
    assert frame["content"].dropna().map(len).dtype == "int64"
    assert isinstance(frame["content"].mask(frame["id"] > 2).ffill().dtype, BlobDtype)
    assert len(frame.merge(frame, on="content")) == 4
    assert len(frame.query("content == @texts[0]")) == 1
    pd.testing.assert_frame_equal(frame, frame.copy())
    changed = frame.copy()
    changed.loc[0, "content"] = texts[1]
    changed.loc[1, "content"] = None
    changed.loc[2:3, "content"] = [odps.blob(texts[0]), None]
    assert changed["content"].tolist() == [texts[1], None, texts[0], None]
    assert frame["content"].tolist() == texts
    with pytest.raises(TypeError, match="not a blob reference"):
        changed.loc[0, "content"] = 5
    assert frame["content"].sort_values().notna().sum() == 3
    assert len(frame.pivot(index="id", columns="kind", values="content")) == 4


def test_saved_pickled_and_converted_frames_contain_the_references(
    odps: Connection, frame: pd.DataFrame, tmp_path: Path
) -> None:
    texts, file = frame["content"].tolist(), tmp_path / "frame.parquet"
    frame["content"].odps.size()
    again = pickle.loads(pickle.dumps(frame))
    assert again["content"].tolist() == texts
    assert "2.txt · text/plain" in repr(again)
    assert again["content"].odps.mime()[0] == "text/plain"  # the same connection is used
    frame.to_parquet(file)
    with pytest.raises(StateError, match="no connection for fetching") as lost:
        pd.read_parquet(file)["content"].odps.mime()
    assert "connection=odps" in (lost.value.hint or "")
    assert pd.read_parquet(file)["content"].odps.mime(connection=odps)[0] == "text/plain"
    assert isinstance(pd.read_parquet(file)["content"].dtype, BlobDtype)
    assert pd.read_parquet(file)["content"].tolist() == texts
    read = "import pandas as pd, sys; print(pd.read_parquet(sys.argv[1])['content'][0])"
    out = subprocess.run(
        [sys.executable, "-c", read, file], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == texts[0]  # in a process without odps_nb
    assert texts[1] in frame.to_csv()
    assert pd.read_json(io.StringIO(frame.to_json()))["content"][0] == texts[0]
    assert duckdb.sql("select content from frame where id = 2").fetchall() == [(texts[1],)]
    polars = pl.from_pandas(frame)
    assert polars["content"].odps.size(connection=odps).to_list() == [3, 11, None, 3]
    assert np.asarray(frame["content"]).tolist() == texts


def test_writing_a_blob_column_copies_its_blobs(
    odps: Connection, frame: pd.DataFrame, new_name: NewName, tmp_path: Path
) -> None:
    file = tmp_path / "frame.parquet"
    frame.to_parquet(file)
    sources = (
        frame,
        pickle.loads(pickle.dumps(frame)),
        pa.Table.from_pandas(frame),
        pq.read_table(file),
    )
    for data in sources:
        table = odps.create_table(new_name("copied"), data)
        assert table.schema.columns[2].type.code.name == "BLOB"
        back = table.read().to_pandas().sort_values("id")
        assert contents(odps, back["content"]) == list(CONTENTS.values())
        assert back["content"].iloc[0] != frame["content"][0]
    reader = pa.Table.from_pandas(frame[["content"]], preserve_index=False).to_reader()
    assert (
        odps.create_table(new_name("streamed"), reader).blobs("content")[1].bytes() == CONTENTS[2]
    )
    with pytest.raises(ConversionError, match="a blob must be bytes or a Path, not a string"):
        odps.create_table(new_name("text"), "content blob").write(frame[["content"]].astype(str))


def test_blobs_of_a_column_can_be_saved_streamed_and_displayed(
    odps: Connection, frame: pd.DataFrame, tmp_path: Path
) -> None:
    chosen = frame[frame["id"] != 1].set_index("id")["content"]
    paths = chosen.odps.save(tmp_path)
    assert paths.index.tolist() == [2, 3, 4]
    assert [path and path.read_bytes() for path in paths] == list(CONTENTS.values())[1:]
    seen = [blob.read() for blob in chosen.odps.stream()]
    assert seen == [CONTENTS[2], CONTENTS[4]]
    gallery = chosen.odps.thumbnails()
    assert gallery.title == "content"
    assert [gallery.caption(place) for place in range(len(gallery))] == ["row 2", "row 4"]
    assert len(chosen.odps.thumbnails(1)) == 1
    with pytest.raises(ArgumentError, match="limit is -1"):
        chosen.odps.thumbnails(-1)
    assert "size, mime, thumbnails, save, stream" in repr(chosen.odps)
    plain = pd.Series(["not a blob reference"])
    with pytest.raises(ArgumentError, match="not a blob reference"):
        plain.odps.size(connection=odps)


def test_a_polars_series_has_the_same_methods(odps: Connection, name: str, tmp_path: Path) -> None:
    frame = pl.DataFrame(odps.table(name).read()).sort("id")
    column = frame["content"]
    assert column.odps.size(connection=odps).to_list() == [3, 11, None, 3]
    assert column.odps.mime(connection=odps).to_list()[0] == "text/plain"
    saved = column.odps.save(tmp_path, connection=odps).to_list()
    assert Path(saved[1]).read_bytes() == CONTENTS[2]
    assert column.odps.thumbnails(connection=odps).caption(2) == "row 3"
    with pytest.raises(StateError, match="no connection for fetching"):
        column.odps.size()
    found = odps.blobs(frame.filter(pl.col("id") > 1), "content", caption=["id", "kind"])
    assert found.caption(1) == "row 2 · id: 4 · kind: b"


def test_blobs_of_a_table_have_captions_with_short_values_of_their_rows(
    odps: Connection, new_name: NewName
) -> None:
    columns = "content blob, tags array<string>, seen timestamp, price decimal(9,2), "
    table = odps.create_table(new_name("captions"), columns + "name string, day date, more string")
    rows = {
        "content": [b"one", None, b"two"],
        "tags": [["a"], None, None],
        "price": [Decimal("1.50"), Decimal(2), None],
        "name": ["x" * 500, "b", "c\x1b"],
        "day": [date(2024, 1, 1), None, None],
        "more": ["never read", "never read", "never read"],
    }
    table.write(pd.DataFrame(rows))
    found = table.blobs("content")
    captions = [found.caption(place) for place in range(len(found))]
    assert captions == [
        f"price 1.50 · name {'x' * 100} · day 2024-01-01",
        "price null · name c\x1b · day null",
    ]
    assert (
        table.blobs("content", keep=lambda blob: blob.bytes() == b"two").caption(0) == captions[1]
    )
    assert "\x1b" not in found._repr_mimebundle_()["text/html"]
    alone = odps.create_table(new_name("alone"), "content blob")
    alone.write(pd.DataFrame({"content": [b"one"]}))
    assert alone.blobs().caption(0) == "blob 0"


def test_a_filtered_frame_becomes_a_gallery(odps: Connection, frame: pd.DataFrame) -> None:
    chosen = frame[frame["id"] > 1]
    gallery = odps.blobs(chosen, "content", caption="kind")
    assert repr(gallery) == "BlobColumn(2 blobs of content)"
    bundle = gallery._repr_mimebundle_()
    assert "row 1 · b" in bundle["text/html"]
    assert "2.txt  text · 1 line · 11 B  verified  row 1 · b" in bundle["text/plain"]
    assert "1.txt" not in bundle["text/html"]
    assert "2.txt · text/plain · 11 B" in repr(chosen)  # the gallery has fetched size and type
    assert [blob.bytes() for blob in gallery[1:]] == [CONTENTS[4]]
    assert gallery[1:].caption(0) == "row 3 · b"
    assert len(odps.blobs(frame, "content", limit=1)) == 1
    pairs = frame.set_index(["kind", "id"])
    assert odps.blobs(pairs, "content").caption(1) == "row b, 2"
    texts = frame.assign(content=frame["content"].astype(str).where(frame["content"].notna()))
    assert len(odps.blobs(texts, "content")) == 3
    assert len(odps.blobs(pa.Table.from_pandas(frame), "content", caption="id")) == 3
    with pytest.raises(NotFoundError) as missing:
        odps.blobs(frame, "contents")
    assert "did you mean 'content'?" in (missing.value.hint or "")
    with pytest.raises(ArgumentError, match="Series is not a table"):
        odps.blobs(frame["content"], "content")
    with pytest.raises(ArgumentError, match="is not a blob reference"):
        odps.blobs(frame, "kind")
