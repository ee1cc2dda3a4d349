"""Training reads each row of an epoch once, in a fixed order, and resumes at the exact row."""

from __future__ import annotations

import itertools
import json
import pickle

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.access.learning.epochs import Epochs
from odps_nb.access.learning.order import EpochOrder
from odps_nb.access.learning.samples import AsBatches, AsRows, WithBlobs, blob_column
from odps_nb.errors import (
    ArgumentError,
    ConfigError,
    ConflictError,
    ConversionError,
    LimitExceededError,
    NotFoundError,
    SessionExpiredError,
)
from tests.support.service.services import by_storage_api
from tests.support.spark.services import misbehaving
from tests.support.spark.watched import misbehave

ROWS = 500
MIB = 2**20


@pytest.fixture(scope="module")
def numbered(odps):
    """A table of 500 rows."""
    table = odps.create_table(
        "learning_rows", "id bigint, half double, price decimal(9,2), note string"
    )
    frame = pd.DataFrame({"id": np.arange(ROWS), "half": np.arange(ROWS) / 2})
    frame["price"] = pa.array(frame["half"]).cast(pa.decimal128(9, 2)).to_pylist()
    frame["note"] = [None if n % 7 == 0 else f"note {n}" for n in range(ROWS)]
    table.write(frame)
    yield table
    odps.drop_table(table.name)


def with_expired_session(state):
    """Return the state with the id of a session that does not exist."""
    opened = state["session_id"]
    service = opened[: opened.find(":") + 1]  # ids begin with the service's name
    return {**state, "session_id": service + "0" * 32}


def epochs(scan, samples=None, *, seed=1, shuffle=True, window=64, **parts) -> Epochs:
    source = scan._row_source(read_ahead=MIB)
    order = EpochOrder(
        rows=source.rows, chunk_rows=40, window_rows=window, seed=seed, shuffle=shuffle
    )
    return Epochs(source, samples or AsRows(), order, **parts)


def ids(rows) -> list[int]:
    return [row["id"] for row in rows]


# -- order --------------------------------------------------------------------------------------


def test_each_row_is_returned_by_exactly_one_worker_in_the_order_of_the_seed(
    numbered,
):
    scan = numbered.read(["id", "note"])
    parts = [
        ids(epochs(scan, rank=rank, world_size=2).pass_over(worker, 3))
        for rank in range(2)
        for worker in range(3)
    ]
    assert sorted(itertools.chain(*parts)) == list(range(ROWS))
    whole = ids(epochs(scan).pass_over())
    assert whole == ids(epochs(scan).pass_over())
    assert sorted(whole) == list(range(ROWS))
    assert whole[:10] != sorted(whole[:10])
    assert whole != ids(epochs(scan, seed=2).pass_over())
    assert ids(epochs(scan, shuffle=False).pass_over()) == list(range(ROWS))


def test_a_row_keeps_its_values_and_decimals_are_floats(numbered):
    row = next(row for row in epochs(numbered.read()).pass_over() if row["id"] == 8)
    assert row == {"id": 8, "half": 4.0, "price": 4.0, "note": "note 8"}
    none = next(row for row in epochs(numbered.read()).pass_over() if row["id"] == 7)
    assert none["note"] is None


def test_each_epoch_has_its_own_order_that_never_changes(numbered):
    made = epochs(numbered.read(["id"]))
    first = ids(made.pass_over())
    assert ids(made.pass_over()) == first
    made.set_epoch(1)
    assert sorted(second := ids(made.pass_over())) == sorted(first)
    assert second != first


def test_a_condition_is_exact_even_if_its_columns_are_not_read(numbered):
    made = epochs(numbered.read(["note"], where="id >= 100 and half < 60"))
    assert sorted(row["note"] or "" for row in made.pass_over()) == sorted(
        "" if n % 7 == 0 else f"note {n}" for n in range(100, 120)
    )
    assert made.rows_of(0, 1) is None


def test_with_even_parts_all_workers_get_the_same_number_of_rows(numbered):
    scan = numbered.read(["id"])
    parts = [ids(epochs(scan, rank=n, world_size=7, even=True).pass_over()) for n in range(7)]
    assert {len(part) for part in parts} == {ROWS // 7}
    assert len(set(itertools.chain(*parts))) == ROWS // 7 * 7
    with pytest.raises(ArgumentError, match="even"):
        epochs(numbered.read(where="id > 3"), even=True)


# -- batches ------------------------------------------------------------------------------------


def test_batches_may_cross_windows_and_have_separate_arrays(numbered):
    batches = list(epochs(numbered.read(), AsBatches(48)).pass_over())
    assert [len(batch["id"]) for batch in batches] == [48] * 10 + [20]
    assert np.concatenate([batch["id"] for batch in batches]).tolist() == ids(
        epochs(numbered.read()).pass_over()
    )
    first = batches[0]
    assert (first["price"] == first["half"]).all()
    assert (first["price"].dtype, first["half"].flags.writeable) == (np.float64, True)
    assert isinstance(first["note"], list)


def test_a_null_is_an_error_in_an_integer_column_and_nan_in_a_float_column(odps, new_name):
    table = odps.create_table(new_name("nulls"), "n bigint, x double")
    table.write(pa.table({"n": [1, None], "x": [None, 0.5]}))
    (batch,) = epochs(table.read(["x"]), AsBatches(2)).pass_over()
    assert sorted(np.isnan(batch["x"])) == [False, True]
    with pytest.raises(ConversionError) as caught:
        list(epochs(table.read(["n"]), AsBatches(2)).pass_over())
    assert caught.value.column == "n"


# -- resuming -----------------------------------------------------------------------------------


@pytest.mark.gate(1)
@pytest.mark.parametrize("where", [None, "id % 3 = 0"])
def test_an_epoch_resumes_at_any_row(numbered, where):
    scan = numbered.read(["id"], where=where)
    whole = ids(epochs(scan).pass_over(1, 2))
    running = epochs(scan)
    passed = running.pass_over(1, 2)
    states = [running.state_here(), *(running.state_here() for _ in passed)]
    for taken in (0, 1, len(whole) // 2, len(whole) - 1, len(whole)):
        later = epochs(scan)
        later.load(json.loads(json.dumps(states[taken])))
        assert ids(later.pass_over(1, 2)) == whole[taken:]


def test_batches_resume_at_a_batch_boundary(numbered):
    scan = numbered.read(["id"])
    running = epochs(scan, AsBatches(48))
    passed = running.pass_over()
    given = [next(passed)["id"] for _ in range(4)]
    later = epochs(scan, AsBatches(48))
    later.load(running.state_here())
    passed.close()
    rest = [batch["id"] for batch in later.pass_over()]
    assert np.concatenate([*given, *rest]).tolist() == ids(epochs(scan).pass_over())


def test_a_saved_state_applies_to_the_rest_of_one_pass(numbered):
    made = epochs(numbered.read(["id"]))
    made.set_epoch(4)
    passed = made.pass_over()
    first = ids(itertools.islice(passed, 100))
    state = made.state_here()
    passed.close()
    later = epochs(numbered.read(["id"]))
    later.load(state)
    assert later.epoch == 4
    later.set_epoch(4)
    rest = ids(later.pass_over())
    assert sorted(first + rest) == list(range(ROWS))
    assert ids(later.pass_over()) == first + rest
    later.load(state)
    later.set_epoch(5)
    assert len(ids(later.pass_over())) == ROWS


def test_an_epoch_reads_the_session_that_its_scan_has_already_opened(odps, new_name):
    table = odps.create_table(new_name("opened"), "id bigint")
    table.write([(1,), (2,)])
    scan = table.read()
    assert scan.row_count == 2
    table.write([(3,)])
    assert sorted(ids(epochs(scan).pass_over())) == [1, 2]


def test_a_state_reads_the_snapshot_of_its_session_while_it_exists(odps, numbered, new_name):
    table = odps.create_table(new_name("snapshot"), "id bigint")
    table.write(pa.table({"id": range(100)}))
    running = epochs(table.read())
    passed = running.pass_over()
    first = ids(itertools.islice(passed, 30))
    state = running.state_here()
    table.write(pa.table({"id": range(100, 130)}))
    later = epochs(table.read())
    later.load(state)
    assert sorted(first + ids(later.pass_over())) == list(range(100))
    passed.close()


@pytest.mark.storage_api("its requests")
@pytest.mark.nightly
def test_an_epoch_whose_session_expires_continues_with_a_new_session_of_the_same_rows():
    with misbehaving() as odps:
        table = odps.create_table("few", "id bigint")
        table.write(pa.table({"id": range(ROWS)}))
        running = epochs(table.read())
        passed = running.pass_over()
        first = ids(itertools.islice(passed, 130))
        state = running.state_here()
        passed.close()
        over = {"action": "TableRead", "fault": "expire", "session": state["session_id"]}
        misbehave(odps, {**over, "times": 0})
        with pytest.raises(SessionExpiredError):
            list(running.pass_over())
        running.load(state)
        assert sorted(first + ids(running.pass_over())) == list(range(ROWS))


@pytest.mark.parametrize(
    ("partitions", "overwrite"),
    [
        (None, False),
        pytest.param(None, True, marks=pytest.mark.storage_api("versions")),
        ("ds=1", False),
    ],
)
def test_a_table_that_changed_raises_a_typed_error(odps, new_name, partitions, overwrite):
    table = odps.create_table(new_name("changed"), "id bigint", partitioned_by="ds string")
    table.write(pa.table({"id": [1, 2, 3]}), partition="ds=1")
    running = epochs(table.read(["id"], partitions=partitions))
    state = running.state_here()
    table.write(pa.table({"id": [4, 5, 6]}), partition="ds=1", overwrite=overwrite)
    with pytest.raises(ConflictError) as caught:
        running.load(with_expired_session(state))
    assert caught.value.code == "TableChanged"
    assert ("was 3 and is now 6" in caught.value.message) != overwrite
    by_version = partitions is None and by_storage_api()
    assert ("version" in caught.value.message) == by_version


def test_a_change_of_another_partition_does_not_prevent_resuming(odps, new_name):
    table = odps.create_table(new_name("beside"), "id bigint", partitioned_by="ds string")
    table.write(pa.table({"id": [1, 2, 3]}), partition="ds=1")
    running = epochs(table.read(["id"], partitions="ds=1"))
    state = running.state_here()
    table.write(pa.table({"id": [4, 5, 6]}), partition="ds=2")
    running.load(with_expired_session(state))
    assert sorted(ids(running.pass_over())) == [1, 2, 3]


def test_an_invalid_state_or_a_state_of_another_order_is_refused(numbered):
    scan = numbered.read(["id"])
    state = epochs(scan).state_here()
    for other in (
        epochs(scan, seed=2),
        epochs(scan, window=65),
        epochs(scan, shuffle=False),
        epochs(scan, rank=1, world_size=2),
        epochs(numbered.read(["id"], where="id > 3")),
    ):
        with pytest.raises(ArgumentError, match="saved with other settings"):
            other.load(state)
    for wrong in (
        {},
        None,
        {**state, "format": 9},
        {**state, "given": {"0": ROWS + 1}},
        {**state, "given": {"1": 1}},
        {**state, "given": {"0": "many"}},
        {**state, "order": None},
        {**state, "epoch": -1},
        {**state, "turn": 1},
    ):
        with pytest.raises(ArgumentError, match="not a state"):
            epochs(scan).load(wrong)
    made = epochs(scan)
    made.load(state)
    with pytest.raises(ArgumentError, match="num_workers"):
        made.pass_over(0, 2)
    with pytest.raises(ArgumentError, match="num_workers"):
        made.load(state, workers=2)


# -- other processes ----------------------------------------------------------------------------


def test_pickled_sources_have_no_keys_and_use_those_of_their_process(
    odps, numbered, monkeypatch, tmp_path
):
    made = epochs(numbered.read(["id"]))
    sent = cloudpickle.dumps(made)
    key = odps.profile.as_options()["access_key"]
    assert key.encode() not in sent
    there: Epochs = pickle.loads(sent)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        next(there.pass_over())
    assert "keys are not sent" in caught.value.notes[-1]
    monkeypatch.setenv("ODPS_ACCESS_ID", odps.profile.access_id)
    monkeypatch.setenv("ODPS_ACCESS_KEY", key)
    assert ids(there.pass_over()) == ids(made.pass_over())


# -- blobs --------------------------------------------------------------------------------------


def with_blobs(scan, decode=None, max_blob=MIB, **options) -> Epochs:
    samples = WithBlobs(column="content", decode=decode, max_bytes=MIB, max_blob=max_blob)
    return epochs(scan, samples, window=16, **options)


@pytest.mark.storage_api("blobs")
def test_rows_have_their_own_blobs_and_resume_at_any_row(odps):
    media = odps.table("media")
    scan = media.read(["name", "content"])
    frame = scan.to_pandas(progress=False)
    named = dict(zip(frame["name"], frame["content"], strict=True))
    wanted = {
        name: None if pd.isna(ref) else odps.blob(ref).bytes()
        for name, ref in [*list(named.items())[:3], ("nothing", named["nothing"])]
    }
    running = with_blobs(scan)
    passed = running.pass_over()
    rows = list(itertools.islice(passed, 20))
    later = with_blobs(scan)
    later.load(running.state_here())
    passed.close()
    rows += later.pass_over()
    found = {row["name"]: row["content"] for row in rows}
    assert len(rows) == len(named) == len(found)
    assert {name: found[name] for name in wanted} == wanted
    assert found["nothing"] is None
    assert found["empty.dat"] == b""


@pytest.mark.storage_api("blobs")
def test_decode_is_called_for_each_blob_and_its_error_names_the_blob(odps):
    scan = odps.table("media").read(["name", "content"])
    sizes = {row["name"]: row["content"] for row in with_blobs(scan, len).pass_over()}
    assert (sizes["empty.dat"], sizes["nothing"], sizes["cut_short.jpg"]) == (0, None, 600)
    with pytest.raises(ZeroDivisionError) as caught:
        list(with_blobs(scan, lambda data: 1 / len(data)).pass_over())
    assert "the 0 bytes of blob" in caught.value.__notes__[0]
    with pytest.raises(ArgumentError, match="decode"):
        with_blobs(scan, "jpg")
    with pytest.raises(LimitExceededError):
        list(with_blobs(scan, max_blob=100).pass_over())


def test_the_only_blob_column_is_used_by_default(odps):
    media, documents = odps.table("media"), odps.table("documents")
    assert blob_column(None, media.schema, media.name) == "content"
    with pytest.raises(NotFoundError) as caught:
        blob_column("name", media.schema, media.name)
    assert "content" in caught.value.hint
    with pytest.raises(ArgumentError, match="nested in a column"):
        blob_column(None, documents.schema, documents.name)


# -- refused arguments-----------------------------------------------------------------------------


@pytest.mark.parametrize("option", [{"limit": 3}, {"max_bytes": 100}])
def test_a_read_with_a_limit_is_refused(numbered, option):
    with pytest.raises(ArgumentError, match=next(iter(option)).split("_")[0]):
        epochs(numbered.read(["id"], **option))


def test_a_read_of_changes_is_refused(odps, new_name):
    table = odps.create_table(
        new_name("keyed"),
        "id bigint, n bigint",
        primary_key="id",
        properties={"acid.cdc.mode.enable": True},
    )
    with pytest.raises(ArgumentError, match="changes"):
        epochs(table.read(since=1, changes=True))


@pytest.mark.parametrize(("rank", "size"), [(2, 2), (-1, 2), (0, 0)])
def test_an_invalid_rank_is_refused(numbered, rank, size):
    with pytest.raises(ArgumentError, match="rank"):
        epochs(numbered.read(["id"]), rank=rank, world_size=size)


def test_an_invalid_epoch_is_refused(numbered):
    for epoch in (-1, 2**32, "1"):
        with pytest.raises(ArgumentError, match="epoch"):
            epochs(numbered.read(["id"])).set_epoch(epoch)


def test_an_empty_table_has_no_rows(odps, new_name):
    table = odps.create_table(new_name("none"), "id bigint")
    assert list(epochs(table.read()).pass_over()) == []
