"""Generates small files of many kinds, including the video and audio of `media_files`."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import struct
import wave
import zipfile

from fuzz import document_files, media_files, office_files, science_files

__all__ = ["files", "gguf", "torch"]


def files() -> dict[str, bytes]:
    """Return the files by name."""
    return {
        "weights.safetensors": _safetensors(),
        "model.onnx": _onnx(),
        "model.gguf": gguf(),
        "model.pt": torch(),
        "area.geojson": _area(),
        "report.ipynb": _notebook(),
        "sound.wav": _sound(),
        "sound.flac": _flac(),
        "rows.orc": _orc(),
        "rows.avro": _avro(),
        "photo.heic": _heic(),
        "icon.ico": _icon(),
        "system.pkl": pickle.dumps([os.system], 5),
        **document_files.files(),
        **media_files.files(),
        **office_files.files(),
        **science_files.files(),
    }


def _safetensors() -> bytes:
    header = {
        "__metadata__": {"format": "pt"},
        "encoder.weight": {"dtype": "F16", "shape": [768, 64], "data_offsets": [0, 98304]},
        "step": {"dtype": "I64", "shape": [], "data_offsets": [98304, 98312]},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(98312)


def gguf(*, tokens: int = 3) -> bytes:
    """Return a model with two tensors and a list of tokens."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    listed = b"".join(text(f"token {n}") for n in range(tokens))
    settings = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.block_count") + struct.pack("<II", 4, 2),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, tokens) + listed,
        text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, 6) + bytes(24),
    ]
    tensors = [
        text("token_embd.weight") + struct.pack("<IQQIQ", 2, 8, 5, 0, 0),
        text("norm") + struct.pack("<IQIQ", 1, 8, 12, 160),
    ]
    counts = struct.pack("<IQQ", 3, len(tensors), len(settings))
    return b"GGUF" + counts + b"".join(settings) + b"".join(tensors) + bytes(400)


def torch(imported: tuple[str, str] = ("torch._utils", "_rebuild_tensor_v2")) -> bytes:
    """Return an archive that begins like one of ``torch.save``."""
    out = io.BytesIO()
    named = "".join(f"c{one}\n{two}\n" for one, two in (("collections", "OrderedDict"), imported))
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + named.encode() + b".")
        archive.writestr("archive/data/0", bytes(64))
    return out.getvalue()


def _onnx() -> bytes:
    graph = b"\x3a\x82\x01" + bytes(130)
    return bytes([8, 9, 0x12, 7]) + b"pytorch" + bytes([0x1A, 5]) + b"2.9.0" + graph


def _area() -> bytes:
    turns = [at / 30 * math.tau for at in range(31)]
    ring = [[5 + 8 * math.cos(turn), 50 + 4 * math.sin(turn)] for turn in turns]
    shapes = [
        {"type": "Polygon", "coordinates": [ring, [[3, 49], [6, 49], [6, 51], [3, 49]]]},
        {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [10, 52]}]},
        {"type": "MultiLineString", "coordinates": [[[-2, 48], [4, 52], [12, 53]]]},
    ]
    features = [{"type": "Feature", "properties": {}, "geometry": shape} for shape in shapes]
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()


def _notebook() -> bytes:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "Some *text*"]},
        {
            "cell_type": "code",
            "outputs": [{"output_type": "stream"}],
            "source": "print('<b>1</b>')",
        },
    ]
    metadata = {"kernelspec": {"language": "python"}}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4}, indent=1).encode()


def _sound() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as made:
        made.setnchannels(2)
        made.setsampwidth(2)
        made.setframerate(8000)
        made.writeframes(bytes(8000 * 4 * 3))
    return out.getvalue()


def _flac() -> bytes:
    """Return only a FLAC header: 44.1 kHz, mono, 16 bits, 90 seconds."""
    packed = 44100 << 44 | 0 << 41 | 15 << 36 | 44100 * 90
    return b"fLaC\x80\x00\x00\x22" + bytes(10) + packed.to_bytes(8, "big") + bytes(16)


def _orc() -> bytes:
    import pyarrow as pa
    from pyarrow import orc

    out = io.BytesIO()
    orc.write_table(pa.table({"id": [1, 2, 3], "word": ["tea", None, "<b>cake</b>"]}), out)
    return out.getvalue()


def _avro() -> bytes:
    import fastavro

    fields = [{"name": "id", "type": "long"}, {"name": "word", "type": ["null", "string"]}]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    out = io.BytesIO()
    rows = [{"id": 1, "word": "<b>tea</b>"}, {"id": 2, "word": None}]
    fastavro.writer(out, schema, rows, codec="deflate", sync_marker=bytes(range(16)))
    return out.getvalue()


def _heic() -> bytes:
    import pillow_heif
    from PIL import Image

    out = io.BytesIO()
    pillow_heif.from_pillow(Image.linear_gradient("L").convert("RGB")).save(out)
    return out.getvalue()


def _icon() -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGBA", (32, 32), (200, 30, 30, 255)).save(out, "ICO")
    return out.getvalue()
