"""Lists all questions, and asks them in order; a failed one does not affect the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import ConfigError, OdpsNbError
from odps_nb.http.retry import RetryPolicy
from odps_nb.http.transport import RequestsTransport
from odps_nb.probe import reads, sql, writes
from odps_nb.probe.asking import Asker, BoundedTransport
from odps_nb.probe.question import CannotTell, Observation, Question
from odps_nb.probe.redaction import Redactor
from odps_nb.probe.scratch import Scratch
from odps_nb.terms import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The redacted result of one question; ``seen`` is ``None`` if it stays open."""

    question: Question
    verdict: str
    seen: Observation | None
    exchanges: list[dict[str, Any]]
    requests: int


QUESTIONS: tuple[Question, ...] = tuple(
    one for module in (reads, sql, writes) for one in module.QUESTIONS
)


def choose(ids: Iterable[str] = ()) -> tuple[Question, ...]:
    """Return the questions with these ids, or all; `ConfigError` for an unknown id."""
    wanted = set(ids)
    if unknown := wanted - {one.id for one in QUESTIONS}:
        raise ConfigError(
            f"there is no question {', '.join(sorted(unknown))}",
            option="only",
            hint="odps-nb probe --list names all",
        )
    return tuple(one for one in QUESTIONS if not wanted or one.id in wanted)


class Prober:
    """Asks questions over one connection; leaving its ``with`` block drops all tables it made.

    Without ``table``, one is made to read; without ``scratch``, the beginning of their names, none
    is made and nothing is written. Some questions do not apply to the ``embedded`` service.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        table: TableName | None = None,
        scratch: TableName | None = None,
        embedded: bool = False,
    ) -> None:
        self.redactor = _redactor(profile, table, scratch)
        self._transport = BoundedTransport(RequestsTransport())
        once = RetryPolicy(max_attempts=1, connect_attempts=1)
        self._storage = StorageClient(profile, transport=self._transport, retry=once)
        self._asker = Asker(self._storage, self._transport, self.redactor, table)
        self._scratch = None if scratch is None else Scratch(self._asker, scratch)
        self._embedded = embedded
        self._may_drop = False  # until the existing tables are checked, none is ours
        self.left_behind: list[str] = []
        """Tables that could not be dropped, without their names; set after the ``with`` block."""

    def __enter__(self) -> Prober:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Connect to the service, and check that no table of another owner is in the way.

        Raises `OdpsNbError`: the service does not answer, or a table that the probe would make
        exists and was made by another program.
        """
        self._asker.begin(requests=2, rows=0, seconds=60.0)
        self.redactor.hide(urlsplit(self._storage.tunnel_endpoint).netloc, "host")
        if self._scratch is not None:
            self._scratch.start_clean()
            self._may_drop = True

    def close(self) -> None:
        """Drop the tables made, and close the connection."""
        try:
            if self._scratch is not None and self._may_drop:
                self._may_drop = False
                self.left_behind = self._scratch.drop()
        finally:
            self._storage.close()

    @property
    def requests(self) -> int:
        """HTTP requests so far, including those that made tables."""
        return self._transport.sent

    def ask(self, questions: Iterable[Question]) -> Iterator[Finding]:
        """Ask one question after the other; yield the finding of each."""
        return map(self._ask, questions)

    def _ask(self, question: Question) -> Finding:
        asker, before = self._asker, self._transport.sent
        asker.begin(requests=0, rows=0, seconds=0.0)  # drop exchanges of the question before
        seen: Observation | None = None
        try:
            self._require(question)
            before = self._transport.sent
            asker.begin(
                requests=question.request_bound,
                rows=question.rows,
                seconds=question.second_bound,
            )
            seen = self.redactor.value(question.ask(asker))
            verdict = question.verdict(seen)
        except CannotTell as reason:
            verdict = f"cannot tell: {reason}"
        except Exception as error:  # noqa: BLE001  a failure must not stop the other questions
            verdict = f"cannot tell: {type(error).__name__} (unexpected)"
        finding = Finding(
            question=question,
            verdict=self.redactor.text(verdict),
            seen=seen,
            exchanges=self.redactor.value(asker.exchanges),
            requests=self._transport.sent - before,
        )
        asker.abort_writes()
        return finding

    def _require(self, question: Question) -> None:
        """Make the tables that a question needs, or raise `CannotTell`."""
        if self._embedded and not question.embedded:
            raise CannotTell("the embedded service differs here from MaxCompute")
        tables = self._asker.tables
        for need in question.needs:
            if need in tables:
                continue
            if self._scratch is None:
                raise CannotTell("it needs --table" if need == "table" else "it needs --write")
            kind = "plain" if need == "table" else need
            try:
                if kind not in tables:
                    self._scratch.make(kind)
            except OdpsNbError as error:
                raise CannotTell(
                    f"the table {kind!r} could not be made ({type(error).__name__})"
                ) from None
            tables[need] = tables[kind]


def _redactor(profile: Profile, table: TableName | None, scratch: TableName | None) -> Redactor:
    redactor = Redactor()
    for key, value in profile.as_options().items():
        if key not in ("api_version", "endpoint", "tunnel_endpoint"):
            redactor.hide(value, key.replace("_", "-"))
    for url in (profile.endpoint, profile.tunnel_endpoint):
        redactor.hide(url and urlsplit(url).netloc, "host")
        redactor.hide(url and urlsplit(url).hostname, "host")
    for one in (table, scratch):
        if one is not None:
            redactor.hide(one.project, "project")
            redactor.hide(one.schema, "schema")
    if table is not None:
        redactor.hide(table.table, "table")
    return redactor
