"""Startup code for the kernels of tests and demos: a workaround for ipykernel 7.0 to 7.3.

These versions send replies on the shell channel directly to the socket, bypassing the stream that
reads requests from it. A request that arrives at that moment is read only with the next one, so a
cell or a click can wait forever (github.com/ipython/ipykernel/issues/1554). 7.4.0 sends replies
through the stream, as this code does, but sends replies to widgets in the wrong place, so
`pyproject.toml` excludes it. This file is copied to ``profile_default/startup`` in ``IPYTHONDIR``.
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

    manager._send_on_shell_channel = send  # for later subshells
    loop.add_callback(lambda: manager._main_to_shell_channel.on_recv(loop, send))


if __name__ == "__main__":
    import ipykernel
    from IPython import get_ipython

    running = getattr(get_ipython(), "kernel", None)
    if running is not None and (7, 0) <= ipykernel.version_info[:2] < (7, 4):
        mend(running)
