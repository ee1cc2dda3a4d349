"""A real kernel, used as a browser uses it: cells, interrupts and widget messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from queue import Empty
from typing import Any

from jupyter_client.manager import KernelManager

__all__ = ["CellError", "Front"]

TIMEOUT = 180.0  # seconds without the expected message that count as a hang


class CellError(Exception):
    """A cell raised an unexpected error; contains the traceback of the kernel."""


class Front:
    """Runs cells in a kernel and acts as the browser side of its widgets."""

    def __init__(self, environment: Mapping[str, str], folder: str) -> None:
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(env=dict(environment), cwd=folder)
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=TIMEOUT)
        self.opened: list[str] = []  # our widgets that the current cell has opened
        self._said: list[tuple[str, Mapping[str, Any]]] = []
        provisioner: Any = self._manager.provisioner
        self.pid: int = provisioner.pid

    def close(self) -> None:
        """End the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()

    def interrupt(self) -> None:
        """Interrupt the kernel, as the stop button does."""
        self._manager.interrupt_kernel()

    def run(
        self,
        code: str,
        *,
        error: str = "",
        on_output: Callable[[Mapping[str, Any]], None] = lambda content: None,
    ) -> str:
        """Run a cell; return its output.

        ``error`` is the name of the error that it must end with. The cell is not stored
        in IPython's history, which grows by design.
        """
        self.opened.clear()
        self._said.clear()
        number, printed = self._client.execute(code, store_history=False), []
        while True:
            message = self._heard()
            if message["parent_header"].get("msg_id") != number:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind == "stream" and content["name"] == "stdout":
                printed.append(content["text"])
            if kind in ("display_data", "update_display_data"):
                on_output(content["data"])
        reply: Mapping[str, Any] = self._reply(number)
        if reply.get("ename", "") != error:
            told = "\n".join(reply.get("traceback", ())) or f"it did not end with {error}"
            raise CellError(f"{code}\n{told}")
        return "".join(printed)

    def tell(
        self,
        widget: str,
        message: Mapping[str, Any],
        *,
        until: Sequence[str] = (),
    ) -> list[Mapping[str, Any]]:
        """Send a message to a widget; return its messages once all kinds in ``until`` arrive.

        Raises
        ------
        CellError
            The widget reports a problem.
        """
        self._said.clear()
        content = {"comm_id": widget, "data": {"method": "custom", "content": message}}
        session, socket = self._client.session, self._client.shell_channel.socket
        session.send(socket, "comm_msg", content)
        missing = set(until)
        while missing:
            told = [said for one, said in self._said if one == widget]
            if problems := [said for said in told if said["kind"] == "problem"]:
                raise CellError(f"{message}: {problems[0]['text']}")
            missing -= {said["kind"] for said in told}
            if missing:
                self._heard()
        return [said for one, said in self._said if one == widget]

    def _heard(self) -> Mapping[str, Any]:
        """Return the next message of the kernel; record the messages of its widgets."""
        try:
            message: Mapping[str, Any] = self._client.get_iopub_msg(timeout=TIMEOUT)
        except Empty:
            raise CellError(f"the kernel sent no message for {TIMEOUT:.0f} s") from None
        content = message["content"]
        if message["msg_type"] == "comm_open":
            if "static_id" in content["data"].get("state", {}):
                self.opened.append(content["comm_id"])
        elif message["msg_type"] == "comm_msg" and content["data"].get("method") == "custom":
            self._said.append((content["comm_id"], content["data"]["content"]))
        return message

    def _reply(self, number: str) -> Mapping[str, Any]:
        end = time.monotonic() + TIMEOUT
        while True:
            reply = self._client.get_shell_msg(timeout=end - time.monotonic())
            if reply["parent_header"].get("msg_id") == number:
                content: Mapping[str, Any] = reply["content"]
                return content
