"""Says what to call instead where Spark refuses, or would half do, something with ODPS tables.

Most of what Spark cannot do with a table of a Python source it refuses itself, in words that know
nothing of ODPS: such an error gets a note (PEP 678) with the call that works. Two calls it does
not refuse: ``saveAsTable`` and ``writeTo(…).using("odps")`` write all rows and leave a table in
Spark's catalog that nobody can read. PySpark has no hook for either, so its own functions are
wrapped, once in a process (`docs/decisions/spark.md`).
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from odps_nb.errors import ConfigError

__all__ = ["explain_refusals", "note_of"]

_ODPS = re.compile(r"\bodps\b")
_MARK = "_odps_nb"


class _Refusal(NamedTuple):
    """An error of Spark: its condition or a piece of its text, and what to do instead.

    ``named``: only where the text says odps; else the note says for whom it is.
    """

    sign: str
    instead: str
    named: bool = True


_ATTACH = (
    'odps_nb.spark.attach(spark, odps, "orders") makes the name odps.orders; '
    "odps_nb.spark.sql(spark, odps, …) needs none and reads only what the query needs"
)
_CREATE = 'odps_nb.spark.write(df, odps, "name", create=True) makes the table and writes it'
_OVERWRITE = (
    "odps_nb.spark.write(df, odps, table, overwrite='partitions') replaces the partitions that "
    "get rows, partition= with overwrite=True one of them"
)
_SERVICE = "run it on the service: odps.sql(…) or %%odps sql"
_UPSERT = f"odps.table(name).upsert(df), or {_SERVICE}"
_REFUSALS = (
    _Refusal("UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY", _ATTACH),
    _Refusal("TABLE_OR_VIEW_NOT_FOUND", _ATTACH),
    _Refusal("REQUIRES_SINGLE_PART_NAMESPACE", _ATTACH),
    _Refusal("SCHEMA_NOT_FOUND", _CREATE),
    _Refusal(
        "UNSUPPORTED_DATA_SOURCE_SAVE_MODE",
        'say .mode("append"), or .mode("overwrite"); odps.table(name).exists() tells whether it '
        "is there",
    ),
    _Refusal(
        "UNSUPPORTED_FEATURE.TIME_TRAVEL",
        "a table is read as it is now; odps.table(name).read(since=…, until=…) reads what "
        "versions added",
    ),
    _Refusal("does not support dynamic overwrite", _OVERWRITE),
    _Refusal("does not support overwrite by filter", _OVERWRITE),
    _Refusal("does not support deletes", _SERVICE),
    _Refusal("does not support truncates", "odps.table(name).truncate()"),
    _Refusal("does not support UPDATE", _SERVICE),
    _Refusal("does not support MERGE", _UPSERT),
    # PySpark 4.0 names no table in these two
    _Refusal("UPDATE TABLE is not supported", _SERVICE, named=False),
    _Refusal("MERGE INTO TABLE is not supported", _UPSERT, named=False),
    _Refusal("PARTITION_MANAGEMENT_IS_UNSUPPORTED", "odps.table(name).partitions() lists them"),
    _Refusal(
        "is `PythonDataSourceV2`. It doesn't match",
        'df.write.insertInto(name) or df.writeTo(name).append(), or say .format("odps")',
        named=False,
    ),
    _Refusal(
        "partitioning or clustering columns do not match",
        'for format("odps") leave partitionBy out: the rows go to the partitions that their own '
        "columns name",
        named=False,
    ),
    _Refusal(
        "NON_PARTITION_COLUMN",
        "an attached table takes partitions from the rows: insert into … select …, 'x' as ds; "
        'or odps_nb.spark.write(df, odps, table, partition="ds=x")',
        named=False,
    ),
)


def note_of(text: str) -> str | None:
    """Return what to do instead of what Spark has refused with this text, if it is known.

    >>> note_of("[UNSUPPORTED_FEATURE.TIME_TRAVEL] … on the relation: `odps`.`orders`")[:27]
    'odps_nb: a table is read as'
    """
    for refusal in _REFUSALS:
        if refusal.sign in text and (not refusal.named or _ODPS.search(text)):
            return f"odps_nb: {refusal.instead}"
    return None


def explain_refusals() -> None:
    """Wrap what the module says, of classic PySpark and, where it is in use, of Connect."""
    import pyspark.errors.exceptions.captured as captured
    import pyspark.sql.readwriter as classic

    _wrap(captured, "convert_exception", _noting)
    _guard(classic)
    if "pyspark.sql.connect.session" in sys.modules:  # which loads both
        _wrap(sys.modules["pyspark.sql.connect.client.core"], "convert_exception", _noting)
        _guard(sys.modules["pyspark.sql.connect.readwriter"])


def _guard(module: Any) -> None:
    _wrap(module.DataFrameWriter, "saveAsTable", _refusing_save)
    _wrap(module.DataFrameWriterV2, "using", _refusing_using)


def _wrap(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    function = getattr(owner, name, None)
    if function is not None and not hasattr(function, _MARK):
        wrapped = functools.wraps(function)(wrapper(function))
        setattr(wrapped, _MARK, True)
        setattr(owner, name, wrapped)


def _noting(convert: Callable[..., BaseException]) -> Callable[..., BaseException]:
    def converted(*args: Any, **named: Any) -> BaseException:
        error = convert(*args, **named)
        if note := note_of(str(error)):
            error.add_note(note)
        return error

    return converted


def _refusing_save(save: Callable[..., None]) -> Callable[..., None]:
    def save_as_table(
        self: Any, name: str, format: str | None = None, *args: Any, **named: Any
    ) -> None:
        if _is_ours(format or _source(self)) and not _is_there(self, name):
            raise ConfigError(
                "saveAsTable would write the rows and leave a table in Spark's catalog that "
                "cannot be read",
                option="saveAsTable",
                hint=f'save with .save("project.table"), or {_CREATE}',
            )
        save(self, name, format, *args, **named)

    return save_as_table


def _refusing_using(using: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def checked(self: Any, provider: str) -> Any:
        if _is_ours(provider):
            raise ConfigError(
                'writeTo(…).using("odps") would make a table in Spark\'s catalog that cannot be '
                "read",
                option="using",
                hint=f"{_CREATE}; rows for one that is there: "
                'odps_nb.spark.attach(spark, odps, "orders"), df.writeTo("odps.orders").append()',
            )
        return using(self, provider)

    return checked


def _is_ours(source: str | None) -> bool:
    name = (source or "").casefold()
    return name == "odps" or name.startswith("odps:")


def _source(writer: Any) -> str | None:
    """Return what ``format(…)`` was told, of a writer of either kind."""
    if remote := getattr(writer, "_write", None):
        return str(remote.source or "")
    return str(writer._jwrite.source())


def _is_there(writer: Any, name: str) -> bool:
    """Whether it is an attached table to which rows can be added."""
    remote = getattr(writer, "_write", None)
    mode = str(remote.mode if remote else writer._jwrite.curmode()).casefold()
    return mode != "overwrite" and bool(writer._spark.catalog.tableExists(name))
