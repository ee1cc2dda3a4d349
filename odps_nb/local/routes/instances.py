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
from odps_nb.local.routes.table import XML, At, RequestContext, To, page, reply
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
_DATES = re.compile(r"(-?\d{1,15})?:(-?\d{1,15})?", re.ASCII)


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
        item_paths = ["/projects/{project}/instances/{instance}"]
        yield At(item_paths, Right.QUERY, self._source, keys=frozenset({"source"}))
        yield At(item_paths, Right.QUERY, self._progress, keys=frozenset({"instanceprogress"}))
        yield At(item_paths, Right.QUERY, self._summary, keys=frozenset({"instancesummary"}))
        # jobs of this service do not queue, and have no workers and no quota
        absent = frozenset({"cached", "instancedetail", "detail", "instancequota"})
        yield At(item_paths, Right.QUERY, self._absent, keys=absent)

    def _listed(self, context: RequestContext) -> Response:
        params = context.params
        status, dates = params.get("status", ""), params.get("daterange", ":")
        between = _DATES.fullmatch(dates)
        if between is None:
            raise errors.invalid(f"daterange is {dates[:40]!r}; write it as seconds: from:to")
        if status and status.capitalize() not in _STATES:
            raise errors.invalid(f"the status {status[:40]!r} is not one of {', '.join(_STATES)}")
        skip, most = page_range(context)
        instances = self._service.instances.listed(
            context.path["project"],
            owner=context.access_id if params.get("onlyowner") == "yes" else None,
            status=_STATES.get(status.capitalize(), ()),
            since=int(between[1]) if between[1] else None,
            until=int(between[2]) if between[2] else None,
            skip=skip,
            limit=most + 1,
        )
        marker = str(skip + most) if len(instances) > most else ""
        return page("Instances", map(_listed_instance, instances[:most]), marker=marker, most=most)

    def _progress(self, context: RequestContext) -> Response:
        """Handle ``get_task_progress``. Reports one worker for each statement."""
        instance = self._service.instances.get(context.path["project"], context.path["instance"])
        over = int(instance.is_over)
        facts = {
            "BackupWorkers": 0,
            "TerminatedWorkers": over,
            "RunningWorkers": 1 - over,
            "TotalWorkers": 1,
            "OutputRecords": instance.rows,
            "FinishedPercentage": 100 * over,
        }
        members = (element(name, str(number)) for name, number in facts.items())
        body = DECLARATION + element("Progress", (element("Stage", members, ID="M1_job_0"),))
        return Response(body, media_type=XML)

    def _summary(self, context: RequestContext) -> Response:
        """Handle ``get_task_summary`` with the run time and the numbers of rows.

        JDBC's ``executeUpdate`` returns the sum of the first numbers (row counts) of ``Outputs``.
        """
        job = self._service.instances.get(context.path["project"], context.path["instance"])
        document = {}
        if job.ended is not None:
            text = f"run time: {job.ended - job.created:.3f} s\noutput records: {job.rows}"
            counts = json.dumps({"Outputs": dict(job.outputs)})
            document = {"Instance": {"Summary": text, "JsonSummary": counts}}
        finished = {"x-odps-task-finalized": "true" if job.is_over else "false"}
        return JSONResponse(document, headers=finished)

    def _absent(self, context: RequestContext) -> Response:
        self._service.instances.get(context.path["project"], context.path["instance"])
        return JSONResponse({})

    def _source(self, context: RequestContext) -> Response:
        instance = self._service.instances.get(context.path["project"], context.path["instance"])
        return Response(instance.source or element("Job", ""), media_type=XML)

    def _submit(self, call: control.SubmitSql, context: RequestContext) -> Response:
        self._service.catalog.project(call.project)
        settings = call.settings  # excluding SET statements in the SQL text
        schema = settings.get("odps.default.schema") or context.params.get("curr_schema")
        place = Place(
            project=call.project,
            schema=schema or None,
            owner=context.access_id,
            three_parts=settings.get("odps.namespace.schema", "").lower() == "true",
            settings=settings,
            rights=self._service.rights,
            timezone=settings.get(control.SQL_ZONE) or self._service.settings.forms.sql_zone,
        )
        if context.is_mcqa and not find_header(context.wire.headers, CONNECTION):
            raise errors.invalid(f"the header {CONNECTION} is missing")
        source = (context.wire.body or b"").decode("utf-8", "replace")
        job = re.search(r"<Job>.*</Job>", source, re.DOTALL)
        instance = self._service.instances.submit(
            place,
            call.sql,
            task=call.name,
            guid=call.unique_id,
            source=job[0] if job else "",
            patience=PATIENCE,
            estimates=call.estimates,
            ending=MCQA if context.is_mcqa else "",
        )
        location = f"{context.base}/api/projects/{call.project}/instances"
        # a MaxQA client reads the result from the status
        result = self._result(instance) if instance.is_over and not context.is_mcqa else None
        content, headers = control.SubmittedInstance(
            instance_id=instance.instance_id, result=result
        ).encode(location=location)
        if context.is_mcqa:
            headers[COOKIE] = instance.instance_id
        return Response(content, status_code=200 if result else 201, headers=headers)

    def _cancel(self, call: control.CancelInstance, _context: RequestContext) -> Response:
        self._service.instances.cancel(call.project, call.instance_id)
        return Response(status_code=200)

    def _instance(
        self,
        call: control.GetInstance | control.GetTaskStatus | control.GetInstanceResult,
        context: RequestContext,
    ) -> Response:
        instances = self._service.instances
        if "instancestatus" in context.params:
            instances.wait(call.instance_id, 5 * PATIENCE)
        instance = instances.get(call.project, call.instance_id)
        if isinstance(call, control.GetInstanceResult):
            return reply(self._result(instance).encode())
        tasks: tuple[control.TaskState, ...] = ()
        if isinstance(call, control.GetTaskStatus):
            tasks = (
                control.TaskState(
                    name=instance.task,
                    status=instance.status,
                    started_at=instance.created,
                    ended_at=instance.ended,
                ),
            )
        status = control.InstanceStatus(
            status="Terminated" if instance.is_over else "Running",
            tasks=tasks,
            owner=instance.owner,
            started_at=instance.created,
            ended_at=instance.ended,
        )
        content, headers = status.encode()
        if context.is_mcqa and instance.is_over and not tasks:  # the status includes the result
            content = self._result(instance, described=True).encode()[0]
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
    """Return JSON that states whether a job is a query and describes the result's columns."""
    if not (instance.schema.columns and instance.is_query):
        return json.dumps({"IsSelect": False})
    columns = [{"Name": column.name, "Type": str(column.type)} for column in instance.schema]
    return json.dumps({"IsSelect": True, "Schema": {"Columns": columns}})


def _listed_instance(instance: Instance) -> str:
    facts = {
        "Name": instance.instance_id,
        "Owner": instance.owner,
        "StartTime": date_text(instance.created),
        "EndTime": date_text(instance.ended),
        "Status": "Terminated" if instance.is_over else "Running",
    }
    return element("Instance", (element(name, text) for name, text in facts.items()))
