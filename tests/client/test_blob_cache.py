"""The folder of verified blobs: bounded, private, shared by processes, and correct."""

import os
import random
import resource
import shutil
import signal
import stat
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from odps_nb.client import blob_cache
from odps_nb.client.auth.profile import Profile
from odps_nb.client.blob_cache import DEFAULT_LIMIT, BlobCache, cache_limit, open_cache
from odps_nb.errors import ConfigError
from odps_nb.terms import BlobReference

SERVICE = ("https://here/api", "project")


def reference(number: int) -> BlobReference:
    return BlobReference.from_raw(b"blob %d" % number)


def content(number: int, size: int = 1000) -> bytes:
    return random.Random(number).randbytes(size)


def keep(cache: BlobCache, number: int, size: int = 1000) -> bool:
    return cache.keep(reference(number), size, [content(number, size)])


def cached(cache: BlobCache, number: int) -> bytes | None:
    blob = cache.find(reference(number))
    if blob is None:
        return None
    try:
        data = bytearray(blob.size)
        assert blob.read_at(0, memoryview(data)) == blob.size
        return bytes(data)
    finally:
        blob.close()


@pytest.fixture
def cache(tmp_path):
    return BlobCache(tmp_path / "deep" / "blobs", SERVICE, limit=100_000)


def test_a_cached_blob_is_returned(cache):
    assert cached(cache, 1) is None
    assert keep(cache, 1)
    assert cache.keep(reference(2), 4, [b"ab", b"", b"cd"])
    assert cache.keep(reference(3), 0, [])
    assert (cached(cache, 1), cached(cache, 2), cached(cache, 3)) == (content(1), b"abcd", b"")
    assert str(cache.folder) in repr(cache)
    assert cache.size == 1004 + 3 * 56


def test_the_folder_and_its_files_are_private(cache):
    before = os.umask(0o000)
    try:
        keep(cache, 1)
    finally:
        os.umask(before)
    (path,) = cache.folder.iterdir()
    assert stat.S_IMODE(cache.folder.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert reference(1).token not in path.name
    cache.folder.chmod(0o755)  # other users could read it
    assert cached(cache, 1) == content(1)
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700


def test_a_symbolic_link_as_the_cache_folder_is_refused(cache, caplog, tmp_path):
    """Attack 6: another user creates the folder before the cache does."""
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    cache.folder.parent.mkdir(parents=True, exist_ok=True)
    cache.folder.symlink_to(theirs)
    assert not keep(cache, 1)
    assert (list(theirs.iterdir()), stat.S_IMODE(theirs.stat().st_mode)) == ([], 0o755)
    assert any("it is a link" in one for one in caplog.messages)


def test_a_folder_is_refused_if_other_users_can_write_to_it(cache, caplog):
    keep(cache, 1)
    cache.folder.chmod(0o777)
    assert cached(cache, 1) is None
    assert not keep(cache, 2)
    assert any("another user owns it or can write" in one for one in caplog.messages)


def test_the_least_recently_used_entries_are_removed_first(tmp_path):
    cache = BlobCache(tmp_path, SERVICE, limit=16_000)
    for number in range(12):
        keep(cache, number)
        os.utime(cache._path(cache._key(reference(number))), (number, number))
    assert cached(cache, 0) == content(0)  # used just now
    for number in range(12, 20):
        keep(cache, number)
        assert cache.size <= 16_000 + 16_000 // 16 + 1056
    assert cached(cache, 0) == content(0)
    assert cached(cache, 19) == content(19)
    assert cached(cache, 1) is None
    assert not keep(cache, 30, 5000)  # more than a quarter of the limit


def test_a_new_process_counts_the_existing_files(tmp_path):
    keep(BlobCache(tmp_path, SERVICE, limit=100_000), 1, 20_000)
    keep(BlobCache(tmp_path, SERVICE, limit=16_000), 2)
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [1056]


def test_every_flipped_bit_and_truncation_is_detected(tmp_path):
    cache = BlobCache(tmp_path, SERVICE, limit=100_000)
    keep(cache, 1, 40)
    path = cache._path(cache._key(reference(1)))
    whole = path.read_bytes()
    for at in range(len(whole) * 8):
        bad = bytearray(whole)
        bad[at // 8] ^= 1 << at % 8
        path.write_bytes(bad)
        assert cached(cache, 1) is None
        assert not path.exists()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert cached(cache, 1) is None
    path.write_bytes(whole + b"\0")
    assert cached(cache, 1) is None


def test_a_cached_file_under_the_name_of_another_is_not_returned(cache):
    keep(cache, 1)
    keep(cache, 2)
    one, two = (cache._path(cache._key(reference(n))) for n in (1, 2))
    one.replace(two)
    assert cached(cache, 2) is None
    two.symlink_to(__file__)
    assert cached(cache, 2) is None


def test_disk_errors_are_not_raised(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    cache = BlobCache(tmp_path / "file" / "blobs", SERVICE, limit=100_000)
    assert not keep(cache, 1)
    assert cached(cache, 1) is None
    assert cache.clear() == cache.size == 0


def test_a_blob_is_not_cached_if_the_disk_would_be_nearly_full(cache, monkeypatch):
    keep(cache, 1)
    monkeypatch.setattr(blob_cache, "SPARE", shutil.disk_usage(cache.folder).total)
    assert not keep(cache, 2)
    assert (cached(cache, 1), cached(cache, 2)) == (content(1), None)


def test_a_full_disk_leaves_no_partial_file(cache):
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))  # longer files cannot be written
    try:
        assert not keep(cache, 1, 20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(cache.folder.iterdir()) == []
    assert keep(cache, 1, 20_000)


def test_an_error_while_a_blob_arrives_leaves_no_file(cache):
    def broken():
        yield b"some"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.keep(reference(1), 10, broken())
    assert list(cache.folder.iterdir()) == []


def test_files_of_a_killed_process_are_removed_after_an_hour(cache):
    keep(cache, 1)
    left = cache.folder / f"{'0' * 64}.abc.part"
    fresh = cache.folder / f"{'1' * 64}.abc.part"
    foreign = cache.folder / "README"
    for path in (left, fresh, foreign):
        path.write_bytes(b"x")
    os.utime(left, (1, 1))
    keep(BlobCache(cache.folder, SERVICE, limit=100_000), 2)
    assert not left.exists()
    assert fresh.exists()
    assert cache.clear() == 2 * 1056 + 1
    assert list(cache.folder.iterdir()) == [foreign]


def test_an_open_blob_can_be_read_after_its_file_was_deleted(cache):
    keep(cache, 1)
    blob = cache.find(reference(1))
    cache.clear()
    data = bytearray(1000)
    assert blob.read_at(0, memoryview(data)) == 1000
    assert data == content(1)
    blob.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # raised by Python 3.12
def test_processes_and_threads_never_see_a_partial_file(tmp_path):
    """Children that store, find and clear the same few blobs at once; each reports its results."""

    def work(seed: int) -> bool:
        cache, drawn = BlobCache(tmp_path, SERVICE, limit=60_000), random.Random(seed)
        for _ in range(150):
            number = drawn.randrange(8)
            if drawn.random() < 0.4:
                keep(cache, number, 9000)
            elif drawn.random() < 0.02:
                cache.clear()
            elif cached(cache, number) not in (None, content(number, 9000)):
                return False
        return True

    children = []
    for seed in range(3):
        child = os.fork()
        if not child:
            os._exit(0 if work(seed) else 1)
        children.append(child)
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, [11, 12]))
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 3
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_settings_determine_size_and_folder(tmp_path, monkeypatch):
    account = {"endpoint": "https://here/api", "project": "p", "access_id": "a", "access_key": "k"}
    sizes = {"0.5 kB": 500, "1kib": 1024, "20 GB": 20 * 10**9, " OFF ": 0, "0": 0, "7": 7}
    assert {text: cache_limit(text) for text in sizes} == sizes
    for wrong in ("much", "-1", "1 XB", "1e9", "nan"):
        with pytest.raises(ConfigError, match="blob_cache"):
            Profile(**account, blob_cache=wrong)
    assert open_cache(Profile(**account, blob_cache="off")) is None
    monkeypatch.setenv("ODPS_NB_CACHE_DIR", str(tmp_path))
    opened = open_cache(Profile(**account))
    assert (opened.folder, opened.limit) == (tmp_path / "blobs", DEFAULT_LIMIT)
    environ = {f"ODPS_{key.upper()}": value for key, value in account.items()}
    resolved = Profile.resolve(environ={**environ, "ODPS_BLOB_CACHE": "1 MB"})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ODPS_NB_CACHE_DIR", "~/cached")
    assert open_cache(resolved).folder == tmp_path / "cached" / "blobs"
    monkeypatch.delenv("ODPS_NB_CACHE_DIR")
    assert open_cache(resolved).limit == 10**6
    if sys.platform == "linux":
        assert open_cache(resolved).folder.parts[-2:] == ("odps_nb", "blobs")
