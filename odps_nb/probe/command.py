"""``odps-nb probe``: asks the service the open questions, prints verdicts and writes a report.

Before exiting, the command drops the tables that it created, even if interrupted or terminated.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ConfigError, OdpsNbError, explain
from odps_nb.probe import services
from odps_nb.probe.question import AS_ASSUMED, Question
from odps_nb.probe.running import Finding, Prober, choose
from odps_nb.terms import TableName, shorten

SCRATCH = "odps_nb_probe"
FORMAT = 1
_SHOWN = 200
_FINDING = ("verdict", "seen", "requests", "exchanges")


def main(words: Sequence[str], *, version: str) -> int:
    """Run the command; return 0, or 1 if it cannot start or may have left a table behind."""
    options = _parser().parse_args(words)
    try:
        questions = choose(options.only)
        if options.list:
            print("\n".join(question.as_line() for question in questions))
            return 0
        if not options.local:
            return _probe(Profile.resolve(options.profile), questions, options, version)
        from odps_nb.local.server.launch import start

        with start(samples=False) as service:
            names = ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key")
            profile = Profile(**{name: getattr(service, name) for name in names})
            options.table, options.write = None, f"{service.project}.{SCRATCH}"
            return _probe(profile, questions, options, version)
    except OdpsNbError as error:
        print("\n".join(explain(error)), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "stopped: the created tables were dropped; the report contains all questions asked",
            file=sys.stderr,
        )
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odps-nb probe",
        description="Ask a real service the open questions, and write a report without names.",
    )
    parser.add_argument("--profile", help="name of a profile; default: the one that connect() uses")
    parser.add_argument("--table", help="any table to read; it is never written to")
    parser.add_argument(
        "--write",
        metavar="PROJECT.NAME",
        help="create tables NAME_… to test writes as well, and drop them at the end",
    )
    parser.add_argument("--out", default="odps-nb-probe", help="folder for the report")
    parser.add_argument("--only", nargs="+", default=(), metavar="ID", help="questions to ask")
    parser.add_argument("--list", action="store_true", help="only print the questions")
    parser.add_argument(
        "--local", action="store_true", help="use a new embedded service instead of a real one"
    )
    return parser


def _probe(
    profile: Profile, questions: Sequence[Question], options: argparse.Namespace, version: str
) -> int:
    if not options.table and not options.write:
        raise ConfigError(
            "no table was specified",
            option="table",
            hint="pass a table to read (--table), or tables to create (--write PROJECT.NAME)",
        )
    _make(Path(options.out))
    prober = Prober(
        profile,
        table=profile.table(options.table) if options.table else None,
        scratch=_scratch(profile, options.write) if options.write else None,
        embedded=options.local,
    )
    findings: list[Finding] = []
    facts: dict[str, object] = {}
    with _on_signals(_exit, signal.SIGTERM):
        try:
            prober.start()
            for finding in prober.ask(questions):
                print(f"{finding.question.id}: {finding.verdict}", flush=True)
                if finding.question in services.QUESTIONS and finding.seen is not None:
                    facts["services"] = services.as_line(finding.seen)
                    print(f"  {facts['services']}", flush=True)
                findings.append(finding)
        finally:
            # ignore signals here: the clean-up ends at its own time limit
            with _on_signals(signal.SIG_IGN, signal.SIGTERM, signal.SIGINT):
                prober.close()
                if findings:
                    facts = {
                        "asked": "the embedded service" if options.local else "a service",
                        **facts,
                        "odps_nb": version,
                        "day": datetime.date.today().isoformat(),
                        "requests": prober.requests,
                        "left_behind": prober.left_behind,
                    }
                    _leave(Path(options.out), as_document(findings, facts=facts))
    for line in prober.left_behind:
        print(f"!! {line}; the service deletes it after a day", file=sys.stderr)
    return 1 if prober.left_behind else 0


def _scratch(profile: Profile, text: str) -> TableName:
    name = profile.table(text)
    if "." not in text:
        raise ConfigError(
            f"--write {text} has no project",
            option="write",
            hint=f"pass --write {profile.project}.{text} to use the project of the profile",
        )
    return name


def _make(folder: Path) -> None:
    """Create the report folder; remove any earlier report, even if it is a link."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("probe.json", "probe.txt"):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the report cannot be written to {folder}: {error.strerror}",
            option="out",
            hint="pass --out with a writable folder",
        ) from error


def _leave(folder: Path, document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False, default=str)
    page = as_page(document)
    for name, content in (("probe.json", text + "\n"), ("probe.txt", page)):
        with (folder / name).open("x", encoding="utf-8") as file:  # mode "x" never follows a link
            file.write(content)
    verdicts = page.split("\n\n", 1)[0].splitlines()
    print(f"{verdicts[-1]}\nreport: {folder / 'probe.txt'} and {folder / 'probe.json'}")


def _exit(number: int, _frame: FrameType | None) -> None:
    """Exit on SIGTERM as on Ctrl-C, so that tables are dropped."""
    raise SystemExit(128 + number)


@contextlib.contextmanager
def _on_signals(handler: Any, *signals: signal.Signals) -> Iterator[None]:
    before = {}
    for number in signals:
        with contextlib.suppress(ValueError):  # only the main thread can handle signals
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def as_document(findings: Iterable[Finding], *, facts: Mapping[str, object]) -> dict[str, Any]:
    """Return the report as JSON values; ``facts`` describes the run."""
    return {
        "format": FORMAT,
        **facts,
        "findings": [
            {
                "id": finding.question.id,
                "question": finding.question.text,
                **{name: getattr(finding, name) for name in _FINDING},
            }
            for finding in findings
        ],
    }


def as_page(document: Mapping[str, Any]) -> str:
    """Return the report as text: differences, unanswered questions, confirmed assumptions."""
    groups: dict[str, list[Any]] = {"differs": [], "cannot tell": [], AS_ASSUMED: []}
    for finding in document["findings"]:
        groups[finding["verdict"].partition(":")[0]].append(finding)
    facts = [f"{key}: {value}" for key, value in document.items() if not isinstance(value, list)]
    counts = ", ".join(f"{len(findings)} {name}" for name, findings in groups.items())
    lines = ["odps-nb probe", *facts, f"{len(document['findings'])} questions: {counts}"]
    lines += document.get("left_behind", [])
    for name, findings in groups.items():
        lines += ["", f"== {name} ({len(findings)})"]
        for finding in findings:
            lines += ["", *_finding(finding)]
    return "\n".join(lines) + "\n"


def _finding(finding: Mapping[str, Any]) -> Iterator[str]:
    yield f"{finding['id']}: {finding['verdict']}"
    yield f"  question: {finding['question']}"
    if finding["seen"] is not None:
        yield f"  seen: {_brief(finding['seen'])}"
    for exchange in finding["exchanges"]:
        request, answer = exchange["request"], exchange["answer"]
        values = [v for key, v in request.items() if key not in ("action", "target") and v]
        yield " ".join(["  >", request["action"], *map(_brief, values)])
        shown = {key: v for key, v in answer.items() if key not in ("headers", "members")}
        yield f"  < {_brief(shown)}"


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(text, _SHOWN)
