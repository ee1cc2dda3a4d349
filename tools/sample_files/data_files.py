"""Generates sample data files: JSON, CSV, Parquet, Arrow, NumPy, archives."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_CITIES = (
    ("Hangzhou", "杭州", 30.27, 120.16, 11_936_000),
    ("Berlin", "Berlin", 52.52, 13.40, 3_755_000),
    ("São Paulo", "São Paulo", -23.55, -46.63, 11_451_000),
    ("Nairobi", "Nairobi", -1.29, 36.82, 4_397_000),
    ("Mumbai", "मुंबई", 18.94, 72.84, 12_442_000),
    ("Kraków", "Kraków", 50.06, 19.94, 804_000),
    ("Tokyo", "東京", 35.68, 139.76, 13_960_000),
    ("Cairo", "القاهرة", 30.04, 31.24, 10_100_000),
    ("Québec", "Québec", 46.81, -71.21, 549_000),
    ("Wellington", "Te Whanganui-a-Tara", -41.29, 174.78, 216_000),
)


def order_json() -> bytes:
    """JSON: one order, nested."""
    order = {
        "id": 1000001,
        "customer": {
            "name": "小明 Chen",
            "vip": True,
            "address": {"city": "Hangzhou", "zip": "310000"},
        },
        "lines": [
            {"sku": "VA-6299", "name": "teapot, blue", "quantity": 3, "price": "24.99"},
            {"sku": "OL-2188", "name": "kettle, copper", "quantity": 1, "price": "58.00"},
        ],
        "note": "ring twice; <b>not</b> bold",
        "shipped": None,
        "totals": {"net": 111.74, "tax": 21.23, "gross": 132.97},
    }
    return json.dumps(order, ensure_ascii=False).encode()


def cities_csv() -> bytes:
    """CSV with quotes: cities."""
    rows = [f'{name},"{own}",{lat},{lon},{people}' for name, own, lat, lon, people in _CITIES]
    return ("city,own_name,lat,lon,people\n" + "\n".join(rows) + "\n").encode()


def scores_tsv() -> bytes:
    """TSV: a small table of marks."""
    rng = np.random.default_rng(2)
    names = ("Ada", "Björn", "Chen", "Dmitri", "Élodie", "Fatima", "Grace")
    lines = ["name\tmaths\tmusic\tsport"]
    lines += [name + "".join(f"\t{mark}" for mark in rng.integers(40, 100, 3)) for name in names]
    return ("\n".join(lines) + "\n").encode()


def telemetry_csv() -> bytes:
    """CSV of about 900 KB: more than a viewer should show on one page."""
    rng = np.random.default_rng(9)
    seconds = np.arange(24_000)
    heat = np.repeat(20 + 3 * np.sin(seconds[::60] / 900), 60)  # minute steps compress well
    volts = np.repeat(230 + rng.normal(0, 1.5, seconds.size // 60), 60)
    lines = [
        f"2024-01-01,{s},{h:.3f},{v:.2f},ok" for s, h, v in zip(seconds, heat, volts, strict=True)
    ]
    return ("day,second,celsius,volts,state\n" + "\n".join(lines) + "\n").encode()


def _table() -> pa.Table:
    rng = np.random.default_rng(4)
    count = 500
    return pa.table(
        {
            "id": pa.array(range(1, count + 1), pa.int64()),
            "city": pa.array([_CITIES[n][0] for n in rng.integers(0, len(_CITIES), count)]),
            "celsius": pa.array(np.round(rng.normal(14, 8, count), 2)),
            "rain": pa.array(rng.random(count) < 0.3),
            "words": pa.array([["<i>", "wet"] if n % 3 else None for n in range(count)]),
        }
    )


def parquet() -> bytes:
    """Parquet: 500 rows of weather."""
    out = io.BytesIO()
    pq.write_table(_table(), out, compression="zstd")
    return out.getvalue()


def arrow_file() -> bytes:
    """Arrow IPC file: the same weather data."""
    return _ipc(_table(), pa.ipc.new_file)


def arrow_stream() -> bytes:
    """Arrow IPC stream: the first rows of the weather data."""
    return _ipc(_table().slice(0, 40), pa.ipc.new_stream)


def _ipc(table: pa.Table, new: Callable[..., Any]) -> bytes:
    out = io.BytesIO()
    with new(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def npy() -> bytes:
    """NumPy array: 32 × 8 numbers."""
    return _npy_of(np.round(np.random.default_rng(6).normal(size=(32, 8)), 3))


def npz() -> bytes:
    """NumPy archive of two arrays."""
    return zip_of([("weights.npy", npy()), ("labels.npy", _npy_of(np.arange(10, dtype=np.int16)))])


def _npy_of(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def zip_of(files: Sequence[tuple[str, bytes]]) -> bytes:
    """Return a ZIP of ``(name, content)`` pairs, all dated 2024-01-01."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), content)
    return out.getvalue()


def zip_file() -> bytes:
    """ZIP of a few files, one with a path outside of the archive."""
    return zip_of(
        [
            ("readme.txt", b"hello\n"),
            ("data/cities.csv", cities_csv()),
            ("data/order.json", order_json()),
            ("../../outside.txt", b"a careless program would write this elsewhere\n"),
            ("图片/说明.txt", "说明\n".encode()),
        ]
    )


def tar_gz() -> bytes:
    """tar.gz of three logs."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for day in (1, 2, 3):
            content = f"2024-01-0{day} all is well\n".encode() * 40
            member = tarfile.TarInfo(f"logs/2024-01-0{day}.log")
            member.size, member.mtime = len(content), 1704067200
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)
