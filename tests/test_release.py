"""A release says the same version everywhere, names no person, and refuses what is not ready."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest
import release
import yaml

METADATA = "Metadata-Version: 2.4\nName: odps-nb\nLicense-Expression: {}\n"


def test_the_version_is_the_same_everywhere(repo: Path) -> None:
    versions = release.stated_versions(repo)
    assert len(versions) == 4
    assert len(set(versions.values())) == 1, versions


def test_the_citation_is_sound_and_names_the_authors_as_a_whole(repo: Path) -> None:
    cited = yaml.safe_load((repo / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)  # what CFF 1.2.0 demands
    assert cited["cff-version"] == "1.2.0"
    assert cited["authors"] == [{"name": "The odps_nb authors"}]
    project = (repo / "pyproject.toml").read_text("utf-8")
    assert f'license = "{cited["license"]}"' in project
    assert f'description = "{cited["abstract"]}"' in project


@pytest.mark.parametrize(
    ("changelog", "said"),
    [
        ("## Unreleased\n\n## 0.2.0 (2026-11-23)\n\n- x\n", []),
        ("## Unreleased\n\n- y\n\n## 0.2.0 (2026-11-23)\n\n- x\n", ["not empty"]),
        ("## Unreleased\n\n- y\n", ["not empty", "no part 0.2.0"]),
        ("## Unreleased\n\n## 0.2.0\n\n- x\n", ["no date"]),
        ("## Unreleased\n\n## 0.2.01 (2026-11-23)\n", ["no part 0.2.0"]),
    ],
)
def test_a_changelog_that_is_not_ready_is_told(changelog: str, said: list[str]) -> None:
    points = release.open_points(changelog, "0.2.0")
    assert len(points) == len(said)
    assert all(word in point for word, point in zip(said, points, strict=True))


def packed(folder: Path, wheel: dict[str, str], source: list[str]) -> list[Path]:
    """A wheel and a source distribution with these files."""
    paths = [folder / "odps_nb-1.whl", folder / "odps_nb-1.tar.gz"]
    with zipfile.ZipFile(paths[0], "w") as file:
        for name, text in wheel.items():
            file.writestr(name, text)
    (folder / "f").touch()
    with tarfile.open(paths[1], "w:gz") as file:
        for name in source:
            file.add(folder / "f", f"odps_nb-1/{name}")
    return paths


def test_what_is_missing_or_too_many_is_named(tmp_path: Path) -> None:
    about = "odps_nb-1.dist-info"
    tracked = {"odps_nb/a.py", "labextensions/odps-nb/x.js", "README.md"}
    wheel = {
        "odps_nb/a.py": "",
        "odps_nb-1.data/data/share/jupyter/labextensions/odps-nb/x.js": "",
        f"{about}/METADATA": METADATA.format("Apache-2.0"),
        f"{about}/licenses/LICENSE": "",
    }
    right = packed(tmp_path, wheel, [*tracked, "PKG-INFO", "setup.cfg"])
    assert release.wrong_contents(right, tracked) == []

    del wheel["odps_nb/a.py"], wheel[f"{about}/licenses/LICENSE"]
    wheel = {**wheel, "odps_nb/left.pyc": "", f"{about}/METADATA": METADATA.format("MIT")}
    wrong = release.wrong_contents(packed(tmp_path, wheel, ["odps_nb/a.py", "key.pem"]), tracked)
    for name in ("tar.gz: README.md", "tar.gz: key.pem", "whl: odps_nb/a.py", "whl: odps_nb/left"):
        assert any(name in line for line in wrong), name
    assert any("no LICENSE" in line for line in wrong)
    assert any("is MIT" in line for line in wrong)
