"""Table schemas as JSON, flat and nested (``docs/protocol.md`` section 3.11).

The nested form has one object and one column id per nesting level. A blob is uploaded with the id
of its BLOB leaf, so ids are stored by path, e.g. ``c3.element.f2``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from odps_nb.schema import (
    ArrayType,
    Column,
    DecimalType,
    LengthType,
    MapType,
    OdpsType,
    PrimitiveType,
    StructField,
    StructType,
    TableSchema,
    TypeCode,
    UnknownType,
    children_of,
    explicit_decimals,
)
from odps_nb.wire.json_fields import Fields, in_answer
from odps_nb.wire.type_text import (
    MAX_CHAR,
    MAX_DEPTH,
    MAX_PRECISION,
    MAX_VARCHAR,
    format_type,
    read_type,
)

DEFAULT_MAX_FIELD_SIZE = 8 * 2**20
_NESTED = (TypeCode.ARRAY, TypeCode.MAP, TypeCode.STRUCT)
_CODES = {str(int(code)): code for code in TypeCode if code >= 0}
# A type can also be sent as a name instead of a code; the other members are the same.
_CODES |= {code.name.lower(): code for code in TypeCode if code >= 0 and code not in _NESTED}
MAX_COLUMNS = 10_000  # the service allows 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSchema:
    """The schema of a write stream: columns, and a column id for every nested level.

    ``key_columns`` names the distribution keys of a primary-key table; ``max_field_size`` is in
    bytes.
    """

    schema: TableSchema
    system_columns: tuple[Column, ...] = ()
    max_field_size: int = DEFAULT_MAX_FIELD_SIZE
    column_ids: Mapping[str, int] = field(default_factory=dict)
    key_columns: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        schema: TableSchema,
        *,
        system_columns: tuple[Column, ...] = (),
        max_field_size: int = DEFAULT_MAX_FIELD_SIZE,
        key_columns: tuple[str, ...] = (),
    ) -> WriteSchema:
        """Create a schema; ids count from 1, in pre-order: data, partition, then system columns."""
        ids: dict[str, int] = {}
        for column in (*schema.all_columns, *system_columns):
            for path, _ in _levels(column.name, column.type):
                ids.setdefault(path, len(ids) + 1)
        return cls(
            schema=_with_ids(schema, ids),
            system_columns=tuple(replace(c, column_id=ids[c.name]) for c in system_columns),
            max_field_size=max_field_size,
            column_ids=ids,
            key_columns=key_columns,
        )

    @property
    def blob_ids(self) -> dict[str, int]:
        """The known column ids of BLOB leaves, by path, e.g. ``{"c2.element": 2}``.

        BLOBs in MAP keys are excluded, because the service does not accept blobs in keys, and the
        stock client ignores BLOBs in keys.
        """
        return {
            path: self.column_ids[path]
            for column in self.schema.all_columns
            for path, type_ in _levels(column.name, column.type, keys=False)
            if type_.code is TypeCode.BLOB and path in self.column_ids
        }


def assign_column_ids(schema: TableSchema) -> TableSchema:
    """Return the schema with the ids that `WriteSchema.of` assigns to top-level columns."""
    return WriteSchema.of(schema).schema


def _with_ids(schema: TableSchema, ids: Mapping[str, int]) -> TableSchema:
    return TableSchema(
        columns=tuple(replace(c, column_id=ids[c.name]) for c in schema.columns),
        partition_columns=tuple(
            replace(c, column_id=ids[c.name]) for c in schema.partition_columns
        ),
    )


def _levels(path: str, type_: OdpsType, *, keys: bool = True) -> Iterator[tuple[str, OdpsType]]:
    """Yield (path, type) for a column and all its nested levels, in pre-order."""
    yield path, type_
    for number, (name, inner) in enumerate(children_of(type_)):
        if keys or number or not isinstance(type_, MapType):
            yield from _levels(f"{path}.{name}", inner, keys=keys)


# -- flat form --------------------------------------------------------------------------------


def encode_flat(schema: TableSchema) -> dict[str, object]:
    """Encode the flat form; columns without an id get one from `assign_column_ids`."""
    numbered = assign_column_ids(schema)

    def encode(columns: Iterable[Column], fallback: Iterable[Column]) -> list[dict[str, object]]:
        return [
            {
                "Name": column.name,
                "Type": format_type(column.type),
                "Comment": column.comment,
                "Nullable": column.nullable,
                "ColumnId": other.column_id if column.column_id is None else column.column_id,
            }
            for column, other in zip(columns, fallback, strict=True)
        ]

    return {
        "DataColumns": encode(schema.columns, numbered.columns),
        "PartitionColumns": encode(schema.partition_columns, numbered.partition_columns),
    }


def decode_flat(members: Mapping[str, object]) -> TableSchema:
    """Parse the flat form."""
    fields = Fields(members, "DataSchema", in_answer)
    return TableSchema(
        columns=_flat_columns(fields, "DataColumns"),
        partition_columns=_flat_columns(fields, "PartitionColumns"),
    )


def _flat_columns(fields: Fields, key: str) -> tuple[Column, ...]:
    return tuple(
        Column(
            name=one.need_text("Name"),
            type=read_type(one.simple("Type")),
            comment=one.text("Comment"),
            nullable=one.boolean("Nullable", default=True),
            column_id=_column_id(one),
        )
        for one in _limited(fields, key)
    )


def _limited(fields: Fields, key: str) -> list[Fields]:
    columns = fields.inners(key)
    if len(columns) > MAX_COLUMNS:
        raise fields.fail(key, f"has {len(columns)} columns; the limit is {MAX_COLUMNS}")
    return columns


def _column_id(fields: Fields) -> int | None:
    found = fields.loose_integer("ColumnId")
    return None if found == -1 else found  # in the nested form, -1 means that there is no id


# -- nested form ------------------------------------------------------------------------------


def encode_nested(schema: WriteSchema | TableSchema) -> dict[str, object]:
    """Encode the nested form; `WriteSchema.of` first assigns ids to a plain `TableSchema`."""
    full = WriteSchema.of(schema) if isinstance(schema, TableSchema) else schema

    def encode(columns: Iterable[Column]) -> list[dict[str, object]]:
        return [
            {
                "comment": column.comment,
                "label": "",
                "extendedLabels": [],
                "columnType": _encode_level(column.name, column.name, column.type, full)
                | {"Nullable": column.nullable}
                # a partition column in the rows is in both column lists, maybe with different ids
                | ({} if column.column_id is None else {"ColumnId": column.column_id}),
            }
            for column in columns
        ]

    return {
        "DataColumns": encode(full.schema.columns),
        "PartitionColumns": encode(full.schema.partition_columns),
        "SystemColumns": encode(full.system_columns),
        "MaxFieldSize": full.max_field_size,
    }


def _encode_level(name: str, path: str, type_: OdpsType, full: WriteSchema) -> dict[str, object]:
    level: dict[str, object] = {
        "MemberName": name,
        "ColumnId": full.column_ids.get(path, -1),
        "Nullable": True,
        "Type": type_.text
        if isinstance(type_, UnknownType)
        else max(int(type_.code), int(TypeCode.UNKNOWN)),
        "Precision": 0,
        "Scale": 0,
        "SpecifiedLength": type_.length if isinstance(type_, LengthType) else 0,
        "SubTypes": [
            _encode_level(inner, f"{path}.{inner}", inner_type, full)
            for inner, inner_type in children_of(type_)
        ],
        "IsDistributionKey": path in full.key_columns,
        "HasDefaultValue": False,
        "DefaultValue": "",
    }
    if isinstance(type_, DecimalType):
        precise = explicit_decimals(type_)  # stock clients reject a missing precision, and 0
        assert isinstance(precise, DecimalType)
        level |= {"Precision": precise.precision, "Scale": precise.scale or 0}
    return level


def decode_nested(members: Mapping[str, object]) -> WriteSchema:
    """Parse the nested form; raise `FramingError` if a member is invalid."""
    fields = Fields(members, "TableSchema", in_answer)
    ids: dict[str, int] = {}
    keys: list[str] = []

    def decode(key: str) -> tuple[Column, ...]:
        return tuple(_nested_column(one, ids, keys) for one in _limited(fields, key))

    def known(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Fill in a missing column id from the column with the same name in another list."""
        return tuple(
            replace(one, column_id=ids.get(one.name)) if one.column_id is None else one
            for one in columns
        )

    data, partitions, system = map(decode, ("DataColumns", "PartitionColumns", "SystemColumns"))
    return WriteSchema(
        schema=TableSchema(columns=known(data), partition_columns=known(partitions)),
        system_columns=known(system),
        max_field_size=fields.integer("MaxFieldSize", DEFAULT_MAX_FIELD_SIZE),
        column_ids=ids,
        key_columns=tuple(keys),
    )


def _nested_column(one: Fields, ids: dict[str, int], keys: list[str]) -> Column:
    level = one.inner("columnType")
    name = level.need_text("MemberName")
    type_ = _decode_level(level, name, ids, 0)
    if level.boolean("IsDistributionKey", default=False):
        keys.append(name)
    return Column(
        name=name,
        type=type_,
        comment=one.text("comment"),
        nullable=level.boolean("Nullable", default=True),
        column_id=_column_id(level),
    )


def _decode_level(level: Fields, path: str, ids: dict[str, int], depth: int) -> OdpsType:
    if depth > MAX_DEPTH:
        raise level.fail("SubTypes", f"is nested deeper than {MAX_DEPTH} levels")
    number = _column_id(level)
    if number is not None:
        ids[path] = number
    written = level.simple("Type") or "-1"
    code = _CODES.get(written.lower())
    if code is None:
        is_number = written.lstrip("-").isdigit()
        return UnknownType(f"type {written}") if is_number else read_type(written)
    if code is TypeCode.DECIMAL:
        return _decimal(level)
    if code in (TypeCode.CHAR, TypeCode.VARCHAR):
        length = level.integer("SpecifiedLength")
        if not 1 <= length <= (MAX_CHAR if code is TypeCode.CHAR else MAX_VARCHAR):
            return UnknownType(f"{code.name.lower()}({length})")
        return LengthType(code, length)
    if code not in _NESTED:
        return PrimitiveType(code)
    return _decode_children(code, level, path, ids, depth + 1)


def _decode_children(
    code: TypeCode, level: Fields, path: str, ids: dict[str, int], depth: int
) -> OdpsType:
    children = level.inners("SubTypes")
    defaults = {TypeCode.ARRAY: ("element",), TypeCode.MAP: ("key", "value")}.get(code)
    if defaults is None:
        names = [child.need_text("MemberName") for child in children]
        if len({name.casefold() for name in names}) < max(1, len(names)):
            raise level.fail("SubTypes", "of a STRUCT has missing or duplicate names")
    elif len(children) == len(defaults):
        pairs = zip(children, defaults, strict=True)
        names = [child.text("MemberName") or default for child, default in pairs]
    else:
        raise level.fail(
            "SubTypes", f"for {code.name}: {len(children)} found, {len(defaults)} needed"
        )
    types = [
        _decode_level(child, f"{path}.{name}", ids, depth)
        for child, name in zip(children, names, strict=True)
    ]
    if code is TypeCode.ARRAY:
        return ArrayType(types[0])
    if code is TypeCode.MAP:
        return MapType(types[0], types[1])
    members = zip(names, types, strict=True)
    return StructType(tuple(StructField(name, type_) for name, type_ in members))


def _decimal(level: Fields) -> DecimalType | UnknownType:
    precision, scale = level.integer("Precision"), level.integer("Scale")
    if not precision:
        return DecimalType()
    if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
        return UnknownType(f"decimal({precision},{scale})")
    return DecimalType(precision, scale)
