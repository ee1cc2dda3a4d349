"""Many blobs are saved to a folder or yielded as files: in order, once each, and complete."""

from __future__ import annotations

import contextlib
import shutil

import numpy as np
import pandas as pd
import pytest

import odps_nb
import odps_nb.convert.blob_columns.blob_series  # registers ``series.odps``
from odps_nb.access import saving
from odps_nb.access.blobs.many import Fetch, References, save_blobs, stream_blobs
from odps_nb.client.calls.progress import Phase
from odps_nb.errors import (
    ArgumentError,
    CancelledError,
    ChecksumError,
    ConfigError,
    NotFoundError,
)
from odps_nb.http.retry import RetryPolicy
from tests.support.interrupting import interrupt
from tests.support.sockets.blob_answers import (
    asked,
    asked_refs,
    body_of,
    content,
    cut_at,
    flip_at,
    reference,
    serve,
)
from tests.support.sockets.scripted import Service
from tests.support.threads import running
from tests.support.watcher import Watcher

pytestmark = pytest.mark.storage_api("blobs")

HOSTILE = [
    "../../outside.txt",
    "/etc/passwd",
    "..\\..\\outside.txt",
    "CON",
    "com¹.txt",
    "a\x00b.txt",
    "x" * 300 + ".txt",
    "ü" * 300,
    ".hidden",
    "...",
    "",
    "same.txt",
    "same.txt",
    "SAME.TXT",
    "same-2.txt",
    "caf\u00e9.txt",
    "cafe\u0301.txt",
    "gpj\u202egnp.exe",
]


@pytest.fixture
def hostile(odps, new_name):
    """A column of blobs with malicious file names; the content of a blob is its number."""
    table = odps.create_table(new_name("hostile"), "id bigint, data blob")
    blobs = [
        odps_nb.NewBlob(str(n).encode(), mime_type="text/plain", file_name=name)
        for n, name in enumerate(HOSTILE)
    ]
    table.write(pd.DataFrame({"id": range(len(blobs)), "data": blobs}))
    return table.read().to_pandas().sort_values("id")["data"].tolist()


@pytest.fixture
def media(odps):
    return odps.table("media").read(["content"]).to_arrow()["content"]


@contextlib.contextmanager
def scripted(*steps, attempts=3, **facts):
    """Yield a fetch of numbered blobs from a server that follows the given steps."""
    facts = {"retry": RetryPolicy(max_attempts=attempts, spread=0.0), **facts}
    with Service(ReadBlobs=list(steps) or [serve]) as service, service.client(**facts) as storage:
        yield Fetch(storage=storage, progress=False), service


def save(fetch, numbers, folder, **options):
    references = References([None if n is None else reference(n).token for n in numbers])
    return save_blobs(fetch, references, folder, **options)


# -- a folder ----------------------------------------------------------------------------------


def test_paths_are_in_the_order_of_the_references_and_a_null_has_none(odps, media, tmp_path):
    values = media.drop_null().to_pylist()
    column = pd.Series([values[1], None, values[0], np.nan, values[1], pd.NA], dtype=object)
    seen = Watcher()
    paths = column.odps.save(tmp_path, connection=odps, progress=seen)
    assert [path is None for path in paths] == [False, True, False, True, False, True]
    assert paths[0] == paths[4]
    for value, path in zip(column, paths, strict=True):
        if path is not None:
            assert path.read_bytes() == odps.blob(value).bytes()
            assert path.name == odps.blob(value).file_name
    assert sorted(tmp_path.iterdir()) == sorted({paths[0], paths[2]})
    assert (seen.last.phase, seen.last.items, seen.last.items_total) == (Phase.DONE, 2, 2)


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_references_may_be_a_pandas_or_arrow_column_or_a_gallery(
    odps, media, tmp_path, compression
):
    for n, given in enumerate(
        [media, media.combine_chunks(), media.to_pandas(), odps.table("media").blobs("content")]
    ):
        folder = tmp_path / f"{compression}{n}"
        folder.mkdir()
        paths = odps.blobs(given).save(str(folder), compression=compression)
        assert len(paths) == len(media.drop_null())
        assert len(list(folder.iterdir())) == len(set(paths))
    column = odps.blobs(media.drop_null()[:3])
    assert repr(column) == "BlobColumn(3 blobs of blobs)"
    assert len(list(column.fetch())) == 3
    assert len(list(odps.blobs(odps.table("media").blobs("content", limit=2)).fetch())) == 2


@pytest.mark.parametrize("given", [[], ["a"]])
def test_wrong_arguments_are_refused_even_for_an_empty_column(odps, tmp_path, given):
    some = odps.table("media").blobs("content", limit=1) if given else given
    column = odps.blobs(some)
    for call in (column.fetch, column.stream):
        with pytest.raises(ArgumentError):
            call(compression="gzip")
    with pytest.raises(ConfigError, match="folder"):
        column.save(tmp_path / "missing" / "folder")
    with pytest.raises(ArgumentError, match="the path is empty"):
        column.save("")
    with pytest.raises(ArgumentError, match="limit"):
        odps.blobs(some, limit=-1)


def test_stored_file_names_are_made_safe(odps, hostile, tmp_path):
    folder = tmp_path / "inner" / "folder"
    folder.mkdir(parents=True)
    paths = odps.blobs(hostile).save(folder)
    assert [path.read_text() for path in paths] == [str(n) for n in range(len(HOSTILE))]
    assert {path.parent for path in paths} == {folder}
    assert len({path.name.casefold() for path in paths}) == len(HOSTILE)
    assert not [path for path in paths if path.name.startswith(".") or len(path.name) > 170]
    assert sorted(tmp_path.rglob("*")) == sorted([tmp_path / "inner", folder, *paths])
    names = [path.name for path in paths]
    assert names[:4] == ["outside.txt", "passwd", "outside-2.txt", "_CON"]
    assert names[4:6] == ["_com¹.txt", "a_b.txt"]
    assert names[11:15] == ["same.txt", "same-2.txt", "SAME-3.TXT", "same-2-2.txt"]


def test_file_names_returned_by_a_function_are_made_safe(odps, hostile, tmp_path):
    seen = []

    def name(index, head):
        seen.append((index, head.size, head.mime_type, head.file_name))
        return {0: f"{index}/{head.file_name}", 1: None, 2: "\x00", 3: "..", 4: "a"}.get(index, "A")

    paths = odps.blobs(hostile[:6]).save(tmp_path, file_name=name)
    assert seen == [(n, 1, "text/plain", HOSTILE[n]) for n in range(6)]
    names = [path.name for path in paths]
    assert names[:3] == ["outside.txt", "passwd", "_"]
    assert names[3].startswith("CON") or names[3].startswith("_CON")
    assert names[4:] == ["a", "A-2"]
    with pytest.raises(ArgumentError, match="returned an int") as caught:
        odps.blobs(hostile).save(tmp_path, file_name=lambda index, head: index)
    assert caught.value.notes[-1] == "blob 0 in the list of references"


def test_existing_files_are_kept_unless_overwrite_is_set(odps, hostile, tmp_path):
    same = [hostile[n] for n in (11, 12, 14)]  # same.txt, same.txt, same-2.txt
    (tmp_path / "same.txt").write_text("old")
    (tmp_path / "same-3.txt").mkdir()
    first = [path.name for path in odps.blobs(same).save(tmp_path)]
    assert first == ["same-2.txt", "same-4.txt", "same-2-2.txt"]
    assert (tmp_path / "same.txt").read_text() == "old"
    again = odps.blobs(same).save(tmp_path, overwrite=True)
    assert [path.name for path in again] == ["same.txt", "same-2.txt", "same-2-2.txt"]
    assert [path.read_text() for path in again] == ["11", "12", "14"]
    assert (tmp_path / "same-3.txt").is_dir()


def test_a_link_in_the_folder_is_not_followed(odps, hostile, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    for overwrite in (False, True):
        folder = tmp_path / f"links-{overwrite}"
        folder.mkdir()
        (folder / "same.txt").symlink_to(outside)
        (folder / "passwd").symlink_to(tmp_path / "missing")
        paths = odps.blobs([hostile[11], hostile[1]]).save(folder, overwrite=overwrite)
        assert [path.read_text() for path in paths] == ["11", "1"]
    assert outside.read_text() == "mine"
    assert not (tmp_path / "missing").exists()


def test_each_number_is_tried_once_for_many_files_of_the_same_name(tmp_path, monkeypatch):
    tried, with_number = [], saving._with_number

    def count_and_try(name: str, number: int) -> str:
        tried.append(number)
        return with_number(name, number)

    monkeypatch.setattr(saving, "_with_number", count_and_try)
    folder = saving.Folder(tmp_path)
    names = [folder.save([b""], "image.jpg").name for _ in range(500)]
    assert names[-1] == "image-500.jpg"
    assert len(set(names)) == len(names)
    assert tried == list(range(1, 501))


def test_a_folder_that_is_not_writable_raises_a_typed_error(odps, media, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is not a folder"):
        odps.blobs(media).save(tmp_path / "file")
    with pytest.raises(ConfigError, match="does not exist") as caught:
        odps.blobs(media).save(tmp_path / "no" / "folder")
    for save in (odps.blobs(media).save, odps.blobs([]).save, odps.blobs(media)[0].save):
        with pytest.raises(ArgumentError, match="~no-such-user/x cannot be found"):
            save("~no-such-user/x")
    assert odps.blobs(media).save(tmp_path / "new")
    assert caught.value.hint == "create it first"
    seen = Watcher()
    with pytest.raises(ConfigError, match="cannot create a file in /proc/self/fdinfo") as caught:
        odps.blobs(media).save("/proc/self/fdinfo", progress=seen)  # not writable, even for root
    assert "may write" in caught.value.hint
    assert seen.last.phase is Phase.FAILED


def test_an_invalid_reference_is_refused_before_a_request(tmp_path):
    with scripted() as (_, service), odps_nb.connect(**keywords(service)) as odps:
        for wrong in (5, "no reference!"):
            with pytest.raises(ArgumentError):
                odps.blobs([reference(1).token, wrong]).save(tmp_path)
        assert odps.blobs([]).save(tmp_path) == []
        assert odps.blobs([None, float("nan")]).save(tmp_path) == []
        assert list(odps.blobs([None]).stream()) == list(odps.blobs([None]).fetch()) == []
        nulls = pd.Series([None, None]).odps
        assert nulls.save(tmp_path, connection=odps).tolist() == [None, None]
        assert service.seen == []
    assert list(tmp_path.iterdir()) == []


def keywords(service):
    return {
        "endpoint": service.url + "/api",
        "tunnel_endpoint": service.url,
        "project": "p",
        "access_id": "me",
        "access_key": "secret-key",
    }


# -- repeated, interrupted and missing blobs ---------------------------------------------------


def test_a_repeated_reference_is_fetched_once(tmp_path):
    numbers = [7, 3, None, 7, 12, 3, 40, 7]
    with scripted() as (fetch, service):
        paths = save(fetch, numbers, tmp_path)
    assert sorted(n for refs in asked_refs(service) for n in refs) == [3, 7, 12, 40]
    for n, path in zip(numbers, paths, strict=True):
        assert path is None if n is None else path.read_bytes() == content(n)
    assert [path.name for path in paths if path][:2] == ["7.txt", "3.txt"]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
@pytest.mark.parametrize("trouble", [cut_at, flip_at])
def test_a_fetch_resumes_at_the_blob_whose_response_was_truncated(tmp_path, trouble, share):
    with scripted(trouble(share), serve) as (fetch, service):
        paths = save(fetch, range(40), tmp_path)
    assert [path.read_bytes() for path in paths] == [content(n) for n in range(40)]
    assert [path.name for path in paths] == [f"{n}.txt" for n in range(40)]
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    lists = [refs for refs in asked_refs(service) if len(set(refs)) > 1]
    assert len({refs[-1] for refs in lists}) <= len(lists)


def test_repeated_damage_leaves_only_complete_files(tmp_path):
    def step(line, seen) -> None:
        bad = reference(15) in asked(seen).references
        (flip_at(0.2) if bad else serve)(line, seen)

    with scripted(step, attempts=7) as (fetch, _), pytest.raises(ChecksumError) as caught:
        save(fetch, range(8, 24), tmp_path)
    assert caught.value.request_id == "req-1"
    assert caught.value.notes[0] == "blob 7 in the list of references"
    assert {path.name for path in tmp_path.iterdir()} == {f"{n}.txt" for n in range(8, 15)}
    for path in tmp_path.iterdir():
        assert path.read_bytes() == content(int(path.stem))


def test_an_unknown_reference_is_reported_with_its_position(tmp_path):
    with scripted() as (fetch, _), pytest.raises(NotFoundError) as caught:
        save(fetch, [3, None, 3, 1234, 5], tmp_path)
    assert "blob 3 in the list of references" in caught.value.notes
    assert [path.name for path in tmp_path.iterdir()] == ["3.txt"]


def send_half(then):
    """Send half of a response, call a function, and wait for the client to disconnect."""

    def step(line, seen) -> None:
        body = body_of([reference(7), reference(15)])
        line.send(line.headline(**{"Content-Length": str(len(body))}) + body[:200_000])
        then()
        assert line.wait_closed()

    return step


@pytest.mark.usefixtures("repeated_interrupts")
def test_an_interrupt_leaves_no_temporary_file(tmp_path):
    with scripted(send_half(interrupt), read_timeout=60.0) as (fetch, _):
        with pytest.raises(KeyboardInterrupt):
            save(fetch, [7, 15], tmp_path)
        assert list(tmp_path.iterdir()) == []


def test_a_cancel_from_another_thread_leaves_no_temporary_file(tmp_path):
    with scripted(send_half(lambda: odps.cancel())) as (_, service):
        with odps_nb.connect(**keywords(service)) as odps:
            shown = Watcher()
            with pytest.raises(CancelledError):
                odps.blobs([reference(7).token, reference(15).token]).save(tmp_path, progress=shown)
            assert shown.last.phase is Phase.CANCELLED
        assert list(tmp_path.iterdir()) == []


# -- files one by one --------------------------------------------------------------------------


def test_files_are_yielded_in_the_order_of_their_first_position(tmp_path):
    numbers = [7, None, 3, 7, 12, 0, 3]
    seen = []
    with scripted() as (fetch, service):
        references = References([n if n is None else reference(n) for n in numbers])
        for blob in stream_blobs(fetch, references):
            seen.append((blob.reference, blob.positions))
            with (tmp_path / f"{blob.positions[0]}").open("wb") as file:
                shutil.copyfileobj(blob, file)
    assert seen == [
        (reference(7), (0, 3)),
        (reference(3), (2, 6)),
        (reference(12), (4,)),
        (reference(0), (5,)),
    ]
    assert (tmp_path / "0").read_bytes() == content(7)
    assert sorted(n for refs in asked_refs(service) for n in refs) == [0, 3, 7, 12]


def test_files_have_the_bytes_of_the_stored_blobs(odps, media):
    found, whole = {}, media.drop_null()
    seen = Watcher()
    for blob in odps.blobs(media).stream(progress=seen):
        found[blob.reference.token] = (blob.read(), blob.mime_type, blob.file_name)
        assert blob.verified
    assert len(found) == len(set(whole.to_pylist()))
    for token in whole.to_pylist():
        blob = odps.blob(token)
        assert found[token] == (blob.bytes(), blob.mime_type, blob.file_name)
    assert seen.last.phase is Phase.DONE
    assert seen.last.items == seen.last.items_total == len(found)


class CallerError(Exception):
    """An error that the caller defines."""


def test_closing_an_iterator_early_closes_its_file_and_threads(odps, media):
    before = {t for t in running() if t.name.startswith("odps_nb")}
    seen = Watcher()
    blobs = odps.blobs(media.drop_null()).stream(progress=seen)
    first = next(blobs)
    blobs.close()
    assert first.closed
    assert {t for t in running() if t.name.startswith("odps_nb")} <= before
    assert (seen.last.phase, seen.last.message) == (Phase.DONE, "stopped early by the caller")


def test_an_error_in_a_name_function_names_the_blob(odps, media, tmp_path):
    raised, told = CallerError("enough"), Watcher()

    def name(index, head) -> None:
        if index >= 2:
            raise raised

    with pytest.raises(CallerError) as caught:
        odps.blobs(media.drop_null()).save(tmp_path, file_name=name, progress=told)
    assert caught.value is raised
    assert raised.__notes__ == ["blob 2 in the list of references"]


def test_damage_is_reported_even_if_the_consumer_catches_all_errors():
    def consume(fetch: Fetch) -> None:
        for blob in stream_blobs(fetch, References([reference(7), reference(15)])):
            with contextlib.suppress(Exception):
                blob.read()

    with scripted(flip_at(0.2)) as (fetch, _), pytest.raises(ChecksumError):
        consume(fetch)


def test_cancelling_between_two_files_ends_the_iteration():
    seen = []

    def consume(fetch: Fetch) -> None:
        for blob in stream_blobs(fetch, References([reference(n) for n in range(40)])):
            seen.append(blob.positions)
            fetch.storage.cancel()

    with scripted() as (fetch, _), pytest.raises(CancelledError):
        consume(fetch)
    assert seen == [(0,)]


def test_cancelling_ends_an_iteration_over_many_batches():
    with scripted() as (_, service), odps_nb.connect(**keywords(service)) as odps:
        records = odps.blobs([reference(n).token for n in range(40)]).fetch()
        assert next(records).data == content(0)
        odps.cancel()
        with pytest.raises(CancelledError):
            list(records)


def test_the_repr_of_a_fetch_shows_no_key():
    with scripted() as (fetch, _):
        assert "secret" not in repr(fetch)
