"""Every difference between the PySpark versions that odps_nb supports.

No other module compares PySpark versions or uses an API that some versions lack, except the data
source modules in ``odps_nb.spark.source``, which need PySpark 4.0.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

from odps_nb.errors import MissingDependencyError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.errors import QueryContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_QUERY_LOGS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_CAUSE = re.compile(r"Caused by: [\w.$]+: \[([A-Z0-9_.]+)\] ")
MINIMUM = (3, 5)
DATA_SOURCES = (4, 0)
"""The first version with Python data sources: ``format("odps")``, catalog entries and streams."""
CONNECT = (4, 0)
"""The first version whose Spark Connect client runs our tasks and reports their progress."""


def pyspark_version() -> tuple[int, int]:
    """Return (major, minor) of the installed pyspark."""
    hint = "pip install 'odps-nb[spark]'"
    try:
        import pyspark
    except ImportError:
        raise MissingDependencyError("pyspark is not installed", extra="spark", hint=hint) from None
    major, minor = (int(part) for part in pyspark.__version__.split(".")[:2])
    if (major, minor) < MINIMUM:
        raise MissingDependencyError(
            f"pyspark {pyspark.__version__} is too old; {_text(MINIMUM)} or newer is needed",
            extra="spark",
            hint=hint,
        )
    return major, minor


def require_data_sources(name: str) -> None:
    """Raise unless pyspark has Python data sources; ``name`` is the function that needs them."""
    version = pyspark_version()
    if version < DATA_SOURCES:
        raise MissingDependencyError(
            f"odps_nb.spark.{name} needs PySpark 4.0 or newer, which has Python data sources, but "
            f"PySpark {_text(version)} is installed",
            extra="spark",
            hint="use odps_nb.spark.read, sql and write, and foreachBatch for a stream; or install "
            "PySpark 4.0 or newer",
        )


def require_connect() -> None:
    """Raise unless pyspark has the Spark Connect client that odps_nb needs."""
    version = pyspark_version()
    if version < CONNECT:
        raise MissingDependencyError(
            f"a remote Spark session needs PySpark 4.0 or newer, but PySpark {_text(version)} is "
            "installed",
            extra="connect",
            hint="omit remote= (and unset SPARK_REMOTE) and pass the address of the cluster with "
            "master=, or install PySpark 4.0 or newer",
        )


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def struct_of(ddl: str) -> StructType:
    """Return the type that a string such as ``"id bigint, name string"`` describes."""
    from pyspark.sql import types

    parse: Any = getattr(types.StructType, "fromDDL", None) or types._parse_datatype_string
    return cast("StructType", parse(ddl))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for batches from a Python worker."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Up to 4.1, pyspark always uses UTC and lacks this parameter; later versions require it.
    zone: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    )
    return to_arrow_schema(schema, **zone)


def to_arrow(df: DataFrame) -> pa.Table:
    """Return the rows of a DataFrame as an Arrow table."""
    if hasattr(df, "toArrow"):
        return df.toArrow()
    import pyarrow as pa

    batches, schema = cast("Any", df)._collect_as_arrow(), arrow_schema(df.schema)
    # the batches have the time zone of the session, which may differ from that of the schema
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def from_arrow(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return a DataFrame of the rows of an Arrow table."""
    if pyspark_version() >= (4, 0):
        return spark.createDataFrame(rows, schema)
    batches = rows.cast(arrow_schema(schema)).to_batches()

    def local_rows(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return spark.range(0, 1, 1, 1).mapInArrow(local_rows, schema)


def grouped(df: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows partitioned by these keys; Spark splits large partitions again."""
    quoted = [f"`{name}`" for name in keys]
    if pyspark_version() < (4, 0):  # `DataFrame.hint` accepts no columns
        text = f"select /*+ rebalance({', '.join(quoted)}) */ * from {{rows}}"
        return df.sparkSession.sql(text, rows=df)
    from pyspark.sql import functions as F

    return df.hint("rebalance", *map(F.col, quoted))


def condition_and_text(failure: BaseException) -> tuple[str, str]:
    """Return the error condition, such as ``UNRESOLVED_COLUMN.WITH_SUGGESTION``, and the message.

    Before PySpark 4.0, the error of a task is a py4j error with the cause in its text.
    """
    ask: Any = getattr(failure, "getCondition", None) or getattr(failure, "getErrorClass", None)
    text = str(failure)
    if ask is None and (found := _CAUSE.search(text)):
        return found[1], text[found.start(1) - 1 :]
    return (ask and ask()) or type(failure).__name__, text


def parameters_of(failure: BaseException) -> Mapping[str, str]:
    """Return the parameters of an error's message."""
    ask: Any = getattr(failure, "getMessageParameters", None)
    return dict((ask and ask()) or {})  # before 4.0, a Java map; ``None`` for missing keys


def contexts_of(failure: BaseException) -> Sequence[QueryContext]:
    """Return the query positions that the error refers to; empty before PySpark 4.0."""
    ask: Any = getattr(failure, "getQueryContext", None)
    return (ask and ask()) or ()


def query_loggers() -> list[logging.Logger]:
    """Return the loggers to which pyspark writes failed queries; empty before PySpark 4.0."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        return []
    # The first call for a name determines the logger's class, so use pyspark's own getLogger.
    return [PySparkLogger.getLogger(name) for name in _QUERY_LOGS]
