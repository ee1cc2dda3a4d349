"""Limits, defaults and names on pages equal those of the code."""

from __future__ import annotations

import inspect
import re

import pytest

import odps_nb
from odps_nb.access.binding import literals
from odps_nb.access.paging.ordering import MAX_SORTED, MORE_SORTED
from odps_nb.client import blob_cache
from odps_nb.client.blob.streamed import WAITING_BYTES
from odps_nb.client.calls.contact import FIRST_CONNECT, FIRST_SILENCE
from odps_nb.client.calls.new_tables import WAIT_SECONDS
from odps_nb.client.parallel.fan_out import DEFAULT_MAX_BYTES
from odps_nb.client.read.session import DEFAULT_SPLIT_BYTES, DEFAULT_SPLITS
from odps_nb.client.write.staging import LIFECYCLE_DAYS
from odps_nb.http.retry import RetryPolicy
from odps_nb.notebook.explore import explorer, exports, workbook
from odps_nb.notebook.explore.charts.read_figures import MAX_READ
from odps_nb.notebook.explore.choosing.search import MAX_EXPORTED_BYTES
from odps_nb.notebook.gallery import page, view
from odps_nb.notebook.magics.arguments import parser_of
from odps_nb.notebook.magics.commands import COMMANDS
from odps_nb.notebook.magics.magics import OdpsMagics
from odps_nb.spark.blobs import task as blob_task
from odps_nb.spark.reading.plan import BLOB_ROWS
from odps_nb.spark.writing import task as write_task
from tests.pages.test_inventory import pages
from tests.support.pages import ROOT

OPTIONS, POLICY = odps_nb.ClientOptions(), RetryPolicy()
CONFIRMED = OdpsMagics.class_traits()["confirm_above"].default_value
CACHE = f"{blob_cache.DEFAULT_LIMIT >> 30} GiB"
QUOTED = {
    "howto/look-at-a-table": [
        f"more than {explorer.ASK_BYTES >> 30} GiB",
        f"the first {MAX_SORTED:,} rows; a later page starts a job for the first {MORE_SORTED:,}",
        f"at most about {exports.MAX_FILE // 10**6} MB",
        f"above {MAX_EXPORTED_BYTES // 10**9} GB this is an error",
        f"SQL result of up to {MAX_READ // 10**6} MB",
    ],
    "howto/sql-and-parameters": [f"has at most {literals.MAX_VALUES:,} values"],
    "howto/memory": [
        f"({DEFAULT_MAX_BYTES >> 20} MiB by default)",
        f"more than {CONFIRMED >> 20} MiB only",
    ],
    "howto/retries-and-timeouts": [
        f"| `retries` | {OPTIONS.retries} |",
        f"| `deadline` | {OPTIONS.deadline:g} s |",
        f"| `connect_timeout` | {OPTIONS.connect_timeout:g} s |",
        f"| `read_timeout` | {OPTIONS.read_timeout:g} s |",
        f"| `connections` | {OPTIONS.connections} |",
        f"at most {FIRST_CONNECT:g} s for a connection (for each address of the host) and "
        f"{FIRST_SILENCE:g} s for the response",
        f"waits {POLICY.base:g} s before the first retry, and doubles the wait for each later "
        f"retry, up to {POLICY.cap:g} s",
        f"created it less than {WAIT_SECONDS:g} s ago",
    ],
    "howto/spark-on-a-cluster": [
        f"at most {DEFAULT_SPLIT_BYTES >> 20} MiB, smaller if cores would be idle, and at most "
        f"{DEFAULT_SPLITS:,}"
    ],
    "reference/settings": [f"`off` disables it; default: {CACHE}"],
    "blobs-in-spark": [
        f"at most {BLOB_ROWS} rows",
        f"buffers {blob_task.FETCHED_AHEAD // 10**6} MB of blobs for the function, "
        f"{blob_task.KEPT // 10**6} MB of blobs that several rows reference, and "
        f"{blob_task.BYTES_PER_BATCH // 10**6} MB of results",
    ],
    "scale": [
        f"at most {write_task.MAX_STREAMS:,} streams (as in the vendor's connector; by the tunnel "
        f"{write_task.MAX_TUNNEL_STREAMS})",
        f"up to {write_task.MAX_PARTITIONS} partitions (`max_partitions=`)",
        f"rejects blobs above {blob_task.LARGEST_VALUE // 10**6} MB",
        f"{blob_task.REFERENCES_PER_REQUEST} references each",
        f"buffer {WAITING_BYTES >> 20} MiB",
    ],
    "notebooks-elsewhere": [
        f"at most {page.MAX_TILES} tiles and {page.OUTPUT_BUDGET >> 20} MiB of images"
    ],
    "open-questions": [f"a request for up to {WAIT_SECONDS:g} s after `create_table`"],
    "decisions/blobs": [f"at most {CACHE} in total"],
    "decisions/explorer-and-gallery": [
        f"(Excel: {workbook.MAX_ROWS:,} rows)",
        f"confirmation above {view.ASK:,} blobs",
    ],
    "decisions/tunnel": [
        f"at most {write_task.MAX_TUNNEL_STREAMS} streams",
        f"a lifecycle of {('', 'one day', 'two days', 'three days')[LIFECYCLE_DAYS]}",
    ],
}
MEMBER = re.compile(r"`(Connection|Table|Scan|Result|Blob|BlobColumn|Profile)\.([a-z]\w*)\b(?!\.)")
OTHERS = {"Table.java", "Table.upload"}  # a file of the Java SDK; a method that was removed
MAGIC = re.compile(r"%%?odps (?!help\b)([a-z]+)\b([^`\n]*)")
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


@pytest.mark.parametrize("name", QUOTED)
def test_quoted_limits_and_defaults_are_those_of_the_code(name: str) -> None:
    text = " ".join((ROOT / "docs" / f"{name}.md").read_text("utf-8").split())
    assert [quoted for quoted in QUOTED[name] if quoted not in text] == []


def test_every_named_member_of_a_public_class_exists() -> None:
    named = {
        (one[1], one[2]) for path in pages() for one in MEMBER.finditer(path.read_text("utf-8"))
    }
    assert len(named) > 30
    missing = {
        f"{kind}.{name}"
        for kind, name in named
        if not hasattr(owner := getattr(odps_nb, kind), name)
        and name not in inspect.signature(owner).parameters
    }
    assert missing == OTHERS


def test_every_named_option_of_a_magic_exists() -> None:
    found = [one for path in pages() for one in MAGIC.finditer(path.read_text("utf-8"))]
    assert len(found) > 50
    for one in found:
        known = parser_of(COMMANDS[one[1]].run)._option_string_actions
        assert set(OPTION.findall(re.sub(r'"[^"]*"', "", one[2]))) <= set(known), one[0]
