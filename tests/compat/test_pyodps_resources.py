"""The stock client's resources and functions, with and without schemas."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from odps import ODPS, errors, options

from odps_nb.local.server.launch import LocalService, start
from tests.support.compat.stock import STOCK, stock_client

pytestmark = STOCK


@pytest.fixture(scope="module", params=["plain", "schemas"])
def entry(request: pytest.FixtureRequest, empty_service: LocalService) -> Iterator[ODPS]:
    """A client of a project without schemas, and one of a project with all objects in a schema."""
    if request.param == "plain":
        yield stock_client(empty_service)
        return
    with start(samples=False, options=("--schemas",)) as running:
        found = stock_client(running)
        found.create_schema("other")
        yield found


@pytest.fixture
def place(entry: ODPS) -> dict[str, str]:
    """The schema as an argument of the client's methods."""
    return {"schema": "other"} if entry.is_schema_namespace_enabled() else {}


@pytest.mark.parametrize("kind", ["file", "py", "jar", "archive"])
def test_a_file_is_created_read_updated_and_deleted(
    entry: ODPS, place: dict[str, str], name: str, kind: str
) -> None:
    entry.create_resource(name, kind, fileobj="line 1\nline 2", comment="noted", **place)
    with pytest.raises(errors.ODPSError, match="already exists"):
        entry.create_resource(name, kind, fileobj="other", **place)
    found = entry.get_resource(name, **place)
    found.reload()
    assert (found.type.value.lower(), found.comment, found.size) == (kind, "noted", 13)
    assert found.owner == entry.account.access_id
    assert name in [one.name for one in entry.list_resources(prefix=name[:4], **place)]
    assert not list(entry.list_resources(prefix=f"no{name}", **place))
    with entry.open_resource(name, mode="a", **place) as file:
        file.write("\nline 3")
    with entry.open_resource(name, mode="rb", **place) as file:
        assert file.read() == b"line 1\nline 2\nline 3"
    entry.delete_resource(name, **place)
    assert not entry.exist_resource(name, **place)
    with pytest.raises(errors.NoSuchObject):
        entry.delete_resource(name, **place)


@pytest.fixture
def _small_parts() -> Iterator[None]:
    before, options.resource_chunk_size = options.resource_chunk_size, 1000
    yield
    options.resource_chunk_size = before


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("size", [0, 1, 1000, 4096])
def test_a_file_is_uploaded_and_read_in_parts(
    entry: ODPS, place: dict[str, str], name: str, size: int
) -> None:
    content = bytes(number % 251 for number in range(size))
    entry.create_resource(name, "file", fileobj=io.BytesIO(content), **place)
    with entry.open_resource(name, mode="wb", stream=True, **place) as file:
        file.write(content)
    with entry.open_resource(name, mode="rb", stream=True, **place) as file:
        assert file.read() == content
    assert [one.name for one in entry.list_resources(prefix=name, **place)] == [name]


def test_a_resource_names_a_table(entry: ODPS, place: dict[str, str], name: str) -> None:
    table = entry.create_table(name, ("a bigint", "p string"), **place)
    table.create_partition("p=1")
    made = entry.create_resource(
        f"res_{name}", "table", table_name=table.full_table_name.replace("`", ""), **place
    )
    made.update(partition="p=1")
    found = entry.get_resource(f"res_{name}", **place)
    assert found.table.full_table_name == table.full_table_name
    assert str(found.partition.partition_spec) == "p='1'"


def test_a_function_is_registered_but_does_not_run(
    entry: ODPS, place: dict[str, str], name: str
) -> None:
    resource = entry.create_resource(f"{name}.py", "py", fileobj="class F: pass", **place)
    with pytest.raises(errors.NoSuchObject, match=r"missing\.py"):
        entry.create_function(name, class_type=f"{name}.F", resources=["missing.py"], **place)
    entry.create_function(name, class_type=f"{name}.F", resources=[resource], **place)
    with pytest.raises(errors.ODPSError, match="already exists"):
        entry.create_function(name, class_type=f"{name}.F", resources=[resource], **place)
    found = entry.get_function(name.upper(), **place)
    assert found.class_type == f"{name}.F"
    assert [one.name for one in found.resources] == [f"{name}.py"]
    assert [one.name for one in entry.list_functions(prefix=name, **place)] == [name]
    found.class_type = f"{name}.G"
    found.update()
    found.update_owner("someone")
    found.reload()
    assert (found.class_type, found.owner) == (f"{name}.G", "someone")
    with pytest.raises(errors.ODPSError, match=f"function {name}"):
        entry.execute_sql(f"select {name}(1)", default_schema=place.get("schema"))
    entry.delete_function(name, **place)
    assert not entry.exist_function(name, **place)
