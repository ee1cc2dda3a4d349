"""`make lab`: JupyterLab in ``notebooks/`` with the embedded service; Ctrl-C stops both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from _service import service_environment

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


def main() -> int:
    print("\n  starting the embedded service with sample tables …", flush=True)
    with service_environment() as environment:
        print("  open 01_quickstart.ipynb; %odps connect uses the service. Ctrl-C stops both.")
        print("  06_spark_pipeline.ipynb is a Spark pipeline from files to a gallery.\n")
        command = [sys.executable, "-m", "jupyterlab", "--ServerApp.ip=127.0.0.1"]
        command += [f"--ServerApp.root_dir={NOTEBOOKS}", *sys.argv[1:]]
        if os.geteuid() == 0:
            command.append("--allow-root")
        try:
            return subprocess.run(command, env=environment).returncode
        except KeyboardInterrupt:  # JupyterLab got the same Ctrl-C and has ended by now
            return 0


if __name__ == "__main__":
    raise SystemExit(main())
