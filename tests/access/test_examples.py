"""Statements that return no rows."""


def test_statements_without_rows_have_no_columns(odps, new_name):
    name = new_name("empty")
    result = odps.sql(f"create table {name} (id bigint)")
    assert result.row_count == 0
    assert result.to_arrow().num_columns == len(result.schema) == 0
    assert len(result.to_pandas()) == 0
    odps.drop_table(name)
