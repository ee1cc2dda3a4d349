"""What to say in place of an option that Delta, BigQuery or Spark's own formats have."""

from __future__ import annotations

__all__ = ["INSTEAD"]

_NOW = (
    "a table is read as it is now; odps.table(name).read(since=…, until=…) reads what versions "
    "added"
)
_COLUMNS = "a write changes no columns: run alter table … add columns with odps.sql(…)"
_PARTITIONS = (
    '.option("overwrite", "partitions") with mode overwrite replaces the partitions that get '
    'rows, .option("partition", "ds=x") that one'
)
_START = (
    "starting_version takes 'earliest', 'latest' or the number of a version; versions are not "
    "found by time"
)
_LIMIT = "max_versions_per_trigger or max_rows_per_trigger limit what a micro-batch reads"
_CHANGES = "changes are read by odps.table(name).read(since=…, changes=True)"
_TABLE = 'name the table: .option("table", "project.table"), or .load("project.table")'

#: By the folded name of the option.
INSTEAD = {
    "changes": _CHANGES,
    "dataset": _TABLE,
    "dbtable": _TABLE,
    "filter": "where is the option for a condition",
    "ignorechanges": "skip_overwrites leaves out versions that replaced rows",
    "ignoredeletes": "skip_overwrites leaves out versions that replaced rows",
    "maxbytespertrigger": _LIMIT,
    "maxfilespertrigger": _LIMIT,
    "maxoffsetspertrigger": _LIMIT,
    "mergeschema": _COLUMNS,
    "overwriteschema": _COLUMNS,
    "partitionoverwritemode": _PARTITIONS,
    "query": "odps_nb.spark.sql(spark, odps, …) runs a query, odps.sql(…) does on the service",
    "readchangedata": _CHANGES,
    "readchangefeed": _CHANGES,
    "replacewhere": _PARTITIONS,
    "skipchangecommits": "skip_overwrites leaves out versions that replaced rows",
    "starting_timestamp": _START,
    "startingoffsets": _START,
    "startingtimestamp": _START,
    "startingversion": _START,
    "timestampasof": _NOW,
    "versionasof": _NOW,
}
