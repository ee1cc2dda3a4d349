"""The ``media`` table: some forty files of many kinds in one BLOB column.

A song and a film are there where PyAV (extra ``previews``) is installed. A few files are traps:
empty, corrupt, wrongly declared, too many pixels, scripts inside, a name that is markup.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from odps_nb.local.samples import data_files, documents, pictures, recordings
from odps_nb.local.samples.values import SampleBatch, SampleBlob
from odps_nb.local.store.arrow_types import arrow_schema
from odps_nb.schema import TableSchema
from odps_nb.wire.type_text import parse_columns

SCHEMA = TableSchema(
    columns=parse_columns(
        "id bigint, name string comment 'file name',"
        " declared string comment 'what the uploader says it is; not always true',"
        " content blob comment 'the file'"
    )
)
ARROW_SCHEMA = arrow_schema(SCHEMA.columns)
_Files = Iterator[tuple[str, str, bytes | None]]


def _pictures() -> _Files:
    yield "mountains.jpg", "image/jpeg", pictures.mountains()
    yield "mandelbrot.png", "image/png", pictures.mandelbrot()
    yield "julia.webp", "image/webp", pictures.julia()
    yield "voronoi.png", "image/png", pictures.voronoi()
    yield "kaleidoscope.webp", "image/webp", pictures.kaleidoscope()
    yield "orders_per_day.png", "image/png", pictures.bar_chart()
    yield "rose.svg", "image/svg+xml", documents.rose()
    yield "life.gif", "image/gif", pictures.life()
    yield "waves.jpg", "image/jpeg", pictures.waves()
    yield "prism.png", "image/png", pictures.prism()
    yield "orders_by_hour.webp", "image/webp", pictures.heat_map()
    yield "terrain_16bit.png", "image/png", pictures.terrain()
    yield "spinner.gif", "image/gif", pictures.spinner()
    yield "turned_by_exif.jpg", "image/jpeg", pictures.sideways()
    yield "inks_cmyk.jpg", "image/jpeg", pictures.print_colours()
    yield "rings.bmp", "image/bmp", pictures.bitmap()


def _recordings() -> _Files:
    yield "melody.wav", "audio/wav", recordings.melody()
    yield "chord.wav", "audio/x-wav", recordings.chord()
    yield "melody.mp3", "audio/mpeg", recordings.song()
    yield "drift.mp4", "video/mp4", recordings.clip()


def _data() -> _Files:
    yield "order.json", "application/json", data_files.order_json()
    yield "cities.csv", "text/csv", data_files.cities_csv()
    yield "scores.tsv", "text/tab-separated-values", data_files.scores_tsv()
    yield "weather.parquet", "application/vnd.apache.parquet", data_files.parquet()
    yield "weather.arrow", "application/vnd.apache.arrow.file", data_files.arrow_file()
    yield "weather.arrows", "application/vnd.apache.arrow.stream", data_files.arrow_stream()
    yield "weights.npy", "application/octet-stream", data_files.npy()
    yield "model.npz", "application/zip", data_files.npz()
    yield "telemetry.csv", "text/csv", data_files.telemetry_csv()


def _papers() -> _Files:
    yield "invoice.pdf", "application/pdf", documents.pdf()
    yield "report.html", "text/html", documents.report()
    yield "feed.xml", "application/xml", documents.feed()
    for name, text in documents.POEMS:
        yield name, "text/plain", text.encode()
    yield "utf16.txt", "text/plain; charset=utf-16", "sixteen bits: Ω ≈ 世界\n".encode("utf-16")
    yield "bundle.zip", "application/zip", data_files.zip_file()
    yield "logs.tar.gz", "application/gzip", data_files.tar_gz()


def _traps() -> _Files:
    yield "you_have_won.html", "text/html", documents.HOSTILE_HTML
    yield "script_inside.svg", "image/svg+xml", documents.HOSTILE_SVG
    yield "not_a_picture.png", "image/png", documents.HOSTILE_HTML
    yield "144_megapixels.png", "image/png", pictures.bomb()
    yield "cut_short.jpg", "image/jpeg", pictures.mountains()[:600]
    yield "random.bin", "application/octet-stream", np.random.default_rng(1).bytes(4097)
    yield "empty.dat", "", b""
    markup = b"the name of this file is markup\n"
    yield '"><img src=x onerror=alert(1)>.txt', "text/<b>plain", markup
    yield "nothing", "", None


def blobs() -> Iterator[SampleBlob | None]:
    """Return the files in the order of the table; ``None`` is a null cell."""
    return (blob for _, _, blob in _files())


def _files() -> Iterator[tuple[str, str, SampleBlob | None]]:
    optional = {"melody.mp3", "drift.mp4"}  # need PyAV
    for group in (_pictures, _recordings, _data, _papers, _traps):
        for name, declared, data in group():
            if data is not None:
                yield name, declared, SampleBlob(data=data, mime_type=declared, file_name=name)
            elif name not in optional:
                yield name, declared, None


def rows() -> Iterator[SampleBatch]:
    """Make the rows: one batch."""
    names, declared, contents = map(list, zip(*_files(), strict=True))
    columns = {
        "id": range(1, len(names) + 1),
        "name": names,
        "declared": [label or None for label in declared],
        "content": pa.nulls(len(names)),
    }
    batch = pa.RecordBatch.from_pydict(columns, schema=ARROW_SCHEMA)
    yield SampleBatch(batch=batch, blobs={"content": contents})
