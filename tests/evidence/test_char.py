"""CHAR(n) as the real service sends it: padded with blanks to n characters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from odps_nb import ClientOptions
from odps_nb.errors import ArgumentError, InvalidRequestError, NotFoundError
from odps_nb.local.server import launch
from odps_nb.local.server.launch import LocalService
from odps_nb.wire import control
from tests.support.service.connecting import connected
from tests.support.service.raw import Raw, good, rows_of

COLUMNS = "(id bigint, c char(5), v varchar(5), a array<char(3)>, s struct<x:char(2)>)"
WRITTEN = {
    "id": [1, 2, 3, 4],
    "c": ["ab", "é  ", "", None],
    "v": ["ab", "é ", "", None],
    "a": [["x", None], [], ["xyz"], None],
    "s": [{"x": "q"}, {"x": None}, {"x": " "}, None],
}
PADDED = WRITTEN | {
    "c": ["ab   ", "é    ", "     ", None],
    "a": [["x  ", None], [], ["xyz"], None],
    "s": [{"x": "q "}, {"x": None}, {"x": "  "}, None],
}
STRIPPED = WRITTEN | {
    "c": ["ab", "é", "", None],
    "s": [{"x": "q"}, {"x": None}, {"x": ""}, None],
}


@pytest.fixture(scope="module")
def stripping() -> Iterator[Raw]:
    """A service that sends CHAR without padding."""
    options = ("--form", "char=stripped")
    with launch.start(samples=False, options=options) as service, Raw(service) as raw:
        yield raw


@pytest.mark.gate(1)
@pytest.mark.parametrize("form", ["padded", "stripped"])
def test_every_response_with_rows_has_char_in_the_configured_form(
    request: pytest.FixtureRequest, form: str
) -> None:
    """evidence 153: a read, a preview, a result, and its CSV (pyodps: test_length_limit_types)"""
    raw: Raw = request.getfixturevalue("raw" if form == "padded" else "stripping")
    wanted = PADDED if form == "padded" else STRIPPED
    name = raw.make(COLUMNS)
    raw.write(name, pa.table(WRITTEN))
    assert raw.whole(name, raw.session(name)).to_pydict() == wanted
    body = {"Limit": 0, "Partition": "", "Columns": []}
    assert rows_of(raw.ask("TablePreview", raw.table(name), body=body)).to_pydict() == wanted
    instance = raw.sql(f"select * from {name} order by id;")
    target = raw.instance(instance)
    made = good(raw.ask("InstanceCreateReadSession", target, body={"EnableLimit": False})).json()
    place = {"SessionId": made["DownloadID"], "Count": 4}
    result = rows_of(raw.ask("InstanceRead", target, place, {"Columns": []}))
    assert result.to_pydict() == wanted
    asked = control.GetInstanceResult(project=raw.service.project, instance_id=instance)
    answer = good(raw.send(asked.encode()))
    text = asked.decode_answer(answer.content, dict(answer.headers)).tasks[0].text
    assert [line.split(",")[1] for line in text.splitlines()[1:]] == [
        "\\N" if value is None else f'"{value}"' for value in wanted["c"]
    ]


@pytest.mark.parametrize("form", ["padded", "stripped"])
def test_a_predicate_ignores_blanks_at_the_end(request: pytest.FixtureRequest, form: str) -> None:
    """evidence 153, 157: CHAR is compared without padding, in either form (Doris: all_type)"""
    raw: Raw = request.getfixturevalue("raw" if form == "padded" else "stripping")
    name = raw.make("(id bigint, c char(5))")
    raw.write(name, pa.table({"id": [1], "c": ["ab"]}))
    for text, rows in {"c = 'ab'": 1, "c = 'ab   '": 1, "c in ('ab ')": 1, "c = 'a'": 0}.items():
        session = raw.session(name, FilterPredicate=text)
        assert raw.whole(name, session).num_rows == rows, text


@pytest.mark.parametrize(
    ("kind", "value"),
    [("char(2)", "abc"), ("char(2)", "ab "), ("array<char(2)>", ["abc"]), ("varchar(2)", "ab ")],
)
def test_trailing_blanks_count_in_the_length_of_char(raw: Raw, kind: str, value: object) -> None:
    """evidence 153: CHAR(n) has n characters, alone and in an ARRAY"""
    name = raw.make(f"(c {kind})")
    with pytest.raises(InvalidRequestError, match="the maximum is 2"):
        raw.write(name, pa.table({"c": [value]}))


@pytest.mark.parametrize("transfer", ["storage", "tunnel"])
def test_partitions_whose_values_end_in_blanks_are_found(
    empty_service: LocalService, transfer: str
) -> None:
    """evidence 227: CHANGELOG of the Java SDK, 0.50.4: fixes for clients that trimmed them."""
    with connected(empty_service, client_options=ClientOptions(transfer=transfer)) as odps:
        name = f"char_partitions_{transfer}"
        table = odps.create_table(name, "id bigint", partitioned_by="c char(3), s string")
        for number, values in enumerate([("a", "x"), ("b ", "x"), ("b ", "y"), ("c  ", "x")]):
            c, s = values
            odps.sql(f"insert into {name} partition (c='{c}', s='{s}') values ({number})")
        choices: dict[Any, list[int]] = {
            "c=a": [0],
            "c=b": [1, 2],
            "c=b,s=y": [2],
            "c>=b": [1, 2, 3],
            "c>a,s=x": [1, 3],
            "latest": [3],
        }
        listed = table.partitions()
        assert [str(one) for one in listed] == ["c=a,s=x", "c=b ,s=x", "c=b ,s=y", "c=c  ,s=x"]
        specs: list[Any] = [{"c": "b ", "s": "y"}, {"c": "b  ", "s": "y"}, listed[2]]
        for partitions, expected in [*choices.items(), *((one, [2]) for one in specs)]:
            found = table.read(partitions=partitions).to_arrow().sort_by("id")
            assert found["id"].to_pylist() == expected, partitions
        with pytest.raises(ArgumentError, match=r"'x ' .* ends with a blank"):
            table.read(partitions={"c": "a", "s": "x "})
        with pytest.raises(NotFoundError, match=r"no partition of .* matches c=d"):
            table.read(partitions="c=d")
        for text in ("c = 'b'", "c = 'b  '"):
            found = odps.sql(f"select id from {name} where {text} order by id limit 9")
            assert found.to_arrow()["id"].to_pylist() == [1, 2]
