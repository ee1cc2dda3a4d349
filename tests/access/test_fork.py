"""After a fork during any operation, each process receives only its own responses."""

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
def proxy(request, service, authority, trusted):
    """A proxy in front of the service that records which process uses which connection."""
    parts = urlsplit(service.endpoint)
    tls = server_context(authority) if request.param == "https" else None
    with TlsFront((parts.hostname, parts.port), tls, listens=True) as proxy:
        yield proxy


@pytest.fixture
def settings(proxy, service):
    return {
        "endpoint": f"{proxy.url}{urlsplit(service.endpoint).path}",
        "tunnel_endpoint": proxy.url,
        "project": service.project,
        "access_id": service.access_id,
        "access_key": service.access_key,
    }


def exit_codes(*job: object) -> list[int]:
    """Run a job of `fork_job`, and return the exit statuses of its children."""
    done = subprocess.run(
        [sys.executable, JOB, json.dumps(job)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr == ""
    codes: list[int] = json.loads(done.stdout)
    return codes


def processes_by_connection(proxy: TlsFront) -> list[set[str]]:
    """Return, for each connection, the processes that sent requests over it."""
    found = [
        set(re.findall(r"(?im)^user-agent: (pid-\d+)", one.decode("latin-1"))) for one in proxy.said
    ]
    return [each for each in found if each]


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("proxy", "way"), [("http", "fork"), ("https", "multiprocessing")], indirect=["proxy"]
)
def test_each_child_reads_its_own_partition(proxy, settings, way):
    codes = exit_codes("fork_readers", settings, way)
    assert codes == [0] * 8
    spoken = processes_by_connection(proxy)
    assert [each for each in spoken if len(each) > 1] == []
    assert len(set().union(*spoken)) >= 5  # the proxy recorded the parent and its children


@pytest.mark.storage_api("blobs")
@pytest.mark.nightly
@pytest.mark.parametrize("proxy", ["https"], indirect=True)
def test_only_the_parent_can_finish_operations_begun_before_a_fork(proxy, settings, new_name):
    assert exit_codes("fork_unfinished", settings, new_name("forked")) == [0, 0, 0]
    assert [each for each in processes_by_connection(proxy) if len(each) > 1] == []


@pytest.mark.parametrize("proxy", ["http"], indirect=True)
def test_locks_held_by_other_threads_are_free_in_a_child(settings):
    assert exit_codes("fork_with_held_locks", settings) == [0, 0, 0]


@pytest.mark.nightly
def test_an_embedded_service_outlives_the_children_of_its_parent():
    assert exit_codes("fork_embedded_service") == [0, 0]
