"""Replaces ``:name`` and ``{name}`` in a filter or query with the Python value of that name.

``:name`` becomes a literal, ``{name}`` a table or column name in backticks. Text inside quotes,
backticks and comments stays unchanged, as do ``::``, the colons of ``struct<a:int>``, ``${name}``
and ``{{name}}``. Values are always quoted or rejected, so they cannot inject SQL.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from odps_nb.access.binding.literals import Target, Writer
from odps_nb.access.binding.values import WRITE_FIRST, PlainValue, plain
from odps_nb.access.checks import check_text
from odps_nb.errors import ArgumentError, a_type
from odps_nb.terms import TableName, did_you_mean, shorten

_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?\*/)
  | (?P<keep>
        '(?:[^'\\]|\\.|'')*'        # text
      | "(?:[^"\\]|\\.|"")*"
      | `(?:[^`]|``)*`              # quoted name
      | ::                          # cast
          | \$\{[^{}]*\} | \{\{ | \}\}   # placeholders of other tools
    )
  | :(?P<name>[^\W\d]\w*)
  | \{\s*(?P<braces>[^\W\d][^{}]*)\}
  | (?P<word>\w+)
  | (?P<sign>\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS_AN_ITEM = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*+[,)]", re.DOTALL)


def bind(
    text: str,
    namespace: Mapping[str, object],
    *,
    source: str = "there is no variable",
    timezone: str | None = None,
    target: Target = "sql",
    in_schemas: bool = False,
) -> str:
    """Return ``text`` with each ``:name`` and ``{name}`` replaced by its value in ``namespace``.

    A list may be bound after ``in``, with or without parentheses around its name: ``in :names``,
    ``in (:names)``, ``not in (:names, 'other')``.

    ``source``: text before the name in the error message for an unknown name. A time with a zone is
    written as local time in ``timezone``, the target's time zone. Without ``timezone``, it is
    written as a UTC instant for ``where=`` and Spark, but raises an error for SQL, which has no
    literal for an instant. ``in_schemas``: whether SQL reads ``a.b`` as a schema and a table.
    """
    context = _Place()
    writer = Writer(target=target, timezone=timezone)

    def value_of(name: str, written: str) -> object:
        if name not in namespace:
            raise ArgumentError(
                f"{written} has no value: {source} {name!r}",
                argument=name,
                hint=_nearest(name, written, namespace, source),
            )
        return namespace[name]

    def replace(match: re.Match[str]) -> str:
        if (braces := match["braces"]) is not None:
            name = braces.strip()
            if not _NAME.fullmatch(name):
                raise ArgumentError(
                    f"{{{braces}}} is not the name of a variable",
                    hint="assign the table or column name to a variable, and write {variable}",
                )
            context.last = "name"
            return _identifier(name, value_of(name, f"{{{name}}}"), in_schemas=in_schemas)
        if (name := match["name"]) is None or context.is_member:
            context.move(match)
            return match[0]
        value = value_of(name, f":{name}")
        gap = " " if _WORD.match(text[max(0, match.start() - 1) : match.start()]) else ""
        try:
            return gap + context.write(plain(value), writer, text[match.end() :])
        except ArgumentError as error:
            error.add_note(f":{name}")
            raise

    return _TOKEN.sub(replace, text)


def without_comments(condition: str) -> str:
    """Return a condition without comments, so that text can follow it on the same line.

    >>> without_comments("n > 1 -- large")
    'n > 1'
    """
    return _TOKEN.sub(lambda match: " " if match["comment"] else match[0], condition).strip()


_NAME = re.compile(r"[^\W\d]\w*")
_WORD = re.compile(r"\w")
_NESTED = ("struct", "array", "map")


def bind_query(
    query: str,
    params: Mapping[str, object] | None,
    settings: Mapping[str, str] | None,
    *,
    timezone: str | None,
    schema: str | None = None,
    source: str = "params has no",
) -> str:
    """Bind ``params`` in a query; ``settings`` override the connection's time zone and schema."""
    from odps_nb.client.sql.settings import NAMESPACE, split_settings
    from odps_nb.wire.control import SQL_ZONE

    check_text("query", query)
    if not query.strip():
        raise ArgumentError("the query is empty", hint="pass a statement, e.g. 'select 1'")
    if params is None:
        return query
    merged_settings = {**split_settings(query)[0], **(settings or {})}
    zone = merged_settings.get(SQL_ZONE) or timezone
    in_schemas = merged_settings.get(NAMESPACE, "true" if schema else "false") == "true"
    return bind(query, params, source=source, timezone=zone, in_schemas=in_schemas)


@dataclass(slots=True)
class _Place:
    """Context of the next placeholder: the tokens before it and before each open parenthesis."""

    last: str = ""
    opened: list[str] = field(default_factory=list)
    nested: int = 0
    """Number of unclosed ``<`` in a type such as ``struct<a:int>``."""

    @property
    def is_member(self) -> bool:
        """Whether a colon here separates the name and type of a STRUCT field."""
        return self.nested > 0 and self.last not in ("<", ",")

    def move(self, match: re.Match[str]) -> None:
        """Advance past a token that is not a placeholder."""
        if match["comment"]:
            return
        token = match[0].casefold()
        if token == "(":
            self.opened.append(self.last)
        elif token == ")" and self.opened:
            self.opened.pop()
        elif token == "<" and self.last in _NESTED:
            self.nested += 1
        elif token == ">" and self.nested:
            self.nested -= 1
        self.last = "not in" if token == "in" and self.last == "not" else token

    def write(self, value: PlainValue, writer: Writer, rest: str) -> str:
        """Format a value for this context; ``rest`` is the text after the placeholder."""
        before, is_inside = self._list_before(rest)
        values = value if isinstance(value, list) else [value]
        if before == "not in" and any(item is None for item in values):
            raise ArgumentError(
                "a null cannot be bound after NOT IN: no row would match",
                hint="remove nulls (.dropna()), and test with IS NOT NULL",
            )
        self.last, self.nested = "value", 0
        if not isinstance(value, list):
            return writer.literal(value)
        if not before:
            raise ArgumentError(
                "a list can only be bound after IN",
                hint="write `column in (:name)`, or bind a single item of the list",
            )
        written = writer.literal(value)
        return written[1:-1] if is_inside else written

    def _list_before(self, rest: str) -> tuple[str, bool]:
        """Return the ``in`` or ``not in`` before a list, and whether the list is in parentheses."""
        if self.last in _IN:
            return self.last, False
        inside = self.opened[-1] if self.opened and self.last in ("(", ",") else ""
        return (inside, True) if inside in _IN and _ENDS_AN_ITEM.match(rest) else ("", False)


_IN = ("in", "not in")


def _identifier(name: str, value: object, *, in_schemas: bool) -> str:
    """Validate a table or column name, or a list of them, and return it in backticks."""
    if isinstance(value, (list, tuple)) and value:
        return ", ".join(_identifier(name, item, in_schemas=in_schemas) for item in value)
    table = value if isinstance(value, TableName) else getattr(value, "name", None)
    if isinstance(table, TableName):
        if in_schemas and table.schema is None:
            table = dataclasses.replace(table, schema="default")
        text = str(table)
    elif isinstance(value, str):
        text = str.__str__(value)
    else:
        raise _no_name(name, a_type(type(value)), hasattr(value, "columns"))
    parts = text.split(".")
    if len(parts) > _MAX_PARTS or not all(map(_PART.fullmatch, parts)):
        raise _no_name(name, repr(shorten(text, 60)))
    return ".".join(f"`{part}`" for part in parts)


_PART = re.compile(r"[\w']{1,128}")
_MAX_PARTS = 3


def _no_name(name: str, what: str, is_table: bool = False) -> ArgumentError:  # noqa: FBT001, FBT002
    hint = (
        f"write :{name} to bind a value; a name may contain letters, digits, underscores and "
        "single quotes, with dots between project, schema and table"
    )
    return ArgumentError(
        f"{{{name}}} must be the name of a table or column, but is {what}",
        argument=name,
        hint=WRITE_FIRST if is_table else hint,
    )


def _nearest(name: str, written: str, namespace: Mapping[str, object], source: str) -> str:
    shown = [key for key in namespace if isinstance(key, str) and not key.startswith("_")]
    form = written.replace("{", "{{").replace("}", "}}").replace(name, "{}")
    if meant := did_you_mean(name, shown, form, most=1):
        return meant.rstrip()
    if "params" in source:
        return f"pass its value: params={{{name!r}: …}}"
    return f"assign it first: {name} = …"
