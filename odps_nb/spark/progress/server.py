"""Where tasks report: a small listener in the driver's process.

One thread serves all connections and calls a `Receiver` from there. Whoever connects must show
the token in the first line, soon; what breaks a rule (another token, no JSON, a line too long)
ends that connection and nothing else. Knows no Spark: what a report means is the receiver's.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import selectors
import socket
import threading
import time
from typing import Protocol

from odps_nb.errors import ProtocolError
from odps_nb.spark.progress.messages import (
    MAX_LINE,
    STOP,
    Hello,
    LineBuffer,
    Report,
    decode_hello,
    decode_report,
    is_hello,
)
from odps_nb.spark.progress.planner_messages import Plan, State, decode_said, encode_answer

__all__ = ["MAX_CONNECTIONS", "Channel", "Receiver", "ReportServer"]

#: Connections at a time, about one for each slot of the executors.
MAX_CONNECTIONS = 1024
#: Seconds in which a connection must have said hello.
HELLO_WITHIN = 5.0

_log = logging.getLogger("odps_nb")


class Channel:
    """One connection: an attempt at a part, once ``hello`` is there."""

    def __init__(self, link: socket.socket) -> None:
        self.link: socket.socket = link
        self.lines: LineBuffer = LineBuffer()
        self.opened: float = time.monotonic()
        self.hello: Hello | None = None

    def stop(self) -> None:
        """Tell the task to stop, from any thread; it may have gone already."""
        with contextlib.suppress(OSError):
            self.link.send(STOP)


class Receiver(Protocol):
    """Who makes something of the reports; called by the server's thread, must not raise."""

    def opened(self, channel: Channel) -> bool:
        """Take note of an attempt that said hello; whether its reports are wanted."""

    def reported(self, channel: Channel, report: Report) -> None:
        """Take figures."""

    def closed(self, channel: Channel) -> None:
        """Take note that an attempt says nothing more."""

    def said(self, said: Plan | State) -> int:
        """Take note of a plan, or how a write stands; return the source that it is now."""

    def tick(self) -> float:
        """Do what is due; return the seconds until the next call."""


class ReportServer:
    """The listener. `start` opens the port and the thread, `close` ends both. Idempotent."""

    def __init__(self, receiver: Receiver, *, host: str = "127.0.0.1") -> None:
        self._receiver, self._host = receiver, host
        self.token: str = secrets.token_hex(16)
        self._selector: selectors.BaseSelector | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def start(self) -> tuple[str, int]:
        """Listen; return host and port."""
        listening = socket.create_server((self._host, 0), backlog=128)
        listening.setblocking(False)
        host, port = listening.getsockname()[:2]
        inside, self._wake = socket.socketpair()
        inside.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)
        self._selector.register(inside, selectors.EVENT_READ)
        self._thread = threading.Thread(
            target=self._run, args=(self._selector, listening), name="odps-nb-reports", daemon=True
        )
        self._thread.start()
        return host, port

    def close(self) -> None:
        """End the thread and all connections."""
        if self._thread is None:
            return
        self._closing.set()
        self.wake()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def wake(self) -> None:
        """Make the thread look up now: something may be due."""
        with contextlib.suppress(OSError):
            self._wake.send(b".")

    # -- the thread ---------------------------------------------------------------------------

    def _run(self, selector: selectors.BaseSelector, listening: socket.socket) -> None:
        wait = 0.0
        try:
            while not self._closing.is_set():
                for key, _ in selector.select(wait):
                    if isinstance(key.data, Channel):
                        self._read(selector, key.data)
                    elif key.fileobj is listening:
                        self._accept(selector, listening)
                    else:
                        key.fileobj.recv(64)  # type: ignore[union-attr]  # the end that wakes
                self._drop_silent(selector)
                wait = self._receiver.tick()
        finally:
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]  # all of them are sockets
            selector.close()
            self._wake.close()

    def _accept(self, selector: selectors.BaseSelector, listening: socket.socket) -> None:
        try:
            link, _ = listening.accept()
        except OSError:  # it went away before its turn
            return
        if len(selector.get_map()) >= MAX_CONNECTIONS + 2:
            _log.debug("a report was refused: there are %d connections", MAX_CONNECTIONS)
            link.close()
            return
        link.setblocking(False)
        selector.register(link, selectors.EVENT_READ, Channel(link))

    def _read(self, selector: selectors.BaseSelector, channel: Channel) -> None:
        try:
            chunk = channel.link.recv(MAX_LINE)
            if not chunk:
                self._drop(selector, channel)
                return
            for line in channel.lines.feed(chunk):
                self._take(channel, line)
        except BlockingIOError:
            return
        except (OSError, ProtocolError) as error:
            _log.debug("a connection of a task or planner ends: %s", error)
            self._drop(selector, channel)

    def _take(self, channel: Channel, line: bytes) -> None:
        if channel.hello is None:
            if not is_hello(line, self.token):
                channel.link.send(encode_answer(self._receiver.said(decode_said(line))))
                raise ConnectionAbortedError("a planner was answered")
            hello = decode_hello(line, self.token)
            channel.hello = hello
            if not self._receiver.opened(channel):
                channel.hello = None  # nobody knows of it: nothing to close for anybody
                raise ConnectionAbortedError(f"nobody waits for {hello!r}")
            return
        self._receiver.reported(channel, decode_report(line))

    def _drop(self, selector: selectors.BaseSelector, channel: Channel) -> None:
        selector.unregister(channel.link)
        channel.link.close()
        if channel.hello is not None:
            self._receiver.closed(channel)

    def _drop_silent(self, selector: selectors.BaseSelector) -> None:
        """End connections that never showed the token."""
        oldest = time.monotonic() - HELLO_WITHIN
        for key in list(selector.get_map().values()):
            channel = key.data
            if isinstance(channel, Channel) and channel.hello is None and channel.opened < oldest:
                self._drop(selector, channel)
