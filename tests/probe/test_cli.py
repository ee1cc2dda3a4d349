"""The command ``odps-nb probe`` writes reports and explains errors."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from odps_nb.cli import main
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.catalog import iter_table_names
from odps_nb.probe.running import QUESTIONS
from tests.support.pages import blocks


@pytest.fixture
def environment(embedded: Any, monkeypatch: pytest.MonkeyPatch) -> Profile:
    for name in ("endpoint", "project", "access_id", "access_key"):
        monkeypatch.setenv(f"ODPS_{name.upper()}", getattr(embedded, name))
    return Profile.resolve(None)


def names(profile: Profile, prefix: str) -> list[str]:
    with StorageClient(profile) as storage:
        return [name for name in iter_table_names(storage) if name.startswith(prefix)]


def test_the_option_list_shows_the_questions_and_sends_no_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODPS_ENDPOINT", "http://127.0.0.1:1/api")  # no server listens on this port
    assert main(["probe", "--list"]) == 0
    listed = capsys.readouterr().out
    for question in QUESTIONS:
        assert question.as_line() in listed
        assert f"at most {question.requests} requests" in question.as_line()


def test_a_probe_reads_a_table_and_writes_a_report(
    environment: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["probe", "--table", "orders", "--out", str(tmp_path / "there")]
    assert main([*words, "--only", "session-expiry", "commit-twice"]) == 0
    printed = capsys.readouterr().out
    assert "session-expiry: as assumed\ncommit-twice: cannot tell: it requires --write\n" in printed
    document = json.loads((tmp_path / "there/probe.json").read_text("utf-8"))
    assert [one["id"] for one in document["findings"]] == ["session-expiry", "commit-twice"]
    assert document["left_behind"] == []
    page = (tmp_path / "there/probe.txt").read_text("utf-8")
    assert "2 questions: 0 differs, 1 cannot tell, 1 as assumed" in page


def test_the_report_begins_with_the_services_that_transfer_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from odps_nb.local.server.launch import start

    with start(options=("--services", "storage-v1,tunnel", "--form", "refusal=quota")) as service:
        for name in ("endpoint", "project", "access_id", "access_key"):
            monkeypatch.setenv(f"ODPS_{name.upper()}", getattr(service, name))
        words = ["probe", "--table", "orders", "--only", "transfer-services"]
        assert main([*words, "--out", str(tmp_path)]) == 0
    line = "Storage API: 400 InvalidArgument, Storage API v1: answered, tunnel: answered"
    assert f"transfer-services: as assumed\n  {line}\n" in capsys.readouterr().out
    page = (tmp_path / "probe.txt").read_text("utf-8")
    assert page.splitlines()[3] == f"services: {line}"
    document = json.loads((tmp_path / "probe.json").read_text("utf-8"))
    assert document["services"] == line
    for text in (page, json.dumps(document)):
        assert "orders" not in text
        assert service.access_id not in text
        assert service.access_key not in text
        assert "default" not in text  # the quota that the error named


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no table was specified"),
        (["--write", "scratch"], "has no project"),
        (["--table", "orders", "--only", "nope"], "there is no question with the id nope"),
    ],
)
def test_invalid_arguments_are_reported_with_a_message(
    environment: Profile,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    assert main(["probe", "--out", str(tmp_path), *words]) == 1
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_report_is_reported_before_any_request(
    environment: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "a file"
    place.touch()
    assert main(["probe", "--table", "orders", "--out", str(place)]) == 1
    said = capsys.readouterr()
    assert "the report cannot be written to" in said.err
    assert "as assumed" not in said.out


def test_a_report_is_never_written_through_a_link(environment: Profile, tmp_path: Path) -> None:
    for name in ("probe.json", "probe.txt"):
        (tmp_path / name).symlink_to(tmp_path / f"other {name}")
        (tmp_path / f"other {name}").write_text("precious")
    words = ["probe", "--table", "orders", "--out", str(tmp_path), "--only", "session-expiry"]
    assert main(words) == 0
    for name in ("probe.json", "probe.txt"):
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / f"other {name}").read_text() == "precious"


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_cleans_up_and_reports_its_results(
    environment: Profile, tmp_path: Path, number: signal.Signals
) -> None:
    name = f"stopped_{number.name.lower()}"
    command = [sys.executable, "-m", "odps_nb.cli", "probe"]
    command += ["--write", f"{environment.project}.{name}", "--out", str(tmp_path)]
    command += [
        "--only",
        "commit-twice",
        *(one.id for one in QUESTIONS if one.id != "commit-twice"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("empty-table"):
            break
    assert names(environment, name)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert names(environment, name) == []
    document = json.loads((tmp_path / "probe.json").read_text("utf-8"))
    assert 0 < len(document["findings"]) < len(QUESTIONS)


def test_the_page_about_the_probe_runs_unchanged(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = blocks(repo / "docs/open-questions.md", "sh")
    monkeypatch.chdir(tmp_path)
    assert main(block.text.split()[1:]) == 0
    document = json.loads((tmp_path / "report/probe.json").read_text("utf-8"))
    assert document["asked"] == "the embedded service"
    assert {one["verdict"] for one in document["findings"]} == {"as assumed"}
