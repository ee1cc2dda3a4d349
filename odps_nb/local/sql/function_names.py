"""Names of MaxCompute's built-in functions (vendor's manual, *Built-in functions*).

They tell a function that the embedded service lacks from a misspelled name. The list was written
from memory and was not compared with the manual name by name.
"""

from __future__ import annotations

_DATES = """
    add_months current_date current_timestamp current_timezone date_add date_format date_sub
    dateadd datediff datepart datetrunc day dayofmonth dayofweek dayofyear extract from_unixtime
    from_utc_timestamp getdate hour isdate last_day lastday minute month months_between next_day
    now quarter second to_char to_date to_millis to_utc_timestamp trunc unix_timestamp weekday
    weekofyear year
"""
_NUMBERS = """
    abs acos asin atan atan2 bin bround cbrt ceil ceiling conv corr cos cosh cot degrees e exp
    factorial floor fnv_hash format_number greatest hex isnan least ln log log10 log2 negative
    pi positive pow power radians rand rint round shiftleft shiftright shiftrightunsigned sign
    sin sinh sqrt tan tanh trunc unhex width_bucket
"""
_TEXTS = """
    ascii base64 char_matchcount chr concat concat_ws crc32 decode encode field find_in_set
    get_json_object initcap instr is_encoding json_tuple keyvalue keyvalue_tuple length lengthb
    locate lower lpad ltrim mask_hash md5 overlay parse_url parse_url_tuple regexp_count
    regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace
    reverse rpad rtrim sha sha1 sha2 soundex space split split_part str_to_map strpos substr
    substring substring_index to_char tolower toupper translate trim unbase64 upper url_decode
    url_encode
"""
_AGGREGATES = """
    any_value approx_distinct arg_max arg_min avg bitwise_and_agg bitwise_or_agg bitwise_xor_agg
    collect_list collect_set corr count count_if covar_pop covar_samp cume_dist dense_rank
    first_value histogram kurtosis lag last_value lead map_agg map_union map_union_sum max
    max_by median min min_by multimap_agg nth_value ntile numeric_histogram percent_rank
    percentile percentile_approx rank regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope row_number skewness stddev stddev_samp sum var_samp variance wm_concat
"""
_NESTED = """
    aggregate all_match any_match array array_append array_contains array_distinct array_except
    array_intersect array_join array_max array_min array_normalize array_position array_product
    array_reduce array_remove array_repeat array_sort array_union arrays_overlap arrays_zip
    combinations concat explode field filter flatten from_json index inline json_array
    json_array_agg json_array_append json_contains json_contains_path json_depth json_exists
    json_extract json_format json_keys json_length json_object json_object_agg json_parse
    json_pretty json_quote json_remove json_search json_set json_size json_type json_unquote
    json_valid json_value map map_concat map_entries map_filter map_from_arrays map_from_entries
    map_keys map_values map_zip_with multimap_from_entries named_struct ngrams posexplode reduce
    reverse sequence shuffle size slice sort_array struct to_json transform transform_keys
    transform_values zip_with
"""
_OTHERS = """
    bit_count cast coalesce compress decode decompress get_idcard_age get_idcard_birthday
    get_idcard_sex get_user_id greatest hash if isnull least max_pt nullif nvl nvl2 ordinal
    partition_exists sample sign split stack table_exists trans_array trans_cols trunc_time
    typeof unique_id uuid
"""
MAXCOMPUTE = frozenset(" ".join((_DATES, _NUMBERS, _TEXTS, _AGGREGATES, _NESTED, _OTHERS)).split())
"""The names in lower case."""
