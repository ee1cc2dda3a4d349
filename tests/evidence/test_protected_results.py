"""SQL results if a key may not read all of the query's tables (``docs/protocol.md`` section 3.14).

Sources: the vendor's manual (*InstanceTunnel*, limits) and pyodps (``Instance.open_reader``, which
falls back to the first 10,000 rows with a warning).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest
from odps import ODPS

from odps_nb.access.connection import Connection
from odps_nb.access.paging.browsing import rows_of
from odps_nb.errors import AccessDeniedError, explain
from odps_nb.local.server.launch import LocalService
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.view import RowView
from tests.support.reverse_proxy import Answer, Request, ReverseProxy
from tests.support.service.protected import NUMBERS, analyst_of, owner_of, protected_service


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    with protected_service(tmp_path_factory.mktemp("keys")) as running:
        yield running


@pytest.fixture(scope="module")
def analyst(protected: LocalService) -> Iterator[Connection]:
    with analyst_of(protected) as connection:
        yield connection


def test_a_key_without_read_permission_sees_the_schema_and_no_rows(analyst: Connection) -> None:
    table = analyst.table("numbers")
    assert table.schema.names == ("id",)
    with pytest.raises(AccessDeniedError, match="has no read permission"):
        table.read().to_pandas()


def test_a_small_result_is_returned_completely(analyst: Connection) -> None:
    result = analyst.sql(NUMBERS.format(9) + " and e.id < 999 order by n")
    found = result.to_pandas()["n"].to_list()
    assert found == [1000 * d + e for d in range(9) for e in range(999)]
    assert result.row_count == len(found)


@pytest.mark.parametrize("tens", [10, 11])
def test_a_large_result_returns_only_its_first_rows_with_a_warning(
    analyst: Connection, tens: int
) -> None:
    result = analyst.sql(NUMBERS.format(tens) + " order by n")
    with pytest.raises(AccessDeniedError) as caught:
        result.to_pandas()
    text = "\n".join(explain(caught.value))
    assert "only the first 10,000 rows" in text
    assert "result.first(10000)" in text
    for read in (result.first(10_001).to_arrow, partial(pa.table, result), result.reader):
        with pytest.raises(AccessDeniedError):
            read()
    first = result.first(10_000).to_pandas()["n"].to_list()
    assert first == [1000 * d + e for d in range(10) for e in range(1000)]
    assert result.is_cut
    assert not result.first(10_000).is_cut
    assert result.schema.names == ("n",)
    assert "10,000 rows or more" in repr(result)


class _FewRows(ReverseProxy):
    """Imitates a project whose property READ_TABLE_MAX_ROW is 100."""

    def changed(self, request: Request, answer: Answer) -> bytes:
        name = b"<Property><Name>READ_TABLE_MAX_ROW</Name><Value>100</Value></Property>"
        body = answer.body.replace(b"<Properties>", b"<Properties>" + name)
        return re.sub(rb'("RecordCount": ?)\d+', rb"\g<1>100", body)


@pytest.mark.parametrize("transfer", ["auto", "tunnel"])
def test_a_lower_limit_of_the_project_is_not_taken_for_the_end_of_a_result(
    protected: LocalService, transfer: str
) -> None:
    proxy = _FewRows(protected.endpoint)
    places = {"endpoint": f"{proxy.base}/api", "tunnel_endpoint": proxy.base}
    with proxy.running(), analyst_of(protected, transfer=transfer, **places) as analyst:
        result = analyst.sql(NUMBERS.format(1) + " order by n")
        with pytest.raises(AccessDeniedError, match="only the first 100 rows"):
            result.to_pandas()
        assert result.first(100).to_pandas()["n"].to_list() == list(range(100))
        assert "1–20 of 100" in result._repr_mimebundle_()["text/html"]


def test_the_permitted_rows_of_a_large_result_can_be_explored(analyst: Connection) -> None:
    result = analyst.sql(NUMBERS.format(11) + " order by n")
    shown = result._repr_mimebundle_()
    for text in shown.values():
        assert "first 10,000 rows; the access key has no permission for more" in text
    assert "1–20 of 10,000" in shown["text/html"]
    view = RowView(rows_of(result))
    assert view.page(9_900).columns[0][-1] == "9999"
    assert view.describe().columns
    view.choose(Choice(conditions=("n >= 9990",)))
    assert [int(text) for text in view.page(0).columns[0]] == list(range(9990, 10_000))
    view.choose(Choice(order=(("n", True),)))  # through SQL, which reads all rows
    assert view.page(0).columns[0][0] == "10999"


def test_a_key_with_read_permission_gets_all_rows(protected: LocalService) -> None:
    with owner_of(protected) as owner:
        assert owner.sql(NUMBERS.format(11)).to_pandas()["n"].nunique() == 11_000


@pytest.mark.compat
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_pyodps_falls_back_to_the_first_rows_of_a_result(protected: LocalService) -> None:
    entry = ODPS("analyst", "a-secret", project="ours", endpoint=protected.endpoint)
    instance = entry.execute_sql(NUMBERS.format(11))
    with (
        pytest.warns(UserWarning, match="10000 records will be limited"),
        instance.open_reader(tunnel=True) as reader,
    ):
        assert reader.count == 10_000
