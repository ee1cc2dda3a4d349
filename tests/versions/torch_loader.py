"""`odps_nb.torch` in a real DataLoader: workers of both kinds, ranks, a killed epoch, recipes.

Run by ``make versions``, not by ``make test``: torch is large. ``tests/access/learning`` tests the
parts that do not need it.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from io import BytesIO
from multiprocessing import resource_tracker, util
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from odps_nb.errors import ArgumentError, StateError
from odps_nb.torch import blobs, loader, rows

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:This DataLoader will create"
    ),  # torch warns on a machine with one core
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),  # torchdata calls it
]
ROWS = 1200
JOB = Path(__file__).with_name("torch_job.py")
PAGE = Path(__file__).parents[2] / "docs" / "learning-from-blobs.md"
SETTINGS = ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key")


@pytest.fixture(scope="module", autouse=True)
def _keys(service) -> Iterator[None]:
    """Provide connection settings for spawned workers; remove what torch leaves behind."""
    with pytest.MonkeyPatch.context() as patch:
        for name in SETTINGS:
            patch.setenv(f"ODPS_{name.upper()}", getattr(service, name))
        yield
    # ends a helper of the workers, which would only end with this process
    util._run_finalizers()
    resource_tracker._resource_tracker._stop()
    for pattern in ("pymp-*", "torchinductor_*"):  # left by killed jobs and by torch
        for left in Path(tempfile.gettempdir()).glob(pattern):
            shutil.rmtree(left)


@pytest.fixture(scope="module")
def table(odps):
    """A table of 1,200 rows."""
    made = odps.create_table("torch_rows", "id bigint, half double, whole boolean, note string")
    numbers = np.arange(ROWS)
    made.write(
        pa.table(
            {
                "id": numbers,
                "half": numbers / 2,
                "whole": numbers % 2 == 0,
                "note": [f"note {n}" for n in numbers],
            }
        )
    )
    yield made
    odps.drop_table(made.name)


def made(table, **options):
    return rows(table, **{"seed": 3, "chunk_rows": 50, "buffer_rows": 300, **options})


def ids(batches) -> list[int]:
    return [one for batch in batches for one in batch["id"].tolist()]


# -- each row once ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_two_ranks_of_two_workers_have_each_row_once_in_the_order_of_the_seed(table, how):
    options = {"batch_size": 32, "num_workers": 2, "multiprocessing_context": how}
    parts = []
    for rank in range(2):
        found = loader(made(table, rank=rank, world_size=2, even=True), **options)
        parts.append(ids(found))
        assert len(found) == 2 * 10
    assert [len(part) for part in parts] == [ROWS // 2] * 2
    assert sorted(itertools.chain(*parts)) == list(range(ROWS))
    again = loader(made(table, rank=1, world_size=2, even=True), **options)
    assert ids(again) == parts[1]


def test_epochs_differ_and_each_batch_of_a_worker_keeps_the_values_of_its_rows(table):
    found = loader(made(table), batch_size=32, num_workers=2)
    first = list(found)
    assert all((batch["half"] * 2 == batch["id"]).all() for batch in first)
    assert [batch["whole"].dtype for batch in first[:1]] == [torch.bool]
    assert first[0]["note"] == [f"note {n}" for n in first[0]["id"].tolist()]
    found.set_epoch(1)
    second = ids(found)
    assert sorted(second) == sorted(ids(first)) == list(range(ROWS))
    assert second != ids(first)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_length_is_the_number_of_batches(table, workers, drop_last):
    found = loader(made(table), batch_size=33, num_workers=workers, drop_last=drop_last)
    assert len(found) == len(list(found))


def test_batches_of_the_dataset_become_tensors(table):
    dataset = made(table, batch_size=100)
    found = loader(dataset, batch_size=None, num_workers=2)
    batches = list(found)
    assert len(found) == len(batches) == ROWS // 100
    assert [batch["half"].dtype for batch in batches] == [torch.float64] * 12
    assert sorted(ids(batches)) == list(range(ROWS))
    with pytest.raises(TypeError, match="condition"):
        len(loader(made(table.read(where="id > 3")), batch_size=2))


def test_the_rank_is_that_of_the_process_group(table):
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=3)
    try:
        found = ids(loader(made(table), batch_size=32))
    finally:
        torch.distributed.destroy_process_group()
    assert found == ids(loader(made(table, rank=1, world_size=3), batch_size=32))
    assert len(found) == ROWS // 3


# -- states -------------------------------------------------------------------------------------


def run_job(checkpoint: Path, batches: int | None) -> list[str]:
    """Let the job take a number of batches and kill it, or let it end; return its output."""
    job = subprocess.Popen(
        [sys.executable, JOB, checkpoint],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    told = []
    with job:
        assert job.stdin is not None
        assert job.stdout is not None
        for line in job.stdout:
            told.append(line.strip())
            if len(told) == batches:
                os.killpg(job.pid, signal.SIGKILL)
                break
            if told[-1] == "done":
                break
            job.stdin.write("on\n")
            job.stdin.flush()
    assert (job.returncode == -signal.SIGKILL) == (batches is not None)
    return told


def test_an_epoch_that_is_killed_twice_has_each_row_once(table, tmp_path):
    checkpoint = tmp_path / "checkpoint.json"
    run_job(checkpoint, 7)
    assert len(json.loads(checkpoint.read_text("utf-8"))["learnt"]) == 7 * 32
    run_job(checkpoint, 5)
    run_job(checkpoint, None)
    learnt = json.loads(checkpoint.read_text("utf-8"))["learnt"]
    assert learnt == ids(loader(made(table.read(["id"])), batch_size=32, num_workers=2))
    assert sorted(learnt) == list(range(ROWS))


@pytest.mark.parametrize(("workers", "other"), [(0, 2), (2, 1)])
def test_prefetched_samples_that_were_not_returned_are_read_again(table, workers, other):
    options = {"batch_size": 32, "num_workers": workers}
    running = loader(made(table), **options)
    batches = iter(running)
    first = ids(itertools.islice(batches, 9))
    state = running.state_dict()
    rest = ids(batches)
    assert running.state_dict() != state
    later = loader(made(table), **options)
    later.load_state_dict(json.loads(json.dumps(state)))
    assert later.state_dict() == state
    later.set_epoch(0)
    assert sorted(first + rest) == list(range(ROWS))
    assert ids(later) == rest
    assert ids(later) == first + rest  # a state is valid only for one pass
    with pytest.raises(ArgumentError, match="num_workers"):
        loader(made(table), batch_size=32, num_workers=other).load_state_dict(state)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_loader_of_torchdata_restores_the_position(table, workers):
    options = {"batch_size": 32, "num_workers": workers}
    running = StatefulDataLoader(made(table), **options)
    batches = iter(running)
    first = ids(itertools.islice(batches, 9))
    state = pickle.loads(pickle.dumps(running.state_dict()))
    rest = ids(batches)
    later = StatefulDataLoader(made(table), **options)
    later.load_state_dict(state)
    assert sorted(first + rest) == list(range(ROWS))
    assert ids(later) == rest
    assert ids(later) == first + rest


def test_a_dataset_with_workers_has_no_state(table):
    dataset = made(table)
    assert dataset.state_dict()["given"] == {}
    next(iter(DataLoader(dataset, batch_size=8, num_workers=2)))
    with pytest.raises(StateError, match="workers"):
        dataset.state_dict()
    dataset.set_epoch(1)
    assert dataset.state_dict()["epoch"] == 1


def test_persistent_workers_receive_the_epoch(table):
    dataset = made(table)
    found = DataLoader(dataset, batch_size=32, num_workers=2, persistent_workers=True)
    first = ids(found)
    dataset.set_epoch(1)
    second = ids(found)
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second
    with pytest.raises(ArgumentError, match="persistent_workers"):
        loader(dataset, num_workers=2, persistent_workers=True)


def test_data_sent_to_workers_contains_no_keys(table, odps):
    found = loader(made(table), batch_size=8, num_workers=2)
    sent = bytes(ForkingPickler.dumps((found.dataset, found.collate_fn)))
    assert odps.profile.as_options()["access_key"].encode() not in sent


def test_a_dataset_of_another_kind_is_refused():
    with pytest.raises(ArgumentError, match="list"):
        loader([1, 2])


@pytest.mark.parametrize("wrong", [{"rank": 0}, {"batch_size": 0}, {"seed": -1}, {"chunk_rows": 0}])
def test_a_wrong_argument_is_refused_before_a_row_is_read(table, wrong):
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        rows(table, **wrong)


# -- blobs --------------------------------------------------------------------------------------


def measured(data: bytes) -> int:
    """Decode a blob, even in spawned workers."""
    return len(data)


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_decode_blobs_and_resume_at_the_exact_row(odps, how):
    media = odps.table("media").read(["id", "content"], where="name <> 'nothing'")
    options = {"batch_size": 4, "num_workers": 2, "multiprocessing_context": how}
    running = loader(blobs(media, decode=measured, seed=1, buffer_rows=8), **options)
    batches = iter(running)
    first = list(itertools.islice(batches, 4))
    later = loader(blobs(media, decode=measured, seed=1, buffer_rows=8), **options)
    later.load_state_dict(running.state_dict())
    del batches
    pairs = [
        pair
        for batch in [*first, *later]
        for pair in zip(batch["id"].tolist(), batch["content"].tolist(), strict=True)
    ]
    frame = media.to_pandas(progress=False)
    sizes = dict(zip(frame["id"], frame["content"].odps.size(), strict=True))
    assert len(pairs) == len(sizes)
    assert dict(pairs) == sizes


# -- the page -----------------------------------------------------------------------------------


def video(frames: int) -> bytes:
    """A video of squares that get brighter."""
    file = BytesIO()
    with av.open(file, "w", format="mp4") as made:
        stream = made.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 64
        for number in range(frames):
            square = np.full((64, 64, 3), number * 5, np.uint8)
            made.mux(stream.encode(av.VideoFrame.from_ndarray(square)))
        made.mux(stream.encode())
    return file.getvalue()


@pytest.fixture
def films(odps):
    table = odps.create_table("films", "name string, film blob")
    table.write(pa.table({"name": ["brighter"], "film": [video(30)]}))
    yield table
    odps.drop_table("films")


@pytest.mark.usefixtures("films")
def test_the_recipes_of_the_page_run(odps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {"odps": odps}
    recipes = [block for block in found if "odps_nb.spark" not in block and "likeness" not in block]
    assert len(recipes) == 5
    for block in recipes:
        exec(block, names)
    count = names["orders"].row_count
    assert names["steps"] == 2 * 2 * -(-count // 2 // 512)
    assert names["rest"] == count - 101 * 512
    parts = [[row["amount"] for row in names[name]] for name in ("first", "second")]
    assert [len(part) for part in parts] == [count // 2] * 2
    assert names["learnt"] == 6
    assert [round(float(frame.mean()) / 50) for frame in names["frames"]] == [0, 1, 2]
