"""CRC32C and CRC-32: known values, and the same results from every implementation."""

import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.wire import crc32, crc32c

CHECK = b"123456789"


def test_both_checksums_have_the_check_values_of_their_polynomials() -> None:
    assert crc32c.crc32c(CHECK) == 0xE3069283
    assert crc32.crc32(CHECK) == 0xCBF43926


def test_the_examples_of_rfc_3720_have_the_documented_checksums() -> None:
    assert crc32c.crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c.crc32c(bytes(range(32))) == 0x46DD794E


@given(st.binary(max_size=300), st.integers(0, 300))
def test_a_checksum_continues_from_that_of_the_bytes_before(data: bytes, cut: int) -> None:
    assert crc32c.crc32c(data[cut:], crc32c.crc32c(data[:cut])) == crc32c.crc32c(data)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_crc32_agrees_with_zlib(data: bytes, cut: int) -> None:
    assert crc32.crc32(data[cut:], crc32.crc32(data[:cut])) == zlib.crc32(data)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_accepted(kind: type) -> None:
    assert crc32c.crc32c(kind(CHECK)) == 0xE3069283
    assert crc32.crc32(kind(CHECK)) == 0xCBF43926


def test_the_name_of_the_crc32c_implementation_says_whether_it_is_fast() -> None:
    assert crc32c.IMPLEMENTATION.startswith("crc32c ")
    assert ("hardware" in crc32c.IMPLEMENTATION) is crc32c.IS_FAST
    assert crc32.IMPLEMENTATION.startswith("zlib")


def test_without_zlib_ng_the_zlib_of_the_interpreter_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "zlib_ng", None)
    function, name = crc32._choose()
    assert function is zlib.crc32
    assert name.startswith("zlib ")


def test_zlib_ng_is_used_if_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import ModuleType, SimpleNamespace

    package = ModuleType("zlib_ng")
    package.zlib_ng = SimpleNamespace(crc32=zlib.crc32, ZLIBNG_VERSION="2.2")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "zlib_ng", package)
    assert crc32._choose() == (zlib.crc32, "zlib-ng 2.2")
