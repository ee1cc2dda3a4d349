"""A real notebook: an action shows its card in its own cell, and an interrupt ends its job."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from odps_nb.local.server.launch import LocalService

# Two kernels, each with its own Spark; in `make test`, test_actions.py interrupts an action.
pytestmark = [pytest.mark.spark, pytest.mark.kernel, pytest.mark.nightly]

# A kernel that ends also ends its JVM, which then leaves its temporary files behind.
STOP = """
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
ended = gateway.proc.wait()
"""
CELLS = {
    "start": "%load_ext odps_nb\n%odps connect\nimport time\nimport odps_nb, odps_nb.spark\n"
    "spark = odps_nb.spark.session('local[2]', spark_driver_memory='1g')",
    "frame": "%odps read orders -p ds=2024-01-01 --splits 4 -t spark -o frame",
    # Slow enough for a card on the fastest machine; the action is Spark's own.
    "action": "def rest(batches):\n    import time\n    for batch in batches:\n"
    "        time.sleep(0.05)\n        yield batch\n"
    "print(frame.mapInArrow(rest, frame.schema).count())",
    "other": "print('another cell')",
    "loaded": "odps_nb.spark.register(spark)\n"
    "loaded = spark.read.format('odps').option('partitions', 'ds=2024-01-01').load('orders')\n"
    "print(loaded.mapInArrow(rest, loaded.schema).count())",
    "quiet": "%odps read orders -p ds=2024-01-01 -q -t spark -o frame\n"
    "print(frame.mapInArrow(rest, frame.schema).count())",
    "status": "%odps status",
    "files": "import os\nprint(os.listdir())",
    "stop": STOP,
}


def environment(service: LocalService) -> dict[str, str]:
    return os.environ | service.environment


@pytest.fixture(scope="module")
def book(service: LocalService, tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell(text, id=name) for name, text in CELLS.items()]
    client = NotebookClient(
        made,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path_factory.mktemp("book"))}},
    )
    client.execute(env=environment(service))
    return made


def cards(book: nbformat.NotebookNode, name: str) -> list[str]:
    (cell,) = [cell for cell in book.cells if cell.id == name]
    pages = [one.data.get("text/html", "") for one in cell.outputs if "data" in one]
    return [page for page in pages if 'role="status"' in page]


def test_an_action_has_a_card_with_its_final_row_counts_in_its_cell(
    book: nbformat.NotebookNode,
) -> None:
    (card,) = cards(book, "action")
    assert "read local.orders" in card
    assert "done in" in card
    assert "231,072 rows" in card
    assert "complete" in card
    assert "verified" not in card
    assert "4 tasks" in card
    assert len(card) < 1500
    assert [name for name in CELLS if cards(book, name)] == ["start", "action", "loaded"]


def test_the_start_of_spark_is_displayed_on_a_card(book: nbformat.NotebookNode) -> None:
    (card,) = cards(book, "start")
    assert "start Spark" in card
    assert "done in" in card


def test_a_table_loaded_by_format_has_the_same_card(book: nbformat.NotebookNode) -> None:
    (card,) = cards(book, "loaded")
    assert "read local.orders" in card
    assert "done in" in card
    assert "231,072 rows" in card
    assert "complete" in card
    assert "verified" not in card


def test_a_spark_action_is_in_the_list_of_operations(book: nbformat.NotebookNode) -> None:
    (cell,) = [cell for cell in book.cells if cell.id == "status"]
    listed = cell.outputs[0].data["text/plain"]
    reads = [line for line in listed.splitlines() if "read local.orders" in line]
    assert ["done in" in line for line in reads] == [True, True]  # quiet reads are not listed


def test_a_notebook_with_spark_leaves_no_folder_next_to_it(book: nbformat.NotebookNode) -> None:
    (cell,) = [cell for cell in book.cells if cell.id == "files"]
    assert cell.outputs[0].text == "[]\n"


def test_a_saved_notebook_contains_no_secret(
    book: nbformat.NotebookNode, service: LocalService
) -> None:
    assert service.access_key not in json.dumps(book)


@pytest.fixture(scope="module")
def kernel(service: LocalService) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environment(service))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield manager, client
        run((manager, client), STOP)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def run(
    kernel: tuple[KernelManager, BlockingKernelClient], code: str, *, interrupt: bool = False
) -> tuple[str, list[dict]]:
    """Execute a cell; optionally interrupt it at its first rows. Return its status and messages."""
    manager, client = kernel
    message_id, published = client.execute(code), []
    while True:
        message = client.get_iopub_msg(timeout=110)
        if message["parent_header"].get("msg_id") != message_id:
            continue
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
        # Wait for a percentage: when the card appears on a slow machine, no row has arrived yet.
        if interrupt and " %" in message["content"].get("data", {}).get("text/plain", ""):
            manager.interrupt_kernel()
            interrupt = False
        published.append(message)
    while True:
        reply = client.get_shell_msg(timeout=60)
        if reply["parent_header"].get("msg_id") == message_id:
            return reply["content"]["status"], published


PREPARE = """
%load_ext odps_nb
import odps_nb, odps_nb.spark
odps = odps_nb.connect()
spark = odps_nb.spark.session("local[2]", spark_driver_memory="1g")
frame = odps_nb.spark.read(spark, odps, "orders", partitions="ds=2024-01-01", splits=4)

def halfway(batches):
    import time
    from pyspark import TaskContext

    for batch in batches:
        if TaskContext.get().partitionId() >= 2:
            time.sleep(600)
        yield batch
"""
AFTERWARDS = """
import time
tracker = spark.sparkContext.statusTracker()
while tracker.getActiveJobsIds():  # Spark says late that a job has ended; one that goes on, never
    time.sleep(0.02)
print(tracker.getActiveJobsIds(), [tracker.getJobInfo(n).status for n in
      tracker.getJobIdsForGroup(None)])
"""


def test_an_interrupt_ends_the_job_of_any_action_and_its_card_is_cancelled(
    kernel: tuple[KernelManager, BlockingKernelClient],
) -> None:
    status, published = run(kernel, PREPARE)
    assert status == "ok", published
    status, published = run(
        kernel, "frame.mapInArrow(halfway, frame.schema).count()", interrupt=True
    )
    assert status == "error"
    shown = [m for m in published if m["msg_type"] in ("display_data", "update_display_data")]
    last = shown[-1]["content"]["data"]["text/plain"]
    assert last.startswith("read local.orders: cancelled at ")
    _, published = run(kernel, AFTERWARDS)
    told = "".join(m["content"]["text"] for m in published if m["msg_type"] == "stream")
    assert told == "[] ['FAILED']\n"
