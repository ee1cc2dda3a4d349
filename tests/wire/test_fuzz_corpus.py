"""Every input of the fuzzing corpus holds its invariant, without atheris."""

from pathlib import Path

import pytest

from fuzz.seeds import seeds
from fuzz.targets import TARGETS

FUZZ = Path(__file__).parent.parent.parent / "fuzz"
INPUTS = sorted(path for path in (FUZZ / "corpus").rglob("*") if path.is_file())


@pytest.mark.parametrize("target", TARGETS)
def test_every_kept_input_holds_the_invariant(target: str) -> None:
    inputs = [path for path in INPUTS if path.parent.name == target]
    assert inputs
    for path in inputs:
        TARGETS[target](path.read_bytes())


def test_every_seed_of_the_script_is_kept_and_holds_too() -> None:
    for target, name, data in seeds():
        assert (FUZZ / "corpus" / target / f"seed-{name}").exists()
        TARGETS[target](data)
