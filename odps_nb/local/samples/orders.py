"""The ``orders`` table: eight days of a small shop, two million rows from seeded generators.

The last rows of the last day (``status = 'probe'``) contain the extreme values of each type.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odps_nb.local.store.arrow_types import arrow_schema
from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec
from odps_nb.wire.type_text import parse_columns

#: Number of rows for each day; weekends have more orders.
ROWS_PER_DAY = {
    "2024-01-01": 231_072,
    "2024-01-02": 243_008,
    "2024-01-03": 248_124,
    "2024-01-04": 252_416,
    "2024-01-05": 259_840,
    "2024-01-06": 284_316,
    "2024-01-07": 278_608,
    "2024-01-08": 250_616,
}

_COLUMNS = """
id bigint comment 'increases from day to day',
customer string comment 'name of the customer',
amount decimal(18,2) comment 'amount due, in the currency of the row',
quantity int comment 'pieces',
status string comment 'new, paid, shipped, returned, cancelled (or probe)',
note string comment 'note by the customer, in any script; usually null',
created datetime comment 'an instant',
shipped timestamp comment 'an instant; null if not yet shipped',
local_time timestamp_ntz comment 'time on the clock of the shop',
due date comment 'date when payment is due',
priority tinyint comment '0 … 9',
shop smallint comment 'number of the shop',
discount float comment 'fraction of the price',
weight double comment 'kg',
gift boolean comment 'whether to gift-wrap it',
digest binary comment 'six bytes of a checksum',
currency char(3) comment 'ISO 4217',
sku varchar(12) comment 'article number',
tags array<string> comment 'any words',
attrs map<string,string> comment 'options of the article',
address struct<city:string,zip:string,lat:double,lon:double>
    comment 'shipping address; null if collected in the shop'
"""
SCHEMA = TableSchema(
    columns=parse_columns(_COLUMNS),
    partition_columns=parse_columns("ds string not null comment 'day, UTC'"),
)
ARROW_SCHEMA = arrow_schema(SCHEMA.columns)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FIRST = _words(
    "Ada Amélie Anders Asha Björn Carla Dmitri Élodie Fatima Grace Hana Ingrid Jonas Kenji "
    "Łucja Mateo Nadia Olga Paulo Quinn Ravi Søren Tomás Uma Vera Wei Xiù Yara Zoë 小明 美玲 "
    "さくら 지우"
)
_LAST = _words(
    "Almeida Bauer Chen Dubois Eriksen Fischer García Haddad Ivanova Jensen Kowalski Larsen "
    "Müller Novák O'Brien Petrov Quispe Rossi Šimek Tanaka Ueda Vásquez Weiß Xu Yılmaz Żak 王 李"
)
_NOTES = (
    "leave it at the door",
    "please ring twice",
    "gift for my mother",
    "Bitte beim Nachbarn abgeben, danke!",
    "À livrer après 18 h, s’il vous plaît",
    "Entregar por la mañana — ¡gracias!",
    "Позвоните за час до доставки",
    "请放在门口，谢谢",
    "配達は午後にお願いします",
    "문 앞에 놓아 주세요",
    "يرجى الاتصال قبل التوصيل",
    "कृपया शाम को पहुँचाएँ",
    "Παρακαλώ μετά τις πέντε",
    "נא לצלצל בפעמון",
    "fragile 🏺 handle with ❤️ — 👩‍👩‍👧 is waiting",
    "quotes \" and ' and \\ and, commas; and\ttabs",
    "two\nlines",
    "<b>bold</b> & <script>alert('a value is not markup')</script>",
    "",
)
_STATUS = ("new", "paid", "shipped", "returned", "cancelled")
_STATUS_SHARE = (0.08, 0.17, 0.66, 0.05, 0.04)
_CURRENCIES = ("EUR", "USD", "CNY", "JPY", "INR")
_TAGS = ("new", "sale", "eco", "bulk", "express", "loyal", "first order", "季节", "prêt-à-porter")
_ATTRS = (
    ("colour", ("red", "blue", "black", "white", "vert", "紅")),
    ("size", ("S", "M", "L", "XL", "42")),
)
_CITIES = (
    ("Hangzhou", "310000", 30.27, 120.16),
    ("Berlin", "10115", 52.53, 13.38),
    ("São Paulo", "01000-000", -23.55, -46.63),
    ("Nairobi", "00100", -1.29, 36.82),
    ("Mumbai", "400001", 18.94, 72.84),
    ("Kraków", "31-000", 50.06, 19.94),
    ("東京", "100-0001", 35.68, 139.76),
    ("القاهرة", "11511", 30.04, 31.24),
    ("Québec", "G1R", 46.81, -71.21),
    ("Wellington", "6011", -41.29, 174.78),
)

_MILLI_OF_DAY = 86_400_000
_Ints = npt.NDArray[np.integer[Any]]


def rows() -> Iterator[tuple[PartitionSpec, pa.RecordBatch]]:
    """Yield the rows, one batch per day."""
    first_id = 1_000_001
    for number, (day, count) in enumerate(ROWS_PER_DAY.items()):
        probes = PROBES if number == len(ROWS_PER_DAY) - 1 else ()
        batch = _day(number, day, first_id, count - len(probes))
        if probes:
            batch = _with_probes(batch, first_id + batch.num_rows)
        yield PartitionSpec((("ds", day),)), batch
        first_id += count


def _day(number: int, day: str, first_id: int, count: int) -> pa.RecordBatch:
    rng = np.random.default_rng((20240101, number))
    midnight = int(np.datetime64(day, "ms").astype(np.int64))
    created = midnight + np.sort(rng.integers(0, _MILLI_OF_DAY, count))
    status = np.searchsorted(np.cumsum(_STATUS_SHARE[:-1]), rng.random(count))
    quantity = rng.geometric(0.35, count).astype(np.int32)
    columns = [
        pa.array(np.arange(first_id, first_id + count, dtype=np.int64)),
        _customers(rng, count),
        _amounts(rng, quantity),
        pa.array(quantity),
        _pick(_STATUS, status),
        _pick(_NOTES, rng.integers(0, len(_NOTES), count), mask=rng.random(count) < 0.85),
        pa.array(created.astype("datetime64[ms]")),
        _shipped(rng, created, status),
        pa.array(((created + 8 * 3_600_000) * 1_000_000).astype("datetime64[ns]")),
        pa.array((midnight // _MILLI_OF_DAY + rng.integers(7, 31, count)).astype(np.int32)).view(
            pa.date32()
        ),
        pa.array(rng.integers(0, 10, count, dtype=np.int8)),
        pa.array(rng.integers(1, 420, count, dtype=np.int16), mask=rng.random(count) < 0.02),
        pa.array((rng.integers(0, 9, count) * 0.05).astype(np.float32)),
        pa.array(np.round(rng.gamma(2.0, 0.8, count), 3), mask=rng.random(count) < 0.05),
        pa.array(rng.random(count) < 0.12),
        _digests(rng, count),
        _pick(_CURRENCIES, rng.integers(0, len(_CURRENCIES), count)),
        _skus(rng, count),
        _tags(rng, count),
        _attrs(rng, count),
        _addresses(rng, count),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def _pick(words: tuple[str, ...] | list[str], index: _Ints, mask: Any = None) -> pa.Array:
    """Return the words at the given indexes; masked rows are null."""
    return pa.array(words, pa.utf8()).take(pa.array(index.astype(np.int32), mask=mask))


def _customers(rng: np.random.Generator, count: int) -> pa.Array:
    names = [f"{first} {last}" for first in _FIRST for last in _LAST]
    # squared uniform numbers favour the start of the list, so a few customers order often
    index = (rng.random(count) ** 2 * len(names)).astype(np.int32)
    return _pick(names, index)


def _amounts(rng: np.random.Generator, quantity: _Ints) -> pa.Array:
    count = len(quantity)
    cents = (rng.gamma(2.2, 1800.0, count) + 199).astype(np.int64) * quantity
    # decimal128 is a little-endian 128-bit integer: the low word, then its sign extension
    words = np.empty((count, 2), dtype="<i8")
    words[:, 0] = cents
    words[:, 1] = cents >> 63
    return pa.Array.from_buffers(pa.decimal128(18, 2), count, [None, pa.py_buffer(words)])


def _shipped(rng: np.random.Generator, created: _Ints, status: _Ints) -> pa.Array:
    hours = rng.gamma(3.0, 6.0, len(created))
    nanos = created * 1_000_000 + (hours * 3.6e12).astype(np.int64)
    not_sent = ~np.isin(status, (2, 3))
    return pa.array(nanos.astype("datetime64[ns]"), mask=not_sent)


def _digests(rng: np.random.Generator, count: int) -> pa.Array:
    width = 6
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    data = rng.bytes(count * width)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _skus(rng: np.random.Generator, count: int) -> pa.Array:
    words = [
        f"{chr(65 + n % 26)}{chr(65 + n // 26 % 26)}-{n * 7919 % 10000:04}" for n in range(2000)
    ]
    return _pick(words, rng.integers(0, len(words), count))


def _offsets(lengths: _Ints, present: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the offsets of a list array; rows that are not ``present`` are null."""
    ends = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=ends[1:])
    return pa.array(ends, mask=np.append(~present, False))


def _tags(rng: np.random.Generator, count: int) -> pa.Array:
    present = rng.random(count) < 0.6
    lengths = rng.integers(0, 4, count) * present
    words = _pick(_TAGS, rng.integers(0, len(_TAGS), int(lengths.sum())))
    return pa.ListArray.from_arrays(
        _offsets(lengths, present), words, type=ARROW_SCHEMA.field("tags").type
    )


def _attrs(rng: np.random.Generator, count: int) -> pa.Array:
    present = rng.random(count) < 0.4
    lengths = rng.integers(0, len(_ATTRS) + 1, count) * present
    total = int(lengths.sum())
    # the n-th entry of a row has the n-th key, so keys never repeat within a row
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    nth = np.arange(total) - starts
    keys = tuple(key for key, _ in _ATTRS)
    values = [value for _, choices in _ATTRS for value in choices]
    sizes = np.array([len(choices) for _, choices in _ATTRS])
    first = np.cumsum(sizes) - sizes
    index = first[nth] + (rng.random(total) * sizes[nth]).astype(np.int64)
    return pa.MapArray.from_arrays(
        _offsets(lengths, present), _pick(keys, nth), _pick(values, index)
    )


def _addresses(rng: np.random.Generator, count: int) -> pa.Array:
    city = rng.integers(0, len(_CITIES), count)
    names, zips, lats, lons = zip(*_CITIES, strict=True)
    jitter = rng.normal(0.0, 0.05, (2, count))
    members = [
        _pick(names, city),
        _pick(zips, city, mask=rng.random(count) < 0.1),
        pa.array(np.round(np.array(lats)[city] + jitter[0], 5)),
        pa.array(np.round(np.array(lons)[city] + jitter[1], 5)),
    ]
    collected = pa.array(rng.random(count) < 0.07)
    return pa.StructArray.from_arrays(
        members, fields=list(ARROW_SCHEMA.field("address").type), mask=collected
    )


def _with_probes(batch: pa.RecordBatch, first_id: int) -> pa.RecordBatch:
    probes = [
        {**probe, "id": first_id + number, "status": "probe"} for number, probe in enumerate(PROBES)
    ]
    tail = pa.RecordBatch.from_pylist(probes, schema=ARROW_SCHEMA)
    return pa.Table.from_batches([batch, tail]).combine_chunks().to_batches()[0]


_LAST_INSTANT = dt.datetime(9999, 12, 31, 23, 59, 59, 999000)
# the range that the real service sends in nanoseconds: 1970-01-01 to 2038-01-19 03:14:07
_NANO_MIN, _NANO_MAX = 0, 2**31 * 10**9 - 1

#: One dict per row of extreme values; columns not listed are null.
PROBES: tuple[dict[str, Any], ...] = (
    {},
    {
        "amount": decimal.Decimal("-9999999999999999.99"),
        "quantity": -(2**31),
        "note": "",
        "created": dt.datetime(1, 1, 1),
        "shipped": _NANO_MIN,
        "local_time": _NANO_MIN,
        "due": dt.date(1, 1, 1),
        "priority": -128,
        "shop": -(2**15),
        "discount": float("-inf"),
        "weight": float("-inf"),
        "gift": False,
        "digest": b"",
        "currency": "",
        "sku": "",
        "tags": [],
        "attrs": [],
        "address": {"city": "", "zip": "", "lat": -90.0, "lon": -180.0},
    },
    {
        "customer": "Zażółć gęślą jaźń 😀",
        "amount": decimal.Decimal("9999999999999999.99"),
        "quantity": 2**31 - 1,
        "note": "x" * 4096,
        "created": _LAST_INSTANT,
        "shipped": _NANO_MAX,
        "local_time": _NANO_MAX,
        "due": dt.date(9999, 12, 31),
        "priority": 127,
        "shop": 2**15 - 1,
        "discount": float("inf"),
        "weight": float("inf"),
        "gift": True,
        "digest": bytes(range(256)),
        "currency": "€£¥",
        "sku": "界" * 12,
        "tags": ["", None, "a\u0000b"],
        "attrs": [("", ""), ("null", None), ("clé", "värde")],
        "address": {"city": None, "zip": None, "lat": None, "lon": None},
    },
    {
        "amount": decimal.Decimal("0.00"),
        "quantity": 0,
        "discount": float("nan"),
        "weight": float("nan"),
        "created": dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
        "shipped": 1,
        "local_time": 0,
        "due": dt.date(1970, 1, 1),
    },
)
