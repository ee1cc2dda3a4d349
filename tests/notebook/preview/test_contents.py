"""Tiles list the contents of science files and archives, and identify other formats."""

import io
import json
import struct

import h5py
import numpy as np
import pytest

from fuzz.science_files import hdf5, rar
from odps_nb.formats.kind import MIB
from odps_nb.formats.registry import sniff
from odps_nb.formats.shared import SINGLE
from odps_nb.notebook.preview.tile import tile
from tests.support.previews import Seen, Value


def drawn(data):
    return tile(Value(data), size=SINGLE)


# -- HDF5 -----------------------------------------------------------------------------------------


def test_datasets_of_hdf5_have_names_shapes_types_and_attributes():
    page = Seen(drawn(hdf5()).html).text
    assert "heat3 × 4float32units: K" in page
    assert "station/names2text" in page
    assert "station/stepscalarint32" in page
    assert "station/points2x, label" in page


def test_links_in_hdf5_are_listed_and_not_followed():
    page = Seen(drawn(hdf5()).html).text
    assert "softlink to /heat" in page
    assert "otherin another file: /etc/hostname:/x" in page
    assert "again" not in page  # the members of a group inside itself are listed once


def test_netcdf_4_is_recognised_as_hdf5():
    made = drawn(hdf5(netcdf=True))
    assert "HDF5 · netCDF-4 · 6 datasets" in made.text
    assert "_NCProperties" not in made.html


@pytest.mark.parametrize("before", [512, 1024, 2048])
def test_hdf5_is_recognised_after_a_header_of_another_program(before):
    assert "HDF5 · 6 datasets" in drawn(b"MATLAB 7.3".ljust(before, b"\0") + hdf5()).text


def test_truncated_hdf5_is_reported_as_damaged_without_library_details():
    made = drawn(hdf5()[:3000])
    assert made.notes == ("truncated or damaged: its data ends early",)


def test_datasets_described_at_the_beginning_of_a_large_file_are_listed():
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for name in ("first", "second"):
            file.create_dataset(name, (3 << 20,), "f8")
        for name in ("first", "second"):
            file[name][...] = 1
    value = Value(out.getvalue())
    assert value.size > 8 * MIB
    made = tile(value)
    assert value.was_read <= MIB + 1
    assert "first3,145,728float64" in Seen(made.html).text
    assert made.notes[0].startswith("only the first 1.0 MB of 50.3 MB were read")


def test_a_large_file_whose_datasets_are_described_at_its_end_says_so():
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for number in range(20):
            file[f"d{number}"] = np.zeros(1 << 16)
    assert drawn(out.getvalue()).notes[0] == "no dataset is described in the part that was read"


@pytest.mark.nightly
def test_the_first_of_many_datasets_are_listed():
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for number in range(2100):
            file.create_dataset(f"d{number}", (1,), "i1")
    made = drawn(out.getvalue())
    assert "HDF5 · first datasets" in made.text
    assert 20 < made.html.count("<tr") <= 61


# -- RAR ------------------------------------------------------------------------------------------


def test_a_truncated_rar_shows_its_first_names():
    whole = rar()
    assert "RAR · 1 file" in drawn(whole[: whole.index(b"dir/")]).text
    assert drawn(whole[:16]).notes == ("truncated or damaged: a header in it",)


def test_a_later_part_of_a_rar_archive_is_reported_as_a_part():
    made = drawn(rar(()))
    assert made.notes == ("no file begins in this part of the archive",)


def test_encrypted_names_of_a_rar_are_reported():
    assert drawn(rar(locked=True)).notes == ("password-protected",)


# -- formats that are only identified -------------------------------------------------------------

NAMED = {
    "netCDF-3": (b"CDF\x01" + bytes(99), "netCDF-3"),
    "shapefile": (b"\0\0\x27\x0a".ljust(28, b"\0") + b"\xe8\3\0\0", "shapefile"),
    "LAS": (b"LASF" + bytes(40), "LAS"),
    "NIfTI": (struct.pack("<I", 348).ljust(344, b"\0") + b"n+1\0", "NIfTI"),
    "NIfTI header": (struct.pack(">I", 348).ljust(344, b"\0") + b"ni1\0", "NIfTI"),
    "NIfTI-2": (struct.pack("<I", 540) + b"n+2\0\r\n\x1a\n" + bytes(9), "NIfTI"),
    "GRIB": (b"GRIB\0\0\x40\1" + bytes(9), "GRIB"),
    "GRIB2": (b"GRIB\xff\xff\0\2" + bytes(9), "GRIB2"),
    "pcap": (b"\xd4\xc3\xb2\xa1\2\0\4\0" + bytes(9), "pcap"),
    "pcapng": (b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a" + bytes(9), "pcapng"),
    "HDF4": (b"\x0e\3\x13\1" + bytes(9), "HDF4"),
    "glTF": (b"glTF\2\0\0\0" + bytes(12), "glTF"),
    "PLY": (b"ply\r\nformat binary_little_endian 1.0\r\nend_header\r\n\0\xff", "PLY"),
    "FITS": (
        b"SIMPLE  =                    T".ljust(80)
        + b"BITPIX  =                   16".ljust(2800)
        + bytes(80),
        "FITS",
    ),
    "TrueType": (b"\0\1\0\0\0\x0a\0\x80\0\3\0\x20OS/2" + bytes(60), "TrueType"),
    "a table of a font": (
        b"\0\1\0\0\0\1\0\0\x12\x34\xab\xcd\x5f\x0f\x3c\xf5" + bytes(38),
        "binary",
    ),
    "OpenType": (b"OTTO\0" + bytes(60), "OpenType"),
    "WOFF2": (b"wOF2OTTO" + bytes(60), "WOFF2"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(9), "7z"),
}


@pytest.mark.parametrize("name", NAMED)
def test_formats_of_other_programs_are_identified(name):
    data, label = NAMED[name]
    found = sniff(data, len(data))
    assert (found.kind, found.label) == ("binary", label)


def test_a_signature_at_an_offset_does_not_suffice_to_identify_a_format():
    assert sniff(b"GRIB is the word\xff\0", 18).label == "binary"
    assert sniff(bytes(28) + b"\xe8\3\0\0", 32).label == "binary"


def test_the_tree_of_json_lines_counts_all_lines():
    page = Seen(drawn(b'{"a": 1}\n' * 1000).html)
    assert "1,000 items" in page.text
    assert "300 items" not in page.text


# -- conversations --------------------------------------------------------------------------------


def test_conversations_in_json_lines_are_shown_as_text():
    question = {"role": "user", "content": [{"type": "text", "text": "<b>tea?"}, {"type": "image"}]}
    records = [
        {"messages": [question, {"role": "assistant", "content": "yes"}]},
        {"conversations": [{"from": "human", "value": "more"}, {"from": "gpt", "value": None}]},
        {"messages": 1},
    ]
    made = drawn("\n".join(map(json.dumps, records)).encode())
    assert "JSON lines · conversations · 3 lines" in made.text
    assert "user<b>tea?\n[image]assistantyeshumanmoregpt" in Seen(made.html).text
    call = {"role": None, "content": None, "tool_calls": [{"function": {"name": "f"}}]}
    text = Seen(drawn(f"{json.dumps({'messages': [call]})}\n{{}}\n".encode()).html).text
    assert "[tool calls]" in text
    assert "None" not in text
    assert "conversations" not in drawn(b'{"messages": 1}\n{"messages": [2]}\n').text


@pytest.mark.parametrize(
    ("line", "shown", "text"),
    [
        (
            {"messages": [{"role": "user", "content": "tea?"}]},
            "conversations · first lines",
            "tea?",
        ),
        ({"a": 1}, "JSON lines · first lines", "a: 1"),
    ],
    ids=["conversations", "tree"],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_large_file_of_json_lines_is_drawn_from_its_first_lines(line, shown, text, end):
    made = drawn((json.dumps(line) + end).encode() * 40_000)
    assert shown in made.text
    assert "only the first 65.5 kB" in made.html
    page = Seen(made.html).text
    assert text in page
    assert "“{" not in page  # the incomplete last line


def test_large_json_is_shown_as_source():
    large = json.dumps(["tea"] * 100_000)
    assert "too large to look inside" in drawn(large.encode()).notes
    assert "too large to look inside" in drawn(f'{large}\n{{"a": 1}}\n'.encode()).notes
