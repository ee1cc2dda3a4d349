"""Questions to the embedded service have limits and verdicts, and leave no table behind."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from odps_nb import connect
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.catalog import iter_table_names
from odps_nb.client.sql.query import run_sql
from odps_nb.errors import ConfigError
from odps_nb.local.server.launch import LocalService, start
from odps_nb.probe.asking import Asker, Response
from odps_nb.probe.question import AS_ASSUMED, CannotTell, Observation, Question
from odps_nb.probe.running import QUESTIONS, Prober, choose
from odps_nb.probe.steps import ProbeUpload, open_session
from odps_nb.terms import TableName
from tests.support.service.connecting import keys_of
from tests.support.spark.watched import misbehave

SAMPLE, MORE = "orders", ("media", "documents")


def profile_of(service: LocalService) -> Profile:
    return Profile(**keys_of(service))


def named(profile: Profile, table: str) -> TableName:
    return TableName(project=profile.project, table=table)


def tables(profile: Profile, prefix: str) -> list[str]:
    with StorageClient(profile) as storage:
        return [name for name in iter_table_names(storage) if name.startswith(prefix)]


def test_ids_of_questions_are_unique_words() -> None:
    ids = [one.id for one in QUESTIONS]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", one) for one in ids)


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    "sample", [SAMPLE, "types_all", *(pytest.param(s, marks=pytest.mark.nightly) for s in MORE)]
)
def test_without_the_option_write_no_question_writes(profile: Profile, sample: str) -> None:
    before = tables(profile, "")
    with Prober(profile, table=named(profile, sample)) as prober:
        found = [(one.question, one.verdict) for one in prober.ask(QUESTIONS)]
    assert tables(profile, "") == before
    for question, verdict in found:
        if question.writes:
            assert verdict == "cannot tell: it requires --write"
        elif question.embedded:
            assert verdict == AS_ASSUMED, question.id


def question_with(ask: Any, **more: Any) -> Question:
    made = {"id": "own", "text": "?", "expected": {}}
    return Question(ask=ask, **(made | more))


def test_a_failing_question_does_not_affect_the_others(profile: Profile) -> None:
    def broken(asker: Asker) -> Observation:
        raise RuntimeError("secret words")

    first, last = question_with(broken), choose(["session-expiry"])[0]
    with Prober(profile, table=named(profile, SAMPLE)) as prober:
        found = [one.verdict for one in prober.ask([first, last])]
    assert found == ["cannot tell: RuntimeError (unexpected)", AS_ASSUMED]


def test_limits_of_requests_rows_and_time_are_enforced(profile: Profile) -> None:
    table = named(profile, SAMPLE)

    def endless(asker: Asker) -> Observation:
        while True:
            asker.send("TablePreview", "table", body={"Limit": 1}, kind="rows")

    def greedy(asker: Asker) -> Observation:
        asker.send("TablePreview", "table", body={"Limit": 50}, kind="rows")
        return {}

    def greedy_query(asker: Asker) -> Observation:
        return {"rows": len(asker.select("SELECT id FROM orders LIMIT 2;"))}

    questions = [
        question_with(endless, requests=5),
        question_with(greedy, rows=49),
        question_with(greedy_query, rows=1, statements=1),
        question_with(endless, requests=10**6, rows=10**9, seconds=0.5),
        question_with(greedy, rows=50),
    ]
    with Prober(profile, table=table) as prober:
        found = list(prober.ask(questions))
    assert [one.verdict for one in found] == [
        "cannot tell: the request limit was reached",
        "cannot tell: the row limit was reached",
        "cannot tell: the row limit was reached",
        "cannot tell: the time limit was reached",
        AS_ASSUMED,
    ]
    assert [one.requests for one in found[:2]] == [questions[0].request_bound, 1]


def test_created_tables_are_dropped_after_an_error(profile: Profile) -> None:
    prober = Prober(profile, scratch=named(profile, "leaving"))

    def interrupted(asker: Asker) -> Observation:
        raise KeyboardInterrupt

    def leave_after_interrupt() -> None:
        with prober:
            for _ in prober.ask([question_with(interrupted, needs=("into", "parts"))]):
                pass

    with pytest.raises(KeyboardInterrupt):
        leave_after_interrupt()
    assert tables(profile, "leaving") == []
    assert prober.left_behind == []


def test_the_next_run_cleans_up_after_a_killed_run(profile: Profile) -> None:
    killed = Prober(profile, scratch=named(profile, "killed"))
    killed.start()
    list(killed.ask([question_with(lambda asker: {}, needs=("into",))]))
    assert tables(profile, "killed") == ["killed_into"]  # the killed run never calls `close`
    with Prober(profile, scratch=named(profile, "killed")):
        assert tables(profile, "killed") == []


def test_a_table_of_another_user_is_not_changed(profile: Profile) -> None:
    name = f"own{time.monotonic_ns()}"
    with StorageClient(profile) as storage:
        run_sql(storage, f"CREATE TABLE {name}_into (a bigint);")
        with (
            pytest.raises(ConfigError, match="was not created by a probe"),
            Prober(profile, scratch=named(profile, name)),
        ):
            pass
        assert tables(profile, name) == [f"{name}_into"]
        run_sql(storage, f"DROP TABLE {name}_into;")


def test_a_key_without_permissions_gives_the_verdict_cannot_tell(profile: Profile) -> None:
    with StorageClient(profile) as storage:
        stranger = Profile(
            endpoint=profile.endpoint,
            tunnel_endpoint=storage.tunnel_endpoint,
            project=profile.project,
            access_id=profile.access_id,
            access_key="wrong",
        )
    with Prober(stranger, table=named(profile, SAMPLE)) as prober:
        (found,) = prober.ask(choose(["session-expiry"]))
    assert found.verdict.startswith("cannot tell: the account lacks permission (40")
    assert found.seen is None


def _opens(asker: Asker) -> Observation:
    return open_session(asker, "table").need().outcome()


def _runs(asker: Asker) -> Observation:
    asker.run("SELECT 1;")
    return {}


REFUSALS: list[tuple[Any, dict[str, Any], str]] = [
    (_opens, {"code": "InvalidArgument"}, "a preparatory request failed (400 InvalidArgument)"),
    (_opens, {"status": 503, "code": "Busy"}, "the service failed (503 Busy)"),
    (
        _opens,
        {"status": 400, "code": "for me@corp"},
        "a preparatory request failed (400 <no code>)",
    ),
    (_opens, {"fault": "corrupt"}, "the response is not a JSON object"),
    (_runs, {"code": "NoPermission"}, "the account lacks permission to run this statement"),
    (_runs, {"status": 503}, "ServerFaultError (unexpected)"),
]


def test_a_failed_request_is_sent_once_and_gives_the_verdict_cannot_tell() -> None:
    with start(options=("--misbehave",)) as service:
        profile = profile_of(service)
        connection = connect(**keys_of(service))
        with connection, Prober(profile, table=named(profile, SAMPLE)) as prober:
            for ask, rule, told in REFUSALS:
                path = "TableCreateReadSession" if ask is _opens else "/api/projects"
                misbehave(connection, {"action": path, "fault": "status", "times": 0, **rule})
                (found,) = prober.ask([question_with(ask, statements=1)])
                assert (found.verdict, found.requests) == (f"cannot tell: {told}", 1), rule


def test_a_table_that_could_not_be_filled_is_not_used() -> None:
    with start(samples=False, options=("--misbehave",)) as service:
        profile = profile_of(service)
        connection = connect(**keys_of(service))
        with connection, Prober(profile, scratch=named(profile, "t")) as prober:
            misbehave(connection, {"action": "TableWrite", "fault": "status", "code": "Busy"})
            asked = [question_with(_opens, needs=("plain",))] * 2
            found = [one.verdict for one in prober.ask(asked)]
    assert found[0].startswith("cannot tell: the service failed (503"), found
    assert found[1].startswith("cannot tell: the table 'plain' could not be created"), found


def test_a_verdict_states_the_observed_and_the_assumed_values() -> None:
    question = question_with(lambda asker: {}, expected={"a": 1, "b": (2, 3)})
    assert question.verdict({"a": 1, "b": 3, "c": 4}) == AS_ASSUMED
    assert question.verdict({"a": 0}) == "differs: a is 0, assumed 1; b is None, assumed 2 or 3"


def test_each_question_has_a_section_on_the_page_and_vice_versa(repo: Path) -> None:
    page = (repo / "docs/open-questions.md").read_text("utf-8")
    tables = page.partition("\n## Connecting")[2]
    rows = [line for line in tables.splitlines() if re.match(r"\| (?!question \|)", line)]
    assert len(rows) > 40
    named_there: list[str] = []
    for row in rows:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert len(cells) == 3, row
        ids = re.fullmatch(r"`[a-z-]+`(?:, `[a-z-]+`)*", cells[2])
        assert ids or re.fullmatch(r"[A-Z].*\.", cells[2]), row
        named_there += re.findall(r"`([a-z-]+)`", cells[2]) if ids else []
    assert sorted(named_there) == sorted(one.id for one in QUESTIONS)


def test_a_question_states_why_it_cannot_be_tested(profile: Profile) -> None:
    def ask(asker: Asker) -> Observation:
        raise CannotTell("the moon is full")

    with Prober(profile, table=named(profile, SAMPLE)) as prober:
        (found,) = prober.ask([question_with(ask)])
    assert (found.verdict, found.seen) == ("cannot tell: the moon is full", None)


def test_a_write_session_that_a_question_left_open_is_aborted(profile: Profile) -> None:
    opened: list[ProbeUpload] = []

    def leave_open(asker: Asker) -> Observation:
        opened.append(ProbeUpload(asker, "into"))
        return opened[0].open("a").need().outcome()

    def reuse_session(asker: Asker) -> Observation:
        return opened[0].open("b").outcome()

    with Prober(profile, scratch=named(profile, "open")) as prober:
        both = [question_with(ask, needs=("into",)) for ask in (leave_open, reuse_session)]
        first, second = prober.ask(both)
    assert first.seen is not None
    assert first.seen["refused"] is False
    assert second.seen is not None
    assert second.seen["refused"] is True


@pytest.mark.nightly
def test_a_session_is_polled_at_most_the_stated_number_of_times(profile: Profile) -> None:
    answers = [Response(status=200, members={"Status": "initiating"}), Response(status=200)]
    initial = Response(status=200, members={"SessionStatus": "INIT"})
    prober = Prober(profile)
    prober._asker.begin(requests=0, rows=0, seconds=0.0)  # without time left, a wait takes 0.1 s
    ready = prober._asker.ready(initial, lambda: answers.pop(0))
    assert (ready.members, answers) == ({}, [])
    with pytest.raises(CannotTell, match="was not ready after"):
        prober._asker.ready(initial, lambda: initial)
    prober.close()


def test_a_service_that_differs_from_the_assumptions_is_detected() -> None:
    options = ("--filter-block-rows", "1", "--kept-ranges")
    with start(samples=False, options=options) as service:
        profile = profile_of(service)
        chosen = choose(["filter-record-count", "filter-ranges", "filter-block-size", "skip-rows"])
        with Prober(profile, scratch=named(profile, "t")) as prober:
            found = {one.question.id: one.verdict for one in prober.ask(chosen)}
    assert found == {
        "filter-record-count": "differs: counted is 'rows kept', assumed 'rows stored'",
        "filter-ranges": "differs: record_count is 1, assumed 30000;"
        f" range is 'refused', assumed {list(range(20_000, 20_010))}",
        "filter-block-size": "differs: rows is 1, assumed 10000",
        "skip-rows": AS_ASSUMED,
    }


@pytest.mark.nightly
def test_a_service_that_stops_affects_only_the_remaining_questions() -> None:
    with start(samples=False) as service:
        profile = profile_of(service)
        prober = Prober(profile, scratch=named(profile, "t"))
        prober.start()
        (first,) = prober.ask(choose(["commit-twice"]))
        assert first.seen is not None
    (second,) = prober.ask(choose(["commit-twice"]))
    prober.close()
    assert second.verdict == "cannot tell: ConnectError (unexpected)"
    assert second.requests == 1
    assert "<scratch-into> may remain (ConnectError)" in prober.left_behind


# -- the services that transfer rows ----------------------------------------------------------


@pytest.mark.parametrize("refusal", ["not-found", "no-permission", "quota", "no-path", "region"])
@pytest.mark.gate(2)
def test_the_report_names_the_services_that_transfer_rows(refusal: str) -> None:
    options = ("--services", "tunnel", "--form", f"refusal={refusal}")
    with start(options=options) as service:
        profile = profile_of(service)
        with Prober(profile, table=named(profile, SAMPLE)) as prober:
            chosen = choose(["transfer-services", "refusal-table", "sql-like", "session-expiry"])
            found = {one.question.id: one for one in prober.ask(chosen)}
    services = found["transfer-services"]
    assert services.seen is not None
    assert (services.verdict, services.seen["tunnel"]) == (AS_ASSUMED, "answered")
    assert services.seen["auto"] == "tunnel"
    for name in ("Storage API", "Storage API v1"):
        assert re.fullmatch(r"40[034]( [A-Za-z]+)?", str(services.seen[name]))
    assert services.requests <= 16
    # these services refuse all requests
    for question in ("refusal-table", "session-expiry"):
        assert found[question].verdict == "cannot tell: the account lacks the Storage API"
        assert found[question].requests == 0
    assert found["sql-like"].verdict == AS_ASSUMED  # its results arrive by the tunnel
    text = json.dumps([services.verdict, services.seen, services.exchanges])
    for hidden in (profile.project, profile.access_id, profile.access_key, SAMPLE, "2024-01-01"):
        assert hidden is not None
        assert hidden not in text


def test_services_are_checked_with_an_empty_table_if_no_table_is_named(profile: Profile) -> None:
    with Prober(profile, scratch=named(profile, "serving")) as prober:
        (found,) = prober.ask(choose(["transfer-services"]))
        assert tables(profile, "serving") == ["serving_empty"]
    assert found.verdict == AS_ASSUMED
    assert found.seen is not None
    assert set(found.seen) == {"Storage API", "Storage API v1", "tunnel", "auto"}


def test_a_table_that_no_service_reads_gives_the_verdict_cannot_tell(profile: Profile) -> None:
    with StorageClient(profile) as storage:
        run_sql(storage, "CREATE VIEW IF NOT EXISTS seen_orders AS SELECT id FROM orders;")
    with Prober(profile, table=named(profile, "seen_orders")) as prober:
        (found,) = prober.ask(choose(["transfer-services"]))
    assert found.verdict.startswith("cannot tell: no service can read the table: it is a view")
    with StorageClient(profile) as storage:
        run_sql(storage, "DROP VIEW seen_orders;")
