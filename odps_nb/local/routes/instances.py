"""Routes of SQL instances: submit, status, cancel (``docs/protocol.md`` section 9)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from starlette.responses import JSONResponse, Response

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes.csv_text import csv_text
from odps_nb.local.routes.interactive import CONNECTION, COOKIE
from odps_nb.local.routes.lists import page_range
from odps_nb.local.routes.table import XML, Asked, At, To, page, reply
from odps_nb.local.service import Service
from odps_nb.local.sql.ddl import Place
from odps_nb.local.sql.instances import CANCELLED, FAILED, MCQA, RUNNING, SUCCESS, Instance
from odps_nb.wire import control
from odps_nb.wire.calls import find_header
from odps_nb.wire.control.core import date_text
from odps_nb.wire.xml_text import DECLARATION, element

PATIENCE = 0.5
CSV_ROWS = 10_000
# Task states for each instance state; instances of this service are never suspended.
_STATES = {"Running": (RUNNING,), "Terminated": (SUCCESS, FAILED, CANCELLED), "Suspended": ("",)}


class InstanceRoutes:
    """Handles requests about SQL instances. Rights are checked when names are resolved."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def rows(self) -> Iterator[At | To]:
        # the Java SDK asks to wait for a short job with ``tryWait``, which this service always does
        yield To(control.SubmitSql, Right.QUERY, self._submit, accepts="tryWait")
        yield To(control.CancelInstance, Right.QUERY, self._cancel)
        for kind, key in (
            (control.GetInstance, "instancestatus"),
            (control.GetTaskStatus, "taskstatus"),
            (control.GetInstanceResult, "result"),
        ):
            yield To(kind, Right.QUERY, self._instance, accepts=key)
        filters = "status daterange onlyowner"
        of = ["/projects/{project}/instances"]
        yield At(of, Right.QUERY, self._listed, accepts=filters, is_list=True)
        one = ["/projects/{project}/instances/{instance}"]
        yield At(one, Right.QUERY, self._source, keys=frozenset({"source"}))
        yield At(one, Right.QUERY, self._progress, keys=frozenset({"instanceprogress"}))
        yield At(one, Right.QUERY, self._summary, keys=frozenset({"instancesummary"}))
        # jobs of this service do not queue, and have no workers and no quota
        absent = frozenset({"cached", "instancedetail", "detail", "instancequota"})
        yield At(one, Right.QUERY, self._absent, keys=absent)

    def _listed(self, asked: Asked) -> Response:
        params = asked.params
        since, _, until = params.get("daterange", "").partition(":")
        skip, most = page_range(asked)
        found = self._service.instances.listed(
            asked.path["project"],
            owner=asked.access_id if params.get("onlyowner") == "yes" else None,
            status=_STATES.get(params.get("status", ""), ()),
            since=_number(since),
            until=_number(until),
            skip=skip,
            limit=most + 1,
        )
        marker = str(skip + most) if len(found) > most else ""
        return page("Instances", map(_listed_instance, found[:most]), marker=marker, most=most)

    def _progress(self, asked: Asked) -> Response:
        """Handle ``get_task_progress``. Reports one worker for each statement."""
        found = self._service.instances.get(asked.path["project"], asked.path["instance"])
        over = int(found.is_over)
        facts = {
            "BackupWorkers": 0,
            "TerminatedWorkers": over,
            "RunningWorkers": 1 - over,
            "TotalWorkers": 1,
            "OutputRecords": found.rows,
            "FinishedPercentage": 100 * over,
        }
        members = (element(name, str(number)) for name, number in facts.items())
        body = DECLARATION + element("Progress", (element("Stage", members, ID="M1_job_0"),))
        return Response(body, media_type=XML)

    def _summary(self, asked: Asked) -> Response:
        """Handle ``get_task_summary`` with the run time and the numbers of rows.

        JDBC's ``executeUpdate`` returns the sum of the first numbers of ``Outputs``.
        """
        found = self._service.instances.get(asked.path["project"], asked.path["instance"])
        told = {}
        if found.ended is not None:
            text = f"run time: {found.ended - found.created:.3f} s\noutput records: {found.rows}"
            counts = json.dumps({"Outputs": dict(found.outputs)})
            told = {"Instance": {"Summary": text, "JsonSummary": counts}}
        finished = {"x-odps-task-finalized": "true" if found.is_over else "false"}
        return JSONResponse(told, headers=finished)

    def _absent(self, asked: Asked) -> Response:
        self._service.instances.get(asked.path["project"], asked.path["instance"])
        return JSONResponse({})

    def _source(self, asked: Asked) -> Response:
        found = self._service.instances.get(asked.path["project"], asked.path["instance"])
        return Response(found.source or element("Job", ""), media_type=XML)

    def _submit(self, call: control.SubmitSql, asked: Asked) -> Response:
        self._service.catalog.project(call.project)
        settings = call.settings  # excluding SET statements in the SQL text
        schema = settings.get("odps.default.schema") or asked.params.get("curr_schema")
        place = Place(
            project=call.project,
            schema=schema or None,
            owner=asked.access_id,
            three_parts=settings.get("odps.namespace.schema", "").lower() == "true",
            settings=settings,
            rights=self._service.rights,
            timezone=settings.get(control.SQL_ZONE) or self._service.settings.forms.sql_zone,
        )
        if asked.is_mcqa and not find_header(asked.wire.headers, CONNECTION):
            raise errors.invalid(f"the header {CONNECTION} is missing")
        source = (asked.wire.body or b"").decode("utf-8", "replace")
        job = re.search(r"<Job>.*</Job>", source, re.DOTALL)
        instance = self._service.instances.submit(
            place,
            call.sql,
            task=call.name,
            guid=call.unique_id,
            source=job[0] if job else "",
            patience=PATIENCE,
            estimates=call.estimates,
            ending=MCQA if asked.is_mcqa else "",
        )
        location = f"{asked.base}/api/projects/{call.project}/instances"
        # a MaxQA client takes the result from the status
        result = self._result(instance) if instance.is_over and not asked.is_mcqa else None
        content, headers = control.SubmittedInstance(
            instance_id=instance.instance_id, result=result
        ).encode(location=location)
        if asked.is_mcqa:
            headers[COOKIE] = instance.instance_id
        return Response(content, status_code=200 if result else 201, headers=headers)

    def _cancel(self, call: control.CancelInstance, _asked: Asked) -> Response:
        self._service.instances.cancel(call.project, call.instance_id)
        return Response(status_code=200)

    def _instance(
        self,
        call: control.GetInstance | control.GetTaskStatus | control.GetInstanceResult,
        asked: Asked,
    ) -> Response:
        instances = self._service.instances
        if "instancestatus" in asked.params:
            instances.wait(call.instance_id, 5 * PATIENCE)
        found = instances.get(call.project, call.instance_id)
        if isinstance(call, control.GetInstanceResult):
            return reply(self._result(found).encode())
        tasks: tuple[control.TaskState, ...] = ()
        if isinstance(call, control.GetTaskStatus):
            tasks = (
                control.TaskState(
                    name=found.task,
                    status=found.status,
                    started_at=found.created,
                    ended_at=found.ended,
                ),
            )
        status = control.InstanceStatus(
            status="Terminated" if found.is_over else "Running",
            tasks=tasks,
            owner=found.owner,
            started_at=found.created,
            ended_at=found.ended,
        )
        content, headers = status.encode()
        if asked.is_mcqa and found.is_over and not tasks:  # the status includes the result
            content = self._result(found, described=True).encode()[0]
        return reply((content, headers))

    def _result(self, instance: Instance, *, described: bool = False) -> control.InstanceResult:
        text, kind = "", "csv"
        if instance.message:  # the message is an error or a cost estimate
            text, kind = instance.message, "text"
        elif instance.schema.columns:
            schema, batches = self._service.instances.rows(instance, 0, CSV_ROWS)
            if instance.is_query or len(schema) > 1:
                text = csv_text(schema, list(batches))
            else:  # the result of SHOW: one name per line
                names = (name for batch in batches for name in batch.column(0).to_pylist())
                text, kind = "".join(f"{name}\n" for name in names), "text"
        task = control.TaskResult(
            name=instance.task,
            status=instance.status,
            text=text,
            format=kind,
            descriptor=_descriptor(instance) if described else "",
        )
        status = "Terminated" if instance.is_over else "Running"
        return control.InstanceResult(tasks=(task,), status=status)


def _descriptor(instance: Instance) -> str:
    """Return the JSON that tells whether a job is a query, and its columns."""
    if not (instance.schema.columns and instance.is_query):
        return json.dumps({"IsSelect": False})
    columns = [{"Name": one.name, "Type": str(one.type)} for one in instance.schema]
    return json.dumps({"IsSelect": True, "Schema": {"Columns": columns}})


def _listed_instance(found: Instance) -> str:
    facts = {
        "Name": found.instance_id,
        "Owner": found.owner,
        "StartTime": date_text(found.created),
        "EndTime": date_text(found.ended),
        "Status": "Terminated" if found.is_over else "Running",
    }
    return element("Instance", (element(name, text) for name, text in facts.items()))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None
