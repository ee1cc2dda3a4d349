"""An interrupt (I, I in JupyterLab) stops a running read and cleans up kernel and notebook.

The service stalls every split in its middle, so no read ends before it is interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

# by the tunnel, the first batch of the client has more bytes than those before the stall
pytestmark = pytest.mark.storage_api("its requests")

THREADS = """
import threading
print([t.name for t in threading.enumerate() if "odps" in t.name])
"""


@pytest.fixture(scope="module")
def kernel(faulty) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=os.environ | faulty.environment)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        run(client, "%load_ext odps_nb\n%odps connect")
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def run(
    client: BlockingKernelClient,
    code: str,
    *,
    on_output: Callable[[dict], None] = lambda message: None,
    on_any: Callable[[dict], None] = lambda message: None,
) -> tuple[dict, list[dict]]:
    """Execute a cell; return its reply and the messages that it published.

    ``on_output`` receives each message of this cell, ``on_any`` also those of other cells.
    """
    message_id = client.execute(code)
    published = []
    while True:
        message = client.get_iopub_msg(timeout=60)
        on_any(message)
        if message["parent_header"].get("msg_id") != message_id:
            continue
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
        published.append(message)
        on_output(message)
    while True:
        reply = client.get_shell_msg(timeout=60)
        if reply["parent_header"].get("msg_id") == message_id:
            return reply["content"], published


def printed(client: BlockingKernelClient, code: str) -> str:
    _, published = run(client, code)
    return "".join(m["content"]["text"] for m in published if m["msg_type"] == "stream")


def test_an_interrupt_stops_a_read_and_the_card_shows_the_progress(kernel, stalled):
    manager, client = kernel
    interrupted: list[dict] = []

    def interrupt_once_rows_are_there(message: dict) -> None:
        card = message["content"].get("data", {}).get("text/plain", "")
        if card.startswith("read local.orders: reading, ") and not interrupted:
            interrupted.append(message)
            manager.interrupt_kernel()

    # without the interrupt, the read would wait for ten minutes
    reply, published = run(
        client, "%odps read orders --all -o orders", on_output=interrupt_once_rows_are_there
    )
    assert reply["status"] == "error"
    assert reply["ename"] == "CancelledError"
    (error,) = [m for m in published if m["msg_type"] == "error"]
    assert len(error["content"]["traceback"]) <= 3
    assert "was interrupted" in error["content"]["traceback"][0]
    cards = [m for m in published if m["msg_type"] in ("display_data", "update_display_data")]
    last = cards[-1]["content"]["data"]
    assert "cancelled a" in last["text/html"]
    assert " 0 %" not in last["text/html"]
    assert last["text/plain"].startswith("read local.orders: cancelled a")
    assert printed(client, THREADS) in ("[]\n", "['odps-nb-names']\n")
    assert printed(client, "print('orders' in globals())") == "False\n"
    stalled()
    reply, _ = run(client, "%odps read orders -p ds=2024-01-01 -c id -q -o orders")
    assert reply["status"] == "ok"
    assert printed(client, "print(len(orders))") == "231072\n"


WAIT_FOR_ROWS = """
import time
listing = %odps status
while not listing.rows[-1][2].startswith("reading, "):
    time.sleep(0.01)
    listing = %odps status
print(listing.rows[-1][0])
"""


def test_a_background_read_is_cancelled_by_its_id_and_its_card_shows_this(kernel, stalled):
    _, client = kernel
    _, started = run(client, "%odps read orders --all --bg -o handle")
    placed = next(m["content"] for m in started if m["msg_type"] == "display_data")
    assert placed["data"]["text/plain"] == "read orders: creating session"
    seen: list[dict] = []
    number = printed(client, WAIT_FOR_ROWS)
    reply, _ = run(client, f"%odps cancel {number}", on_any=seen.append)
    assert reply["status"] == "ok"
    reply, _ = run(client, "handle.result(30)", on_any=seen.append)
    assert reply["ename"] == "CancelledError"
    run(client, "print(handle)", on_any=seen.append)
    updates = [m["content"] for m in seen if m["msg_type"] == "update_display_data"]
    cards = [one["data"] for one in updates if one["transient"] == placed["transient"]]
    assert "cancelled a" in cards[-1]["text/html"]
    (button,) = (one["data"] for one in updates if one["transient"] != placed["transient"])
    assert button == {"text/plain": ""}  # the thread was removed with the operation
    assert printed(client, "print(handle)") == "<read orders: cancelled>\n"
    assert printed(client, THREADS) in ("[]\n", "['odps-nb-names']\n")
    reply, _ = run(client, f"%odps cancel {number}")
    assert (reply["ename"], reply["status"]) == ("UsageError", "error")


def test_the_button_of_a_background_card_cancels(kernel, stalled):
    _, client = kernel
    _, started = run(client, "%odps read orders --all --bg -o handle")
    view = "application/vnd.jupyter.widget-view+json"
    shown = [m["content"]["data"] for m in started if m["msg_type"] == "display_data"]
    (button,) = (data[view]["model_id"] for data in shown if view in data)
    printed(client, WAIT_FOR_ROWS)
    click = {"method": "custom", "content": {"do": "cancel"}}
    client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": button, "data": click}))
    reply, _ = run(client, "handle.result(30)")
    assert reply["ename"] == "CancelledError"
