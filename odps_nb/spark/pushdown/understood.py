"""Decides which queries are known well enough to read less than whole tables.

Both answers come from lists of what is known. What is on none (a new clause of Spark, a function
of the user) makes a query read more, and never less.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["is_regular", "is_repeatable"]

_ROWS = frozenset({"alias", "sample", "pivots", "joins"})  # what may follow a relation of rows
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
# Nodes that are known with whatever they hold; so are operators and functions.
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

# Words before a bracket that call nothing.
_WORDS = frozenset(
    """
    all and any array as between by case char cube decimal distinct div else except exists filter
    for from group having ilike in intersect join lateral like limit map minus not numeric nulls
    offset on or over pivot qualify regexp rlike rollup select sets some struct then union unpivot
    using values varchar when where
    """.split()  # noqa: SIM905  # as a text it can be read
)
# Functions of Spark that give the same for the same rows, wherever these come from. Left out are
# those that look at the place of a row, and those that few queries have.
_FUNCTIONS = frozenset(
    """
    abs acos add_months aggregate any any_value approx_count_distinct approx_percentile array
    array_agg array_append array_compact array_contains array_distinct array_except
    array_intersect array_join array_max array_min array_position array_prepend array_remove
    array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin atan
    atan2 avg base64 bigint bin binary bit_and bit_count bit_length bit_or bit_xor bool_and
    bool_or boolean bround btrim cardinality cast cbrt ceil ceiling char_length character_length
    chr coalesce collect_list collect_set concat concat_ws contains conv corr cos count count_if
    covar_pop covar_samp crc32 cume_dist curdate current_date current_timestamp date date_add
    date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff
    datepart day dayofmonth dayofweek dayofyear decode degrees dense_rank double element_at elt
    encode endswith equal_null every exp explode explode_outer extract factorial find_in_set
    first first_value flatten float floor forall format_number format_string from_json
    from_unixtime from_utc_timestamp get get_json_object greatest grouping grouping_id hash hex
    hour hypot if ifnull initcap inline inline_outer instr int isnan isnotnull isnull
    json_array_length json_object_keys json_tuple kurtosis lag last last_day last_value lcase
    lead least left len length levenshtein ln locate log log10 log1p log2 lower lpad ltrim
    make_date make_timestamp map_concat map_contains_key map_entries map_filter map_from_arrays
    map_from_entries map_keys map_values max max_by md5 mean median min min_by minute mod mode
    month months_between named_struct nanvl negative next_day now nth_value ntile nullif nvl
    nvl2 octet_length overlay parse_url percent_rank percentile percentile_approx
    percentile_cont percentile_disc pi pmod posexplode posexplode_outer position positive pow
    power quarter radians range rank reduce regexp_count regexp_extract regexp_extract_all
    regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse right rint
    round row_number rpad rtrim second sequence sha sha1 sha2 shiftleft shiftright sign signum
    sin size skewness slice smallint some sort_array soundex space split split_part sqrt stack
    startswith std stddev stddev_pop stddev_samp str_to_map string string_agg substr substring
    substring_index sum tan tanh timestamp timestamp_micros timestamp_millis timestamp_seconds
    timestampadd timestampdiff tinyint to_char to_date to_json to_number to_timestamp
    to_timestamp_ntz to_unix_timestamp to_utc_timestamp transform transform_keys
    transform_values translate trim trunc try_add try_avg try_cast try_divide try_element_at
    try_multiply try_subtract try_sum try_to_number try_to_timestamp typeof ucase unbase64 unhex
    unix_date unix_micros unix_millis unix_seconds unix_timestamp upper url_decode url_encode
    var_pop var_samp variance weekday weekofyear width_bucket window xxhash64 year zip_with
    broadcast broadcastjoin mapjoin merge mergejoin shuffle_hash shuffle_merge
    shuffle_replicate_nl rebalance repartition repartition_by_range
    """.split()  # noqa: SIM905
)
# Without a seed they have other values each time, with and without other rows beside.
_RANDOM = frozenset({"rand", "randn", "random", "uuid"})


def is_regular(text: str, tokens: Sequence[Any], tree: Any) -> bool:
    """Whether the parsed tree shows everything that the query reads."""
    if "\\\n" in text or "\\\r" in text:  # a comment of Spark goes on in the next line
        return False
    said = [token.text.lower() for token in tokens if not _is_text(token)]
    if "|" in said or "|>" in said:  # a pipe of Spark, though an operator for sqlglot
        return False
    # f(table t) reads a table, identifier('n') a column, by names that are nowhere in the tree
    if "table" in said or ("identifier", "(") in itertools.pairwise(said):
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
    """Whether dropping rows that the query does not need leaves its result the same.

    A value that depends on the place of a row (``rand(3)``, a sample, maybe a function of the
    user) is another one when rows before it are not read.
    """
    from sqlglot import exp

    called = Counter(_called(tokens))
    for alias in tree.find_all(exp.TableAlias):  # t(a, b) names columns
        if alias.args.get("columns") and not isinstance(alias.parent, exp.Lateral):
            called[alias.name.lower()] -= 1
    if any(count > 0 and name not in _WORDS | _FUNCTIONS for name, count in called.items()):
        return False
    # a word of the grammar may be the name of a user's function
    return all(one.name.lower() in _FUNCTIONS | _RANDOM for one in tree.find_all(exp.Anonymous))


def _is_text(token: Any) -> bool:
    return bool(token.token_type.name == "STRING")


def _called(tokens: Sequence[Any]) -> Iterator[str]:
    """Yield the words that a bracket follows."""
    said = ["", *("''" if _is_text(one) else one.text.lower() for one in tokens), ""]
    for before, word, bracket, after in zip(said, said[1:], said[2:], said[3:], strict=False):
        if bracket != "(" or not re.fullmatch(r"\w+", word):
            continue
        if before == ".":
            yield f".{word}"
        elif word not in _RANDOM or after != ")":
            yield word
