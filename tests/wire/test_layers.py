"""Reference bytes of protocol.md 6.4: every order of layers gives the same payload."""

import pytest

from odps_nb.wire.layers import PayloadDecoder

REFERENCES = {
    "no coding": (None, "68 65 6c 6c 6f 4c bb 71 9a"),
    "zstd, CRC outermost": ("zstd", "28 b5 2f fd 20 05 29 00 00 68 65 6c 6c 6f 62 20 c7 4f"),
    "zstd, CRC innermost": ("zstd", "28 b5 2f fd 20 09 49 00 00 68 65 6c 6c 6f 4c bb 71 9a"),
    "lz4, CRC outermost": (
        "x-lz4-frame",
        "04 22 4d 18 68 40 05 00 00 00 00 00 00 00 61 05 00 00 80 68 65 6c 6c 6f 00 00 00 00"
        " 80 95 8c 9a",
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_bytes_give_hello(name: str) -> None:
    encoding, body = REFERENCES[name]
    decoder = PayloadDecoder(encoding)
    assert decoder.feed(bytes.fromhex(body)) + decoder.feed_eof() == b"hello"
