"""Draw damaged files of every kind, and check that each becomes a valid tile.

``.venv/bin/python fuzz/mutate_previews.py --count 20000 --seed 1`` damages sample files (flipped
bits, truncation, splices, altered lengths) and draws each as a notebook would, in a child process.
If the child is killed by a signal, raises an exception, or produces unknown markup or a tile beyond
its budget, the input is saved in ``build/fuzz`` and the run fails. Crashes of the parser process
are harmless and only counted.
"""

from __future__ import annotations

import bz2
import collections
import io
import json
import lzma
import random
import struct
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from budget import Budget, read

ROOT = Path(__file__).parent.parent
WORK = ROOT / "build" / "fuzz"
SLICE = 500

# the tags and attributes that tiles use; any others come from a file, which is a fault
_TAGS = """audio b bdi br details div em figcaption figure i iframe img li p pre span summary
    table tbody td th thead tr ul video"""
_ATTRIBUTES = """alt aria-label controls dir open poster preload role sandbox scope src srcdoc style
    tabindex title"""
TAGS, ATTRIBUTES = frozenset(_TAGS.split()), frozenset(_ATTRIBUTES.split())


class File(io.BytesIO):
    """An opened blob."""

    verified = True


class Value:
    """A blob value with markup as its name."""

    mime_type = "image/png"
    file_name = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>"

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    def open(self) -> File:
        return File(self.data)


class Checked(HTMLParser):
    """A parser that raises an error for markup that no preview generates."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag in TAGS, f"<{tag}>"
        assert given.keys() <= ATTRIBUTES, f"<{tag} {sorted(given)}>"
        for name in ("src", "poster"):
            assert (given.get(name) or "data:").startswith("data:"), given[name]
        assert tag != "iframe" or given.get("sandbox") == "", "a frame without a sandbox"


# -- seeds --------------------------------------------------------------------------------------


def seeds() -> dict[str, bytes]:
    """Return a file of each kind, by name."""
    sys.path.insert(0, str(ROOT))  # a script has only its own folder on the path
    from fuzz.preview_files import files
    from tests.support.samples import media

    found = {b.file_name: bytes(b.data) for b in media() if b is not None}
    return {**found, **columns(), **pictures(), **packed(found), **papers(), **files()}


def columns() -> dict[str, bytes]:
    """Return Arrow and Parquet files with many types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "text": ["a", None, "cde"] * 4,
            "bytes": pa.array([b"", b"12", None] * 4, pa.large_binary()),
            "list": pa.array([[1], None, [2, 3]] * 4, pa.list_(pa.int32())),
            "struct": [{"a": 1, "b": ["x"]}, None, {"a": 2, "b": None}] * 4,
            "map": pa.array([[("k", 1)], None, []] * 4, pa.map_(pa.string(), pa.int64())),
            "word": pa.array(["tea", "cake", "tea"] * 4).dictionary_encode(),
            "time": pa.array([1, None, 2**62] * 4, pa.timestamp("ns", "Europe/Berlin")),
            "date": pa.array([0, None, 2**31 - 1] * 4, pa.date32()),
            "price": pa.array([1, None, 2] * 4).cast(pa.decimal128(30, 2)),
            "view": pa.array(["short", None, "a long text in a view"] * 4, pa.string_view()),
        }
    )
    small = table.select(["text", "list"])
    made = {}
    for name, part in (("types", table), ("small", small)):
        for codec in (None, "lz4", "zstd"):
            options = pa.ipc.IpcWriteOptions(compression=codec)
            out = io.BytesIO()
            with pa.ipc.new_stream(out, part.schema, options=options) as writer:
                writer.write_table(part)
            made[f"{name}.{codec}.arrows"] = out.getvalue()
    for codec in ("none", "snappy", "zstd", "gzip"):
        out = io.BytesIO()
        pq.write_table(table.drop_columns(["view", "map"]), out, compression=codec)
        made[f"types.{codec}.parquet"] = out.getvalue()
    out = io.BytesIO()
    pq.write_table(pa.table({"l": [[1], None] * 5}), out)
    made["lists.parquet"] = out.getvalue()
    return made


def pictures() -> dict[str, bytes]:
    """Return small pictures in each format that the previews decode."""
    from PIL import Image

    noise = Image.effect_noise((40, 30), 60).convert("RGB")
    made = {}
    for form in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF"):
        out = io.BytesIO()
        noise.save(out, form)
        made[f"noise.{form.lower()}"] = out.getvalue()
    for codec in ("tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits", "group4"):
        out = io.BytesIO()
        (noise.convert("1") if codec == "group4" else noise).save(out, "TIFF", compression=codec)
        made[f"noise.{codec}.tiff"] = out.getvalue()
    return made


def packed(found: dict[str, bytes]) -> dict[str, bytes]:
    """Return text and an archive in each compression format."""
    import zstandard

    text = b"all work and no play\n" * 300
    tar = zlib_tar(found["logs.tar.gz"])
    return {
        f"{name}.{way}": pack(data)
        for name, data in (("text", text), ("tar", tar))
        for way, pack in (
            ("bz2", bz2.compress),
            ("xz", lzma.compress),
            ("zst", zstandard.ZstdCompressor().compress),
            ("plain", bytes),
        )
    }


def zlib_tar(data: bytes) -> bytes:
    import gzip

    return gzip.decompress(data)


def papers() -> dict[str, bytes]:
    """Return drawings and pages with references, styles and pictures."""
    return {
        "arrow.svg": b'<svg xmlns="http://www.w3.org/2000/svg"><style>.a{fill:url(#g)}</style>'
        b'<linearGradient id="g"><stop/></linearGradient><marker id="m"><path d="M0 0L9 4z"/>'
        b'</marker><path class="a" stroke-dasharray="3 2" marker-end="url(#m)" d="M0 0L9 9"/>'
        b'<use href="#m" transform="scale(2)"/></svg>',
        "page.html": b"<html><style>p{color:red}</style><body><table><tr><td style='color:blue'>x"
        b"<a href='x'>y</a><svg><style><p title='</style>'></svg><img src='data:image/gif;base64,"
        b"R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7'></table></body></html>",
    }


# -- damage -------------------------------------------------------------------------------------


def damaged(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return a slightly damaged copy of a file."""
    raw = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 4))):
        # mostly after the signature: a file that is no longer recognised tests little
        first = 0 if rng.random() < 0.04 else min(12, len(raw))
        if len(raw) <= first:
            break
        at = rng.randrange(first, len(raw))
        if rng.random() < 0.3:  # the beginning and the end contain most of the structure
            near = min(len(raw) - first, 200)
            at = rng.choice((first + rng.randrange(near), len(raw) - 1 - rng.randrange(near)))
        _hurt(raw, at, other, rng)
    return bytes(raw)


def _hurt(raw: bytearray, at: int, other: bytes, rng: random.Random) -> None:
    way = rng.random()
    if way < 0.5:
        raw[at] ^= 1 << rng.randrange(8)
    elif way < 0.6:
        del raw[at:]
    elif way < 0.75:
        piece = other[rng.randrange(len(other) or 1) :][: rng.randint(1, 64)]
        raw[at : at + rng.choice((0, len(piece)))] = piece
    else:
        number = rng.choice((0, 1, -1, 255, 1 << 16, (1 << 31) - 1, -(1 << 31), len(raw) + 1))
        form = rng.choice(("<i", "<i", "<q", "<h"))
        packed = struct.pack(form, max(-32768, min(32767, number)) if form == "<h" else number)
        place = max(at // 4 * 4, 12)
        raw[place : place + len(packed)] = packed


def inputs(seed: int, start: int, stop: int) -> Any:
    """Yield number, name and bytes of some inputs, which depend only on the seed.

    The first inputs are the undamaged files, so that every kind is included.
    """
    files = seeds()
    names = sorted(name for name, data in files.items() if len(data) <= 200_000)
    for number in range(start, stop):
        rng = random.Random(f"{seed}:{number}")
        name = names[number % len(names)]
        whole = files[name]
        is_first = number < len(names)
        yield number, name, whole if is_first else damaged(whole, files[rng.choice(names)], rng)


# -- drawing ------------------------------------------------------------------------------------


def draw(seed: int, start: int, stop: int) -> None:
    """Draw inputs in this process and print each outcome; any input may crash the process."""
    from odps_nb.formats.shared import GRID, LIST, SINGLE
    from odps_nb.notebook.preview.tile import TILE_BUDGET, tile

    for number, name, data in inputs(seed, start, stop):
        print(json.dumps({"begin": number, "name": name}), flush=True)
        began = time.perf_counter()
        made = tile(Value(data), size=(GRID, LIST, SINGLE)[number % 3], render=number % 2 == 0)
        spent = time.perf_counter() - began
        assert len(made.html) <= TILE_BUDGET + 16 * 1024, "too long"
        Checked().feed(made.html)
        made.html.encode()
        outcome = "drawn"
        if "stopped the parser" in made.html:
            outcome = "parser died"
        elif any(
            tag in made.html
            for tag in ("corrupt:", "not readable", "truncated or damaged", "as source")
        ):
            outcome = "refused"
        said = {"end": number, "kind": made.format.label, "outcome": outcome, "spent": spent}
        print(json.dumps(said), flush=True)


def run(budget: Budget, seed: int) -> int:
    """Draw inputs in child processes, one per slice; return the number of failures."""
    outcomes: collections.Counter[tuple[str, str]] = collections.Counter()
    failures, longest, start = 0, (0.0, 0, ""), 0
    while not budget.is_spent(start):
        end = budget.slice(start, SLICE)
        command = [sys.executable, __file__, "--child", *map(str, (seed, start, end))]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        begun = start
        for line in child.stdout.splitlines():
            said = json.loads(line)
            begun = said.get("begin", begun)
            if "end" in said:
                outcomes[said["kind"], said["outcome"]] += 1
                longest = max(longest, (said["spent"], said["end"], said["kind"]))
        start = end
        if child.returncode:
            failures += 1
            _, name, data = next(inputs(seed, begun, begun + 1))
            WORK.mkdir(parents=True, exist_ok=True)
            (WORK / f"preview-{seed}-{begun}").write_bytes(data)
            print(f"input {begun} ({name}): status {child.returncode}\n{child.stderr[-2000:]}")
            start = begun + 1
    print_outcomes(outcomes, longest, count=start, failures=failures)
    return failures


def print_outcomes(
    outcomes: collections.Counter[tuple[str, str]],
    longest: tuple[float, int, str],
    *,
    count: int,
    failures: int,
) -> None:
    """Print a table of kinds and outcomes."""
    ways = ("drawn", "refused", "parser died")
    print(f"{'kind':24}" + "".join(f"{way:>14}" for way in ways))
    for kind in sorted({kind for kind, _ in outcomes}):
        print(f"{kind[:24]:24}" + "".join(f"{outcomes[kind, way]:14,}" for way in ways))
    died = sum(number for (_, way), number in outcomes.items() if way == "parser died")
    print(f"{count:,} inputs: {failures} failures, {died} parser processes died")
    print(f"longest: {longest[0]:.2f} s, input {longest[1]} ({longest[2]})")


def main() -> int:
    """Run from the command line."""
    if sys.argv[1:2] == ["--child"]:
        draw(*map(int, sys.argv[2:5]))
        return 0
    return min(1, run(*read(__doc__.partition("\n")[0], 20_000)))


if __name__ == "__main__":
    sys.exit(main())
