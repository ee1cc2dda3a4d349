"""Parses a Spark query with sqlglot: finds the statement's kind and the positions of table names.

Spark receives the original text, in which only the table names are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odps_nb import sql_parser
from odps_nb.errors import ArgumentError, MissingDependencyError
from odps_nb.spark.pushdown.understood import is_regular, is_repeatable

_NAME = re.compile(r"[^\W\d]\w*")
WORD = re.compile(r"\w+")
# Escape sequences that every version of Spark reads the same way.
_ESCAPE = re.compile(r"\\(['\"\\])")
_QUERY = frozenset({"select", "with", "from", "values", "("})
_ELSEWHERE = {
    "insert": "write with odps_nb.spark.write, or attach the table (odps_nb.spark.attach) and use "
    "spark.sql, or run the statement on the service with %%odps sql",
    "create": 'use odps_nb.spark.write(df, odps, "name", create=True) to create a table from a '
    "DataFrame, or run the statement on the service with %%odps sql",
    "merge": "use odps.table(name).upsert(df), or run the statement with %%odps sql",
    "explain": "call odps_nb.spark.explain_sql, or .explain() of the DataFrame",
    "table": "write select * from … instead",
}
_SERVICE = "run it with %%odps sql (odps.sql) on the service, or with spark.sql on Spark's tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A table name in the text: its parts, its position, and its node in the tree."""

    parts: tuple[str, ...]
    start: int
    end: int
    node: Any = field(repr=False, compare=False)

    @property
    def alias(self) -> str:
        """The qualifier of the table's columns if the query defines no alias."""
        return self.parts[-1]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """A parsed query.

    ``words`` are all words outside quotes, in lower case; a column whose name is not among them is
    unused. ``plain_texts`` are the literals that all Spark versions interpret alike. ``is_regular``
    is false if the tree may omit part of the text. ``is_repeatable`` is false if dropping rows may
    change values in other rows. ``zone`` is the session's time zone, or ``None`` if it is unknown.
    ``fixed`` lists replacements in the text as (start, end, replacement).
    """

    text: str
    tree: Any = field(repr=False)
    references: tuple[Reference, ...]
    words: frozenset[str] = field(repr=False)
    plain_texts: frozenset[str] = field(repr=False)
    is_regular: bool
    is_repeatable: bool
    zone: str | None = None
    tokens: tuple[Any, ...] = field(default=(), repr=False, compare=False)
    fixed: tuple[tuple[int, int, str], ...] = ()


def parse_query(text: str) -> ParsedQuery:
    """Parse one query; raise `ArgumentError` if it is not a query or cannot be parsed."""
    try:
        import sqlglot
    except ImportError:
        raise MissingDependencyError(
            "sqlglot is not installed", extra="spark", hint="pip install 'odps-nb[spark]'"
        ) from None
    try:
        tokens = sqlglot.tokenize(text, read="spark")
        _check_kind(tokens)
        trees = [tree for tree in sql_parser.parse(text, "spark") if tree is not None]
    except sqlglot.errors.SqlglotError as error:
        raise _unreadable(error) from None
    except RecursionError:
        raise ArgumentError("the query is nested too deeply") from None
    if len(trees) != 1:
        raise ArgumentError(f"the text has {len(trees)} statements", hint="pass exactly one query")
    if not isinstance(trees[0], (sqlglot.exp.Query, sqlglot.exp.Values)):
        raise _no_query(trees[0].key)
    strings = [t for t in tokens if t.token_type is sqlglot.TokenType.STRING]
    code_tokens = [t for t in tokens if t.token_type is not sqlglot.TokenType.STRING]
    words = (word for token in code_tokens for word in WORD.findall(fold(token.text)))
    return ParsedQuery(
        text=text,
        tree=trees[0],
        references=tuple(_references(text, trees[0])),
        words=frozenset(words),
        plain_texts=_plain_texts(text, strings),
        is_regular=is_regular(text, tokens, trees[0]),
        is_repeatable=is_repeatable(tokens, trees[0]),
        tokens=tuple(tokens),
    )


def fold(name: str) -> str:
    """Return a name normalised for comparison: Spark and MaxCompute ignore case."""
    return name.casefold()


def _check_kind(tokens: Sequence[Any]) -> None:
    first = fold(tokens[0].text) if tokens else ""
    if not first:
        raise ArgumentError("the query is empty", hint="write select … from …")
    if first not in _QUERY:
        raise _no_query(first)


def refuse_versions(references: Iterable[Reference]) -> None:
    """Raise if a query reads an ODPS table AS OF a version or time (other tables allow this)."""
    for ref in references:
        if ref.node.args.get("version"):
            raise ArgumentError(
                f"{'.'.join(ref.parts)} cannot be read at an earlier version (VERSION AS OF, "
                "TIMESTAMP AS OF)",
                hint="read the current table, or use odps_nb.spark.read(…, since=…, until=…) for "
                "the rows that were added between two versions",
            )


def _no_query(kind: str) -> ArgumentError:
    shown = kind if len(kind) <= 30 else kind[:29] + "…"
    return ArgumentError(
        f"{shown!r} is not a query; only SELECT, WITH and VALUES run over ODPS tables",
        hint=_ELSEWHERE.get(kind, _SERVICE),
    )


def _unreadable(error: Any) -> ArgumentError:
    details = (getattr(error, "errors", None) or [{}])[0]
    line, column = details.get("line"), details.get("col")
    message = str(details.get("description") or str(error).splitlines()[0])
    message = re.sub(r"\s*(but got )?<Token .*?>\.?$", "", message).rstrip(". ")
    where = f" at line {line}, column {column}" if line and column else ""
    near = f", near {details['highlight']!r}" if details.get("highlight") else ""
    return ArgumentError(
        f"the query cannot be parsed{where}{near}: {message[:200]}",
        code="ParseError",
        hint="check the Spark SQL syntax, or try spark.sql for syntax unknown to this parser",
    )


def tables_of(tree: Any) -> Iterator[Any]:
    """Yield the table nodes of a tree, except names in hints."""
    from sqlglot import exp

    for node in tree.find_all(exp.Table):
        if node.find_ancestor(exp.Hint) is None:
            yield node


def _references(text: str, tree: Any) -> Iterator[Reference]:
    from sqlglot import exp

    references: dict[int, Reference] = {}
    for node in tables_of(tree):
        parts = node.parts
        if not all(isinstance(part, exp.Identifier) for part in parts):
            continue  # a table-valued function
        if not all(_NAME.fullmatch(part.name) for part in parts) or len(parts) > 3:
            continue  # a file that Spark reads, e.g. parquet.`/data`
        if cte_of(node) is not None:
            continue
        start, end = parts[0].meta.get("start"), parts[-1].meta.get("end")
        if start is None or end is None or not _spells(text[start : end + 1], parts):
            continue  # the parser inserted this name; the text does not contain it
        references[start] = Reference(
            parts=tuple(part.name for part in parts), start=start, end=end + 1, node=node
        )
    return iter([references[start] for start in sorted(references)])


def _spells(text: str, parts: Sequence[Any]) -> bool:
    names = [part.strip().strip("`") for part in text.split(".")]
    return names == [part.name for part in parts]


def cte_of(table: Any) -> Any | None:
    """Return the CTE that a table's name refers to, or ``None``."""
    from sqlglot import exp

    if table.args.get("db") is not None:
        return None
    name, child = fold(table.name), table
    while child.parent is not None:
        parent = child.parent
        clause = parent if isinstance(parent, exp.With) else parent.args.get("with_")
        if isinstance(clause, exp.With) and not isinstance(child, exp.With):
            seen = clause.expressions
            if child in seen and parent is clause:  # a CTE can refer only to earlier ones
                index = next(i for i, item in enumerate(seen) if item is child)
                seen = seen[: index + bool(clause.args.get("recursive"))]
            for entry in reversed(seen):
                if fold(entry.alias) == name:
                    return entry
        child = parent
    return None


def fill(query: ParsedQuery, placeholders: Mapping[Reference, str]) -> str:
    """Return the text for ``spark.sql(text, **frames)``, with table names replaced by placeholders.

    Parentheses around a placeholder allow the suffixes of a table name: an alias, a sample, a
    pivot.
    """
    names = {ref: f"({{{key}}} as `{ref.alias}`)" for ref, key in placeholders.items()}
    cuts = [(ref.start, ref.end, name) for ref, name in names.items()]
    cuts += [(start, end, "") for start, end in _prefixes(query, placeholders)]
    pieces, done = [], 0
    for start, end, instead in sorted([*cuts, *query.fixed]):
        pieces += [_braced(query.text[done:start]), instead]
        done = end
    return "".join([*pieces, _braced(query.text[done:])])


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _prefixes(query: ParsedQuery, placeholders: Iterable[Reference]) -> set[tuple[int, int]]:
    """Return the positions of ``project.`` prefixes to remove, because views have no project."""
    from sqlglot import exp

    names = {tuple(map(fold, ref.parts)) for ref in placeholders if len(ref.parts) > 1}
    prefixes = set()
    for column in query.tree.find_all(exp.Column):
        parts = column.parts[:-1]  # the qualifier: all parts before the column name
        if len(parts) > 1 and tuple(fold(part.name) for part in parts) in names:
            start, end = parts[0].meta.get("start"), parts[-1].meta.get("start")
            if start is not None and end is not None:
                prefixes.add((start, end))
    return prefixes


def _plain_texts(text: str, strings: Sequence[Any]) -> frozenset[str]:
    """Return the values of the literals that every Spark version interprets the same way."""
    sure: set[str] = set()
    doubtful: set[str] = set()
    for token in strings:
        raw = text[token.start : token.end + 1]
        same = value_of_text(raw) == token.text
        (sure if same else doubtful).add(token.text)
    return frozenset(sure - doubtful)


def value_of_text(raw: str) -> str | None:
    """Return the value of a quoted literal; ``None`` if Spark versions interpret it differently."""
    if len(raw) < 2 or raw[0] not in "'\"" or raw[-1] != raw[0]:
        return None
    inner = raw[1:-1]
    if "\\" in _ESCAPE.sub("", inner) or raw[0] in _ESCAPE.sub("", inner):
        return None
    return _ESCAPE.sub(r"\1", inner)
