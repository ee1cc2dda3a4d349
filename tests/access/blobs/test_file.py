"""A blob as a seekable file: use by libraries, number of fetched bytes, and the cache on disk."""

import io
import os
import random
import threading
import zipfile
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

import odps_nb
from odps_nb.client.blob.file import BlobFile
from odps_nb.errors import (
    ConfigError,
    ConversionError,
    LimitExceededError,
    NotFoundError,
    StateError,
)
from tests.support.sockets.relays import Metered

pytestmark = pytest.mark.storage_api("blobs")

MIB = 1 << 20
LARGE = 12 * MIB


def connect_again(profile, **changes):
    """Open another connection to the same account."""
    names = ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key")
    said = {name: getattr(profile, name) for name in names}
    return odps_nb.connect(**{**said, **changes})


@pytest.fixture(scope="module")
def content() -> bytes:
    return random.Random(14).randbytes(LARGE)


@pytest.fixture(scope="module")
def blobs(odps, content):
    """A large blob, a small one, and an empty one."""
    table = odps.create_table(f"files_{os.getpid()}", "id bigint, data blob")
    table.write(pd.DataFrame({"id": range(3), "data": [content, b"small", b""]}), progress=False)
    yield list(table.blobs("data", progress=False))
    odps.drop_table(table.name)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache folder for connections that are opened later."""
    monkeypatch.setenv("ODPS_NB_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "blobs"


@pytest.fixture
def counted(watched, recorder):
    """Blobs over a recorded connection, and the number of requests for them."""

    class BlobReads:
        connection = watched

        def blob(self, blob):
            return watched.blob(blob.reference)

        def reads(self) -> int:
            return sum(one.action == "BlobRead" for one in recorder.take())

    return BlobReads()


@pytest.mark.nightly
def test_a_blob_can_be_read_at_any_offset_like_a_file(odps, blobs, content):
    drawn, at = random.Random(3), 0
    with blobs[0].open(seek=True, cache=False) as file, io.BytesIO(content) as real:
        for _ in range(300):
            whence = drawn.choice([0, 0, 1, 2])
            far = drawn.randrange(at + MIB) if drawn.random() < 0.8 else drawn.randrange(LARGE)
            place = {0: far, 1: far - real.tell(), 2: far - LARGE}[whence]
            assert file.seek(place, whence) == real.seek(place, whence)
            size = drawn.choice([0, 1, 100, 70_000, 300_000])
            assert file.read(size) == real.read(size)
            assert file.tell() == real.tell()
            at = max(at, file.tell())
        assert file.read() == real.read()
        assert (file.size, file.verified, file.fetched) == (LARGE, True, LARGE)
        buffer = bytearray(10)
        assert (file.seek(LARGE + 5), file.read(1), file.readinto(buffer)) == (LARGE + 5, b"", 0)
        file.seek(-4, 2)
        assert (file.peek(2), file.readinto(buffer), bytes(buffer[:4])) == (
            content[-4:-2],
            4,
            content[-4:],
        )
        with pytest.raises(ValueError, match="must not be negative"):
            file.seek(-1)


def test_small_and_empty_blobs_can_be_opened_as_files(blobs):
    with blobs[1].open(seek=True, cache=False) as file:
        assert (file.read(2), file.verified, file.read(), file.seek(0)) == (b"sm", True, b"all", 0)
        assert (file.read1(), file.readable(), file.seekable()) == (b"small", True, True)
        assert "5 B" in repr(file)
    with blobs[2].open(seek=True, cache=False) as file:
        assert (file.size, file.seek(0, 2), file.read(), file.verified) == (0, 0, b"", True)
    with pytest.raises(StateError, match="closed"):
        file.read(1)
    file.close()


def test_a_long_read_removes_the_limit_of_the_receive_buffer(blobs, monkeypatch):
    freed, lift = [], BlobFile.receive_freely

    def record_and_free(stream):
        freed.append(file.fetched)
        lift(stream)

    monkeypatch.setattr(BlobFile, "receive_freely", record_and_free)
    with blobs[0].open(seek=True, cache=False) as file:
        for _ in range(10):
            file.read(MIB)
    assert 8 * MIB <= min(freed) < 9 * MIB


def test_a_temporary_file_for_large_blobs_has_no_name(blobs, content, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with blobs[0].open(seek=True, cache=False) as file:
        file.read(4 * MIB)
        assert isinstance(file._kept._file, io.BytesIO)
        file.read(4 * MIB)
        assert isinstance(file._kept._file, io.FileIO)
        assert list(tmp_path.iterdir()) == []
        assert (file.seek(MIB), file.read(100)) == (MIB, content[MIB : MIB + 100])


def test_a_missing_temporary_folder_is_reported_and_loses_no_bytes(blobs, content, monkeypatch):
    with blobs[0].open(seek=True, cache=False) as file:
        with monkeypatch.context() as patch:
            patch.setattr("tempfile.tempdir", "/nowhere/at/all")
            with pytest.raises(ConfigError, match="temporary file") as caught:
                file.read()
            assert "TMPDIR" in caught.value.hint
        assert file.read() == content


def test_an_interrupt_between_two_pieces_loses_no_bytes(blobs, content, monkeypatch):
    with blobs[0].open(seek=True, cache=False) as file:
        assert file.read(1000) == content[:1000]
        append, left = file._kept.append, [3]

        def interrupted(piece):
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            append(piece)

        monkeypatch.setattr(file._kept, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            file.read()
        assert file.tell() == 1000
        assert file.read() == content[1000:]
        assert file.verified


def test_threads_share_a_file(blobs, content):
    found = {}
    with blobs[0].open(seek=True, cache=False) as file:

        def read_at(number):
            with file._lock:
                file.seek(number * MIB)
                found[number] = file.read(1000)

        threads = [threading.Thread(target=read_at, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {n: content[n * MIB : n * MIB + 1000] for n in range(8)}


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # raised by Python 3.12
def test_the_error_in_a_forked_child_says_to_open_a_new_file(blobs, content):
    with blobs[0].open(seek=True, cache=False) as file:
        file.read(9 * MIB)
        child = os.fork()
        if not child:
            try:
                file.seek(0)
            except StateError as error:
                file.close()
                os._exit(7 if "in the child" in error.hint else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert file.read() == content[9 * MIB :]


def test_libraries_read_a_blob_file(odps):
    media = odps.table("media")
    found = {blob.file_name: blob for blob in media.blobs("content", progress=False)}
    with found["bundle.zip"].open(seek=True) as file, zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
    with found["mountains.jpg"].open(seek=True) as file, Image.open(file) as picture:
        picture.load()
    with found["weather.parquet"].open(seek=True) as file:
        assert pq.read_table(file).num_rows == found["weather.parquet"].to_table().num_rows > 0
    with found["cities.csv"].open(seek=True) as file:
        assert pd.read_csv(file).shape[0] == found["cities.csv"].to_table().num_rows
    with found["cities.csv"].open(seek=True) as file, io.TextIOWrapper(file, "utf-8") as lines:
        assert "".join(lines) == found["cities.csv"].to_text()
    with found["weights.npy"].open(seek=True) as file:
        assert np.array_equal(np.load(file), found["weights.npy"].to_numpy())


def test_the_media_type_declared_by_the_uploader_is_ignored(odps):
    named = odps.table("media").blobs("content", where="name = 'not_a_picture.png'")[0]
    assert named.mime_type == "image/png"
    with pytest.raises(ConversionError, match="not a picture: its content is text/html"):
        named.to_pil()
    photo = odps.table("media").blobs("content", where="name = 'mountains.jpg'")[0]
    assert photo.to_pil().size == photo.to_numpy().shape[1::-1]
    assert photo.verified
    for limited in ({"max_pixels": 100}, {"max_bytes": 100}):
        with pytest.raises(LimitExceededError) as caught:
            photo.to_pil(**limited)
        assert next(iter(limited)) in caught.value.hint


# -- fetched bytes ------------------------------------------------------------------------------


@pytest.mark.gate(1)
@pytest.mark.parametrize("head", [100, 3 * MIB])
def test_reading_first_bytes_fetches_at_most_one_mebibyte_more(odps, blobs, content, cache, head):
    """Bytes that the client has not read from the socket are counted, too."""
    parts = urlsplit(odps.profile.tunnel_endpoint)
    with (
        Metered((parts.hostname, parts.port)) as meter,
        connect_again(odps.profile, tunnel_endpoint=meter.url) as connection,
    ):
        connection.blob(blobs[0].reference).bytes()  # may use a large receive buffer
        before = meter.carried
        with connection.blob(blobs[0].reference).open(seek=True) as file:
            assert file.read(head) == content[:head]
            assert meter.stalled.wait(60)
            assert meter.carried - before <= head + MIB
        before = meter.carried
        assert connection.blob(blobs[0].reference).bytes() == content
    assert meter.carried - before > LARGE  # counted after the meter has stopped


def test_getting_the_size_of_a_large_blob_takes_one_small_request(blobs, counted, cache):
    blob = counted.blob(blobs[0])
    with blob.open(seek=True) as file:
        assert (file.seek(0, 2), file.fetched) == (LARGE, 0)
        file.seek(0)
        file.read(10)
    assert counted.reads() <= 2
    with pytest.raises(NotFoundError):
        counted.connection.blob("/wByZWYw").open(seek=True)


# -- the cache ---------------------------------------------------------------------------------


def test_a_second_open_sends_no_request(blobs, content, counted, cache):
    with counted.blob(blobs[0]).open(seek=True) as file:
        assert file.read() == content
    assert counted.reads() == 1
    with counted.blob(blobs[0]).open(seek=True) as file:
        assert (file.verified, file.size) == (True, LARGE)
        assert (file.seek(-5, 2), file.read()) == (LARGE - 5, content[-5:])
    assert counted.blob(blobs[1]).to_text() == counted.blob(blobs[1]).to_text() == "small"
    assert counted.reads() == 1
    with pytest.raises(LimitExceededError):  # the limit also applies to a cached blob
        counted.blob(blobs[1]).to_text(max_bytes=4)
    with pytest.raises(LimitExceededError):
        counted.blob(blobs[0]).to_text(max_bytes=MIB)
    assert counted.reads() == 0
    assert counted.connection.blob_cache.folder == cache
    assert counted.connection.blob_cache.clear() > LARGE
    with counted.blob(blobs[0]).open(seek=True) as file:
        file.read(10)
    assert counted.reads() == 1
    assert list(cache.iterdir()) == []  # a partially read blob is not cached


def test_a_disabled_cache_is_not_used(odps, blobs, cache):
    with connect_again(odps.profile) as fresh:
        blob = fresh.blob(blobs[1].reference)
        with blob.open(seek=True, cache=False) as file, blob.open() as stream:
            assert file.read() == stream.read() == blob.bytes() == b"small"
    with connect_again(odps.profile, blob_cache="off") as off:
        assert off.blob_cache is None
        assert off.blob(blobs[1].reference).to_text() == "small"
    assert not cache.exists()
    with pytest.raises(ConfigError, match="it must be a size or 'off'"):
        connect_again(odps.profile, blob_cache="much")


def test_the_cache_distinguishes_projects_and_services(odps, blobs, cache):
    key = {odps.blob_cache._key(blobs[1].reference)}
    with connect_again(odps.profile, project="other") as other:
        key.add(other.blob_cache._key(blobs[1].reference))
    with connect_again(odps.profile, endpoint="http://127.0.0.1:1/api") as other:
        key.add(other.blob_cache._key(blobs[1].reference))
    assert len(key) == 3


def test_a_blob_is_fetched_again_if_its_cached_file_is_damaged(blobs, content, counted, cache):
    counted.blob(blobs[1]).to_text()
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    counted.reads()
    for damaged in (whole[:-1], b"X" + whole[1:], whole[:-60] + whole[-59:], b"", whole[:20]):
        kept.write_bytes(damaged)
        assert counted.blob(blobs[1]).to_text() == "small"
        assert counted.reads() == 1
        assert kept.read_bytes() == whole
