"""What a started JVM says on stderr: its one notice is dropped, everything else arrives."""

from __future__ import annotations

import subprocess
import sys

CHILD = r"""
import os, sys
os.write(2, b"WARNING: Using incu")
os.write(2, b"bator modules: jdk.incubator.vector\nError: no room\nWARNING: some")
os.write(2, b"thing else\nlast line without end")
"""
PARENT = f"""
import subprocess, sys, threading
from odps_nb.spark._stderr import without_module_notice

with without_module_notice():
    child = subprocess.Popen([sys.executable, "-c", {CHILD!r}])
child.wait()
for thread in threading.enumerate():
    if thread.name == "odps_nb-jvm-stderr":
        thread.join(30)
        assert not thread.is_alive()
print("then ours", file=sys.stderr)
"""


def test_only_the_notice_of_incubator_modules_is_dropped() -> None:
    done = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True)
    said = "Error: no room\nWARNING: something else\nlast line without endthen ours\n"
    assert (done.returncode, done.stderr) == (0, said)


def test_a_process_without_stderr_starts_one_all_the_same() -> None:
    parent = "import os\nos.close(2)\n" + PARENT.replace("file=sys.stderr", "file=sys.stdout")
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "then ours\n")
