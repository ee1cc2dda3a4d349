"""Tables and partitions: requests and documents (``docs/protocol.md`` sections 9.1, 9.3).

Table metadata is an XML document that contains a JSON document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from odps_nb.errors import FramingError
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import PartitionSpec, TableName, format_bytes
from odps_nb.wire.calls.core import NO_SCOPE, Pairs, Scope, WireRequest
from odps_nb.wire.control.core import (
    DEFAULT_PAGE,
    XML_TYPE,
    SafeCall,
    paged,
    project_path,
    rest_request,
    xml_body,
)
from odps_nb.wire.control.generated import decode_generated, encode_generated
from odps_nb.wire.json_fields import Fields, dump, parse_object
from odps_nb.wire.type_text import format_type, read_type
from odps_nb.wire.xml_text import DECLARATION, Element, child_text, element, parse_answer

# pyodps's live tests create BLOB tables with these properties (test_e2e_blob.py,
# conftest.py).
BLOB_TABLE_PROPERTIES: Mapping[str, str] = {"table.format.version": "2", "transactional": "true"}
BLOB_TABLE_SETTINGS: Mapping[str, str] = {
    "odps.sql.type.system.odps2": "true",
    "odps.table.append2.enable": "true",
}
_XML_HEADERS = {"Content-Type": XML_TYPE}
_TYPES = {
    "a view": "VIRTUAL_VIEW",
    "an external table": "EXTERNAL_TABLE",
    "an object table": "OBJECT_TABLE",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableInfo:
    """Metadata of a table. Times are in epoch seconds, sizes in bytes; ``None`` means unknown.

    ``lifecycle`` is in days; -1 means forever. ``view_text`` is the query of a view or a
    materialized view; ``is_view`` is false for the latter. ``rewrites``: MaxCompute may use the
    materialized view for other queries. ``primary_key`` and ``properties`` are only in the extended
    document.
    """

    name: TableName
    schema: TableSchema = field(default_factory=TableSchema)
    table_id: str = ""
    owner: str = ""
    comment: str = ""
    created_at: int | None = None
    modified_at: int | None = None
    ddl_at: int | None = None
    lifecycle: int = -1
    size: int | None = None
    record_count: int | None = None
    is_view: bool = False
    view_text: str = ""
    is_materialized: bool = False
    rewrites: bool = False
    is_external: bool = False
    is_object: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The kind, such as ``a view``, if only SQL can read the rows; ``""`` for other tables."""
        if self.is_view:
            return "a view"
        if self.is_object:
            return "an object table"
        return "an external table" if self.is_external else ""

    def __repr__(self) -> str:
        facts = [str(self.name), f"{len(tuple(self.schema))} columns"]
        facts += [f"{self.record_count:,} rows"] if self.record_count is not None else []
        facts += [format_bytes(self.size)] if self.size is not None else []
        return f"TableInfo({', '.join([*facts, *([f'owner={self.owner!r}'] * bool(self.owner))])})"

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the response to ``GET …/tables/<name>`` as body and headers."""
        return _document(self.element())

    def encode_extended(self) -> tuple[bytes, dict[str, str]]:
        """Encode the response to ``GET …/tables/<name>?extended`` as body and headers."""
        reserved: dict[str, object] = dict(self.properties)
        if self.primary_key:
            reserved["PrimaryKey"] = list(self.primary_key)
        members = {
            "IsArchived": False,
            "PhysicalSize": self.size or 0,
            "FileNum": 1,
            "Reserved": dump(reserved).decode(),
        }
        return _document(self._element(self._members() | members))

    def element(self) -> str:
        """Return the XML element of the table, which is also part of ``POST …/tables?query``."""
        return self._element(self._members())

    def _element(self, members: Mapping[str, object]) -> str:
        parts = (
            element("Name", self.name.table),
            element("TableId", self.table_id),
            element("Project", self.name.project),
            *([element("SchemaName", self.name.schema)] if self.name.schema else []),
            element("Type", self._type),
            element("Schema", dump(members).decode(), format="Json"),
        )
        return element("Table", parts)

    @property
    def _type(self) -> str:
        if self.is_materialized:
            return "MATERIALIZED_VIEW"
        return _TYPES.get(self.kind, "MANAGED_TABLE")

    def _members(self) -> dict[str, object]:
        created = self.created_at or 0
        members: dict[str, object] = {
            "columns": [_encode_column(column, self.schema) for column in self.schema.columns],
            "partitionKeys": [
                _encode_column(column, self.schema) for column in self.schema.partition_columns
            ],
            "tableName": self.name.table,
            "owner": self.owner,
            "comment": self.comment,
            "createTime": created,
            "lastModifiedTime": self.modified_at or created,
            "lastDDLTime": self.ddl_at or created,
            "isVirtualView": self.is_view,
            "lifecycle": self.lifecycle,
            "size": self.size or 0,
        }
        if self.view_text:
            members["viewText"] = self.view_text
        if self.is_materialized:
            members["isMaterializedView"] = True
            members["isMaterializedViewRewriteEnabled"] = self.rewrites
        members |= {"isExternal": True} if self.is_external else {}
        members |= {"isObjectTable": True} if self.is_object else {}
        if self.record_count is not None:
            members["recordNum"] = self.record_count
        return members

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str], *, asked: TableName) -> TableInfo:
        """Decode a table document; the table name is taken from the request."""
        return cls._of(parse_answer(body, "table document", root="Table"), asked)

    @classmethod
    def _of(cls, root: Element, asked: TableName) -> TableInfo:
        fields = parse_object(child_text(root, "Schema").encode(), "table schema")
        # this string contains a JSON document
        reserved = parse_object(fields.text("Reserved").encode(), "reserved table properties")
        return cls(
            name=asked,
            schema=TableSchema(
                columns=_columns(fields, "columns"),
                partition_columns=_columns(fields, "partitionKeys"),
            ),
            table_id=child_text(root, "TableId"),
            owner=fields.text("owner") or child_text(root, "Owner"),
            comment=fields.text("comment") or child_text(root, "Comment"),
            created_at=fields.optional_integer("createTime"),
            modified_at=fields.optional_integer("lastModifiedTime"),
            ddl_at=fields.optional_integer("lastDDLTime"),
            lifecycle=fields.integer("lifecycle", -1),
            size=fields.optional_integer("size"),
            record_count=fields.optional_integer("recordNum"),
            is_view=fields.boolean("isVirtualView", default=False),
            view_text=fields.text("viewText"),
            is_materialized=fields.boolean("isMaterializedView", default=False),
            rewrites=fields.boolean("isMaterializedViewRewriteEnabled", default=False),
            is_external=fields.boolean("isExternal", default=False),
            is_object=fields.boolean("isObjectTable", default=False),
            properties={  # strings, numbers and booleans only
                key: value for key in reserved if (value := reserved.simple(key)) is not None
            },
            primary_key=reserved.texts("PrimaryKey"),
        )


def _document(root: str) -> tuple[bytes, dict[str, str]]:
    return (DECLARATION + root).encode(), dict(_XML_HEADERS)


def _encode_column(column: Column, schema: TableSchema) -> dict[str, object]:
    members = {
        "name": column.name,
        "type": format_type(column.type),
        "comment": column.comment,
        "label": "",
        "isNullable": column.nullable,
    }
    if (made := column.generated) is not None:
        text = encode_generated(made, schema.find(made.source))
        members |= {"hasGenerateExpression": True, "generateExpression": text}
    return members


def _columns(fields: Fields, key: str) -> tuple[Column, ...]:
    return tuple(
        Column(
            name=one.need_text("name"),
            type=read_type(one.simple("type")),
            comment=one.text("comment"),
            nullable=one.boolean("isNullable", default=True),
            generated=decode_generated(text) if (text := one.text("generateExpression")) else None,
        )
        for one in fields.inners(key)
    )


def _of_table(table: TableName, params: Pairs, scope: Scope) -> WireRequest:
    # the schema is a parameter, not part of the path (``docs/protocol.md`` section 9.2)
    path = project_path(table.project, "tables", table.table)
    return rest_request(path, params, scope=scope, schema=table.schema)


def _quoted(partition: PartitionSpec) -> str:
    return ",".join(f"{key}='{value}'" for key, value in partition.checked())


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTable(SafeCall):
    """Request for a table's metadata; ``extended`` adds sizes and properties."""

    table: TableName
    extended: bool = False

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        return _of_table(self.table, (("extended", ""),) if self.extended else (), scope)

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> TableInfo:
        return TableInfo.decode(body, headers, asked=self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTables(SafeCall):
    """Request for the metadata of up to 100 tables of one project, all of which must exist."""

    tables: tuple[TableName, ...]

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        named = (
            element(
                "Table",
                (
                    element("Project", one.project),
                    element("Name", one.table),
                    *([element("Schema", one.schema)] if one.schema else []),
                ),
            )
            for one in self.tables
        )
        first = self.tables[0]
        return rest_request(
            project_path(first.project, "tables"),
            (("query", ""),),
            scope=scope,
            schema=first.schema,
            method="POST",
            headers=tuple(_XML_HEADERS.items()),
            body=xml_body("Tables", named),
        )

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> tuple[TableInfo, ...]:
        """Decode the tables in the order of the request; the response has lower-case names."""
        root = parse_answer(body, "list of tables", root="Tables")
        found = {child_text(one, "Name").lower(): one for one in root.findall("Table")}
        missing = [one for one in self.tables if one.table.lower() not in found]
        if missing:
            raise FramingError(f"the response does not contain the table {missing[0]}")
        return tuple(TableInfo._of(found[one.table.lower()], one) for one in self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePage:
    """Table names; ``marker`` requests the next page and is empty on the last page."""

    names: tuple[str, ...] = ()
    marker: str = ""
    owners: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)

    def encode(self, most: int = DEFAULT_PAGE) -> tuple[bytes, dict[str, str]]:
        """Encode the response as body and headers; ``most`` is the maximum length of a page."""
        tables = []
        for name in self.names:
            parts = [element("Name", name), element("Owner", self.owners.get(name, ""))]
            for label, texts in (("Type", self.types), ("Comment", self.comments)):
                parts += [element(label, texts[name])] if name in texts else []
            tables.append(element("Table", parts))
        return _encode_page("Tables", tables, self.marker, most)

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> TablePage:
        """Decode a page."""
        root = parse_answer(body, "list of tables", root="Tables")
        tables = root.findall("Table")

        def named(tag: str) -> dict[str, str]:
            return {
                child_text(one, "Name"): child_text(one, tag)
                for one in tables
                if one.find(tag) is not None
            }

        return cls(
            names=tuple(child_text(one, "Name") for one in tables),
            marker=child_text(root, "Marker"),
            owners={child_text(one, "Name"): child_text(one, "Owner") for one in tables},
            types={name: kind for name, kind in named("Type").items() if kind},
            comments=named("Comment"),
        )


def _encode_page(
    name: str, items: Iterable[str], marker: str, most: int
) -> tuple[bytes, dict[str, str]]:
    parts = (element("Marker", marker), element("MaxItems", str(most)), *items)
    return xml_body(name, parts), dict(_XML_HEADERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTables(SafeCall):
    """Request for a page of table names that begin with ``prefix``."""

    project: str
    schema: str | None = None
    prefix: str = ""
    marker: str = ""

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        asked = paged(("name", self.prefix), ("marker", self.marker))
        path = project_path(self.project, "tables")
        return rest_request(path, asked, scope=scope, schema=self.schema)

    decode_answer = staticmethod(TablePage.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """One partition. Times are in epoch seconds, ``size`` is in bytes; ``None`` means unknown."""

    spec: PartitionSpec
    created_at: int | None = None
    modified_at: int | None = None
    record_count: int | None = None
    size: int | None = None
    ddl_at: int | None = None
    files: int = 1
    lifecycle: int = -1

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the response to ``GET …?partition=…`` as body and headers."""
        created = self.created_at or 0
        return self._encode(
            createTime=created,
            lastDDLTime=self.ddl_at or created,
            lastModifiedTime=self.modified_at or created,
            partitionRecordNum=self.record_count or 0,
            partitionSize=self.size or 0,
        )

    def encode_extended(self) -> tuple[bytes, dict[str, str]]:
        """Encode the response to ``GET …?partition=…&extended``, which has different members."""
        return self._encode(
            IsArchived=False,
            IsExstore=False,
            LifeCycle=self.lifecycle,
            PhysicalSize=self.size or 0,
            FileNum=self.files,
        )

    @staticmethod
    def _encode(**members: object) -> tuple[bytes, dict[str, str]]:
        parts = (element("Schema", dump(members).decode()),)
        return xml_body("Partition", parts), dict(_XML_HEADERS)

    @classmethod
    def decode(
        cls, body: bytes, headers: Mapping[str, str], *, asked: PartitionSpec
    ) -> PartitionInfo:
        """Decode a partition document."""
        root = parse_answer(body, "partition document", root="Partition")
        fields = parse_object(child_text(root, "Schema").encode(), "partition schema")
        return cls(
            spec=asked,
            created_at=fields.optional_integer("createTime"),
            modified_at=fields.optional_integer("lastModifiedTime"),
            record_count=fields.optional_integer("partitionRecordNum"),
            size=fields.optional_integer("partitionSize"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GetPartition(SafeCall):
    """Request for one partition; the service returns 404 (`NotFoundError`) if it does not exist."""

    table: TableName
    partition: PartitionSpec

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request with quoted partition values (``docs/protocol.md`` section 7.2)."""
        return _of_table(self.table, (("partition", _quoted(self.partition)),), scope)

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> PartitionInfo:
        return PartitionInfo.decode(body, headers, asked=self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPage:
    """One page of a table's partitions."""

    partitions: tuple[PartitionInfo, ...] = ()
    marker: str = ""

    def encode(self, most: int = DEFAULT_PAGE) -> tuple[bytes, dict[str, str]]:
        """Encode the response as body and headers; ``most`` is the maximum length of a page."""
        found = map(_encode_partition, self.partitions)
        return _encode_page("Partitions", found, self.marker, most)

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> PartitionPage:
        """Decode a page."""
        root = parse_answer(body, "list of partitions", root="Partitions")
        return cls(
            partitions=tuple(_decode_partition(one) for one in root.findall("Partition")),
            marker=child_text(root, "Marker"),
        )


def _encode_partition(one: PartitionInfo) -> str:
    parts = [element("Column", Name=key, Value=value) for key, value in one.spec]
    for name, number in (("PartitionSize", one.size), ("PartitionRecordCount", one.record_count)):
        if number is not None:
            parts.append(element(name, str(number)))
    return element("Partition", parts)


def _decode_partition(one: Element) -> PartitionInfo:
    levels = ((column.get("Name", ""), column.get("Value", "")) for column in one.findall("Column"))
    return PartitionInfo(
        spec=PartitionSpec(tuple(levels)),
        size=_number(child_text(one, "PartitionSize")),
        record_count=_number(child_text(one, "PartitionRecordCount")),
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitions(SafeCall):
    """Request for a page of all partitions, or of those under ``partition``."""

    table: TableName
    partition: PartitionSpec = field(default_factory=PartitionSpec)
    marker: str = ""

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        asked = paged(("partition", _quoted(self.partition)), ("marker", self.marker))
        return _of_table(self.table, (("partitions", ""), *asked), scope)

    decode_answer = staticmethod(PartitionPage.decode)
