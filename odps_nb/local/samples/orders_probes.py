"""The extreme values at the end of the ``orders`` table, as Python values."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

__all__ = ["PROBES"]

_LAST_INSTANT = dt.datetime(9999, 12, 31, 23, 59, 59, 999000)
# the times that the service gives in nanoseconds: 1970-01-01 to 2038-01-19 03:14:07
_NANO_MIN, _NANO_MAX = 0, 2**31 * 10**9 - 1

#: One dict per extreme row; a column that is not named is null.
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
