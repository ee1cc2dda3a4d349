"""A blob that crashes, blocks or exploits a parser affects only its tile."""

import io
import json
import os
import struct
import subprocess
import sys
import threading
from dataclasses import asdict
from functools import partial

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from odps_nb.child_process import LENGTHS
from odps_nb.errors import MissingDependencyError
from odps_nb.formats.parsers import picture
from odps_nb.formats.shared import GRID
from odps_nb.notebook.gallery.page import mimebundle
from odps_nb.notebook.preview.tile import tile
from odps_nb.parsing import client
from odps_nb.parsing.client import Parsed, Parser, ParserStoppedError
from odps_nb.parsing.values import Limits, UnshowableError
from tests.support.arrow_bodies import ipc
from tests.support.previews import NASTY, Column, Seen, Value
from tests.support.samples import encode

SIZE = {"size": {"layout": "tile", "width": 9, "height": 9, "rows": 3, "columns": 3, "lines": 3}}


def value(data, file_name="cat.png"):
    return Value(data, "image/png", file_name)


def png():
    return encode(Image.new("RGB", (8, 6), 1), "PNG")


def wrong_offsets():
    """Streams whose string offsets are out of bounds, at each position and for each offset type."""
    for kind, code in ((pa.string(), "i"), (pa.large_string(), "q"), (pa.binary(), "i")):
        batch = pa.record_batch({"s": pa.array(["a", "b", "c"], kind)})
        data = ipc(batch)
        at = data.index(struct.pack(f"<4{code}", 0, 1, 2, 3))
        for place in range(4):
            for value in (-1, 4, 1 << 20, 0x7FFF_0000):
                offsets = [0, 1, 2, 3]
                offsets[place] = value
                packed = struct.pack(f"<4{code}", *offsets)
                yield data[:at] + packed + data[at + len(packed) :]


def aborting_parquet():
    out = io.BytesIO()
    pq.write_table(pa.table({"l": [[1], None] * 5}), out)
    return out.getvalue()


@pytest.fixture
def parser():
    with_process = Parser()
    yield with_process
    with_process.close()


@pytest.fixture(scope="module")
def executing_parser():
    """A parser that executes the data of "array" jobs, each in a fork of one process."""
    code = "def parse(data, options):\n exec(data, globals())\n return answer\nbroken.parse = parse"
    with_process = Parser(idle_seconds=3600)  # a new process would be an unmodified parser
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "_BOOT", f"{BOOT}\n{code}\nmain()")
        assert with_process.parse("array", b"answer = {'n': 1}, b''", SIZE).number("n") == 1
    yield with_process
    with_process.close()


@pytest.fixture
def broken_parser(tmp_path, monkeypatch):
    """Return a function that starts a parser with the given code, such as a library with a bug."""

    def make(code):
        # the process imports our package with this module as a parser
        monkeypatch.setattr(client, "_BOOT", f"{BOOT}\n{code}\nmain()")
        made.append(Parser())
        return made[-1]

    made = []
    yield make
    for each in made:
        each.close()


BOOT = (
    "import sys; sys.path[:] = sys.argv[1:]\n"
    "import types, os, signal, time\n"
    "from odps_nb.parsing.process import main\n"
    "from odps_nb.parsing.values import UnshowableError\n"
    "broken = types.ModuleType('broken')\n"
    "sys.modules['odps_nb.formats.parsers.array'] = broken\n"
    "fine = types.ModuleType('fine')\n"
    "fine.parse = lambda data, options: ({'n': len(data)}, b'')\n"
    "sys.modules['odps_nb.formats.parsers.svg'] = fine"
)


# -- files that once crashed the kernel ---------------------------------------------------------


def test_an_arrow_file_with_invalid_offsets_becomes_a_tile():
    for data in wrong_offsets():
        made = tile(value(data))
        assert "<table" not in made.html or "> 3" not in made.html
        assert made.text.startswith("cat.png  Arrow stream")


def test_a_value_outside_of_its_buffer_is_not_shown():
    for data in list(wrong_offsets())[4:12]:
        made = tile(value(data))
        assert "truncated or damaged" in made.html
        assert "<table" not in made.html


@pytest.mark.nightly
def test_a_parquet_file_with_a_flipped_bit_becomes_a_tile():
    data = aborting_parquet()
    pages = set()
    for bit in range(8 * 124, 8 * 132):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        made = tile(value(bytes(flipped)))
        stopped = "stopped the parser process (SIGABRT)" in made.html
        assert not stopped or "use save(path) to save the blob" in made.html
        pages.add(made.html)
        assert made.html.startswith("<figure")
    assert len(pages) > 1  # older pyarrow aborts for some pages


# -- the process ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGBUS"])
def test_the_error_names_a_signal_and_the_same_process_runs_the_next_job(executing_parser, name):
    started = executing_parser._process
    for _ in range(2):
        with pytest.raises(ParserStoppedError, match=name):
            executing_parser.parse("array", f"os.kill(os.getpid(), signal.{name})".encode(), SIZE)
        assert executing_parser.parse("svg", b"12345", SIZE).number("n") == 5
        assert executing_parser._process is started


def test_repeated_endless_computations_have_shorter_time_limits(broken_parser, monkeypatch):
    monkeypatch.setattr(client, "Limits", partial(Limits, seconds=1))
    parser = broken_parser("def parse(data, options):\n while True: pass\nbroken.parse = parse")
    with pytest.raises(ParserStoppedError, match="too much time"):
        parser.parse("array", b"", SIZE)
    assert parser.parse("svg", b"1", SIZE).number("n") == 1
    assert parser._strikes == 1


def test_a_job_that_waits_forever_is_ended(broken_parser, monkeypatch):
    monkeypatch.setattr(client, "Limits", partial(Limits, seconds=1))
    monkeypatch.setattr(client, "_PATIENCE", 1)
    monkeypatch.setattr(client, "_START", 2)
    parser = broken_parser("broken.parse = lambda data, options: time.sleep(3600)")
    with pytest.raises(ParserStoppedError, match="too much time"):
        parser.parse("array", b"", SIZE)
    assert parser._process is None


def test_a_job_that_uses_too_much_memory_is_ended(executing_parser):
    size = Limits().memory + (256 << 20)
    with pytest.raises(ParserStoppedError, match="too much memory"):
        executing_parser.parse("array", f"answer = bytearray({size})".encode(), SIZE)


def test_a_parser_process_that_exits_is_restarted(broken_parser):
    parser = broken_parser(
        "def parse(data, options):\n os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)\n"
        "broken.parse = parse"
    )
    for _ in range(2):
        with pytest.raises(ParserStoppedError, match="exit status"):
            parser.parse("array", b"", SIZE)
        assert parser.parse("svg", b"12", SIZE).number("n") == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"x",
        LENGTHS.pack(2, 0) + b"{}" + b"more",
        LENGTHS.pack(2, 5) + b"{}",
        LENGTHS.pack(2, 0) + b"[]",
        LENGTHS.pack(3, 0) + b"{nu",
        LENGTHS.pack(13, 0) + b'{"done": [1]}',
        LENGTHS.pack(1 << 31, 1 << 60),
        bytes(Limits().answer + 1),
        LENGTHS.pack(100_000, 0) + b"[" * 100_000,
    ],
)
def test_an_invalid_response_is_reported_and_the_next_response_is_valid(executing_parser, answer):
    shown = answer if len(answer) < 100 else None
    made = repr(shown) if shown is not None else f"bytes({answer[:1]!r} * {len(answer)})"
    if answer.endswith(b"[["):
        made = f"{answer[: LENGTHS.size]!r} + b'[' * 100_000"
    code = (
        f"answer = {made}\n"
        "for fd in range(3, 20):\n"
        " try:\n"
        "  while answer: answer = answer[os.write(fd, answer):]\n"
        "  os._exit(0)\n"
        " except OSError: pass\n"
        "os._exit(0)\n"
    )
    with pytest.raises(UnshowableError):
        executing_parser.parse("array", code.encode(), SIZE)
    assert executing_parser.parse("svg", b"123", SIZE).number("n") == 3


def test_a_job_has_no_access_to_requests_and_responses_of_other_jobs(executing_parser):
    code = (
        "left = []\n"
        "for fd in range(256):\n"
        " try: left.append(os.readlink(f'/proc/self/fd/{fd}'))\n"
        " except OSError: pass\n"
        "answer = {'open': [name for name in left if name != '/dev/null']}, b''\n"
    )
    (only,) = executing_parser.parse("array", code.encode(), SIZE).texts("open")
    assert only.startswith("pipe:")


def test_the_environment_of_the_parser_process_contains_no_keys(broken_parser, monkeypatch):
    monkeypatch.setenv("ODPS_ACCESS_KEY", "s3cret")
    parser = broken_parser(
        "broken.parse = lambda data, options: ({'all': [*os.environ, *os.environ.values()]}, b'')"
    )
    found = parser.parse("array", b"", SIZE).texts("all")
    assert "s3cret" not in found
    assert not [name for name in found if name.startswith("ODPS")]


def test_a_job_cannot_write_files(executing_parser, tmp_path):
    code = (
        f"with open({str(tmp_path / 'x')!r}, 'w') as file: file.write('x' * 9)\nanswer = {{}}, b''"
    )
    with pytest.raises(UnshowableError):
        executing_parser.parse("array", code.encode(), SIZE)
    assert not (tmp_path / "x").exists() or not (tmp_path / "x").stat().st_size


def test_the_error_names_a_missing_library(executing_parser):
    with pytest.raises(MissingDependencyError, match="no_such_thing"):
        executing_parser.parse("array", b"import no_such_thing", SIZE)


def test_a_parser_process_that_does_not_start_is_reported(parser, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(UnshowableError, match="cannot be started"):
        parser.parse("svg", b"", SIZE)


def test_the_parser_process_runs_jobs_itself_if_it_cannot_fork(broken_parser):
    parser = broken_parser(
        "import odps_nb.parsing.process as p; p._FORKS = False\n"
        "broken.parse = lambda data, options: os.abort()"
    )
    for _ in range(2):
        with pytest.raises(ParserStoppedError, match="exit status"):
            parser.parse("array", b"", SIZE)
        assert parser.parse("svg", b"12", SIZE).number("n") == 2


# -- interrupts, threads, forks, the end --------------------------------------------------------


def test_an_interrupted_job_leaves_no_response_for_the_next_job(broken_parser):
    parser = broken_parser(
        "def parse(data, options):\n"
        " os.kill(int(data), signal.SIGINT); time.sleep(3600)\n"
        "broken.parse = parse"
    )
    assert parser.parse("svg", b"1", SIZE).number("n") == 1
    group = parser._process.pid
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            parser.parse("array", str(os.getpid()).encode(), SIZE)
        assert parser.parse("svg", b"123", SIZE).number("n") == 3
    assert not psutil.pid_exists(group)


def test_the_late_response_to_an_abandoned_request_is_dropped(parser):
    """A second interrupt may arrive while the first one is handled."""
    picture = {**SIZE, "mime": "image/png"}
    parser.parse("picture", png(), picture)
    text = json.dumps(
        {"parser": "archive", "options": {}, "limits": asdict(Limits(seconds=1))}
    ).encode()
    parser._process.stdin.write(LENGTHS.pack(len(text), 0) + text)
    parser._process.stdin.flush()
    parser._asking = True
    assert parser.parse("picture", png(), picture).texts("facts") == ("8 × 6",)


def test_each_thread_gets_its_own_responses(executing_parser):
    wrong = []

    def ask(start):
        for length in range(start, start + 20):
            if executing_parser.parse("svg", bytes(length), SIZE).number("n") != length:
                wrong.append(length)

    threads = [threading.Thread(target=ask, args=(n * 100,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def run_script(code):
    command = [sys.executable, "-c", f"from odps_nb.formats import parsing\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


ASK = "parsing.parse('code', b'x = 1', GRID, language='python').rows('rows')"


def test_a_forked_process_starts_its_own_parser():
    done = run_script(
        "import os\nfrom odps_nb.formats.shared import GRID\n"
        "parsing._parser = parsing.Parser(idle_seconds=600)\n"  # also if the child is slow
        "os.register_at_fork(after_in_child=parsing._parser.forget)\n"
        f"first = {ASK}\nmine = parsing._parser._process.pid\n"
        "child = os.fork()\n"
        "if not child:\n"
        f" same = {ASK} == first and parsing._parser._process.pid != mine\n"
        " parsing._parser.close()\n"
        " os._exit(0 if same else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        f"assert {ASK} == first\nassert parsing._parser._process.pid == mine\nprint('right')"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("right\n", "", 0)


@pytest.mark.parametrize("end", ["", "import os; os.kill(os.getpid(), 9)"])
def test_the_parser_process_ends_with_the_kernel(end):
    done = run_script(
        "from odps_nb.formats.shared import GRID\n"
        f"{ASK}\nprint(parsing._parser._process.pid, flush=True)\n{end}"
    )
    with_pid = int(done.stdout)
    try:
        psutil.Process(with_pid).wait(timeout=30)
    except psutil.NoSuchProcess:
        return


def test_a_parser_can_be_closed_twice_and_used_again(parser):
    parser.close()
    options = {**SIZE, "mime": "image/png"}
    parser.parse("picture", png(), options)
    parser.close()
    parser.close()
    assert repr(parser) == "<Parser not started>"
    parser.parse("picture", png(), options)
    assert repr(parser) == "<Parser running>"


def test_an_idle_parser_process_ends_and_is_restarted():
    options, parser = {**SIZE, "mime": "image/png"}, Parser(idle_seconds=0.05)
    pids = []
    for _ in range(2):
        parser.parse("picture", png(), options)
        process, resting = parser._process, parser._resting.timer
        pids += [process.pid] if process else []  # the process may already have ended
        resting.join()
        assert repr(parser) == "<Parser not started>"
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_job_may_take_longer_than_the_idle_limit(broken_parser):
    parser = broken_parser(
        "broken.parse = lambda data, options: (time.sleep(1), fine.parse(data, options))[1]"
    )
    parser._resting.seconds = 0.05
    parser.parse("svg", b"1", SIZE)
    for length in range(1, 3):
        assert parser.parse("array", bytes(length), SIZE).number("n") == length


def test_importing_the_notebook_package_starts_no_process():
    done = run_script("print(parsing._parser._process)")
    assert done.stdout == "None\n"


def test_the_kernel_never_imports_a_parser(sample_blobs, tmp_path):
    """Every preview uses the parser process."""
    for number, blob in enumerate(sample_blobs):
        if blob is not None:
            (tmp_path / f"{number:02}").write_bytes(blob.data)
    done = run_script(
        "import io, sys\nfrom pathlib import Path\n"
        "from odps_nb.notebook.gallery.view import Gallery\n"
        "from odps_nb.notebook.preview import tile as preview\n"
        "class File(io.BytesIO): verified = True\n"
        "class Value:\n"
        " mime_type = file_name = ''\n"
        " def __init__(self, data): self.data, self.size = data, len(data)\n"
        " def open(self): return File(self.data)\n"
        "class Column(list):\n    title = 't.c'\n    def caption(self, index): return 'blob'\n"
        "    def _inspected(self, places, token): yield from (self[place] for place in places)\n"
        f"files = sorted(Path({str(tmp_path)!r}).iterdir())\n"
        "blobs = Column(Value(file.read_bytes()) for file in files)\n"
        "Gallery(blobs)._static_page()\n"
        "html = ''.join(preview.mimebundle(blob, render=True)['text/html'] for blob in blobs)\n"
        "assert html.count('<img') > 15 and html.count('<table') > 5\n"
        "parsers = 'PIL nh3 tarfile numpy pyarrow pandas zstandard pyexpat fastavro'\n"
        "print([name for name in parsers.split() if name in sys.modules])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


# -- displayed tiles -------------------------------------------------------------------------


def test_a_gallery_shows_the_other_blobs_beside_a_malicious_blob():
    bad = bytearray(aborting_parquet())
    bad[128] ^= 2
    blobs = Column([value(png(), "a.png"), value(bytes(bad), "b.parquet"), value(png(), "c.png")])
    page = mimebundle(blobs)
    assert page["text/html"].count("data:image/png") == 2
    assert "a.png" in page["text/plain"]
    assert "b.parquet" in page["text/plain"]


def test_the_response_of_a_parser_is_checked_before_use():
    parsed = Parsed(found={"n": "1", "list": ["a", 1], "rows": [["a"], "b"]}, data=b"secret")
    for read in (
        lambda: parsed.number("n"),
        lambda: parsed.text("list"),
        lambda: parsed.texts("list"),
        lambda: parsed.rows("rows"),
        lambda: parsed.text("none"),
    ):
        with pytest.raises(ParserStoppedError):
            read()
    assert "secret" not in repr(parsed)


def test_a_response_that_is_not_a_picture_is_not_shown(monkeypatch):
    answer = Parsed(found={"facts": ["<b>"]}, data=b"<svg xmlns='http://www.w3.org/2000/svg'/>")
    monkeypatch.setattr("odps_nb.formats.kinds.image.parse", lambda *a, **k: answer)
    made = tile(value(png()), size=GRID)
    assert "<img" not in made.html
    assert "the parser returned no picture" in made.html


def test_malicious_responses_of_a_parser_are_harmless(monkeypatch):
    """The text of a response is escaped and truncated, and its types are checked."""
    fields = {"facts": [NASTY], "heading": [NASTY], "head": [NASTY], "rows": [[NASTY]], "lines": []}

    def tile_of_response(**found):
        answer = Parsed(found={**fields, "note": NASTY, **found}, data=b"")
        monkeypatch.setattr("odps_nb.formats.parsing.parse", lambda *a, **k: answer)
        return tile(value(b"SQLite format 3\0"), size=GRID)

    assert {"script", "img"}.isdisjoint(Seen(tile_of_response().html).tags)
    assert tile_of_response().html.count("alert(2)") >= 4
    for wrong in ({name: [1]} for name in fields if name != "lines"):
        assert "(invalid answer)" in tile_of_response(**wrong).notes[0], wrong
    assert "(invalid answer)" in tile_of_response(head=[], lines=[1]).notes[0]
    for much in ({"rows": [["x" * 99]] * 6_000}, {"facts": ["x" * 99] * 10_000}):
        assert "too large to show" in tile_of_response(**much).notes[0]


def test_the_parser_process_imports_only_parsers():
    """Malicious bytes have access to little code, and a fork stays small."""
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import importlib, sys\n"
            "from odps_nb.parsing import process\n"
            "import pkgutil\n"
            "from odps_nb.formats import parsers\n"
            "for each in pkgutil.iter_modules(parsers.__path__): process._parser(each.name)\n"
            "loaded = {n.removeprefix('odps_nb.') for n in sys.modules if 'odps_nb.' in n}\n"
            "ours = 'formats.parsers.'\n"
            "print(*sorted(name for name in loaded if not name.startswith(ours)))",
        ],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    assert done.stdout.split() == [
        *(
            "arrow",
            "arrow.leaves",
            "child_process",
            "convert",
            "convert.pictures",
            "convert.unreadable",
            "convert.workbook",
            "errors",
            "formats",
            "formats.parsers",
            "formats.shared",
        ),
        *("parsing", "parsing.encodings", "parsing.lengths", "parsing.process"),
        *("parsing.reasons", "parsing.values", "schema", "terms"),
    ]


def test_a_parser_can_be_added_with_one_file(tmp_path, monkeypatch):
    code = "def parse(data, options): return {'n': len(data)}, data[:2]"
    (tmp_path / "model.py").write_text(code, encoding="utf-8")
    boot = (
        "import sys; sys.path[:] = sys.argv[1:]\n"
        "from odps_nb.formats import parsers\n"
        f"parsers.__path__.append({str(tmp_path)!r})\n"
        "from odps_nb.parsing.process import main\nmain()"
    )
    monkeypatch.setattr(client, "_BOOT", boot)
    parser = Parser()
    try:
        parsed = parser.parse("model", b"glTF", SIZE)
        assert (parsed.number("n"), parsed.data) == (4, b"gl")
        assert parser.parse("svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", SIZE)
    finally:
        parser.close()


def test_pictures_of_any_format_in_a_page_are_counted():
    for name in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"):
        data = encode(Image.new("RGB", (8, 6), 1), name)
        assert picture.pixels(data) == 48
    for data in (b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"\x00\x00\x01\x00", b""):
        with pytest.raises(OSError, match="cannot identify"):
            picture.pixels(data)
