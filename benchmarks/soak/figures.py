"""Resources of a process, as reported by the system and by the kernel itself."""

from __future__ import annotations

import contextlib
import json
import stat
import time
from pathlib import Path

import psutil

from benchmarks.soak.front import Front

__all__ = ["take"]

# Runs in the kernel, after a garbage collection there and in the JVM, if there is one.
_PROBE = """
def _soak_probe():
    import ctypes, gc, json, sys, threading, comm, pyarrow
    from ipywidgets.widgets import widget
    from odps_nb.notebook.progress.operations import loaded_magics
    for _ in range(3):
        gc.collect()
    # memory that allocators keep for the next read is not a leak
    pyarrow.default_memory_pool().release_unused()
    getattr(ctypes.CDLL(None), "malloc_trim", int)(0)
    found = {
        "python objects": len(gc.get_objects()),
        "python blocks": sys.getallocatedblocks(),
        "arrow bytes": pyarrow.total_allocated_bytes(),
        "python threads": threading.active_count(),
        "widgets": len(widget._instances),
        "comms": len(comm.get_comm_manager().comms),
        "operations": len(loaded_magics().operations.all()),
    }
    session = globals().get("spark")
    if session is not None:
        runtime = session._jvm.java.lang.Runtime.getRuntime()
        for _ in range(2):
            runtime.gc()
        found["jvm heap bytes"] = runtime.totalMemory() - runtime.freeMemory()
    print(json.dumps(found))
_soak_probe()
del _soak_probe
"""


def take(front: Front, service_pid: int, folders: dict[str, Path]) -> dict[str, float]:
    """Return the current figures by name; names of byte figures end with ``bytes``."""
    found: dict[str, float] = {"at": time.time()}
    found |= {f"kernel {name}": value for name, value in json.loads(front.run(_PROBE)).items()}
    kernel, service = psutil.Process(front.pid), psutil.Process(service_pid)
    children = kernel.children(recursive=True)
    found["kernel children"] = len(children)
    found["service children"] = len(service.children(recursive=True))
    found |= _of_process("kernel", kernel) | _of_process("service", service)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):  # an idle worker of Spark has ended
            if child.name() == "java":
                found |= _of_process("jvm", child)
    for name, folder in folders.items():
        sizes = []
        for one in folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                if not stat.S_ISDIR((status := one.lstat()).st_mode):
                    sizes.append(status.st_size)
        found |= {f"{name} files": len(sizes), f"{name} files bytes": sum(sizes)}
    return found


def _of_process(name: str, process: psutil.Process) -> dict[str, float]:
    memory = process.memory_full_info()
    return {
        f"{name} rss bytes": memory.rss,
        f"{name} uss bytes": memory.uss,
        f"{name} threads": process.num_threads(),
        f"{name} file descriptors": process.num_fds(),
        f"{name} sockets": len(process.net_connections(kind="all")),
        f"{name} open files": len(process.open_files()),
    }
