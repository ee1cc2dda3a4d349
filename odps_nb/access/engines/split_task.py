"""`SplitTask`: one split of a read session, readable in any process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odps_nb.access.pickling import profile_from_settings
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.splits import iter_split
from odps_nb.convert.arrow_schema import require_arrow_types
from odps_nb.convert.frame_options import FrameOptions
from odps_nb.convert.narrow_decimals import cast_columns
from odps_nb.convert.references import present_batch
from odps_nb.errors import SessionExpiredError
from odps_nb.terms import Split

if TYPE_CHECKING:
    from odps_nb.access.scan import Scan


@dataclass(frozen=True, kw_only=True)
class SessionTask:
    """A read session that any process can read from; pickled without access keys.

    The process that created the task uses its existing connection. Another process opens a client
    with the same settings, and with access keys from its own environment, profile file or keyring.
    """

    settings: tuple[tuple[str, str], ...]
    session: ReadSession
    schema: pa.Schema
    connected: Callable[[], StorageClient] | None = field(default=None, repr=False, compare=False)

    @contextmanager
    def client(self) -> Iterator[StorageClient]:
        """Yield a client for this process, closing it afterwards if it was opened here."""
        if self.connected is not None:
            yield self.connected()
            return
        with StorageClient(profile_from_settings(dict(self.settings))) as storage:
            yield storage

    def shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch of the session to the columns, column order and types of the `Scan`."""
        zone = dict(self.settings).get("timezone")
        shown = present_batch(batch, self.session.schema, timezone=zone)
        return cast_columns(shown.select(self.schema.names), self.schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "connected": None}


@dataclass(frozen=True, kw_only=True)
class SplitTask(SessionTask):
    """One split that any process can read; pickled without access keys (see `SessionTask`)."""

    split: Split

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the split; closing the iterator early closes its connection."""
        with self.client() as storage:
            try:
                with closing(iter_split(storage, self.session, self.split)) as batches:
                    for batch in batches:
                        yield self.shown(batch)
            except SessionExpiredError as error:
                error.add_note("a task cannot open a new session: the table may have changed")
                raise

    def table(self) -> pa.Table:
        """Read the split as a table."""
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def frame(self, options: FrameOptions) -> Any:
        """Read the split as a DataFrame."""
        from odps_nb.convert.pandas_frame import to_pandas

        return to_pandas(self.batches(), schema=self.schema, options=options)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return (self.session.session_id, str(self.split))


def split_tasks(scan: Scan, storage: Callable[[], StorageClient]) -> list[SplitTask]:
    """Open the session of a scan, and return one task for each of its splits."""
    shown = scan._shown_columns()
    require_arrow_types(shown, "a read in tasks")
    session, schema, settings = scan._opened(), scan.arrow_schema, settings_of(scan, storage())
    return [
        SplitTask(
            settings=settings,
            session=replace(session, splits=()),
            split=split,
            schema=schema,
            connected=storage,
        )
        for split in session.splits
    ]


def settings_of(scan: Scan, storage: StorageClient) -> tuple[tuple[str, str], ...]:
    """Return the connection settings for another process, without access keys."""
    settings = {**scan.connection.profile.as_settings(), "tunnel_endpoint": storage.tunnel_endpoint}
    return tuple(settings.items())
