"""Malicious files cannot crash the converting process or exhaust its memory."""

import io
import struct
import subprocess
import sys

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odps_nb.convert import blob_content, blob_conversion
from odps_nb.errors import ConversionError, LimitExceededError, ProtocolError
from tests.support.arrow_bodies import ipc
from tests.support.encrypted import encrypted_parquet

MIB = 1 << 20
PARQUET = "application/vnd.apache.parquet"


@pytest.fixture
def own_memory():
    """Check that the conversions of a test use at most a few MiB in this process."""
    before = psutil.Process().memory_info().rss
    yield
    assert psutil.Process().memory_info().rss - before < 64 * MIB


def repeated_string(length: int, rows: int) -> bytes:
    """Return a small Parquet file with one long value in a dictionary, used in every row."""
    out = io.BytesIO()
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * length])
    plain = {"write_statistics": False, "store_schema": False}
    pq.write_table(pa.table({"s": column}), out, compression="zstd", **plain)
    return out.getvalue()


def test_a_value_repeated_in_every_row_does_not_fill_the_memory(own_memory):
    """The file declares the size of its dictionary, not that of the rows."""
    data = repeated_string(400_000, 16_384)
    assert len(data) < 4_000
    with pytest.raises(LimitExceededError) as caught:
        blob_conversion.table(data, PARQUET, max_bytes=1_000_000)
    assert "max_bytes" in caught.value.hint


def test_exceeding_the_limit_of_the_caller_is_not_reported_as_damage():
    zeros = pa.record_batch({"zeros": pa.array(np.zeros(1_000_000, np.int64))})
    data = ipc(zeros, compression="zstd")
    with pytest.raises(LimitExceededError) as caught:
        blob_conversion.table(data, "application/vnd.apache.arrow.stream", max_bytes=MIB)
    assert not isinstance(caught.value, ProtocolError)


@pytest.mark.parametrize("sign", ["\u2028", "\x0c", "\x85", "\x1c"])
def test_columns_of_csv_are_counted_with_the_line_ends_of_the_parser(own_memory, sign):
    """`str.splitlines` ends lines at more characters than pyarrow does."""
    line = f"1,2,3{sign}" * 20_000
    with pytest.raises(LimitExceededError, match="40,001 columns"):
        blob_conversion.table(f"{line}\n{line}\n".encode(), "text/csv", max_bytes=MIB)


def test_a_csv_that_expands_too_much_is_refused():
    rows = "a,b\n" + "1,2\n" * 100_000
    with pytest.raises(LimitExceededError, match="the unpacked blob is larger than"):
        blob_conversion.table(rows.encode(), "text/csv", max_bytes=MIB)
    assert blob_conversion.table(rows.encode(), "text/csv", max_bytes=2 * MIB).num_rows == 100_000


def test_a_union_with_custom_type_codes_is_refused():
    """pyarrow 26.0.1 crashes the process when it computes the size of the union."""
    union = pa.UnionArray.from_sparse(
        pa.array([5, 7], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])], type_codes=[5, 7]
    )
    data = ipc(pa.table({"u": pa.StructArray.from_arrays([union], ["v"])}))
    with pytest.raises(ConversionError, match="custom type codes"):
        blob_conversion.table(data, "application/vnd.apache.arrow.stream", max_bytes=MIB)


def test_a_parquet_file_with_encrypted_columns_is_refused_before_pyarrow_reads_it():
    for convert in (blob_conversion.table, blob_content.as_table):
        with pytest.raises(ConversionError, match="its columns are encrypted") as caught:
            convert(encrypted_parquet(plaintext_footer=True), PARQUET, max_bytes=MIB)
        assert "decryption_properties" in caught.value.hint
        with pytest.raises(ConversionError, match="encrypted metadata"):
            convert(encrypted_parquet(plaintext_footer=False), PARQUET, max_bytes=MIB)


def with_encrypted_column() -> list[bytes]:
    """Return Parquet files with a plain footer; one declares a column as encrypted.

    Thrift, compact: `ColumnChunk.crypto_metadata` (field 8) is written before the end of the
    struct, as a union whose member ENCRYPTION_WITH_COLUMN_KEY (2) names the column.
    """
    out = io.BytesIO()
    pq.write_table(pa.table({"n": [1, 2, 3]}), out, write_statistics=False, store_schema=False)
    data = out.getvalue()
    (size,) = struct.unpack("<I", data[-8:-4])
    footer = data[-8 - size : -8]
    made = []
    for at in range(len(footer)):
        if footer[at] == 0:  # each zero may be the end of the struct of the column chunk
            for delta in range(1, 8):
                extra = bytes([delta << 4 | 12, 2 << 4 | 12, 1 << 4 | 9, 1 << 4 | 8, 1]) + b"n\0\0"
                longer = footer[:at] + extra + footer[at:]
                made.append(data[: -8 - size] + longer + struct.pack("<I", len(longer)) + b"PAR1")
    return made


def test_a_file_that_crashes_the_parser_does_not_crash_this_process():
    """In an earlier version, an encrypted column crashed the kernel (`terminate called`)."""
    said = set()
    for data in with_encrypted_column():
        try:
            blob_conversion.table(data, PARQUET, max_bytes=MIB)
        except ConversionError as error:
            said.add(str(error))
    assert any("crashed the parser process (SIGABRT)" in text for text in said)
    assert blob_conversion.table(repeated_string(3, 3), PARQUET, max_bytes=MIB).num_rows == 3


KERNEL = """
import sys
folder = sys.path.pop(0)
from odps_nb.convert import blob_conversion
# as scripts and kernels have it: folders in which somebody works, before all libraries
sys.path[:0] = [folder, folder + "/other"]
print(blob_conversion.table(b"a,b\\n1,2\\n", "text/csv", max_bytes=1_000_000).num_rows)
"""


@pytest.mark.gate(2)
@pytest.mark.parametrize("name", ["xml", "json", "numpy", "pyarrow", "charset_normalizer"])
def test_a_saved_blob_is_not_imported_by_the_parser_process(tmp_path, name):
    for folder in (tmp_path, tmp_path / "other"):
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text("open('ran', 'w').close()\nraise ImportError\n")
    (tmp_path / "main.py").write_text(KERNEL)
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.stdout == "1\n", done.stderr
    assert not (tmp_path / "ran").exists()
