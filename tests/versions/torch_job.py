"""A training job: `torch_loader` starts the job, allows each batch, and kills the job.

    python torch_job.py CHECKPOINT

Continues from the checkpoint if there is one. After each batch, it saves the ids of the rows used
so far with the state, prints a line, and waits for a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import odps_nb
import odps_nb.torch


def main(path: Path) -> None:
    odps = odps_nb.connect()
    dataset = odps_nb.torch.rows(
        odps.table("torch_rows").read(["id"]), seed=3, chunk_rows=50, buffer_rows=300
    )
    loader = odps_nb.torch.loader(dataset, batch_size=32, num_workers=2)
    learnt: list[int] = []
    if path.exists():
        saved = json.loads(path.read_text("utf-8"))
        learnt = saved["learnt"]
        loader.load_state_dict(saved["state"])
    for batch in loader:
        learnt += batch["id"].tolist()
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"learnt": learnt, "state": loader.state_dict()}), "utf-8")
        new.replace(path)
        print("learnt", flush=True)
        if sys.stdin.readline() != "on\n":
            return
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
