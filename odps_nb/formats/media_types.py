"""Media types by file name, from one table that is the same on every machine.

`mimetypes` reads the machine's files, such as ``/etc/mime.types``, so its results differ.
"""

from __future__ import annotations

import mimetypes
from os.path import splitext
from types import MappingProxyType
from typing import Final

# types that Python's table lacks in some versions, or replaces by the type of the content inside
_MORE: Final = """
    application/gzip .gz .tgz           application/x-bzip2 .bz2            application/x-xz .xz
    application/zstd .zst               application/x-7z-compressed .7z     application/vnd.rar .rar
    application/x-ndjson .jsonl .ndjson application/geo+json .geojson
    application/vnd.apache.parquet .parquet                                 application/x-npy .npy
    application/vnd.apache.arrow.file .arrow .feather                       application/x-npz .npz
    application/vnd.apache.arrow.stream .arrows
    application/vnd.apache.orc .orc
    application/vnd.apache.avro .avro   application/x-safetensors .safetensors
    application/x-onnx .onnx            application/x-gguf .gguf            application/dicom .dcm
    application/x-pickle .pkl .pickle   application/x-ipynb+json .ipynb     application/sql .sql
    application/vnd.sqlite3 .sqlite .sqlite3 .db                            application/toml .toml
    application/yaml .yaml .yml         application/epub+zip .epub          message/rfc822 .eml
    application/vnd.ms-outlook .msg     application/x-hdf5 .h5 .hdf5
    application/vnd.openxmlformats-officedocument.wordprocessingml.document .docx
    application/vnd.openxmlformats-officedocument.presentationml.presentation .pptx
    application/vnd.openxmlformats-officedocument.spreadsheetml.sheet .xlsx
    application/vnd.ms-excel .xls       application/msword .doc .dot
    application/vnd.oasis.opendocument.text .odt
    application/vnd.oasis.opendocument.spreadsheet .ods
    application/vnd.oasis.opendocument.presentation .odp
    image/webp .webp                    image/avif .avif                    image/heic .heic .heif
    image/jp2 .jp2                      image/vnd.adobe.photoshop .psd
    audio/flac .flac                    audio/ogg .ogg .oga .opus           audio/mp4 .m4a
    audio/wav .wav                      video/x-matroska .mkv               video/mp4 .m4v
    video/x-flv .flv                    font/woff2 .woff2
    text/markdown .md .markdown         text/x-rst .rst                     text/csv .csv
    text/tab-separated-values .tsv .tab text/javascript .js .mjs            text/x-python .py
    text/plain .log .rtx                application/rtf .rtf                text/html .html .htm
"""


def _made() -> MappingProxyType[str, str]:
    table = dict(mimetypes.MimeTypes().types_map[True])
    mime = ""
    for word in _MORE.split():
        if word.startswith("."):
            table[word] = mime
        else:
            mime = word
    return MappingProxyType(table)


#: Media type by ending, such as ``.png``.
BY_ENDING: Final = _made()
_ENDINGS: Final = {mime: ending for ending, mime in reversed(list(BY_ENDING.items()))}
_USUAL_ENDINGS: Final = (".jpg", ".tif", ".txt", ".html", ".xml", ".mp3", ".mp4", ".mpg", ".mov")
# the usual ending of each type that has several endings
_USUAL: Final = MappingProxyType({BY_ENDING[ending]: ending for ending in _USUAL_ENDINGS})


def type_of_name(name: str) -> str | None:
    """Return the media type that the last ending of a file name stands for, if known."""
    return BY_ENDING.get(splitext(name)[1].lower())  # noqa: PTH122  # faster, for many files


def ending_of(mime: str) -> str | None:
    """Return the usual ending of a media type's files, if known."""
    mime = mime.split(";")[0].strip().lower()
    return _USUAL.get(mime) or _ENDINGS.get(mime)
