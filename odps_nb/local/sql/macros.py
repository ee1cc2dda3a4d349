"""MaxCompute functions that DuckDB lacks or defines differently, as DuckDB macros."""

from __future__ import annotations

import re

FAR = "a time is outside the range of nanoseconds"
"""Error message of a query that reads text as nanoseconds and finds a year such as 9999."""
CUT = (
    "SQL in the embedded service cannot combine a time that has digits below a microsecond with a"
    " time outside the range of nanoseconds"
)

_TEXT = r"""
-- MaxCompute's date units -> DuckDB's date parts
mc_part(part) AS CASE lower(part)
    WHEN 'yyyy' THEN 'year' WHEN 'year' THEN 'year' WHEN 'yy' THEN 'year'
    WHEN 'mm' THEN 'month' WHEN 'month' THEN 'month' WHEN 'mon' THEN 'month'
    WHEN 'dd' THEN 'day' WHEN 'day' THEN 'day' WHEN 'quarter' THEN 'quarter'
    WHEN 'q' THEN 'quarter' WHEN 'week' THEN 'week' WHEN 'week(monday)' THEN 'week'
    WHEN 'isoweek' THEN 'week' WHEN 'hh' THEN 'hour' WHEN 'hour' THEN 'hour'
    WHEN 'mi' THEN 'minute' WHEN 'ss' THEN 'second' WHEN 'ff3' THEN 'millisecond'
    WHEN 'ff6' THEN 'microsecond' ELSE error('unknown unit ' || part) END;
-- text that is not a time becomes null; a time of day gets the date 1970-01-01
-- DuckDB writes times before the year 1 with (BC)
mc_dated(x) AS CASE WHEN CAST(x AS DATE) NOT BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN
    error('a time before the year 1 or after the year 9999 has no text') ELSE x END;
mc_dashed(d) AS CASE WHEN NOT contains(CAST(d AS VARCHAR), '/') THEN d END;
mc_moment(d) AS coalesce(TRY_CAST(mc_dashed(d) AS TIMESTAMP), TRY_CAST('1970-01-01 ' || CAST(d AS
    VARCHAR) AS TIMESTAMP));
mc_day_of(d) AS CAST(TRY_CAST(mc_dashed(d) AS TIMESTAMP) AS DATE);
-- a date becomes its midnight
mc_time(x) AS x + INTERVAL 0 SECOND;
-- the offset of a week that does not start on Monday
mc_week_start(part) AS list_position(['sunday', 'saturday', 'friday', 'thursday', 'wednesday',
    'tuesday'], regexp_extract(lower(part), '^week\(([a-z]+)\)$', 1));
mc_datetrunc(d, part) AS CASE WHEN mc_week_start(part) IS NULL THEN date_trunc(mc_part(part),
    CAST(d AS TIMESTAMP)) ELSE date_trunc('week', CAST(d AS TIMESTAMP) + to_days(CAST(
    mc_week_start(part) AS INTEGER))) - to_days(CAST(mc_week_start(part) AS INTEGER)) END;
mc_getdate() AS CAST(get_current_timestamp() AS TIMESTAMP_MS);
mc_now() AS mc_getdate();
-- a zone is a name, or an offset such as UTC+08:00 or +8
mc_offset(zone) AS TRY_CAST(regexp_replace(replace(regexp_extract(zone,
    '^(UTC|GMT)?([+-]\d\d?(:\d\d)?)$', 2), '+', ''), '^(-?\d\d?)$', '\1:00') || ':00' AS INTERVAL);
mc_current_timestamp_ntz() AS date_trunc('millisecond', timezone('UTC', get_current_timestamp())),
    (zone) AS date_trunc('millisecond', timezone(CASE WHEN mc_offset(zone) IS NULL THEN zone ELSE
    'UTC' END, get_current_timestamp())) + coalesce(mc_offset(zone), INTERVAL 0 SECOND);
-- an amount is a BIGINT, so fractions are dropped
mc_delta(n) AS CAST(trunc(CAST(n AS DOUBLE)) AS BIGINT);
mc_from_unixtime(n) AS CAST(make_timestamp(mc_delta(n) * 1000000) AS TIMESTAMP_MS);
mc_datediff(a, b) AS date_diff('day', CAST(b AS DATE), CAST(a AS DATE)), (a, b, part) AS
    CASE WHEN lower(part) = 'isoweek' OR starts_with(lower(part), 'week') THEN date_diff('day',
    mc_datetrunc(b, part), mc_datetrunc(a, part)) // 7 ELSE date_diff(mc_part(part), CAST(b AS
    TIMESTAMP), CAST(a AS TIMESTAMP)) END;
mc_moved(t, n, part) AS list_transform([{'t': t, 'n': n, 'unit': mc_part(part)}], lambda r:
    r.t + CASE r.unit WHEN 'year' THEN to_years(CAST(r.n AS INTEGER)) WHEN 'quarter' THEN
    to_months(CAST(r.n * 3 AS INTEGER)) WHEN 'month' THEN to_months(CAST(r.n AS INTEGER)) WHEN
    'week' THEN to_days(CAST(r.n * 7 AS INTEGER)) WHEN 'day' THEN to_days(CAST(r.n AS INTEGER))
    WHEN 'hour' THEN to_hours(r.n) WHEN 'minute' THEN to_minutes(r.n) WHEN 'second' THEN
    to_seconds(r.n) WHEN 'millisecond' THEN to_milliseconds(r.n) WHEN 'microsecond' THEN
    to_microseconds(r.n) END)[1];
mc_exact_unit(d, part) AS CASE WHEN typeof(d) = 'DATE' AND mc_part(part) IN ('hour', 'minute',
    'second', 'millisecond', 'microsecond') THEN error('a DATE has no unit ' || part) ELSE part END;
-- adding the difference keeps the digits below a microsecond
mc_dateadd(d, n, part) AS mc_time(d) + (mc_moved(CAST(d AS TIMESTAMP), mc_delta(n),
    mc_exact_unit(d, part)) - CAST(d AS TIMESTAMP));
mc_date_add(d, n) AS CAST(d AS DATE) + CAST(mc_delta(n) AS INTEGER);
mc_date_sub(d, n) AS CAST(d AS DATE) - CAST(mc_delta(n) AS INTEGER);
mc_add_months(d, n) AS mc_dated(CAST(mc_day_of(d) + to_months(CAST(mc_delta(n) AS INTEGER)) AS
    DATE))::VARCHAR;
mc_last_day(d) AS CAST(last_day(mc_day_of(d)) AS VARCHAR);
mc_next_day(d, day) AS CAST(mc_day_of(d) + CAST((list_position(['MO', 'TU', 'WE', 'TH', 'FR', 'SA',
    'SU'], upper(left(day, 2))) - isodow(mc_day_of(d)) + 6) % 7 + 1 AS INTEGER) AS VARCHAR);
-- date_part of a computed part fails in DuckDB 2.0, which expects a DOUBLE and gets a BIGINT
mc_datepart(d, part) AS CASE mc_part(part) WHEN 'year' THEN year(CAST(d AS TIMESTAMP))
    WHEN 'month' THEN month(CAST(d AS TIMESTAMP)) WHEN 'day' THEN day(CAST(d AS TIMESTAMP))
    WHEN 'hour' THEN hour(CAST(d AS TIMESTAMP)) WHEN 'minute' THEN minute(CAST(d AS TIMESTAMP))
    WHEN 'second' THEN second(CAST(d AS TIMESTAMP)) ELSE error('unknown unit ' || part) END;
mc_trunc_date(d, part) AS CAST(date_trunc(mc_part(part), CAST(d AS DATE)) AS DATE);
mc_trunc_time(d, part) AS left(strftime(CAST(d AS TIMESTAMP), '%Y-%m-%d %H:00:00'), CASE
    lower(part) WHEN 'year' THEN 4 WHEN 'month' THEN 7 WHEN 'day' THEN 10 WHEN 'hour' THEN 19
    ELSE error('unknown unit ' || part) END);
mc_lastday(d) AS CAST(last_day(CAST(d AS DATE)) AS TIMESTAMP_MS);
-- whole months between equal days or last days of months; otherwise, a day is 1/31 of a month
mc_is_last(d) AS CAST(d AS DATE) = last_day(d);
mc_into_month(d) AS day(d) * 86400 + epoch(d - date_trunc('day', d));
mc_months(x, y) AS (year(x) - year(y)) * 12 + month(x) - month(y) + CASE WHEN day(x) = day(y) OR
    (mc_is_last(x) AND mc_is_last(y)) THEN CAST(0 AS DOUBLE) ELSE (mc_into_month(x) -
    mc_into_month(y)) / 2678400 END;
mc_months_between(x, y) AS mc_months(CAST(x AS TIMESTAMP), CAST(y AS TIMESTAMP));
mc_weekday(d) AS isodow(CAST(d AS DATE)) - 1;
mc_weekofyear(d) AS weekofyear(mc_moment(d));
mc_year(d) AS year(mc_moment(d));
mc_quarter(d) AS quarter(mc_moment(d));
mc_month(d) AS month(mc_moment(d));
mc_day(d) AS day(mc_moment(d));
mc_dayofmonth(d) AS day(mc_moment(d));
mc_dayofweek(d) AS dayofweek(mc_moment(d)) + 1;
mc_dayofyear(d) AS dayofyear(mc_moment(d));
mc_hour(d) AS hour(mc_moment(d));
mc_minute(d) AS minute(mc_moment(d));
mc_second(d) AS second(mc_moment(d));
mc_isdate(x, form, shape) AS CASE WHEN x IS NOT NULL AND form IS NOT NULL THEN
    regexp_full_match(CAST(x AS VARCHAR), shape) AND try_strptime(CAST(x AS VARCHAR), form) IS NOT
    NULL END;
mc_unix_timestamp() AS CAST(epoch(get_current_timestamp()) AS BIGINT), (d) AS
    CAST(floor(epoch(CAST(d AS TIMESTAMP))) AS BIGINT);
mc_to_millis(d) AS epoch_ms(CAST(d AS TIMESTAMP));
mc_to_date(x, form, shape) AS CASE WHEN form IS NULL THEN NULL WHEN regexp_full_match(CAST(x AS
    VARCHAR), shape) THEN CAST(strptime(CAST(x AS VARCHAR), form) AS TIMESTAMP_MS) WHEN x IS NOT
    NULL THEN error('the text "' || CAST(x AS VARCHAR) || '" does not have the format of TO_DATE')
    END;
mc_date_format(x, form) AS strftime(CAST(x AS TIMESTAMP), form);
-- the text of a DECIMAL ends with its last digit other than 0; DuckDB writes .5 for a DECIMAL(1, 1)
mc_whole_text(s) AS CASE WHEN starts_with(s, '.') THEN '0' || s WHEN starts_with(s, '-.') THEN
    '-0' || substr(s, 2) ELSE s END;
mc_short_text(s) AS mc_whole_text(CASE WHEN contains(s, '.') THEN rtrim(rtrim(s, '0'), '.') ELSE s
    END);
mc_decimal_text(x) AS mc_short_text(CAST(x AS VARCHAR));
mc_to_char(x) AS CASE WHEN typeof(x) = 'BOOLEAN' THEN upper(CAST(x AS VARCHAR)) ELSE CAST(x AS
    VARCHAR) END, (x, form) AS strftime(CAST(x AS TIMESTAMP), form);
-- Conversions between UTC instants (TIMESTAMP) and the clock of a zone. In a repeated hour, the
-- first occurrence is used, as in Python. mc_instant and mc_local keep nanoseconds.
mc_clock(t, zone) AS timezone(zone, CAST(t AS TIMESTAMPTZ));
mc_first(c, zone) AS c - (mc_clock(c - INTERVAL 1 DAY, zone) - (c - INTERVAL 1 DAY));
mc_utc(c, zone) AS CASE WHEN mc_clock(mc_first(c, zone), zone) = c THEN mc_first(c, zone) ELSE
    CAST(timezone(zone, c) AS TIMESTAMP) END;
mc_instant(x, zone) AS x + (mc_utc(CAST(x AS TIMESTAMP), zone) - CAST(x AS TIMESTAMP));
mc_local(x, zone) AS x + (mc_clock(CAST(x AS TIMESTAMP), zone) - CAST(x AS TIMESTAMP));
mc_same(c, t, zone) AS c - (mc_clock(t, zone) - t);
mc_back_utc(c, t, zone) AS CASE WHEN mc_clock(mc_same(c, t, zone), zone) = c THEN mc_same(c, t,
    zone) ELSE mc_utc(c, zone) END;
-- x is a function call; the list ensures that it is evaluated only once
mc_back(x, source, zone) AS list_transform([{'x': x, 's': CAST(source AS TIMESTAMP)}], lambda r:
    r.x + (mc_back_utc(CAST(r.x AS TIMESTAMP), r.s, zone) - CAST(r.x AS TIMESTAMP)))[1];
-- text may include a zone, which the cast to TIMESTAMP ignores
mc_has_zone(s) AS regexp_matches(s, ':\d\d(\.\d+)?\s*([A-Za-z]|[+-]\d\d(:?\d\d)?\s*$)');
-- if the text is not a time, x is null or raises an error, but null + x would not raise it
mc_text(x, s, zone) AS CASE WHEN TRY_CAST(s AS TIMESTAMP) IS NULL THEN x ELSE x + (CASE WHEN
    mc_has_zone(s) THEN CAST(TRY_CAST(regexp_replace(s, ' +([+-]\d)', '\1') AS TIMESTAMPTZ) AS
    TIMESTAMP) ELSE mc_utc(TRY_CAST(s AS TIMESTAMP), zone) END - TRY_CAST(s AS TIMESTAMP)) END;
mc_within(t) AS CASE WHEN t < TIMESTAMP '0001-01-01 00:00:00' OR t >= TIMESTAMP
    '10000-01-01 00:00:00' THEN
    error('a time of the session is before the year 1 or after the year 9999 in UTC') ELSE t END;
mc_near(s) AS CASE WHEN TRY_CAST(s AS TIMESTAMP) NOT BETWEEN TIMESTAMP '1677-09-22 00:00:00' AND
    TIMESTAMP '2262-04-11 00:00:00' THEN error('{FAR}') ELSE s END;
mc_micro(s) AS CASE WHEN regexp_matches(s, '\.\d{6}\d*[1-9]') THEN error('{CUT}') ELSE s END;
-- DuckDB treats the first and last value of TIMESTAMP_NS as infinite
mc_micros(x) AS CASE WHEN isfinite(x) THEN CAST(x AS TIMESTAMP) WHEN x < TIMESTAMP
    '1970-01-01 00:00:00' THEN TIMESTAMP '1677-09-21 00:12:43.145224' WHEN x IS NOT NULL THEN
    TIMESTAMP '2262-04-11 23:47:16.854775' END;
mc_cut(x) AS trunc(x);
-- DuckDB also reads 1_000, 0x10, infinity and epoch
mc_is_number(x) AS NOT regexp_matches(x, '_|\d[xXbB]');
mc_is_time(x) AS regexp_matches(x, '^\s*\d+-\d');
mc_only_date(x) AS CASE WHEN regexp_full_match(x, '\s*\d+-\d\d?-\d\d?\s*') THEN x END;
mc_number(x) AS CASE WHEN mc_is_number(x) THEN x END;
mc_date(x) AS CASE WHEN mc_is_time(x) THEN x END;
mc_whole(x) AS CASE WHEN regexp_matches(x, '[.eE]') THEN TRY_CAST(trunc(TRY_CAST(mc_number(x) AS
    DOUBLE)) AS BIGINT) ELSE TRY_CAST(mc_number(x) AS BIGINT) END;
mc_unread(x, kind) AS error('Could not convert string ''' || x || ''' to ' || kind);
mc_read_whole(x) AS CASE WHEN x IS NULL OR mc_whole(x) IS NOT NULL THEN mc_whole(x) ELSE
    mc_unread(x, 'BIGINT') END;
mc_read_number(x) AS CASE WHEN x IS NULL OR mc_is_number(x) THEN x ELSE mc_unread(x, 'DOUBLE') END;
mc_read_time(x) AS CASE WHEN x IS NULL OR mc_is_time(x) THEN x ELSE mc_unread(x, 'DATETIME') END;
-- A long division with three digits per step: HUGEINT has 38 digits, the remainder is below b.
mc_digits(x) AS CAST(replace(CAST(CAST(x AS DECIMAL(38, 18)) AS VARCHAR), '.', '') AS HUGEINT);
mc_left(a, b) AS (a % b) * 1000;
mc_left1(a, b) AS mc_left(a, b);
mc_left2(a, b) AS mc_left(mc_left1(a, b), b);
mc_left3(a, b) AS mc_left(mc_left2(a, b), b);
mc_left4(a, b) AS mc_left(mc_left3(a, b), b);
mc_left5(a, b) AS mc_left(mc_left4(a, b), b);
mc_left6(a, b) AS mc_left(mc_left5(a, b), b);
mc_long_division(a, b) AS (a // b) * 1000000000000000000 + (mc_left1(a, b) // b) *
    1000000000000000 + (mc_left2(a, b) // b) * 1000000000000 + (mc_left3(a, b) // b) *
    1000000000 + (mc_left4(a, b) // b) * 1000000 + (mc_left5(a, b) // b) * 1000 + (mc_left6(a,
    b) // b) * 1;
mc_quotient(a, b) AS CAST(mc_long_division(mc_digits(a), nullif(mc_digits(b), 0)) AS DECIMAL(38,
    0)) * CAST('0.000000000000000001' AS DECIMAL(19, 18));
-- Products of the parts before and after the point; each fits HUGEINT if the whole product does.
-- p and q are the powers of ten of the scales of a and b; the others convert to the new scale.
mc_unscaled(x) AS CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT);
mc_rounded(x, unit) AS (x + sign(x) * (unit // 2)) // unit;
mc_product(x, y, p, q, unit, to_a, to_b, over) AS list_transform([{'a': x, 'b': y}], lambda r:
    (r.a // p) * (r.b // q) * unit + (r.a // p) * (r.b % q) * to_b + (r.a % p) * (r.b // q) *
    to_a + mc_rounded((r.a % p) * (r.b % q), over))[1];
mc_once(n) AS n = 1 OR error('a row of the table is matched by ' || n || ' rows of the source');
mc_valid_json(x) AS CASE WHEN json_valid(CAST(x AS VARCHAR)) THEN CAST(x AS VARCHAR) END;
mc_json_list(x) AS CASE WHEN len(x) > 0 THEN CAST(to_json(x) AS VARCHAR) END;
-- the manual's functions change English letters only
mc_tolower(x) AS translate(CAST(x AS VARCHAR), 'ABCDEFGHIJKLMNOPQRSTUVWXYZ',
    'abcdefghijklmnopqrstuvwxyz');
mc_toupper(x) AS translate(CAST(x AS VARCHAR), 'abcdefghijklmnopqrstuvwxyz',
    'ABCDEFGHIJKLMNOPQRSTUVWXYZ');
mc_ascii(x) AS CASE WHEN ascii(CAST(x AS VARCHAR)) > 127 THEN
    error('ASCII requires a text that begins with an ASCII character') ELSE ascii(CAST(x AS
    VARCHAR)) END;
mc_chr(n) AS CASE WHEN CAST(n AS BIGINT) BETWEEN 0 AND 127 THEN chr(CAST(n AS INT)) WHEN n IS NOT
    NULL THEN error('CHR requires a code from 0 to 127') END;
mc_checked_pad(n) AS CASE WHEN n < 0 THEN error('LPAD and RPAD require a length of at least 0') ELSE
    CAST(n AS INT) END;
mc_lpad(s, n, pad) AS lpad(CAST(s AS VARCHAR), mc_checked_pad(n), pad);
mc_rpad(s, n, pad) AS rpad(CAST(s AS VARCHAR), mc_checked_pad(n), pad);
mc_locate(x, s) AS strpos(CAST(s AS VARCHAR), CAST(x AS VARCHAR)), (x, s, start) AS CASE WHEN s IS
    NULL OR x IS NULL THEN NULL WHEN start IS NULL THEN 0 WHEN start < 1 THEN
    error('LOCATE requires a position of at least 1') ELSE mc_nth(CAST(s AS VARCHAR), CAST(x AS
    VARCHAR), start, 1) END;
mc_joinable(x) AS CASE WHEN list_count(x) < len(x) THEN
    error('CONCAT_WS of an array with NULL elements is not supported') ELSE x END;
-- TO_JSON omits NULL members; json_merge_patch does so, but not in arrays
mc_has_null(j) AS regexp_matches(j, ':null[,}]');
mc_members(j, x) AS CASE WHEN j IS NULL OR NOT mc_has_null(j) THEN j WHEN regexp_matches(typeof(x),
    'MAP\(|\]') THEN error('TO_JSON of NULLs in a MAP, or in a STRUCT within an ARRAY, is not'
    || ' supported') ELSE CAST(json_merge_patch('{}', j) AS VARCHAR) END;
mc_acos(x) AS CASE WHEN x BETWEEN -1 AND 1 THEN acos(x) END;
mc_asin(x) AS CASE WHEN x BETWEEN -1 AND 1 THEN asin(x) END;
mc_isnan(x) AS coalesce(isnan(x), false);
mc_finite(x, y) AS CASE WHEN isinf(x) AND isfinite(y) THEN error('the result is out of range') ELSE
    x END;
mc_exp(x) AS mc_finite(exp(CAST(x AS DOUBLE)), CAST(x AS DOUBLE));
mc_pow(x, y) AS mc_finite(pow(CAST(x AS DOUBLE), CAST(y AS DOUBLE)), CAST(x AS DOUBLE) + CAST(y AS
    DOUBLE));
mc_lengthb(x) AS octet_length(encode(x));
mc_isnull(x) AS x IS NULL;
mc_wm_concat(separator, x) AS string_agg(CAST(x AS VARCHAR), separator);
mc_char_matchcount(a, b) AS length(a) - length(translate(a, b, ''));
-- an empty text is never found (MaxCompute V2.0 data type edition)
mc_find_in_set(x, list) AS CASE WHEN x IS NOT NULL AND list IS NOT NULL THEN CASE WHEN x = '' THEN 0
    ELSE coalesce(list_position(string_split(list, ','), x), 0) END END;
mc_found(s, x) AS list_filter(range(1, length(s) - length(x) + 2), lambda i: substr(s, i,
    length(x)) = x);
mc_nth(s, x, start, n) AS CASE WHEN s IS NULL OR x IS NULL OR start IS NULL OR n IS NULL THEN NULL
    WHEN n < 1 OR start = 0 THEN error('INSTR requires a start other than 0 and an occurrence of at'
    || ' least 1') WHEN start < 0 THEN coalesce(list_reverse(list_filter(mc_found(s, x), lambda i:
    i <= length(s) + start + 1))[n], 0) ELSE coalesce(list_filter(mc_found(s, x), lambda i: i >=
    start)[n], 0) END;
mc_instr(s, x) AS strpos(CAST(s AS VARCHAR), CAST(x AS VARCHAR)), (s, x, start) AS mc_nth(s, x,
    start, 1), (s, x, start, n) AS mc_nth(s, x, start, n);
mc_part_of(s, start, n) AS CASE WHEN s IS NULL OR start IS NULL OR n IS NULL THEN NULL WHEN start =
    0 OR start < -length(s) OR n <= 0 THEN '' ELSE substr(s, start, n) END;
mc_substr(s, start) AS mc_part_of(CAST(s AS VARCHAR), start, length(CAST(s AS VARCHAR)) + 1),
    (s, start, n) AS mc_part_of(CAST(s AS VARCHAR), start, n);
mc_substring(s, start) AS mc_substr(s, start), (s, start, n) AS mc_substr(s, start, n);
-- DuckDB's function requires a constant separator; sqlglot uses it for ARRAY_JOIN and CONCAT_WS
array_to_string(x, sep) AS CASE WHEN x IS NOT NULL THEN substr(list_reduce(list_prepend('',
    list_filter(CAST(x AS VARCHAR[]), lambda v: v IS NOT NULL)), lambda v, w: v || sep || w),
    length(sep) + 1) END;
mc_parts(s, sep, n, last) AS CASE WHEN s IS NULL OR sep IS NULL OR n IS NULL OR last IS NULL THEN
    NULL WHEN n < 1 OR last < n THEN error('SPLIT_PART requires 1 <= first part <= last part') WHEN
    sep = '' THEN s ELSE array_to_string(list_slice(string_split(s, sep), n, last), sep) END;
mc_split_part(s, sep, n) AS mc_parts(CAST(s AS VARCHAR), sep, n, n),
    (s, sep, n, last) AS mc_parts(CAST(s AS VARCHAR), sep, n, last);
mc_substring_index(s, sep, n) AS CASE WHEN s IS NULL OR sep IS NULL OR n IS NULL THEN NULL WHEN sep
    = '' THEN error('SUBSTRING_INDEX requires a separator') WHEN n
    = 0 THEN '' WHEN n > 0 THEN array_to_string(list_slice(string_split(s, sep), 1, n), sep) ELSE
    array_to_string(list_slice(string_split(s, sep), n, length(s)), sep) END;
mc_regexp_substr(s, form) AS regexp_extract_all(s, form)[1], (s, form, start) AS
    regexp_extract_all(substr(s, start), form)[1], (s, form, start, n) AS
    regexp_extract_all(substr(s, start), form)[n];
mc_url_encode(x) AS replace(replace(replace(url_encode(x), '%20', '+'), '%2A', '*'), '~', '%7E');
mc_url_decode(x) AS url_decode(replace(x, '+', ' '));
mc_bin(n) AS bin(CAST(n AS BIGINT));
mc_bit_count(n) AS bit_count(n);
mc_e() AS exp(1);
mc_uuid() AS CAST(uuid() AS VARCHAR);
mc_ln(x) AS CASE WHEN x > 0 THEN ln(x) END;
mc_log(base, x) AS CASE WHEN base > 0 AND base <> 1 AND x > 0 THEN log(base, x) END;
mc_log2(x) AS CASE WHEN x > 0 THEN log2(x) END;
mc_log10(x) AS CASE WHEN x > 0 THEN log10(x) END;
mc_sqrt(x) AS CASE WHEN x >= 0 THEN sqrt(x) END;
mc_negative(x) AS -x;
mc_positive(x) AS x;
mc_shiftleft(n, bits) AS n << bits;
mc_shiftright(n, bits) AS n >> bits;
-- halves are rounded away from zero
mc_fixed(s, places) AS (CASE WHEN starts_with(s, '-') THEN '-' ELSE '' END) || format('{:,}',
    CAST(ltrim(split_part(s, '.', 1), '-') AS BIGINT)) || CASE WHEN places > 0 THEN '.' ||
    left(split_part(s, '.', 2), places) ELSE '' END;
mc_signed(s, x) AS CASE WHEN x < 0 AND NOT starts_with(s, '-') THEN '-' || s ELSE s END;
mc_format_number(x, places) AS CASE WHEN x IS NULL OR CAST(x AS VARCHAR) = '' THEN NULL WHEN places
    NOT BETWEEN 0 AND 18 THEN error('FORMAT_NUMBER supports 0 to 18 decimal places') ELSE
    coalesce(mc_signed(mc_fixed(CAST(round(mc_exact(x), places) AS VARCHAR) || repeat('0', places),
    places), CAST(x AS DOUBLE)), format('{:,.' || places || 'f}', CAST(x AS DOUBLE))) END;
mc_width_bucket(x, low, high, n) AS CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1 ELSE
    floor((x - low) * n / (high - low)) + 1 END;
-- DuckDB computes with the binary value of a DOUBLE, which is slightly less than 1.005 for 1.005
mc_exact(x) AS TRY_CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 18));
mc_round(x, places) AS coalesce(CAST(round(mc_exact(x), places) AS DOUBLE), round(CAST(x AS
    DOUBLE), places));
mc_trunc(x, unit) AS coalesce(CAST(mc_exact(x) - mc_exact(x) % unit AS DOUBLE), trunc(CAST(x AS
    DOUBLE)));
mc_distinct(x) AS list_filter(x, lambda v, i: list_position(x, v) = i);
mc_array_union(a, b) AS mc_distinct(list_concat(a, b));
mc_array_except(a, b) AS CASE WHEN b IS NOT NULL THEN
    list_filter(mc_distinct(a), lambda v: list_position(b, v) IS NULL) END;
mc_array_intersect(a, b) AS CASE WHEN b IS NOT NULL THEN
    list_filter(mc_distinct(a), lambda v: list_position(b, v) IS NOT NULL) END;
mc_array_remove(x, value) AS CASE WHEN value IS NOT NULL THEN
    list_filter(x, lambda v: v IS DISTINCT FROM value) END;
mc_array_position(x, value) AS CASE WHEN x IS NOT NULL AND value IS NOT NULL THEN
    coalesce(list_position(x, value), 0) END;
mc_array_repeat(value, n) AS list_transform(range(n), lambda i: value);
mc_arrays_overlap(a, b) AS CASE WHEN list_has_any(a, b) THEN true WHEN len(a) > 0 AND len(b) > 0
    AND (list_count(a) < len(a) OR list_count(b) < len(b)) THEN NULL ELSE list_has_any(a, b) END;
mc_array_distinct(x) AS mc_distinct(x);
mc_slice(x, start, n) AS CASE WHEN start = 0 OR n < 0 THEN
    error('SLICE requires a start other than 0 and a length of at least 0')
    WHEN start < 0 THEN list_slice(x, len(x) + start + 1, len(x) + start + n)
    ELSE list_slice(x, start, start + n - 1) END;
mc_sequence(a, b) AS generate_series(a, b, CASE WHEN a <= b THEN 1 ELSE -1 END);
mc_map_keys(x) AS map_keys(x);
mc_map_values(x) AS map_values(x);
mc_map_concat(a, b) AS CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN map_concat(a, b) END;
mc_map_entries(x) AS map_entries(x);
mc_map_from_arrays(a, b) AS map(a, b);
-- without a separator in the text, the result is the text; otherwise, empty texts at the end go
mc_trimmed(x) AS list_slice(x, 1, coalesce(list_last(list_filter(range(1, len(x) + 1), lambda i:
    x[i] <> '')), 0));
mc_split(s, pattern, trims) AS CASE WHEN pattern IS NULL OR s IS NULL OR trims IS NULL THEN NULL
    WHEN pattern = '' THEN error('SPLIT requires a separator') WHEN trims AND
    len(string_split_regex(s, pattern)) > 1 THEN mc_trimmed(string_split_regex(s, pattern)) ELSE
    string_split_regex(s, pattern) END;
-- NULL if a NULL decides
mc_all_match(x) AS CASE WHEN x IS NULL THEN NULL WHEN list_contains(x, false) THEN false WHEN
    list_count(x) = len(x) THEN true END;
mc_any_match(x) AS CASE WHEN x IS NULL THEN NULL WHEN list_contains(x, true) THEN true WHEN
    list_count(x) = len(x) THEN false END;
mc_pairs(s, one, two) AS CASE WHEN one IS NOT NULL AND two IS NOT NULL THEN
    map_from_entries(list_transform(string_split_regex(s, one), lambda p:
    {'k': string_split_regex(p, two)[1], 'v': string_split_regex(p, two)[2]})) END;
mc_str_to_map(s) AS mc_pairs(s, ',', '='), (s, one) AS mc_pairs(s, one, '='), (s, one, two) AS
    mc_pairs(s, one, two);
mc_keyvalue(x, k) AS split_part(list_filter(string_split(x, ';'), lambda p: starts_with(p, k ||
    ':'))[1], ':', 2), (x, s, t, k) AS split_part(list_filter(string_split(x, s), lambda p:
    starts_with(p, k || t))[1], t, 2)
"""
MACROS = tuple(
    re.sub(r"--.*\n", "", definition).replace("{CUT}", CUT).replace("{FAR}", FAR).strip()
    for definition in _TEXT.split(";\n")
)
"""Macro definitions, in the syntax that follows ``CREATE MACRO``."""
