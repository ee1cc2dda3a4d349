"""SQL errors state the problem, its position, the most similar name and the remedy."""

from __future__ import annotations

import re
import time

import pytest

from odps_nb.access.connection import Connection
from odps_nb.errors import NotFoundError, ServiceError

ENGINE = re.compile(r"Binder|Catalog Error|Parser Error|Conversion Error|DuckDB|sqlglot|__\w+|mc_")


def refused(odps: Connection, text: str) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        odps.sql(text).wait()
    error = caught.value
    assert not ENGINE.search(error.message), error.message
    assert error.hint
    assert error.hint != "check the SQL text"
    return error


@pytest.mark.parametrize(
    ("text", "marked", "near"),
    [
        ("select amont from orders", "amont", "amount"),
        ("select o.amont from orders o", "amont", "amount"),
        ("select id\nfrom orders\nwhere statsu = 'paid'", "statsu", "status"),
        ("select id from orders group by id having max(amout) > 1", "amout", "amount"),
        ("with c as (select id from orders) select idd from c", "idd", "id"),
        ("select nums from (select id as number, 1 as nn, 2 as num from orders) t", "nums", "num"),
        ("create table never as select amont from orders", "amont", "amount"),
        ("insert into orders partition (ds='x') select amont from orders", "amont", "amount"),
        (
            "with c as (select 1) insert into orders select amont from orders",
            "amont",
            "amount",
        ),
        ("-- a comment\nselect amont from orders", "amont", "amount"),
        ("select id from ordrs", "ordrs", "orders"),
        ("select a.id from orders a join local.ordrs b on a.id = b.id", "local.ordrs", "orders"),
        ("select ordes.id from orders", "ordes", "orders"),
        ("select summ(amount) from orders", "summ", "sum"),
        ("select cuont(*) from orders", "cuont", "count"),
        ("select id, to_chr(created, 'yyyy') from orders", "to_chr", "to_char"),
    ],
)
def test_a_misspelt_name_is_marked_and_the_nearest_one_named(
    odps: Connection, text: str, marked: str, near: str
) -> None:
    error = refused(odps, text)
    assert (error.hint or "").removeprefix("check the spelling: ") == f"did you mean {near}?"
    line, caret = (error.excerpt or "").split("\n")
    at = caret.index("^")
    assert line[at:].startswith(marked.rpartition(".")[2] if "." in marked else marked), error
    assert line[at - 1] in " (.", error  # its beginning


@pytest.mark.parametrize(
    ("text", "said", "to_do"),
    [
        ("select id, count(*) from orders", "column reference id should appear", "max\\(id\\)"),
        ("select id from orders a join orders b on a.id = b.id", "in several tables", "a.id"),
        ("select dateadd(id) from orders", "function dateadd does not accept", "arguments"),
        ("select * from orders where count(id) > 1", "WHERE clause cannot contain", "clauses"),
        ("select id from orders where id = 'abc'", "'abc' cannot be converted to DOUBLE", "cast"),
        ("select address.citi from orders", "key .citi. in struct", "names"),
        ("select id + from orders", "missing", "marked|this position"),
        ("select zzz from orders", "column zzz cannot be resolved", "columns are id, customer"),
        ("select x.id from orders", "no table or alias x", "FROM: orders"),
        ("select id from (select id as x from orders) t", "id cannot be resolved", "subquery"),
        *[
            (text, "column [xX] cannot be resolved", "WHERE cannot use an alias")
            for text in (
                "select id as x from orders where x = 1",
                "select id + 1 as x from (select * from orders) t where status = 'paid' and X > 1",
                "with q as (select id from orders) select id as x from q where x is null",
            )
        ],
        ("create table never (a bigintt)", "'bigintt' is not a type", "bigint"),
        (
            "select id from orders where gift > array(1)",
            "BOOLEAN cannot be combined with ARRAY",
            "cast",
        ),
        ("alter table orders add partition (ds=today)", "expected a value", "text in quotes"),
        ("insert into orders partition (ds=null) select 1", "expected a value", "text in quotes"),
        ("truncate table orders partition (ds=-'x')", "expected a value", "text in quotes"),
    ],
)
def test_sql_errors_say_what_is_wrong_and_what_to_do(
    odps: Connection, text: str, said: str, to_do: str
) -> None:
    error = refused(odps, text)
    assert re.search(said, error.message)
    assert re.search(to_do, error.hint or "")


PARSE, SEMANTIC = (
    "ODPS-0130161:[{}] Parse exception",
    "ODPS-0130071:[{}] Semantic analysis exception",
)


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("selec 1", PARSE, "1,1"),
        ("select id + from orders", PARSE, "1,13"),
        ("select id, from orders", PARSE, "1,10"),
        ("select id from orders where id in (1, 2,)", PARSE, "1,40"),
        ("create table never (a bigintt)", PARSE, "1,20"),
        ("create table never like", PARSE, "1,24"),
        ("create table never\n(a bigint;", PARSE, "2,10"),
        ("select amont from orders", SEMANTIC, "1,8"),
        ("select my_function(id) from orders", SEMANTIC, "1,8"),
        ("select x.id from orders", SEMANTIC, "1,8"),
        ("select id, count(*) from orders", SEMANTIC, "1,8"),
        ("select id from orders where gift > array(1)", SEMANTIC, "1,36"),
        ("insert into orders partition (ds='x') (id) select 1, 2", SEMANTIC, "1,1"),
        ("insert into orders partition (ds='x') (none) select 1", SEMANTIC, "1,1"),
        ("update orders set id = 1", SEMANTIC, "1,1"),
        ("alter table orders change column none comment 'x'", SEMANTIC, "1,1"),
    ],
)
def test_syntax_and_semantic_errors_have_different_codes(
    odps: Connection, text: str, code: str, at: str
) -> None:
    """As in the vendor's manual, *Rewrite incompatible SQL statements*."""
    with pytest.raises(ServiceError) as caught:
        odps.sql(text).wait()
    assert caught.value.message.startswith(code.format(at))
    assert (caught.value.code == "ParseError") is (code is PARSE)


def test_a_schema_that_is_parsed_as_a_project_is_explained(odps: Connection) -> None:
    error = refused(odps, "select id from default.orders limit 1")
    assert isinstance(error, NotFoundError)
    assert error.code == "NoSuchProject"
    written = re.search(r"write (\S+):", error.hint or "")
    assert written is not None
    assert odps.sql(f"select id from {written[1]} limit 1").row_count == 1  # the advice works
    assert "local.sales.t" in (refused(odps, "select a from sales.t").hint or "")
    for text in ("insert into sales.t values (1)", "drop table sales.t", "desc sales.t"):
        assert "local.sales.t" in (refused(odps, text).hint or ""), text


def test_errors_of_the_real_service_get_the_same_hint(odps: Connection) -> None:
    from odps_nb.wire.control import TaskResult, query_error

    text = "ODPS-0420111:[1,15] Project not found - 'default'."
    error = query_error(TaskResult(name="t", status="Failed", text=text))
    assert "project.schema.table" in (error.hint or "")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("select {} from orders", "[1,8]"),
        ("select id,\n  {'a': 1} from orders", "[2,3]"),
        ("select ${id} from orders", "[1,8]"),
        ("select id from orders where id = ?", "[1,34]"),
        ("select @id from orders", "[1,8]"),
        ("select id from orders where id = :id", "[1,34]"),
        ("select struct() from orders", "[1,8]"),
        ("create table never as select {}", "[1,30]"),
        ("insert into orders partition (ds='x') select {}", "[1,46]"),
    ],
)
def test_operators_that_maxcompute_lacks_raise_a_syntax_error(
    odps: Connection, text: str, place: str
) -> None:
    assert place in refused(odps, text).message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("select id, count(*) from orders group by all", "GROUP BY ALL"),
        ("select id from orders limit 50%", "this LIMIT"),
        ("select id from orders limit 1 by id", "this LIMIT"),
        ("select id from orders fetch first 1 rows only", "FETCH"),
        ("select id from orders using sample 1", "USING SAMPLE"),
        ("select [1, 2]", "an ARRAY in brackets"),
        ("select map('a', [1])", "an ARRAY in brackets"),
        ("select array(1, 2, 3)[1:2]", "a range in brackets"),
        ("select id from orders union all by name select 1 as id", "BY NAME"),
        ("select a.id from orders a asof join orders b on a.id >= b.id", "ASOF JOIN"),
        ("select id from orders at (version => 1)", "AT"),
        ("insert into orders partition (ds='x') values ()", "an empty row"),
        ("create view never as select id from orders group by all", "GROUP BY ALL"),
    ],
)
def test_syntax_of_other_databases_is_refused(odps: Connection, text: str, what: str) -> None:
    message = refused(odps, text).message
    assert f"the embedded service does not support {what}; MaxCompute may" in message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("select id from orders tablesample (bucket 1 out of 2 on id)", "a sample of buckets"),
        ("select `(id|ds)?+.+` from orders", "columns by a regular expression"),
        ("select transform(id) using 'cat' as (x) from orders", "SELECT TRANSFORM"),
        ("from orders where id > 0 select id", "WHERE, GROUP BY or HAVING before SELECT"),
    ],
)
def test_documented_syntax_that_is_missing_is_named(odps: Connection, text: str, what: str) -> None:
    message = refused(odps, text).message
    assert f"the embedded service does not support {what}; MaxCompute does" in message


def test_binary_constants_are_read(odps: Connection) -> None:
    assert odps.sql("select X'616263', x'ff'").to_arrow().to_pydict() == {
        "_c0": [b"abc"],
        "_c1": [b"\xff"],
    }
    assert "[2,3] Parse exception - a constant X" in refused(odps, "select 1,\n  X'6g'").message


def test_a_name_may_look_like_an_expression(odps: Connection) -> None:
    query = "select `sum(a)*2` from (select sum(a)*2 as `sum(a)*2` from (select 1 as a) s) t"
    assert odps.sql(query).to_arrow().to_pydict() == {"sum(a)*2": [2]}


def test_a_grouping_set_may_be_empty(odps: Connection) -> None:
    query = "select a, count(*) as n from (select 1 as a) t group by a grouping sets ((a), ())"
    assert sorted(odps.sql(query).to_pandas()["n"].tolist()) == [1, 1]


def test_a_query_that_begins_with_from_needs_a_select(odps: Connection) -> None:
    assert "expected SELECT" in refused(odps, "from orders").message
    assert odps.sql("from (select 1 as b) t select b").to_pandas()["b"].tolist() == [1]


@pytest.mark.parametrize(
    "kind", ["int8", "text", "integer", "number", "array<int4>", "map<string, real>"]
)
def test_a_cast_accepts_only_the_types_of_columns(odps: Connection, kind: str) -> None:
    assert "Parse exception" in refused(odps, f"select cast(null as {kind})").message
    with pytest.raises(ServiceError):
        odps.sql(f"create table never (a {kind})")
    assert odps.sql("select 1 as text, 2 as int8").to_pandas().columns.tolist() == ["text", "int8"]


def test_text_has_no_elements(odps: Connection) -> None:
    assert "STRING has no elements" in refused(odps, "select 'abc'[1]").message
    found = odps.sql("select split('a,b', ',')[1] as a, map('k', 'v')['k'] as b").to_pandas()
    assert found.values.tolist() == [["b", "v"]]


LACKING = (
    *("json_tuple(s, 'a')", "from_utc_timestamp(s, 'UTC')", "to_utc_timestamp(s, 'UTC')"),
    *("inline(array(struct(1, 2)))", "conv('10', 10, 2)", "hash(s)", "from_json(s, 'array<int>')"),
    *("soundex(s)", "to_blob(s)", "regexp_replace(s, 'a', 'b', 1)"),
    *("array_sort(array(1, 2), (x, y) -> x - y)", "json_tuple(s, 'a', 'b') as (x, y)"),
    "1 from (select 'a' as s) u lateral view json_tuple(s, 'a') v as w",
)


@pytest.mark.parametrize("expression", LACKING)
def test_the_error_for_an_unsupported_function_of_maxcompute_names_it(
    odps: Connection, expression: str
) -> None:
    source = "" if " from " in expression else " from (select 'a' as s) t"
    message = refused(odps, f"select {expression}{source}").message
    name = re.findall(r"[a-z_]+(?=\()", expression)[0].upper()
    assert "the embedded service does not support" in message
    assert name in message.upper()
    assert message.endswith(("MaxCompute does", "MaxCompute may"))


@pytest.mark.parametrize(
    "query",
    [
        "select upper(s) as s from t where s = 'a'",
        "select n + 1 as s from (select * from t) q where s = 'a'",
        "select q.n as n from t q join t r using (n) where n = 1",
        "select e + 1 as e from t lateral view explode(array(n)) v as e where e = 1",
        "select s as e from t where any_match(array(n), e -> e = 1)",
        "select n as x from t where exists (select 1 from t r where r.n = t.n)",
        "select n as x from t group by n having x = 1 order by x",
    ],
)
def test_a_name_in_where_is_a_column_even_if_it_is_an_alias(odps: Connection, query: str) -> None:
    rows = odps.sql(f"with t as (select 1 as n, 'a' as s) {query}")
    assert len(rows.to_arrow()) == 1


def test_a_misspelt_function_suggests_functions_of_maxcompute(odps: Connection) -> None:
    assert "did you mean from_unixtime?" in str(refused(odps, "select from_unixtim(1)").hint)
    assert "did you mean" not in str(refused(odps, "select json_tuple('a', 'b')").hint)


def test_a_struct_with_other_members_is_refused_as_by_the_real_service(odps: Connection) -> None:
    name = f"members{time.time_ns()}"
    odps.create_table(name, "st struct<x:bigint,y:string>")
    error = refused(odps, f"insert into {name} (st) values (struct(1, 'x'))")
    assert "'st' are not converted to struct<x:bigint,y:string>" in error.message
    assert "named_struct" in str(error.hint)
    odps.drop_table(name)


def test_explode_accepts_column_names_and_wm_concat_an_order(odps: Connection) -> None:
    found = odps.sql("select explode(map('a', 1, 'b', 2)) as (k, v)").to_arrow()
    assert found.to_pylist() == [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
    found = odps.sql(
        "select wm_concat(',', s) within group (order by n desc) as s"
        " from values (1, 'a'), (3, 'c'), (2, 'b') t(n, s)"
    ).to_arrow()
    assert found.to_pylist() == [{"s": "c,b,a"}]


def test_braces_in_text_names_and_comments_are_kept(odps: Connection) -> None:
    found = odps.sql("select '{}' as `{a}`, '?@$:' as b -- {} ?\n/* {} */").to_arrow()
    assert found.to_pylist() == [{"{a}": "{}", "b": "?@$:"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select 7 % (id - id) from orders", "division by zero"),
        ("select 5 div 0", "division by zero"),
        ("select date '2024-02-30'", "out of range"),
        ("select to_date('20240230', 'yyyymmdd')", "out of range: 2024-2-30"),
        ("select to_date('2024-07-01', 'yyyymmdd')", "does not have the format of TO_DATE"),
        ("select id from orders limit -1", "cannot be negative"),
        ("select -'1'", "the operator - does not support these types"),
        pytest.param(f"select {'1+' * 1500}1", "the query is nested too deeply", id="deep"),
        ("select isnan('nan')", "the function isnan does not accept these arguments"),
        ("select sha2('a', 512)", "the embedded service only supports SHA256"),
        ("select cast(unhex('ff') as string)", "not UTF-8"),
    ],
)
def test_the_error_says_what_cannot_be_computed(odps: Connection, text: str, said: str) -> None:
    assert said in refused(odps, text).message


@pytest.mark.parametrize("text", ["show tables in local.no_such", "select 1 from local.no_such.t"])
def test_a_missing_schema_has_the_number_that_clients_expect(odps: Connection, text: str) -> None:
    with pytest.raises(ServiceError, match="ODPS-0422155: Schema not found - 'no_such'"):
        odps.sql(text).wait()


def test_the_error_names_an_interval_out_of_range(odps: Connection) -> None:
    with pytest.raises(ServiceError, match="longer than 106751 days"):
        odps.sql("select interval '1000000 00:00:00' day to second").wait()
