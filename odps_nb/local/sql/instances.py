"""Submits, runs, lists and cancels SQL instances, and reads their results.

Each instance runs in a thread, and its result is a row file. An instance that is running when the
service stops fails without visible effects. See ``docs/protocol.md`` 3.14 and 9.3.
"""

from __future__ import annotations

import json
import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from threading import Lock

import pyarrow as pa

from odps_nb.errors import CancelledError, OdpsNbError, ServerFaultError
from odps_nb.local import errors
from odps_nb.local.forms import Forms
from odps_nb.local.reading.plan import find_column
from odps_nb.local.reading.scans import ScanFile, ScanPlan, scan
from odps_nb.local.sql.ddl import Place
from odps_nb.local.sql.parsing.statements import SelectStatement, Statement
from odps_nb.local.sql.parsing.text import parse_job
from odps_nb.local.sql.refusals import FarTime
from odps_nb.local.sql.results import FarResult, ResultRows, write_rows
from odps_nb.local.sql.run import Job, SqlRunner, Stopper
from odps_nb.local.store.database import Database
from odps_nb.local.store.folder import DataFolder, new_id
from odps_nb.local.store.row_files import FAR
from odps_nb.schema import TableSchema
from odps_nb.terms import TimeUnit
from odps_nb.wire.calls import LIMITED_RESULT_ROWS
from odps_nb.wire.schema_json import decode_flat, encode_flat

log = logging.getLogger("odps_nb.local")

WORKERS = 4
_LIMITED = "limited-"
CANCEL_SECONDS = 5.0
SCRIPT = {"odps.sql.submit.mode": "script"}
MCQA = "_mcqa"  # clients recognise the instances of MaxQA by this ending
RUNNING, SUCCESS, FAILED, CANCELLED = "Running", "Success", "Failed", "Cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A SQL instance; ``schema`` is empty if there is no result. Times are epoch seconds.

    ``outputs``: the number of changed rows and of written bytes, by table.
    """

    instance_id: str
    project: str
    owner: str
    task: str
    source: str
    query: str
    status: str
    message: str
    schema: TableSchema
    file: str | None
    rows: int
    created: float
    ended: float | None
    outputs: Mapping[str, list[int]] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether the instance has ended."""
        return self.status != RUNNING

    @property
    def is_query(self) -> bool:
        """Whether a statement is a query (``SHOW`` and ``DESC`` are not)."""
        parsed = parse_job(self.query, SCRIPT)
        return any(isinstance(statement, SelectStatement) for statement in parsed)


class Instances:
    """Runs statements and stores their results."""

    def __init__(
        self,
        database: Database,
        folder: DataFolder,
        runner: SqlRunner,
        clock: Callable[[], float],
        forms: Forms,
    ) -> None:
        self._forms = forms
        self._db, self._folder, self._runner, self._clock = database, folder, runner, clock
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="odps-nb-sql")
        self._running: dict[str, tuple[Stopper, Future[None]]] = {}
        self._unwritten: dict[str, tuple[str, str, float]] = {}
        self._lock = Lock()
        self._db.run(
            "UPDATE instances SET status = ?, message = ?, ended = ? WHERE status = ?",
            FAILED,
            "ODPS-0010000: System internal error - the service stopped while the job was running",
            clock(),
            RUNNING,
        )

    def submit(
        self,
        place: Place,
        query: str,
        *,
        task: str,
        guid: str = "",
        source: str = "",
        patience: float = 0.0,
        estimates: bool = False,
        ending: str = "",
    ) -> Instance:
        """Parse a job and start it. Syntax errors are raised immediately.

        If this key has already submitted a job with the same ``guid`` to this project, the instance
        of that job is returned. With ``estimates``, the statements do not run, and the instance's
        message is an estimate of their cost. ``patience``: maximum seconds to wait for the job to
        finish. ``ending``: the end of the instance's id.
        """
        instance_id = self._known(place, guid)
        if instance_id is None:
            # outside the lock, because parsing may take seconds
            statements = parse_job(query, place.settings)
            with self._lock:
                instance_id = self._known(place, guid)  # another thread may have submitted the job
                if instance_id is None:
                    instance_id = self._insert(place, query, task, guid, source, ending)
                    stopper = Stopper()
                    arguments = (instance_id, statements, place, stopper)
                    future = self._pool.submit(self._run, *arguments, estimates=estimates)
                    self._running[instance_id] = (stopper, future)
        self.wait(instance_id, patience)
        return self.get(place.project, instance_id)

    def _known(self, place: Place, guid: str) -> str | None:
        """Return the instance of an earlier job with this GUID, or ``None``."""
        row = self._db.row(
            "SELECT instance_id FROM guids WHERE project = ? AND owner = ? AND guid = ?",
            *(place.project, place.owner, guid),
        )
        return None if row is None else row["instance_id"]

    def _insert(
        self, place: Place, query: str, task: str, guid: str, source: str, ending: str
    ) -> str:
        now = self._clock()
        instance_id = time.strftime("%Y%m%d%H%M%S", time.gmtime(now)) + (
            f"{secrets.randbelow(10**3):03d}g{secrets.token_hex(5)}{ending}"
        )
        of = (place.project, place.owner)
        with self._db.transaction() as db:
            db.execute(
                "INSERT INTO instances (instance_id, project, owner, task, source, query, status,"
                " message, definition, rows, created) VALUES (?, ?, ?, ?, ?, ?, ?, '', '', 0, ?)",
                (instance_id, *of, task, source, query, RUNNING, now),
            )
            if guid:
                db.execute("INSERT INTO guids VALUES (?, ?, ?, ?)", (*of, guid, instance_id))
        return instance_id

    def wait(self, instance_id: str, seconds: float) -> None:
        """Wait at most ``seconds`` for an instance to end."""
        with self._lock:
            running = self._running.get(instance_id)
        if running is not None and seconds > 0:
            wait([running[1]], timeout=seconds)

    def get(self, project: str, instance_id: str) -> Instance:
        """Return an instance, or raise `NotFoundError` if it is unknown."""
        row = self._db.row(
            "SELECT * FROM instances WHERE instance_id = ? AND project = ?", instance_id, project
        )
        if row is None:
            raise errors.no_such(f"the instance {instance_id!r} does not exist")
        return self._instance(row)

    def _instance(self, row: sqlite3.Row) -> Instance:
        fields = dict(row)
        definition = fields.pop("definition")
        if (ended := self._unwritten.get(fields["instance_id"])) is not None:
            fields["status"], fields["message"], fields["ended"] = ended
        schema = decode_flat(json.loads(definition)) if definition else TableSchema()
        fields["outputs"] = json.loads(fields["outputs"])
        return Instance(**fields, schema=schema)

    def check_owner(self, project: str, instance_id: str, access_id: str) -> None:
        """Raise 403 if another key submitted the instance."""
        if self.get(project, instance_id).owner != access_id:
            raise errors.forbidden(
                f"ODPS-0130013:Authorization exception - another key owns instance {instance_id}"
            )

    def cancel(self, project: str, instance_id: str) -> None:
        """Cancel an instance, or raise 409 if it has ended."""
        self.get(project, instance_id)
        with self._lock:
            running = self._running.get(instance_id)
        if running is None:
            raise errors.instance_over(instance_id)
        stopper, future = running
        stopper.stop()
        wait([future], timeout=CANCEL_SECONDS)

    def listed(
        self,
        project: str,
        *,
        owner: str | None = None,
        status: Sequence[str] = (),
        since: float | None = None,
        until: float | None = None,
        skip: int = 0,
        limit: int = 100,
    ) -> list[Instance]:
        """Return instances, newest first. Filters that are ``None`` or empty do not apply."""
        rows = self._db.rows(
            "SELECT * FROM instances WHERE project = ?1 AND (?2 IS NULL OR owner = ?2) "
            "AND (?3 = '[]' OR status IN (SELECT value FROM json_each(?3))) "
            "AND (?4 IS NULL OR created >= ?4) AND (?5 IS NULL OR created <= ?5) "
            "ORDER BY created DESC, instance_id LIMIT ?6 OFFSET ?7",
            project,
            owner,
            json.dumps(list(status)),
            since,
            until,
            limit,
            skip,
        )
        return [self._instance(row) for row in rows]

    # -- results ------------------------------------------------------------------------------

    def result(self, project: str, instance_id: str) -> Instance:
        """Return an instance with a result, or raise 400 (409 if it is running or cancelled)."""
        instance = self.get(project, instance_id)
        if instance.status == FAILED:
            raise errors.invalid(instance.message)
        if instance.status != SUCCESS:
            raise errors.invalid_state(f"the instance {instance_id} is {instance.status.lower()}")
        if not instance.schema.columns:
            raise errors.invalid(
                f"the instance {instance_id} has no result rows", code="InstanceTypeNotSupported"
            )
        return instance

    def open_download(self, instance_id: str, *, limited: bool = False) -> str:
        """Return a new download id for a result, or for its first `LIMITED_RESULT_ROWS` rows."""
        download_id = f"{_LIMITED}{new_id()}" if limited else new_id()
        self._db.run(
            "INSERT INTO downloads VALUES (?, ?, ?)", download_id, instance_id, self._clock()
        )
        return download_id

    def downloaded(self, download_id: str, project: str, instance_id: str) -> Instance:
        """Return the instance of a download id; limit its result if the download is limited."""
        row = self._db.row("SELECT instance_id FROM downloads WHERE download_id = ?", download_id)
        if row is None or row["instance_id"] != instance_id:
            raise errors.no_such_session(download_id)
        instance = self.result(project, instance_id)
        return limited_result(instance) if download_id.startswith(_LIMITED) else instance

    def rows(
        self, instance: Instance, offset: int, count: int, *, columns: Sequence[str] = ()
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the schema and rows ``[offset, offset + count)`` of a result."""
        if offset > instance.rows:
            raise errors.invalid(
                f"Offset is {offset}, but the result has {instance.rows} rows",
                code="InvalidRowRange",
            )
        stored = instance.schema.columns
        chosen = tuple(find_column(instance.schema, name) for name in columns) or stored
        files: tuple[ScanFile, ...] = ()
        unit = TimeUnit.NANO
        if instance.file is not None:
            files = (ScanFile(name=instance.file, rows=instance.rows),)
            unit = TimeUnit.MICRO if instance.file.endswith(FAR) else unit
        plan = ScanPlan(
            files=files,
            columns=chosen,
            table_columns=stored,
            partition_keys=frozenset(),
            timestamp_unit=unit,
        )
        rows = scan(self._folder, plan, offset, min(offset + count, instance.rows))
        return plan.schema(), self._forms.shaped(rows, plan.columns)

    def close(self) -> None:
        """Cancel running instances and end the threads."""
        with self._lock:
            running = list(self._running.values())
        for stopper, _ in running:
            stopper.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    # -- running ------------------------------------------------------------------------------

    def _perform(
        self, instance_id: str, statement: Statement, place: Place, stopper: Stopper
    ) -> dict[str, list[int]]:
        """Run a statement; rerun it in microseconds if its times exceed the nanosecond range.

        Each run has a separate time limit and snapshot. Returns the outputs (see `Job`).
        """
        unit = TimeUnit.NANO
        while True:
            stopper.check()
            try:
                with ExitStack() as stack:
                    job = Job(place, stopper, stack)
                    rows = self._runner.run(statement, job)
                    if rows is not None:
                        self._keep(instance_id, rows, unit, stopper)
                return job.outputs
            except FarTime:
                if place.far:
                    raise
                place = replace(place, far=True)
            except FarResult:
                unit = TimeUnit.MICRO

    def _run(
        self,
        instance_id: str,
        statements: Sequence[Statement],
        place: Place,
        stopper: Stopper,
        *,
        estimates: bool,
    ) -> None:
        status, message = SUCCESS, ""
        outputs: dict[str, list[int]] = {}
        try:
            if estimates:
                message = self._runner.cost(statements, place).encode()
            for statement in () if estimates else statements:
                for table, numbers in self._perform(instance_id, statement, place, stopper).items():
                    before = outputs.get(table, [0, 0])
                    outputs[table] = [a + b for a, b in zip(before, numbers, strict=True)]
        except CancelledError:
            status = CANCELLED
        except OdpsNbError as error:
            status, message = FAILED, _spelled(error)
        except Exception as error:  # any error must end the instance
            status, message = FAILED, "ODPS-0010000: System internal error"
            if (fault := errors.of_disk(error)) is not None:
                message += f" - {fault.message}"
            else:
                log.exception("instance %s failed inside the service", instance_id)
        finally:
            self._end(instance_id, status, message, outputs)

    def _end(
        self, instance_id: str, status: str, message: str, outputs: dict[str, list[int]]
    ) -> None:
        """Save the final state of an instance; keep it in memory if saving fails."""
        ended = self._clock()
        try:
            self._db.run(
                "UPDATE instances SET status = ?, message = ?, ended = ?, outputs = ?"
                " WHERE instance_id = ?",
                *(status, message, ended, json.dumps(outputs), instance_id),
            )
        except (sqlite3.Error, ServerFaultError) as error:
            log.warning("the outcome of instance %s could not be saved: %s", instance_id, error)
            self._unwritten[instance_id] = (status, message, ended)
        with self._lock:
            self._running.pop(instance_id, None)

    def _keep(self, instance_id: str, rows: ResultRows, unit: TimeUnit, stopper: Stopper) -> None:
        file = write_rows(self._folder, rows, unit, stopper.check)
        self._db.run(
            "UPDATE instances SET definition = ?, file = ?, rows = ? WHERE instance_id = ?",
            *(json.dumps(encode_flat(rows.schema)), file.name, file.rows, instance_id),
        )


def limited_result(instance: Instance) -> Instance:
    """Return the instance with its result limited to `LIMITED_RESULT_ROWS` rows."""
    return replace(instance, rows=min(instance.rows, LIMITED_RESULT_ROWS))


def _spelled(error: OdpsNbError) -> str:
    text = error.message
    is_coded = text.startswith("ODPS-")
    return text if is_coded else f"ODPS-0130071: Semantic analysis exception - {text}"
