"""`to_dask()` creates one partition per split; pickled tasks contain no keys."""

from __future__ import annotations

import dataclasses
import pickle
import sys

import cloudpickle
import pandas as pd
import pytest

from odps_nb.access.engines.split_task import SplitTask
from odps_nb.errors import ArgumentError, ConfigError, MissingDependencyError, OdpsNbError
from odps_nb.terms import IndexSplit
from tests.access.engines.test_dataset import moved, sessions

COLUMNS = ["ds", "id", "amount", "status", "created", "tags"]


def scan(odps, **options):
    return odps.table("orders").read(COLUMNS, partitions="ds=2024-01-02", splits=4, **options)


@pytest.mark.storage_api("its requests")
def test_each_dask_partition_reads_one_split_when_computed(watched, recorder):
    source = scan(watched)
    frame = source.to_dask()
    assert frame.npartitions == len(source.splits) == 4
    requests = recorder.take()
    assert (len(sessions(requests)), moved(requests)) == (1, 0)
    first = frame.partitions[0].compute(scheduler="sync")
    assert len(first) == source.splits[0].count
    requests = recorder.take()
    assert [one.action for one in requests] == ["TableRead"]


@pytest.mark.gate(1)
@pytest.mark.parametrize("backend", ["pyarrow", "numpy_nullable"])
def test_a_dask_frame_has_the_rows_of_a_read(odps, backend):
    source = scan(odps, where="quantity >= 8")
    frame = source.to_dask(decimals="float", dtype_backend=backend)
    expected = source.to_pandas(decimals="float", dtype_backend=backend, progress=False)
    found = frame.compute().reset_index(drop=True)
    # with pandas 2, Dask stores text differently, with the same dtype
    pd.testing.assert_frame_equal(found, expected, check_dtype=backend == "pyarrow")
    assert frame.dtypes.map(str).to_dict() == expected.dtypes.map(str).to_dict()
    mean = frame.groupby("status").amount.mean().compute()
    assert mean.to_dict() == pytest.approx(expected.groupby("status")["amount"].mean().to_dict())


def test_a_dask_frame_of_an_empty_table_has_one_empty_partition(odps, new_name):
    table = odps.create_table(new_name("empty"), "id bigint, name string")
    frame = table.to_dask()
    assert (frame.npartitions, list(frame.columns), len(frame)) == (1, ["id", "name"], 0)


@pytest.mark.parametrize("option", ["limit", "max_bytes"])
def test_limits_that_tasks_cannot_enforce_are_refused(odps, option):
    with pytest.raises(ArgumentError, match=option.partition("_")[0]):
        scan(odps, **{option: 10}).to_dask()


def test_a_pickled_task_has_no_keys_and_uses_those_of_its_process(odps, monkeypatch, tmp_path):
    source = scan(odps)
    task = source._split_tasks()[1]
    sent = cloudpickle.dumps(task)
    key = odps.profile.as_options()["access_key"]
    assert key.encode() not in sent
    there: SplitTask = pickle.loads(sent)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        there.table()
    assert "keys are not sent" in caught.value.notes[-1]
    monkeypatch.setenv("ODPS_ACCESS_ID", odps.profile.access_id)
    monkeypatch.setenv("ODPS_ACCESS_KEY", key)
    assert there.table().equals(task.table())


@pytest.mark.storage_api("its requests")
def test_a_task_of_an_expired_session_raises_an_error(odps):
    task = scan(odps)._split_tasks()[0]
    gone = dataclasses.replace(
        task, session=dataclasses.replace(task.session, session_id="0" * 32), split=IndexSplit(0)
    )
    with pytest.raises(OdpsNbError) as caught:
        gone.table()
    assert caught.value.hint


def test_without_dask_the_error_says_what_to_install(odps, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    with pytest.raises(MissingDependencyError) as caught:
        scan(odps).to_dask()
    assert caught.value.extra == "dask"
