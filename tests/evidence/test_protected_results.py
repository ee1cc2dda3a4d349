"""Results of SQL where a key may not read all of their tables (``docs/protocol.md`` section 3.14).

Sources: the vendor's manual (*InstanceTunnel*, limits) and pyodps (``Instance.open_reader``, which
falls back to the first 10,000 rows with a warning).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pandas as pd
import pytest
from odps import ODPS

import odps_nb
from odps_nb.access.connection import Connection
from odps_nb.errors import AccessDeniedError, explain
from odps_nb.local.server.launch import LocalService, start

NUMBERS = "select d.id * 1000 + e.id as n from numbers d cross join numbers e where d.id < {}"


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """A service whose key ``analyst`` may query, but not download."""
    path = tmp_path_factory.mktemp("keys") / "credentials.json"
    keys = {"owner": "o-secret", "analyst": "a-secret"}
    path.write_text(json.dumps({"keys": keys, "rights": {"analyst": {"ours": "query"}}}))
    path.chmod(0o600)
    options = ("--credentials", str(path))
    with start(samples=False, project="ours", options=options) as running:
        with connect(running, "owner", "o-secret") as owner:
            owner.create_table("numbers", pd.DataFrame({"id": range(1000)}))
        yield running


def connect(service: LocalService, access_id: str, key: str) -> Connection:
    return odps_nb.connect(
        access_id=access_id, access_key=key, project="ours", endpoint=service.endpoint
    )


@pytest.fixture(scope="module")
def analyst(protected: LocalService) -> Iterator[Connection]:
    with connect(protected, "analyst", "a-secret") as connection:
        yield connection


def test_tables_are_described_and_not_read(analyst: Connection) -> None:
    table = analyst.table("numbers")
    assert table.schema.names == ("id",)
    with pytest.raises(AccessDeniedError, match="no right to read"):
        table.read().to_pandas()


def test_a_small_result_is_read_whole(analyst: Connection) -> None:
    result = analyst.sql(NUMBERS.format(9) + " and e.id < 999 order by n")
    found = result.to_pandas()["n"].to_list()
    assert found == [1000 * d + e for d in range(9) for e in range(999)]
    assert result.row_count == len(found)


@pytest.mark.parametrize("tens", [10, 11])
def test_of_a_large_one_only_the_first_rows_and_never_in_silence(
    analyst: Connection, tens: int
) -> None:
    result = analyst.sql(NUMBERS.format(tens) + " order by n")
    with pytest.raises(AccessDeniedError) as caught:
        result.to_pandas()
    text = "\n".join(explain(caught.value))
    assert "more than the first 10,000 rows" in text
    assert "result.first(10000)" in text
    with pytest.raises(AccessDeniedError):
        result.first(10_001).to_arrow()
    first = result.first(10_000).to_pandas()["n"].to_list()
    assert first == [1000 * d + e for d in range(10) for e in range(1000)]
    assert "10,000 rows or more" in repr(result)
    shown = result._repr_mimebundle_()
    assert "999" in str(shown) or "0" in shown["text/plain"]


def test_who_may_read_gets_all_rows(protected: LocalService) -> None:
    with connect(protected, "owner", "o-secret") as owner:
        assert owner.sql(NUMBERS.format(11)).to_pandas()["n"].nunique() == 11_000


@pytest.mark.compat
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_pyodps_falls_back_to_the_first_rows(protected: LocalService) -> None:
    entry = ODPS("analyst", "a-secret", project="ours", endpoint=protected.endpoint)
    instance = entry.execute_sql(NUMBERS.format(11))
    with (
        pytest.warns(UserWarning, match="10000 records will be limited"),
        instance.open_reader(tunnel=True) as reader,
    ):
        assert reader.count == 10_000
