"""The address of a job's page is requested from a server over a socket."""

from __future__ import annotations

import dataclasses
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.sql.result import console_of, job_page


@contextmanager
def answering(text: str | None) -> Iterator[tuple[str, list[str]]]:
    """Yield a server that returns this text at /webconsole/host, or nothing, and its paths."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path.partition("?")[0])
            body = (text or "").encode()
            self.send_response(404 if text is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/api", asked
        finally:
            server.shutdown()
            thread.join()


def profile_of(endpoint: str, **facts: str) -> Profile:
    facts = {"region": "cn-hangzhou", **facts}
    return Profile(endpoint=endpoint, project="p1", access_id="a", access_key="k", **facts)


def test_the_job_page_is_on_the_console_that_the_service_names():
    with answering("https://console.example.com/\n") as (url, asked):
        with StorageClient(profile_of(url)) as storage:
            console = console_of(storage)
            assert console == "https://console.example.com/cn-hangzhou"
            page = job_page(storage, console, "2026g1")
        assert page == f"{console}/job-insights?h={url}&p=p1&i=2026g1"
        assert asked == ["/api/webconsole/host"]


@pytest.mark.parametrize(
    "text", [None, "", "http://plain.example.com", "https://me:key@host", "<html>", "javascript:1"]
)
def test_without_a_valid_response_there_is_no_job_page(text):
    with answering(text) as (url, _), StorageClient(profile_of(url)) as storage:
        assert console_of(storage) is None


def test_without_a_region_no_request_is_sent(odps):
    with answering("https://console.example.com") as (url, asked):
        without = dataclasses.replace(profile_of(url), region=None)
        with StorageClient(without) as storage:
            assert console_of(storage) is None
        assert asked == []
    assert odps.sql("select 1 as one").console_page() is None
