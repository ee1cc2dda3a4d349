"""A process of `test_open_write`: receives commands and returns results as pickles in hexadecimal.

It shares no state with its caller, like a worker on another machine.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import Any

import pyarrow as pa

import odps_nb


def work(job: dict[str, Any]) -> Any:
    with odps_nb.connect(**job["connect"]) as odps:
        session = odps.table(job["table"]).open_write(session_id=job["session"])
        if job["do"] == "commit":
            return session.commit(job["streams"])
        if job["do"] == "abort":
            return session.abort()
        stream = session.open_stream(job["stream"], resume=job.get("resume", False))
        before = stream.rows
        stream.write(pa.table({"id": job["values"][before:]}))
        stream.flush()
        receipt = None if job["do"] == "leave open" else stream.close()
        if job["do"] != "write":
            os.kill(os.getpid(), signal.SIGKILL)
        return before, receipt


if __name__ == "__main__":
    answer = work(pickle.loads(bytes.fromhex(sys.argv[1])))
    print(pickle.dumps(answer).hex())
