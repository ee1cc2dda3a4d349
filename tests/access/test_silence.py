"""With `progress=False`, no display of progress is created or shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb import Connection, ProgressListener
from odps_nb.access import progress as display
from odps_nb.client.calls.progress import ProgressSnapshot, ProgressTracker
from odps_nb.errors import ArgumentError
from tests.support.named import NewName


class Calls:
    """A listener that counts its calls."""

    def __init__(self) -> None:
        self.started, self.ends = 0, []  # type: ignore[var-annotated]

    def start(self, tracker: ProgressTracker) -> None:
        self.started += 1

    def stop(self, snapshot: ProgressSnapshot) -> None:
        self.ends.append(snapshot.phase.value)


@pytest.fixture
def listener() -> Calls:
    return Calls()


@pytest.fixture
def shown(
    odps: Connection, listener: Calls, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Connection]:
    """A connection that shows its progress in `listener`."""

    def default(*, on_cancel: Callable[[], None] | None = None) -> ProgressListener:
        return listener

    monkeypatch.setattr(display, "default_listener", default)
    with Connection(odps.profile) as connection:
        yield connection


def calls_with_progress(
    odps: Connection, table: str, keyed: str, folder: Path
) -> dict[str, Callable[[object], object]]:
    """Return calls of all methods with ``progress=`` of a connection, table, scan and result."""
    orders, media = odps.table("orders"), odps.table("media")
    rows = pa.table({"id": [1]})
    tokens = media.read(["content"], progress=False).to_arrow()["content"]
    return {
        "sql": lambda p: odps.sql("select 1 as one", progress=p),
        "result to_arrow": lambda p: odps.sql("select 1 as one", progress=False).to_arrow(
            progress=p
        ),
        "result to_pandas": lambda p: odps.sql("select 1 as one", progress=False).to_pandas(
            progress=p
        ),
        "result batches": lambda p: list(
            odps.sql("select 1 as one", progress=False).batches(progress=p)
        ),
        "result reader": lambda p: (
            odps.sql("select 1 as one", progress=False).reader(progress=p).read_all()
        ),
        "read": lambda p: orders.read(["id"], limit=1, progress=p).to_arrow(),
        "to_arrow": lambda p: orders.read(["id"], limit=1).to_arrow(progress=p),
        "to_pandas": lambda p: orders.read(["id"], limit=1).to_pandas(progress=p),
        "batches": lambda p: list(orders.read(["id"], limit=1).batches(progress=p)),
        "reader": lambda p: orders.read(["id"], limit=1).reader(progress=p).read_all(),
        "head": lambda p: orders.head(2, progress=p),
        "table blobs": lambda p: media.blobs("content", limit=1, progress=p),
        "write": lambda p: odps.table(table).write(rows, progress=p),
        "upsert": lambda p: odps.table(keyed).upsert(rows, progress=p),
        "delete": lambda p: odps.table(keyed).delete([1], progress=p),
        "fetch": lambda p: list(odps.blobs(tokens[:1]).fetch(progress=p)),
        "save": lambda p: odps.blobs(tokens[:1]).save(folder, progress=p),
        "stream": lambda p: list(odps.blobs(tokens[:1]).stream(progress=p)),
    }


@pytest.fixture
def every_use(shown: Connection, new_name: NewName, tmp_path: Path):
    table, keyed = new_name("silent"), new_name("silent_keyed")
    shown.create_table(table, "id bigint")
    shown.create_table(keyed, "id bigint", primary_key="id")
    return calls_with_progress(shown, table, keyed, tmp_path)


@pytest.mark.storage_api("blobs")
def test_progress_false_disables_every_display(every_use, listener: Calls) -> None:
    for name, use in every_use.items():
        use(False)
        assert listener.started == 0, name


@pytest.mark.storage_api("blobs")
def test_a_listener_receives_every_event(every_use, listener: Calls) -> None:
    """The calls transfer data, so there is progress to report."""
    for name, use in every_use.items():
        mine = Calls()
        use(mine)
        assert mine.ends, name
        assert set(mine.ends) == {"done"}, name
    assert listener.started == 0


@pytest.mark.storage_api("blobs")
def test_progress_true_selects_the_default_display(every_use, listener: Calls) -> None:
    for name, use in every_use.items():
        before = listener.started
        use(True)
        assert listener.started > before, name


def test_the_progress_argument_of_the_result_takes_precedence(
    shown: Connection, listener: Calls
) -> None:
    orders = shown.table("orders")
    orders.read(["id"], limit=1, progress=False).to_arrow()
    assert listener.started == 0
    orders.read(["id"], limit=1, progress=False).to_arrow(progress=True)
    assert listener.started == 1
    orders.read(["id"], limit=1, progress=listener).to_arrow(progress=False)
    assert listener.started == 1


@pytest.mark.parametrize("wrong", ["no", 0, 1.5, print])
def test_an_invalid_listener_is_refused(shown: Connection, wrong: object) -> None:
    with pytest.raises(ArgumentError, match="progress is of type") as caught:
        shown.table("orders").read(["id"], limit=1).to_arrow(progress=wrong)  # type: ignore[arg-type]
    assert caught.value.argument == "progress"
