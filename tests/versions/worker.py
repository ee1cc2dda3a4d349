"""A client of another language, as a process that runs jobs against the embedded service."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import odps_nb
from odps_nb.local.server.launch import LocalService
from tests.support.service.connecting import keys_of


class Worker:
    """A process with one client, which takes jobs as JSON lines and runs one after the other."""

    def __init__(self, command: Sequence[str], log: Path, service: LocalService) -> None:
        keys = {
            "CLIENT_ENDPOINT": service.endpoint,
            "CLIENT_PROJECT": service.project,
            "CLIENT_ID": service.access_id,
            "CLIENT_KEY": service.access_key,
        }
        self._log = log.open("w")
        self._process = subprocess.Popen(
            command,
            env=os.environ | keys,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )

    def __call__(self, job: str, **arguments: Any) -> Any:
        """Run a job and return its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"job": job, **arguments}), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise AssertionError(f"{answer['error']} (see {self._log.name})")
        return answer["result"]

    def close(self) -> None:
        """End the process, which stops at the end of its input."""
        with self._log, self._process as process:
            assert process.stdin is not None
            process.stdin.close()


def connected(service: LocalService, **more: Any) -> odps_nb.Connection:
    return odps_nb.connect(**more, **keys_of(service))
