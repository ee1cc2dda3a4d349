"""Assembles the parts of the embedded service for one folder, without HTTP.

Opening locks the folder, recovers from a crash and creates the project. Closing releases all
resources.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from odps_nb.local.duck import Duck
from odps_nb.local.forms import Forms
from odps_nb.local.reading.plan import ReadRules
from odps_nb.local.reading.sessions import ReadSessions
from odps_nb.local.rights import Rights
from odps_nb.local.sql.information import InformationSchema
from odps_nb.local.sql.instances import Instances
from odps_nb.local.sql.queries import QueryLimits, QueryRunner
from odps_nb.local.sql.run import SqlRunner
from odps_nb.local.store.blobs import BlobStore
from odps_nb.local.store.catalog import Catalog
from odps_nb.local.store.database import Database
from odps_nb.local.store.folder import DataFolder, new_id
from odps_nb.local.store.ledger import Ledger, check_without_catalog
from odps_nb.local.store.resources import Resources
from odps_nb.local.store.snapshots import Snapshots
from odps_nb.local.transfer_services import SERVICES
from odps_nb.local.writing.sessions import WriteSessions
from odps_nb.local.writing.upserts import Publisher

DEFAULT_PROJECT = "local"
WORKERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a service.

    ``reads`` sets the granularity of splits and filters; the defaults match the real service.
    ``forms`` selects response forms where the real service's response is uncertain. ``services``
    names the transfer services that exist; the others refuse all requests.
    """

    project: str = DEFAULT_PROJECT
    keys: Mapping[str, str] | None = None
    bearer_tokens: Mapping[str, str] | None = None
    sts_tokens: Mapping[str, str] | None = None
    schemas: bool = False
    durable: bool = True
    max_body: int = 16 * 2**30
    query_limits: QueryLimits | None = None
    rights: Mapping[str, Mapping[str, str]] | None = None
    reads: ReadRules = field(default_factory=ReadRules)
    strict_sql: bool = False
    forms: Forms = field(default_factory=Forms)
    services: frozenset[str] = frozenset(SERVICES)


class Service:
    """The service for one folder. ``prepare`` may fill the folder before its catalog is opened."""

    def __init__(
        self,
        root: Path,
        settings: Settings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        prepare: Callable[[DataFolder], object] | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.clock = clock
        self.folder = DataFolder(root, durable=self.settings.durable)
        try:
            if prepare is not None:
                prepare(self.folder)
            check_without_catalog(self.folder)
            self._open()
        except BaseException:
            self.folder.close()
            raise

    def _open(self) -> None:
        settings, clock = self.settings, self.clock
        self.keys = self.folder.access_keys(settings.keys)
        self.owner = next(iter(self.keys))
        self.rights = Rights(settings.rights)
        self.route_token = f"local-{secrets.token_hex(8)}"
        self.database = Database(self.folder.catalog, durable=settings.durable)
        try:
            Ledger(self.database, self.folder).check()
        except BaseException:
            self.database.close()
            raise
        self.catalog = Catalog(self.database, clock, schemas=settings.schemas)
        self.snapshots = Snapshots(self.database, self.catalog, self.folder, clock)
        self.blobs = BlobStore(self.database, self.folder, clock)
        self.resources = Resources(self.database, self.catalog, self.folder, clock)
        self.duck = Duck(spill=self.folder.work / f"spill-{new_id()}")
        self.read_sessions = ReadSessions(
            self.database,
            self.catalog,
            self.snapshots,
            self.folder,
            self.duck,
            clock,
            settings.reads,
            settings.forms,
        )
        self.publisher = Publisher(self.database, self.snapshots, self.folder)
        self.write_sessions = WriteSessions(
            self.database, self.catalog, self.publisher, self.blobs, self.folder, clock
        )
        self.queries = QueryRunner(self.folder.work, settings.query_limits or QueryLimits())
        runner = SqlRunner(
            self.catalog,
            self.snapshots,
            self.publisher,
            self.blobs,
            self.folder,
            self.queries,
            self.duck,
            InformationSchema(self.database, self.catalog, self.snapshots),
            strict=settings.strict_sql,
        )
        self.instances = Instances(self.database, self.folder, runner, clock, settings.forms)
        for project in (settings.project, *self.rights.projects):
            self.catalog.add_project(project, owner=self.owner)
        self.workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="odps-nb-work")
        self.tidy()

    def tidy(self) -> None:
        """Delete expired sessions, and files that no session or table references."""
        self.read_sessions.forget_expired()
        self.write_sessions.abort_expired()
        self.snapshots.collect()
        self.blobs.collect()
        self.resources.collect()

    def close(self) -> None:
        """Stop all work and release the folder. Idempotent."""
        self.instances.close()
        self.queries.close()
        self.workers.shutdown(wait=True, cancel_futures=True)
        self.duck.close()
        self.database.close()
        self.folder.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
