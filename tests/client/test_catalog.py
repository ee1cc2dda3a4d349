"""Lists and metadata of tables, and DDL text, whose inputs are all checked or escaped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.client.catalog import (
    fetch_table,
    fetch_tables,
    iter_partitions,
    list_tables,
    suggest_partitions,
)
from odps_nb.client.read.needs_query import NeedsQuery
from odps_nb.client.read.plan import ReadPlan
from odps_nb.client.read.session import open_storage_session
from odps_nb.client.sql.definitions import TableOptions, create_table_sql, settings_of
from odps_nb.client.write.session import open_write_session
from odps_nb.errors import (
    ArgumentError,
    FramingError,
    InvalidRequestError,
    NotFoundError,
    ServerFaultError,
)
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.control import PartitionInfo, PartitionPage, TableInfo, TablePage
from odps_nb.wire.type_text import parse_columns
from tests.support.sockets.scripted import ControlService, fail, give

TABLE = TableName(project="p", table="t")
STRING = PrimitiveType(TypeCode.STRING)
PLAIN = TableOptions()


def schema(columns: str, partitions: str = "") -> TableSchema:
    return TableSchema(
        columns=parse_columns(columns),
        partition_columns=parse_columns(partitions) if partitions else (),
    )


def test_a_table_definition_may_have_every_option():
    made = create_table_sql(
        TableName(project="p", schema="s", table="t"),
        schema("id bigint not null comment 'it\\'s', tags array<struct<a:string>>", "ds string"),
        TableOptions(
            if_not_exists=True,
            lifecycle=7,
            comment="it's",
            properties={"b": "2", "a": "x'y"},
            cluster_by=("ID",),
            buckets=16,
        ),
    )
    assert made.startswith("create table if not exists `p`.`s`.`t` (`id` bigint not null comment ")
    assert made.endswith(
        "`tags` array<struct<a:string>>) comment 'it\\'s' partitioned by (`ds` string) "
        "clustered by (`id`) sorted by (`id`) into 16 buckets "
        "tblproperties ('a'='x\\'y', 'b'='2') lifecycle 7;"
    )


def test_a_primary_key_is_not_null_and_makes_the_table_transactional():
    columns = schema("id bigint, part string, v double")
    made = create_table_sql(TABLE, columns, TableOptions(primary_key=("ID", "part")))
    assert made == (
        "create table `p`.`t` (`id` bigint not null, `part` string not null, `v` double, "
        "primary key (`id`, `part`)) tblproperties ('transactional'='true');"
    )
    assert settings_of(columns) == {}
    buckets = create_table_sql(TABLE, columns, TableOptions(primary_key=("id",), buckets=4))
    assert "tblproperties ('transactional'='true', 'write.bucket.num'='4')" in buckets


@pytest.mark.parametrize("column", ["blob", "array<blob>", "map<string,struct<a:blob>>"])
def test_a_table_with_a_blob_gets_the_required_properties(column):
    columns = schema(f"id bigint, b {column}")
    made = create_table_sql(TABLE, columns, TableOptions(properties={"mine": "1"}))
    assert made.endswith(
        "tblproperties ('mine'='1', 'table.format.version'='2', 'transactional'='true');"
    )
    assert settings_of(columns) == {
        "odps.sql.type.system.odps2": "true",
        "odps.table.append2.enable": "true",
    }


def test_a_table_with_a_vector_gets_the_required_settings():
    for column in ("vector(float,3)", "array<vector(float,3)>"):
        assert settings_of(schema(f"v {column}"))["odps.sql.type.vector.enable"] == "true"


@pytest.mark.parametrize(
    ("columns", "partitions", "options", "message"),
    [
        ("id bigint", "", {"primary_key": ("idd",)}, "not a column"),
        ("id bigint", "ds string", {"primary_key": ("ds",)}, "not a column"),
        ("id bigint", "", {"primary_key": ("id", "ID")}, "twice"),
        ("id blob", "", {"primary_key": ("id",)}, "BLOB cannot be a key"),
        ("id array<int>", "", {"primary_key": ("id",)}, "ARRAY cannot be a key"),
        ("id blob", "", {"cluster_by": ("id",), "buckets": 2}, "BLOB cannot be a key"),
        ("id bigint", "", {"cluster_by": ("id",)}, "requires buckets="),
        ("id bigint", "", {"buckets": 2}, "without cluster_by"),
        ("id bigint", "", {"cluster_by": ("id",), "buckets": 0}, "must be a number of buckets"),
        ("id bigint", "b blob", {}, "partition column 'b' contains a BLOB"),
        ("m map<blob,int>", "", {}, "a MAP with a BLOB in its key"),
        ("l array<map<blob,int>>", "", {}, "a MAP with a BLOB in its key"),
        ("b blob", "", {"properties": {"transactional": "false"}}, "needs 'true'"),
        ("größe bigint", "", {}, "'größe' is not a valid column name"),
        ("`a b` bigint", "", {}, "'a b' is not a valid column name"),
        ("id bigint", "`'p'` string", {}, "a partition column cannot be named \"'p'\""),
        ("c" * 129 + " bigint", "", {}, "is not a valid column name"),
        ("id bigint", "d date", {}, "DATE cannot be the type of the partition column 'd'"),
        (
            "id bigint",
            "a int, b int, c int, d int, e int, f int, g int",
            {},
            "at most 6 partition levels",
        ),
        (", ".join(f"c{i} int" for i in range(1201)), "", {}, "at most 1,200 columns"),
        ("id bigint", "", {"comment": "é" * 513}, "the table has 1,026 bytes; the limit is 1,024"),
        (f"id bigint comment '{'x' * 1025}'", "", {}, "the column 'id' has 1,025 bytes"),
        ("a int", "", {"primary_key": ("a",), "properties": {"transactional": "no"}}, "needs"),
    ],
)
def test_an_invalid_definition_is_refused_before_it_is_sent(columns, partitions, options, message):
    """Evidence 121 (vendor page "Blob data type and multimodal storage"): a BLOB is never a key."""
    with pytest.raises(ArgumentError, match=message):
        create_table_sql(TABLE, schema(columns, partitions), TableOptions(**options))


def test_a_definition_at_the_limits_is_accepted():
    columns = ", ".join(f"c{i} int" for i in range(1199)) + f", {'长' * 42 + 'ab'} int"
    levels = "a tinyint, b smallint, c int, d bigint, e char(2), f varchar(2)"
    sql = create_table_sql(TABLE, schema(columns, levels), TableOptions(comment="x" * 1024))
    assert "长ab` int" in sql


@pytest.mark.parametrize("name", ["größe", "1t"])
def test_a_table_with_an_invalid_name_is_not_created(name):
    with pytest.raises(ArgumentError, match=f"'{name}' is not a valid table name"):
        create_table_sql(TableName(project="p", table=name), schema("id bigint"), PLAIN)


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ("a decimal, b decimal(38,18)", ()),
        ("a decimal(39,0)", ("odps.sql.decimal256.enable",)),
        ("a decimal(76,76)", ("odps.sql.decimal256.enable",)),
        ("a decimal(38,19)", ("odps.sql.decimal2.extended.scale.enable",)),
        (
            "a map<decimal(40,1),struct<x:array<decimal(19,19)>>>",
            ("odps.sql.decimal256.enable", "odps.sql.decimal2.extended.scale.enable"),
        ),
    ],
)
def test_wide_decimals_get_the_required_settings(columns, wanted):
    assert settings_of(schema(columns)) == dict.fromkeys(wanted, "true")
    assert "tblproperties" not in create_table_sql(TABLE, schema(columns), PLAIN)


def test_the_hint_contains_a_similar_name():
    with pytest.raises(ArgumentError) as caught:
        create_table_sql(TABLE, schema("user_id bigint"), TableOptions(primary_key=("userid",)))
    assert caught.value.hint == "did you mean 'user_id'? its columns are: user_id"


@pytest.mark.parametrize(
    "name", ["", "a b", "a`b", "a;drop table x", "a-b", "x" * 129, "a\nb", 'a"b', "ä b"]
)
def test_a_name_that_could_inject_sql_is_refused(name):
    with pytest.raises(ArgumentError, match="not a valid column name"):
        create_table_sql(TABLE, TableSchema(columns=(Column(name=name, type=STRING),)), PLAIN)
    with pytest.raises(ArgumentError, match="not a valid table name"):
        TableName(project="p", table=name)


def test_repeated_and_missing_columns_are_refused():
    twice = TableSchema(columns=(Column(name="a", type=STRING), Column(name="A", type=STRING)))
    with pytest.raises(ArgumentError, match="'A' is defined twice"):
        create_table_sql(TABLE, twice, PLAIN)
    both = TableSchema(
        columns=(Column(name="a", type=STRING),), partition_columns=(Column(name="a", type=STRING),)
    )
    with pytest.raises(ArgumentError, match="twice"):
        create_table_sql(TABLE, both, PLAIN)
    with pytest.raises(ArgumentError, match="at least one column"):
        create_table_sql(TABLE, TableSchema(), PLAIN)


@pytest.mark.parametrize("days", [0, -1, True, "7; drop table x", 1.5])
def test_a_lifecycle_is_a_number_of_days(days):
    with pytest.raises(ArgumentError, match="lifecycle"):
        create_table_sql(TABLE, schema("a string"), TableOptions(lifecycle=days))


@given(st.text(max_size=40))
def test_quotes_in_comments_are_escaped(comment):
    made = create_table_sql(
        TABLE, TableSchema(columns=(Column(name="a", type=STRING, comment=comment),)), PLAIN
    )
    inside = made[len("create table `p`.`t` (") : -len(");")]
    assert parse_columns(inside)[0].comment == comment


# -- over HTTP ----------------------------------------------------------------------------------


def pages(*names_and_markers):
    return [give(TablePage(names=names, marker=marker)) for names, marker in names_and_markers]


def test_tables_are_listed_page_by_page_and_sorted():
    script = pages((("c", "a"), "m1"), (("b",), ""))
    with ControlService(ListTables=script) as service, service.client() as storage:
        assert list_tables(storage) == ["a", "b", "c"]
    assert [one.marker for one in service.calls["ListTables"]] == ["", "m1"]


def test_invalid_names_are_omitted_from_lists(caplog):
    """Attack 4: a user inserts a listed name into a cell and runs the cell."""
    wrong = ("--help\n!touch x\n#", "a b", "a;b", "`a`", "", "a\u2028b", "x" * 129)
    script = pages((("a", *wrong, "b"), ""))
    with ControlService(ListTables=script) as service, service.client() as storage:
        assert list_tables(storage) == ["a", "b"]
    assert any("ignoring '--help\\n!touch x\\n#' in a list" in one for one in caplog.messages)


def test_a_repeated_page_marker_raises_because_the_rest_of_the_list_is_missing():
    script = pages((("a",), "m"), (("b",), "m"))
    refused = pytest.raises(FramingError, match="the same page twice")
    with ControlService(ListTables=script) as service, refused:
        list_tables(service.storage)
    assert len(service.calls["ListTables"]) == 2


def test_the_prefix_of_a_pattern_is_sent_to_the_service():
    script = pages((("orders", "orders_2", "ordinal"), ""))
    with ControlService(ListTables=script) as service, service.client() as storage:
        assert list_tables(storage, "ORD*s") == ["orders"]
    assert service.calls["ListTables"][0].prefix == "ord"


def test_a_missing_table_suggests_others():
    script = {
        "GetTable": [fail(404, "NoSuchTable", "ODPS-0130131: no")],
        "ListTables": pages((("orders", "media"), "")),
    }
    with ControlService(**script) as service, pytest.raises(NotFoundError) as caught:
        fetch_table(service.storage, TableName(project="p", table="order"))
    assert caught.value.hint == "did you mean orders?"
    assert "table p.order" in caught.value.notes


def test_after_a_server_error_tables_are_not_requested_one_by_one():
    unknown = "NoneType"  # `decode_control` does not know requests for several tables
    with (
        ControlService(**{unknown: [fail(500, "InternalServerError")]}) as service,
        pytest.raises(ServerFaultError),
    ):
        fetch_tables(service.storage, [TABLE] * 100)
    assert {*service.calls} == {unknown}


def test_an_unreadable_table_does_not_hide_the_others():
    info = TableInfo(name=TABLE, schema=schema("id bigint"))
    refused = fail(403, "NoPermission")
    script = {"NoneType": [refused], "GetTable": [give(info), refused, give(info)]}
    with ControlService(**script) as service:
        found = fetch_tables(service.storage, [TABLE] * 3)
        assert [one and one.name for one in found] == [TABLE, None, TABLE]
        assert fetch_tables(service.storage, []) == []


@pytest.mark.parametrize(
    ("missing", "hint"),
    [
        ("2024-1-2", "the nearest partition is ds=2024-01-02"),
        ("2024-01-03", "the nearest partitions are ds=2024-01-02 and ds=2024-01-10"),
        ("2023-12-31", "the nearest partition is ds=2024-01-01"),
    ],
)
def test_a_missing_partition_suggests_the_nearest(missing, hint):
    infos = tuple(
        PartitionInfo(spec=PartitionSpec.of(f"ds=2024-01-{day}")) for day in ("01", "02", "10")
    )
    refused = NotFoundError("no", code="NoSuchPartition")
    with ControlService(ListPartitions=[give(PartitionPage(partitions=infos))]) as service:
        spec = PartitionSpec.of(f"ds={missing}")
        suggest_partitions(service.storage, TABLE, [spec], refused)
    assert refused.hint == hint


@pytest.mark.parametrize("kind", ["is_view", "is_object", "is_external"])
def test_sql_is_recommended_only_for_writes_to_external_tables(kind):
    info = TableInfo(name=TABLE, schema=schema("id bigint"), **{kind: True})
    script = {
        "CreateWriteSession": [fail(400, "InvalidTable", "no")],
        "GetTable": [give(info)],
    }
    with ControlService(**script) as service, pytest.raises(InvalidRequestError) as caught:
        open_write_session(service.storage, TABLE)
    assert caught.value.hint.startswith("write to another table")
    assert ("insert into" in caught.value.hint) == (kind == "is_external")


@pytest.mark.parametrize("known", [True, False])
def test_a_write_to_a_view_is_refused_as_such(known):
    info = TableInfo(name=TABLE, schema=schema("id bigint"), is_view=True)
    script = {
        "CreateWriteSession": [fail(400, "InvalidTable", "no")],
        "GetTable": [give(info) if known else fail(403, "NoPermission")],
    }
    with (
        ControlService(**script) as service,
        pytest.raises(InvalidRequestError, match="p.t is a view" if known else "no") as caught,
    ):
        open_write_session(service.storage, TABLE)
    assert caught.value.code == "InvalidTable"


def test_a_failing_suggestion_does_not_hide_the_error():
    refused = fail(403, "NoPermission")
    script = {
        "GetTable": [fail(404, "NoSuchTable")],
        "ListTables": [refused],
        "ListPartitions": [refused],
    }
    with ControlService(**script) as service, pytest.raises(NotFoundError) as caught:
        fetch_table(service.storage, TABLE)
    assert caught.value.code == "NoSuchTable"
    with ControlService(**script) as service:
        missing = NotFoundError("no", code="NoSuchPartition")
        suggest_partitions(service.storage, TABLE, [PartitionSpec.of("ds=1")], missing)


def test_partitions_are_listed_page_by_page():
    def page(marker, *specs):
        infos = tuple(PartitionInfo(spec=PartitionSpec.of(spec)) for spec in specs)
        return give(PartitionPage(partitions=infos, marker=marker))

    script = [page("m", "ds=a,h=1"), page("", "ds=b,h=1", "ds=b,h=2")]
    with ControlService(ListPartitions=script) as service, service.client() as storage:
        found = [str(one.spec) for one in iter_partitions(storage, TABLE)]
    assert found == ["ds=a,h=1", "ds=b,h=1", "ds=b,h=2"]
    with ControlService(ListPartitions=[page("", "ds=b,h=1")]) as service, service.client() as s:
        under = PartitionSpec.of("ds=a")
        assert list(iter_partitions(s, TABLE, under)) == []
    assert service.calls["ListPartitions"][0].partition == under


@pytest.mark.parametrize(
    ("facts", "columns", "why"),
    [
        ({"is_external": True}, (), "p.t is an external table"),
        ({"is_object": True}, (), "p.t is an object table"),
        ({"is_object": True, "is_external": True}, (), "p.t is an object table"),
        ({"is_view": True}, ("id",), "p.t is a view"),
        ({}, (), "p.t has the JSON column 'seen'"),
        ({}, ("ID", "Told"), "p.t has the JSON column 'told'"),
        ({}, ("id",), None),
    ],
)
def test_reading_an_external_or_object_table_suggests_a_query(facts, columns, why):
    """``docs/protocol.md`` section 3.1, and evidence 209 (object tables: Java SDK, 0.51.0).

    The embedded service has neither external nor object tables.
    """
    info = TableInfo(name=TABLE, schema=schema("id bigint, seen json, told json"), **facts)
    refused = fail(405, "SomethingElse", "it cannot be")
    with (
        ControlService(CreateReadSession=[refused], GetTable=[give(info)]) as service,
        pytest.raises(InvalidRequestError if why is None else NeedsQuery) as caught,
    ):
        open_storage_session(service.storage, ReadPlan(table=TABLE, columns=columns))
    if why is not None:
        assert caught.value.why == why
