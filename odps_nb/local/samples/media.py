"""The ``media`` table: some forty files of many kinds in one BLOB column (side ``local``).

Real files, made by code. A few are traps: an empty one, a corrupt one, one whose label lies, one
with far too many pixels, pages and pictures with scripts inside, a name that is markup.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from odps_nb.local.samples import data_files, papers, pictures, recordings
from odps_nb.local.samples.values import SampleBatch, SampleBlob
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import PartitionSpec

__all__ = ["ARROW_SCHEMA", "SCHEMA", "blobs", "rows"]

SCHEMA = TableSchema(
    columns=(
        Column(name="id", type=PrimitiveType(TypeCode.BIGINT)),
        Column(name="name", type=PrimitiveType(TypeCode.STRING), comment="file name"),
        Column(
            name="declared",
            type=PrimitiveType(TypeCode.STRING),
            comment="what the uploader says it is; not always true",
        ),
        Column(name="content", type=PrimitiveType(TypeCode.BLOB), comment="the file"),
    )
)
ARROW_SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.utf8()), ("declared", pa.utf8()), ("content", pa.binary())]
)


def _pictures() -> Iterator[tuple[str, str, bytes | None]]:
    mountains = pictures.mountains()
    yield "mountains.jpg", "image/jpeg", mountains
    yield "mandelbrot.png", "image/png", pictures.mandelbrot()
    yield "julia.webp", "image/webp", pictures.julia()
    yield "voronoi.png", "image/png", pictures.voronoi()
    yield "kaleidoscope.webp", "image/webp", pictures.kaleidoscope()
    yield "orders_per_day.png", "image/png", pictures.bar_chart()
    yield "rose.svg", "image/svg+xml", papers.rose()
    yield "life.gif", "image/gif", pictures.life()
    yield "waves.jpg", "image/jpeg", pictures.waves()
    yield "prism.png", "image/png", pictures.prism()
    yield "orders_by_hour.webp", "image/webp", pictures.heat_map()
    yield "terrain_16bit.png", "image/png", pictures.terrain()
    yield "spinner.gif", "image/gif", pictures.spinner()
    yield "turned_by_exif.jpg", "image/jpeg", pictures.sideways()
    yield "inks_cmyk.jpg", "image/jpeg", pictures.print_colours()
    yield "rings.bmp", "image/bmp", pictures.bitmap()


def _recordings() -> Iterator[tuple[str, str, bytes | None]]:
    yield "melody.wav", "audio/wav", recordings.melody()
    yield "chord.wav", "audio/x-wav", recordings.chord()
    yield "melody.mp3", "audio/mpeg", recordings.song()
    yield "drift.mp4", "video/mp4", recordings.clip()


def _data() -> Iterator[tuple[str, str, bytes | None]]:
    yield "order.json", "application/json", data_files.order_json()
    yield "cities.csv", "text/csv", data_files.cities_csv()
    yield "scores.tsv", "text/tab-separated-values", data_files.scores_tsv()
    yield "weather.parquet", "application/vnd.apache.parquet", data_files.parquet()
    yield "weather.arrow", "application/vnd.apache.arrow.file", data_files.arrow_file()
    yield "weather.arrows", "application/vnd.apache.arrow.stream", data_files.arrow_stream()
    yield "weights.npy", "application/octet-stream", data_files.npy()
    yield "model.npz", "application/zip", data_files.npz()
    yield "telemetry.csv", "text/csv", data_files.telemetry_csv()


def _papers() -> Iterator[tuple[str, str, bytes | None]]:
    yield "invoice.pdf", "application/pdf", papers.pdf()
    yield "report.html", "text/html", papers.report()
    yield "feed.xml", "application/xml", papers.feed()
    for name, text in papers.POEMS:
        yield name, "text/plain", text.encode()
    yield "utf16.txt", "text/plain; charset=utf-16", "sixteen bits: Ω ≈ 世界\n".encode("utf-16")
    yield "bundle.zip", "application/zip", data_files.zip_file()
    yield "logs.tar.gz", "application/gzip", data_files.tar_gz()


def _traps() -> Iterator[tuple[str, str, bytes | None]]:
    yield "you_have_won.html", "text/html", papers.HOSTILE_HTML
    yield "script_inside.svg", "image/svg+xml", papers.HOSTILE_SVG
    yield "not_a_picture.png", "image/png", papers.HOSTILE_HTML
    yield "144_megapixels.png", "image/png", pictures.bomb()
    yield "cut_short.jpg", "image/jpeg", pictures.mountains()[:600]
    yield "random.bin", "application/octet-stream", np.random.default_rng(1).bytes(4097)
    yield "empty.dat", "", b""
    yield (
        '"><img src=x onerror=alert(1)>.txt',
        "text/<b>plain",
        b"the name of this file is markup\n",
    )
    yield "nothing", "", None


def blobs() -> Iterator[SampleBlob | None]:
    """Make the files, in the order of the table; ``None`` is a null cell."""
    for _, _, blob in _files():
        yield blob


def _files() -> Iterator[tuple[str, str, SampleBlob | None]]:
    optional = {"melody.mp3", "drift.mp4"}
    for group in (_pictures, _recordings, _data, _papers, _traps):
        for name, declared, data in group():
            if data is not None:
                yield name, declared, SampleBlob(data=data, mime_type=declared, file_name=name)
            elif name not in optional:
                yield name, declared, None


def rows() -> Iterator[SampleBatch]:
    """Make the rows: one batch."""
    names, declared, contents = map(list, zip(*_files(), strict=True))
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(range(1, len(names) + 1), pa.int64()),
            pa.array(names, pa.utf8()),
            pa.array([label or None for label in declared], pa.utf8()),
            pa.nulls(len(names), pa.binary()),
        ],
        schema=ARROW_SCHEMA,
    )
    yield SampleBatch(partition=PartitionSpec(), batch=batch, blobs={"content": contents})
