"""After a fork, both processes receive their own responses, whatever was in progress before."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.sockets.relays import TlsFront, server_context

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

JOB = Path(__file__).with_name("fork_job.py")


@pytest.fixture
def front(request, service, authority, trusted):
    """A proxy in front of the service that records which process uses which connection."""
    parts = urlsplit(service.endpoint)
    tls = server_context(authority) if request.param == "https" else None
    with TlsFront((parts.hostname, parts.port), tls, listens=True) as front:
        yield front


@pytest.fixture
def settings(front, service):
    return {
        "endpoint": f"{front.url}{urlsplit(service.endpoint).path}",
        "tunnel_endpoint": front.url,
        "project": service.project,
        "access_id": service.access_id,
        "access_key": service.access_key,
    }


def forked(*job: object) -> list[int]:
    """Run a job, and return the exit statuses of its children."""
    done = subprocess.run(
        [sys.executable, JOB, json.dumps(job)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr == ""
    codes: list[int] = json.loads(done.stdout)
    return codes


def speakers(front: TlsFront) -> list[set[str]]:
    """Return, for each connection, the processes that sent requests over it."""
    found = [
        set(re.findall(r"(?im)^user-agent: (pid-\d+)", one.decode("latin-1"))) for one in front.said
    ]
    return [each for each in found if each]


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("front", "way"), [("http", "fork"), ("https", "multiprocessing")], indirect=["front"]
)
def test_children_that_read_a_partition_each_get_it(front, settings, way):
    codes = forked("reading", settings, way)
    assert codes == [0] * 8
    spoken = speakers(front)
    assert [each for each in spoken if len(each) > 1] == []
    assert len(set().union(*spoken)) >= 5  # the parent and its children were recorded


@pytest.mark.nightly
@pytest.mark.parametrize("front", ["https"], indirect=True)
def test_unfinished_operations_stay_with_the_parent(front, settings, new_name):
    assert forked("halves", settings, new_name("halves")) == [0, 0, 0]
    assert [each for each in speakers(front) if len(each) > 1] == []


@pytest.mark.parametrize("front", ["http"], indirect=True)
def test_locks_that_other_threads_held_are_free_in_a_child(settings):
    assert forked("held", settings) == [0, 0, 0]


@pytest.mark.nightly
def test_an_embedded_service_outlives_the_children_of_its_parent():
    assert forked("local") == [0, 0]
