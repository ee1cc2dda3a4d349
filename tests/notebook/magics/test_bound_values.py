"""Magics bind variables, which they look up in the scope of the cell."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier
from types import SimpleNamespace

import pandas as pd
import pytest
from IPython.utils.capture import capture_output

from odps_nb.access.connection import Connection
from odps_nb.notebook.explore.explorer import Explorer
from tests.support.bound_values import CASES, COLUMNS, NS, rows, sampled
from tests.support.shell import run, usage_error


@pytest.fixture(scope="session")
def odps(wide: Connection) -> Connection:
    """A connection to a service that also returns times before 1970 in nanoseconds."""
    return wide


@pytest.fixture(scope="module", autouse=True)
def table(odps) -> Iterator[str]:
    odps.create_table("bound_magics", COLUMNS).write(rows())
    yield "bound_magics"
    odps.drop_table("bound_magics")


# A magic binds a variable with the code of `Table.read` and `Connection.sql`, for which
# tests/access/binding/test_bound_alike.py tests every case in `make test`.
@pytest.mark.gate(2)
@pytest.mark.parametrize("case", sampled(CASES, lambda case: case.column))
def test_a_variable_selects_the_same_rows_in_every_magic(ip, case):
    ip.user_ns["x"] = case.value
    condition, found = case.where("=")
    read = run(ip, f'%odps read bound_magics -q -c id -w "{condition}"')
    line = run(ip, f"%odps sql -t pandas select id from bound_magics where {condition}")
    cell = run(ip, f"%%odps sql -t pandas\nselect id from bound_magics where {condition}")
    for frame in (read, line, cell):
        assert sorted(frame["id"]) == found


def test_local_times_in_a_cell_are_in_the_zone_of_the_connection(ip):
    ip.user_ns["x"] = pd.Timestamp(NS, tz="UTC")
    frame = run(
        ip,
        "%%odps sql -t pandas\nset odps.sql.timezone=Asia/Shanghai;\n"
        "select id from bound_magics where ts = :x",
    )
    assert frame["id"].tolist() == [4]
    assert "connect with timezone" in usage_error(
        ip, "%odps sql select id from bound_magics where ts = :x"
    )


# -- scopes of variables ------------------------------------------------------------------------

INSIDE = {
    "line": '    return get_ipython().run_line_magic("odps", "read bound_magics -q -w \'k = :x\'")',
    "cell": '    return get_ipython().run_cell_magic("odps", "read bound_magics -q", "k = :x")',
    "sql cell": (
        '    return get_ipython().run_cell_magic("odps", "sql -t pandas", '
        '"select id from {t} where k = :x")'
    ),
    "sql line": (
        '    return get_ipython().run_line_magic("odps", '
        '"sql -t pandas select id from {t} where k = :x")'
    ),
}


@pytest.mark.parametrize("form", INSIDE)
def test_a_magic_in_a_function_sees_its_arguments_before_globals(ip, form):
    ip.user_ns.update(x=-1, t="orders")
    run(ip, f"def ask(x, t):\n{INSIDE[form]}\nfound = ask(7, 'bound_magics')")
    assert ip.user_ns["found"]["id"].tolist() == [3]
    assert ip.user_ns["x"] == -1


def test_a_cell_magic_in_a_method_or_comprehension_can_use_local_variables(ip):
    run(
        ip,
        "class Finder:\n"
        "    def find(self, x):\n"
        "        ask = lambda x: get_ipython().run_cell_magic(\n"
        "            'odps', 'read bound_magics -q', 'k = :x')\n"
        "        return [list(ask(one)['id']) for one in (x, -1)]\n"
        "x = 0\nfound = Finder().find(7)",
    )
    assert ip.user_ns["found"] == [[3], [1]]


@pytest.mark.parametrize(
    "rest", ["_line_magic('odps', f'{text} -w \"k = :x\"')", "_cell_magic('odps', text, 'k = :x')"]
)
def test_magics_in_several_threads_use_the_arguments_of_their_own_thread(ip, rest):
    ip.user_ns.update(both=Barrier(2, timeout=30))  # both magics wait after they have started
    run(
        ip,
        "from concurrent.futures import ThreadPoolExecutor\n"
        "text = 'read bound_magics -q -n {9+both.wait()}'\n"
        f"def ask(x):\n    return get_ipython().run{rest}['id'].tolist()\n"
        "with ThreadPoolExecutor(2) as pool:\n    found = list(pool.map(ask, [7, -1]))",
    )
    assert ip.user_ns["found"] == [[3], [1]]


def test_a_cell_can_use_the_variables_of_the_notebook(ip):
    ip.user_ns["x"] = 7
    assert run(ip, "%%odps read bound_magics -q\nk = :x")["id"].tolist() == [3]
    found = "%%odps read bound_magics -q\nk = :gone"
    assert ":gone has no value: there is no variable 'gone'" in usage_error(ip, found)


# -- names in braces ------------------------------------------------------------------------------


def test_variables_in_braces_can_be_table_and_column_names(ip, odps):
    ip.user_ns.update(
        t="bound_magics", c="k", x=7, both=["id", "k"], handle=odps.table("bound_magics")
    )
    for name in ("t", "handle"):
        query = f"select {{both}} from {{{name}}} where {{c}} = :x"
        for text in (f"%%odps sql -t pandas\n{query}", f"%odps sql -t pandas {query}"):
            frame = run(ip, text)
            assert list(frame) == ["id", "k"]
            assert frame["id"].tolist() == [3]
    ip.user_ns["t"] = "local.bound_magics"
    assert run(ip, "%odps sql -t pandas select count(*) as n from {t}")["n"].tolist() == [6]
    assert run(ip, '%odps read bound_magics -q -w "{c} = :x"')["id"].tolist() == [3]


@pytest.mark.parametrize(
    "value",
    [
        "bound_magics; drop table x",
        "a`b",
        "a b",
        "",
        "a.b.c.d",
        ".a",
        "(select 1)",
        7,
        None,
        b"a",
        [],
    ],
    ids=repr,
)
def test_invalid_names_are_never_inserted(ip, value):
    ip.user_ns["t"] = value
    for cell in ("%%odps sql\nselect * from {t}", "%odps sql select * from {t}"):
        said = usage_error(ip, cell)
        assert "{t} must be the name of a table or column" in said
        assert "write :t to bind a value" in said


@pytest.mark.parametrize("braces", ["{x + 1}", "{x.y}", "{x!r}", "{f(x)}"])
def test_an_expression_in_braces_is_refused(ip, braces):
    ip.user_ns["x"] = "k"
    said = usage_error(ip, f"%odps sql select * from bound_magics where {braces} = 1")
    assert f"{braces} is not the name of a variable" in said
    assert "assign the table or column name to a variable" in said


def test_braces_in_text_comments_and_json_are_unchanged(ip):
    ip.user_ns.update(x="k", t="bound_magics")
    frame = run(
        ip,
        "%%odps sql -t pandas\n"
        'select \'{x}\' as a, "{x}" as b, \'{"x": {"y": 1}}\' as c -- {x} it\'s\n'
        "/* {nothing} */ from {t} where id = 0",
    )
    assert frame.iloc[0].tolist() == ["{x}", "{x}", '{"x": {"y": 1}}']


# -- one line -------------------------------------------------------------------------------------


def test_a_query_may_follow_the_options_on_the_line(ip):
    ip.user_ns["x"] = "a'b"
    run(ip, "%odps sql -o found -n 1 select s, 'it\\'s -o' as t from bound_magics where s = :x;")
    assert ip.user_ns["found"].iloc[0].tolist() == ["a'b", "it's -o"]
    run(ip, "frame = %odps sql --type=arrow -q select id from bound_magics where id < 2 # two")
    assert ip.user_ns["frame"]["id"].to_pylist() == [0, 1]
    assert run(ip, "%odps sql -t pandas select count(*) as n from bound_magics;")["n"].tolist() == [
        6
    ]
    assert run(ip, "%odps sql --dry-run select * from bound_magics").rows[0][0] == "reads"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%odps sql", "%odps sql needs a query: write it on the line"),
        ("%odps sql -o found", "%odps sql needs a query: write it on the line"),
        ("%odps sql select 1 -o found", "write -o before the query"),
        ("%odps sql select 1 --quiet", "write --quiet before the query"),
        ("%odps sql --outputs found select 1", "did you mean --output?"),
        ("%%odps sql select 1\nselect 2", "on the line or in the cell, not in both"),
        ("%odps sql -n x select 1", "is not a whole number above zero"),
    ],
)
def test_the_error_for_an_option_after_the_query_shows_the_correct_line(ip, cell, said):
    assert said in usage_error(ip, cell)


# -- the end of a line ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kept['first']", 'kept["first"]', "kept[f'{one!r}']", "one.kept"])
def test_a_magic_may_be_assigned_to_an_item_or_attribute(ip, name):
    ip.user_ns.update(one=SimpleNamespace(), kept={})
    run(ip, f"{name} = %odps read bound_magics -n 2 -c id -q;\nvalue = {name}")
    assert ip.user_ns["value"]["id"].tolist() == [0, 1]


@pytest.mark.parametrize("timer", ["%%time\n", "%time ", "%%prun -q\n", "%%capture\n"])
def test_an_assigned_magic_in_another_magic_returns_its_rows(ip, timer):
    query = "%odps sql -q select id from bound_magics order by id limit 2"
    run(ip, f"{timer}kept = {query}")
    assert ip.user_ns["kept"]["id"].tolist() == [0, 1]
    assert isinstance(run(ip, f"%time {query}"), Explorer)


@pytest.mark.gate(2)
@pytest.mark.parametrize("end", [";", " ;", ";;", "  # the first", "; # the first", "# 'odd"])
def test_a_semicolon_and_a_comment_end_a_line(ip, end):
    gap = "" if end.startswith(";") else " "
    shown = run(ip, f"%odps read bound_magics -n 2 -c id -q{gap}{end}")
    assert (shown is None) == (";" in end)
    run(ip, f"kept = %odps read bound_magics -n 2 -c id -q{gap}{end}")
    assert ip.user_ns["kept"]["id"].tolist() == [0, 1]
    run(ip, f"%odps read bound_magics -n 2 -c id -q -o there{gap}{end}")
    assert ip.user_ns["there"]["id"].tolist() == [0, 1]
    run(ip, f"%%odps read bound_magics -q -o there{gap}{end}\nid = 3")
    assert ip.user_ns["there"]["id"].tolist() == [3]


def test_a_number_sign_in_a_filter_is_not_a_comment(ip):
    assert run(ip, "%odps read bound_magics -q -w \"s = '# no;'\"").empty
    assert (
        run(ip, "%odps sql -t pandas select '# no;' as a from bound_magics where id = 0")["a"][0]
        == "# no;"
    )


def test_keys_in_a_comment_are_refused(ip):
    assert "a cell must not contain keys" in usage_error(ip, "%odps tables # --token LTAIsecret")


def test_text_that_looks_like_a_magic_in_other_code_is_unchanged(ip):
    run(ip, 'text = """\nc = %odps connect\nd = %odps tables;\n"""')
    assert ip.user_ns["text"] == "\nc = %odps connect\nd = %odps tables;\n"
    run(ip, "text = 'c = %odps connect'")
    assert ip.user_ns["text"] == "c = %odps connect"
    with capture_output():
        run(ip, "if True:\n    given = %odps connect odps\n    found = %odps tables bound_magics;")
    assert ip.user_ns["given"] is ip.user_ns["odps"]
    assert [row[0] for row in ip.user_ns["found"].rows] == ["bound_magics"]


@pytest.mark.parametrize("source", ["w[w.a>1]", "w.head()", "w.a", "w[w.a > 1]", "w[['a', 'b']]"])
def test_the_error_for_an_expression_as_data_says_to_assign_it_first(ip, source):
    ip.user_ns["w"] = pd.DataFrame({"a": [1, 2]})
    said = usage_error(ip, f"%odps write {source} somewhere")
    assert "expression" in said
    assert "to a variable" in said
    assert "folder" not in said
