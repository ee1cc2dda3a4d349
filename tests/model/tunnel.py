"""Services without the Storage API's sessions, as small state machines: the tunnel and version 1.

The model has only rules (``docs/protocol.md`` sections 9.3, 9.4 and 12). An upload session commits
all of its blocks; a block that is sent again replaces the earlier one. A commit of version 1 names
blocks by their messages. A statement with a known unique id is not run again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from odps_nb.client.calls.version_1 import OverVersion1
from odps_nb.client.write.staging import STREAM
from odps_nb.errors import ConflictError, SessionExpiredError
from odps_nb.local import errors
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import SessionStatus
from odps_nb.wire import calls, control
from odps_nb.wire.calls import v1
from odps_nb.wire.tunnel import calls as tunnel

__all__ = ["EVERYTHING", "SCHEMA", "TARGET", "Accounts"]

SCHEMA = TableSchema(columns=(Column(name="id", type=PrimitiveType(TypeCode.BIGINT)),))
_STAGED = replace(
    SCHEMA,
    partition_columns=(Column(name=STREAM, type=PrimitiveType(TypeCode.STRING)),),
)
TARGET = "t"
EVERYTHING = "1 = 1"
RUNNING, SUCCESS, FAILED, CANCELLED = "Running", "Success", "Failed", "Cancelled"
_CREATED = re.compile(r"create table `\w+`\.`(\w+)`")
_DROPPED = re.compile(r"drop table if exists `\w+`\.`(\w+)`")
_INSERTED = re.compile(r"insert into table .* from `\w+`\.`(\w+)` where (.*);")


@dataclass
class Upload:
    """An upload session of the tunnel: its target and its blocks by number."""

    table: str
    partition: str
    overwrite: bool
    status: str = "normal"
    blocks: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass
class Blocks:
    """A write session of version 1: the rows of each upload, by its message."""

    status: SessionStatus = SessionStatus.NORMAL
    sent: dict[str, tuple[int, ...]] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()


@dataclass
class Statement:
    """A SQL instance; ``status`` is that of its task."""

    sql: str
    unique_id: str
    status: str = RUNNING


@dataclass
class Accounts:
    """Staging tables, upload sessions, sessions of version 1, and statements.

    ``table`` has the rows of the target. With ``slow``, a commit is in progress, and a statement
    is running, until a client requests its state; `settle` finishes all others.
    """

    table: list[int]
    slow: bool = False
    staging: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)
    sessions: dict[str, Blocks] = field(default_factory=dict)
    statements: dict[str, Statement] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)  # sessions that the service has forgotten

    def answer(self, request: Any) -> Any:
        """Execute a request; rejections are raised as the client sees them."""
        call = getattr(request, "call", request)
        kind = type(call.request) if isinstance(call, OverVersion1) else type(call)
        action = (_VERSION_1 if isinstance(call, OverVersion1) else _ACTIONS).get(kind)
        if action is None:
            raise errors.no_such(f"the model has no {kind.__name__}")
        return action(self, request)

    def settle(self) -> None:
        """Finish the running commits and statements."""
        for upload in self.uploads.values():
            if upload.status == "closing":
                self._close(upload)
        for session in self.sessions.values():
            if session.status is SessionStatus.COMMITTING:
                self._store(session)
        for statement in self.statements.values():
            self._run(statement)

    def expire_staging(self) -> None:
        """Drop the staging tables, as the service does after their lifecycle."""
        self.staging.clear()

    # -- uploads ------------------------------------------------------------------------------

    def _rows_of(self, table: str, partition: str) -> list[int]:
        if table == TARGET:
            return self.table
        if table not in self.staging:
            raise errors.no_such(f"there is no table {table}", code="NoSuchTable")
        return self.staging[table].setdefault(partition, [])

    def _upload(self, call: Any) -> Upload:
        upload = self.uploads.get(call.upload_id)
        if upload is None or call.upload_id in self.gone:
            raise SessionExpiredError("no such session", status=404, code="NoSuchSession")
        self._rows_of(upload.table, upload.partition)
        return upload

    def _open_upload(self, request: tunnel.OpenUpload) -> tunnel.UploadAnswer:
        partition = dict(request.of.partition).get(STREAM, "")
        self._rows_of(request.of.table.table, partition)
        name = f"u{len(self.uploads)}"
        self.uploads[name] = Upload(request.of.table.table, partition, request.overwrite)
        return self._about(name)

    def _get_upload(self, request: tunnel.GetUpload) -> tunnel.UploadAnswer:
        upload = self._upload(request)
        answer = self._about(request.upload_id)
        if upload.status == "closing":
            self._close(upload)  # the next request sees it
        return answer

    def _block(self, request: Any) -> None:
        call = request.call
        upload = self._upload(call)
        if upload.status != "normal":
            raise errors.invalid_state(f"the session is {upload.status}")
        upload.blocks[call.block] = request.values

    def _commit_upload(self, request: tunnel.CommitUpload) -> tunnel.UploadAnswer:
        upload = self._upload(request)
        if upload.status == "normal":
            upload.status = "closing"
            if not self.slow:
                self._close(upload)
        return self._about(request.upload_id)

    def _close(self, upload: Upload) -> None:
        upload.status = "closed"
        if upload.table == TARGET or upload.table in self.staging:
            rows = self._rows_of(upload.table, upload.partition)
            if upload.overwrite:
                rows.clear()
            for _, values in sorted(upload.blocks.items()):
                rows += values

    def _about(self, name: str) -> tunnel.UploadAnswer:
        upload = self.uploads[name]
        return tunnel.UploadAnswer(
            upload_id=name,
            status=upload.status,
            blocks=frozenset(upload.blocks),
            schema=SCHEMA,
        )

    # -- version 1 ----------------------------------------------------------------------------

    def _session(self, name: str) -> Blocks:
        if name not in self.sessions or name in self.gone:
            raise SessionExpiredError("no such session", status=404, code="NoSuchSession")
        return self.sessions[name]

    def _create_blocks(self, request: OverVersion1) -> v1.BlockSessionAnswer:
        name = f"w{len(self.sessions)}"
        self.sessions[name] = Blocks()
        return v1.BlockSessionAnswer(session_id=name, schema=SCHEMA)

    def _get_blocks(self, request: OverVersion1) -> v1.BlockSessionAnswer:
        name = request.request.session_id
        session = self._session(name)
        answer = v1.BlockSessionAnswer(session_id=name, status=session.status, schema=SCHEMA)
        if session.status is SessionStatus.COMMITTING:
            self._store(session)
        return answer

    def _write_block(self, request: Any) -> calls.WriteRowsAnswer:
        call = request.call.request
        session = self._session(call.session_id)
        if session.status is not SessionStatus.NORMAL:
            raise errors.invalid_state(f"the session is {session.status.value}")
        message = f"{call.session_id}/{call.block_number}/{len(session.sent)}"
        session.sent[message] = request.values
        return calls.WriteRowsAnswer(commit_message=message)

    def _commit_blocks(self, request: OverVersion1) -> v1.BlockSessionAnswer:
        call = request.request
        session = self._session(call.session_id)
        if session.status is SessionStatus.NORMAL:
            session.status, session.chosen = SessionStatus.COMMITTING, call.messages
            if not self.slow:
                self._store(session)
        return v1.BlockSessionAnswer(
            session_id=call.session_id, status=session.status, schema=SCHEMA
        )

    def _store(self, session: Blocks) -> None:
        session.status = SessionStatus.COMMITTED
        for message in session.chosen:
            self.table += session.sent[message]

    # -- statements ---------------------------------------------------------------------------

    def _get_table(self, request: control.GetTable) -> control.TableInfo:
        name = request.table.table
        self._rows_of(name, "")
        return control.TableInfo(name=request.table, schema=SCHEMA if name == TARGET else _STAGED)

    def _submit(self, request: control.SubmitSql) -> control.SubmittedInstance:
        known = (n for n, one in self.statements.items() if one.unique_id == request.unique_id)
        name = next(known, None)
        if name is None:
            name = f"i{len(self.statements)}"
            self.statements[name] = Statement(request.sql, request.unique_id)
        statement = self.statements[name]
        if not self.slow or not _INSERTED.match(statement.sql):
            self._run(statement)
        if _INSERTED.match(statement.sql):
            return control.SubmittedInstance(instance_id=name)
        return control.SubmittedInstance(instance_id=name, result=_result(statement))

    def _run(self, statement: Statement) -> None:
        if statement.status != RUNNING:
            return
        sql, statement.status = statement.sql, SUCCESS
        if found := _CREATED.match(sql):
            self.staging[found[1]] = {}
        elif found := _DROPPED.match(sql):
            self.staging.pop(found[1], None)
        elif found := _INSERTED.match(sql):
            if found[1] not in self.staging:
                statement.status = FAILED
                return
            staged = self.staging[found[1]]
            everything = found[2] == EVERYTHING
            for partition in staged if everything else re.findall("'(.*?)'", found[2]):
                self.table += staged.get(partition, [])
        else:
            raise AssertionError(sql)

    def _get_instance(self, request: control.GetInstance) -> control.InstanceStatus:
        self._run(self.statements[request.instance_id])
        return control.InstanceStatus(status="Terminated")

    def _get_tasks(self, request: control.GetTaskStatus) -> control.InstanceStatus:
        statement = self.statements[request.instance_id]
        self._run(statement)
        task = control.TaskState(status=statement.status)
        return control.InstanceStatus(status="Terminated", tasks=(task,))

    def _get_result(self, request: control.GetInstanceResult) -> control.InstanceResult:
        return _result(self.statements[request.instance_id])

    def _cancel(self, request: control.CancelInstance) -> None:
        statement = self.statements[request.instance_id]
        if statement.status != RUNNING:
            raise ConflictError("it has ended", status=409, code="InvalidStateSetting")
        statement.status = CANCELLED


def _result(statement: Statement) -> control.InstanceResult:
    text = ""
    if statement.status == FAILED:
        found = _INSERTED.match(statement.sql)
        text = "ODPS-0130131:[1,1] Table not found - table "
        text += f"p.{found[1] if found else ''} cannot be resolved"
    task = control.TaskResult(name=control.SQL_TASK, status=statement.status, text=text)
    return control.InstanceResult(tasks=(task,), status="Terminated")


_ACTIONS: dict[type, Any] = {
    tunnel.OpenUpload: Accounts._open_upload,
    tunnel.GetUpload: Accounts._get_upload,
    tunnel.UploadBlock: Accounts._block,
    tunnel.CommitUpload: Accounts._commit_upload,
    control.GetTable: Accounts._get_table,
    control.SubmitSql: Accounts._submit,
    control.GetInstance: Accounts._get_instance,
    control.GetTaskStatus: Accounts._get_tasks,
    control.GetInstanceResult: Accounts._get_result,
    control.CancelInstance: Accounts._cancel,
}
_VERSION_1: dict[type, Any] = {
    calls.CreateWriteSession: Accounts._create_blocks,
    calls.GetWriteSession: Accounts._get_blocks,
    v1.WriteBlock: Accounts._write_block,
    v1.CommitBlocks: Accounts._commit_blocks,
}
