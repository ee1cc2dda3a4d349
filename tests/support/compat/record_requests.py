"""Records the same jobs in both clients, and writes ``docs/results/requests.md``.

.venv/bin/python -m tests.support.compat.record_requests
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from odps_nb.local.server.launch import LocalService, start
from tests.support.compat.comparing import Sent
from tests.support.compat.recorder import recording
from tests.support.compat.same_jobs import JOBS, Job, open_place, record

PAGE = Path(__file__).parents[3] / "docs" / "results" / "requests.md"
VERSIONS = (2, 3)
# The comparison does not replace these values, because both clients must send the same ones.
_INSTANCE = re.compile(r"(?<=\.)instances\.\w+")
_REFERENCES = re.compile(r'(?<="BlobReferences": \[)([^]]*)')

HEAD = """# Requests, side by side

The stock `pyodps` package ({pyodps}) and odps_nb do the same jobs against the embedded service,
through a recording proxy (`tests/support/compat/recorder.py`). The comparison covers method, path,
parameters and their order, the relevant headers, and the body: JSON as text, rows as Arrow tables,
blob batches frame by frame. Session ids, tokens and commit messages, which the server generates,
are replaced by placeholders.

This page is written by `python -m tests.support.compat.record_requests`; the test
`tests/compat/test_same_requests.py` checks both the equality and this page.
"""

SETTINGS = """## Settings of both sides

The jobs use the same settings on both sides. The defaults differ on purpose:

| | stock client | odps_nb | why |
|---|---|---|---|
| splits without a filter | `Size`, 256 MiB | `RowOffset` | exact counts, resumable reads |
| rows per batch | 4096 | 20000, at most 16 MiB | fewer, larger batches |
| writes | plain | exactly once | a repeated upload is not stored twice |
| commit | all closed streams | the named streams | commits only this writer's streams |
| checksum in blob frames | none | CRC-32 | the server can detect damage |

## What is not compared

| | stock client | odps_nb |
|---|---|---|
{framing}
| `User-Agent`, `Date`, `Authorization`, retry ids | its own | our own |
"""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The requests of both clients for one job in one version of the API."""

    job: Job
    version: int
    theirs: list[Sent]
    ours: list[Sent]

    @property
    def verdict(self) -> str:
        """The result of the comparison as text."""
        if self.ours == self.theirs:
            return "equal"
        strip = self.job.strip.get(self.version)
        if strip is not None and [strip(one) for one in self.ours] == self.theirs:
            return "equal, except for the difference below"
        return "DIFFERENT"


def run_jobs(service: LocalService) -> list[Outcome]:
    """Run all jobs in both versions with both clients."""
    outcomes = []
    with recording(service.tunnel_endpoint) as recorder:
        for version in VERSIONS:
            place = open_place(service, recorder, version)
            with place.storage:
                for job in JOBS:
                    theirs = record(place, job.theirs, job.only)
                    ours = record(place, job.ours, job.only)
                    outcomes.append(Outcome(job=job, version=version, theirs=theirs, ours=ours))
    return outcomes


def page_of(outcomes: list[Outcome]) -> str:
    """Return the text of ``docs/results/requests.md``."""
    import odps

    by_job = {job.name: [o for o in outcomes if o.job.name == job.name] for job in JOBS}
    lines = [HEAD.format(pyodps=odps.__version__), "## Jobs", ""]
    lines += ["| job | requests | version 2 | version 3 |", "|---|---|---|---|"]
    for name, (two, three) in by_job.items():
        actions = " ".join(f"`{sent.action}`" for sent in two.ours)
        lines.append(f"| {name} | {actions} | {two.verdict} | {three.verdict} |")
    lines += ["", "## Differences", ""]
    lines += [f"* {job.name}: {job.explanation}" for job in JOBS if job.explanation]
    lines += [
        "",
        SETTINGS.format(framing="\n".join(_framing(outcomes))),
        "## Requests of version 2",
    ]
    for name, (two, _) in by_job.items():
        lines += ["", f"### {name}", "", "```", *_shown(two.ours), "```"]
    return "\n".join(lines) + "\n"


def _framing(outcomes: list[Outcome]) -> Iterator[str]:
    spelled = {"chunked": "`Transfer-Encoding: chunked`", "sized": "`Content-Length`"}
    told = set()
    for outcome in outcomes:
        for their, our in zip(outcome.theirs, outcome.ours, strict=True):
            if their.framing != our.framing and their.action not in told:
                told.add(their.action)
                yield (
                    f"| framing of `{their.action}` | {spelled[their.framing]} |"
                    f" {spelled[our.framing]} |"
                )


def _shown(sent: list[Sent]) -> Iterator[str]:
    for number, one in enumerate(sent):
        if number:
            yield ""
        yield _INSTANCE.sub("instances.<instance>", one.line)
        for name, value in one.headers.items():
            if name != "accept-encoding" or value != "identity":
                yield f"{name}: {value}"
        yield from _shown_body(one.body)


def _shown_body(body: object) -> Iterator[str]:
    if isinstance(body, dict):
        yield f"({len(body['rows'])} rows as one Arrow IPC stream)"
    elif isinstance(body, list):
        for header, data, footer in body:
            yield f"(frame: {header} · {len(data)} bytes · {footer})"
    elif isinstance(body, bytes):
        yield f"({len(body)} bytes)" if body else "(no body)"
    else:
        yield _REFERENCES.sub(_numbered, str(body)) or "(no body)"


def _numbered(match: re.Match[str]) -> str:
    count = match[1].count(",") + 1
    return ", ".join(f'"<reference {number}>"' for number in range(1, count + 1))


def main() -> int:
    """Record the requests and write the page; return 1 for an unexplained difference."""
    warnings.simplefilter("ignore")
    with start(samples=False) as service:
        outcomes = run_jobs(service)
    PAGE.write_text(page_of(outcomes), encoding="utf-8")
    different = [o for o in outcomes if o.verdict == "DIFFERENT"]
    print(f"{PAGE}: {len(outcomes)} jobs recorded, {len(different)} different")
    for outcome in different:
        print(f"  {outcome.job.name}, version {outcome.version}")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
