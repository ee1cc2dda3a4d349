"""Checks the installation, the profile and the service, without raising or showing secrets."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING

from odps_nb.access.java import find_java
from odps_nb.access.service_checks import SECONDS, Check, Verdict, check_service
from odps_nb.errors import ConfigError, MissingDependencyError, OdpsNbError

if TYPE_CHECKING:
    from odps_nb.client.auth.choice import SourceReport
    from odps_nb.client.auth.profile import Profile


def examine(
    profile: Profile | str | Callable[[], Profile] | None = None,
    *,
    online: bool = True,
    seconds: float = SECONDS,
) -> Iterator[Check]:
    """Check versions, checksums, Java, Spark, widgets, the profile, and the service.

    Yields the results one by one, since some checks take seconds. ``profile`` is a profile, its
    name, a function that returns a profile, or ``None`` for the default. ``online``: also check the
    project, the clock, SQL, and each service that transfers rows, for at most ``seconds``.
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
    chosen, checks = _profile(profile)
    yield from checks
    if chosen is not None and online:
        yield from check_service(chosen, seconds=seconds)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _versions(packages: Iterable[str]) -> str:
    return ", ".join(f"{name} {version}" for name in packages if (version := _version(name)))


def _libraries() -> Check:
    packages = ("odps-nb", "pyarrow", "pandas", "numpy", "requests", "zstandard", "lz4")
    lost = [name for name in packages if _version(name) is None]
    if lost:
        return Check("Libraries", "bad", _versions(packages), f"pip install {' '.join(lost)}")
    return Check("Libraries", "ok", _versions(packages))


def _checksums() -> Check:
    from odps_nb.wire import crc32c

    finding = f"CRC32C by {crc32c.IMPLEMENTATION}"
    if crc32c.crc32c(b"123456789") != 0xE3069283:
        to_do = "pip install --force-reinstall crc32c"
        return Check("Checksums", "bad", f"{finding}: wrong", to_do)
    if not crc32c.IS_FAST:
        to_do = (
            "pip install --force-reinstall crc32c; blob checks are slow without the CPU's "
            "CRC32C instruction"
        )
        return Check("Checksums", "optional", finding, to_do)
    return Check("Checksums", "ok", finding)


def _java() -> Check:
    try:
        java = find_java()
    except MissingDependencyError as error:
        to_do = f"only Spark needs it: {error.hint}"
        return Check("Java", "optional", error.message, to_do)
    finding = f"Java {java.version} in {java.home} ({java.source})"
    return Check("Java", "ok", finding)


def _optional(name: str, packages: tuple[str, ...], extra: str, why: str) -> Check:
    finding, lost = (
        _versions(packages),
        [package for package in packages if _version(package) is None],
    )
    if lost:
        finding = f"{', '.join(lost)} not installed" + (f"; {finding}" if finding else "")
        return Check(name, "optional", finding, f"{why}: pip install 'odps-nb[{extra}]'")
    return Check(name, "ok", finding)


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


def _profile(
    source: Profile | str | Callable[[], Profile] | None,
) -> tuple[Profile | None, list[Check]]:
    """Return the profile or ``None``, and the checks of the profile and of the settings."""
    from odps_nb.client.auth.profile import Profile

    if isinstance(source, Profile):
        return source, [Check("Profile", "ok", repr(source))]
    name = source if isinstance(source, str) else None
    checks: list[Check] = []
    try:
        if not callable(source):
            checks.append(_settings(Profile._findings(name)))
        profile = source() if callable(source) else Profile.resolve(name)
    except OdpsNbError as error:
        # The embedded service needs no profile, so only a missing named profile is an error.
        missing = source is None and isinstance(error, ConfigError)
        verdict: Verdict = "optional" if missing else "bad"
        return None, [*checks, Check("Profile", verdict, error.message, error.hint or "")]
    return profile, [*checks, Check("Profile", "ok", repr(profile))]


def _settings(findings: Sequence[SourceReport]) -> Check:
    """List the settings in each source, and the unused ones, by name; show no value."""
    summary = "; ".join(
        f"{report.source}: {', '.join(report.used)}" for report in findings if report.used
    )
    unused = [f"{report.source}: {setting}" for report in findings for setting in report.reasons()]
    if unused:
        summary += f"{'; ' if summary else ''}not used: {'; '.join(unused)}"
    to_do = "remove the unused settings if they are no longer needed" if unused else ""
    return Check(
        "Settings", "optional" if unused else "ok", summary or "no source has any settings", to_do
    )
