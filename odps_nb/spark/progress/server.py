"""Receives the reports of tasks and the events of planners: a listener in the driver's process.

One thread with an event loop of its own serves all connections and calls a `Receiver`. Whoever
connects must show the token in the first line, soon; what breaks a rule (another token, no JSON,
a line too long) ends that connection and nothing else. Knows no Spark.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import threading
from typing import Protocol

from odps_nb.errors import ProtocolError
from odps_nb.spark.progress.messages import (
    MAX_LINE,
    STOP,
    Answer,
    Hello,
    Message,
    PlanEvent,
    Report,
    WriteEvent,
    decode,
    encode,
)

__all__ = ["MAX_CONNECTIONS", "Channel", "Receiver", "ReportServer"]

#: Connections at a time, about one for each slot of the executors.
MAX_CONNECTIONS = 1024
#: Seconds in which a connection must have sent its first line.
HELLO_WITHIN = 5.0

_log = logging.getLogger("odps_nb")


class Channel:
    """The connection of a task that works on one part."""

    def __init__(self, loop: asyncio.AbstractEventLoop, writer: asyncio.StreamWriter) -> None:
        self._loop, self._writer = loop, writer

    def stop(self) -> None:
        """Tell the task to stop, from any thread; it may have gone already."""
        with contextlib.suppress(RuntimeError):  # the server was closed
            self._loop.call_soon_threadsafe(self._writer.write, STOP)


class Receiver(Protocol):
    """Takes what the server receives; called by the server's thread, must not raise."""

    def on_hello(self, channel: Channel, hello: Hello) -> bool:
        """Begin to follow an attempt; return whether its reports are wanted."""

    def on_report(self, channel: Channel, report: Report) -> None:
        """Take the counters of an attempt."""

    def on_close(self, channel: Channel) -> None:
        """Stop following an attempt: it has disconnected."""

    def on_planner_event(self, event: PlanEvent | WriteEvent) -> int:
        """Take a plan or commit event; return the number of its activity, or 0."""

    def on_tick(self) -> float:
        """Do what is due; return the seconds until the next call."""


class ReportServer:
    """The listener. `start` opens the port and the thread, `close` ends both. Idempotent."""

    def __init__(self, receiver: Receiver, *, host: str = "127.0.0.1") -> None:
        self._receiver, self._host = receiver, host
        self.token: str = secrets.token_hex(16)
        self._address: tuple[str, int] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closing, self._wake = False, asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    def start(self) -> tuple[str, int]:
        """Listen; return host and port."""
        if self._address is None:
            listening = socket.create_server((self._host, 0), backlog=128)
            self._address = listening.getsockname()[:2]
            self._loop = asyncio.SelectorEventLoop()
            self._thread = threading.Thread(
                target=self._run, args=(self._loop, listening), name="odps-nb-reports", daemon=True
            )
            self._thread.start()
        return self._address

    def close(self) -> None:
        """End the thread and all connections."""
        if self._loop is None or self._thread is None:
            return
        self._closing = True
        with contextlib.suppress(RuntimeError):  # closed before
            self._loop.call_soon_threadsafe(self._wake.set)
        if self._thread is not threading.current_thread():
            self._thread.join()

    # -- the thread ---------------------------------------------------------------------------

    def _run(self, loop: asyncio.AbstractEventLoop, listening: socket.socket) -> None:
        with contextlib.closing(loop):
            loop.run_until_complete(self._serve(listening))

    async def _serve(self, listening: socket.socket) -> None:
        limit = MAX_LINE - 1  # of what comes before the end of a line
        server = await asyncio.start_server(self._connected, sock=listening, limit=limit)
        try:
            while not self._closing:
                wait = self._receiver.on_tick()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), wait)
                self._wake.clear()
        finally:
            server.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await asyncio.sleep(0)  # in which transports close their sockets

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            _log.debug("a report was refused: there are %d connections", MAX_CONNECTIONS)
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), HELLO_WITHIN)
            kinds: tuple[type[Message], ...] = (Hello, PlanEvent, WriteEvent)
            first = decode(line, *kinds, token=self.token)
            self._wake.set()  # something new may be due earlier
            if isinstance(first, Hello):
                await self._follow(Channel(asyncio.get_running_loop(), writer), first, reader)
            elif isinstance(first, (PlanEvent, WriteEvent)):
                writer.write(encode(Answer(activity=self._receiver.on_planner_event(first))))
        except (TimeoutError, OSError, ValueError, ProtocolError) as error:
            # A ValueError is a line of more than MAX_LINE bytes.
            _log.debug("a connection of a task or planner ends: %s", error)
        finally:
            writer.close()

    async def _follow(self, channel: Channel, hello: Hello, reader: asyncio.StreamReader) -> None:
        if not self._receiver.on_hello(channel, hello):
            _log.debug("nobody waits for %r", hello)
            return
        try:
            while line := await reader.readline():
                self._receiver.on_report(channel, decode(line, Report))
        finally:
            self._receiver.on_close(channel)
