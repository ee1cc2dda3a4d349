"""Memory of the kernel and of the parser process for malicious files."""

import json
import os
import subprocess
import sys

import pytest

from tests.corpora.hostile import CONVERTED, SHOWN
from tests.corpora.runs import note
from tests.support.corpora import ROOT

# takes a minute; tests/convert/test_hostile_content.py and tests/notebook/preview/test_decoders.py
# test the outcomes for the same files
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def peaks():
    """The measurements of a child process for each file, by name."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.corpora.hostile"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, (list(found)[-1:], done.stderr[-2000:])
    for one in found.values():
        note({"hostile": one})
    return found


@pytest.mark.parametrize("name", [*SHOWN, *CONVERTED])
def test_a_malicious_file_takes_no_more_memory_than_documented(peaks, name):
    found = peaks[name]
    assert found["kernel"] <= found["bound"]
    assert (found["child"] or 0) <= found["memory"]  # absent if the process was not used
