"""Runs the service under the recorder: what it does to its folder is noted, or made to fail."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from odps_nb.local.server.launch import LocalService, start

__all__ = ["Recorder"]

_NO_COMPILER = "the recorder needs a C compiler as `cc`; `make setup` installs one"
_SOURCE = Path(__file__).with_name("recorder.c")


class Recorder:
    """The recorder for one folder, ``disk``, in which the service has its own, ``root``."""

    def __init__(self, place: Path) -> None:
        self.disk, self.log = place / "disk", place / "log"
        self.root = self.disk / "root"
        self.disk.mkdir()
        self.log.touch()
        library, orders = place / "recorder.so", place / "orders"
        command = [
            shutil.which("cc") or pytest.fail(_NO_COMPILER),
            "-shared",
            "-fPIC",
            "-D_GNU_SOURCE",
            "-o",
            library,
            _SOURCE,
        ]
        subprocess.run([*command, "-ldl", "-lpthread"], check=True)
        orders.write_bytes(bytes(16))
        with orders.open("r+b") as file:
            self._orders = mmap.mmap(file.fileno(), 16)
        self.variables: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "DURABILITY_ROOT": str(self.disk),
            "DURABILITY_LOG": str(self.log),
            "DURABILITY_ORDERS": str(orders),
        }

    @property
    def position(self) -> int:
        """How much has been recorded."""
        return self.log.stat().st_size

    def order(self, call: int, errno: int, *, lasting: bool = False) -> None:
        """Let the ``call``-th call from now fail; 0 is a kill before it, -1 one after it."""
        self._orders[4:16] = struct.pack("=iii", errno, lasting, 0)
        self._orders[:4] = struct.pack("=i", call)

    def calm(self) -> int:
        """End the faults; return how many calls have failed."""
        self._orders[:4] = bytes(4)
        return int(struct.unpack("=i", self._orders[12:16])[0])

    @contextmanager
    def serve(self) -> Iterator[LocalService]:
        """Run the service on ``root``."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.variables.items():
                patch.setenv(name, value)
            service = start(self.root, samples=False)
        with service:
            yield service
