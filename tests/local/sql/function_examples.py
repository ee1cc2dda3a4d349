"""Examples of the functions that SQL of the embedded service runs: (call, result).

Inputs and results are those of the vendor's page of each function, or follow from its rules.
A text that begins with ``select`` is a whole query. Times are written as text.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

N = "from values (1, 'a', 2.5), (2, 'b', 2.5), (3, 'a', 5.5), (4, null, null) t (n, s, d)"
"""Four rows for aggregates and window functions."""
E = 2.718281828459045

EXAMPLES: dict[str, tuple[tuple[str, Any], ...]] = {
    # mathematical functions
    "abs": (("abs(-2.5)", 2.5), ("abs(-3)", 3), ("abs(null)", None)),
    "acos": (("acos(0.87)", 0.5155940062460905), ("acos(0)", 1.5707963267948966)),
    "asin": (("asin(1)", 1.5707963267948966), ("asin(0)", 0.0)),
    "atan": (("atan(1)", 0.7853981633974483), ("atan(-1)", -0.7853981633974483)),
    "atan2": (("atan2(0, 0)", 0.0), ("atan2(1, 1)", 0.7853981633974483)),
    "bin": (("bin(12)", "1100"), ("bin(0)", "0"), ("bin(null)", None)),
    "cbrt": (("cbrt(8)", 2.0), ("cbrt(null)", None)),
    "ceil": (("ceil(1.1)", 2), ("ceil(-1.1)", -1)),
    "cos": (("cos(0)", 1.0), ("cos(3.1415926/2)", 2.6794896585028633e-8)),
    "cosh": (("cosh(0)", 1.0), ("cosh(1)", 1.5430806348152437)),
    "cot": (("cot(1)", 0.6420926159343308), ("cot(null)", None)),
    "degrees": (("degrees(0)", 0.0), ("degrees(3.141592653589793)", 180.0)),
    "e": (("e()", E), ("e() > 2", True)),
    "exp": (("exp(1)", E), ("exp(0)", 1.0)),
    "factorial": (("factorial(5)", 120), ("factorial(0)", 1)),
    "floor": (("floor(1.2)", 1), ("floor(-1.2)", -2)),
    "format_number": (
        ("format_number(5.230134523424545456, 3)", "5.230"),
        ("format_number(12332.123456, 4)", "12,332.1235"),
    ),
    "hex": (("hex(17)", "11"), ("hex('abc')", "616263"), ("hex(0)", "0")),
    "isnan": (("isnan(100.1)", False), ("isnan(cast('NaN' as double))", True)),
    "ln": (("ln(1)", 0.0), ("ln(2.718281828459045)", 1.0), ("ln(-5)", None), ("ln(0)", None)),
    "log": (("log(2, 8)", 3.0), ("log(10, 100)", 2.0)),
    "log10": (("log10(10)", 1.0), ("log10(null)", None), ("log10(0)", None)),
    "log2": (("log2(8)", 3.0), ("log2(null)", None), ("log2(0)", None)),
    "mod": (("mod(5, 3)", 2), ("mod(4, 2)", 0)),
    "negative": (("negative(1)", -1), ("negative(-2)", 2)),
    "pi": (("pi()", 3.141592653589793), ("pi() > 3", True)),
    "positive": (("positive(1)", 1), ("positive(-2)", -2)),
    "pow": (("pow(2, 4)", 16.0), ("pow(2, null)", None)),
    "power": (("power(2, 4)", 16.0), ("power(9, 0.5)", 3.0)),
    "radians": (("radians(180)", 3.141592653589793), ("radians(0)", 0.0)),
    "rand": (("rand() between 0 and 1", True), ("rand() = 2", False)),
    "round": (
        ("round(125.315)", 125.0),
        ("round(125.315, 2)", 125.32),
        ("round(125.315, -2)", 100.0),
        ("round(123.345BD, 2)", Decimal("123.35")),
        ("round(-5.55BD, 1)", Decimal("-5.6")),
    ),
    "shiftleft": (("shiftleft(1, 2)", 4), ("shiftleft(4, 3)", 32)),
    "shiftright": (("shiftright(4, 2)", 1), ("shiftright(32, 3)", 4), ("shiftright(-8, 1)", -4)),
    "sign": (("sign(-2.5)", -1.0), ("sign(2.5)", 1.0), ("sign(0)", 0.0)),
    "sin": (("sin(0)", 0.0), ("sin(60)", -0.3048106211022167)),
    "sinh": (("sinh(0)", 0.0), ("sinh(1)", 1.1752011936438014)),
    "sqrt": (("sqrt(4)", 2.0), ("sqrt(null)", None), ("sqrt(-1)", None)),
    "tan": (("tan(0)", 0.0), ("tan(60)", 0.320040389379563)),
    "tanh": (("tanh(0)", 0.0), ("tanh(1)", 0.7615941559557649)),
    "trunc": (
        ("trunc(125.815)", 125.0),
        ("trunc(125.815, 0)", 125.0),
        ("trunc(125.815, 1)", 125.8),
        ("trunc(125.815, 3)", 125.815),
        ("trunc(-125.815, 2)", -125.81),
        ("trunc(125.815, -2)", 100.0),
        ("trunc(123.345, 4)", 123.345),
        ("trunc(123.345, -4)", 0.0),
        ("trunc(123.345BD, 2)", Decimal("123.34")),
        ("trunc('15.9')", 15.0),
        ("trunc(null)", None),
    ),
    "unhex": (("unhex('616263')", b"abc"), ("unhex(null)", None)),
    "width_bucket": (
        ("width_bucket(6, 3, 7, 4)", 4),
        ("width_bucket(2, 3, 7, 4)", 0),
        ("width_bucket(7, 3, 7, 4)", 5),
    ),
    "bit_count": (("bit_count(7)", 3), ("bit_count(0)", 0)),
    # dates and times
    "add_months": (
        ("add_months('2017-02-14', 3)", "2017-05-14"),
        ("add_months('2017-02-14 21:30:00', 3)", "2017-05-14"),
        ("add_months(date '2021-11-30', 3)", "2022-02-28"),
        ("add_months(datetime '2017-01-31 01:02:03', 1)", "2017-02-28"),
        ("add_months('2017-02-14', null)", None),
    ),
    "current_date": (
        ("current_date() > date '2020-01-01'", True),
        ("current_date() is null", False),
    ),
    "current_timestamp_ntz": (
        ("current_timestamp_ntz(null)", None),
        ("hour(current_timestamp_ntz('UTC+06:00')) = hour(current_timestamp_ntz('+6'))", True),
        ("hour(current_timestamp_ntz('Asia/Dhaka')) = hour(current_timestamp_ntz('+6'))", True),
        ("datediff(current_timestamp_ntz('+6'), current_timestamp_ntz(), 'hh')", 6),
        ("datediff(current_timestamp_ntz('UTC-03:30'), current_timestamp_ntz('-3'), 'mi')", -30),
    ),
    "current_timestamp": (
        ("current_timestamp() > timestamp '2020-01-01 00:00:00'", True),
        ("current_timestamp() is null", False),
    ),
    "current_timezone": (("current_timezone()", "UTC"), ("current_timezone() = 'UTC'", True)),
    "date_add": (
        ("date_add('2005-03-01', 1)", "2005-03-02"),
        ("date_add(date '2005-02-28', 1)", "2005-03-01"),
        ("date_add(datetime '2005-02-28 00:00:00', -1)", "2005-02-27"),
    ),
    "date_sub": (
        ("date_sub('2005-03-01', 1)", "2005-02-28"),
        ("date_sub(date '2005-03-01', -1)", "2005-03-02"),
    ),
    "date_format": (
        ("date_format('2018-05-23 12:05:05', 'yyyyMMdd HH:mm:ss')", "20180523 12:05:05"),
        ("date_format(date '2015-04-08', 'MM/dd/yyyy')", "04/08/2015"),
        ("date_format('2022-04-24', 'yyyy-MM')", "2022-04"),
    ),
    "dateadd": (
        ("dateadd(datetime '2005-02-28 00:00:00', 1, 'dd')", "2005-03-01 00:00:00"),
        ("dateadd(datetime '2005-02-28 00:00:00', -1, 'dd')", "2005-02-27 00:00:00"),
        ("dateadd(datetime '2005-02-28 00:00:00', 20, 'mm')", "2006-10-28 00:00:00"),
        ("dateadd(datetime '2005-01-29 00:00:00', 1, 'mm')", "2005-02-28 00:00:00"),
        ("dateadd(date '2005-02-18', 1, 'mm')", "2005-03-18"),
        ("dateadd(date '2005-02-18', null, 'mm')", None),
    ),
    "datediff": (
        ("datediff(datetime '2006-01-01 00:00:00', datetime '2005-12-31 23:59:59', 'dd')", 1),
        ("datediff(datetime '2006-01-01 00:00:00', datetime '2005-12-31 23:59:59', 'mm')", 1),
        ("datediff(datetime '2006-01-01 00:00:00', datetime '2005-12-31 23:59:59', 'hh')", 1),
        ("datediff(datetime '2013-05-31 13:00:00', '2013-05-31 12:30:00', 'ss')", 1800),
        ("datediff(date '2013-05-21', date '2013-05-10')", 11),
    ),
    "datepart": (
        ("datepart(datetime '2013-06-08 01:10:00', 'yyyy')", 2013),
        ("datepart(datetime '2013-06-08 01:10:00', 'mm')", 6),
        ("datepart(date '2013-06-08', 'dd')", 8),
    ),
    "datetrunc": (
        ("datetrunc(datetime '2011-12-07 16:28:46', 'yyyy')", "2011-01-01 00:00:00"),
        ("datetrunc(datetime '2011-12-07 16:28:46', 'month')", "2011-12-01 00:00:00"),
        ("datetrunc(datetime '2011-12-07 16:28:46', 'dd')", "2011-12-07 00:00:00"),
        ("datetrunc(date '2011-12-07', 'mm')", "2011-12-01"),
    ),
    "date_trunc": (
        ("date_trunc('month', datetime '2011-12-07 16:28:46')", "2011-12-01 00:00:00"),
        ("date_trunc('year', datetime '2011-12-07 16:28:46')", "2011-01-01 00:00:00"),
    ),
    "day": (("day('2014-09-01')", 1), ("day(datetime '2014-09-21 01:02:03')", 21)),
    "dayofmonth": (("dayofmonth('2014-09-01')", 1), ("dayofmonth(date '2014-09-30')", 30)),
    "dayofweek": (("dayofweek('2009-07-30')", 5), ("dayofweek(date '2009-08-02')", 1)),
    "dayofyear": (("dayofyear('2014-04-09')", 99), ("dayofyear(date '2014-01-01')", 1)),
    "extract": (
        ("extract(year from '2019-05-01 11:21:00')", 2019),
        ("extract(month from '2019-05-01 11:21:00')", 5),
        ("extract(minute from datetime '2019-05-01 11:21:00')", 21),
    ),
    "from_unixtime": (
        ("from_unixtime(123456789)", "1973-11-29 21:33:09"),
        ("from_unixtime(0)", "1970-01-01 00:00:00"),
        ("from_unixtime(null)", None),
    ),
    "getdate": (("getdate() > datetime '2020-01-01 00:00:00'", True), ("getdate() is null", False)),
    "hour": (("hour('2014-09-01 12:00:00')", 12), ("hour(datetime '2014-09-01 23:59:59')", 23)),
    "isdate": (
        ("isdate('2021-10-11', 'yyyy-mm-dd')", True),
        ("isdate('2021-13-11', 'yyyy-mm-dd')", False),
    ),
    "last_day": (
        ("last_day('2017-03-04')", "2017-03-31"),
        ("last_day('2017-07-04 11:40:00')", "2017-07-31"),
        ("last_day(date '2024-02-01')", "2024-02-29"),
    ),
    "lastday": (
        ("lastday(datetime '2013-06-08 01:10:00')", "2013-06-30 00:00:00"),
        ("lastday(null)", None),
    ),
    "minute": (("minute('2014-09-01 12:30:00')", 30), ("minute('12:30:00')", 30)),
    "month": (("month('2014-09-01')", 9), ("month(date '2014-12-31')", 12)),
    "months_between": (
        ("months_between('1997-02-28 10:30:00', '1996-10-30')", 3.9495967741935485),
        ("months_between('1996-10-30', '1997-02-28 10:30:00')", -3.9495967741935485),
        ("months_between('1996-09-30', '1996-12-31')", -3.0),
    ),
    "next_day": (
        ("next_day('2017-08-01', 'TU')", "2017-08-08"),
        ("next_day('2017-08-01 23:34:00', 'TU')", "2017-08-08"),
        ("next_day(date '2017-08-01', 'friday')", "2017-08-04"),
        ("next_day('2017-08-01', null)", None),
    ),
    "now": (("now() > datetime '2020-01-01 00:00:00'", True), ("now() is null", False)),
    "quarter": (("quarter('1970-11-12 10:00:00')", 4), ("quarter(date '1970-03-31')", 1)),
    "second": (("second('2014-09-01 12:30:45')", 45), ("second('12:30:45')", 45)),
    "to_char": (
        ("to_char(datetime '2018-04-05 12:05:05', 'yyyy-mm-dd hh:mi:ss')", "2018-04-05 12:05:05"),
        ("to_char(datetime '2010-12-03 00:00:00', 'yyyymmdd')", "20101203"),
        ("to_char(123)", "123"),
        ("to_char(true)", "TRUE"),
    ),
    "to_date": (
        ("to_date('2018-02-03')", "2018-02-03"),
        ("to_date('20121203', 'yyyymmdd')", "2012-12-03 00:00:00"),
        ("to_date('2010-12-03 11:22:33', 'yyyy-mm-dd hh:mi:ss')", "2010-12-03 11:22:33"),
    ),
    "to_millis": (
        ("to_millis(datetime '2021-03-31 15:00:00')", 1617202800000),
        ("to_millis(timestamp '2021-03-31 15:00:00.123')", 1617202800123),
    ),
    "trunc_time": (
        ("trunc_time('2019-06-12 17:08:22', 'month')", "2019-06"),
        ("trunc_time('2019-06-12 17:08:22', 'day')", "2019-06-12"),
    ),
    "unix_timestamp": (
        ("unix_timestamp(datetime '2009-03-20 11:11:01')", 1237547461),
        ("unix_timestamp('2009-03-20 11:11:01')", 1237547461),
        ("unix_timestamp(null)", None),
    ),
    "weekday": (
        ("weekday(datetime '2009-03-20 11:11:00')", 4),
        ("weekday(datetime '2021-11-28 00:02:00')", 6),
    ),
    "weekofyear": (
        ("weekofyear(datetime '2014-12-29 00:00:00')", 1),
        ("weekofyear(datetime '2014-12-31 00:00:00')", 1),
        ("weekofyear(datetime '2024-12-29 00:00:00')", 52),
    ),
    "year": (("year('1970-01-01 12:30:00')", 1970), ("year(date '2021-12-31')", 2021)),
    # strings
    "ascii": (("ascii('abcde')", 97), ("ascii('A')", 65), ("ascii(null)", None)),
    "char_matchcount": (
        ("char_matchcount('aabc', 'abcde')", 4),
        ("char_matchcount('abcde', 'aabc')", 3),
        ("char_matchcount(null, 'abcde')", None),
    ),
    "chr": (("chr(100)", "d"), ("chr(null)", None)),
    "concat": (
        ("concat('aabc', 'abcde')", "aabcabcde"),
        ("concat('abc', null, 'def')", None),
        ("concat('a', 1, 2.5)", "a12.5"),
        ("concat(array(10, 20), array(20, -20))", [10, 20, 20, -20]),
    ),
    "concat_ws": (
        ("concat_ws(':', 'name', 'hanmeimei')", "name:hanmeimei"),
        ("concat_ws(':', 'avg', null, '34')", "avg:34"),
        ("concat_ws(':', array('name', 'lilei'))", "name:lilei"),
        ("concat_ws(null, 'a', 'b')", None),
    ),
    "decode": (
        (
            "select decode(n, 1, 'one', 2, 'two', 'many') from values (2), (9) t (n)",
            ["two", "many"],
        ),
        ("decode(1, 2, 'a')", None),
    ),
    "encode": (("encode('abc', 'UTF-8')", b"abc"), ("encode('\u4e2d', 'UTF-8')", b"\xe4\xb8\xad")),
    "find_in_set": (("find_in_set('ab', 'abc,hello,ab,c')", 3), ("find_in_set('hi', 'a,b')", 0)),
    "get_json_object": (
        ("get_json_object('{\"a\": {\"b\": [1, 2]}}', '$.a.b[1]')", "2"),
        ("get_json_object('{\"a\": \"x\"}', '$.a')", "x"),
        ("get_json_object('{\"a\": [\"x\"', '$.a')", None),
        ("get_json_object('{\"a\": 1}', '$.b')", None),
    ),
    "initcap": (("initcap('oDps sql')", "Odps Sql"), ("initcap('a b')", "A B")),
    "instr": (
        ("instr('Tech on the net', 'e')", 2),
        ("instr('Tech on the net', 'on')", 6),
        ("instr('Tech on the net', 'e', 3)", 11),
        ("instr('Tech on the net', 'e', 1, 2)", 11),
        ("instr('Tech on the net', 'e', 1, 9)", 0),
        ("instr('Tech on the net', 'e', -1)", 14),
        ("instr('Tech on the net', 'e', -3, 2)", 2),
        ("instr('abc', '')", 1),
        ("instr('a', null)", None),
    ),
    "keyvalue": (
        ("keyvalue('0:1;1:2', 1)", "2"),
        ("keyvalue('0:1;1:2', '0')", "1"),
        ("keyvalue(';abc=1;def=2', ';', '=', 'def')", "2"),
    ),
    "length": (("length('hi! \u4e2d\u56fd')", 6), ("length('')", 0), ("length(null)", None)),
    "lengthb": (("lengthb('hi! \u4e2d\u56fd')", 10), ("lengthb(null)", None)),
    "locate": (
        ("locate('ab', 'abchelloabc')", 1),
        ("locate('ab', 'abchelloabc', 2)", 9),
        ("locate('hi', 'hanmeimei')", 0),
    ),
    "lower": (("lower('aBcd')", "abcd"), ("lower(null)", None)),
    "lpad": (
        ("lpad('abcdefgh', 10, '12')", "12abcdefgh"),
        ("lpad('abcdefgh', 5, '12')", "abcde"),
        ("lpad('abcdefgh', 0, '12')", ""),
    ),
    "ltrim": (("ltrim('  abc ')", "abc "), ("ltrim('yxabcxx', 'xyz')", "abcxx")),
    "md5": (
        ("md5('abc')", "900150983cd24fb0d6963f7d28e17f72"),
        ("md5('')", "d41d8cd98f00b204e9800998ecf8427e"),
    ),
    "regexp_count": (
        ("regexp_count('abababc', 'a.c')", 1),
        ("regexp_count('abababc', '[[:alpha:]]{2}', 3)", 2),
        ("regexp_count('abababc', null)", None),
    ),
    "regexp_extract": (
        ("regexp_extract('foothebar', 'foo(.*?)(bar)')", "the"),
        ("regexp_extract('foothebar', 'foo(.*?)(bar)', 1)", "the"),
        ("regexp_extract('foothebar', 'foo(.*?)(bar)', 2)", "bar"),
        ("regexp_extract('foothebar', 'foo(.*?)(bar)', 0)", "foothebar"),
        ("regexp_extract('foothebar', null)", None),
    ),
    "regexp_instr": (
        ("regexp_instr('i love www.taobao.com', 'o[[:alpha:]]{1}', 3, 2)", 14),
        ("regexp_instr('i love www.taobao.com', 'o[[:alpha:]]{1}', 3, 2, 1)", 16),
        ("regexp_instr('i love www.taobao.com', null)", None),
    ),
    "regexp_replace": (
        ("regexp_replace('abcd', 'a(b)c', '<\\\\1>')", "<b>d"),
        ("regexp_replace('abcabc', 'b', '-')", "a-ca-c"),
        ("regexp_replace('abcabc', 'b', '')", "acac"),
    ),
    "regexp_substr": (
        ("regexp_substr('I love aliyun very much', 'a[[:alpha:]]{5}')", "aliyun"),
        ("regexp_substr('I have 2 apples', '[[:blank:]][[:alnum:]]*', 1, 1)", " have"),
        ("regexp_substr('I have 2 apples', '[[:blank:]][[:alnum:]]*', 1, 2)", " 2"),
        ("regexp_substr('I have 2 apples', 'z')", None),
    ),
    "repeat": (("repeat('abc', 5)", "abcabcabcabcabc"), ("repeat('abc', null)", None)),
    "replace": (("replace('ababab', 'abab', '12')", "12ab"), ("replace('abc', 'x', 'y')", "abc")),
    "reverse": (("reverse('abcedfg')", "gfdecba"), ("reverse(array(1, 2))", [2, 1])),
    "rpad": (
        ("rpad('abcdefgh', 10, '12')", "abcdefgh12"),
        ("rpad('abcdefgh', 5, '12')", "abcde"),
    ),
    "rtrim": (("rtrim(' abc  ')", " abc"), ("rtrim('yxabcxx', 'xyz')", "yxabc")),
    "space": (("space(3)", "   "), ("length(space(10))", 10)),
    "split": (
        ("split('a, b, c', ', ')", ["a", "b", "c"]),
        ("split('a1b2', '[0-9]')", ["a", "b", ""]),
    ),
    "split_part": (
        ("split_part('a,b,c,d', ',', 1)", "a"),
        ("split_part('a,b,c,d', ',', 1, 2)", "a,b"),
        ("split_part('a,b,c,d', ',', 10)", ""),
        ("split_part('a,b,c,d', ',', 2, 9)", "b,c,d"),
        ("split_part('a,b,c,d', ':', 1)", "a,b,c,d"),
        ("split_part('a,b,c,d', ':', 2)", ""),
        ("split_part('a,b,c,d', '', 1)", "a,b,c,d"),
        ("split_part('a,b,c,d', ',', null)", None),
    ),
    "substr": (
        ("substr('abc', 2)", "bc"),
        ("substr('abc', 2, 1)", "b"),
        ("substr('abc', -2, 2)", "bc"),
        ("substr('abc', 0)", ""),
        ("substr('abc', 0, 2)", ""),
        ("substr('abc', -4)", ""),
        ("substr('abc', -4, 2)", ""),
        ("substr('abc', 2, 0)", ""),
        ("substr('abc', 2, -1)", ""),
        ("substr('abc', null)", None),
    ),
    "substring": (
        ("substring('abc', 2)", "bc"),
        ("substring('abc', -3, 2)", "ab"),
        ("substring(bin(2345), 2, 3)", "001"),
        ("substring('abc', 0)", ""),
        ("substring('abc', null, null)", None),
    ),
    "substring_index": (
        ("substring_index('https://www.alibabacloud.com', '.', 2)", "https://www.alibabacloud"),
        ("substring_index('https://www.alibabacloud.com', '.', -2)", "alibabacloud.com"),
        ("substring_index('https://www.alibabacloud.com', null, 2)", None),
        ("substring_index('a.b', '.', 0)", ""),
    ),
    "to_json": (
        ("to_json(named_struct('a', 1, 'b', 2))", '{"a":1,"b":2}'),
        ("to_json(array(1, 2))", "[1,2]"),
    ),
    "tolower": (("tolower('aBcd')", "abcd"), ("tolower(null)", None)),
    "toupper": (("toupper('aBcd')", "ABCD"), ("toupper(null)", None)),
    "translate": (
        ("translate('MaxComputer', 'puter', 'pute')", "MaxCompute"),
        ("translate('aaa', 'b', 'c')", "aaa"),
    ),
    "trim": (("trim('  abc ')", "abc"), ("trim('yxabcxx', 'xyz')", "abc"), ("trim(null)", None)),
    "upper": (("upper('aBcd')", "ABCD"), ("upper(null)", None)),
    "url_decode": (
        (
            "url_decode('%E7%A4%BA%E4%BE%8Bfor+URL_DECODE%3A%2F%2F+%28fdsf%29')",
            "\u793a\u4f8bfor URL_DECODE:// (fdsf)",
        ),
        ("url_decode('a%20b')", "a b"),
    ),
    "url_encode": (("url_encode('a b/c')", "a+b%2Fc"), ("url_encode(null)", None)),
    "base64": (("base64(cast('alibaba' as binary))", "YWxpYmFiYQ=="), ("base64(null)", None)),
    "unbase64": (("unbase64('YWxpYmFiYQ==')", b"alibaba"), ("unbase64(null)", None)),
    "sha": (("sha('ABC')", "3c01bdbb26f358bab27f267924aa2c9a03fcfdb8"), ("sha(null)", None)),
    "sha1": (("sha1('ABC')", "3c01bdbb26f358bab27f267924aa2c9a03fcfdb8"), ("sha1(null)", None)),
    "sha2": (
        ("sha2('ABC', 256)", "b5d4045c3f466fa91fe2cc6abe79232a1a57cdf104f7a26e716e0a1e2789df78"),
        ("sha2(null, 256)", None),
    ),
    "uuid": (("length(uuid())", 36), ("uuid() = 'x'", False)),
    # conditions and conversions
    "cast": (("cast('1' as bigint)", 1), ("cast(1.9 as bigint)", 1), ("cast(1 as string)", "1")),
    "coalesce": (("coalesce(null, null, 1, null, 3)", 1), ("coalesce(null, 'a')", "a")),
    "exists": (("exists (select 1)", True), ("exists (select 1 where false)", False)),
    "greatest": (
        ("greatest(4, 1, 7)", 7),
        ("greatest('a', 'b')", "b"),
        ("greatest(date '2020-01-01', date '2021-01-01')", "2021-01-01"),
    ),
    "if": (("if(1 > 2, 'a', 'b')", "b"), ("if(null, 1, 2)", 2)),
    "ifnull": (("ifnull(null, 2)", 2), ("ifnull(1, 2)", 1)),
    "isnull": (("isnull(null)", True), ("isnull(1)", False)),
    "least": (("least(5, 2, 7)", 2), ("least('a', 'b')", "a")),
    "nullif": (("nullif(2, 3)", 2), ("nullif(2, 2)", None)),
    "nvl": (("nvl(null, 'none')", "none"), ("nvl(1, 2)", 1)),
    "nvl2": (("nvl2(1, 'a', 'b')", "a"), ("nvl2(null, 'a', 'b')", "b")),
    # aggregates
    "any_value": (
        (f"select any_value(n) in (1, 2, 3, 4) {N}", True),
        (f"select any_value(7) {N}", 7),
    ),
    "approx_distinct": (
        (f"select approx_distinct(s) {N}", 2),
        (f"select approx_distinct(n) {N}", 4),
    ),
    "arg_max": ((f"select arg_max(n, s) {N} where n < 4", "a"), (f"select arg_max(d, n) {N}", 3)),
    "arg_min": ((f"select arg_min(n, s) {N}", "a"), (f"select arg_min(n, d) {N} where n > 1", 2.5)),
    "avg": ((f"select avg(n) {N}", 2.5), (f"select avg(d) {N}", 3.5)),
    "bitwise_and_agg": (
        (f"select bitwise_and_agg(n) {N}", 0),
        (f"select bitwise_and_agg(3) {N}", 3),
    ),
    "bitwise_or_agg": ((f"select bitwise_or_agg(n) {N}", 7), (f"select bitwise_or_agg(2) {N}", 2)),
    "bitwise_xor_agg": (
        (f"select bitwise_xor_agg(n) {N}", 4),
        (f"select bitwise_xor_agg(1) {N}", 0),
    ),
    "collect_list": (
        (f"select sort_array(collect_list(s)) {N}", ["a", "a", "b"]),
        (f"select collect_list(n) {N} where n = 2", [2]),
    ),
    "collect_set": (
        (f"select sort_array(collect_set(s)) {N}", ["a", "b"]),
        (f"select collect_set(n) {N} where n = 2", [2]),
    ),
    "corr": ((f"select corr(n, n) {N}", 1.0), (f"select corr(n, -n) {N}", -1.0)),
    "count": (
        (f"select count(*) {N}", 4),
        (f"select count(s) {N}", 3),
        (f"select count(distinct s) {N}", 2),
    ),
    "count_if": ((f"select count_if(n > 2) {N}", 2), (f"select count_if(d = 2.5) {N}", 2)),
    "covar_pop": ((f"select covar_pop(n, n) {N}", 1.25), (f"select covar_pop(n, 1) {N}", 0.0)),
    "covar_samp": (
        (f"select covar_samp(n, n) {N}", 1.6666666666666667),
        (f"select covar_samp(n, 1) {N}", 0.0),
    ),
    "max": ((f"select max(n) {N}", 4), (f"select max(s) {N}", "b")),
    "max_by": ((f"select max_by(s, n) {N} where n < 3", "b"), (f"select max_by(n, d) {N}", 3)),
    "median": ((f"select median(n) {N}", 2.5), (f"select median(d) {N}", 2.5)),
    "min": ((f"select min(n) {N}", 1), (f"select min(s) {N}", "a")),
    "min_by": ((f"select min_by(s, n) {N}", "a"), (f"select min_by(d, n) {N} where n > 2", 5.5)),
    "percentile": (
        (f"select percentile(n, 0.3) {N}", 1.9),
        (f"select percentile(n, array(0.5, 1)) {N}", [2.5, 4.0]),
    ),
    "percentile_approx": (
        (f"select percentile_approx(d, 0.5) {N}", 2.5),
        (f"select percentile_approx(d, array(0.0, 1.0)) {N}", [2.5, 5.5]),
    ),
    "stddev": (
        (f"select stddev(n) {N}", 1.118033988749895),
        (f"select stddev(n) {N} where n = 1", 0.0),
    ),
    "stddev_pop": (
        (f"select stddev_pop(n) {N}", 1.118033988749895),
        (f"select stddev_pop(1) {N}", 0.0),
    ),
    "stddev_samp": (
        (f"select stddev_samp(n) {N}", 1.2909944487358056),
        (f"select stddev_samp(n) {N} where n = 1", 0.0),
        (f"select stddev_samp(n) {N} where n > 4", None),
    ),
    "sum": (
        (f"select sum(n) {N}", 10),
        (f"select sum(d) {N}", 10.5),
        (f"select sum(distinct d) {N}", 8.0),
    ),
    "var_pop": ((f"select var_pop(n) {N}", 1.25), (f"select var_pop(n) {N} where n = 1", 0.0)),
    "var_samp": (
        (f"select var_samp(n) {N}", 1.6666666666666667),
        (f"select var_samp(d) {N}", 3.0),
    ),
    "variance": ((f"select variance(n) {N}", 1.25), (f"select variance(n) {N} where n = 1", 0.0)),
    "wm_concat": (
        (f"select wm_concat(',', n) within group (order by n desc) {N}", "4,3,2,1"),
        (f"select wm_concat(distinct ',', s) {N} where s = 'a'", "a"),
        (f"select wm_concat(',', s) {N} where s is null", None),
    ),
    # window functions
    "cume_dist": (
        (f"select cume_dist() over (order by n) {N}", [0.25, 0.5, 0.75, 1.0]),
        (f"select cume_dist() over (order by d) {N} where d > 2", [2 / 3, 2 / 3, 1.0]),
    ),
    "dense_rank": (
        (f"select dense_rank() over (order by d) {N} where n < 4", [1, 1, 2]),
        (f"select dense_rank() over (order by n desc) {N} order by n", [4, 3, 2, 1]),
    ),
    "first_value": (
        (f"select first_value(n) over (order by n) {N}", [1, 1, 1, 1]),
        (
            f"select first_value(s, true) over (order by n desc) {N} order by n",
            ["a", "a", "a", None],
        ),
    ),
    "lag": (
        (f"select lag(n) over (order by n) {N}", [None, 1, 2, 3]),
        (f"select lag(n, 2, 0) over (order by n) {N}", [0, 0, 1, 2]),
    ),
    "last_value": (
        (f"select last_value(n) over (order by n) {N}", [1, 2, 3, 4]),
        (f"select last_value(s, true) over (order by n) {N}", ["a", "b", "a", "a"]),
    ),
    "lead": (
        (f"select lead(n) over (order by n) {N}", [2, 3, 4, None]),
        (f"select lead(n, 2, 0) over (order by n) {N}", [3, 4, 0, 0]),
    ),
    "nth_value": (
        (f"select nth_value(n, 2) over (order by n) {N}", [None, 2, 2, 2]),
        (f"select nth_value(n, 1) over (order by n) {N}", [1, 1, 1, 1]),
    ),
    "ntile": (
        (f"select ntile(2) over (order by n) {N}", [1, 1, 2, 2]),
        (f"select ntile(3) over (order by n) {N}", [1, 1, 2, 3]),
    ),
    "percent_rank": (
        (f"select percent_rank() over (order by n) {N}", [0.0, 1 / 3, 2 / 3, 1.0]),
        (f"select percent_rank() over (order by d) {N} where n < 4", [0.0, 0.0, 1.0]),
    ),
    "rank": (
        (f"select rank() over (order by d) {N} where n < 4", [1, 1, 3]),
        (f"select rank() over (partition by s order by n) {N} order by n", [1, 1, 2, 1]),
    ),
    "row_number": (
        (f"select row_number() over (order by n) {N}", [1, 2, 3, 4]),
        (f"select row_number() over (partition by s order by n) {N} order by n", [1, 1, 2, 1]),
    ),
    # arrays, maps, structs
    "all_match": (
        ("all_match(array(4, 5, 6), x -> x > 3)", True),
        ("all_match(array(), x -> x > 3)", True),
        ("all_match(array(1, 2), x -> x > 1)", False),
    ),
    "any_match": (
        ("any_match(array(1, 2, -10, 100), x -> x > 3)", True),
        ("any_match(array(), x -> x > 3)", False),
    ),
    "array": (("array(1, 2, 3)", [1, 2, 3]), ("array('a', null)", ["a", None])),
    "array_contains": (
        ("array_contains(array('a', 'b'), 'a')", True),
        ("array_contains(array(1, 2), 3)", False),
    ),
    "array_distinct": (
        ("sort_array(array_distinct(array(10, 20, 30, 30, 20, 10)))", [10, 20, 30]),
        ("sort_array(array_distinct(array(2, 1, 2)))", [1, 2]),
    ),
    "array_except": (
        ("sort_array(array_except(array(1, 1, 3, 3, 5, 5), array(1, 1, 2, 2, 3, 3)))", [5]),
        ("array_except(array(2, 1, 1, 2), array(2, 2))", [1]),
    ),
    "array_intersect": (
        ("sort_array(array_intersect(array(1, 2, 3), array(1, 3, 5)))", [1, 3]),
        ("array_intersect(array(10, 20, 20), array(20, 20))", [20]),
    ),
    "array_join": (
        ("array_join(array(10, 20, 20, null), ',')", "10,20,20"),
        ("array_join(array(10, 20, null, 30), ',', 'null')", "10,20,null,30"),
    ),
    "array_max": (("array_max(array(1, 20, null, 3))", 20), ("array_max(array('a', 'b'))", "b")),
    "array_min": (("array_min(array(1, 20, null, 3))", 1), ("array_min(array('a', 'b'))", "a")),
    "array_position": (
        ("array_position(array(3, 2, 1), 1)", 3),
        ("array_position(array(3, 1, null), 9)", 0),
    ),
    "array_remove": (
        ("array_remove(array(3, 2, 1), 1)", [3, 2]),
        ("array_remove(array(3, 1, null), 1)", [3, None]),
    ),
    "array_repeat": (("array_repeat('123', 2)", ["123", "123"]), ("size(array_repeat(1, 3))", 3)),
    "array_sort": (
        ("array_sort(array(5, 3, 1))", [1, 3, 5]),
        ("array_sort(array('c', 'a'))", ["a", "c"]),
    ),
    "array_union": (
        ("sort_array(array_union(array(1, 2, 3), array(1, 3, 5)))", [1, 2, 3, 5]),
        ("sort_array(array_union(array(2, 2), array(1)))", [1, 2]),
    ),
    "arrays_overlap": (
        ("arrays_overlap(array(1, 2, 3), array(3, 4, 5))", True),
        ("arrays_overlap(array(1, 2), array(3))", False),
    ),
    "explode": (
        ("select explode(array(1, 2))", [1, 2]),
        ("select v from (select 1) t lateral view explode(array('a', 'b')) l as v", ["a", "b"]),
        ("select v from (select 1) t lateral view explode(map('a', 1)) l as k, v", 1),
    ),
    "filter": (
        ("filter(array(5, -6, 7), x -> x > 0)", [5, 7]),
        ("filter(array(1), x -> x > 1)", []),
    ),
    "flatten": (
        ("flatten(array(array(1, 2), array(3)))", [1, 2, 3]),
        ("flatten(array(array('a')))", ["a"]),
    ),
    "map": (("map('k1', 123, 'k2', 456)", [("k1", 123), ("k2", 456)]), ("map('a', 1)['a']", 1)),
    "map_concat": (
        ("map_concat(map(1, 'a'), map(2, 'b'))", [(1, "a"), (2, "b")]),
        ("map_concat(map(1, 'a'), map(1, 'b'))[1]", "b"),
    ),
    "map_entries": (
        ("map_entries(map(1, 'a'))", [{"key": 1, "value": "a"}]),
        ("size(map_entries(map(1, 'a', 2, 'b')))", 2),
    ),
    "map_from_arrays": (
        ("map_from_arrays(array(1, 3), array('2', '4'))", [(1, "2"), (3, "4")]),
        ("map_from_arrays(array('a'), array(1))['a']", 1),
    ),
    "map_from_entries": (
        ("map_from_entries(array(struct(1, 'a'), struct(2, 'b')))", [(1, "a"), (2, "b")]),
        ("map_from_entries(array(struct('a', 1)))['a']", 1),
    ),
    "map_keys": (("map_keys(map('a', 123))", ["a"]), ("map_keys(map(1, 2))", [1])),
    "map_values": (("map_values(map('a', 123))", [123]), ("map_values(map(1, 2))", [2])),
    "named_struct": (
        ("named_struct('user_id', 10001, 'name', 'LiLei')", {"user_id": 10001, "name": "LiLei"}),
        ("named_struct('a', 1).a", 1),
    ),
    "posexplode": (
        ("select p from (select 1) t lateral view posexplode(array('a', 'c')) l as p, v", [0, 1]),
        (
            "select v from (select 1) t lateral view posexplode(array('a', 'c')) l as p, v",
            ["a", "c"],
        ),
    ),
    "sequence": (
        ("sequence(1, 5)", [1, 2, 3, 4, 5]),
        ("sequence(5, 1)", [5, 4, 3, 2, 1]),
        ("sequence(1, 9, 4)", [1, 5, 9]),
    ),
    "size": (("size(array('a', 'b'))", 2), ("size(map('a', 123, 'b', 456))", 2)),
    "slice": (
        ("slice(array(10, 20, 20, null, null, 30), 1, 3)", [10, 20, 20]),
        ("slice(array(10, 20, 20, null, null, 30), -2, 2)", [None, 30]),
        ("slice(array(10, 20), 1, 0)", []),
    ),
    "sort_array": (
        ("sort_array(array('b', 'c', 'a'))", ["a", "b", "c"]),
        ("sort_array(array(1, 3, 2), false)", [3, 2, 1]),
    ),
    "str_to_map": (
        ("str_to_map('test1&1-test2&2', '-', '&')", [("test1", "1"), ("test2", "2")]),
        ("str_to_map('a=1,b=2')", [("a", "1"), ("b", "2")]),
        ("str_to_map('test1.1,test2.2', ',', '\\\\.')['test2']", "2"),
    ),
    "struct": (
        ("struct('a', 123)", {"col1": "a", "col2": 123}),
        ("struct(1).col1", 1),
        ("select struct(c, c as x, 2 as b) from (select 1L c) t", {"col1": 1, "x": 1, "b": 2}),
    ),
    "transform": (
        ("transform(array(1, 2, 3), x -> x + 1)", [2, 3, 4]),
        ("transform(array('a'), x -> upper(x))", ["A"]),
    ),
    "vector": (("vector(1.0F, 2.0F)", [1.0, 2.0]), ("vector(0.5F)[0]", 0.5)),
}
