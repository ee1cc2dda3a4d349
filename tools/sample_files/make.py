"""Write the sample tables that are shipped as Parquet; by default all of them.

    python tools/sample_files/make.py [types_all] [media] [documents]

The results are checked in (``odps_nb/local/samples``), because the bytes depend on the versions
of Pillow, PyAV and pyarrow, and tests and guides state sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import data_files
import numpy as np
import papers
import pictures
import pyarrow as pa
import pyarrow.parquet as pq
import recordings
from types_all import ROWS

from odps_nb.local.samples.files import TYPES_ALL
from odps_nb.local.store.arrow_types import arrow_schema

TARGET = Path(__file__).resolve().parents[2] / "odps_nb" / "local" / "samples"
Files = Iterator[tuple[str, str, bytes | None]]
MEDIA = pa.schema(
    {"id": pa.int64(), "name": pa.string(), "declared": pa.string(), "content": pa.binary()}
)
PAGE = pa.struct({"title": pa.string(), "page": pa.int64(), "image": pa.binary()})
DOCUMENTS = pa.schema({"id": pa.int64(), "title": pa.string(), "pages": pa.list_(PAGE)})
# title, number of pages; None: a null list
TITLES = (
    ("Annual report", 4),
    ("Lease", 2),
    ("Recipe book", 3),
    ("Lab notes", 3),
    ("Lost", 0),
    ("Never scanned", None),
)


def _pictures() -> Files:
    yield "mountains.jpg", "image/jpeg", pictures.mountains()
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


def _recordings() -> Files:
    yield "melody.wav", "audio/wav", recordings.melody()
    yield "chord.wav", "audio/x-wav", recordings.chord()
    yield "melody.mp3", "audio/mpeg", recordings.song()
    yield "drift.mp4", "video/mp4", recordings.clip()


def _data() -> Files:
    yield "order.json", "application/json", data_files.order_json()
    yield "cities.csv", "text/csv", data_files.cities_csv()
    yield "scores.tsv", "text/tab-separated-values", data_files.scores_tsv()
    yield "weather.parquet", "application/vnd.apache.parquet", data_files.parquet()
    yield "weather.arrow", "application/vnd.apache.arrow.file", data_files.arrow_file()
    yield "weather.arrows", "application/vnd.apache.arrow.stream", data_files.arrow_stream()
    yield "weights.npy", "application/octet-stream", data_files.npy()
    yield "model.npz", "application/zip", data_files.npz()
    yield "telemetry.csv", "text/csv", data_files.telemetry_csv()


def _papers() -> Files:
    yield "invoice.pdf", "application/pdf", papers.pdf()
    yield "report.html", "text/html", papers.report()
    yield "feed.xml", "application/xml", papers.feed()
    for name, text in papers.POEMS:
        yield name, "text/plain", text.encode()
    yield "utf16.txt", "text/plain; charset=utf-16", "sixteen bits: Ω ≈ 世界\n".encode("utf-16")
    yield "bundle.zip", "application/zip", data_files.zip_file()
    yield "logs.tar.gz", "application/gzip", data_files.tar_gz()


def _traps() -> Files:
    yield "you_have_won.html", "text/html", papers.HOSTILE_HTML
    yield "script_inside.svg", "image/svg+xml", papers.HOSTILE_SVG
    yield "not_a_picture.png", "image/png", papers.HOSTILE_HTML
    yield "144_megapixels.png", "image/png", pictures.bomb()
    yield "cut_short.jpg", "image/jpeg", pictures.mountains()[:600]
    yield "random.bin", "application/octet-stream", np.random.default_rng(1).bytes(4097)
    yield "empty.dat", "", b""
    markup = b"the name of this file is markup\n"
    yield '"><img src=x onerror=alert(1)>.txt', "text/<b>plain", markup
    yield "nothing", "", None


def types_all() -> pa.Table:
    return pa.Table.from_pylist(list(ROWS), arrow_schema(TYPES_ALL.columns))


def media() -> pa.Table:
    groups = (_pictures, _recordings, _data, _papers, _traps)
    names, declared, contents = zip(*(file for group in groups for file in group()), strict=True)
    labels = [label or None for label in declared]
    return pa.table([range(1, len(names) + 1), names, labels, contents], schema=MEDIA)


def documents() -> pa.Table:
    pages = [
        None if count is None else [_page(title, number, count) for number in range(1, count + 1)]
        for title, count in TITLES
    ]
    titles = [title for title, _ in TITLES]
    return pa.table([range(1, len(titles) + 1), titles, pages], schema=DOCUMENTS)


def _page(title: str, number: int, count: int) -> dict[str, object]:
    # a null BLOB inside a struct
    lost = title == "Lease" and number == 2
    image = None if lost else pictures.page(title, number, count)
    return {"title": f"{title}, page {number}", "page": number, "image": image}


def main() -> None:
    made = {"types_all": types_all, "media": media, "documents": documents}
    for name in sys.argv[1:] or made:
        path = TARGET / f"{name}.parquet"
        pq.write_table(
            made[name](),
            path,
            compression="zstd",
            compression_level=19,
            use_dictionary=False,
            write_statistics=False,
        )
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
