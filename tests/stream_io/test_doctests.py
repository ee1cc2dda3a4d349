"""Every example in a docstring of `odps_nb.stream_io` and of the wire's bytes half runs."""

import doctest
import importlib

import pytest

import odps_nb.stream_io

MODULES = [
    "odps_nb._stream_io.payload",
    "odps_nb._stream_io.blobs",
    "odps_nb._stream_io.reader",
    "odps_nb._stream_io.writers",
    "odps_nb._stream_io.arrow",
    "odps_nb.wire.crc32c",
    "odps_nb.wire.blocks",
    "odps_nb.wire.frames",
    "odps_nb.wire.layers",
    "odps_nb.wire.arrow_stream",
    "odps_nb.wire._zstd_blocks",
    "odps_nb.wire._ipc_message",
]

CLASSES = [
    "ArrowReader",
    "ArrowWriter",
    "BlobDataIterator",
    "BlobStreamReader",
    "BlobStreamWriter",
    "CrcStrippingStream",
    "StreamReader",
    "StreamWriter",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", CLASSES)
def test_each_of_the_eight_classes_has_an_example(name: str) -> None:
    assert name in odps_nb.stream_io.__all__
    assert ">>>" in (getattr(odps_nb.stream_io, name).__doc__ or "")
