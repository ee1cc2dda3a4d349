"""The rows of the ``types_all`` table: each scalar type once, with its extremes."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

# written as text: negating a Decimal would round it to the 28 digits of the default context
_NINES = "9" * 20 + "." + "9" * 18

#: The rows, in order; columns not listed are null.
ROWS: tuple[dict[str, Any], ...] = (
    {
        "row_name": "usual",
        "c_tinyint": 7,
        "c_smallint": 700,
        "c_int": 70_000,
        "c_bigint": 7_000_000_000,
        "c_float": 0.5,
        "c_double": 3.141592653589793,
        "c_boolean": True,
        "c_decimal": decimal.Decimal("12.5"),
        "c_decimal_38_0": decimal.Decimal(42),
        "c_decimal_10_4": decimal.Decimal("1234.5678"),
        "c_string": "grüße, 世界 👋",
        "c_char": "abc",
        "c_varchar": "twelve chars",
        "c_binary": b"\x00\x01\xfe\xff",
        "c_date": dt.date(2024, 2, 29),
        "c_datetime": dt.datetime(2024, 2, 29, 12, 30, 45, 123000),
        "c_timestamp": 1_709_209_845_123_456_789,
        "c_timestamp_ntz": 1_709_209_845_123_456_789,
        "c_json": '{"a": [1, 2.5, null, "x"], "b": {"c": true}}',
    },
    {
        "row_name": "least",
        "c_tinyint": -128,
        "c_smallint": -(2**15),
        "c_int": -(2**31),
        "c_bigint": -(2**63) + 1,  # MaxCompute reserves -2**63
        "c_float": -3.4028234663852886e38,
        "c_double": -1.7976931348623157e308,
        "c_boolean": False,
        "c_decimal": decimal.Decimal("-" + _NINES),
        "c_decimal_38_0": decimal.Decimal("-" + "9" * 38),
        "c_decimal_10_4": decimal.Decimal("-999999.9999"),
        "c_string": "",
        "c_char": "",
        "c_varchar": "",
        "c_binary": b"",
        "c_date": dt.date(1, 1, 1),
        "c_datetime": dt.datetime(1, 1, 1),
        "c_timestamp": 0,  # no reads in nanoseconds before 1970 or after 2038-01-19
        "c_timestamp_ntz": 0,
        "c_json": "{}",
    },
    {
        "row_name": "most",
        "c_tinyint": 127,
        "c_smallint": 2**15 - 1,
        "c_int": 2**31 - 1,
        "c_bigint": 2**63 - 1,
        "c_float": 3.4028234663852886e38,
        "c_double": 1.7976931348623157e308,
        "c_boolean": True,
        "c_decimal": decimal.Decimal(_NINES),
        "c_decimal_38_0": decimal.Decimal("9" * 38),
        "c_decimal_10_4": decimal.Decimal("999999.9999"),
        "c_string": "𝒵" * 1000,
        "c_char": "zzzzz",
        "c_varchar": "界" * 20,
        "c_binary": bytes(range(256)) * 16,
        "c_date": dt.date(9999, 12, 31),
        "c_datetime": dt.datetime(9999, 12, 31, 23, 59, 59, 999000),
        "c_timestamp": 2**31 * 10**9 - 1,
        "c_timestamp_ntz": 2**31 * 10**9 - 1,
        "c_json": '[{"deep": [[[[[[1]]]]]]}]',
    },
    {"row_name": "infinite", "c_float": float("inf"), "c_double": float("-inf")},
    {"row_name": "not a number", "c_float": float("nan"), "c_double": float("nan")},
    {"row_name": "tiny", "c_float": 1.401298464324817e-45, "c_double": 5e-324},
    {
        "row_name": "before 1970",
        "c_date": dt.date(1969, 12, 31),
        "c_datetime": dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
    },
    {"row_name": "nothing"},
)
