"""Every input of the fuzzing corpus holds its invariant, without atheris."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FUZZ = Path(__file__).parent.parent.parent / "fuzz"
INPUTS = sorted(path for path in (FUZZ / "corpus").rglob("*") if path.is_file())


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fuzz_{name}", FUZZ / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TARGETS = load("targets").TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_every_kept_input_holds_the_invariant(target: str) -> None:
    inputs = [path for path in INPUTS if path.parent.name == target]
    assert inputs
    for path in inputs:
        TARGETS[target](path.read_bytes())


def test_every_seed_of_the_script_is_kept_and_holds_too() -> None:
    for target, name, data in load("seeds").seeds():
        assert (FUZZ / "corpus" / target / f"seed-{name}").exists()
        TARGETS[target](data)
