"""Lists all questions and asks them in order; a failed question does not stop the others."""

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
from odps_nb.probe import reads, services, sql, writes
from odps_nb.probe.asking import Asker, BoundedTransport
from odps_nb.probe.question import ANY, CannotTell, Observation, Question
from odps_nb.probe.redaction import Redactor
from odps_nb.probe.scratch import Scratch
from odps_nb.terms import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One question's redacted result; ``seen`` is ``None`` if there is no observation."""

    question: Question
    verdict: str
    seen: Observation | None
    exchanges: list[dict[str, Any]]
    requests: int


_STAND_INS = {"table": "plain", ANY: "empty"}
"""Kind of table that the probe creates if the user has named no table."""
QUESTIONS: tuple[Question, ...] = tuple(
    question for module in (services, reads, sql, writes) for question in module.QUESTIONS
)


def choose(ids: Iterable[str] = ()) -> tuple[Question, ...]:
    """Return the questions with these ids (all if empty); raise `ConfigError` for an unknown id."""
    chosen = set(ids)
    if unknown := chosen - {question.id for question in QUESTIONS}:
        raise ConfigError(
            f"there is no question with the id {', '.join(sorted(unknown))}",
            option="only",
            hint="run odps-nb probe --list to see all ids",
        )
    return tuple(question for question in QUESTIONS if not chosen or question.id in chosen)


class Prober:
    """Asks questions over one connection; leaving the ``with`` block drops the created tables.

    ``scratch`` is the name prefix of the created tables; without it, nothing is created or written.
    Without ``table``, the probe reads a table that it creates. If ``embedded``, questions that only
    the real service can answer are skipped.
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
        once = RetryPolicy(max_attempts=1)
        self._storage = StorageClient(profile, transport=self._transport, retry=once)
        self._asker = Asker(self._storage, self._transport, self.redactor, table)
        self._scratch = None if scratch is None else Scratch(self._asker, scratch)
        self._embedded = embedded
        self._may_drop = False  # set by `start` after checking who created existing tables
        self.left_behind: list[str] = []
        """Redacted descriptions of tables that could not be dropped; set by `close`."""

    def __enter__(self) -> Prober:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Connect to the service, and check for existing tables with the same names.

        Raises `OdpsNbError` if the service does not respond, or if a table that the probe would
        create already exists and was created by another program.
        """
        self._asker.begin(requests=2, rows=0, seconds=60.0)
        self.redactor.hide(urlsplit(self._storage.tunnel_endpoint).netloc, "host")
        if self._scratch is not None:
            self._scratch.start_clean()
            self._may_drop = True

    def close(self) -> None:
        """Drop the created tables, and close the connection."""
        try:
            if self._scratch is not None and self._may_drop:
                self._may_drop = False
                self.left_behind = self._scratch.drop()
        finally:
            self._storage.close()

    @property
    def requests(self) -> int:
        """Number of HTTP requests so far, including those to create tables."""
        return self._transport.sent

    def ask(self, questions: Iterable[Question]) -> Iterator[Finding]:
        """Ask the questions in order; yield one finding for each."""
        return map(self._ask, questions)

    def _ask(self, question: Question) -> Finding:
        asker, before = self._asker, self._transport.sent
        asker.begin(requests=0, rows=0, seconds=0.0)  # clear the previous question's records
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
        except Exception as error:  # noqa: BLE001  one failure must not stop the other questions
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
        """Create the tables that a question needs, or raise `CannotTell`."""
        if self._embedded and not question.embedded:
            raise CannotTell("the embedded service differs from MaxCompute here")
        tables = self._asker.tables
        for need in question.needs:
            if need in tables:
                continue
            if self._scratch is None:
                raise CannotTell(f"it requires --{'table' if need == 'table' else 'write'}")
            kind = _STAND_INS.get(need, need)
            try:
                if kind not in tables:
                    self._scratch.make(kind)
            except OdpsNbError as error:
                raise CannotTell(
                    f"the table {kind!r} could not be created ({type(error).__name__})"
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
    for table_name in (table, scratch):
        if table_name is not None:
            redactor.hide(table_name.project, "project")
            redactor.hide(table_name.schema, "schema")
    if table is not None:
        redactor.hide(table.table, "table")
    return redactor
