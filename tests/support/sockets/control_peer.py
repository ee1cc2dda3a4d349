"""The scripted peer of ``scripted``, also for the control plane."""

from __future__ import annotations

from dataclasses import replace

from odps_nb.wire.calls import decode_request
from odps_nb.wire.control import decode_control
from tests.support.sockets.scripted import Service, wire_of


class ControlService(Service):
    """Responds to storage actions and REST requests with the next step of their script."""

    def _talk(self, line) -> None:
        while (seen := line.head()) is not None:
            line.drain(seen)
            wire = replace(wire_of(seen), body=seen.body)
            if wire.path.startswith("/api/storage/"):
                request = decode_request(wire)
            else:
                request = decode_control(replace(wire, path=wire.path.removeprefix("/api")))
            name = type(request).__name__
            self.calls[name].append(request)
            steps = self._steps[name]
            step = steps.popleft() if len(steps) > 1 else steps[0]
            step(line, seen)
