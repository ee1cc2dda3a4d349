"""``%%odps spark`` in a real shell, with a real Spark session if rows are needed."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest
from IPython.core.completer import provisionalcompleter

from odps_nb.errors import ArgumentError, NotFoundError
from tests.support.shell import run, usage_error


def texts(ip) -> list[str]:
    """Return the output of the last cell as text."""
    return [data["text/plain"] for data in ip.user_ns["shown"]]


def test_invalid_input_prints_one_line_and_starts_no_spark_session(ip):
    assert "needs a query" in usage_error(ip, "%%odps spark\n  ")
    assert "needs a query" in usage_error(ip, "%odps spark")
    assert "not a valid variable name" in usage_error(ip, "%%odps spark -o 1a\nselect 1")
    assert "invalid choice: 'batches'" in usage_error(ip, "%%odps spark -t batches\nselect 1")
    assert ":dya has no value" in usage_error(ip, "%%odps spark\nselect :dya")
    assert "--bg" in usage_error(ip, "%%odps spark --bg\nselect 1")
    assert "whole number above zero" in usage_error(ip, "%%odps spark -n 0\nselect 1")


def test_the_option_stop_stops_the_spark_session(ip):
    class Session:
        stopped = 0

        def stop(self):
            self.stopped += 1

    assert "no Spark session" in usage_error(ip, "%odps spark stop")
    ip.user_ns["spark"] = session = Session()
    assert "takes no cell" in usage_error(ip, "%%odps spark stop\nselect 1")
    run(ip, "%odps spark stop")
    assert session.stopped == 1
    assert "spark" not in ip.user_ns


@pytest.mark.spark
def test_a_new_session_is_assigned_to_a_variable(ip, spark_session):
    run(ip, "%%odps spark -t arrow\nselect 1 as one")
    assert ip.user_ns["spark"] is spark_session
    assert texts(ip)[0] == "spark ← the Spark session; %odps spark stop ends it"


def test_help_explains_the_differences_from_sql_on_the_service(ip):
    run(ip, "%odps spark?")
    (text,) = texts(ip)
    assert text.startswith("%%odps spark [-n N] [-o VAR]")
    said = " ".join(text.split())
    assert "Only the columns, partitions and rows that the query needs are read." in said
    run(ip, "%odps")
    assert "%%odps spark" in texts(ip)[0]


def test_tab_completes_tables_and_columns_in_spark_sql(ip):
    ip.magics_manager.registry["OdpsMagics"].context.names("tables", "")
    with provisionalcompleter():
        found = ip.Completer.completions("%%odps spark --dr", len("%%odps spark --dr"))
        assert "--dry-run" in [one.text for one in found]


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_a_dry_run_shows_what_would_be_read(ip):
    ip.user_ns["day"] = "2024-01-02"
    listing = run(
        ip,
        "%%odps spark --dry-run\nselect id from orders where ds = :day and status = 'it''s'"
        " and quantity > 3",
    )
    assert list(listing) == [
        ("orders", "4 of 22 columns · 1 partition (ds = '2024-01-02') · quantity > 3")
    ]
    assert len(run(ip, "%%odps spark --dry-run\nselect 1")) == 0
    with pytest.raises(NotFoundError) as caught:
        run(ip, "%%odps spark --dry-run\nselect * from orderz")
    assert "orders" in str(caught.value.hint)
    with pytest.raises(ArgumentError, match="is not a query"):
        run(ip, "%%odps spark --dry-run\ninsert into orders select 1")


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_a_spark_query_is_displayed_assigned_or_converted_to_pandas(ip, spark_session):
    from pyspark.sql import DataFrame

    ip.user_ns["spark"] = spark_session
    views = spark_session.catalog.listTables()
    ip.user_ns["state"] = "paid"
    query = "select id, status from orders where ds = '2024-01-02' and status = :state"
    first = run(ip, f"%%odps spark\n{query}")
    assert isinstance(first, pd.DataFrame)
    assert first.shape == (10, 2)
    assert set(first["status"]) == {"paid"}
    reads, more = texts(ip)[:2]
    assert reads == ("orders: 3 of 22 columns · 1 partition (ds = '2024-01-02') · status = 'paid'")
    assert more == "the first 10 rows; -n N shows more, -o VAR keeps all"

    assert run(ip, f"%%odps spark -o paid\n{query}") is None
    assert isinstance(ip.user_ns["paid"], DataFrame)
    assert texts(ip)[1] == "paid ← spark query · 2 columns, read when used"
    assert ip.user_ns["paid"].count() > 10

    assert run(ip, f"%%odps spark -o few -n 3 -t pandas -q\n{query}") is None
    assert texts(ip) == []
    assert ip.user_ns["few"].shape == (3, 2)
    table = run(ip, f"%%odps spark -t arrow -n 4\n{query}")
    assert isinstance(table, pa.Table)
    assert table.num_rows == 4
    with pytest.raises(NotFoundError, match="'statos'"):
        run(ip, "%%odps spark\nselect statos from orders")
    assert spark_session.catalog.listTables() == views
