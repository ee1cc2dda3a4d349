"""Files of every kind, damaged in many ways, become tiles and do not affect the kernel.

To run this test for longer: ``.venv/bin/python fuzz/mutate_previews.py --count 20000 --seed 2``.
"""

import os
import random
import re
import subprocess
import sys

import pytest

# all kinds with third-party parsers, and some other kinds
KINDS = """PNG JPEG GIF WebP BMP TIFF AVIF HEIC ICO SVG Parquet Arrow ORC Avro NumPy ZIP gzip bzip2
    xz zstd tar HTML PDF text WAV FLAC pickle safetensors ONNX GGUF PyTorch
    notebook
    MP4 QuickTime WebM Matroska AVI MP3 Ogg M4A Excel OpenDocument DICOM Markdown Python
    Word PowerPoint EPUB message PPM DDS QOI PSD
    AMR AU AIFF AAC WMA WMV MPEG-TS MPEG-PS FLV 3GP SQLite"""


@pytest.mark.nightly
@pytest.mark.explore
def test_damaged_files_of_every_kind_become_tiles(repo):
    count = os.environ.get("ODPS_NB_EXPLORE")
    seed = 1 if count is None else random.randrange(1 << 30)
    count = max(150, int(count or 0))
    script = repo / "fuzz" / "mutate_previews.py"
    command = [sys.executable, str(script), "--count", str(count), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} inputs: 0 failures" in done.stdout.replace(",", "")
    found = [kind for kind in KINDS.split() if re.search(rf"^{kind}\b", done.stdout, re.MULTILINE)]
    assert found == KINDS.split()
