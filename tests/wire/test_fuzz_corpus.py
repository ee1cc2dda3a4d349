"""Every input in the fuzzing corpus satisfies its invariant, without atheris."""

import os

import pytest

from fuzz import kept
from fuzz.seeds import seeds
from fuzz.targets import TARGETS


@pytest.mark.gate(6)
@pytest.mark.parametrize("target", TARGETS)
def test_every_corpus_input_and_seed_satisfies_the_invariant(target: str) -> None:
    inputs = kept.inputs(target)
    assert inputs
    for data in inputs.values():
        TARGETS[target](data)


def test_every_archive_and_every_seed_belongs_to_a_fuzz_target() -> None:
    assert {*kept.targets(), *(target for target, _, _ in seeds())} == {*TARGETS}


@pytest.mark.nightly
def test_the_bytes_of_an_archive_do_not_depend_on_the_time(tmp_path, monkeypatch) -> None:
    before = kept.inputs("blocks")
    folder = kept.unpack("blocks", tmp_path / "blocks")
    monkeypatch.setattr(kept, "CORPUS", tmp_path / "archives")
    kept.pack("blocks", folder)
    first = (tmp_path / "archives" / "blocks.zip").read_bytes()
    os.utime(folder / next(name for name in before if not name.startswith("seed-")), (0, 0))
    kept.pack("blocks", folder)
    assert (tmp_path / "archives" / "blocks.zip").read_bytes() == first
    assert kept.inputs("blocks") == before
