"""Previews stay within their limits: decompressed sizes, bytes read, and sizes of tiles."""

import io
import json
import time
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from PIL import Image

from odps_nb.formats.kind import HEAD, MIB
from odps_nb.formats.shared import GRID, LIST, SINGLE
from odps_nb.notebook.preview.tile import TILE_BUDGET, tile
from tests.support.arrow_bodies import ipc
from tests.support.previews import Value, seen
from tests.support.samples import bomb, encode


def png(size=(8, 6), mode="RGB"):
    return encode(Image.new(mode, size, 1), "PNG")


def zstd_bomb():
    """A gigabyte of one line, compressed."""
    packer, piece = zstandard.ZstdCompressor().compressobj(), b"all work and no play\n" * 1_000_000
    return b"".join(packer.compress(piece) for _ in range(50)) + packer.flush()


EXPANDED = 64 * MIB


def arrow_bomb():
    zeros = pa.array(np.zeros(EXPANDED // 8 + 1))
    return ipc(pa.record_batch({"a": zeros}), compression="zstd")


def parquet_bomb():
    out = io.BytesIO()
    count = EXPANDED // 8 + 1
    options = {"compression": "zstd", "use_dictionary": False, "row_group_size": count}
    pq.write_table(pa.table({"a": np.zeros(count)}), out, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("side", "says"),
    [(12_000, "144 megapixels"), (20_000, "not decoded")],  # the second size exceeds Pillow's limit
)
def test_a_decompression_bomb_is_not_decoded(side, says):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = seen(bomb(side))
    assert says in page.text
    assert "img" not in page.tags


def test_pixels_just_below_the_limit_are_decoded():
    made = tile(Value(png((8000, 4999), "1")))
    assert "8000 × 4999" in made.text
    assert "<img" in made.html


@pytest.mark.nightly
def test_no_tile_is_larger_than_its_limit(drawn):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (900, 1400, 3), np.uint8))
    large = [
        Value(encode(noise, "PNG")),
        Value(b"RIFF\x00\x00\x00\x00WAVE" + bytes(400_000)),
        Value(b"RIFF\x00\x00\x00\x00WAVE" + bytes(3_000_000)),
        Value(("<svg >" + "<!-- -->" * 100_000).encode()),
        Value(("<p>" + "<" * 600_000).encode(), "text/html"),
        Value((",".join(["&" * 70] * 300) + "\n").encode() * 40),
        Value(json.dumps({"<" * 100 + str(n): "&" * 500 for n in range(400)}).encode()),
    ]
    made = [tile(blob, size=size, render=True) for size in (GRID, LIST, SINGLE) for blob in large]
    for each in [*made, *drawn(SINGLE).values()]:
        assert len(each.html.encode()) <= TILE_BUDGET + 16 * 1024


@pytest.mark.parametrize(
    ("start", "name", "says"),
    [
        (b"RIFF\x00\x00\x00\x00WAVE", "long.wav", "large sound"),
        (b"PAR1", "long.parquet", "too large to look inside"),
    ],
)
def test_the_tile_of_a_blob_that_is_too_large_says_how_to_save_it(start, name, says):
    data = start + bytes(9_000_000 - len(start))
    page = seen(data, "", name)
    assert "audio" not in page.tags
    assert says in page.text
    assert "first 65.5 kB of 9.0 MB" in page.text
    assert "save(path)" in page.text
    assert "verified" not in page.text


def test_only_the_head_of_a_large_blob_is_read():
    for data in (b"\x00" * 5_000_000, b"line of text\n" * 400_000, b"PAR1" + bytes(20_000_000)):
        blob = Value(data)
        tile(blob)
        assert blob.was_read == HEAD + 1
        assert blob.was_closed


@pytest.mark.parametrize(
    ("start", "limit"),
    [(b"<svg >", 2 * MIB + 1), (b"RIFF\x00\x00\x00\x00WAVE", 8 * MIB + 1)],
)
def test_a_blob_of_unknown_size_is_read_only_to_the_limit(start, limit):
    blob = Value(start + b" " * 9_000_000, size=False)
    made = tile(blob)
    assert blob.was_read <= limit
    assert made.size is None


def test_a_tile_stays_within_a_small_limit(samples):
    for blob in samples.values():
        assert len(tile(blob, budget=8_000).html) <= 8_000


def test_compressed_streams_are_decompressed_up_to_a_limit():
    page = seen(zstd_bomb())
    assert "all work and no play" in page.text


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_arrow_data_with_any_compression_is_shown(new, compression):
    words = pa.array(["tea", "cake", "tea"] * 50).dictionary_encode()
    table = pa.table({"id": range(150), "word": words, "empty": pa.nulls(150, pa.float64())})
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with new(out, table.schema, options=options) as writer:
        writer.write_table(table)
    page = seen(out.getvalue())
    assert "table" in page.tags
    assert "150 rows × 3 columns" in page.text
    assert "cake" in page.text


def test_times_are_shown_with_all_digits():
    times = pa.array([1, None, 2**62, 1_500_000_000], pa.timestamp("ns"))
    berlin = pa.array([0] * 4, pa.timestamp("us", "Europe/Berlin"))
    far = pa.array([0, 2**31 - 1, None, 1], pa.date32())
    out = io.BytesIO()
    pq.write_table(pa.table({"t": times, "b": berlin, "d": far}), out)
    page = seen(out.getvalue(), size=SINGLE)
    assert "1970-01-01 00:00:00.000000001" in page.text
    assert "1970-01-01 00:00:01.500000" in page.text
    assert "1970-01-01 01:00:00+01:00" in page.text
    assert "5881580-07-11" in page.text or "date32" in page.text


def test_times_inside_lists_maps_and_structs_are_shown_with_all_digits():
    nanos, spans = pa.timestamp("ns"), pa.duration("ns")
    columns = {
        "l": pa.array([[1, None], None], pa.list_(nanos)),
        "m": pa.array([[(1_000_000_000, 7)], []], pa.map_(nanos, spans)),
        "s": pa.array(
            [{"x": 1, "y": 2932897}, None], pa.struct([("x", nanos), ("y", pa.date32())])
        ),
        "d": pa.array([90_000_000_000, 1], spans),
    }
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    page = seen(out.getvalue(), size=SINGLE)
    for cell in (
        "['1970-01-01 00:00:00.000000001', None]",
        "[('1970-01-01 00:00:01', '7 ns')]",
        "{'x': '1970-01-01 00:00:00.000000001', 'y': '10000-01-01'}",
        "0:01:30",
        "1 ns",
    ):
        assert cell in page.text, page.text


HEADER = (900_000).to_bytes(8, "little")  # length of the header of a safetensors file


@pytest.mark.parametrize(
    ("before", "repeated", "after"),
    [
        (b"a b c\n1 2", b" ", b"x"),
        (b"3,", b"1", b"x\n4,5\n6,7\n"),
        (b"abc\n1\n", b"1", b"x\n"),
        (b"#a,b\n1", b" ", b"x,2\n3,4\n5,6\n"),
        (b"select a\nfrom b\nwhere c;\n" * 20, b"\n", b"x"),
        (b"#include <a.h>\nint main(void) {\n};\n" * 20, b"\n", b"x"),
        (HEADER + b'{"', b'\\"', b""),
    ],
)
def test_no_text_takes_much_longer_than_other_text_of_its_length(before, repeated, after):
    length = 1_000_000 if before.startswith(HEADER) else HEAD - 2000
    data = before + repeated * (length // len(repeated)) + after
    usual = (b"some words, and 12 numbers\n" * (len(data) // 27 + 1))[: len(data)]
    tile(Value(usual))  # loads the libraries
    seconds = []
    for text in (usual, data):
        start = time.process_time()
        tile(Value(text))
        seconds.append(time.process_time() - start)
    assert seconds[1] < 30 * seconds[0]
