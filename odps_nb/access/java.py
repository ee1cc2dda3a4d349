"""Finds a Java installation for Spark, without pyspark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from odps_nb.errors import MissingDependencyError

MINIMUM_JAVA = 17
JVM_FOLDER = Path("/usr/lib/jvm")

_VERSION = re.compile(r'version\s+"?(?:1\.)?(\d+)')
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """One Java installation; ``source`` says where it was found."""

    home: Path
    version: int
    source: str


def find_java(environ: Mapping[str, str] | None = None, *, jvm_folder: Path | None = None) -> Java:
    """Search ``JAVA_HOME``, ``PATH`` and `JVM_FOLDER`, and return the first Java 17 or newer."""
    env = os.environ if environ is None else environ
    seen: list[Java] = []
    for java in _candidates(env, jvm_folder or JVM_FOLDER):
        if java.version >= MINIMUM_JAVA:
            return java
        seen.append(java)
    old = "; ".join(f"Java {java.version} in {java.home} ({java.source})" for java in seen)
    raise MissingDependencyError(
        f"Spark needs Java {MINIMUM_JAVA} or newer, but "
        + (f"only {old} was found" if seen else "no Java was found"),
        extra="spark",
        hint="install Java (Debian, Ubuntu: apt install openjdk-17-jre-headless; conda: "
        "conda install openjdk=17), or set JAVA_HOME to its folder",
    )


def _candidates(env: Mapping[str, str], folder: Path) -> Iterator[Java]:
    if home := env.get("JAVA_HOME"):
        yield from _at(Path(home), "JAVA_HOME")
    if program := shutil.which("java", path=env.get("PATH")):
        # /usr/bin/java is a symbolic link into the Java home, often through other links.
        yield from _at(Path(program).resolve().parent.parent, "PATH")
    homes = {home.resolve() for home in folder.glob("*")} if folder.is_dir() else set()
    rest = [java for home in sorted(homes) for java in _at(home, str(folder))]
    # Prefer the lowest version, because Spark has supported it longest.
    yield from sorted(rest, key=lambda java: java.version)


def _at(home: Path, source: str) -> Iterator[Java]:
    program = home / "bin" / "java"
    if program.is_file() and (version := _version(home, program)) is not None:
        yield Java(home=home, version=version, source=source)


def _version(home: Path, program: Path) -> int | None:
    try:
        # The release file, which some builds lack, can be read without starting a JVM.
        match = _RELEASE.search((home / "release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        match = None
    if match is None:
        try:
            completed = subprocess.run(
                [str(program), "-version"], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.SubprocessError):
            return None
        match = _VERSION.search(completed.stderr + completed.stdout)
    return int(match.group(1)) if match else None
