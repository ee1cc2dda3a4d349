"""The encoding of a text is declared in it or detected from its bytes."""

import pyarrow as pa
import pytest

from odps_nb.convert import blob_content, blob_conversion
from odps_nb.errors import ConversionError, OdpsNbWarning
from odps_nb.formats.registry import media_type, sniff
from odps_nb.notebook.preview.tile import tile
from odps_nb.parsing.encodings import Encoding, detect
from tests.support.previews import Value

POEM = "床前明月光，疑是地上霜。\n举头望明月，低头思故乡。\n"
SPANISH = "El niño comió una piña en la montaña, ¿verdad? Sí, señor.\n" * 8
NEWS = {
    "gb18030": POEM * 4,
    "gbk": "编号,名称,价格\n1,苹果,3.5\n2,香蕉,4.2\n3,葡萄,8.0\n",
    "gb2312": POEM,
    "big5": "床前明月光，疑是地上霜。\n舉頭望明月，低頭思故鄉。\n" * 4,
    "euc-kr": "안녕하세요. 오늘은 날씨가 매우 좋습니다.\n저는 학교에 갑니다.\n" * 4,
    "shift_jis": "今日はとても良い天気です。\nわたしは学校へ行きます。\n" * 4,
    "euc-jp": "今日はとても良い天気です。\nわたしは学校へ行きます。\n" * 4,
    "iso2022_jp": "今日はとても良い天気です。\nわたしは学校へ行きます。\n" * 4,
    "iso2022_kr": "안녕하세요. 오늘은 날씨가 매우 좋습니다.\n저는 학교에 갑니다.\n" * 4,
    "koi8-r": "Сегодня очень хорошая погода.\nЯ иду в школу, а потом домой.\n" * 4,
    "windows-1251": "Сегодня очень хорошая погода.\nЯ иду в школу, а потом домой.\n" * 4,
    "windows-1252": "Les élèves étaient déjà à l'école, où ils apprenaient le français.\n" * 4,
    "windows-1254": "Türkiye'nin başkenti Ankara'dır. Çok güzel bir şehir, değil mi?\n" * 5,
    "windows-1257": "Lietuvos sostinė yra Vilnius. Žmonės čia mėgsta gamtą ir ežerus.\n" * 5,
    "utf-16-le": POEM,
    "utf-16-be": "The quick brown fox jumps over the lazy dog.\n" * 3,
    "utf-32": POEM,
    "utf-8-sig": POEM,
}


@pytest.mark.parametrize("encoding", NEWS)
def test_text_is_detected_in_its_encoding(encoding):
    text, data = NEWS[encoding], NEWS[encoding].encode(encoding)
    assert blob_content.as_text(data, None) == text
    assert sniff(data, len(data)).encoding


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text", ["abc", "name,b\nfoo,café\n", "id,名\n1,张\n", POEM[:5] + " a b c"]
)
def test_short_utf_16_text_without_a_byte_order_mark_is_detected(text, encoding):
    assert blob_content.as_text(text.encode(encoding), None) == text
    for end in range(2000, 2004):  # only the first bytes
        found = detect((text * 500).encode(encoding)[:end], whole=False)
        assert (found.name, found.guessed) == (encoding, True)


@pytest.mark.parametrize(
    "text", ["你好", "苹果", "中国北京", "id,name\n1,张三\n2,李四\n", "价格：3"]
)
def test_a_short_text_of_chinese_characters_is_read_as_gbk(text):
    """Several encodings are equally likely for a short text; MaxCompute users mostly write GBK."""
    assert blob_content.as_text(text.encode("gbk"), None) == text


@pytest.mark.parametrize("text", ["Café crème", "Grüße aus Köln", "naïve", SPANISH])
def test_text_with_accented_letters_is_read_as_latin_1(text):
    assert blob_content.as_text(text.encode("latin-1"), None) == text


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<?xml version="1.0" encoding="gb2312"?>\n<a>{}</a>', "gb2312"),
        ("<html><head><meta charset=gbk></head>{}</html>", "gbk"),
        ('<html><meta http-equiv="Content-Type" content="text/html; charset=big5">{}', "big5"),
        ("<html><meta charset=x-gbk>{}</html>", "gbk"),
        ("# -*- coding: koi8-r -*-\nprint('{}')", "koi8-r"),
        ("#!/usr/bin/python\n# vim: set fileencoding=gbk :\nprint('{}')", "gbk"),
    ],
)
def test_a_declared_encoding_takes_precedence(encoding, head):
    text = head.format("Привет" if encoding == "koi8-r" else "月光")
    found = detect(text.encode(encoding))
    assert (found.name.replace("_", "-"), found.guessed) == (encoding, False)
    assert blob_content.as_text(text.encode(encoding), None) == text


@pytest.mark.parametrize("stated", ["utf-7", "rot13", "hex", "idna", "nothing", "utf-16"])
def test_a_declared_encoding_that_is_wrong_is_ignored(stated):
    data = f'<?xml version="1.0" encoding="{stated}"?>\n<a>{POEM}</a>'.encode()
    assert blob_content.as_text(data, None).endswith(f"{POEM}</a>")


@pytest.mark.parametrize(
    "data",
    [
        b"\0\1\2\3" * 9,
        b"a\0b",
        b"a\0" * 9,
        b"a\0b\0c\0\1\0",
        bytes(range(256)),
        b"\x7fELF\x02\x01\x01" + bytes(40),
        b"\xff" * 40,
        b"hello\0world\n",
        b"a,b\n1,\0\n",
        "Grüße\0 aus München\n".encode(),
    ],
)
def test_binary_data_is_not_text(data):
    assert detect(data) is None
    with pytest.raises(ConversionError, match=r"is not valid utf-8|is binary"):
        blob_content.as_text(data, None)
    assert sniff(data, len(data)).encoding == ""


def test_control_characters_do_not_make_ascii_text_utf_16():
    """As in the output of a terminal: escape sequences, and a bell."""
    data = b"normal\x1b[31mred\x1b[0m\x07\n"
    assert blob_content.as_text(data, None) == data.decode()
    assert sniff(data, len(data)).encoding == ""


def test_a_head_that_ends_inside_a_character_is_text():
    data = (NEWS["gbk"] * 3000).encode("gbk")
    for end in range(65_500, 65_536):
        found = sniff(data[:end], len(data))
        assert (found.label, found.guessed) == ("CSV", True)


#: An encoding, a byte that is invalid in it, and a line.
DAMAGED = {
    "utf-8": (b"\xe9", "编号,Zoë,名称\n"),
    "gb18030": (b"\xff", "编号,床前明月光,疑是地上霜\n"),
    "big5": (b"\xff", "床前明月光,疑是地上霜,舉頭望明月\n"),
    "cp932": (b"\x81", "今日は,とても,良い天気です\n"),
    "cp949": (b"\xff", "안녕하세요,오늘은,날씨가 매우 좋습니다\n"),
    "cp1250": (b"\x81", "Zażółć,gęślą jaźń,a potem zjedz śniadanie w łóżku\n"),
    "cp1251": (b"\x98", "Сегодня,очень хорошая,погода\n"),
    "cp1252": (b"\x81", "Les élèves étaient,déjà à l'école, où ils apprenaient le français.\n"),
}


@pytest.mark.parametrize("lines", [100, 3000])
@pytest.mark.parametrize("encoding", DAMAGED)
def test_an_invalid_byte_affects_only_that_byte(encoding, lines):
    byte, line = DAMAGED[encoding]
    name = f"a,b,c\n{line * (lines // 2)}"
    data = name.encode(encoding) + byte + f",1,2\n{line * (lines // 2)}".encode(encoding)
    text = f"{name}\ufffd,1,2\n{line * (lines // 2)}"
    with pytest.warns(OdpsNbWarning, match=f"1 invalid byte in its detected encoding, {encoding}"):
        assert blob_content.as_text(data, None) == text
    with pytest.warns(OdpsNbWarning, match="1 invalid byte"):
        assert table(data)["a"].to_pylist().count("\ufffd") == 1
    with pytest.raises(ConversionError, match=f"not valid {encoding} from byte"):
        blob_content.as_text(data, encoding)
    made = tile(Value(data))
    assert "1 invalid byte shown as \ufffd" in made.notes or len(data) > 1 << 16
    assert made.format.label == "CSV"


def test_text_with_many_bytes_that_are_invalid_in_utf_8_is_not_utf_8():
    data = "Zoë\n".encode() * 30 + "Zoë\n".encode("cp1252") * 30
    with pytest.raises(ConversionError, match="not valid utf-8 from byte"):
        blob_content.as_text(data, "utf-8")
    assert (detect(data) or Encoding(name="")).name != "utf-8"


def table(data: bytes, **options: str) -> pa.Table:
    mime = media_type(data[: 1 << 16], len(data), "")
    options["max_bytes"] = 1 << 20
    found = blob_conversion.table(data, mime, **options)
    assert found.equals(blob_content.as_table(data, mime, **options))
    return found


def test_tables_are_read_in_any_encoding_and_with_any_separator():
    assert table(NEWS["gbk"].encode("gbk"))["名称"].to_pylist() == ["苹果", "香蕉", "葡萄"]
    named = table(NEWS["gbk"].encode("gbk"), encoding="gb18030")
    assert named["价格"].to_pylist() == [3.5, 4.2, 8.0]
    parted = "a:b\n1:x\n2:y\n"
    with pytest.raises(ConversionError, match="not a table") as caught:
        table(parted.encode())
    assert "separator=" in caught.value.hint
    assert table(parted.encode(), separator=":").to_pydict() == {"a": [1, 2], "b": ["x", "y"]}


def test_text_with_the_default_separator_of_hive_is_a_table():
    data = '1\x01苹果\x01\\N\n2\x01"x\x011.5\n'.encode()
    assert sniff(data, len(data)).label == "text of Hive"
    assert table(data).to_pydict() == {"f0": [1, 2], "f1": ["苹果", '"x'], "f2": [None, 1.5]}
    uneven = b"1\x01a\n2\n3\x01b\x01c\n"
    assert sniff(uneven, len(uneven)).encoding == ""


def test_chinese_characters_among_control_characters_are_not_text():
    assert detect("明月".encode("gbk") + bytes(range(20))) is None
