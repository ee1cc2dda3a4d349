"""What kernels of our tests and demos run first: a mend for ipykernel 7.0 to 7.3.

They send the replies of the shell channel past the stream that reads requests from the same
socket. A request that arrives just then is read with the next one at the earliest: the kernel is
idle, and a cell or a click waits for good (github.com/ipython/ipykernel/issues/1554). 7.4.0 sends
them through the stream, as done here, but answers widgets in the wrong place
(`pyproject.toml` leaves it out).

It stands in ``profile_default/startup`` of their ``IPYTHONDIR``.
"""

from __future__ import annotations

from typing import Any


def mend(kernel: Any) -> None:
    """Send replies of the shell channel through its stream."""
    manager, stream = kernel.shell_channel_thread.manager, kernel.shell_stream
    loop = manager._shell_channel_io_loop

    def send(message: Any) -> None:
        stream.send_multipart(message)
        stream.flush()

    manager._send_on_shell_channel = send  # for subshells to come
    loop.add_callback(lambda: manager._main_to_shell_channel.on_recv(loop, send))


if __name__ == "__main__":
    import ipykernel
    from IPython import get_ipython

    running = getattr(get_ipython(), "kernel", None)
    if running is not None and (7, 0) <= ipykernel.version_info[:2] < (7, 4):
        mend(running)
