"""A report on all questions contains no name, secret, id or value of the user."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.sql.query import run_sql
from odps_nb.local.server.launch import start
from odps_nb.probe.asking import Asker, Response
from odps_nb.probe.command import as_document, as_page
from odps_nb.probe.question import AS_ASSUMED, Observation, Question
from odps_nb.probe.redaction import Redactor, shown_code, shown_headers, shown_members
from odps_nb.probe.running import QUESTIONS, Finding, Prober
from odps_nb.terms import TableName
from tests.support.service.connecting import keys_of

TABLE = "quiet_orders"
NAMES = ("Hushed", "rows_of_mine", "inner_secret", "day_of_mine", "hush_project", TABLE, "mine")
VALUES = ("a value of mine", "777123", "2031-05-06", "part0")
ROWS = 4321


@pytest.fixture(scope="module")
def full_run() -> Iterator[tuple[Profile, str, str, Prober, list[Finding]]]:
    """A profile, the report on all questions (JSON and page), and the findings."""
    with start(samples=False, project="hush_project") as service:
        profile = Profile(**keys_of(service))
        with StorageClient(profile) as storage:
            run_sql(
                storage,
                f"CREATE TABLE {TABLE} (`Hushed` bigint, rows_of_mine string, n bigint,"
                " s struct<inner_secret:bigint>) PARTITIONED BY (day_of_mine string);",
            )
            rows = (
                f"SELECT a, '{VALUES[0]}', {VALUES[1]}, named_struct('inner_secret', a)"
                f" FROM (SELECT explode(sequence(1, {ROWS})) AS a) t"
            )
            target = f"{TABLE} PARTITION (day_of_mine='{VALUES[2]}')"
            run_sql(storage, f"INSERT INTO {target} {rows};")
        own = TableName(project=profile.project, table=TABLE)
        scratch = TableName(project=profile.project, table="mine")
        with Prober(profile, table=own, scratch=scratch, embedded=True) as prober:
            found = list(prober.ask(QUESTIONS))
        document = as_document(found, facts={"asked": "somebody"})
        assert prober.left_behind == []
        yield profile, json.dumps(document), as_page(document), prober, found


@pytest.mark.nightly
def test_the_embedded_service_behaves_as_assumed_for_each_question(full_run: Any) -> None:
    differs = "cannot tell: the embedded service differs from MaxCompute here"
    assert [one.question for one in full_run[4]] == list(QUESTIONS)
    for finding in full_run[4]:
        question = finding.question
        assert finding.verdict == (AS_ASSUMED if question.embedded else differs), question.id
        bound = question.request_bound if question.statements else question.requests
        assert finding.requests <= bound, question.id


@pytest.mark.parametrize("form", [1, 2], ids=["json", "page"])
def test_the_report_contains_no_name_value_or_key(full_run: Any, form: int) -> None:
    profile, text = full_run[0], full_run[form]
    port = profile.endpoint.rpartition(":")[2].partition("/")[0]
    hidden = [*NAMES, *VALUES, profile.access_id, profile.access_key, "127.0.0.1", port, str(ROWS)]
    assert [one for one in hidden if re.search(rf"\b{re.escape(one)}", text, re.I)] == []


@pytest.mark.parametrize("form", [1, 2], ids=["json", "page"])
def test_nothing_in_the_report_looks_like_an_id_or_a_token(full_run: Any, form: int) -> None:
    long_words = set(re.findall(r"[A-Za-z0-9+/=_-]{16,}", full_run[form]))
    compared = {"9007199254740992", "9007199254740993"}  # constants in a question
    assert {one for one in long_words if re.search(r"\d", one)} <= compared


def test_sessions_tokens_and_references_are_hidden(full_run: Any) -> None:
    for kind in ("session", "instance", "reference", "column"):
        assert re.search(rf"<{kind}-\d+>", full_run[1])
    for placeholder in ("<scratch-into>", "<table>", "<project>"):
        assert placeholder in full_run[1]
    hidden = full_run[3].redactor._placeholders
    assert len(hidden) > 100
    assert [one for one in hidden if len(one) > 6 and one in full_run[1].lower()] == []


def test_a_report_contains_requests_and_observations(full_run: Any) -> None:
    document, page = json.loads(full_run[1]), full_run[2]
    assert [one["id"] for one in document["findings"]] == [one.id for one in QUESTIONS]
    for question in QUESTIONS:
        assert f"\n{question.id}: " in page
        assert question.text in page


def test_a_recorded_response_shows_only_listed_members() -> None:
    members = {"SplitsCount": 3, "SessionId": "s-1", "Owner": "me@corp", "Status": "for me@corp"}
    assert shown_members(members) == {
        "SplitsCount": 3,
        "Status": "<text>",
        "others": ["Owner", "SessionId"],
    }
    assert shown_headers({"X-Who": "me", "Content-Type": "a/b", "Retry-After": "me@corp"}) == {
        "content-type": "a/b"
    }
    assert shown_code("NoSuchTable") == "NoSuchTable"
    assert shown_code("table 'x' of me@corp") == "<no code>"


def test_names_are_replaced_whole_and_in_any_case() -> None:
    redactor = Redactor()
    redactor.hide("a", "column-1")
    redactor.hide("a.b", "column-2")
    redactor.hide("", "nothing")
    redactor.hide(None, "nothing")
    assert redactor.text("A table, a.b, `a`, aa, a_") == (
        "<column-1> table, <column-2>, `<column-1>`, aa, a_"
    )
    assert redactor.value({"a": ["A", 5, None]}) == {"a": ["<column-1>", 5, None]}


def test_schemas_tokens_and_the_host_of_the_tunnel_are_hidden(profile: Profile) -> None:
    table = TableName(project=profile.project, schema="quiet_schema", table="orders")
    prober = Prober(profile, table=table)
    prober._storage._tunnel = "http://dt.quiet.corp:8080"
    with prober:
        for name in ("AccessToken", "QuotaToken"):
            answer = Response(status=200, members={name: f"quiet-{name}"})
            prober._asker._learn(answer, "")
        text = "quiet_schema, dt.quiet.corp:8080, quiet-AccessToken, quiet-QuotaToken"
        assert prober.redactor.text(text) == "<schema>, <host>, <token-1>, <token-2>"


def test_a_verdict_contains_no_user_data(embedded: Any, profile: Profile) -> None:
    def ask(asker: Asker) -> Observation:
        return {"seen": f"orders of {profile.access_key} in {profile.project}"}

    question = Question(id="own", text="?", ask=ask, expected={"seen": "something"})
    table = TableName(project=profile.project, table="orders")
    with Prober(profile, table=table) as prober:
        (found,) = prober.ask([question])
    assert found.verdict == (
        "differs: seen is '<table> of <access-key> in <project>', assumed 'something'"
    )
