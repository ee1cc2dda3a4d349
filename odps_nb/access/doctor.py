"""Checks the installation, the profile and the service, without raising or showing secrets."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from importlib import metadata
from typing import TYPE_CHECKING, Literal

from odps_nb.access.java import find_java
from odps_nb.errors import ConfigError, MissingDependencyError, OdpsNbError, explain

if TYPE_CHECKING:
    from odps_nb.client.auth.profile import Profile
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.transfer_check import TransferCheck
    from odps_nb.terms import TransferMode

Verdict = Literal["ok", "optional", "bad"]
MAX_SKEW = 300.0
"""Clock skew in seconds that causes a warning; above 900 seconds, the service rejects requests."""
_TIMEOUT = 10.0
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check; ``optional`` marks components that only some features need."""

    name: str
    verdict: Verdict
    found: str
    to_do: str = ""

    @property
    def ok(self) -> bool:
        """Whether the verdict is ``ok``."""
        return self.verdict == "ok"


def examine(
    profile: Profile | str | Callable[[], Profile] | None = None, *, online: bool = True
) -> Iterator[Check]:
    """Check versions, checksums, Java, Spark, widgets, the profile, and the service.

    Yields the results one by one, since some checks take seconds. ``profile`` is a profile, its
    name, a function that returns a profile, or ``None`` for the default. ``online``: also check the
    endpoint, the clock, and each service that transfers rows.
    """
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Check("Python", "ok", f"{python} on {platform.system()}")
    yield _libraries()
    yield _checksums()
    yield _java()
    yield _optional("Spark", ("pyspark",), "spark", "for DataFrames in Spark")
    yield _widgets()
    service = ("duckdb", "sqlglot", "starlette", "uvicorn")
    yield _optional("Embedded service", service, "local", "for connect('local')")
    yield _optional("Keyring", ("keyring",), "keyring", "for access keys in the system keyring")
    chosen, check = _profile(profile)
    yield check
    if chosen is not None and online:
        yield from _service(chosen)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _versions(packages: Iterable[str]) -> str:
    return ", ".join(f"{name} {version}" for name in packages if (version := _version(name)))


def _libraries() -> Check:
    wanted = ("odps-nb", "pyarrow", "pandas", "numpy", "requests", "zstandard", "lz4")
    lost = [name for name in wanted if _version(name) is None]
    if lost:
        return Check("Libraries", "bad", _versions(wanted), f"pip install {' '.join(lost)}")
    return Check("Libraries", "ok", _versions(wanted))


def _checksums() -> Check:
    from odps_nb.wire import crc32c

    found = f"CRC32C by {crc32c.IMPLEMENTATION}"
    if crc32c.crc32c(b"123456789") != 0xE3069283:
        to_do = "pip install --force-reinstall crc32c"
        return Check("Checksums", "bad", f"{found}: wrong", to_do)
    if not crc32c.IS_FAST:
        to_do = (
            "pip install --force-reinstall crc32c; blob checks are slow without the CPU's "
            "CRC32C instruction"
        )
        return Check("Checksums", "optional", found, to_do)
    return Check("Checksums", "ok", found)


def _java() -> Check:
    try:
        java = find_java()
    except MissingDependencyError as error:
        to_do = f"only Spark needs it: {error.hint}"
        return Check("Java", "optional", error.message, to_do)
    found = f"Java {java.version} in {java.home} ({java.source})"
    return Check("Java", "ok", found)


def _optional(name: str, packages: tuple[str, ...], extra: str, why: str) -> Check:
    found, lost = _versions(packages), [one for one in packages if _version(one) is None]
    if lost:
        found = f"{', '.join(lost)} not installed" + (f"; {found}" if found else "")
        return Check(name, "optional", found, f"{why}: pip install 'odps-nb[{extra}]'")
    return Check(name, "ok", found)


def _widgets() -> Check:
    packages = ("ipython", "ipywidgets", "pillow", "tqdm")
    check = _optional("Notebook", packages, "notebook", "for magics and pictures")
    kernel = _version("ipykernel")
    if kernel is not None:
        check = replace(check, found=f"{check.found}, ipykernel {kernel}")
    if kernel == "7.4.0":
        to_do = "this release of ipykernel has defects: pip install 'ipykernel!=7.4.0'"
        check = replace(check, verdict="bad", to_do=to_do)
    return check


def _profile(wanted: Profile | str | Callable[[], Profile] | None) -> tuple[Profile | None, Check]:
    from odps_nb.client.auth.profile import Profile

    if isinstance(wanted, Profile):
        return wanted, Check("Profile", "ok", repr(wanted))
    try:
        profile = wanted() if callable(wanted) else Profile.resolve(wanted)
    except OdpsNbError as error:
        # The embedded service needs no profile, so only a missing named profile is an error.
        missing = wanted is None and isinstance(error, ConfigError)
        verdict: Verdict = "optional" if missing else "bad"
        return None, Check("Profile", verdict, error.message, error.hint or "")
    return profile, Check("Profile", "ok", repr(profile))


def ask_once(profile: Profile) -> Check:
    """Check with one request, without retries, whether the service accepts the key."""
    with _client(profile, timeout=_PATIENCE) as storage:
        return _try("Endpoint", lambda: _ask(storage, []))


def _client(profile: Profile, *, timeout: float) -> StorageClient:
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.options import ClientOptions

    once = ClientOptions(retries=0, connect_timeout=timeout, read_timeout=timeout)
    return StorageClient(profile, options=once)


def _ask(storage: StorageClient, dates: list[str]) -> str:
    """Request the project, append the response's date to ``dates``, and return a message."""
    from odps_nb.wire.calls import Scope
    from odps_nb.wire.control import GetProject

    project = storage.profile.project
    request = GetProject(project=project).encode(scope=Scope(curr_project=project))
    headers, _ = storage.rest(request)
    dates.append(headers.get("Date") or "")
    return f"{storage.profile.endpoint} responds"


def _service(profile: Profile) -> Iterator[Check]:
    with _client(profile, timeout=_TIMEOUT) as storage:
        dates: list[str] = []
        yield (reached := _try("Endpoint", lambda: _ask(storage, dates)))
        if not reached.ok:
            return
        yield _clock(dates[0], storage.now())
        names: list[str] = []
        yield (tables := _try("Tables", lambda: _list(storage, names)))
        if tables.ok:
            yield from _transfers(storage, names)
        else:
            found = f"{_UNCHECKED}: the tables could not be listed"
            yield Check("Rows", "optional", found, "follow the advice for the tables")


def _list(storage: StorageClient, names: list[str]) -> str:
    """Append the names of the tables to ``names``, and return a message."""
    from odps_nb.client.catalog import list_tables

    names += list_tables(storage)
    return f"{len(names)} in project {storage.profile.project}"


def _transfers(storage: StorageClient, names: list[str]) -> Iterator[Check]:
    """Check each service that transfers rows, and which of them a new connection uses."""
    from odps_nb.client.transfer_check import check_transfers, find_sample
    from odps_nb.terms import TransferMode

    try:
        sample = find_sample(storage, names)
    except OdpsNbError as error:  # the service does not respond
        yield Check("Rows", "bad", _told(error), error.hint or "")
        return
    if sample is None:
        yield _unchecked(names)
        return
    checks = check_transfers(storage, sample)
    working = next((one for one in checks if one.ok), None)
    for one in checks:
        yield _transfer(one, working)
    yield _rows(checks, TransferMode(storage.profile.client_options.transfer))


def _unchecked(names: list[str]) -> Check:
    from odps_nb.client.transfer_check import MAX_TABLES

    if not names:
        found, to_do = "the project has none", "create a table, and run the check again"
    else:
        found = (
            f"{', '.join(names[:MAX_TABLES])} cannot be used, as views, external tables, tables "
            "without partitions or readable columns, or tables that the key may not describe"
        )
        to_do = "read another table, e.g. with odps.table(…).head()"
    return Check("Rows", "optional", f"{_UNCHECKED}: {found}", to_do)


def _transfer(check: TransferCheck, working: TransferCheck | None) -> Check:
    from odps_nb.client.transfer import SWITCH_ON
    from odps_nb.terms import Transfer

    name = str(check.service)
    name = name[0].upper() + name[1:]
    if check.error is None:
        return Check(name, "ok", check.found)
    found, to_do = _told(check.error), check.error.hint or _ASK
    if check.missing and check.service is Transfer.STORAGE:
        to_do = f"blobs and incremental reads need it: {SWITCH_ON}" if working else SWITCH_ON
    elif check.missing and working is not None:
        to_do = f"ignore this while the {working.service} works"
    return Check(name, "bad" if working is None else "optional", found, to_do)


def _rows(checks: list[TransferCheck], mode: TransferMode) -> Check:
    from odps_nb.client.transfer_check import choice_among
    from odps_nb.terms import TransferMode

    by_mode = "" if mode is TransferMode.AUTO else f", because of transfer={mode.value!r}"
    chosen = choice_among(checks, mode)
    if chosen.ok:
        found = f"a new connection transfers rows by the {chosen.service}{by_mode}"
        return Check("Rows", "ok", found)
    found = f"a new connection cannot transfer rows: it uses the {chosen.service}{by_mode}"
    others = [other for other in TransferMode if choice_among(checks, other).ok]
    if others:
        return Check("Rows", "bad", found, f"connect with transfer={others[0].value!r}")
    return Check("Rows", "bad", "no service transfers rows", "follow the advice above")


_UNCHECKED = "no table was available to check with which service transfers rows"
_ASK = "check the endpoint, the quota and the permissions of the key"


def _try(name: str, ask: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", ask())
    except OdpsNbError as error:
        return Check(name, "bad", _told(error), error.hint or "")


def _told(error: OdpsNbError) -> str:
    """Return an error's message, code, status and request id, without its hint."""
    return "; ".join(line for line in explain(error) if not line.startswith("to do: "))


def _clock(date: str, now: float) -> Check:
    try:
        skew = now - parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return Check("Clock", "optional", "the service sends no Date header")
    found = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the service"
    if abs(skew) > MAX_SKEW:
        to_do = "set this machine's clock: requests are rejected if it is off by over 15 minutes"
        return Check("Clock", "bad", found, to_do)
    return Check("Clock", "ok", found)
