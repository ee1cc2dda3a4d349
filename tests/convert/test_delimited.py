"""A tile and `to_table` detect the same columns and rows in delimited text."""

import json
import re

import pytest

from odps_nb.convert import blob_content, blob_conversion
from odps_nb.errors import ConversionError, LimitExceededError
from odps_nb.formats.registry import sniff
from odps_nb.notebook.preview.tile import tile
from odps_nb.parsing.delimited import form_of, lines_of
from tests.support.previews import Seen, Value


def table(text, **options):
    """Return the rows of a text, read as ``Blob.to_table`` reads it."""
    data = text.encode()
    mime = sniff(data[: 64 * 1024], len(data)).mime
    options["max_bytes"] = 1 << 20
    found = blob_conversion.table(data, mime, **options)
    assert found.equals(blob_content.as_table(data, mime, **options))
    return found


def shape_in_tile(text):
    made = tile(Value(text.encode()))
    assert made.format.kind == "table", made.text
    found = re.search(r"([\d,]+) rows? × ([\d,]+) columns?", made.text)
    return tuple(int(one.replace(",", "")) for one in found.groups())


def cells_in_tile(text):
    return re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", tile(Value(text.encode())).html)


ROWS = [["id", "name", "price"], ["1", "tea", "3.5"], ["2", "cake", "4"], ["3", "pie", "1"]]

TABLES = {
    "comma": ",".join,
    "semicolon": ";".join,
    "pipe": "|".join,
    "tab": "\t".join,
}


@pytest.mark.parametrize("join", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("before", ["", "# made by hand\n# on a Monday, at noon\n"], ids=["", "#"])
def test_a_tile_and_a_table_have_the_same_shape(join, end, before):
    text = before + end.join(map(join, ROWS)) + end
    assert shape_in_tile(text) == table(text).shape == (3, 3)
    assert table(text).column_names == ROWS[0]


EVEN = {
    "one column": ("value\n1\n2.5\n-3e4\n", (3, 1), ["value"]),
    "two columns": ("a|b\n1|x\n2|y\n", (2, 2), ["a", "b"]),
    "blank lines": ("a,b,c\n\n1,2,3\n\n\n4,5,6\n", (2, 3), ["a", "b", "c"]),
    "lines of blanks": ("a,b,c\n1,2,3\n   \n4,5,6\n7,8,9\n", (3, 3), ["a", "b", "c"]),
    "names in a comment": ("##v1\n#at\tpos\tid\n1\t2\t3\n4\t5\t6\n", (2, 3), ["at", "pos", "id"]),
    "a comment with commas": ("# a b\n# x, y\nm,n\n1,2\n3,4\n", (2, 2), ["m", "n"]),
    "comments among rows": ("a,b,c\n1,2,3\n# x, y\n4,5,6\n7,8,9\n", (3, 3), ["a", "b", "c"]),
    "a row with a hash": ("a,b,c\n#1,2,3\n#4,5,6\n", (2, 3), ["a", "b", "c"]),
    "separators in quotes": ('a;b\n"1;2,3|";x\n"y";"z\nz"\n', (2, 2), ["a", "b"]),
    "commas as decimal points": ("a;b\n1,5;2,5\n3,5;4,5\n", (2, 2), ["a", "b"]),
    "names in a comment with blanks": (
        "# user id,full name,n\n1,Ann Lee,3\n2,Bo,4\n", (2, 3), ["user id", "full name", "n"],
    ),
    "bars in a tab's fields": ("id\tof\n" + "gi|1|ref|\t5\n" * 3, (3, 2), ["id", "of"]),
    "more bars than tabs": ("a|b|c|\tx\n1|2|3|\t5\n2|3|4|\t6\n", (2, 2), ["a|b|c|", "x"]),
    "another separator in line 1": ("a,b;c,d;e\n1;2;3\n4;5;6\n", (2, 3), ["a,b", "c,d", "e"]),
    "row names, as written by R": ('"a","b"\n"1",2,3\n"2",4,5\n', (2, 3), ["f0", "a", "b"]),
    "blanks": ("OBS  GPA\n 1  2.66 \n 2   2.8\n 3\t4\n", (3, 2), ["OBS", "GPA"]),
    "Hive": ("1\x01tea\n2\x01cake\n3\x01\\N\n", (3, 2), ["f0", "f1"]),
}  # fmt: skip


@pytest.mark.parametrize("name", EVEN)
def test_a_tile_and_a_table_have_the_same_columns(name):
    text, shape, names = EVEN[name]
    found = table(text)
    assert found.shape == shape_in_tile(text) == shape
    assert found.column_names == names
    assert cells_in_tile(text)[: len(names)] == names


RAGGED = "a,b,c\n1,2,3\n4,5\n6,7,8\n9,10,11\n12,13,14,15\n" + "16,17,18\n" * 8


def test_lines_with_more_or_fewer_fields_are_reported_by_tile_and_table():
    with pytest.raises(
        ConversionError, match="line 3 has 2 fields, but the first line has 3"
    ) as caught:
        table(RAGGED)
    assert "ragged=True" in caught.value.hint
    (note,) = tile(Value(RAGGED.encode())).notes
    assert note.startswith("line 3 has 2 fields, but the first line has 3: to_table(ragged=True)")


def test_ragged_lines_are_padded_on_request():
    found = table(RAGGED, ragged=True)
    assert found.shape == shape_in_tile(RAGGED) == (13, 4)
    assert found.column_names == cells_in_tile(RAGGED)[:4] == ["a", "b", "c", "f3"]
    assert found.to_pylist()[1] == {"a": 4, "b": 5, "c": None, "f3": None}
    assert found["f3"].to_pylist()[4] == 15


def test_a_ragged_line_after_the_checked_lines_is_reported():
    text = "a,b\n" + "1,2\n" * 40 + "3\n4,5\n"
    assert shape_in_tile(text) == (42, 2)
    assert "line 42 has 1 field, but the first line has 2" in tile(Value(text.encode())).notes[0]
    with pytest.raises(ConversionError, match="line 42 has 1 field"):
        table(text)
    assert table(text, ragged=True).num_rows == 42


def test_a_line_with_too_many_fields_is_refused():
    text = "a,b,c\n" + "1,2,3\n" * 30 + "," * 20_000 + "\n"
    with pytest.raises(LimitExceededError, match="20,001 columns"):
        table(text, ragged=True)


TEXTS = {
    "trees": "(A:0.1,(B:0.2,C:0.3):0.4);\n(A:0.2,(B:0.1,C:0.3):0.5);\n(A:1,(B:2,C:3):4);\n",
    "Scheme": "(define x 1) ; one\n(define y 2) ; two\n(define z 3) ; three\n",
    "statements": "$a = 1;\n$b = 2;\n$c = 3;\n",
    "a poem": "Roses are red, violets are blue,\nsugar is sweet\nand so are you.\n",
    "a table of Markdown": "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n",
    "one without a frame": "a | b\n--- | ---\n1 | 2\n3 | 4\n",
    "a table of psql": " a | b \n---+---\n 1 | 2\n 3 | 4\n",
    "a list of words": "tea\ncake\npie\n",
    "numbers without a name": "1\n2\n3\n",
    "settings with comments": "# name, value\nname: x\nitems:\n  - one\n",
    "a log of Python": "2024-01-01 10:00:00,123 INFO a=1\n2024-01-01 10:00:01,456 INFO a=2\n" * 3
    + "Traceback, most recent call last\n",
    "a log of Log4j": "[2024-01-01T10:00:00,123] WARN x, y\n[2024-01-01T10:00:01,456] z, y\n" * 3,
    "comments alone": "# a, b\n# c, d\n# e, f\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_that_is_not_delimited_is_not_shown_or_converted_as_a_table(name):
    text = TEXTS[name]
    assert tile(Value(text.encode())).format.kind in ("text", "code")
    with pytest.raises(ConversionError, match="not a table") as caught:
        table(text)
    assert "separator=" in caught.value.hint
    assert "ragged=True" in caught.value.hint


def test_the_file_name_decides_whether_ambiguous_text_is_a_table():
    text = "a\tb\n1\t2\n"
    for name in ("x.tsv", "X.TAB"):
        assert sniff(text.encode(), len(text), name).label == "TSV"
        assert tile(Value(text.encode(), file_name=name)).format.label == "TSV"
        found = blob_content.as_table(text.encode(), TSV, max_bytes=1 << 20, file_name=name)
        assert found.to_pydict() == {"a": [1], "b": [2]}
    assert sniff(b"no table\n" * 3, 27, "x.tsv").label == "text"


TSV = "text/tab-separated-values"


def test_the_caller_can_state_whether_there_is_a_header_and_name_the_columns():
    plain = "1,tea\n2,cake\n3,pie\n"
    assert "header=False" in tile(Value(b"1,2\n3,4\n5,6\n")).notes[0]
    assert table(plain).num_rows == 2
    assert table(plain, header=False).to_pydict() == {"f0": [1, 2, 3], "f1": ["tea", "cake", "pie"]}
    assert table(plain, names=["id", "what"]).column_names == ["id", "what"]
    assert table(plain, names=["id", "what"]).num_rows == 3
    assert table(plain, names=["id", "what"], header=True).num_rows == 2
    ragged = table("1,2,3\n4,5,6\n7,8,9\n1,2,3\n7\n", header=False, ragged=True)
    assert ragged.shape == (5, 3)
    with pytest.raises(ConversionError, match="names= has 1 names, but the first line has 2"):
        table(plain, names=["id"])


@pytest.mark.parametrize("line", ["sep=;\n", '"sep=;"\r\n', "SEP=;\n"])
def test_a_first_line_such_as_sep_states_the_separator(line):
    assert table(f"{line}a;b\n1,5;2\n").to_pydict() == {"a": ["1,5"], "b": [2]}
    assert shape_in_tile(f"{line}a;b\n1,5;2\n") == (1, 2)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a,b\n1,2\n3,"4"\n5,"x\n2,y\n3,z\n', 4),
        ('# note\na,b\n1,"x""y"\n2,"z\n"\n3,"', 6),
        ('a;b\n1;2\n3;4\n5;"1,""2;3\n4;5', 4),
    ],
)
def test_a_quoted_field_without_an_end_is_reported_by_tile_and_table(text, line):
    says = f"quoted field that begins in line {line}"
    data = text.encode()
    assert f"{says} has no end" in tile(Value(data)).notes[0]
    with pytest.raises(ConversionError, match=says):
        table(text)
    assert table(text, ragged=True).num_columns == 2


@pytest.mark.parametrize(
    "text", ['a,b\n1,5"\n2,x\n3,y\n', 'a,b\n"x" "y,1\n2,3\n', 'a,b\n"",""""\n1,\n']
)
def test_a_quote_inside_a_field_needs_no_end(text):
    assert table(text, separator=",").num_columns == 2


def test_a_name_in_the_header_may_contain_line_breaks():
    text = '"first\nname","v"\nx,1\ny,2\nz,3\n'
    assert table(text).to_pydict() == {"first\nname": ["x", "y", "z"], "v": [1, 2, 3]}
    assert shape_in_tile(text) == (3, 2)


def test_whole_numbers_above_64_bits_keep_all_digits():
    large = "12345678901234567890"
    found = table(f"a,b,c\n{large},{large},1\n,0.5,2\n-3,inf,3\n")
    assert found.column("a").to_pylist() == [large, None, "-3"]
    assert found.column("b").type == "double"
    assert found.column("c").type == "int64"
    assert table("a,b\n+12345678901234567,1\n+2,2\n").column("a").to_pylist() == [
        "+12345678901234567",
        "+2",
    ]
    assert table(f"a,a\n{large},{2**63 - 1}\n1,2\n").columns[1].to_pylist() == [2**63 - 1, 2]
    with pytest.raises(ConversionError, match="values of 'a' include a whole number above 64 bits"):
        table(f'{{"a": {large}}}\n{{"a": 1}}\n')


def test_json_lines_of_objects_or_arrays_are_rows():
    assert table('["u0", 1]\n["u1", 2]\n').to_pydict() == {"f0": ["u0", "u1"], "f1": [1, 2]}
    found = table('{"a": 1}\n\n{"b": {"c": "\u2028"}, "a": 2.5}\n')
    assert found.to_pydict() == {"a": [1, 2.5], "b": [None, {"c": "\u2028"}]}
    assert table('{"a": 1}\nnull\n{"a": 2}\n').to_pydict() == {"a": [1, None, 2]}
    for first, second in [("1", '"x"'), ("1.5", "true"), ("[[1.5]]", "[[null, false]]")]:
        for text in (f'{{"a": {first}}}\n{{"a": {second}}}\n', f"[{first}]\n[{second}]\n"):
            with pytest.raises(ConversionError, match=r"values of '(a|f0)' have different types"):
                table(text)
    with pytest.raises(ConversionError, match="have different types"):
        table('{"a": {"b": 1.5}}\n{"a": {"b": true}}\n')
    many = "".join(f'{{"a": {n}}}\n' for n in range(30))
    with pytest.raises(ConversionError, match="line 31 is not JSON"):
        table(many + '{"a": \n')


@pytest.mark.parametrize(
    ("lines", "length", "name"),
    [
        (1, 1, "answers.jsonl"),
        (1, 400_000, "answers.NDJSON"),
        (2, 400_000, "answers.jsonl"),
        (2, 40_000, ""),  # only the first line is complete in the first 64 KiB
    ],
)
def test_few_or_long_json_lines_are_rows_in_a_tile_and_a_table(lines, length, name):
    data = (json.dumps({"a": "x" * length}) + "\n").encode() * lines
    made = tile(Value(data, file_name=name))
    assert made.format.label == "JSON lines"
    assert "text of" not in made.text
    found = blob_content.as_table(data, made.format.mime, max_bytes=1 << 20, file_name=name)
    assert found.to_pydict() == {"a": ["x" * length] * lines}


def test_a_json_document_keeps_its_format_whatever_its_name():
    for text in ('{\n "a": 1\n}\n', '[\n{"a": 1},\n{"a": 2}\n]'):
        assert sniff(text.encode(), len(text), "x.jsonl").label == "JSON"


@pytest.mark.parametrize("end", ["", ",a", "\ta"])
def test_times_beside_numbers_of_three_digits_are_a_table(end):
    text = "".join(f"2024-01-01 10:00:0{n},123{end}\n" for n in range(4))
    assert shape_in_tile(text) == (3, 2 + (end == ",a"))


def test_any_text_is_a_table_if_a_separator_is_given():
    assert table("tea\ncake\npie\n", separator=",").to_pydict() == {"tea": ["cake", "pie"]}
    assert table("a   b\n1 2\n", separator=" ").to_pydict() == {"a": [1], "b": [2]}
    assert table("# note\na:b\n1:2\n", separator=":").to_pydict() == {"a": [1], "b": [2]}


def test_the_format_of_a_large_text_is_detected_at_its_beginning():
    text = "# c\n" + "a|b,b|c\n" + "1|2,2|3\n" * 20_000
    assert tile(Value(text.encode())).format.kind == "table"
    assert "first rows × 3 columns" in tile(Value(text.encode())).text
    assert table(text).shape == (20_000, 3)


def test_truncated_delimited_text_never_raises_an_error():
    whole = '# c\n#a;"b";c\n1;"x\ny";3\n4;5\n\n'
    for size in range(1, len(whole) + 1):
        text = whole[:size]
        form = form_of(text)
        assert form is None or list(lines_of(text, form))
        assert Seen(tile(Value(text.encode())).html).text
