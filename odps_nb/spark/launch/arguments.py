"""Says which argument is of a wrong kind, as two that stand in each other's place are."""

from __future__ import annotations

from odps_nb.errors import ArgumentError

__all__ = ["check_dataframe", "check_session"]


def check_session(spark: object) -> None:
    """Raise `ArgumentError` unless this is a session of Spark, classic or Connect."""
    _check("spark", spark, "a Spark session", "createDataFrame", "(spark, odps, …)")


def check_dataframe(df: object) -> None:
    """Raise `ArgumentError` unless this is a DataFrame of Spark, classic or Connect."""
    _check("df", df, "a DataFrame of Spark", "sparkSession", "(df, odps, table)")


def _check(argument: str, value: object, wanted: str, has: str, order: str) -> None:
    # by its own class: an import of Spark Connect's needs packages that not everybody has
    of_spark = any(kind.__module__.split(".")[0] == "pyspark" for kind in type(value).__mro__)
    if not (of_spark and hasattr(type(value), has)):
        raise ArgumentError(
            f"{argument} is a {type(value).__name__}, not {wanted}",
            argument=argument,
            hint=f"the order of arguments is {order}",
        )
