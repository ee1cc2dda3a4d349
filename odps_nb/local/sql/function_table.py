"""Lists the functions that the embedded service's SQL supports; all others raise an error.

Each line states how functions run and what they return, followed by their names. How they run:

- ``parser``: sqlglot translates the call to DuckDB
- ``macro``: the macro ``mc_<name>`` of `macros`
- ``rule``: code in `functions`, `rewrites` or `query` rewrites the call

What they return: a type, ``1`` for the type of the first argument, or ``-`` for any other rule.
Source: the vendor's page of each function. `tests.local.sql.function_examples` has their examples.
"""

from __future__ import annotations

from typing import NamedTuple

_TEXT = """
parser -: abs cast ceil floor mod round sum avg min max count count_if any_value median
parser -: max_by min_by collect_list collect_set percentile percentile_approx first_value last_value
parser -: lag lead nth_value coalesce greatest least if ifnull nvl nvl2 nullif decode exists concat
parser -: array array_max array_min array_sort sort_array filter transform flatten
parser -: map map_from_entries named_struct struct explode posexplode
parser -: current_date current_timestamp current_timezone date_trunc unhex encode unbase64 split
parser -: stddev_pop var_pop var_samp corr covar_pop covar_samp approx_distinct bitwise_and_agg
parser -: bitwise_or_agg bitwise_xor_agg cume_dist dense_rank ntile percent_rank rank row_number
parser DOUBLE: acos asin atan atan2 cbrt cos cosh cot degrees exp pi pow power radians rand sign
parser DOUBLE: sin sinh tan tanh
parser BIGINT: factorial length locate regexp_count regexp_instr
parser INT: ascii extract size
parser BOOLEAN: array_contains isnan
parser TEXT: base64 chr concat_ws get_json_object hex initcap lower lpad ltrim md5
parser TEXT: array_join regexp_extract regexp_replace repeat replace rpad rtrim sha sha1 sha2 space
parser TEXT: to_json translate trim upper
macro 1: array_distinct array_except array_intersect array_remove array_union map_concat negative
macro 1: positive slice
macro -: array_repeat dateadd datediff datetrunc map_entries map_from_arrays map_keys map_values
macro -: shiftleft shiftright str_to_map wm_concat
macro DOUBLE: e ln log log10 log2 months_between sqrt
macro BIGINT: array_position char_matchcount datepart find_in_set instr lengthb to_millis
macro BIGINT: unix_timestamp weekday weekofyear width_bucket
macro INT: bit_count day dayofmonth dayofweek dayofyear hour minute month quarter second year
macro BOOLEAN: arrays_overlap isdate isnull
macro TEXT: add_months bin date_format format_number keyvalue last_day next_day regexp_substr
macro TEXT: split_part substr substring substring_index to_char tolower toupper trunc_time
macro TEXT: url_decode url_encode uuid
macro DATE: date_add date_sub
macro DATETIME: getdate lastday now
macro TIMESTAMPNTZ: current_timestamp_ntz
rule -: arg_max arg_min reverse sequence stddev stddev_samp trunc variance vector
rule BOOLEAN: all_match any_match
rule DATETIME: from_unixtime to_date
rule TEXT: max_pt
"""

_MISSING = """
array_normalize array_reduce arrays_zip combinations compress conv crc32 cluster_sample decompress
field from_charset from_json from_utc_timestamp get_blob_metadata get_idcard_age
get_latest_timestamp get_latest_version get_user_id hash
histogram index inline is_encoding json_array json_exists json_explode json_extract json_format
json_object json_parse json_pretty json_tuple json_type json_valid keyvalue_tuple map_agg map_filter
map_union map_union_sum map_zip_with mask_hash multimap_agg multimap_from_entries ngrams
numeric_histogram ordinal parse_url parse_url_tuple partition_exists regexp_extract_all sample
shiftrightunsigned shuffle soundex stack table_exists to_blob trans_array trans_cols transform_keys
transform_values unique_id zip_with
"""
MISSING = frozenset(_MISSING.split())
"""Functions of MaxCompute that the embedded service does not support."""


class Function(NamedTuple):
    """How a function runs, and the name of its type; ``""`` if it depends on the arguments."""

    how: str
    returns: str


def _read() -> dict[str, Function]:
    functions: dict[str, Function] = {}
    for line in _TEXT.strip().splitlines():
        kind, _, names = line.partition(": ")
        how, returns = kind.split()
        functions |= dict.fromkeys(names.split(), Function(how, returns.strip("-")))
    return functions


FUNCTIONS = _read()
"""The functions by lower-case name."""
