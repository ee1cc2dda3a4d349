"""Decides whether a query is understood well enough to read only parts of its tables.

`is_regular` and `is_repeatable` use lists of known clauses and functions. Anything not listed (a
new Spark clause, a user-defined function) makes a query read more, never less.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

_ROWS = frozenset({"alias", "sample", "pivots", "joins"})  # parts that may follow a relation
_SET = frozenset({"this", "expression", "distinct", "by_name", "order", "limit", "offset", "with_"})
_PARTS: dict[str, frozenset[str]] = {
    "Select": frozenset(
        {
            *("expressions", "from_", "joins", "laterals", "where", "group", "having", "qualify"),
            *("order", "sort", "cluster", "distribute", "limit", "offset", "distinct", "windows"),
            *("hint", "with_"),
        }
    ),
    "Union": _SET,
    "Except": _SET,
    "Intersect": _SET,
    "Subquery": frozenset({"this", *_ROWS}),
    "Table": frozenset({"this", "db", "catalog", *_ROWS}),
    "TableAlias": frozenset({"this", "columns"}),
    "Join": frozenset({"this", "on", "using", "side", "kind", "method"}),
    "Lateral": frozenset({"this", "view", "outer", "alias"}),
    "With": frozenset({"expressions", "recursive"}),
    "CTE": frozenset({"this", "alias"}),
    "Values": frozenset({"expressions", "alias"}),
    "Group": frozenset({"expressions", "all", "rollup", "cube", "grouping_sets"}),
    "Ordered": frozenset({"this", "desc", "nulls_first"}),
    "Limit": frozenset({"expression"}),
    "Offset": frozenset({"expression"}),
    "Column": frozenset({"this", "table", "db", "catalog"}),
    "Star": frozenset({"except_"}),
    "Window": frozenset({"this", "partition_by", "order", "spec", "alias", "over"}),
}
# Node types that are allowed with any arguments, such as operators and functions.
_WHOLE = frozenset(
    {
        *("From", "Where", "Having", "Qualify", "Order", "Sort", "Cluster", "Distribute", "Hint"),
        *("Rollup", "Cube", "GroupingSets", "Pivot", "PivotAlias", "TableSample", "WindowSpec"),
        *("Alias", "Aliases", "Identifier", "Literal", "Boolean", "Null", "Var", "Tuple", "Lambda"),
        *("Between", "In", "Bracket", "Slice", "Interval", "DataType", "DataTypeParam", "Distinct"),
        *("ColumnDef", "Filter", "WithinGroup", "IgnoreNulls", "RespectNulls", "JoinHint", "Any"),
        *("All", "AtTimeZone", "HexString", "IntervalSpan"),
        *("JSONPath", "JSONPathRoot", "JSONPathKey", "JSONPathSubscript"),
    }
)

# Words that may precede a parenthesis without being the name of a function.
_WORDS = frozenset(
    """
    all and any array as between by case char cube decimal distinct div else except exists filter
    for from group having ilike in intersect join lateral like limit map minus not numeric nulls
    offset on or over pivot qualify regexp rlike rollup select sets some struct then union unpivot
    using values varchar when where
    """.split()  # noqa: SIM905  # more readable than a list of strings
)
# Common functions whose result depends only on their input rows. Any other function makes a query
# read all rows of its tables.
_FUNCTIONS = frozenset(
    """
    abs avg broadcast cast ceil chr coalesce collect_list collect_set concat concat_ws count
    count_if curdate current_date current_timestamp date date_add date_format date_sub date_trunc
    datediff day dense_rank explode extract first_value floor from_utc_timestamp get_json_object
    greatest hour if ifnull lag last_value lead least length lower lpad max min month now nullif nvl
    percentile posexplode rank regexp_extract regexp_replace repartition replace round row_number
    size split stddev substr substring sum to_date to_timestamp transform trim try_cast
    unix_timestamp upper year
    """.split()  # noqa: SIM905
)
# Without a seed, these return a different value on each call, so dropping rows does not matter.
_RANDOM = frozenset({"rand", "randn", "random", "uuid"})


def is_regular(text: str, tokens: Sequence[Any], tree: Any) -> bool:
    """Whether the parsed tree shows everything that the query reads."""
    # In Spark, a backslash at the end of a line continues a comment on the next line, and any text
    # may replace a variable such as ${env:DAY}.
    if any(part in text for part in ("\\\n", "\\\r", "${")):
        return False
    words = [token.text.lower() for token in tokens if not is_text(token)]
    if "|" in words or "|>" in words:  # Spark's pipe syntax, which sqlglot parses as an operator
        return False
    # f(table t) and identifier('n') refer to tables and columns that do not appear in the tree
    if "table" in words or ("identifier", "(") in itertools.pairwise(words):
        return False
    return all(map(_is_known, tree.walk()))


def _is_known(node: Any) -> bool:
    from sqlglot import exp

    name = type(node).__name__
    parts = _PARTS.get(name)
    if parts is not None:
        return {key for key, value in node.args.items() if value} <= parts
    return name in _WHOLE or isinstance(node, (exp.Func, exp.Binary, exp.Unary))


def is_repeatable(tokens: Sequence[Any], tree: Any) -> bool:
    """Whether dropping rows that the query does not need leaves its result unchanged.

    Values that depend on a row's position (``rand(3)``, a sample, perhaps a user-defined function)
    change if earlier rows are not read.
    """
    from sqlglot import exp

    called = Counter(_called(tokens))
    for alias in tree.find_all(exp.TableAlias):  # t(a, b) names columns
        if alias.args.get("columns") and not isinstance(alias.parent, exp.Lateral):
            called[alias.name.lower()] -= 1
    if any(count > 0 and name not in _WORDS | _FUNCTIONS for name, count in called.items()):
        return False
    # a user-defined function may have the same name as a keyword
    return all(call.name.lower() in _FUNCTIONS | _RANDOM for call in tree.find_all(exp.Anonymous))


def is_text(token: Any) -> bool:
    """Whether a token is a quoted literal."""
    return bool(token.token_type.name == "STRING")


def _called(tokens: Sequence[Any]) -> Iterator[str]:
    """Yield the words that are followed by a parenthesis."""
    words = ["", *("''" if is_text(token) else token.text.lower() for token in tokens), ""]
    for before, word, bracket, after in zip(words, words[1:], words[2:], words[3:], strict=False):
        if bracket != "(" or not re.fullmatch(r"\w+", word):
            continue
        if before == ".":
            yield f".{word}"
        elif word not in _RANDOM or after != ")":
            yield word
