"""Documented limits of table definitions, checked by the client and by the embedded service.

The sources are listed in ``docs/protocol.md`` section 9.6.
"""

from __future__ import annotations

import re

from odps_nb.schema import Column, DecimalType, LengthType, TableSchema, TypeCode, types_in
from odps_nb.type_facts import TYPE_FACTS

MAX_COLUMNS = 1200
MAX_PARTITION_LEVELS = 6
MAX_NAME_BYTES = 128
MAX_COMMENT_BYTES = 1024
PARTITION_TYPES = tuple(code for code, facts in TYPE_FACTS.items() if facts.partitions)

TIME_UNITS = ("year", "month", "day", "hour")

_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff"
_HAN = re.compile(f"[{_CHINESE}\uf900-\ufaff\U00020000-\U0003ffff]")
_COLUMN = re.compile(f"[A-Za-z0-9_'{_CHINESE}]+")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_PRECISION, _PLAIN_SCALE = 38, 18


def is_table_name(name: str) -> bool:
    """Whether a new table may have this name.

    The manual requires a letter at its beginning, but pyodps' ``test_session`` creates tables whose
    names begin with an underscore.
    """
    return bool(_TABLE.fullmatch(name)) and len(name) <= MAX_NAME_BYTES


def is_column_name(name: str) -> bool:
    """Whether a new table's column may have this name (back-quoted in SQL).

    The manual allows letters and digits; the test ``filterPushDownColumnNames`` of the vendor's
    Spark connector has columns ``44``, ``5列`` and ``'列七'`` (the quotes are part of the name).
    """
    return bool(_COLUMN.fullmatch(name)) and len(name.encode()) <= MAX_NAME_BYTES


def definition_problem(schema: TableSchema, comment: str = "") -> str | None:
    """Return a message about the first limit that a definition exceeds, or ``None``."""
    if len(schema.columns) > MAX_COLUMNS:
        return f"a table has at most {MAX_COLUMNS:,} columns; this one has {len(schema.columns):,}"
    if problem := _generated_problem(schema):
        return problem
    levels = len(schema.partition_columns)
    if levels > MAX_PARTITION_LEVELS:
        return f"a table has at most {MAX_PARTITION_LEVELS} partition levels; this one has {levels}"
    for column in schema.partition_columns:
        if column.type.code not in PARTITION_TYPES:
            return (
                f"{column.type.code.name} cannot be the type of the partition column "
                f"{column.name!r}; partition values are text (a day as '2024-01-31') or integers"
            )
        if "'" in column.name:
            return (
                f"a partition column cannot be named {column.name!r}: requests name partitions as "
                "key='value', where quotes are delimiters"
            )
    return _comment_problem(schema.all_columns, comment)


def partition_value_problem(column: Column, value: str) -> str | None:
    """Return a message if no new partition may have this value, else ``None``."""
    if column.type.code is TypeCode.STRING and _HAN.search(value):
        return (
            f"a value of the partition column {column.name!r} contains Chinese characters, which "
            f"STRING partitions do not support: {value!r}"
        )
    if isinstance(column.type, LengthType) and len(value) > column.type.length:
        return (
            f"a value of the partition column {column.name!r} has more than {column.type.length} "
            f"characters: {value[:80]!r}"
        )
    return None


def _generated_problem(schema: TableSchema) -> str | None:
    """Return a message if AUTO PARTITIONED BY is invalid, else ``None``."""
    for column in schema.partition_columns:
        made = column.generated
        if made is None:
            continue
        if len(schema.partition_columns) > 1:
            return "AUTO PARTITIONED BY allows only one partition column"
        if not made.source:
            return f"{made.text} must have one of the units {', '.join(TIME_UNITS)}"
        if (source := schema.source_of(column)) is None or source not in schema.columns:
            return f"{made.text} needs a date or time column {made.source!r}"
    return None


def _comment_problem(columns: tuple[Column, ...], comment: str) -> str | None:
    of_columns = ((f"the column {column.name!r}", column.comment) for column in columns)
    for what, text in (("the table", comment), *of_columns):
        if any("\ud800" <= sign <= "\udfff" for sign in text):
            return f"the comment of {what} contains a lone surrogate, which is not text"
        if (size := len(text.encode())) > MAX_COMMENT_BYTES:
            return f"the comment of {what} has {size:,} bytes; the limit is {MAX_COMMENT_BYTES:,}"
    return None


def decimal_settings(schema: TableSchema) -> dict[str, str]:
    """Return the SQL settings that the precision and scale of the DECIMAL columns require."""
    types = (one for column in schema.columns for one in types_in(column.type))
    sizes = [(one.precision or 0, one.scale or 0) for one in types if isinstance(one, DecimalType)]
    settings = {}
    if any(precision > _PLAIN_PRECISION for precision, _ in sizes):
        settings["odps.sql.decimal256.enable"] = "true"
    if any(p <= _PLAIN_PRECISION and scale > _PLAIN_SCALE for p, scale in sizes):
        settings["odps.sql.decimal2.extended.scale.enable"] = "true"
    return settings
