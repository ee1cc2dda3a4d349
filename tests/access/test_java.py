"""`find_java` finds a Java that Spark can use."""

from __future__ import annotations

from pathlib import Path

import pytest

from odps_nb.access.java import find_java
from odps_nb.errors import MissingDependencyError


def _install(home: Path, version: str, *, release: bool = True) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_takes_precedence(tmp_path: Path) -> None:
    named = _install(tmp_path / "named", "21.0.1")
    other = _install(tmp_path / "jvm" / "other", "17.0.1")
    env = {"JAVA_HOME": str(named), "PATH": str(other / "bin")}
    found = find_java(env, jvm_folder=tmp_path / "jvm")
    assert (found.home, found.version, found.source) == (named, 21, "JAVA_HOME")


def test_the_home_of_a_linked_java_on_the_path_is_found(tmp_path: Path) -> None:
    home = _install(tmp_path / "real", "17.0.9")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    found = find_java({"PATH": str(tmp_path / "bin")}, jvm_folder=tmp_path / "none")
    assert (found.home, found.source) == (home, "PATH")


def test_an_old_java_is_skipped_for_a_newer_one(tmp_path: Path) -> None:
    old = _install(tmp_path / "old", "1.8.0_392")
    for version in ("25", "17.0.2", "11.0.1"):
        _install(tmp_path / "jvm" / version, version)
    found = find_java({"JAVA_HOME": str(old), "PATH": ""}, jvm_folder=tmp_path / "jvm")
    assert found.version == 17


def test_without_a_release_file_java_is_run_to_get_its_version(tmp_path: Path) -> None:
    home = _install(tmp_path / "plain", "17.0.3", release=False)
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}, jvm_folder=tmp_path).version == 17


def test_the_error_for_missing_java_states_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="no Java was found") as caught:
        find_java({"PATH": ""}, jvm_folder=tmp_path)
    assert "openjdk-17" in str(caught.value.hint)


def test_an_error_for_an_old_java_names_its_version(tmp_path: Path) -> None:
    old = _install(tmp_path / "old", "11.0.2")
    with pytest.raises(MissingDependencyError, match=r"Java 11 in .*old \(JAVA_HOME\)"):
        find_java({"JAVA_HOME": str(old), "PATH": ""}, jvm_folder=tmp_path / "none")
