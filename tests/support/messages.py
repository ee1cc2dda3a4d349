"""Replaces the browser of a widget: records the messages sent to it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

Message = tuple[dict[str, Any], Sequence[bytes]]


class Browser:
    """Records messages, and waits for one."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.came = threading.Condition()

    def send(self, content: dict[str, Any], buffers: Sequence[bytes]) -> None:
        """Record a message."""
        with self.came:
            self.messages.append((content, buffers))
            self.came.notify_all()

    def close(self) -> None:
        """Do nothing, as a widget without a browser."""

    def wait(self, kind: str, **facts: object) -> Message:
        """Return the first message of a kind with these values; wait for it."""

        def found() -> Message | None:
            for content, buffers in self.messages:
                if content["kind"] == kind and facts.items() <= content.items():
                    return content, buffers
            return None

        with self.came:
            assert self.came.wait_for(found, 60), self.messages
            message = found()
            assert message is not None
            return message

    def forget(self) -> None:
        """Discard the messages so far."""
        with self.came:
            self.messages.clear()


def came(browser: Browser) -> dict[int, dict[str, Any]]:
    """Return the received tiles of a gallery, by the number of their blob."""
    batches = [content["tiles"] for content, _ in browser.messages if content["kind"] == "tiles"]
    return {tile["index"]: tile for batch in batches for tile in batch}
