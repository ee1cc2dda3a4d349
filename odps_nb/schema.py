"""MaxCompute's types, columns and table schemas as immutable values.

``str(type)`` is the type in SQL as the service writes it, e.g. ``decimal(10,2)``.
``odps_nb.wire.type_text`` parses that text, ``odps_nb.wire.schema_json`` converts schemas to JSON,
and ``odps_nb.convert`` converts types to Arrow. Type codes are those in ``docs/protocol.md``
section 3.11.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any


class TypeCode(IntEnum):
    """Type numbers in the nested ("write") schema form.

    A negative code stands for a type whose number is not documented. Such a type is sent as
    `UNKNOWN`, and its text identifies it.
    """

    UNKNOWN = -1
    GEOGRAPHY = -2
    VECTOR = -3
    BIGINT = 0
    DOUBLE = 1
    BOOLEAN = 2
    DATETIME = 3
    STRING = 4
    DECIMAL = 5
    TINYINT = 6
    SMALLINT = 7
    INT = 8
    CHAR = 9
    VARCHAR = 10
    BINARY = 11
    DATE = 12
    TIMESTAMP = 13
    FLOAT = 14
    INTERVAL_YEAR_MONTH = 15
    INTERVAL_DAY_TIME = 16
    ARRAY = 17
    MAP = 18
    STRUCT = 19
    JSON = 20
    TIMESTAMP_NTZ = 21
    BLOB = 22
    VARIANT = 23


_TIMES = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)
TEXT = (TypeCode.STRING, TypeCode.CHAR, TypeCode.VARCHAR, TypeCode.JSON)
"""Types whose values are returned as text; a STRING may contain any bytes."""
PLAIN_NAME = re.compile(r"[^\W\d]\w*")
"""A name that types may contain without back-quotes."""


def quote_name(name: str, *, always: bool = False) -> str:
    """Return a name for SQL, in back-quotes if it needs them."""
    if not always and PLAIN_NAME.fullmatch(name):
        return name
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without parameters, e.g. ``PrimitiveType(TypeCode.BIGINT)``."""

    code: TypeCode

    def __str__(self) -> str:
        return self.code.name.lower()


@dataclass(frozen=True, slots=True)
class DecimalType:
    """DECIMAL(precision, scale); both are ``None`` for a plain DECIMAL (read as 38, 18)."""

    precision: int | None = None
    scale: int | None = None
    code: TypeCode = field(default=TypeCode.DECIMAL, init=False)

    def __str__(self) -> str:
        return (
            "decimal" if self.precision is None else f"decimal({self.precision},{self.scale or 0})"
        )


@dataclass(frozen=True, slots=True)
class LengthType:
    """CHAR(n) or VARCHAR(n); ``length`` is n, the number of characters."""

    code: TypeCode
    length: int

    def __str__(self) -> str:
        return f"{self.code.name.lower()}({self.length})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """ARRAY<element>."""

    element: OdpsType
    code: TypeCode = field(default=TypeCode.ARRAY, init=False)

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """MAP<key, value>; keys are never null."""

    key: OdpsType
    value: OdpsType
    code: TypeCode = field(default=TypeCode.MAP, init=False)

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """One member of a STRUCT."""

    name: str
    type: OdpsType

    def __str__(self) -> str:
        return f"{quote_name(self.name)}:{self.type}"


@dataclass(frozen=True, slots=True)
class StructType:
    """STRUCT<name: type, …>; names are case-insensitive."""

    fields: tuple[StructField, ...]
    code: TypeCode = field(default=TypeCode.STRUCT, init=False)

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"


@dataclass(frozen=True, slots=True)
class VectorType:
    """VECTOR(element, length): ``length`` non-null numbers of type FLOAT or DOUBLE."""

    element: PrimitiveType
    length: int
    code: TypeCode = field(default=TypeCode.VECTOR, init=False)

    def __str__(self) -> str:
        return f"vector({self.element},{self.length})"


@dataclass(frozen=True, slots=True)
class UnknownType:
    """A type that this version of odps_nb does not know; ``text`` is what the service sent."""

    text: str
    code: TypeCode = field(default=TypeCode.UNKNOWN, init=False)

    def __str__(self) -> str:
        return self.text


OdpsType = (
    PrimitiveType
    | DecimalType
    | LengthType
    | ArrayType
    | MapType
    | StructType
    | VectorType
    | UnknownType
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The expression that computes a partition column's values (AUTO PARTITIONED BY).

    ``text`` is the expression's SQL text. If it is ``trunc_time(source, 'unit')`` with the unit
    year, month, day or hour, ``source`` and ``unit`` are the arguments; otherwise, both are empty.
    """

    text: str
    source: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table. ``column_id`` is the id on the server; ``None`` if unknown.

    ``generated`` is the expression if this is a partition column computed from another column.
    """

    name: str
    type: OdpsType
    comment: str = ""
    nullable: bool = True
    column_id: int | None = None
    generated: Generated | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """Data columns, then partition columns, in the order in which the service returns them."""

    columns: tuple[Column, ...] = ()
    partition_columns: tuple[Column, ...] = ()
    _by_name: dict[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named = {column.name.casefold(): column for column in reversed(self.all_columns)}
        object.__setattr__(self, "_by_name", named)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """Data columns followed by partition columns."""
        return self.columns + self.partition_columns

    @property
    def names(self) -> tuple[str, ...]:
        """Names of ``all_columns``."""
        return tuple(column.name for column in self.all_columns)

    def find(self, name: str) -> Column | None:
        """Return the column with that name (case is ignored), or ``None``."""
        return self._by_name.get(name.casefold())

    def source_of(self, column: Column) -> Column | None:
        """Return the column from which a partition column is computed; ``None`` if unknown."""
        generated = column.generated
        source = self.find(generated.source) if generated is not None and generated.source else None
        return source if source is not None and source.type.code in _TIMES else None

    def __iter__(self) -> Iterator[Column]:
        return iter(self.all_columns)

    def _repr_pretty_(self, printer: Any, _: object) -> None:
        """Show one column per line in IPython."""
        keys = set(self.partition_columns)
        texts = (
            (column.name, str(column.type), "(partition) " * (column in keys) + column.comment)
            for column in self
        )
        rows = [[text if text.isprintable() else ascii(text) for text in row] for row in texts]
        wide = [max((len(row[n]) for row in rows), default=0) for n in range(2)]
        wide[1] = min(wide[1], 16)  # one long type must not move all comments to the right
        lines = (
            f"{name:{wide[0]}}  {kind:{wide[1]}}  {comment}".rstrip()
            for name, kind, comment in rows
        )
        printer.text("\n".join(lines) or "no columns")

    def __len__(self) -> int:
        return len(self.columns) + len(self.partition_columns)


def has_blob(odps: OdpsType) -> bool:
    """Whether the type is BLOB or contains one."""
    return has_any(odps, (TypeCode.BLOB,))


def is_readable(odps: OdpsType) -> bool:
    """Whether values of this type can be read, i.e. its Arrow type is known."""
    return not has_any(odps, (TypeCode.UNKNOWN, TypeCode.VARIANT))


def has_timestamp(odps: OdpsType) -> bool:
    """Whether the type is or contains a TIMESTAMP, whose unit on the wire can be chosen."""
    return has_any(odps, (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ))


def has_any(odps: OdpsType, codes: tuple[TypeCode, ...]) -> bool:
    """Whether the type, or a type nested in it, has one of these codes."""
    return any(inner.code in codes for inner in types_in(odps))


def types_in(odps: OdpsType) -> Iterator[OdpsType]:
    """Yield a type and all types nested in it."""
    yield odps
    for _, inner in children_of(odps):
        yield from types_in(inner)


def children_of(odps: OdpsType) -> Iterator[tuple[str, OdpsType]]:
    """Yield the child types of an ARRAY, MAP or STRUCT, with their names on the wire."""
    if isinstance(odps, ArrayType):
        yield "element", odps.element
    elif isinstance(odps, MapType):
        yield "key", odps.key
        yield "value", odps.value
    elif isinstance(odps, StructType):
        for member in odps.fields:
            yield member.name, member.type


def text_as_binary(schema: TableSchema) -> TableSchema:
    """Return the schema with text types replaced by BINARY in data columns, at any nesting level.

    BLOB references and partition columns stay text.
    """
    binary = PrimitiveType(TypeCode.BINARY)

    def leaf(odps: OdpsType) -> OdpsType:
        return binary if odps.code in TEXT else odps

    columns = tuple(
        replace(column, type=_with_leaves(column.type, leaf)) for column in schema.columns
    )
    return replace(schema, columns=columns)


def explicit_decimals(odps: OdpsType) -> OdpsType:
    """Return the type with each bare DECIMAL replaced by DECIMAL(38,18), at any nesting level."""

    def leaf(inner: OdpsType) -> OdpsType:
        is_bare = isinstance(inner, DecimalType) and inner.precision is None
        return DecimalType(38, 18) if is_bare else inner

    return _with_leaves(odps, leaf)


def _with_leaves(odps: OdpsType, leaf: Callable[[OdpsType], OdpsType]) -> OdpsType:
    if isinstance(odps, ArrayType):
        return ArrayType(_with_leaves(odps.element, leaf))
    if isinstance(odps, MapType):
        return MapType(_with_leaves(odps.key, leaf), _with_leaves(odps.value, leaf))
    if isinstance(odps, StructType):
        fields = (replace(member, type=_with_leaves(member.type, leaf)) for member in odps.fields)
        return StructType(tuple(fields))
    return leaf(odps)
